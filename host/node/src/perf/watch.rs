//! Finds workers that use more memory, or run more threads, than they may.
//!
//! The worker itself enforces the memory limit of an instance. This is a second barrier: it also counts what
//! Sandmill's own code in the worker uses, such as for decoded mini-batches and collected results. A worker
//! over its budget is killed before the machine runs out of memory and the kernel kills another process.

use crate::model::{Failure, FailureKind, MemoryBudget, WorkerId};
use procfs::process::Process;

/// A worker may run this many threads, and one more for each processor, because ONNX Runtime may start one
/// for each processor. A worker itself has three threads, and a few more with a GPU.
const BASE_THREADS: u64 = 64;

/// The maximum number of threads that a worker process may run.
fn max_threads() -> u64 {
    BASE_THREADS + std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// The failure of a worker that runs this many threads. `None` if the number is allowed.
fn judge_threads(threads: u64) -> Option<Failure> {
    let max = max_threads();
    (threads > max).then(|| {
        let message = format!(
            "the worker process ran {threads} threads, but no worker needs more than {max}; it was killed. \
             Entry scripts cannot start threads, so foreign native code ran in this worker"
        );
        Failure::new(FailureKind::Forbidden, message)
    })
}

/// A watched worker process. Its folder in `/proc` stays open, so that a later process with the same id is
/// not mistaken for the worker.
#[derive(Debug)]
pub(super) struct WatchedWorker {
    pub(super) worker: WorkerId,
    pub(super) process: Process,
    /// Whether the worker has been reported, for memory or threads. Each worker is reported once.
    is_reported: bool,
}

impl WatchedWorker {
    /// `None` if the process is gone.
    pub(super) fn new(worker: WorkerId, pid: u32) -> Option<Self> {
        let process = Process::new(i32::try_from(pid).ok()?).ok()?;
        Some(Self { worker, process, is_reported: false })
    }

    /// Checks the worker once. Returns a failure if it uses more memory, or runs more threads, than it may.
    pub(super) fn check(&mut self, budget: &MemoryBudget) -> Option<Failure> {
        if self.is_reported {
            return None;
        }
        let failure = budget.judge(private_memory(&self.process)?).or_else(|| {
            let threads = self.process.stat().ok()?.num_threads;
            judge_threads(u64::try_from(threads).unwrap_or(0))
        })?;
        self.is_reported = true;
        Some(failure)
    }
}

/// The bytes of resident memory that are not backed by files. `None` if the process is gone.
pub(super) fn private_memory(process: &Process) -> Option<u64> {
    let sizes = process.statm().ok()?;
    Some(sizes.resident.saturating_sub(sizes.shared).saturating_mul(procfs::page_size()))
}

/// How many processes the kernel's OOM killer has killed since the machine started. `None` if the kernel does
/// not report it.
pub fn memory_kills() -> Option<u64> {
    oom_kills(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

fn oom_kills(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ByteSize;
    use std::process::{Command, Stdio};

    /// An out-of-memory failure has its own kind, and says how much was used and allowed (rule W6
    /// in `docs/parallel-run-step.md`).
    #[test]
    fn a_process_over_its_budget_is_reported_once() {
        // `tail` keeps all its input in memory, because any part of it may belong to the last bytes.
        let mut child = Command::new("sh")
            .args(["-c", "exec tail -c 200000000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut watched = WatchedWorker::new(WorkerId(3), child.id()).unwrap();
        let budget = MemoryBudget { guest: ByteSize(64 << 20), host: 32 << 20, inference: 0 };
        assert_eq!(watched.check(&budget), None);
        let mut input = child.stdin.take().unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..150 {
            std::io::Write::write_all(&mut input, &zeros).unwrap();
        }
        let failure = watched.check(&budget).expect("holds 150 MB");
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        let begin = "the worker process held 1";
        assert!(failure.message.starts_with(begin), "{failure}");
        let middle = "more than its budget of 96 MB (limits.memory 64 MB and 32 MB for results";
        assert!(failure.message.contains(middle), "{failure}");
        assert_eq!(watched.check(&budget), None, "reported twice");
        child.kill().unwrap();
        child.wait().unwrap();
        let mut gone = WatchedWorker { is_reported: false, ..watched };
        assert_eq!(gone.check(&budget), None, "it is gone");
    }

    /// Without a cgroup, nothing else limits a worker's threads, and they could use up the user's limit.
    #[test]
    fn a_process_with_too_many_threads_is_reported_once() {
        let mut watched = WatchedWorker::new(WorkerId(1), std::process::id()).unwrap();
        let budget = MemoryBudget { guest: ByteSize(u64::MAX), host: 0, inference: 0 };
        assert_eq!(watched.check(&budget), None);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
        let threads: Vec<_> = (0..max_threads())
            .map(|_| {
                let ended = ended.clone();
                std::thread::spawn(move || ended.lock().unwrap().recv().is_err())
            })
            .collect();
        let failure = watched.check(&budget).expect("has one thread too many");
        assert_eq!(failure.kind, FailureKind::Forbidden);
        let most = format!("but no worker needs more than {}; it was killed", max_threads());
        assert!(failure.message.contains(&most), "{failure}");
        assert_eq!(watched.check(&budget), None, "reported twice");
        drop(end);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }

    #[test]
    fn pages_of_files_do_not_count() {
        let me = Process::myself().unwrap();
        let status = me.status().unwrap();
        let anonymous = status.rssanon.unwrap_or(0) << 10;
        let held = private_memory(&me).unwrap();
        // The kernel's counts differ by a few pages for each processor.
        assert!(held.abs_diff(anonymous) < 16 << 20, "{held} {anonymous}");
    }

    #[test]
    fn kills_for_lack_of_memory_are_counted() {
        assert_eq!(oom_kills("drop_slab 1\noom_kill 17\nnuma_hit 4\n"), Some(17));
        assert_eq!(oom_kills("drop_slab 1\noom_kills 17\n"), None);
    }
}
