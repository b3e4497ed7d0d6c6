//! The running instance of the entry script and its replacement after a failure.

use crate::dataset::Found;
use crate::model::{CallStats, Failure, FailureKind, Limits};
use crate::sandbox::{Context, Grants, Instance, MiniBatchData, Program, ResultSink};

/// A program with the instance that serves at the moment.
pub(super) struct Guest {
    program: Program,
    grants: Grants,
    instance: Option<Instance>,
}

impl Guest {
    /// No instance yet.
    pub(super) fn new(program: Program, grants: Grants) -> Self {
        Self { program, grants, instance: None }
    }

    /// What an instance may use.
    pub(super) fn limits(&self) -> &Limits {
        &self.grants.limits
    }

    /// Whether [`start`](Self::start) has to be called before the next mini-batch.
    pub(super) fn is_broken(&self) -> bool {
        self.instance.is_none()
    }

    /// Makes a new instance and calls `init`.
    pub(super) fn start(&mut self) -> Result<CallStats, Failure> {
        // The old memory goes back before new memory is asked for.
        self.instance = None;
        let mut instance = self.program.instantiate(&self.grants)?;
        let (stats, result) = instance.init();
        result?;
        self.instance = Some(instance);
        Ok(stats)
    }

    /// Calls `run`. Throws the instance away where it cannot be used any more.
    pub(super) fn run(
        &mut self,
        data: MiniBatchData<'_>,
        context: &Context<'_>,
        sink: &mut dyn ResultSink,
    ) -> (CallStats, Result<(), Failure>) {
        let Some(instance) = &mut self.instance else {
            let failure = Failure::new(FailureKind::HostFault, "no instance is running");
            return (CallStats::default(), Err(failure));
        };
        let (stats, result) = instance.run(data, context, sink);
        if let Err(failure) = &result
            && !matches!(failure.kind, FailureKind::ScriptError | FailureKind::BadResults)
        {
            self.instance = None;
        }
        (stats, result)
    }

    /// [`Instance::found`]; nothing once the instance is thrown away.
    pub(super) fn found(&self) -> &[Option<Found>] {
        self.instance.as_ref().map_or(&[], Instance::found)
    }

    /// Throws the instance away, so that a new one has to be started.
    pub(super) fn throw_away(&mut self) {
        self.instance = None;
    }

    /// Calls `shutdown`.
    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        self.instance.take().map_or(Ok(()), |mut instance| instance.shutdown().1)
    }
}
