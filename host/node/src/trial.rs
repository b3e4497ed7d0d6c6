//! Runs an entry script on trial. A child process, behind the same two walls as a worker, loads the script,
//! and runs it if the caller wants that. The calling process loads no untrusted code.

use super::mapping::{self, MapNews, MapSettings};
use super::trial_results::{FirstResult, Returned};
use super::trial_steps::run_steps;
pub use super::trial_steps::{InstanceResults, StepData, TrialResult, TrialStep, TrialTableKind};
use crate::compile::{Compiled, Instrumentation};
use crate::inference::{LoadedModels, NO_TELEMETRY, PROCESSORS, has_inference, inference_memory};
use crate::model::{
    Failure, GUEST_LOGS, GUEST_OUTPUT, InferenceSettings, JobModel, Limits, LoggingLevel, Mount,
    NodeId,
};
use crate::model::{OsSandbox, printable};
use crate::protocol::{encode, packets, read_frame, receive_packet, send_packet};
use crate::sandbox::{
    Grants, Instance, LogFolder, MiniBatchData, RunContext, SinkFile, guest_thread_stack,
};
use crate::sandbox::{GuestProgram, Seed};
use crate::wall::{self, FolderRights, GrantedPath, ResourceLimits, Wall, WallRole, death};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// The hidden subcommand that must call [`serve`].
pub const TRIAL_COMMAND: &str = "try-component";

/// The longest time that loading may take.
const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// Bytes that the process may use besides its guest's memory and results.
const OWN_MEMORY: u64 = 1 << 30;
/// Bytes of the largest file that the process may write.
const LARGEST_FILE: u64 = 4 << 30;
const MAX_OPEN_FILES: u64 = 16 << 10;

/// What to try. The caller must have made the folders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialSetup {
    /// Which layers of the process wall are required.
    pub os_sandbox: OsSandbox,
    /// The limits of the guest.
    pub limits: Limits,
    /// The folder for the files `stdout`, `stderr` and `log`.
    pub scratch: PathBuf,
    /// The folders that the guest sees.
    pub mounts: Vec<Mount>,
    /// The guest's arguments, the program's name first.
    pub arguments: Vec<String>,
    /// The guest's environment.
    pub environment: Vec<(String, String)>,
    /// The models; their folders are among the mounts.
    pub models: Vec<JobModel>,
    /// The settings of the inference libraries.
    pub inference: InferenceSettings,
    /// How the code was compiled.
    pub with: Instrumentation,
    /// What the caller wants to know.
    pub wanted: TrialRequest,
}

impl TrialSetup {
    /// A set-up without folders, arguments and models, with the default limits. `with`: how the code was
    /// compiled.
    pub fn plain(
        scratch: &Path,
        os_sandbox: OsSandbox,
        with: Instrumentation,
        wanted: TrialRequest,
    ) -> Self {
        Self {
            os_sandbox,
            limits: Limits::default(),
            scratch: scratch.to_owned(),
            mounts: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            models: Vec::new(),
            inference: InferenceSettings::default(),
            with,
            wanted,
        }
    }
}

/// What the caller wants to know about an entry script.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TrialRequest {
    /// Whether the script can be loaded.
    Load,
    /// The results of the script, as a text for the user. The process calls `init`, then `run` on these items
    /// (paths in the sandbox), then `shutdown`.
    Run(Vec<String>),
    /// The first row that `run` returns when it gets no data.
    Row,
    /// The table that `run` returns when it gets no data, in the file [`TABLE`] of the scratch folder.
    Table,
    /// The results of these mini-batches, one after another.
    Steps(Vec<TrialStep>),
    /// The results of the script for each table of a stream: see [`TrialChild::map`].
    Map(MapSettings),
}

/// The file for [`TrialRequest::Table`].
pub const TABLE: &str = "table";

/// Why a component cannot be loaded, in the words of the child process.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct NotLoaded(pub String);

/// Why an entry script could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The arguments do not fit into a message.
    #[error("the arguments are too long")]
    Arguments,
    /// The process cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The binary.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system cannot make a pipe, a file or a thread.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The process died. Holds the words that say how.
    #[error("the process that tried it {0}")]
    Died(String),
    /// The process has ended, and its status is unknown.
    #[error("the process that tried it ended: {0}")]
    Ended(io::Error),
    /// The trial took longer than this.
    #[error("it did not finish within {} s", .0.as_secs())]
    Slow(Duration),
}

