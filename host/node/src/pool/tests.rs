//! Tests with real processes: shell scripts act as workers, and in `planner` as the planner.

use super::launch::Program;
use super::{Pool, PoolEvent, PrestartedProcesses};
use crate::gpu::MemoryWatch;
use crate::model::{
    CallStats, GpuLease, InferenceSettings, MiniBatch, MiniBatchId, MiniBatchWork, OsSandbox,
    WallState, WorkerId,
};
use crate::model::{WorkerExit, WorkerSettings};
use crate::protocol::{Assignment, FrameBuffer, FromWorker, ToWorker, WorkerSetup, encode};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

const WORKER: WorkerId = WorkerId(0);

struct PoolFixture {
    dir: tempfile::TempDir,
    pool: Pool,
    events: mpsc::Receiver<PoolEvent>,
}

impl PoolFixture {
    fn new(script: &str, capacity: usize) -> Self {
        Self::with(script, capacity, false)
    }

    fn with(script: &str, capacity: usize, has_zygote: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("component");
        fs::write(&component, "compiled code").unwrap();
        let shell = |script: &str| vec!["-c".into(), script.into(), "sh".into()];
        let worker = shell(script);
        let planner = shell(script);
        let program = Program { path: "/bin/sh".into(), worker, planner, has_zygote };
        let (sender, events) = mpsc::channel(capacity);
        let pool = Pool::with_program(program, File::open(component).unwrap(), sender);
        Self { dir, pool, events }
    }

    fn setup(&self) -> WorkerSetup {
        WorkerSetup {
            worker: WORKER,
            settings: WorkerSettings { os_sandbox: OsSandbox::Off, ..WorkerSettings::default() },
            ..WorkerSetup::sample(self.dir.path())
        }
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    /// A file in the worker's working directory, which is two folders down.
    fn worker_file(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.path().join("work/process000").join(name)).unwrap()
    }

    async fn next(&mut self) -> PoolEvent {
        let wait = tokio::time::timeout(Duration::from_secs(20), self.events.recv());
        wait.await.expect("an event should have come").expect("the pool is alive")
    }

