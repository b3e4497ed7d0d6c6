//! What the leader asks of the machine that a job is to run on, while it prepares the job and while it runs it. Whoever joins leader and node
//! implements it; on one machine these are direct calls.

use super::commit::Make;
use super::machine::Obeys;
use crate::model::{MiniBatchId, WorkerId};
use crate::protocol::Told;
use crate::protocol::node::{Look, Looked, Plan, Prepare, Prepared};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// A machine that a job is to run on.
pub trait Node {
    /// Why it cannot do what it was asked.
    type Error: Error + 'static;
    /// What it holds for a job that it has prepared.
    type Job: JobOnNode<Error = Self::Error>;

    /// Finds and checks all that the job needs of the machine, but for GPUs. Writes nothing to the job directory.
    /// `say` gets lines for people about what takes time.
    ///
    /// # Errors
    /// If the machine lacks something that the job needs, or does not allow it.
    fn prepare(
        self,
        ask: &Prepare,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Prepared, Self::Job), Self::Error>;
}

/// A job that a machine has prepared.
pub trait JobOnNode {
    /// Why the machine cannot do what it was asked.
    type Error: Error + 'static;
    /// What runs the job there.
    type Running: RunningNode<Error = Self::Error>;

    /// Waits for all objects of stores that come unasked: a plan that is looked at must not have to wait.
    fn await_objects(&mut self, say: &mut dyn FnMut(&str));

    /// Plans the job in advance, looks at its files, and tells `hear` of them, until that has heard enough.
    ///
    /// # Errors
    /// If the inputs cannot be planned, or nothing was heard for too long.
    fn look(
        &mut self,
        ask: &Look,
        hear: &mut dyn FnMut(Looked) -> ControlFlow<()>,
    ) -> Result<(), Self::Error>;

    /// Takes the GPUs that the job may have. Returns what the user should know of them, one line each.
    ///
    /// # Errors
    /// If it cannot be seen which GPUs are free.
    fn take_gpus(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, Self::Error>;

    /// Makes ready what runs the job, whose inputs will be planned by `plan`. Nothing runs yet.
    ///
    /// # Errors
    /// If what an earlier run left is in the way.
    fn start(&mut self, plan: &Plan) -> Result<Self::Running, Self::Error>;

    /// Does for a worker of a leader that was killed what would have been done at its end.
    fn settle(&self, worker: WorkerId);

    /// Puts models where workers find them.
    ///
    /// # Errors
    /// If a model changed since it was looked at, or there is no room for it.
    fn give_models(&self) -> Result<(), Self::Error>;

    /// Begins to run the job at `start`: its workers are numbered from `first_worker`, and none has run before if it
    /// `is_new`.
    fn begin(&self, running: &mut Self::Running, start: Instant, first_worker: u32, is_new: bool);

    /// Makes an output file that is not of lines.
    fn finisher(&self) -> Arc<Make>;
}

/// A machine that runs a job. Each call does what it asks before it returns; what the machine tells is to be taken in
/// in its order.
pub trait RunningNode: Obeys {
    /// Why the machine cannot do what it was asked.
    type Error: Error + 'static;

    /// Has the planner cut the inputs.
    ///
    /// # Errors
    /// If its process cannot be started.
    fn plan(&mut self) -> Result<(), Self::Error>;

    /// Begins to watch what workers use.
    ///
    /// # Errors
    /// If that cannot be begun.
    fn watch(&mut self) -> Result<(), Self::Error>;

    /// Waits for the next thing that happens there. The planner is heard only if more of the plan is wanted. Nothing is
    /// lost if this is dropped while it waits.
    fn next(&mut self, wants_plan: bool) -> impl Future<Output = Vec<Told>>;

    /// The next thing that a worker has said already, if one has.
    fn said_already(&mut self) -> Option<Vec<Told>>;

    /// Whether a worker has said something since this was asked last, and all have enough to do while the leader looks
    /// away.
    fn may_pause(&mut self) -> bool;

    /// Whether objects of stores come only when a mini-batch wants them.
    fn comes_on_demand(&self) -> bool;

    /// A mini-batch is to have these files, each of the source with that index. [`Told::Fetched`] says when it has.
    fn want(&mut self, id: MiniBatchId, files: &[(u32, &str)]);

    /// These mini-batches need their objects no more.
    fn release(&mut self, ids: &[MiniBatchId]);

    /// The rows of this attempt, and of all that its worker reported before, are in the output.
    fn free(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32);

    /// Sends what is queued for workers.
    fn flush(&mut self);

    /// The job is over: no process of it is started any more.
    fn close(&mut self);

    /// Takes the last sample of what workers use.
    fn end_watch(&mut self);
}
