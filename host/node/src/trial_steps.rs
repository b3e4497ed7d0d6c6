//! Runs mini-batches one after another on an entry script, to check whether the SDK of its language keeps the
//! contract.

use crate::model::{Failure, FailureKind};
use crate::sandbox::{Instance, MiniBatchData, ResultSink, RunContext};
use sandmill_data::sample;
use serde::{Deserialize, Serialize};

/// A mini-batch, and how often the script gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialStep {
    /// The data of the mini-batch.
    pub data: StepData,
    /// The mini-batch number in the context.
    pub id: u64,
    /// The name of the input in the context.
    pub dataset: String,
    /// The attempt in the context.
    pub attempt: u32,
    /// The partition keys in the context.
    pub keys: Vec<(String, String)>,
    /// How often the script gets it; only the last result is kept.
    pub times: u32,
}

/// A table for the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrialTableKind {
    /// Every type of CSV columns, with nulls.
    Types,
    /// The same columns without rows.
    Empty,
    /// A null, and integers that floats of 64 bits cannot hold.
    Integers,
    /// 65 columns, more than a 64-bit word has bits.
    Wide,
}

/// The data of a mini-batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StepData {
    /// The paths of files, as the guest sees them.
    Files(Vec<String>),
    /// A table from [`sample`].
    Table(TrialTableKind),
    /// Nothing.
    Void,
}

/// The results of an instance from `init` to `shutdown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceResults {
    /// Why an instance did not start, or why `init` failed. `None` if all went well.
    pub init: Option<Failure>,
    /// The result of each step.
    pub steps: Vec<TrialResult>,
    /// Why `shutdown` failed. `None` if it succeeded or was not called.
    pub shutdown: Option<Failure>,
}

/// The result of a mini-batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialResult {
    /// The rows, and the reasons of failed items as errors, in the order in which they were returned.
    pub rows: Vec<Result<String, String>>,
    /// The rows of the returned table, each as `NAME=VALUE NAME=VALUE`, or why the table cannot be read.
    /// `None` if no table was returned.
    pub table: Option<Result<Vec<String>, String>>,
    /// Why the call failed. `None` if it succeeded.
    pub failure: Option<Failure>,
    /// The peak memory of the process so far, in bytes; 0 if the system does not report it.
    pub peak: u64,
}

impl TrialTableKind {
    /// The table as an Arrow IPC stream.
    fn ipc(self) -> Result<Vec<u8>, Failure> {
        let ipc = match self {
            Self::Types => sample::types(),
            Self::Empty => sample::empty(),
            Self::Integers => sample::integers(),
            Self::Wide => sample::wide(),
        };
        ipc.map_err(|error| Failure::new(FailureKind::HostFault, error.to_string()))
    }

    /// The rows of this table, formatted as in [`TrialResult::table`].
    ///
    /// # Errors
    /// If the table cannot be made.
    pub fn rows(self) -> Result<Vec<String>, String> {
        sample::rows(&self.ipc().map_err(|failure| failure.to_string())?)
    }
}

/// Runs the steps on instances from `make`. As in a worker, a new instance follows a failure that
/// breaks the old one.
pub(super) fn run_steps(
    make: &dyn Fn() -> Result<Instance, Failure>,
    steps: &[TrialStep],
) -> InstanceResults {
    let mut results = InstanceResults::default();
    let mut instance = match start_instance(make) {
        Ok(instance) => instance,
        Err(failure) => return InstanceResults { init: Some(failure), ..results },
    };
    for step in steps {
        let mut step_result = TrialResult::default();
        for _ in 0..step.times {
            step_result = run_once(&mut instance, step);
            if step_result.failure.is_some() {
                break;
            }
        }
        let is_broken =
            step_result.failure.as_ref().is_some_and(|failure| failure.kind.breaks_instance());
        results.steps.push(step_result);
        if is_broken {
            instance = match start_instance(make) {
                Ok(instance) => instance,
                Err(failure) => return InstanceResults { init: Some(failure), ..results },
            };
        }
    }
    results.shutdown = instance.shutdown().1.err();
    results
}

fn start_instance(make: &dyn Fn() -> Result<Instance, Failure>) -> Result<Instance, Failure> {
    let mut instance = make()?;
    instance.init().1?;
    Ok(instance)
}

fn run_once(instance: &mut Instance, step: &TrialStep) -> TrialResult {
    let mut step_result = TrialResult::default();
    let table;
    let data = match &step.data {
        StepData::Files(paths) => MiniBatchData::Files(paths),
        StepData::Void => MiniBatchData::Void,
        StepData::Table(kind) => match kind.ipc() {
            Ok(ipc) => {
                table = [ipc.into()];
                MiniBatchData::Table(&table)
            }
            Err(failure) => return TrialResult { failure: Some(failure), ..step_result },
        },
    };
    let context = RunContext {
        id: step.id,
        dataset: &step.dataset,
        attempt: step.attempt,
        partition_key_value: &step.keys,
    };
    let (_, result) = instance.run(data, &context, &mut step_result);
    step_result.failure = result.err();
    step_result.peak = peak();
    step_result
}

/// The peak memory of this process, in bytes.
fn peak() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the pointer's target, or fails.
    let filled = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } == 0;
    if !filled {
        return 0;
    }
    // SAFETY: the call has filled it.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
}

impl ResultSink for TrialResult {
    fn row(&mut self, row: &str) {
        self.rows.push(Ok(row.to_owned()));
    }

    fn failed(&mut self, _: usize, reason: &str) {
        self.rows.push(Err(reason.to_owned()));
    }

    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        self.table = Some(sample::rows(ipc));
        Ok(())
    }
}
