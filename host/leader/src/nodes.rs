//! The leader's requests to the machines that run a job: to prepare the job, and to run it. The crate that
//! connects leader and nodes implements these traits. On one machine, the requests are direct calls.

use super::commit::Make;
use super::job_state::JobFile;
use super::machine::OrderTarget;
use crate::model::{Address, ContentRef, JobDir, MiniBatchId, MiniBatchSet, TableFormat, WorkerId};
use crate::protocol::NodeReports;
use crate::protocol::node::{
    InspectReport, InspectRequest, ListedInputs, NodeFindings, PlanOptions, PrepareRequest,
};
use crate::spec::JobSpec;
use sandmill_commit_log::LogStore;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A machine that a job is to run on.
pub trait NodeHandle {
    /// Why the machine cannot do what the leader asked.
    type Error: Error + 'static;
    /// What the machine holds for a job that it has prepared.
    type Job: JobOnNode<Error = Self::Error>;

    /// Finds and checks everything that the job needs of the machine, except GPUs. Writes nothing to the job
    /// directory. `say` receives lines for the user about steps that take time.
    ///
    /// # Errors
    /// If the machine lacks something that the job needs, or does not allow it.
    fn prepare(
        self,
        request: &PrepareRequest,
        say: &mut dyn FnMut(&str),
    ) -> Result<(NodeFindings, Self::Job), Self::Error>;
}

/// What a node needs to start a job.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// How the inputs will be planned.
    pub plan: PlanOptions,
    /// What other machines must know to run the workers. `None` if the workers run on this machine.
    pub remote: Option<RemoteWork>,
}

/// What machines that run workers of a job must know of it.
#[derive(Clone, Debug)]
pub struct RemoteWork {
    /// The job's name.
    pub job: String,
    /// The id of the run.
    pub run: String,
    /// The folder for the files of all workers. It is in the job's store, so all machines can reach it. If the store is at
    /// an address, the folder is the leader's job directory, and other machines have folders of their own.
    pub folder: JobDir,
    /// Whether all machines can reach the folder.
    pub is_folder_shared: bool,
    /// Whether rows stay in the part files until the job's end.
    pub keeps_rows: bool,
    /// The job's objects in its store.
    pub objects: Arc<dyn LogStore>,
    /// The job's folder or address in its store. All machines have the same one.
    pub store: String,
    /// The job store, as the job file names it.
    pub place: String,
    /// The job's tenant.
    pub tenant: String,
    /// What other machines need of the job, in its store.
    pub source: ContentRef,
    /// The job file.
    pub job_file: JobFile,
    /// The SHA-256 of the job file's text, in hexadecimal.
    pub job_file_sha256: String,
    /// The SHA-256 of the entry script's component, in hexadecimal.
    pub component: String,
    /// The names and values of the settings that decide the job's rows.
    pub settings: Vec<(String, String)>,
    /// The libraries that may compute with models, with their versions. Empty if the job has no models.
    pub backends: Vec<String>,
    /// Whether nodes may have other libraries, or other devices than each other.
    pub allow_mixed: bool,
    /// The number of machines that the job asks for.
    pub node_count: u32,
    /// What was found in the stores of the inputs.
    pub listed: ListedInputs,
}

/// How a node begins to run a job.
#[derive(Clone, Debug)]
pub struct BeginRequest {
    /// When the job begins.
    pub start: Instant,
    /// The number of the first worker, if the workers run on this machine.
    pub first_worker: u32,
    /// Whether no worker has run before.
    pub is_new: bool,
    /// The number of the record with which this leader began in the commit log. A later leader has a higher
    /// number. 0 without a log.
    pub epoch: u64,
    /// The mini-batches that ended in earlier runs.
    pub done: MiniBatchSet,
}

/// A job that a machine has prepared.
pub trait JobOnNode {
    /// Why the machine cannot do what the leader asked.
    type Error: Error + 'static;
    /// What runs the job on the machine.
    type Running: RunningNode<Error = Self::Error>;

    /// Waits until all prefetched objects of stores have arrived. Afterwards, [`inspect_inputs`](Self::inspect_inputs) does not
    /// have to wait for them.
    fn await_objects(&mut self, say: &mut dyn FnMut(&str));

