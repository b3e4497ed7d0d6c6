//! Runs a job on this machine: connects the leader (`engine`) to its only node (`node`).

use crate::cancel::Cancel;
use crate::engine::machine::OrderTarget;
use crate::engine::{
    self, ClaimError, JobFile, JobOnNode, LeaderOptions, Make, NodeHandle, PolicyUsed, RunningNode,
};
use crate::inference::NamedLibrary;
use crate::model::{MiniBatchId, WorkerId};
use crate::node::{self, NodeError, NodeJob, NodeOptions};
use crate::protocol::node::{InspectReport, InspectRequest, PlanOptions, PrepareRequest};
use crate::protocol::{NodeReport, Order, WorkersStanding};
use crate::spec::{Datastores, JobSpec, OperatorPolicy};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use engine::run;

/// Uploads the results of a completed job to the store that the job names, if it names one.
///
/// # Errors
/// If the policy does not allow the store, or if the results could not be uploaded.
pub fn upload_results(
    spec: &JobSpec,
    options: &Options,
    output: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), NodeError> {
    node::upload_results(spec, &options.node(), output, say)
}

/// A job that is ready to run on this machine.
pub type ReadyJob = engine::PreparedJob<JobHere>;

/// The outcome of preparing a job on this machine.
pub type Prepared = engine::PreparedOnNode<JobHere>;

/// Why a job cannot begin on this machine.
pub type PrepareError = engine::PreparationError<NodeError>;

/// Where and how to run a job. Create it with [`Options::new`].
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// The job directory; it is created if it does not exist.
    pub job_dir: PathBuf,
    /// The folder for compiled components; `None` means the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// The `sandmill` binary, for child processes.
    pub program: PathBuf,
    /// Whether to start anew if the job was run before. The earlier results are removed first.
    pub overwrite: bool,
    /// Whether to reuse the result of an earlier run, if nothing has changed since and the job file does not
    /// forbid it (`allow_reuse`).
    pub reuse: bool,
    /// Whether to wait while another process works in the job's output folder, and to continue the job then. For
    /// jobs with a `job_store`.
    pub standby: bool,
    /// The job file, for `sandmill resume`; `None` if no job file describes the whole job.
    pub job_file: Option<JobFile>,
    /// The path of ONNX Runtime's library, for jobs with models; `None` if it is unknown.
    pub onnxruntime: Option<NamedLibrary>,
    /// Cancels the preparation and the job. Pass it to [`run`], too.
    pub cancel: Cancel,
    /// The stores that inputs may name, with their credentials.
    pub datastores: Datastores,
    /// What the operator of this machine allows jobs to do; by default everything. The job file must be
    /// loaded [under the same policy](crate::load_under), so that defaults comply with it.
    pub policy: OperatorPolicy,
    /// The command line that started the job, for `job.json`; empty if another program started it.
    pub command: Vec<String>,
    /// Additional notices for the user, one line each, shown when the job starts.
    pub notices: Vec<String>,
}

