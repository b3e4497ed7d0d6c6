//! Handles the exit of a worker.

use super::NodeMachine;
use super::worker::{Activity, LiveWorker};
use crate::model::{Failure, FailureKind, WorkerExit, WorkerId};
use crate::protocol::{NodeNews, NodePolicy};

impl NodeMachine {
    pub(super) fn on_gpu_free(&mut self, id: WorkerId) {
        if let Some(index) = self.leases.gpu_of(id) {
            self.leases.release(id);
            self.notice(format!("GPU {index}, which {id} had, is free again"));
        }
    }

    pub(super) fn on_exited(&mut self, id: WorkerId, exit: &WorkerExit) {
        match exit.holds_gpu {
            true => self.leases.keep(id, self.now + NodePolicy::GPU_PATIENCE),
            false => self.leases.release(id),
        }
        self.abandoned.remove(&id);
        self.waiting.remove(&id);
        // The worker's slot is free.
        self.room_again_at = None;
        let how = describe_exit(exit);
        let Some(LiveWorker { activity, held, picked, .. }) = self.workers.remove(&id) else {
            // The job has continued without the worker; we still report its exit.
            return self.report(NodeNews::Exited { worker: id, how, expected: true });
        };
        let expected = match activity {
            Activity::Doomed(_) => true,
            Activity::ShuttingDown(_) => exit.code == Some(0),
            _ => false,
        };
        if matches!(activity, Activity::ShuttingDown(_)) && !exit.note.is_empty() {
            // All its mini-batches are done, so nothing fails, but the user should see the note.
            self.notice(format!("{id}: {}", exit.note.trim_end()));
        }
        self.report(NodeNews::Exited { worker: id, how: how.clone(), expected });
        match activity {
            Activity::Starting(_) => {
                self.give_back(held);
                self.init_failed(id, failure_of(exit, &how, "while it started"));
            }
            Activity::Loading(_) => {
                self.lose_held(
                    id,
                    held,
                    (picked, None),
                    failure_of(exit, &how, "loading a mini-batch"),
                );
            }
            Activity::Running(since) => {
                let began = (picked, Some(since));
                self.lose_held(id, held, began, failure_of(exit, &how, "inside run"));
            }
            Activity::Idle | Activity::ShuttingDown(_) | Activity::Doomed(_) => {
                self.give_back(held);
            }
        }
    }
}

/// "exited with returncode -9": the words that users of ParallelRunStep search for.
fn describe_exit(exit: &WorkerExit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("exited with returncode -{signal}"),
        (Some(code), None) => format!("exited with returncode {code}"),
        (None, None) => "exited".to_owned(),
    }
}

/// The failure of a worker that exited unexpectedly. An unexplained SIGKILL is attributed to the kernel's OOM
/// killer, unless the kernel's counter shows that the kernel has killed no process (rule W6 in
/// `docs/parallel-run-step.md`).
fn failure_of(exit: &WorkerExit, how: &str, when: &str) -> Failure {
    if let Some(failure) = &exit.failure {
        return failure.clone().with_detail(exit.note.clone());
    }
    let (kind, hint) = match exit.signal {
        Some(9) if exit.not_for_memory => (
            FailureKind::WorkerDied,
            "; another process must have sent it SIGKILL: the kernel has killed no process for \
             lack of memory since the job began",
        ),
        Some(9) => (
            FailureKind::OutOfMemory,
            "; it was killed from outside, most often because the machine ran out of memory: use \
             fewer workers (process_count_per_node) or a lower limits.memory",
        ),
        Some(libc::SIGSYS) => (
            FailureKind::Forbidden,
            "; the system-call filter ended it, because it made a system call that no entry \
             script needs. Treat the entry script as hostile, and report this",
        ),
        // The standard library prints this before it aborts; the kernel refused memory because of a limit.
        Some(libc::SIGABRT) if exit.note.contains("memory allocation of ") => (
            FailureKind::OutOfMemory,
            "; it reached its memory limit. Either a mini-batch is too large, or a model needs more \
             memory than the size of its file: make mini_batch_size smaller, or raise limits.memory or \
             limits.tensors, from which the limit is computed",
        ),
        _ => (FailureKind::WorkerDied, ""),
    };
    Failure::new(kind, format!("the worker process {how} {when}{hint}"))
        .with_detail(exit.note.clone())
}
