//! Workers that hold more memory, or run more threads, than they may.
//!
//! The limit of an instance's memory is kept inside the worker. This is the wall behind it: it also
//! sees what the host side of a worker holds (a mini-batch that is decoded, results on their way),
//! and ends a worker before the machine runs out of memory and the kernel ends something else.

use crate::model::{ByteSize, Failure, FailureKind, Limits, WorkerId};
use procfs::process::Process;

/// How much memory of its own one worker process may hold.
///
/// Counted is what belongs to the process alone. Pages of files do not count: the compiled entry
/// script is mapped by all workers and shared by them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    guest: ByteSize,
    host: u64,
    inference: u64,
}

impl MemoryBudget {
    /// What every worker may hold beside all else: the program itself, the allocator's reserves, and
    /// how much may come in between two looks.
    const MARGIN: u64 = 256 << 20;
    /// Results are held twice: as they were copied from the guest, and as lines.
    const RESULTS: u64 = 2;
    /// Bytes of memory for a byte of CSV, at the most: a one-digit number with its comma becomes
    /// eight bytes in a column, once more in what is handed to the guest, and buffers double when
    /// they grow.
    const TABLE: u64 = 16;
    /// A table that fits into `limits.memory` takes so many times that, at the most: as columns, the buffers of
    /// which double when they grow, and as what is handed to the guest. One that does not fit is of no use to the
    /// entry script.
    const COLUMNS: u64 = 3;
    /// What is made of text before that, for a byte of it: the text, copies where records are sorted out, where
    /// each field lies, and columns that are not wanted.
    const TEXT: u64 = 6;

    /// The budget of a worker whose guest has these limits. `mini_batch_bytes`: how much of a table
    /// one mini-batch holds, 0 for files, which the guest reads itself. `inference`: bytes for models
    /// and tensors.
    pub fn new(limits: &Limits, mini_batch_bytes: u64, inference: u64) -> Self {
        let columns = limits.memory.0.saturating_mul(Self::COLUMNS);
        let fits = mini_batch_bytes.saturating_mul(Self::TEXT).saturating_add(columns);
        let host = [
            limits.results.0.saturating_mul(Self::RESULTS),
            limits.read.0,
            mini_batch_bytes.saturating_mul(Self::TABLE).min(fits),
            Self::MARGIN,
        ];
        let host = host.into_iter().fold(0, u64::saturating_add);
        Self { guest: limits.memory, host, inference }
    }

    /// All of it, in bytes.
    pub fn total(&self) -> ByteSize {
        ByteSize(self.guest.0.saturating_add(self.host).saturating_add(self.inference))
    }

    /// What a worker that holds `held` bytes is told to have done; none if it may.
    fn judge(&self, held: u64) -> Option<Failure> {
        if held <= self.total().0 {
            return None;
        }
        let held = ByteSize(held).rounded();
        Some(self.overrun(&format!("held {held} of memory, more than"), "it was killed"))
    }

    /// What a worker is told to have done that the kernel ended, because its cgroup has this limit.
    pub fn ended_by_cgroup(&self) -> Failure {
        self.overrun("needed more memory than", "the limit of its cgroup ended it")
    }

    fn overrun(&self, did: &str, end: &str) -> Failure {
        let (budget, host) = (self.total().rounded(), ByteSize(self.host).rounded());
        // Who has no models need not know of them.
        let (parts, more) = match self.inference {
            0 => (String::new(), ""),
            bytes => {
                let bytes = ByteSize(bytes).rounded();
                (format!(", and {bytes} for models and tensors"), " or limits.tensors")
            }
        };
        let or = if more.is_empty() { " or" } else { "," };
        let message = format!(
            "the worker process {did} its budget of {budget} (limits.memory {} and {host} for \
             results, reading and decoding{parts}); {end}. Make mini_batch_size smaller, or raise \
             limits.memory{or} limits.results{more}",
            self.guest
        );
        Failure::new(FailureKind::OutOfMemory, message)
    }
}

/// Threads of a worker, beside one for each processor of the machine, which ONNX Runtime may start. A worker has three,
/// and a few more with a GPU.
const THREADS: u64 = 64;

/// The most threads that a worker process may run.
fn most_threads() -> u64 {
    THREADS + std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// What a worker that runs this many threads did wrong. `None` if it may run them.
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

/// A worker process that is looked at. Holds the process's folder in `/proc` open: should the
/// process end and its number go to another one, that one is not taken for it.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) worker: WorkerId,
    pub(super) process: Process,
    /// Whether it was found over its budget, or with too many threads. It is told of once.
    told: bool,
}

impl Watched {
    /// None if there is no such process any more.
    pub(super) fn new(worker: WorkerId, pid: u32) -> Option<Self> {
        let process = Process::new(i32::try_from(pid).ok()?).ok()?;
        Some(Self { worker, process, told: false })
    }

