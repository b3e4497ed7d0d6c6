//! Samples what a guest's code is doing, some hundred times a second, and writes a profile.
//!
//! Guest code that is compiled for profiling checks the engine's epoch at the head of each loop and function.
//! A thread increments the epoch, and the guest's thread then samples its own stack. So only guest code is
//! sampled: no samples are taken while a guest waits for the host.
//!
//! The file has the processed format of the Firefox profiler. wasmtime's own profiler writes the same format,
//! but only once, after the guest has ended. So it writes nothing for a guest that hangs, which needs a
//! profile most. This profiler writes repeatedly.

use super::state::InstanceState;
use crate::model::{Failure, FailureKind};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile,
    SamplingInterval, StringHandle, ThreadHandle, Timestamp,
};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use wasmtime::{AsContext, Engine, Store, UpdateDeadline, WasmBacktrace};

/// The time between two samples.
const INTERVAL: Duration = Duration::from_millis(5);

/// The minimum time between two writes while a guest runs.
const WRITE_EVERY: Duration = Duration::from_secs(2);

/// The pause after a write is at least this many times the duration of the write. This limits the share of
/// time that writing takes.
const PAUSE_PER_WRITE: u32 = 20;

/// The maximum number of samples in a file, about 80 minutes of a busy guest. Later samples are dropped,
/// because otherwise the file and the memory would grow without bound.
const MAX_SAMPLES: u64 = 1_000_000;

/// The profile of all instances that a worker runs.
#[derive(Clone, Debug)]
pub struct GuestProfiler(Arc<Mutex<Recording>>);

impl GuestProfiler {
    /// The profile of the worker `name`, which is written to `path`. Nothing is written before the first
    /// sample.
    pub fn new(name: &str, path: PathBuf) -> Self {
        Self(Arc::new(Mutex::new(Recording::new(name, path))))
    }

