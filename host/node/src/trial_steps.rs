//! Mini-batches that an entry script gets one after another, to check whether its language SDK keeps the
//! contract.

use crate::model::{Failure, FailureKind};
use crate::sandbox::{Instance, MiniBatchData, ResultSink, RunContext};
use sandmill_data::sample;
use serde::{Deserialize, Serialize};

/// A mini-batch, and how often the script gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialStep {
    /// Its data.
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
    /// 65 columns: more than a word has bits.
    Wide,
}

/// The data of a mini-batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StepData {
    /// Files, as the guest sees them.
    Files(Vec<String>),
    /// A table of [`sample`].
    Table(TrialTableKind),
    /// Nothing.
    Void,
}

/// The results of an instance from `init` to `shutdown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceResults {
    /// Why the instance did not start, or `init` failed.
    pub init: Option<Failure>,
    /// The result of each step.
    pub steps: Vec<TrialResult>,
    /// Why `shutdown` failed.
    pub shutdown: Option<Failure>,
}

/// The result of a mini-batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Rows, and failed items with their reasons, in the order in which they came.
    pub rows: Vec<Result<String, String>>,
    /// The rows of the returned table, each as `NAME=VALUE NAME=VALUE`; or why it cannot be read.
    pub table: Option<Result<Vec<String>, String>>,
    /// Why the call failed.
    pub failure: Option<Failure>,
    /// The peak memory of the process so far, in bytes; 0 if the system does not report it.
    pub peak: u64,
}

impl TrialTableKind {
    fn ipc(self) -> Result<Vec<u8>, Failure> {
        let made = match self {
            Self::Types => sample::types(),
            Self::Empty => sample::empty(),
            Self::Wide => sample::wide(),
        };
        made.map_err(|error| Failure::new(FailureKind::HostFault, error.to_string()))
    }

    /// The rows of this table, formatted as in [`TrialResult::table`].
    ///
    /// # Errors
    /// If the table cannot be made.
    pub fn rows(self) -> Result<Vec<String>, String> {
        sample::rows(&self.ipc().map_err(|failure| failure.to_string())?)
    }
}

/// Runs the steps on instances from `make`. As in a worker, a failure that breaks an instance is followed by
/// a new instance.
pub(super) fn live(
    make: &dyn Fn() -> Result<Instance, Failure>,
    steps: &[TrialStep],
) -> InstanceResults {
    let mut lived = InstanceResults::default();
    let mut instance = match begin(make) {
        Ok(instance) => instance,
        Err(failure) => return InstanceResults { init: Some(failure), ..lived },
    };
    for step in steps {
        let mut came = TrialResult::default();
        for _ in 0..step.times {
            came = take(&mut instance, step);
            if came.failure.is_some() {
                break;
            }
        }
        let is_broken = came.failure.as_ref().is_some_and(|it| it.kind.breaks_instance());
        lived.steps.push(came);
        if is_broken {
            instance = match begin(make) {
                Ok(instance) => instance,
                Err(failure) => return InstanceResults { init: Some(failure), ..lived },
            };
        }
    }
    lived.shutdown = instance.shutdown().1.err();
    lived
}

fn begin(make: &dyn Fn() -> Result<Instance, Failure>) -> Result<Instance, Failure> {
    let mut instance = make()?;
    instance.init().1?;
    Ok(instance)
}

fn take(instance: &mut Instance, step: &TrialStep) -> TrialResult {
    let mut came = TrialResult::default();
    let table;
    let data = match &step.data {
        StepData::Files(paths) => MiniBatchData::Files(paths),
        StepData::Void => MiniBatchData::Void,
        StepData::Table(kind) => match kind.ipc() {
            Ok(ipc) => {
                table = [ipc.into()];
                MiniBatchData::Table(&table)
            }
            Err(failure) => return TrialResult { failure: Some(failure), ..came },
        },
    };
    let context = RunContext {
        id: step.id,
        dataset: &step.dataset,
        attempt: step.attempt,
        partition_key_value: &step.keys,
    };
    let (_, result) = instance.run(data, &context, &mut came);
    came.failure = result.err();
    came.peak = peak();
    came
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