    /// All messages of the worker until its exit, and the exit.
    async fn until_the_end(&mut self) -> (Vec<FromWorker>, WorkerExit) {
        let mut messages = Vec::new();
        loop {
            match self.next().await {
                PoolEvent::Worker(WORKER, message) => messages.push(message),
                PoolEvent::Exited(WORKER, exit) => return (messages, exit),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn frames<T: serde::Serialize>(messages: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        encode(message, &mut bytes).unwrap();
    }
    bytes
}

fn started(id: u64) -> FromWorker {
    FromWorker::Started { id: MiniBatchId(id) }
}

fn assignment(id: u64, files: usize) -> ToWorker {
    let work = MiniBatchWork::Files(vec!["some/file/name.png"; files].into_iter().collect());
    let mini_batch = MiniBatch::new(MiniBatchId(id), 0, work);
    ToWorker::Run(Assignment { mini_batch, attempt: 1, is_last: false, objects: Vec::new() })
}

#[tokio::test]
async fn delivers_every_message_and_then_the_end() {
    // The channel and one read cannot hold all these messages, and the process ends long before we have read
    // them.
    let mut bench = PoolFixture::new("cat ../../frames >&0; echo trouble >&2; exit 3", 2);
    let messages: Vec<_> = (0..5_000).map(started).collect();
    bench.file("frames", &frames(&messages));
    bench.pool.spawn(bench.setup()).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (seen, exit) = bench.until_the_end().await;
    assert_eq!(seen, messages);
    assert_eq!(exit, WorkerExit { code: Some(3), note: "trouble".into(), ..WorkerExit::default() });
}

/// The worker's environment shows only its own GPU to the libraries that it loads. Without a lease, the
/// environment has no such variables (rules G1 and G2 in `docs/parallel-run-step.md`).
#[tokio::test]
async fn a_worker_sees_the_gpu_that_is_leased_to_it() {
    let leased = "CUDA_CACHE_DISABLE=1\nCUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=3\n\
                  LD_LIBRARY_PATH=/cuda/lib:/more\n";
    for (lease, expected) in [(Some(3), leased), (None, "")] {
        let mut bench = PoolFixture::new("env | grep -e CUDA_[^H] -e LD_ | sort >env", 8);
        let inference = InferenceSettings {
            cuda: vec!["/cuda/lib".into(), "/more".into()],
            ..InferenceSettings::default()
        };
        let gpu = lease.map(GpuLease::plain);
        bench.pool.spawn(WorkerSetup { gpu, inference, ..bench.setup() }).unwrap();
        bench.until_the_end().await;
        assert_eq!(String::from_utf8(bench.worker_file("env")).unwrap(), expected);
    }
}

/// A worker's exit is reported although its GPU is not free yet. A second event follows when the
/// GPU is free.
#[tokio::test]
async fn the_pool_waits_for_an_exited_workers_gpu() {
    let used = Arc::new(AtomicU64::new(0));
    let reading = Arc::clone(&used);
    let reading = Arc::new(move |_: &str| Some(reading.load(Ordering::Relaxed)));
    let lease = GpuLease::plain(0);
    let watch = MemoryWatch::start(reading, std::slice::from_ref(&lease));
    used.store(900 << 20, Ordering::Relaxed);
    let mut bench = PoolFixture::new("exit 3", 8);
    bench.pool.watch_gpus(Some(watch));
    bench.pool.spawn(WorkerSetup { gpu: Some(lease), ..bench.setup() }).unwrap();
    let PoolEvent::Notice(text) = bench.next().await else { panic!("a notice") };
    assert!(text.starts_with("GPU 0: 900 MB of its memory are in use"), "{text}");
    let (_, exit) = bench.until_the_end().await;
    assert!(exit.holds_gpu);
    used.store(0, Ordering::Relaxed);
    assert!(matches!(bench.next().await, PoolEvent::GpuFree(WORKER)));
}

/// A zygote that fails is tried only once. Then each worker is started without it. (All tests that run the
/// binary cover forked workers.)
#[tokio::test]
async fn workers_start_without_a_zygote_if_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let zygotes = folder.path().join("zygotes");
    let script = format!(r#"[ "$PWD" = / ] || exit 5; echo once >>"{}""#, zygotes.display());
    let mut bench = PoolFixture::with(&script, 8, true);
    bench.pool.begin(&bench.setup()).unwrap();
    for _ in 0..2 {
        bench.pool.spawn(bench.setup()).unwrap();
        let (_, exit) = bench.until_the_end().await;
        assert_eq!((exit.code, exit.note.as_str()), (Some(5), ""));
    }
    assert_eq!(fs::read_to_string(&zygotes).unwrap(), "once\n");
    // A worker with a GPU cannot be forked.
    let mut bench = PoolFixture::with(&script, 8, true);
    let gpu = Some(GpuLease::plain(0));
    bench.pool.spawn(WorkerSetup { gpu, ..bench.setup() }).unwrap();
    bench.until_the_end().await;
    assert_eq!(fs::read_to_string(&zygotes).unwrap(), "once\n");
}

/// With telemetry, the library would start a thread before the wall is built.
#[tokio::test]
async fn onnxruntime_starts_without_telemetry() {
    let mut bench = PoolFixture::new("env | grep ORT >env", 8);
    let mut setup = bench.setup();
    setup.inference.onnxruntime = Some("/x/libonnxruntime.so".into());
    bench.pool.spawn(setup).unwrap();
    bench.until_the_end().await;
    assert_eq!(bench.worker_file("env"), b"ORT_DISABLE_TELEMETRY=1\n");
}

#[tokio::test]
async fn a_worker_gets_only_its_setup_and_folder() {
    let script = "head -c $(cat ../../size) <&0 >received; env >env; cat <&1 >component";
    let mut bench = PoolFixture::new(script, 8);
    let mut setup = bench.setup();
    setup.arguments = vec!["x".repeat(1000); 3000];
    let messages =
        [ToWorker::Setup(Box::new(setup.clone())), assignment(0, 10_000), assignment(1, 10_000)];
    bench.file("size", frames(&messages).len().to_string().as_bytes());
    let id = bench.pool.spawn(setup).unwrap();
    assert!(id > 1);
    bench.pool.send(WORKER, &messages[1]);
    bench.pool.send(WORKER, &messages[2]);
    let (_, exit) = bench.until_the_end().await;
    assert_eq!((exit.code, exit.note.as_str()), (Some(0), ""));

    // We do not use assert_eq, which would print megabytes.
    assert!(bench.worker_file("received") == frames(&messages));
    assert_eq!(bench.worker_file("component"), b"compiled code");
    let environment = String::from_utf8(bench.worker_file("env")).unwrap();
    // Variables that a shell sets on its own.
    let own = ["PWD=", "OLDPWD=", "SHLVL=", "_=", "RUST_BACKTRACE="];
    let foreign: Vec<_> =
        environment.lines().filter(|line| !own.iter().any(|own| line.starts_with(own))).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let folders = ["output", "staged", "../../links/process000", "../../parts"];
    for folder in folders {
        assert!(bench.dir.path().join("work/process000").join(folder).is_dir(), "{folder}");
    }
}

#[tokio::test]
async fn a_setup_that_is_too_long_starts_no_worker() {
    let mut bench = PoolFixture::new("sleep 60", 8);
    let mut setup = bench.setup();
    setup.arguments = vec!["x".repeat(17 << 20)];
    let error = bench.pool.spawn(setup).unwrap_err();
    assert!(error.to_string().contains("longer than the 16777216 allowed"), "{error}");
    // The id is free, and the failed worker causes no event.
    bench.pool.spawn(bench.setup()).unwrap();
    bench.pool.kill(WORKER);
    let (_, exit) = bench.until_the_end().await;
    assert_eq!(exit.signal, Some(9));
}

#[tokio::test]
async fn a_worker_that_sends_a_malformed_message_is_killed() {
    let script = "cat ../../frames >&0; echo some words >&2; sleep 60";
    let mut bench = PoolFixture::new(script, 8);
    let mut bytes = frames(&[started(1)]);
    bytes.extend_from_slice(&[2, 0, 0, 0, 0xff, 0xff]);
    bytes.extend_from_slice(&frames(&[started(2)]));
    bench.file("frames", &bytes);
    bench.pool.spawn(bench.setup()).unwrap();
    let (seen, exit) = bench.until_the_end().await;
    assert_eq!(seen, [started(1)]);
    assert_eq!(exit.signal, Some(9));
    assert!(exit.note.starts_with("it sent something that is not a message: "), "{}", exit.note);
}

/// The message is well formed, but no honest worker sends it.
#[tokio::test]
async fn a_worker_that_exceeds_message_bounds_is_killed() {
    let mut bench = PoolFixture::new("cat ../../frames >&0; sleep 60", 8);
    let init = CallStats { seconds: f64::NAN, fuel: None };
    let impossible = FromWorker::Ready { init, wall: WallState::default() };
    bench.file("frames", &frames(&[started(1), impossible, started(2)]));
    bench.pool.spawn(bench.setup()).unwrap();
    let (seen, exit) = bench.until_the_end().await;
    assert_eq!((seen, exit.signal), (vec![started(1)], Some(9)));
    assert!(exit.note.contains("exceeds its limits: an impossible time"), "{}", exit.note);
}

/// We must not write through a link of an earlier run's worker, nor wait for the reader of its pipe.
#[tokio::test]
async fn a_log_file_that_is_a_link_or_a_pipe_is_refused() {
    let mut bench = PoolFixture::new("sleep 60", 8);
    let log = crate::model::JobDir::new(bench.dir.path()).worker_stderr(WORKER);
    let victim = bench.dir.path().join("victim");
    fs::write(&victim, "").unwrap();
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&victim, &log).unwrap();
    let error = bench.pool.spawn(bench.setup()).unwrap_err().to_string();
    assert!(error.starts_with("cannot open the log file "), "{error}");
    fs::remove_file(&log).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &log, kind, mode, 0).unwrap();
    let error = bench.pool.spawn(bench.setup()).unwrap_err().to_string();
    assert!(error.contains(" the log file "), "{error}");
}

#[tokio::test]
async fn a_worker_that_announces_a_huge_message_is_killed() {
    let mut bench = PoolFixture::new(r"printf '\377\377\377\377' >&0; sleep 60", 8);
    bench.pool.spawn(bench.setup()).unwrap();
    let (_, exit) = bench.until_the_end().await;
    assert_eq!(exit.signal, Some(9));
    assert!(exit.note.contains("4294967295 bytes"), "{}", exit.note);
}

#[tokio::test]
async fn kill_ends_the_whole_group_at_once() {
    // The worker's child would keep the socket open.
    let mut bench = PoolFixture::new("sleep 60 & cat ../../frames >&0; wait", 8);
    bench.file(
        "frames",
        &frames(&[FromWorker::Ready { init: CallStats::default(), wall: WallState::default() }]),
    );
    bench.pool.spawn(bench.setup()).unwrap();
    assert!(matches!(bench.next().await, PoolEvent::Worker(_, FromWorker::Ready { .. })));
    bench.pool.kill(WORKER);
    let (_, exit) = bench.until_the_end().await;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    // Messages to a worker that is gone do nothing.
    bench.pool.kill(WORKER);
    bench.pool.send(WORKER, &ToWorker::Shutdown);
}

#[tokio::test]
async fn a_leftover_child_process_does_not_delay_the_exit() {
    let mut bench = PoolFixture::new("sleep 30 & cat ../../frames >&0; exit 7", 8);
    bench.file("frames", &frames(&[started(1), started(2)]));
    bench.pool.spawn(bench.setup()).unwrap();
    let begin = std::time::Instant::now();
    let (seen, exit) = bench.until_the_end().await;
    assert_eq!((seen.len(), exit.code), (2, Some(7)));
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn dropping_the_pool_kills_its_processes() {
    let mut bench = PoolFixture::new("cat ../../frames >&0; sleep 60", 8);
    bench.file("frames", &frames(&[started(1)]));
    let id = bench.pool.spawn(bench.setup()).unwrap();
    bench.next().await;
    drop(bench.pool);
    let exited = tokio::time::timeout(Duration::from_secs(20), bench.events.recv()).await.unwrap();
    assert!(matches!(exited, Some(PoolEvent::Exited(_, WorkerExit { signal: Some(9), .. }))));
    assert!(!Path::new(&format!("/proc/{id}")).exists());
}

/// The note about a worker's exit holds the last bytes of its stderr, with control characters
/// escaped (rule F11 in `docs/parallel-run-step.md`).
#[tokio::test]
async fn a_note_is_the_printable_tail_of_stderr() {
    let script = r"i=0; while [ $i -lt 900 ]; do echo filler >&2; i=$((i+1)); done;
        printf 'the \033[31mend\n' >&2; exit 1";
    let mut bench = PoolFixture::new(script, 8);
    bench.pool.spawn(bench.setup()).unwrap();
    let (_, exit) = bench.until_the_end().await;
    assert!(exit.note.ends_with("filler\nthe \\u{1b}[31mend"), "{:?}", exit.note);
    assert!(exit.note.len() < 2100);
}

#[tokio::test]
async fn a_missing_program_is_named_in_the_error() {
    let mut bench = PoolFixture::new("", 8);
    let component = File::open(bench.dir.path().join("component")).unwrap();
    let (sender, _events) = mpsc::channel(1);
    bench.pool = Pool::new("/nowhere/sandmill".into(), component, sender);
    let error = bench.pool.spawn(bench.setup()).unwrap_err();
    let expected = "cannot start a worker process /nowhere/sandmill: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[path = "planner_tests.rs"]
mod planner;
