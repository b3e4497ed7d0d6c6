//! The thread that watches memory and takes samples.

use super::disks;
use super::machine::MachineInfo;
use super::node::NodeCounters;
use super::processes::{self, ProcessList, ProcessMeter};
use super::table::{append, hour, line, time};
use super::watch::WatchedWorker;
use crate::model::MemoryBudget;
use crate::model::{Failure, JobDir, NodeId, ProcessLists, WorkerId, printable_json};
use jiff::Timestamp;
use procfs::process::Process;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// How often the workers' memory is checked: one read of `/proc` for each worker, which takes some
/// microseconds.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The delay of the first sample. A shorter job has no samples, and costs only a sleeping thread.
const FIRST_SAMPLE: Duration = Duration::from_millis(500);

/// When counting begins for the first sample: a percentage needs two readings.
const BASELINE: Duration = Duration::from_millis(250);

/// The gap before each sample is this many times the gap before the previous sample, up to the interval. So a
/// job that is shorter than the interval has samples too.
const GAP_GROWTH: u32 = 4;

/// The delay of the first list of processes. Processes are listed at most once a minute, as that takes
/// milliseconds.
const FIRST_LIST: Duration = Duration::from_secs(1);

/// How often the use of the GPUs is read for the job's progress display.
const GPU_CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// By how many percentage points the use of the GPUs must change to be reported again.
const MIN_GPU_CHANGE: u32 = 5;

/// The longest time that the end of a job waits for the last sample: a hanging disk must not block the job.
const LAST_SAMPLE_PATIENCE: Duration = Duration::from_secs(2);

/// The monitor's settings.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    /// The job directory, in which the samples are written.
    pub job_dir: JobDir,
    /// This machine's number within the job.
    pub node: NodeId,
    /// The interval between samples; at the beginning it is shorter. `None` for no samples (rule A4 in
    /// `docs/parallel-run-step.md`). The workers' memory is watched in any case.
    pub interval: Option<Duration>,
    /// The memory that each worker may use.
    pub budget: MemoryBudget,
    /// The version of the engine that runs guests, for `machine.json`.
    pub wasmtime: &'static str,
    /// The indices of the job's GPUs, whose use is reported.
    pub gpus: Vec<u32>,
    /// Which processes are listed.
    pub processes: ProcessLists,
}

/// An event of the monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerfEvent {
    /// The worker uses more memory than it may and must be killed. Sent once for each worker.
    Overrun(WorkerId, Failure),
    /// A notice for the user.
    Notice(String),
    /// The average use of the job's GPUs, in percent, when it has changed.
    GpuUse(u32),
}

/// Takes samples and watches memory until it is dropped, at the end of the job.
#[derive(Debug)]
pub struct Monitor {
    /// `None` only while the monitor is being dropped.
    commands: Option<Sender<MonitorCommand>>,
    done: Receiver<()>,
}

#[derive(Debug)]
enum MonitorCommand {
    Started(WorkerId, u32),
    Exited(WorkerId),
}

impl Monitor {
    /// Starts the thread. Fails if the system cannot start one.
    pub fn start(options: MonitorOptions, events: UnboundedSender<PerfEvent>) -> io::Result<Self> {
        let (commands, inbox) = channel();
        let (finished, done) = channel();
        thread::Builder::new().name("monitor".to_owned()).spawn(move || {
            Watcher::new(options, inbox, events).run();
            // The receiver is gone if the last sample took too long.
            let _ = finished.send(());
        })?;
        Ok(Self { commands: Some(commands), done })
    }

    /// Watches a worker process that has started.
    pub fn started(&self, worker: WorkerId, pid: u32) {
        self.send(MonitorCommand::Started(worker, pid));
    }

    /// Stops watching a worker process, which is gone.
    pub fn exited(&self, worker: WorkerId) {
        self.send(MonitorCommand::Exited(worker));
    }

    fn send(&self, command: MonitorCommand) {
        if let Some(commands) = &self.commands {
            // If the thread has ended, no process is watched.
            let _ = commands.send(command);
        }
    }
}

/// Waits for the last sample.
impl Drop for Monitor {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.done.recv_timeout(LAST_SAMPLE_PATIENCE);
    }
}

struct Watcher {
    budget: MemoryBudget,
    inbox: Receiver<MonitorCommand>,
    events: UnboundedSender<PerfEvent>,
    workers: Vec<(WatchedWorker, ProcessMeter)>,
    sampler: Option<Sampler>,
    gpus: GpuWatch,
}