    /// Writes all samples, replacing the previous file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self) -> io::Result<()> {
        self.lock().write()
    }

    /// Makes the store take samples.
    ///
    /// # Errors
    /// If the thread that increments the epoch cannot start.
    pub(super) fn attach(&self, store: &mut Store<InstanceState>) -> Result<(), Failure> {
        self.lock().start_ticker(store.engine()).map_err(|error| {
            let message = format!("the thread that times samples cannot be started: {error}");
            Failure::new(FailureKind::HostFault, message)
        })?;
        let profiler = self.clone();
        store.epoch_deadline_callback(move |context| {
            profiler.lock().sample(&context);
            Ok(UpdateDeadline::Continue(1))
        });
        store.set_epoch_deadline(1);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        // A panic while a sample is taken loses only that sample.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Increments the epoch until it is dropped.
#[derive(Debug)]
struct Ticker(Arc<AtomicBool>);

impl Ticker {
    fn start(engine: &Engine) -> io::Result<Self> {
        let engine = engine.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let must_stop = stop.clone();
        thread::Builder::new().name("ticker".to_owned()).spawn(move || {
            while !must_stop.load(Ordering::Relaxed) {
                thread::sleep(INTERVAL);
                engine.increment_epoch();
            }
        })?;
        Ok(Self(stop))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Recording {
    path: PathBuf,
    /// `None` before the first instance.
    ticker: Option<Ticker>,
    profile: Profile,
    process: ProcessHandle,
    thread: ThreadHandle,
    category: CategoryHandle,
    /// The demangled names in the profile, by the function names in the module.
    names: HashMap<String, StringHandle>,
    start: Instant,
    /// The thread's CPU time at the last sample.
    cpu: Duration,
    samples: u64,
    next_write: Instant,
}

impl Recording {
    fn new(name: &str, path: PathBuf) -> Self {
        let interval = SamplingInterval::from(INTERVAL);
        let mut profile = Profile::new("sandmill", SystemTime::now().into(), interval);
        // Frames have function names, so a viewer has no addresses to look up.
        profile.set_symbolicated(true);
        let zero = Timestamp::from_nanos_since_reference(0);
        let process = profile.add_process(name, std::process::id(), zero);
        let thread = profile.add_thread(process, std::process::id(), zero, true);
        profile.set_thread_name(thread, name);
        let category = profile.add_category("Entry script", CategoryColor::Blue);
        let start = Instant::now();
        Self {
            path,
            ticker: None,
            profile,
            process,
            thread,
            category,
            names: HashMap::new(),
            start,
            cpu: Duration::ZERO,
            samples: 0,
            next_write: start + WRITE_EVERY,
        }
    }

    fn start_ticker(&mut self, engine: &Engine) -> io::Result<()> {
        if self.ticker.is_none() {
            self.ticker = Some(Ticker::start(engine)?);
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        let nanos = self.start.elapsed().as_nanos();
        Timestamp::from_nanos_since_reference(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Samples the stack of the running guest.
    fn sample(&mut self, context: impl AsContext) {
        if self.samples >= MAX_SAMPLES {
            return;
        }
        let trace = WasmBacktrace::force_capture(context);
        let frames: Vec<FrameInfo> = trace.frames().iter().rev().map(|f| self.frame(f)).collect();
        let stack = self.profile.intern_stack_frames(self.thread, frames.into_iter());
        let cpu = thread_cpu_time();
        let used = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        let now = self.now();
        self.profile.add_sample(self.thread, now, stack, used.into(), 1);
        self.samples += 1;
        if Instant::now() >= self.next_write || self.samples == MAX_SAMPLES {
            // A failed write is repeated later; the last write reports its error.
            let _ = self.write();
        }
    }

    fn frame(&mut self, frame: &wasmtime::FrameInfo) -> FrameInfo {
        let unnamed;
        let name = match frame.func_name() {
            Some(name) => name,
            None => {
                unnamed = format!("function {}", frame.func_index());
                &unnamed
            }
        };
        let handle = match self.names.get(name) {
            Some(handle) => *handle,
            None => {
                let shown = format!("{:#}", rustc_demangle::demangle(name));
                let handle = self.profile.intern_string(&shown);
                self.names.insert(name.to_owned(), handle);
                handle
            }
        };
        FrameInfo {
            frame: Frame::Label(handle),
            category_pair: self.category.into(),
            flags: FrameFlags::empty(),
        }
    }

    /// Writes a new file and renames the file, so that a killed process leaves a complete file.
    fn write(&mut self) -> io::Result<()> {
        if self.samples == 0 {
            return Ok(());
        }
        let begin = Instant::now();
        let now = self.now();
        self.profile.set_thread_end_time(self.thread, now);
        self.profile.set_process_end_time(self.process, now);
        let new = self.path.with_extension("json.new");
        let written =
            write_file(&self.profile, &new).and_then(|()| std::fs::rename(&new, &self.path));
        if written.is_err() {
            // The partial file may be what fills the disk.
            let _ = std::fs::remove_file(&new);
        }
        self.next_write = Instant::now() + WRITE_EVERY.max(begin.elapsed() * PAUSE_PER_WRITE);
        written
    }
}

fn write_file(profile: &Profile, path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    serde_json::to_writer(&mut file, profile)?;
    file.flush()
}

/// The CPU time of this thread so far.
fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives for the call.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if answer != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::{Grants, GuestProgram, MiniBatchData, ResultSink, RunContext};
    use super::*;
    use crate::compile::testing::component;
    use crate::compile::{Instrumentation, compile_here};
    use crate::model::Limits;
    use serde_json::Value;

    /// A guest that is busy in a named function, and then ends as `{END}` says.
    const BUSY: &str = r#"
        (func $count_sheep (local $left i64)
          (local.set $left (i64.const 400000000))
          (loop $more
            (local.set $left (i64.sub (local.get $left) (i64.const 1)))
            (br_if $more (i64.ne (local.get $left) (i64.const 0)))))
        RUN (call $count_sheep) {END})"#;

    struct Nowhere;
    impl ResultSink for Nowhere {
        fn row(&mut self, _: &str) {}
        fn failed(&mut self, _: usize, _: &str) {}
        fn table(&mut self, _: &[u8]) -> Result<(), Failure> {
            Ok(())
        }
    }

    /// Runs a guest under a profiler. Returns the outcome and the profiler.
    fn run(end: &str, path: PathBuf) -> (Result<(), Failure>, GuestProfiler) {
        let component = component("run-only", &BUSY.replace("{END}", end));
        let with = Instrumentation { profile: true, ..Instrumentation::default() };
        let code = compile_here(&component, with).unwrap();
        let folder = path.parent().unwrap().to_owned();
        let profiler = GuestProfiler::new("process007", path);
        let limits = Limits::default();
        let program = GuestProgram::load(&code, with, limits.stack).unwrap();
        let program = program.profiled_by(Some(profiler.clone()));
        let mut instance = program.instantiate(&Grants::sample(&folder)).unwrap();
        (instance.run(MiniBatchData::Void, &RunContext::sample(), &mut Nowhere).1, profiler)
    }

    fn read(path: &Path) -> Value {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// Rule A5 in docs/parallel-run-step.md: the profile names the guest's functions, in the order of calls.
    #[test]
    fn a_profile_shows_where_time_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process007.profile.json");
        let (result, profiler) = run("(i32.const 0)", path.clone());
        result.unwrap();
        assert!(!path.exists(), "too early");
        profiler.write().unwrap();
        let profile = read(&path);
        assert_eq!(profile["meta"]["product"], "sandmill");
        let thread = &profile["threads"][0];
        let samples = thread["samples"]["length"].as_u64().unwrap();
        assert!(samples > 3, "{samples} samples");
        let text = profile.to_string();
        assert!(text.contains("\"count_sheep\""), "{text}");
        let deepest = thread["samples"]["stack"][1].as_u64().unwrap();
        let caller = &thread["stackTable"]["prefix"][usize::try_from(deepest).unwrap()];
        assert!(caller.is_u64(), "run called it: {text}");
        // Writing again adds nothing.
        profiler.write().unwrap();
        assert_eq!(read(&path)["threads"][0]["samples"]["length"], samples);
    }

    #[test]
    fn a_trap_loses_no_samples() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process007.profile.json");
        let (result, profiler) = run("unreachable", path.clone());
        let failure = result.expect_err("it traps");
        assert_eq!(failure.kind, FailureKind::Trap);
        assert!(failure.detail.contains("stack of the entry script"), "{}", failure.detail);
        profiler.write().unwrap();
        assert!(read(&path).to_string().contains("\"count_sheep\""));
    }

    #[test]
    fn a_failed_write_leaves_no_partial_profile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process007.profile.json");
        std::fs::create_dir(&path).unwrap();
        let (result, profiler) = run("(i32.const 0)", path);
        result.unwrap();
        profiler.write().expect_err("its path is a folder");
        assert!(!folder.path().join("process007.profile.json.new").exists());
        assert!(!folder.path().join("process007.profile.json").is_file());
    }
}
