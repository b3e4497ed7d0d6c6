//! What the leader asks of the machine that a job is to run on, while it prepares the job. Whoever joins leader and node
//! implements it; on one machine these are direct calls.

use crate::protocol::node::{Look, Looked, Prepare, Prepared};
use std::error::Error;
use std::ops::ControlFlow;

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
}