    /// Plans the job without running it, and inspects its files. Passes the findings to `on_report`, until
    /// `on_report` returns `Break`.
    ///
    /// # Errors
    /// If the inputs cannot be planned, or the planner is silent for too long.
    fn inspect_inputs(
        &mut self,
        request: &InspectRequest,
        on_report: &mut dyn FnMut(InspectReport) -> ControlFlow<()>,
    ) -> Result<(), Self::Error>;

    /// Opens the objects of the job in its [store](JobSpec::job_store), which is at this address.
    ///
    /// # Errors
    /// If the store cannot be opened, or the machine does not allow it.
    fn job_objects(
        &self,
        spec: &JobSpec,
        address: &Address,
    ) -> Result<Arc<dyn LogStore>, Self::Error>;

    /// Leases the GPUs that the job may use. Returns notices about them for the user, one line each.
    ///
    /// # Errors
    /// If the free GPUs cannot be determined.
    fn lease_gpus(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, Self::Error>;

    /// Sets up what runs the job. Nothing runs yet.
    ///
    /// # Errors
    /// If leftovers of an earlier run are in the way, or if other machines cannot be reached.
    fn start(&mut self, request: &StartRequest) -> Result<Self::Running, Self::Error>;

    /// Cleans up after a worker whose leader was killed, as that leader would have done at the worker's end.
    fn settle(&self, worker: WorkerId);

    /// Puts models where workers find them.
    ///
    /// # Errors
    /// If a model has changed since the node inspected it, or the disk has no room for it.
    fn give_models(&self) -> Result<(), Self::Error>;

    /// Begins to run the job.
    fn begin(&self, running: &mut Self::Running, request: BeginRequest);

    /// Returns the function that makes the output file, for a format whose files do not consist of lines.
    fn finisher(&self) -> Arc<Make>;
}

/// A machine that is running a job. Each call does its work before it returns. The caller must process the
/// machine's messages in their order.
pub trait RunningNode: OrderTarget {
    /// Why the machine cannot do what the leader asked.
    type Error: Error + 'static;

    /// Starts the planner, which cuts the inputs into mini-batches.
    ///
    /// # Errors
    /// If the planner's process cannot be started.
    fn plan(&mut self) -> Result<(), Self::Error>;

    /// Begins to monitor the resources that workers use.
    ///
    /// # Errors
    /// If the monitoring cannot start.
    fn watch(&mut self) -> Result<(), Self::Error>;

    /// Passes on how tables are read, if an earlier leader has found it.
    fn know_tables(&mut self, tables: &[TableFormat]);

    /// Waits for the next event on the machine. Reads the planner only if `wants_plan`. The future can be
    /// dropped while it waits: no message is lost.
    fn next(&mut self, wants_plan: bool) -> impl Future<Output = NodeReports>;

    /// The next message that a worker or a node has already sent, if there is one.
    fn next_queued_reports(&mut self) -> Option<NodeReports>;

    /// How long the leader should pause now. `None` if no worker has sent something since the last call, or if a
    /// worker would run out of work.
    fn pause(&mut self) -> Option<Duration>;

    /// Whether objects of stores are fetched only when a mini-batch needs them.
    fn fetches_on_demand(&self) -> bool;

    /// Requests these files for a mini-batch, each with the index of its source. `NodeReport::Fetched`
    /// reports when they have been fetched.
    fn request(&mut self, id: MiniBatchId, files: &[(u32, &str)]);

    /// Notifies the node that these mini-batches no longer need their objects.
    fn release(&mut self, ids: &[MiniBatchId]);

    /// Reports that the rows of this attempt, and of all attempts that its worker reported before, are in the
    /// output.
    fn mark_reclaimable(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32);

    /// Sends the queued messages to workers.
    fn flush(&mut self);

    /// Whether the leader has not been able to reach nodes on other machines for some seconds, although they may be
    /// fine.
    fn is_cut_off(&self) -> bool;

    /// Ends the job: no further process is started for it.
    fn close(&mut self);

    /// Takes the last sample of the resources that workers use.
    fn end_watch(&mut self);
}