    /// Looks once. A failure: it holds more memory, or runs more threads, than it may.
    pub(super) fn look(&mut self, budget: &MemoryBudget) -> Option<Failure> {
        if self.told {
            return None;
        }
        let failure = budget.judge(private_memory(&self.process)?).or_else(|| {
            let threads = self.process.stat().ok()?.num_threads;
            judge_threads(u64::try_from(threads).unwrap_or(0))
        })?;
        self.told = true;
        Some(failure)
    }
}

/// Bytes in memory that no file backs; none if the process is gone.
pub(super) fn private_memory(process: &Process) -> Option<u64> {
    let pages = process.statm().ok()?;
    Some(pages.resident.saturating_sub(pages.shared).saturating_mul(procfs::page_size()))
}

/// How many processes the kernel has killed since the machine started, because memory ran out. None where it
/// does not tell.
pub fn memory_kills() -> Option<u64> {
    kills(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

fn kills(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_budget_follows_the_limits() {
        let budget = MemoryBudget::new(&Limits::default(), 0, 0);
        assert_eq!(budget.total().rounded(), "2.2 GB");
        let table = MemoryBudget::new(&Limits::default(), 100 << 20, 0);
        assert_eq!(table.total().0 - budget.total().0, 1600 << 20);
        // However large a mini-batch is, its table must fit into the guest's memory, which is 1 GB.
        let large = MemoryBudget::new(&Limits::default(), 1 << 30, 0);
        assert_eq!(large.total().0 - budget.total().0, (6 + 3) << 30);
        let endless = Limits { memory: ByteSize(u64::MAX), ..Limits::default() };
        assert_eq!(MemoryBudget::new(&endless, u64::MAX, 7).total(), ByteSize(u64::MAX));
        let models = MemoryBudget::new(&Limits::default(), 0, 1 << 30);
        assert_eq!(models.total().0 - budget.total().0, 1 << 30);
        let end = "and 1 GB for models and tensors); the limit of its cgroup ended it. Make \
                   mini_batch_size smaller, or raise limits.memory, limits.results or limits.tensors";
        assert!(models.ended_by_cgroup().message.ends_with(end), "{}", models.ended_by_cgroup());
    }

    /// W6: out of memory is told apart from other ends, with what was held and allowed.
    #[test]
    fn a_process_over_its_budget_is_told_of_once() {
        // `tail` keeps all of its input in memory, as it may be its end.
        let mut child = Command::new("sh")
            .args(["-c", "exec tail -c 200000000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut watched = Watched::new(WorkerId(3), child.id()).unwrap();
        let budget = MemoryBudget { guest: ByteSize(64 << 20), host: 32 << 20, inference: 0 };
        assert_eq!(watched.look(&budget), None);
        let mut input = child.stdin.take().unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..150 {
            std::io::Write::write_all(&mut input, &zeros).unwrap();
        }
        let failure = watched.look(&budget).expect("holds 150 MB");
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        let begin = "the worker process held 1";
        assert!(failure.message.starts_with(begin), "{failure}");
        let middle = "more than its budget of 96 MB (limits.memory 64 MB and 32 MB for results";
        assert!(failure.message.contains(middle), "{failure}");
        assert_eq!(watched.look(&budget), None, "told twice");
        child.kill().unwrap();
        child.wait().unwrap();
        let mut gone = Watched { told: false, ..watched };
        assert_eq!(gone.look(&budget), None, "it is gone");
    }

    /// Without a cgroup nothing else bounds them, and they would take all that the user may run.
    #[test]
    fn a_process_with_too_many_threads_is_told_of_once() {
        let mut watched = Watched::new(WorkerId(1), std::process::id()).unwrap();
        let budget = MemoryBudget { guest: ByteSize(u64::MAX), host: 0, inference: 0 };
        assert_eq!(watched.look(&budget), None);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
        let threads: Vec<_> = (0..most_threads())
            .map(|_| {
                let ended = ended.clone();
                std::thread::spawn(move || ended.lock().unwrap().recv().is_err())
            })
            .collect();
        let failure = watched.look(&budget).expect("has one thread too many");
        assert_eq!(failure.kind, FailureKind::Forbidden);
        let most = format!("and no worker needs more than {}; it was killed", most_threads());
        assert!(failure.message.contains(&most), "{failure}");
        assert_eq!(watched.look(&budget), None, "told twice");
        drop(end);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }

    #[test]
    fn pages_of_files_do_not_count() {
        let me = Process::myself().unwrap();
        let status = me.status().unwrap();
        let anonymous = status.rssanon.unwrap_or(0) << 10;
        let held = private_memory(&me).unwrap();
        // The kernel's counts lag behind each other by a few pages for each processor.
        assert!(held.abs_diff(anonymous) < 16 << 20, "{held} {anonymous}");
    }

    #[test]
    fn kills_for_lack_of_memory_are_counted() {
        assert_eq!(kills("drop_slab 1\noom_kill 17\nnuma_hit 4\n"), Some(17));
        assert_eq!(kills("drop_slab 1\noom_kills 17\n"), None);
    }
}
