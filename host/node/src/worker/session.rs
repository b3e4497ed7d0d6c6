//! The worker's conversation with the leader.

use super::attempt::{AfterAttempt, AttemptRunner};
use super::code::WorkerCode;
use super::folder::{OutputFolder, TemporaryFolder};
use super::guest::Guest;
use super::link::{LeaderLink, SocketEvent};
use crate::inference::{LoadedModels, NotePlace, has_inference};
use crate::model::{
    Failure, GUEST_LOGS, GUEST_OUTPUT, GUEST_TEMPORARY, JobDir, Mount, OutputAction, OutputLayout,
    WallState, WorkerId, printable,
};
use crate::opening::make_private;
use crate::output::{PartFile, RowWriter};
use crate::protocol::{FromWorker, ToWorker, WorkerSetup};
use crate::sandbox::{Grants, GuestProfiler, LogFolder, Seed, SinkFile, guest_thread_stack};
use sandmill_data::attempt::{CpuMeter, Loader, bounded, host_fault, not_stored};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

/// How a session ends if no fault of the worker itself ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// The leader ended it, or is gone.
    Done,
    /// The component could not be loaded or `init` failed; the leader has been notified.
    InitFailed,
}

/// The session of a worker that has its set-up.
pub(super) struct Session {
    link: LeaderLink,
    /// Messages that came while the worker waited for the leader's decision, in order.
    pending: VecDeque<ToWorker>,
    guest: Guest,
    runner: AttemptRunner,
    profiler: Option<GuestProfiler>,
    /// Whether the guest may run models.
    has_inference: bool,
    /// The state of the wall around this process; empty until it is built.
    pub(super) wall: WallState,
}

impl Session {
    /// Makes the worker's folders and files, and loads the component. If that fails, notifies the leader and
    /// returns `None`. Fails only if `link` fails.
    pub(super) fn prepare(
        setup: WorkerSetup,
        mut link: LeaderLink,
        code: WorkerCode,
    ) -> io::Result<Option<Self>> {
        let profiler = setup.settings.profiling_module.is_some().then(|| {
            let path = JobDir::new(&setup.job_dir).worker_new_profile(setup.worker);
            GuestProfiler::new(&setup.worker.to_string(), path)
        });
        let loaded = code.program(setup.loading());
        let has_inference = has_inference(&setup.models, &setup.inference);
        match loaded.and_then(|program| Ok((program, make_runner(&setup)?))) {
            Ok((program, runner)) => {
                let program = program.profiled_by(profiler.clone());
                let is_deterministic = setup.settings.deterministic;
                let guest = Guest::new(program, grants(setup, &runner), is_deterministic);
                let wall = WallState::default();
                let pending = VecDeque::new();
                Ok(Some(Self { link, pending, guest, runner, profiler, has_inference, wall }))
            }
            Err(failure) => {
                report_init_failed(&mut link, failure)?;
                Ok(None)
            }
        }
    }

    /// The stack size of the thread that serves.
    pub(super) fn stack(&self) -> usize {
        guest_thread_stack(self.guest.limits(), self.has_inference)
    }

    /// The descriptors of logs to which this process appends: its own standard output and error, and the
    /// files for the first part of each of the guest's logs.
    pub(super) fn logs(&self) -> Vec<RawFd> {
        let mut logs = vec![libc::STDOUT_FILENO, libc::STDERR_FILENO];
        logs.extend(self.guest.logs());
        logs
    }

    /// Serves until the leader sends `Shutdown` or is gone.
    pub(super) fn serve(mut self) -> io::Result<SessionEnd> {
        let end = self.converse();
        if let Some(Err(error)) = self.profiler.as_ref().map(GuestProfiler::write) {
            // The job does not need the profile.
            eprintln!("the profile cannot be written: {}", printable(&error.to_string()));
        }
        match end {
            // If the leader is gone, an error of the link does not matter.
            Err(error) if is_disconnect(&error) => Ok(SessionEnd::Done),
            end => end,
        }
    }

    fn converse(&mut self) -> io::Result<SessionEnd> {
        if !self.start_guest()? {
            return Ok(SessionEnd::InitFailed);
        }
        loop {
            match self.next_message()? {
                SocketEvent::Message(
                    ToWorker::Run(assignment) | ToWorker::RunFirst(assignment),
                ) => {
                    let next = self.runner.attempt(&assignment, &mut self.guest, &mut self.link)?;
                    if next == AfterAttempt::End {
                        self.link.flush()?;
                        return Ok(SessionEnd::Done);
                    }
                    if self.guest.is_broken() {
                        self.link.queue(&FromWorker::Restarting)?;
                        if !self.start_guest()? {
                            return Ok(SessionEnd::InitFailed);
                        }
                    }
                    if next == AfterAttempt::AwaitDecision && !self.await_decision()? {
                        return Ok(SessionEnd::Done);
                    }
                }
                SocketEvent::Message(ToWorker::GoOn) => {
                    return Err(io::Error::other(
                        "the leader sent GoOn although the worker does not wait for a decision",
                    ));
                }
                SocketEvent::Message(ToWorker::Reclaimable { id, attempt }) => {
                    self.runner.part.reclaim((id, attempt));
                }
                SocketEvent::Message(ToWorker::Shutdown) => return self.shut_down(),
                SocketEvent::Message(ToWorker::Setup(_)) => {
                    return Err(io::Error::other("the leader sent a second set-up"));
                }
                SocketEvent::None => {}
                SocketEvent::Closed => return Ok(SessionEnd::Done),
            }
        }
    }

