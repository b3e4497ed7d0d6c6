//! Workers that use more memory, or run more threads, than they may.
//!
//! The worker itself enforces the memory limit of an instance. This is a second barrier: it also sees what
//! the host side of a worker uses (a mini-batch that is decoded, results on their way), and kills a worker
//! before the machine runs out of memory and the kernel kills another process.

use crate::model::{Failure, FailureKind, MemoryBudget, WorkerId};
use procfs::process::Process;

/// The allowance for a worker's threads, in addition to one for each processor, which ONNX Runtime may start.
/// A worker has three threads, and a few more with a GPU.
const THREADS: u64 = 64;

/// The most threads that a worker process may run.
fn most_threads() -> u64 {
    THREADS + std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// The failure of a worker that runs this many threads. `None` if it may.
fn judge_threads(threads: u64) -> Option<Failure> {
    let most = most_threads();
    (threads > most).then(|| {
        let message = format!(
            "the worker process ran {threads} threads, and no worker needs more than {most}; it was killed. \
             Entry scripts cannot start threads: native code ran in this worker that does not belong there"
        );
        Failure::new(FailureKind::Forbidden, message)
    })
}

/// A watched worker process. Its folder in `/proc` stays open, so that another process that gets its id later
/// is not mistaken for it.
#[derive(Debug)]
pub(super) struct WatchedWorker {
    pub(super) worker: WorkerId,
    pub(super) process: Process,
    /// Whether it was found over its budget, or with too many threads. Each worker is reported once.
    reported: bool,
}

impl WatchedWorker {
    /// `None` if the process is gone.
    pub(super) fn new(worker: WorkerId, pid: u32) -> Option<Self> {
        let process = Process::new(i32::try_from(pid).ok()?).ok()?;
        Some(Self { worker, process, reported: false })
    }

    /// Checks the worker once. Returns a failure if it uses more memory, or runs more threads, than it may.
    pub(super) fn check(&mut self, budget: &MemoryBudget) -> Option<Failure> {
        if self.reported {
            return None;
        }
        let failure = budget.judge(private_memory(&self.process)?).or_else(|| {
            let threads = self.process.stat().ok()?.num_threads;
            judge_threads(u64::try_from(threads).unwrap_or(0))
        })?;
        self.reported = true;
        Some(failure)
    }
}

/// Bytes in memory that are not file-backed. `None` if the process is gone.
pub(super) fn private_memory(process: &Process) -> Option<u64> {
    let pages = process.statm().ok()?;
    Some(pages.resident.saturating_sub(pages.shared).saturating_mul(procfs::page_size()))
}

/// How many processes the kernel's OOM killer has killed since the machine started. `None` if the kernel does
/// not report it.
pub fn memory_kills() -> Option<u64> {
    kills(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

fn kills(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ByteSize;
    use std::process::{Command, Stdio};

    /// W6: an out-of-memory failure differs from other ends, and says how much was used and allowed.
    #[test]
    fn a_process_over_its_budget_is_reported_once() {
        // `tail` keeps all of its input in memory, as its last bytes may follow.
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
        let mut gone = WatchedWorker { reported: false, ..watched };
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
        let threads: Vec<_> = (0..most_threads())
            .map(|_| {
                let ended = ended.clone();
                std::thread::spawn(move || ended.lock().unwrap().recv().is_err())
            })
            .collect();
        let failure = watched.check(&budget).expect("has one thread too many");
        assert_eq!(failure.kind, FailureKind::Forbidden);
        let most = format!("and no worker needs more than {}; it was killed", most_threads());
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
        assert_eq!(kills("drop_slab 1\noom_kill 17\nnuma_hit 4\n"), Some(17));
        assert_eq!(kills("drop_slab 1\noom_kills 17\n"), None);
    }
}
