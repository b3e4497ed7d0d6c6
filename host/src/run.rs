//! Runs a job: connects the leader (`engine`) to this machine (`node`), and to other ones through a broker
//! (`nodes`).

mod publish;
mod turn;

use crate::bus::{Broker, Bus, BusError, SigningKey};
use crate::cancel::Cancel;
use crate::engine::machine::OrderTarget;
use crate::engine::{
    self, BeginRequest, ClaimError, JobFile, JobOnNode, LeaderOptions, LogStore, Make, NodeHandle,
    PolicyUsed, RemoteWork, RunningNode, StartRequest, folder_objects,
};
use crate::inference::NamedLibrary;
use crate::load::host_name;
use crate::model::{Address, JobDir, MiniBatchId, NodeId, TableFormat, UploadedData, WorkerId};
use crate::node::{self, NodeError, NodeJob, NodeOptions, NodeRole};
use crate::nodes::{
    Assignment, GrantedObjects, LeadAnnouncer, LeadKeeper, LeaderIdentity, Leadership, RemoteNodes,
};
use crate::protocol::node::{InspectReport, InspectRequest, PrepareRequest};
use crate::protocol::{NodeReport, NodeReports, Order, WorkersStanding};
use crate::spec::{Datastores, JobSpec, JobStorePlace, OperatorPolicy};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use engine::run;
pub use publish::upload_results;