    fn next_message(&mut self) -> io::Result<SocketEvent> {
        if let Some(message) = self.pending.pop_front() {
            return Ok(SocketEvent::Message(message));
        }
        match self.link.poll()? {
            SocketEvent::None => {
                // The time until the next message does not count for a mini-batch.
                self.runner.last_usage = None;
                self.link.wait()
            }
            incoming => Ok(incoming),
        }
    }

    /// Waits for the leader's decision after a failed attempt. Other messages that arrive are kept in
    /// `pending`. Returns false if the leader is gone.
    fn await_decision(&mut self) -> io::Result<bool> {
        self.runner.last_usage = None;
        loop {
            match self.link.wait()? {
                SocketEvent::Message(ToWorker::GoOn) => return Ok(true),
                SocketEvent::Message(first @ ToWorker::RunFirst(_)) => {
                    self.pending.push_front(first);
                    return Ok(true);
                }
                SocketEvent::Message(end @ ToWorker::Shutdown) => {
                    self.pending.push_back(end);
                    return Ok(true);
                }
                SocketEvent::Message(other) => self.pending.push_back(other),
                SocketEvent::None => {}
                SocketEvent::Closed => return Ok(false),
            }
        }
    }

    /// Makes an instance, calls `init` and reports the result to the leader. Returns whether that succeeded.
    fn start_guest(&mut self) -> io::Result<bool> {
        self.link.flush()?;
        self.runner.last_usage = None;
        let AttemptRunner { folder, temporary, .. } = &mut self.runner;
        let started = folder
            .reset()
            .and_then(|()| temporary.reset())
            .and_then(|()| self.guest.start())
            .and_then(|init| temporary.keep_present().map(|()| init))
            .and_then(|init| folder.keep_present().map(|()| init));
        match started {
            Ok(init) => {
                let wall = self.wall.clone();
                self.link.queue(&FromWorker::Ready { init, wall })?;
                self.link.flush()?;
                Ok(true)
            }
            Err(failure) => {
                report_init_failed(&mut self.link, failure)?;
                Ok(false)
            }
        }
    }

    fn shut_down(&mut self) -> io::Result<SessionEnd> {
        self.link.flush()?;
        if let Err(failure) = self.guest.stop() {
            // All mini-batches are done and reported, so a line on stderr suffices.
            eprintln!("shutdown failed: {}", printable(&bounded(failure).to_string()));
        }
        Ok(SessionEnd::Done)
    }
}

fn report_init_failed(link: &mut LeaderLink, failure: Failure) -> io::Result<()> {
    link.queue(&FromWorker::InitFailed { failure: bounded(failure) })?;
    link.flush()
}