/// The child's messages. `Loaded` comes first.
#[derive(Debug, Serialize, Deserialize)]
enum TrialMessage {
    /// The contract functions that the component has, or why it cannot be loaded.
    Loaded(Result<Vec<String>, NotLoaded>),
    /// The text about the run, and whether all calls succeeded.
    Ran(String, bool),
    /// The first row that `run` returned, or the error.
    Returned(Result<String, String>),
    /// The results of the steps.
    StepsDone(InstanceResults),
    /// The progress of mapping.
    Mapped(MapNews),
}

/// The child process. Dropping this kills it.
pub struct TrialChild {
    child: Child,
    /// The child's messages. `None` if it sends no more, or must be killed.
    incoming: Receiver<Option<TrialMessage>>,
    sender: SyncSender<Option<TrialMessage>>,
}

/// Kills the process of a [`TrialChild`] from another thread: the waiting call then fails with
/// [`TrialError::Died`].
#[derive(Clone)]
pub struct TrialStopper(SyncSender<Option<TrialMessage>>);

impl TrialStopper {
    /// Kills the process. Does nothing if it has ended.
    pub fn stop(&self) {
        let _ = self.0.send(None);
    }
}

impl TrialChild {
    /// Starts the child process. Its stderr goes to the file `worker` of the scratch folder.
    ///
    /// # Errors
    /// If the arguments are too long for a message, or the process cannot be started.
    pub fn start(program: &Path, code: &Compiled, asked: &TrialSetup) -> Result<Self, TrialError> {
        Self::spawn(program, Stdio::from(code.file.try_clone()?), asked)
    }

