//! Makes one attempt at a mini-batch, from its assignment to its report.

use super::folder::{OutputFolder, TemporaryFolder};
use super::guest::Guest;
use super::link::LeaderLink;
use crate::model::{
    CallStats, Failure, FailureKind, JobDir, MiniBatch, MiniBatchId, OutputHeader, Segment,
    WorkerId, printable,
};
use crate::output::{OutputError, PartFile, RowWriter, discard_files};
use crate::protocol::{Assignment, FromWorker};
use crate::sandbox::RunContext;
use sandmill_data::attempt::{
    AttemptClock, AttemptTally, CpuMeter, Finished, Loader, ProcessUsage, RowSink, not_stored,
    report,
};
use std::io;

/// What a worker does after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterAttempt {
    /// The worker takes the next mini-batch.
    Continue,
    /// The worker waits for the leader, which may send another attempt to run first.
    AwaitDecision,
    /// The worker process ends, because its GPU is in an unknown state.
    End,
}

/// What all attempts of a worker use.
pub(super) struct AttemptRunner {
    pub(super) job_dir: JobDir,
    pub(super) worker: WorkerId,
    pub(super) loader: Loader,
    pub(super) rows: RowWriter,
    /// Whether an attempt fails if it has more or fewer rows than items.
    pub(super) is_strict: bool,
    pub(super) part: PartFile,
    /// Whether the part file begins with the header of the output, so that it can become a part of the output
    /// unchanged.
    pub(super) has_header: bool,
    pub(super) folder: OutputFolder,
    pub(super) temporary: TemporaryFolder,
    pub(super) meter: CpuMeter,
    /// The resource use of the process at the end of the last attempt. `None` if the process has waited
    /// since.
    pub(super) last_usage: Option<ProcessUsage>,
}

impl AttemptRunner {
    /// Makes one attempt. Queues the report in `link`, to be sent together with the next `Started`. A report
    /// that is still queued is sent before a step that takes time. Fails only if `link` fails.
    pub(super) fn attempt(
        &mut self,
        assignment: &Assignment,
        guest: &mut Guest,
        link: &mut LeaderLink,
    ) -> io::Result<AfterAttempt> {
        let clock = AttemptClock::start(self.last_usage.take(), &self.meter);
        let mini_batch = &assignment.mini_batch;
        if self.loader.takes_time(mini_batch) {
            link.flush()?;
        }
        let (run, tally, stamp) = self.run(assignment, guest, link)?;
        let result = tally.and_then(|tally| {
            let may_have_files = guest.may_have_made_files();
            let header = tally.header.as_ref().filter(|_| self.has_header);
            let stored = self.store(mini_batch, assignment.attempt, may_have_files, header);
            let (segment, has_files) = stored?;
            Ok((tally, segment, has_files))
        });
        let result = result.or_else(|failure| self.drop_files(failure));
        let may_have_files = result.is_err() || guest.may_have_made_files();
        // If clearing fails, we drop the instance: the worker empties the folder before the `init`
        // of the next instance.
        let is_cleared = !may_have_files || self.temporary.clear().is_ok();
        if self.folder.is_spoiled() || !is_cleared {
            guest.drop_instance();
        }
        if let Err(error) = self.loader.unload(mini_batch) {
            let error = error.to_string();
            eprintln!(
                "sandmill worker: cannot remove the links to a mini-batch's files: {}",
                printable(&error)
            );
        }
        let inference = guest.take_inference();
        let next = match &result {
            Err(failure) if failure.kind == FailureKind::DeviceOutOfMemory => AfterAttempt::End,
            Err(failure) if assignment.awaits_decision(failure) => AfterAttempt::AwaitDecision,
            _ => AfterAttempt::Continue,
        };
        let stopped = clock.stop(&self.meter);
        self.last_usage = Some(stopped.1);
        let report =
            report(assignment, &clock, stopped, Finished { run, inference, result, stamp });
        link.queue(&FromWorker::Finished(Box::new(report)))?;
        Ok(next)
    }