fn is_disconnect(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Makes everything that attempts need below the job directory.
fn make_runner(setup: &WorkerSetup) -> Result<AttemptRunner, Failure> {
    let job_dir = JobDir::new(&setup.job_dir);
    let worker = setup.worker;
    make_folder(&job_dir.parts())?;
    make_folder(&job_dir.script_log_dir(worker.node()))?;
    let sinks =
        [job_dir.script_stdout(worker), job_dir.script_stderr(worker), job_dir.script_log(worker)];
    for file in sinks {
        file.parent().map_or(Ok(()), make_folder)?;
    }
    let part = PartFile::create(&job_dir.part_file(worker), setup.keeps_rows)
        .map_err(|error| not_stored(&error))?;
    let output = job_dir.worker_output(worker);
    let folder = OutputFolder::create(output.clone());
    let folder = folder.map_err(|e| host_fault("make", &output, &e))?;
    let temporary = if setup.temporary {
        let path = job_dir.worker_temporary(worker);
        TemporaryFolder::create(path.clone()).map_err(|e| host_fault("make", &path, &e))?
    } else {
        TemporaryFolder::default()
    };
    let loader = Loader::new(&setup.sources, &setup.tables, &job_dir, worker)?;
    let loader = loader.with_spill(setup.spill.clone());
    let keeps_rows = setup.settings.output_action == OutputAction::AppendRow;
    let rows = RowWriter::new(setup.limits.results.0, keeps_rows, &setup.output_format)
        .with_max_row_size(setup.limits.row);
    let is_strict = setup.settings.strict_cardinality;
    let has_header = setup.output_format.layout == OutputLayout::Parts;
    let meter = CpuMeter::open();
    let last_usage = None;
    Ok(AttemptRunner {
        job_dir,
        worker,
        loader,
        rows,
        is_strict,
        part,
        has_header,
        folder,
        temporary,
        meter,
        last_usage,
    })
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    make_private(path).map_err(|error| host_fault("make", path, &error))
}

/// What the guest may see and use.
fn grants(setup: WorkerSetup, runner: &AttemptRunner) -> Grants {
    let job_dir = &runner.job_dir;
    let worker = setup.worker;
    let writable = |host, guest: &str| Mount { host, guest: guest.to_owned(), writable: true };
    let mut mounts: Vec<Mount> = runner.loader.mounts().collect();
    mounts.extend(setup.mounts);
    mounts.push(writable(job_dir.worker_output(worker), GUEST_OUTPUT));
    mounts.push(writable(job_dir.script_log_dir(worker.node()), GUEST_LOGS));
    if setup.temporary {
        mounts.push(writable(job_dir.worker_temporary(worker), GUEST_TEMPORARY));
    }
    // The inference libraries are opened here, before the wall is built. Models are read after the wall is
    // built.
    let lease = setup.gpu.map(|gpu| gpu.index);
    let note_file =
        has_inference(&setup.models, &setup.inference).then(|| open_note_file(job_dir, worker));
    let models =
        LoadedModels::open(setup.models, &setup.inference, lease, setup.workers, &setup.limits);
    if let Some(note_file) = note_file.flatten() {
        models.note_in(note_file);
    }
    Grants {
        mounts,
        arguments: setup.arguments,
        environment: setup.environment,
        agent_name: worker.to_string(),
        node_id: worker.node().to_string(),
        log_dir: GUEST_LOGS.to_owned(),
        log_folder: LogFolder::new(job_dir.script_log_dir(worker.node()), setup.workers),
        output_dir: GUEST_OUTPUT.to_owned(),
        source_dir: setup.source_dir,
        gpu_index: lease,
        models: Arc::new(models),
        logging_level: setup.settings.logging_level,
        limits: setup.limits,
        seed: Seed::before_mini_batches(),
        stdout: SinkFile::open(&job_dir.script_stdout(worker)),
        stderr: SinkFile::open(&job_dir.script_stderr(worker)),
        log: SinkFile::open(&job_dir.script_log(worker)),
    }
}

/// The file in which the worker records its current model call. `None` if it cannot be created (full disk);
/// the job continues without it.
fn open_note_file(job_dir: &JobDir, worker: WorkerId) -> Option<NotePlace> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(true);
    let note_file =
        options.open(job_dir.worker_inference(worker)).and_then(|file| NotePlace::map_file(&file));
    let print_error = |error: &_| {
        let error = format!("model calls cannot be recorded: {error}");
        eprintln!("{}", printable(&error));
    };
    note_file.inspect_err(print_error).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{OsSandbox, Source, WorkerSettings};

    #[test]
    fn a_guest_gets_only_its_own_folders() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let source = |guest: &str, pattern: Option<&str>| Source {
            guest: guest.to_owned(),
            pattern: pattern.map(str::to_owned),
            ..Source::new("d", root.join("data"))
        };
        let side = Mount { host: root.join("m"), guest: "/side_inputs/m".into(), writable: false };
        let setup = WorkerSetup {
            worker: WorkerId(7),
            workers: 2,
            arguments: vec!["script".to_owned()],
            mounts: vec![side],
            temporary: true,
            sources: vec![source("/inputs/a", None), source("/inputs/b", Some("*.png"))],
            settings: WorkerSettings {
                output_action: OutputAction::SummaryOnly,
                os_sandbox: OsSandbox::Off,
                ..WorkerSettings::default()
            },
            ..WorkerSetup::sample(root.join("job"))
        };
        let runner = make_runner(&setup).unwrap();
        let grants = grants(setup, &runner);
        let mut text = String::new();
        for mount in &grants.mounts {
            let host = mount.host.strip_prefix(root).unwrap().display().to_string();
            text += &format!("{} -> {host} {}\n", mount.guest, mount.writable);
            let is_in_job = host.starts_with("job");
            assert_eq!(mount.host.is_dir(), is_in_job, "{host}");
        }
        insta::assert_snapshot!(text, @"
        /inputs/a -> data false
        /inputs/b -> job/links/process007/1 false
        /side_inputs/m -> m false
        /output -> job/work/process007/output true
        /logs -> job/logs/user/entry_script_log/0/files true
        /tmp -> job/work/process007/tmp true
        ");
        assert_eq!(grants.agent_name, "process007");
        for file in runner.job_dir.script_files(WorkerId(7)) {
            assert!(file.is_file());
            // A guest that can write to the file's folder could replace the file with a link, which the
            // host would follow.
            let guest_can_write = |mount: &Mount| mount.writable && file.starts_with(&mount.host);
            assert!(!grants.mounts.iter().any(guest_can_write), "{}", file.display());
        }
    }
}