impl Options {
    /// Options with a job directory and the `sandmill` binary, and defaults for the rest.
    pub fn new(job_dir: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        let job_dir = job_dir.into();
        let program = program.into();
        let cache_dir = None;
        let job_file = None;
        let onnxruntime = None;
        let cancel = Cancel::new();
        let policy = OperatorPolicy::default();
        Self {
            job_dir,
            cache_dir,
            program,
            overwrite: false,
            reuse: true,
            standby: false,
            job_file,
            onnxruntime,
            cancel,
            datastores: Datastores::default(),
            policy,
            command: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Returns the options that concern this machine.
    pub(crate) fn node(&self) -> NodeOptions {
        NodeOptions {
            cache_dir: self.cache_dir.clone(),
            program: self.program.clone(),
            onnxruntime: self.onnxruntime.clone(),
            cancel: self.cancel.clone(),
            datastores: self.datastores.clone(),
            policy: self.policy.clone(),
        }
    }

    /// The policy in the form in which a job records it.
    pub(crate) fn policy_used(&self) -> Option<PolicyUsed> {
        let (file, sha256) = self.policy.file().zip(self.policy.sha256())?;
        Some(PolicyUsed { file: file.to_owned(), sha256: sha256.to_owned() })
    }

    /// Returns the options that concern the leader.
    fn leader(&self, has_waited: bool) -> LeaderOptions {
        LeaderOptions {
            job_dir: self.job_dir.clone(),
            overwrite: self.overwrite,
            reuse: self.reuse,
            has_waited,
            job_file: self.job_file.clone(),
            command: self.command.clone(),
            policy: self.policy_used(),
            notices: self.notices.clone(),
        }
    }
}

/// Prepares a job. `say` receives messages for the user about steps that take long.
///
/// If an earlier run of the job did not complete, this function resumes it, but refuses the job if
/// something that decides its rows has changed. If the earlier run completed and nothing has changed, this
/// function reuses its result.
///
/// # Errors
/// If the job cannot begin.
pub fn prepare(
    spec: JobSpec,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Result<Prepared, PrepareError> {
    if options.standby {
        prepare_in_turn(&spec, options, say)
    } else {
        prepare_now(spec, options, false, say)
    }
}

/// Waits until no other process works in the job's output folder, then prepares the job.
fn prepare_in_turn(
    spec: &JobSpec,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Result<Prepared, PrepareError> {
    let mut has_waited = false;
    loop {
        has_waited |= engine::wait_for_turn(spec, &options.cancel, say)?;
        if let Some(reason) = options.cancel.reason() {
            return Err(PrepareError::Node(NodeError::Cancelled(reason)));
        }
        match prepare_now(spec.clone(), options, has_waited, say) {
            // Another standby was faster.
            Err(PrepareError::JobDir(ClaimError::OutputInUse(_) | ClaimError::Running { .. })) => {
                has_waited = true;
                std::thread::sleep(Duration::from_millis(500));
            }
            prepared => return prepared,
        }
    }
}

fn prepare_now(
    spec: JobSpec,
    options: &Options,
    has_waited: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Prepared, PrepareError> {
    let machine = MachineForJob { spec: spec.clone(), options: options.node() };
    engine::prepare(spec, &options.leader(has_waited), machine, say)
}

/// This machine, for one job.
struct MachineForJob {
    spec: JobSpec,
    options: NodeOptions,
}

impl NodeHandle for MachineForJob {
    type Error = NodeError;
    type Job = JobHere;

    fn prepare(
        self,
        ask: &PrepareRequest,
        say: &mut dyn FnMut(&str),
    ) -> Result<(crate::protocol::node::NodeFindings, JobHere), NodeError> {
        let (prepared, job) = node::prepare(self.spec, self.options, ask, say)?;
        Ok((prepared, JobHere(job)))
    }
}

/// The resources of this machine that a prepared job holds.
#[derive(Debug)]
pub struct JobHere(NodeJob);

impl JobOnNode for JobHere {
    type Error = NodeError;
    type Running = RunningHere;

    fn await_objects(&mut self, say: &mut dyn FnMut(&str)) {
        self.0.await_objects(say);
    }

    fn inspect_inputs(
        &mut self,
        ask: &InspectRequest,
        on_report: &mut dyn FnMut(InspectReport) -> ControlFlow<()>,
    ) -> Result<(), NodeError> {
        self.0.inspect_inputs(ask, on_report)
    }

    fn lease_gpus(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, NodeError> {
        self.0.lease_gpus(say)
    }

    fn start(&mut self, plan: &PlanOptions) -> Result<RunningHere, NodeError> {
        self.0.start(plan).map(RunningHere)
    }

    fn settle(&self, worker: WorkerId) {
        self.0.settle(worker);
    }

    fn give_models(&self) -> Result<(), NodeError> {
        self.0.give_models()
    }

    fn begin(&self, running: &mut RunningHere, start: Instant, first_worker: u32, is_new: bool) {
        self.0.begin(&mut running.0, start, first_worker, is_new);
    }

    fn finisher(&self) -> Arc<Make> {
        let finisher = self.0.finisher();
        Arc::new(move |source, target, rows, reported| {
            finisher.run(source, target, rows, reported).map_err(Into::into)
        })
    }
}

/// A running job on this machine.
#[derive(Debug)]
pub struct RunningHere(node::RunningJob);

impl OrderTarget for RunningHere {
    fn obey(&mut self, order: Order) -> Vec<NodeReport> {
        self.0.obey(order)
    }

    fn tick(&mut self) -> Vec<NodeReport> {
        self.0.tick()
    }

    fn standing(&self) -> WorkersStanding {
        self.0.standing()
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.0.next_deadline()
    }
}

impl RunningNode for RunningHere {
    type Error = NodeError;

    fn plan(&mut self) -> Result<(), NodeError> {
        self.0.plan()
    }

    fn watch(&mut self) -> Result<(), NodeError> {
        self.0.watch()
    }

    async fn next(&mut self, wants_plan: bool) -> Vec<NodeReport> {
        self.0.next(wants_plan).await
    }

    fn next_queued_reports(&mut self) -> Option<Vec<NodeReport>> {
        self.0.next_queued_reports()
    }

    fn may_pause(&mut self) -> bool {
        self.0.may_pause()
    }

    fn fetches_on_demand(&self) -> bool {
        self.0.fetches_on_demand()
    }

    fn request(&mut self, id: MiniBatchId, files: &[(u32, &str)]) {
        self.0.request(id, files);
    }

    fn release(&mut self, ids: &[MiniBatchId]) {
        self.0.release(ids);
    }

    fn mark_reclaimable(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        self.0.mark_reclaimable(worker, id, attempt);
    }

    fn flush(&mut self) {
        self.0.flush();
    }

    fn close(&mut self) {
        self.0.close();
    }

    fn end_watch(&mut self) {
        self.0.end_watch();
    }
}