    /// Starts a child process that maps a stream; `asked` must want [`TrialRequest::Map`]. The caller writes
    /// an Arrow IPC stream to the returned socket, and reads the stream of results from it. This process does
    /// not parse the streams.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn map(
        program: &Path,
        code: &Compiled,
        asked: &TrialSetup,
    ) -> Result<(Self, UnixStream), TrialError> {
        let (ours, theirs) = UnixStream::pair()?;
        let (sends, receives) = packets()?;
        send_packet(&sends, &true, &[code.file.as_fd(), theirs.as_fd()])?;
        Ok((Self::spawn(program, Stdio::from(receives), asked)?, ours))
    }

    fn spawn(program: &Path, given: Stdio, asked: &TrialSetup) -> Result<Self, TrialError> {
        let mut frame = Vec::new();
        encode(asked, &mut frame).map_err(|_| TrialError::Arguments)?;
        let (mut ours, theirs) = UnixStream::pair()?;
        let program = std::path::absolute(program)?;
        let (variable, value) = NO_TELEMETRY;
        let child = Command::new(&program)
            .arg(TRIAL_COMMAND)
            .env_clear()
            .env(variable, value)
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(given)
            .stderr(Stdio::from(File::create(asked.scratch.join("worker"))?))
            .spawn()
            .map_err(|source| TrialError::Start { program, source })?;
        // If the child cannot read the frame, its exit status says more than this error would.
        let _ = ours.write_all(&frame);
        let (sender, incoming) = mpsc::sync_channel(2);
        let reader = sender.clone();
        std::thread::Builder::new().spawn(move || {
            let mut buffer = Vec::new();
            loop {
                let message = read_frame(&mut ours, &mut buffer).unwrap_or_default();
                let is_last = message.is_none();
                if reader.send(message).is_err() || is_last {
                    return;
                }
            }
        })?;
        Ok(Self { child, incoming, sender })
    }

    /// The contract functions that the component has, or why it cannot be loaded.
    ///
    /// # Errors
    /// If the process died, or took too long.
    pub fn functions(&mut self) -> Result<Result<Vec<String>, NotLoaded>, TrialError> {
        match self.next(LOAD_LIMIT) {
            Ok(TrialMessage::Loaded(result)) => Ok(result),
            Ok(_) => Err(self.died()),
            Err(None) => Err(TrialError::Slow(LOAD_LIMIT)),
            Err(Some(error)) => Err(error),
        }
    }

    /// The text about the run, and whether all calls succeeded. `None` if it took longer than `limit`.
    ///
    /// # Errors
    /// If the process died.
    pub fn ran(&mut self, limit: Duration) -> Result<Option<(String, bool)>, TrialError> {
        match self.next(limit) {
            Ok(TrialMessage::Ran(text, succeeded)) => Ok(Some((text, succeeded))),
            Ok(_) => Err(self.died()),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// The results of the steps, if [`TrialRequest::Steps`] was requested. `None` if they took longer than
    /// `limit`.
    ///
    /// # Errors
    /// If the process died.
    pub fn lived(&mut self, limit: Duration) -> Result<Option<InstanceResults>, TrialError> {
        match self.next(limit) {
            Ok(TrialMessage::StepsDone(results)) => Ok(Some(results)),
            Ok(_) => Err(self.died()),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// The first row that `run` returned, if [`TrialRequest::Row`] was requested, or why there is none.
    ///
    /// # Errors
    /// If the process died, or it took longer than `limit`.
    pub fn row(&mut self, limit: Duration) -> Result<Result<String, String>, TrialError> {
        match self.next(limit) {
            Ok(TrialMessage::Returned(row)) => Ok(row),
            Ok(_) => Err(self.died()),
            Err(None) => Err(TrialError::Slow(limit)),
            Err(Some(error)) => Err(error),
        }
    }

    /// The next news of a process that [maps](Self::map). `None` if none arrives within `limit`.
    ///
    /// # Errors
    /// If the process died, or was [stopped](Self::stopper).
    pub fn news(&mut self, limit: Option<Duration>) -> Result<Option<MapNews>, TrialError> {
        match self.next(limit.unwrap_or(Duration::MAX)) {
            Ok(TrialMessage::Mapped(news)) => Ok(Some(news)),
            Ok(_) => Err(self.died()),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// A handle that kills the process from another thread.
    pub fn stopper(&self) -> TrialStopper {
        TrialStopper(self.sender.clone())
    }

    fn next(&mut self, limit: Duration) -> Result<TrialMessage, Option<TrialError>> {
        match self.incoming.recv_timeout(limit) {
            Ok(Some(message)) => Ok(message),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => Err(Some(self.died())),
            Err(RecvTimeoutError::Timeout) => Err(None),
        }
    }

    /// Kills a child that sends nothing more, or an unexpected message. Returns how it ended.
    fn died(&mut self) -> TrialError {
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => TrialError::Died(death(status)),
            Err(error) => TrialError::Ended(error),
        }
    }
}

impl Drop for TrialChild {
    fn drop(&mut self) {
        // The child has ended, or must end now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves as the child process. Descriptor 0 is the socket to the parent. Descriptor 1 is the compiled
/// component or, if the child maps, a socket that passes the component and the socket for the streams.
pub fn serve() -> io::Result<()> {
    wall::enter()?;
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let given = io::stdout().as_fd().try_clone_to_owned()?;
    let asked: Option<TrialSetup> =
        read_frame(&mut socket, &mut Vec::new()).map_err(io::Error::other)?;
    let missing = |what| io::Error::new(io::ErrorKind::UnexpectedEof, what);
    let Some(asked) = asked else { return Err(missing("the parent sent no request")) };
    let (code, data) = match &asked.wanted {
        TrialRequest::Map(_) => {
            let received = receive_packet::<bool>(&given)?;
            let files = received.and_then(|(_, files)| <[OwnedFd; 2]>::try_from(files).ok());
            let [code, data] =
                files.ok_or_else(|| missing("the parent passed no socket for the streams"))?;
            (File::from(code), Some(File::from(data)))
        }
        _ => (File::from(given), None),
    };
    let loaded = GuestProgram::load(&code, asked.with, asked.limits.stack);
    let models = LoadedModels::open(asked.models.clone(), &asked.inference, None, 1, &asked.limits);
    lock_down(&asked)?;
    let program = match loaded {
        Ok(program) => program,
        Err(failure) => {
            return say(&mut socket, &TrialMessage::Loaded(Err(NotLoaded(failure.to_string()))));
        }
    };
    let functions = program.functions().into_iter().map(str::to_owned).collect();
    say(&mut socket, &TrialMessage::Loaded(Ok(functions)))?;
    if matches!(asked.wanted, TrialRequest::Load) {
        return Ok(());
    }
    let has_inference = has_inference(&asked.models, &asked.inference);
    let guest = std::thread::Builder::new()
        .stack_size(guest_thread_stack(&asked.limits, has_inference))
        .spawn(move || {
            serve_wanted(&program, &asked, Arc::new(models), data.as_ref(), &mut socket)
        })?;
    guest.join().map_err(|_| io::Error::other("the run ended with a panic"))?
}

fn serve_wanted(
    program: &GuestProgram,
    asked: &TrialSetup,
    models: Arc<LoadedModels>,
    data: Option<&File>,
    socket: &mut UnixStream,
) -> io::Result<()> {
    match (&asked.wanted, data) {
        (TrialRequest::Run(items), _) => {
            let (text, succeeded) = run(program, asked, models, items);
            say(socket, &TrialMessage::Ran(text, succeeded))
        }
        (TrialRequest::Steps(steps), _) => {
            let make = || program.instantiate(&grants(asked, Arc::clone(&models)));
            say(socket, &TrialMessage::StepsDone(run_steps(&make, steps)))
        }
        (TrialRequest::Map(wanted), Some(data)) => {
            let mut say = |news| say(socket, &TrialMessage::Mapped(news));
            match program.instantiate(&grants(asked, models)) {
                Ok(mut instance) => {
                    mapping::map(&mut instance, &asked.limits, *wanted, data, &mut say)
                }
                Err(failure) => say(MapNews::Failed(failure)),
            }
        }
        (
            TrialRequest::Load | TrialRequest::Row | TrialRequest::Table | TrialRequest::Map(_),
            _,
        ) => say(socket, &TrialMessage::Returned(first_result(program, asked, models))),
    }
}

fn say(socket: &mut UnixStream, message: &TrialMessage) -> io::Result<()> {
    let mut frame = Vec::new();
    encode(message, &mut frame).map_err(io::Error::other)?;
    socket.write_all(&frame)
}

fn lock_down(asked: &TrialSetup) -> io::Result<()> {
    let limits = &asked.limits;
    let models: Vec<&Path> = asked.models.iter().map(|model| model.host.as_path()).collect();
    let inference = inference_memory(&models, &asked.inference, limits);
    let mounts = asked.mounts.iter().map(|mount| {
        let rights = if mount.writable { FolderRights::Write } else { FolderRights::Read };
        GrantedPath::real(&mount.host, rights)
    });
    let scratch = GrantedPath::real(&asked.scratch, FolderRights::Write);
    let processors = GrantedPath::new(PROCESSORS, FolderRights::Read);
    let processors = (!asked.models.is_empty()).then_some(processors);
    let wall = Wall {
        role: WallRole::Worker,
        mode: asked.os_sandbox,
        folders: mounts.chain([scratch]).chain(processors).collect(),
        bounds: ResourceLimits {
            memory: Some(limits.memory.0 + limits.results.0 + OWN_MEMORY)
                .map(|bytes| bytes.saturating_add(inference)),
            // The caller limits the time.
            cpu_seconds: None,
            largest_file: LARGEST_FILE,
            open_files: MAX_OPEN_FILES,
        },
    };
    wall.build().map(drop).map_err(io::Error::other)
}

/// Calls `init`, `run` on the items, and `shutdown`. Returns a text, and whether all calls succeeded.
fn run(
    program: &GuestProgram,
    asked: &TrialSetup,
    models: Arc<LoadedModels>,
    items: &[String],
) -> (String, bool) {
    let mut text = String::new();
    let succeeded = match program.instantiate(&grants(asked, models)) {
        Ok(mut instance) => call(&mut instance, items, &mut text),
        Err(failure) => report("starting", &Err(failure), &mut text),
    };
    (text, succeeded)
}

/// Calls `init` and `run`, and returns the first row, or the path of the table.
fn first_result(
    program: &GuestProgram,
    asked: &TrialSetup,
    models: Arc<LoadedModels>,
) -> Result<String, String> {
    let table = asked.scratch.join(TABLE);
    let mut first = FirstResult {
        row: None,
        table: matches!(asked.wanted, TrialRequest::Table).then_some(&table),
    };
    let mut instance = program.instantiate(&grants(asked, models)).map_err(in_words)?;
    instance.init().1.map_err(in_words)?;
    let context = RunContext { id: 0, dataset: "", attempt: 1, partition_key_value: &[] };
    instance.run(MiniBatchData::Void, &context, &mut first).1.map_err(in_words)?;
    first.row.ok_or_else(|| "it returned nothing".to_owned())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn in_words(failure: Failure) -> String {
    failure.to_string()
}

fn grants(asked: &TrialSetup, models: Arc<LoadedModels>) -> Grants {
    Grants {
        mounts: asked.mounts.clone(),
        arguments: asked.arguments.clone(),
        environment: asked.environment.clone(),
        agent_name: "process000".into(),
        node_id: NodeId::ONLY.to_string(),
        log_dir: GUEST_LOGS.into(),
        log_folder: LogFolder::new(asked.scratch.join(GUEST_LOGS.trim_start_matches('/')), 1),
        output_dir: GUEST_OUTPUT.into(),
        source_dir: None,
        gpu_index: None,
        models,
        logging_level: LoggingLevel::Debug,
        limits: asked.limits.clone(),
        seed: Seed::before_mini_batches(),
        stdout: SinkFile::open(&asked.scratch.join("stdout")),
        stderr: SinkFile::open(&asked.scratch.join("stderr")),
        log: SinkFile::open(&asked.scratch.join("log")),
    }
}

/// Calls `init`, `run` and `shutdown`. Appends the results to the text. Returns whether all calls succeeded.
fn call(instance: &mut Instance, paths: &[String], text: &mut String) -> bool {
    let (stats, result) = instance.init();
    if !report(&format!("init ({:.3} s)", stats.seconds), &result, text) {
        return false;
    }
    let data = if paths.is_empty() { MiniBatchData::Void } else { MiniBatchData::Files(paths) };
    let context = RunContext { id: 0, dataset: "", attempt: 1, partition_key_value: &[] };
    let mut returned = Returned::default();
    let (stats, result) = instance.run(data, &context, &mut returned);
    if !report(&format!("run ({:.3} s)", stats.seconds), &result, text) {
        if paths.is_empty() {
            text.push_str("run got no items; if it needs files, name them after --run.\n");
        }
        return false;
    }
    returned.describe(text);
    let (stats, result) = instance.shutdown();
    report(&format!("shutdown ({:.3} s)", stats.seconds), &result, text)
}

/// Appends the result of a call to the text. Returns whether the call succeeded.
fn report(what: &str, result: &Result<(), Failure>, text: &mut String) -> bool {
    match result {
        Ok(()) => {
            let _ = writeln!(text, "{what}: ok");
        }
        Err(failure) => {
            let _ = writeln!(text, "{what}: {}", printable(&failure.to_string()));
            for line in failure.detail.lines() {
                let _ = writeln!(text, "{}", printable(line));
            }
        }
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::trial_results::SHOWN_BYTES;
    use super::*;
    use crate::compile::{Instrumentation, compile_here, testing};
    use crate::model::FailureKind;

    #[test]
    fn a_trial_run_shows_returned_rows() {
        let folder = tempfile::tempdir().expect("temporary folder");
        // The script returns the list of paths as rows.
        let echo = "RUN
            (i32.store8 (i32.const 16) (i32.const 0))
            (i32.store8 (i32.const 20) (i32.const 0))
            (i32.store (i32.const 24) (local.get $ptr))
            (i32.store (i32.const 28) (local.get $len))
            (i32.const 16))";
        let component = testing::component("run-only", echo);
        let code = compile_here(&component, Instrumentation::default()).expect("compiles");
        let limits = Limits::default();
        let with = Instrumentation::default();
        let program = GuestProgram::load(&code, with, limits.stack).expect("loads");
        let asked = TrialSetup {
            limits,
            arguments: vec!["entry-script".into()],
            ..TrialSetup::plain(folder.path(), OsSandbox::Off, with, TrialRequest::Load)
        };
        let items = ["/inputs/items/0/a.txt".to_owned(), "x".repeat(2 * SHOWN_BYTES)];
        let models = crate::sandbox::no_models();
        let (text, succeeded) = run(&program, &asked, models, &items);
        assert!(succeeded, "{text}");
        let text = text.replace(|c: char| c.is_ascii_digit(), "0");
        let text = text.replace(&"x".repeat(SHOWN_BYTES), "[1000 x]");
        insta::assert_snapshot!(text, @"
        init (0.000 s): ok
        run (0.000 s): ok
        returned 0 rows and 0 failed items
          /inputs/items/0/a.txt
          [1000 x] (cut)
        shutdown (0.000 s): ok
        ");
    }

    #[test]
    fn control_characters_of_a_component_are_escaped() {
        let mut failure = Failure::new(FailureKind::ScriptError, "no\u{1b}[2J");
        failure.detail = "stack\r\n  of\u{7} it\n".to_owned();
        let mut text = String::new();
        assert!(!report("init", &Err(failure), &mut text));
        assert_eq!(text, "init: no\\u{1b}[2J\nstack\n  of\\u{7} it\n");
    }
}