/// Uploads what only this machine has of a job into its store. Returns what replaces the paths of this machine.
///
/// # Errors
/// If the policy forbids the store, if a file cannot be read or changes meanwhile, or if the store cannot be written.
pub(crate) fn upload_data(
    spec: &JobSpec,
    place: &JobStorePlace,
    options: &Options,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<UploadedData>, PrepareError> {
    let of_node = options.node();
    // Checks that the store is there.
    job_objects(spec, place, &of_node)?;
    node::upload_data(spec, (place, &options.job_dir), &of_node, say).map_err(PrepareError::Node)
}

/// The objects of a job in its store.
pub(crate) fn job_objects(
    spec: &JobSpec,
    place: &JobStorePlace,
    options: &NodeOptions,
) -> Result<Arc<dyn LogStore>, PrepareError> {
    Ok(match place {
        // Otherwise a shared folder that is not mounted would be made.
        JobStorePlace::Folder(folder) if !folder.is_dir() => {
            return Err(ClaimError::NoJobStore(folder.clone()).into());
        }
        JobStorePlace::Folder(folder) => folder_objects(folder, &spec.name)?,
        JobStorePlace::Address(address) => {
            Arc::new(node::job_objects(spec, address, options).map_err(PrepareError::Node)?)
        }
    })
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
    /// The broker through which other machines run the job's workers. `None` if this machine runs them. The job
    /// file must be loaded [for a broker](crate::spec::MachineSize::has_broker), too.
    pub broker: Option<Broker>,
    /// The key with which the leader signs what other machines execute. `None` if it signs nothing. Without a
    /// broker, it has no effect.
    pub signing_key: Option<SigningKey>,
    /// How long a node on another machine may be silent. Then its mini-batches run elsewhere.
    pub node_timeout: Duration,
    /// Whether an agent continues the job if this process is lost. For jobs with a `broker`.
    pub takeover: bool,
    /// Tells agents that this process leads a job whose results it still writes to a store.
    pub(crate) lead_keeper: LeadKeeper,
    /// Set if an agent started this process to lead the job.
    pub(crate) assignment: Option<Assignment>,
    /// What the operator of this machine allows jobs to do; by default everything. The job file must be
    /// loaded [under the same policy](crate::load_under), so that defaults comply with it.
    pub policy: OperatorPolicy,
    /// The command line that started the job, for `job.json`; empty if another program started it.
    pub command: Vec<String>,
    /// Additional notices for the user, one line each, shown when the job starts.
    pub notices: Vec<String>,
}

impl Options {
    /// The default of [`node_timeout`](Self::node_timeout).
    pub const NODE_TIMEOUT: Duration = Duration::from_secs(10);

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
            broker: None,
            signing_key: None,
            node_timeout: Self::NODE_TIMEOUT,
            takeover: true,
            lead_keeper: LeadKeeper::default(),
            assignment: None,
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

    /// How this process presents itself to agents.
    fn leadership(&self) -> Leadership {
        let assignment = self.assignment.clone();
        Leadership {
            machine: assignment.as_ref().map_or_else(host_name, |by| by.machine.clone()),
            agent: assignment.as_ref().map(|by| by.agent.clone()),
            submission: assignment.and_then(|by| by.submission),
            may_be_replaced: self.takeover,
        }
    }

    /// The key that signs the job. `None` without a broker.
    fn signer(&self) -> Option<&SigningKey> {
        self.signing_key.as_ref().filter(|_| self.broker.is_some())
    }

    /// Returns the options that concern the leader.
    fn leader(&self, has_waited: bool) -> LeaderOptions {
        LeaderOptions {
            job_dir: self.job_dir.clone(),
            overwrite: self.overwrite,
            reuse: self.reuse,
            has_waited,
            take_over: self.assignment.as_ref().and_then(|by| by.take_over.clone()),
            by_agent: self.assignment.is_some(),
            job_file: self.job_file.clone(),
            command: self.command.clone(),
            policy: self.policy_used(),
            remote_workers: self.broker.is_some(),
            signer: self.signer().map(SigningKey::public),
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
        turn::prepare_in_turn(&spec, options, say)
    } else {
        prepare_now(spec, options, false, say)
    }
}

fn prepare_now(
    spec: JobSpec,
    options: &Options,
    has_waited: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Prepared, PrepareError> {
    let machine = MachineForJob {
        spec: spec.clone(),
        options: options.node(),
        broker: options.broker.clone(),
        signer: options.signer().cloned(),
        node_timeout: options.node_timeout,
        leadership: options.leadership(),
        keeper: spec.upload.is_some().then(|| options.lead_keeper.clone()),
    };
    engine::prepare(spec, &options.leader(has_waited), machine, say)
}

/// This machine, for one job, and the broker through which it reaches others.
struct MachineForJob {
    spec: JobSpec,
    options: NodeOptions,
    broker: Option<Broker>,
    signer: Option<SigningKey>,
    node_timeout: Duration,
    leadership: Leadership,
    /// See [`JobHere::keeper`].
    keeper: Option<LeadKeeper>,
}

impl NodeHandle for MachineForJob {
    type Error = NodeError;
    type Job = JobHere;

    fn prepare(
        self,
        ask: &PrepareRequest,
        say: &mut dyn FnMut(&str),
    ) -> Result<(crate::protocol::node::NodeFindings, JobHere), NodeError> {
        // First of all, because this is quick.
        let connect = |broker| {
            Ok(Buses {
                nodes: Bus::connect(&broker, "leader")?,
                news: Bus::connect(&broker, "leader-news")?,
                leadership: self.leadership,
            })
        };
        let buses = self.broker.map(connect).transpose();
        let buses = buses.map_err(|error: BusError| NodeError::Broker(Box::new(error)))?;
        let mut ask = ask.clone();
        ask.begins &= buses.is_none();
        let options = self.options.clone();
        let (prepared, job) = node::prepare(self.spec, self.options, &ask, say)?;
        let logs = JobDir::new(ask.job_dir).logs();
        let Self { signer, node_timeout, keeper, .. } = self;
        Ok((prepared, JobHere { job, options, buses, signer, logs, node_timeout, keeper }))
    }
}

/// The connections of a leader to other machines.
#[derive(Debug)]
struct Buses {
    nodes: Bus,
    /// For the news to all agents. They must not wait for large messages.
    news: Bus,
    leadership: Leadership,
}

/// The resources of this machine that a prepared job holds.
#[derive(Debug)]
pub struct JobHere {
    job: NodeJob,
    options: NodeOptions,
    /// The connections to other machines, which then run the workers.
    buses: Option<Buses>,
    /// The key that signs the job. `None` if it is not signed.
    signer: Option<SigningKey>,
    /// The log tree of the job directory.
    logs: PathBuf,
    node_timeout: Duration,
    /// What tells other machines that this one leads the job, until the results are in a store. `None` if they need not
    /// go there.
    keeper: Option<LeadKeeper>,
}

impl JobHere {
    /// Connects the job to nodes on other machines.
    fn connect(&mut self, buses: Buses, work: RemoteWork) -> Result<RemoteNodes, NodeError> {
        let failed = |error: BusError| NodeError::Broker(Box::new(error));
        let Buses { nodes, news, mut leadership } = buses;
        // All agents can read what another leader must know of the job.
        let is_secret = self.signer.is_some() && !work.job_file.overrides.is_empty();
        leadership.may_be_replaced &= !is_secret;
        let leader = LeaderIdentity::new(self.signer.take());
        let leader = leader.map_err(|error| NodeError::Broker(Box::new(error)))?;
        let spill = self.job.planner_folder().to_owned();
        self.job.share(work.folder.clone(), NodeRole::Plans);
        let patience = self.node_timeout;
        let announcer = LeadAnnouncer::start(news, &work, leadership, patience);
        let announcer = announcer.map_err(|error| failed(BusError::Thread(error)))?;
        let announcer = (announcer, self.keeper.take());
        let work = (work, GrantedObjects::new(self.job.sources()), spill);
        RemoteNodes::new(nodes, announcer, work, leader, self.logs.clone(), patience)
            .map_err(failed)
    }
}

impl JobOnNode for JobHere {
    type Error = NodeError;
    type Running = RunningHere;

    fn await_objects(&mut self, say: &mut dyn FnMut(&str)) {
        self.job.await_objects(say);
    }

    fn inspect_inputs(
        &mut self,
        ask: &InspectRequest,
        on_report: &mut dyn FnMut(InspectReport) -> ControlFlow<()>,
    ) -> Result<(), NodeError> {
        self.job.inspect_inputs(ask, on_report)
    }

    fn job_objects(
        &self,
        spec: &JobSpec,
        address: &Address,
    ) -> Result<Arc<dyn LogStore>, NodeError> {
        Ok(Arc::new(node::job_objects(spec, address, &self.options)?))
    }

    fn lease_gpus(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, NodeError> {
        // If other machines run the workers, they use their own GPUs.
        if self.buses.is_some() { Ok(Vec::new()) } else { self.job.lease_gpus(say) }
    }

    fn start(&mut self, request: &StartRequest) -> Result<RunningHere, NodeError> {
        let remote = self.buses.take().zip(request.remote.clone());
        let remote = remote.map(|(buses, work)| self.connect(buses, work)).transpose()?;
        Ok(RunningHere { running: self.job.start(&request.plan)?, remote })
    }

    fn settle(&self, worker: WorkerId) {
        self.job.settle(worker);
    }

    fn give_models(&self) -> Result<(), NodeError> {
        self.job.give_models()
    }

    fn begin(&self, here: &mut RunningHere, request: BeginRequest) {
        let BeginRequest { start, first_worker, is_new, epoch, done } = request;
        match &mut here.remote {
            Some(remote) => remote.begin(epoch, done),
            None => self.job.begin(&mut here.running, start, first_worker, is_new),
        }
    }

    fn finisher(&self) -> Arc<Make> {
        let finisher = self.job.finisher();
        Arc::new(move |source, target, rows, reported| {
            finisher.run(source, target, rows, reported).map_err(Into::into)
        })
    }
}

/// A job that this machine plans. It also runs the workers, unless other machines do.
#[derive(Debug)]
pub struct RunningHere {
    running: node::RunningJob,
    /// The machines that run the workers, if they are others.
    remote: Option<RemoteNodes>,
}

impl OrderTarget for RunningHere {
    fn first_nodes(&self) -> Vec<(NodeId, u32)> {
        match self.remote {
            Some(_) => Vec::new(),
            None => vec![(NodeId::ONLY, self.running.workers())],
        }
    }

    fn obey(&mut self, node: NodeId, order: Order) -> Vec<NodeReport> {
        match &mut self.remote {
            Some(remote) => {
                remote.order(node, order);
                Vec::new()
            }
            None => self.running.obey(order),
        }
    }

    fn tick(&mut self) -> Vec<NodeReports> {
        match self.remote {
            // Other machines watch the time themselves.
            Some(_) => Vec::new(),
            None => vec![NodeReports::of_only_node(self.running.tick())],
        }
    }

    fn standing(&self, _: NodeId) -> Option<WorkersStanding> {
        self.remote.is_none().then(|| self.running.standing())
    }

    fn next_deadline(&self) -> Option<Duration> {
        match self.remote {
            Some(_) => None,
            None => self.running.next_deadline(),
        }
    }
}

impl RunningNode for RunningHere {
    type Error = NodeError;

    fn plan(&mut self) -> Result<(), NodeError> {
        self.running.plan()
    }

    fn watch(&mut self) -> Result<(), NodeError> {
        if self.remote.is_none() { self.running.watch() } else { Ok(()) }
    }

    fn know_tables(&mut self, tables: &[TableFormat]) {
        match &mut self.remote {
            Some(remote) => remote.know_tables(tables),
            None => self.running.know_tables(tables.to_vec()),
        }
    }

    async fn next(&mut self, wants_plan: bool) -> NodeReports {
        let Some(remote) = &mut self.remote else {
            return NodeReports::of_only_node(self.running.next(wants_plan).await);
        };
        loop {
            let wants_plan = wants_plan && remote.has_room_for_plan();
            tokio::select! {
                biased;
                reports = self.running.next(wants_plan) => {
                    let reports = remote.planned(reports);
                    if !reports.is_empty() {
                        return NodeReports::of_only_node(reports);
                    }
                }
                reports = remote.next() => return reports,
            }
        }
    }

    fn next_queued_reports(&mut self) -> Option<NodeReports> {
        match &mut self.remote {
            Some(remote) => remote.next_queued(),
            None => self.running.next_queued_reports().map(NodeReports::of_only_node),
        }
    }

    fn pause(&mut self) -> Option<Duration> {
        match &mut self.remote {
            Some(remote) => remote.pause(),
            None => self.running.pause(),
        }
    }

    fn fetches_on_demand(&self) -> bool {
        match &self.remote {
            Some(remote) => remote.have_objects(),
            None => self.running.fetches_on_demand(),
        }
    }

    fn request(&mut self, id: MiniBatchId, files: &[(u32, &str)]) {
        match &mut self.remote {
            Some(remote) => remote.find_objects(id, files),
            None => self.running.request(id, files),
        }
    }

    fn release(&mut self, ids: &[MiniBatchId]) {
        match &mut self.remote {
            Some(remote) => remote.forget_objects(ids),
            None => self.running.release(ids),
        }
    }

    fn mark_reclaimable(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        match &mut self.remote {
            Some(remote) => remote.mark_reclaimable(worker, id, attempt),
            None => self.running.mark_reclaimable(worker, id, attempt),
        }
    }

    fn flush(&mut self) {
        match &mut self.remote {
            Some(remote) => remote.flush(),
            None => self.running.flush(),
        }
    }

    fn is_cut_off(&self) -> bool {
        self.remote.as_ref().is_some_and(RemoteNodes::is_cut_off)
    }

    fn close(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.close();
        }
        self.running.close();
    }

    fn end_watch(&mut self) {
        match &mut self.remote {
            Some(remote) => remote.collect_logs(),
            None => self.running.end_watch(),
        }
    }
}
