//! Runs the instance of the entry script, and replaces it after a failure.

use crate::dataset::FileVersion;
use crate::model::{CallStats, Failure, FailureKind, InferenceStats, Limits, MiniBatchId};
use crate::sandbox::{
    Grants, GuestProgram, Instance, MiniBatchData, ResultSink, RunContext, Seed, SinkFile,
};
use std::os::fd::RawFd;

/// A program with its current instance.
pub(super) struct Guest {
    program: GuestProgram,
    grants: Grants,
    instance: Option<Instance>,
    /// Whether each attempt gets a new instance.
    is_deterministic: bool,
    /// The inference statistics of the last call of `run`.
    inference: InferenceStats,
}

impl Guest {
    /// A guest without an instance.
    pub(super) fn new(program: GuestProgram, grants: Grants, is_deterministic: bool) -> Self {
        let inference = InferenceStats::default();
        Self { program, grants, instance: None, is_deterministic, inference }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.grants.limits
    }

    /// For each log of the guest, the descriptor of the file with the log's first part.
    pub(super) fn logs(&self) -> impl Iterator<Item = RawFd> {
        let Grants { stdout, stderr, log, .. } = &self.grants;
        [stdout, stderr, log].into_iter().filter_map(SinkFile::beginning)
    }

    /// Whether [`start`](Self::start) has to be called before the next mini-batch.
    pub(super) fn is_broken(&self) -> bool {
        self.instance.is_none() && !self.is_deterministic
    }

    /// Whether each attempt begins with [`renew`](Self::renew).
    pub(super) fn is_deterministic(&self) -> bool {
        self.is_deterministic
    }

    /// Starts a new instance before an attempt of a deterministic job. The guest's random numbers are derived
    /// from the mini-batch.
    pub(super) fn renew(&mut self, mini_batch: MiniBatchId) -> Result<(), Failure> {
        self.grants.seed = Seed::of_mini_batch(mini_batch.0);
        self.start().map(drop)
    }

    /// Ends the instance after an attempt of a deterministic job. Calls `shutdown` if the attempt has
    /// succeeded so far.
    pub(super) fn retire(&mut self, has_succeeded: bool) -> Result<(), Failure> {
        match self.instance.take_if(|_| self.is_deterministic) {
            Some(mut instance) if has_succeeded => instance.shutdown().1,
            _ => Ok(()),
        }
    }

    /// Makes a new instance and calls `init`.
    pub(super) fn start(&mut self) -> Result<CallStats, Failure> {
        // Free the old memory before we allocate new memory.
        self.instance = None;
        let mut instance = self.program.instantiate(&self.grants)?;
        let (stats, result) = instance.init();
        result?;
        self.instance = Some(instance);
        Ok(stats)
    }

    /// Calls `run`. Drops the instance if the failure makes it unusable.
    pub(super) fn run(
        &mut self,
        data: MiniBatchData<'_>,
        context: &RunContext<'_>,
        sink: &mut dyn ResultSink,
    ) -> (CallStats, Result<(), Failure>) {
        let Some(instance) = &mut self.instance else {
            let failure = Failure::new(FailureKind::HostFault, "no instance is running");
            return (CallStats::default(), Err(failure));
        };
        // The inference of `init` does not count for a mini-batch.
        self.grants.models.take_stats();
        let (stats, result) = instance.run(data, context, sink);
        self.inference = self.grants.models.take_stats();
        if let Err(failure) = &result
            && !matches!(failure.kind, FailureKind::ScriptError | FailureKind::BadResults)
        {
            self.instance = None;
        }
        (stats, result)
    }

    /// Returns and resets the inference statistics of the last call of `run`.
    pub(super) fn take_inference(&mut self) -> InferenceStats {
        std::mem::take(&mut self.inference)
    }

    /// See [`Instance::found`]. Empty if there is no instance.
    pub(super) fn found(&self) -> &[Option<FileVersion>] {
        self.instance.as_ref().map_or(&[], Instance::found)
    }

    /// Whether the last call may have made files or folders outside of the log folder.
    pub(super) fn may_have_made_files(&self) -> bool {
        self.instance.as_ref().is_none_or(Instance::made_files)
    }

    /// Drops the instance, so that a new one must be started.
    pub(super) fn drop_instance(&mut self) {
        self.instance = None;
    }

    /// Calls `shutdown`, if there is an instance.
    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        self.instance.take().map_or(Ok(()), |mut instance| instance.shutdown().1)
    }
}