    /// Loads the mini-batch and calls `run`. The last returned value is the [stamp](Loader::stamp). Fails
    /// only if `link` fails.
    fn run(
        &mut self,
        assignment: &Assignment,
        guest: &mut Guest,
        link: &mut LeaderLink,
    ) -> io::Result<(CallStats, Result<AttemptTally, Failure>, u64)> {
        let id = assignment.mini_batch.id;
        let planned = assignment.mini_batch.stamp;
        let mut sink = RowSink::new(&mut self.rows, self.is_strict);
        let loaded = match self.loader.load(&assignment.mini_batch) {
            Ok(loaded) => loaded,
            Err(failure) => return Ok((CallStats::default(), Err(failure), planned)),
        };
        // No record could be read, so there is no data for `run`.
        if loaded.items == 0 && loaded.rejected_count > 0 {
            return Ok((CallStats::default(), Ok(AttemptTally::of_rejected(loaded)), planned));
        }
        if let Err(failure) = sink.join(&loaded) {
            return Ok((CallStats::default(), Err(failure), planned));
        }
        if guest.is_deterministic() {
            // The `init` of the new instance counts as loading. If it fails, this attempt fails.
            link.flush()?;
            if let Err(failure) = renew(&mut self.folder, &mut self.temporary, guest, id) {
                return Ok((CallStats::default(), Err(failure), planned));
            }
        }
        link.queue(&FromWorker::Started { id })?;
        link.flush()?;
        let context = RunContext {
            id: id.0,
            dataset: loaded.dataset,
            attempt: assignment.attempt,
            partition_key_value: &assignment.mini_batch.partition,
        };
        let (stats, result) = guest.run(loaded.data, &context, &mut sink);
        let tally = result.and_then(|()| sink.into_tally(loaded));
        let stamp = self.loader.stamp(&assignment.mini_batch, guest.found());
        let retired = guest.retire(tally.is_ok());
        Ok((stats, tally.and_then(|tally| retired.map(|()| tally)), stamp))
    }

    /// Stores the rows, and the files if there may be any, where the leader finds them. Returns the
    /// segment of the rows, and whether there were files.
    fn store(
        &mut self,
        mini_batch: &MiniBatch,
        attempt: u32,
        may_have_files: bool,
        header: Option<&OutputHeader>,
    ) -> Result<(Segment, bool), Failure> {
        let staged = || self.job_dir.staged(self.worker, mini_batch.id, attempt);
        let has_files =
            (may_have_files || self.folder.keeps_any()) && self.folder.stage_files(staged)?;
        match append(&mut self.part, &self.rows, header, (mini_batch.id, attempt)) {
            Ok(segment) => Ok((segment, has_files)),
            Err(error) => {
                if has_files {
                    discard_files(&staged()).map_err(|e| not_stored(&e))?;
                }
                Err(not_stored(&error))
            }
        }
    }

    /// Removes what a failed attempt wrote.
    fn drop_files<T>(&mut self, failure: Failure) -> Result<T, Failure> {
        match self.folder.clear() {
            Ok(()) => Err(failure),
            Err(second_failure) => {
                Err(second_failure.with_detail(format!("after: {failure}\n{}", failure.detail)))
            }
        }
    }
}

/// Appends the rows to the part file. If there is a header, a new part file begins with it.
fn append(
    part: &mut PartFile,
    rows: &RowWriter,
    header: Option<&OutputHeader>,
    attempt: (MiniBatchId, u32),
) -> Result<Segment, OutputError> {
    let bytes = rows.segment();
    if let Some(header) = header.and_then(OutputHeader::written).filter(|_| !bytes.is_empty()) {
        part.begin(&header)?;
    }
    part.append(bytes, rows.rows(), attempt)
}

/// Starts a new instance for an attempt, and records the files of its `init`.
fn renew(
    folder: &mut OutputFolder,
    temporary: &mut TemporaryFolder,
    guest: &mut Guest,
    id: MiniBatchId,
) -> Result<(), Failure> {
    folder.reset()?;
    temporary.reset()?;
    guest.renew(id)?;
    temporary.keep_present()?;
    folder.keep_present()
}