/// The last reported use of the GPUs, and when to check them next.
#[derive(Debug)]
struct GpuWatch {
    leased: Vec<u32>,
    reported: Option<u32>,
    next: Instant,
}

impl GpuWatch {
    /// The percentage, if it has changed enough to be reported.
    fn changed_use(&mut self, percent: Option<u32>) -> Option<u32> {
        self.next = Instant::now() + GPU_CHECK_INTERVAL;
        let percent = percent?;
        let has_changed =
            self.reported.is_none_or(|reported| reported.abs_diff(percent) >= MIN_GPU_CHANGE);
        has_changed.then(|| *self.reported.insert(percent))
    }
}

impl Watcher {
    fn new(
        options: MonitorOptions,
        inbox: Receiver<MonitorCommand>,
        events: UnboundedSender<PerfEvent>,
    ) -> Self {
        let MonitorOptions { job_dir, node, interval, budget, wasmtime, gpus: leased, processes } =
            options;
        let sampler = interval
            .and_then(|interval| Sampler::new(job_dir, node, interval, wasmtime, processes));
        let gpus = GpuWatch { leased, reported: None, next: Instant::now() + GPU_CHECK_INTERVAL };
        Self { budget, inbox, events, workers: Vec::new(), sampler, gpus }
    }

    fn run(mut self) {
        let mut next_check = Instant::now() + CHECK_INTERVAL;
        loop {
            let check = (!self.workers.is_empty()).then_some(next_check);
            let sample = self.sampler.as_ref().map(|sampler| sampler.next);
            let gpus =
                self.sampler.as_ref().is_some_and(Sampler::has_gpus).then_some(self.gpus.next);
            match self.next_command([check, sample, gpus].into_iter().flatten().min()) {
                Ok(MonitorCommand::Started(worker, pid)) => {
                    let watched = WatchedWorker::new(worker, pid);
                    self.workers.extend(watched.map(|w| (w, ProcessMeter::worker(worker))));
                }
                Ok(MonitorCommand::Exited(worker)) => {
                    self.workers.retain(|(w, _)| w.worker != worker);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if now >= next_check {
                next_check = now + CHECK_INTERVAL;
                self.check_workers();
            }
            if gpus.is_some_and(|next| now >= next) {
                self.check_gpus();
            }
            if self.sampler.as_ref().is_some_and(|sampler| now >= sampler.next) {
                self.sample(true);
            }
        }
        if self.sampler.as_ref().is_some_and(|sampler| sampler.is_machine_written) {
            self.sample(false);
        }
    }

    fn next_command(&self, until: Option<Instant>) -> Result<MonitorCommand, RecvTimeoutError> {
        match until {
            Some(at) => self.inbox.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn check_workers(&mut self) {
        for (watched, _) in &mut self.workers {
            if let Some(failure) = watched.check(&self.budget) {
                // If the leader is gone, there is no receiver.
                let _ = self.events.send(PerfEvent::Overrun(watched.worker, failure));
            }
        }
    }

    fn check_gpus(&mut self) {
        let node = self.sampler.as_ref().and_then(|sampler| sampler.node.as_ref());
        let percent = node.and_then(|node| node.gpu_percent(&self.gpus.leased));
        if let Some(percent) = self.gpus.changed_use(percent) {
            let _ = self.events.send(PerfEvent::GpuUse(percent));
        }
    }

    /// Takes a sample. `with_lists`: also lists the processes if that is due.
    fn sample(&mut self, with_lists: bool) {
        let Some(sampler) = &mut self.sampler else { return };
        if let Err(error) = sampler.sample(&mut self.workers, with_lists) {
            let folder = sampler.perf_folder();
            self.sampler = None;
            let message = format!(
                "resource samples are no longer written, but the job continues: {}: {error}",
                folder.display()
            );
            let _ = self.events.send(PerfEvent::Notice(message));
        }
    }
}

/// Takes samples and writes them.
struct Sampler {
    job_dir: JobDir,
    number: NodeId,
    interval: Duration,
    wasmtime: &'static str,
    processes: ProcessLists,
    /// `None` until counting begins.
    node: Option<NodeCounters>,
    /// This process, which is the leader.
    myself: Process,
    leader: ProcessMeter,
    start: Instant,
    next: Instant,
    /// The time between this sample and the next.
    gap: Duration,
    is_machine_written: bool,
    /// The hour and minute of the last list of processes.
    listed_at: Option<String>,
}

impl Sampler {
    /// `None` without `/proc`.
    fn new(
        job_dir: JobDir,
        number: NodeId,
        interval: Duration,
        wasmtime: &'static str,
        processes: ProcessLists,
    ) -> Option<Self> {
        let start = Instant::now();
        let myself = Process::myself().ok()?;
        let leader = ProcessMeter::leader(&myself);
        Some(Self {
            job_dir,
            number,
            interval,
            wasmtime,
            processes,
            node: None,
            myself,
            leader,
            start,
            next: start + BASELINE,
            gap: FIRST_SAMPLE,
            is_machine_written: false,
            listed_at: None,
        })
    }

    fn has_gpus(&self) -> bool {
        self.node.as_ref().is_some_and(NodeCounters::has_gpus)
    }

    /// Takes and writes a sample. The first call only begins counting.
    fn sample(
        &mut self,
        workers: &mut [(WatchedWorker, ProcessMeter)],
        with_lists: bool,
    ) -> io::Result<()> {
        let Some(node) = &mut self.node else {
            self.node = Some(NodeCounters::new());
            self.next = self.start + FIRST_SAMPLE;
            return Ok(());
        };
        self.gap = self.gap.saturating_mul(GAP_GROWTH).min(self.interval);
        // A very long interval may exceed the clock's range.
        let far = Instant::now() + Duration::from_secs(1 << 30);
        self.next = Instant::now().checked_add(self.gap).unwrap_or(far);
        let now = Timestamp::now();
        let time = time(now);
        let line = node.line(&time);
        let file = self.job_dir.perf(self.number).join("node_resource_usage.csv");
        append(&file, node.header(), &line)?;
        if !self.is_machine_written {
            let text = MachineInfo::now(self.job_dir.root(), self.wasmtime).text();
            std::fs::write(self.file("machine.json"), &*printable_json(&text))?;
            self.is_machine_written = true;
        }
        let disks = disks::disks(self.job_dir.root());
        let disks: String = disks.iter().map(|disk| disk.line(&time)).collect();
        append(&self.file("node_disk_usage.csv"), &header(&disks::HEADER), &disks)?;
        let mut lines = self.leader.line(&self.myself, &time).unwrap_or_default();
        let each = workers.iter_mut();
        lines.extend(each.filter_map(|(watched, meter)| meter.line(&watched.process, &time)));
        let file = self.file("processes_resource_usage.csv");
        append(&file, &header(&processes::HEADER), &lines)?;
        let is_wanted = with_lists && self.processes != ProcessLists::Off;
        if is_wanted && self.start.elapsed() >= FIRST_LIST {
            self.list_processes(now)
        } else {
            Ok(())
        }
    }

    fn list_processes(&mut self, now: Timestamp) -> io::Result<()> {
        let hour = hour(now);
        let minute = now.strftime("%M").to_string();
        let stamp = format!("{hour}{minute}");
        if self.listed_at.as_ref() == Some(&stamp) {
            return Ok(());
        }
        self.listed_at = Some(stamp);
        let list = ProcessList::now(self.processes);
        let raw = self.file(&format!("os/{hour}/processes_{minute}"));
        append(&raw, "", &list.text())?;
        for (order, text) in [("cpu", list.by_cpu()), ("memory", list.by_memory())] {
            let path = self.file(&format!("processes_cpu_memory_usage/{hour}_{order}.txt"));
            append(&path, "", &format!("{}\n{text}\n", time(now)))?;
        }
        Ok(())
    }

    fn perf_folder(&self) -> PathBuf {
        self.job_dir.perf(self.number)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.perf_folder().join(name)
    }
}

fn header(columns: &[&str]) -> String {
    line(&columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ByteSize, Limits};
    use std::fs;
    use std::process::{Child, Command as Program, Stdio};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    struct MonitorFixture {
        folder: tempfile::TempDir,
        monitor: Monitor,
        events: UnboundedReceiver<PerfEvent>,
    }

    impl MonitorFixture {
        fn new(interval: Option<Duration>, budget: MemoryBudget) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let job_dir = JobDir::new(folder.path());
            let (sender, events) = unbounded_channel();
            let wasmtime = "1.2.3";
            let gpus = Vec::new();
            let processes = ProcessLists::Job;
            let node = NodeId::ONLY;
            let options =
                MonitorOptions { job_dir, node, interval, budget, wasmtime, gpus, processes };
            let monitor = Monitor::start(options, sender).unwrap();
            Self { folder, monitor, events }
        }

        /// Ends the job. Returns the names of the files that the monitor wrote, the job directory,
        /// and its temporary folder.
        fn end(self) -> (Vec<String>, JobDir, tempfile::TempDir) {
            drop(self.monitor);
            let job_dir = JobDir::new(self.folder.path());
            let mut names: Vec<_> = fs::read_dir(job_dir.perf(NodeId::ONLY))
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            (names, job_dir, self.folder)
        }
    }

    fn roomy() -> MemoryBudget {
        MemoryBudget::new(&Limits::default(), 0, 0)
    }

    fn sleeper() -> Child {
        Program::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    /// A4: with an interval there are samples of the machine, its disks and processes. A job of a second and
    /// a half has all of them, with any interval.
    #[test]
    fn a_short_job_writes_all_files() {
        let bench = MonitorFixture::new(Some(Duration::from_secs(1)), roomy());
        let mut child = sleeper();
        bench.monitor.started(WorkerId(7), child.id());
        thread::sleep(Duration::from_millis(1700));
        child.kill().unwrap();
        child.wait().unwrap();
        bench.monitor.exited(WorkerId(7));
        let (names, job_dir, _folder) = bench.end();
        assert_eq!(
            names,
            [
                "machine.json",
                "node_disk_usage.csv",
                "node_resource_usage.csv",
                "os",
                "processes_cpu_memory_usage",
                "processes_resource_usage.csv"
            ]
        );
        let read = |name: &str| fs::read_to_string(job_dir.perf(NodeId::ONLY).join(name)).unwrap();
        let node = read("node_resource_usage.csv");
        // The samples are at 0.5 s, at 1.5 s and at the end, if the machine is fast enough.
        assert!((3..=6).contains(&node.lines().count()), "{node}");
        assert!(node.starts_with("Time (UTC),CPU %,Memory Total (MB),"), "{node}");
        let processes = read("processes_resource_usage.csv");
        let lines_of = |name: &str| processes.lines().filter(|line| line.contains(name)).count();
        assert!(lines_of(",process007,") >= 1, "{processes}");
        assert!(
            lines_of(",leader,") > lines_of(",process007,"),
            "the last sample is without workers: {processes}"
        );
        let lists =
            fs::read_dir(job_dir.perf(NodeId::ONLY).join("processes_cpu_memory_usage")).unwrap();
        assert!(lists.count() >= 2);
    }

    #[test]
    fn a_job_that_ends_at_once_writes_no_files() {
        let bench = MonitorFixture::new(Some(Duration::from_secs(600)), roomy());
        let (names, ..) = bench.end();
        assert!(names.is_empty(), "{names:?}");
    }

    /// A4: an interval of 0 turns samples off; workers are watched in any case.
    #[test]
    fn memory_is_watched_even_without_samples() {
        let tight = Limits { memory: ByteSize(0), ..Limits::default() };
        let tight = Limits { results: ByteSize(0), read: ByteSize(0), ..tight };
        let mut bench = MonitorFixture::new(None, MemoryBudget::new(&tight, 0, 0));
        // The test's own process uses more than the budget.
        let held = vec![1_u8; 400 << 20];
        bench.monitor.started(WorkerId(1), std::process::id());
        let mut child = sleeper();
        bench.monitor.started(WorkerId(2), child.id());
        thread::sleep(Duration::from_millis(700));
        std::hint::black_box(&held);
        let Ok(PerfEvent::Overrun(worker, failure)) = bench.events.try_recv() else {
            panic!("the overrun was not seen");
        };
        assert_eq!(worker, WorkerId(1));
        assert!(failure.message.contains("more than its budget of 256 MB"), "{failure}");
        bench.events.try_recv().expect_err("reported once, for that worker only");
        child.kill().unwrap();
        child.wait().unwrap();
        let (names, ..) = bench.end();
        assert!(names.is_empty(), "{names:?}");
    }

    #[test]
    fn gpu_use_is_reported_only_when_it_changes() {
        let mut gpus = GpuWatch { leased: Vec::new(), reported: None, next: Instant::now() };
        let reported = [None, Some(0), Some(4), Some(5), Some(9), Some(0), None];
        let changes = reported.map(|percent| gpus.changed_use(percent));
        assert_eq!(changes, [None, Some(0), None, Some(5), None, Some(0), None]);
        assert!(gpus.next > Instant::now());
    }

    #[test]
    fn samples_end_with_a_notice_if_writing_fails() {
        let mut bench = MonitorFixture::new(Some(Duration::from_secs(600)), roomy());
        fs::write(bench.folder.path().join("logs"), "no folder").unwrap();
        let Some(PerfEvent::Notice(text)) = bench.events.blocking_recv() else {
            panic!("no notice was sent");
        };
        assert!(text.starts_with("resource samples are no longer written"), "{text}");
        assert!(bench.events.try_recv().is_err(), "sent twice");
    }
}
