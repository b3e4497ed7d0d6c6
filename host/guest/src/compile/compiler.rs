//! The parent's side of the compiler process: starts, limits and ends the process. The process's
//! answers are untrusted and limited in length.

use super::task::{
    ANSWER_BYTES, CODE_BYTES, COMPILE_COMMAND, CPU_SECONDS, CompileTask, MEMORY_BYTES,
};
use super::{CompileError, ComponentNames, ComponentOutline, Instrumentation, ScriptDescription};
use crate::model::{ByteSize, OsSandbox, on_one_line, printable};
use crate::opening::regular;
use crate::protocol::decode;
use crate::wall::{self, death};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const TASK_TIME_LIMIT: Duration = Duration::from_secs(600);
/// The interval at which `stop` is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum length of an error message, in bytes.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;

/// Inspects and compiles entry scripts in child processes behind the process wall (the sandbox of the
/// operating system). A file that exploits or crashes the compiler harms only that child.
#[derive(Clone)]
pub struct Compiler {
    program: PathBuf,
    os_sandbox: OsSandbox,
    limit: Duration,
    stop: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Compiler {
    /// `program` is the sandmill binary. `os_sandbox` is the strictness of the child's wall.
    pub fn new(program: &Path, os_sandbox: OsSandbox) -> Self {
        // Children run in another working folder.
        let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        Self { program, os_sandbox, limit: TASK_TIME_LIMIT, stop: None }
    }

    /// Ends the child processes as soon as `stop` returns true.
    #[must_use]
    pub fn stopping(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Some(Arc::new(stop));
        self
    }

    /// Whether the caller wants the compiler to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop())
    }

    /// A compiler that works in this process, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn here() -> Self {
        let program = PathBuf::new();
        let os_sandbox = OsSandbox::Off;
        Self { program, os_sandbox, limit: TASK_TIME_LIMIT, stop: None }
    }

    /// Reads what a component imports and exports. A core module is first made into a component.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a component or core module.
    pub fn outline(&self, path: &Path) -> Result<ComponentOutline, CompileError> {
        let with_path =
            |text: &dyn fmt::Display| CompileError(format!("{}: {text}", path.display()));
        let (source, _) = regular(path).map_err(|error| with_path(&error))?;
        let answer = self
            .run_task(&CompileTask::Outline, source, None)
            .map_err(|error| with_path(&error))?;
        let mut outline: ComponentOutline = decode(&answer).map_err(|error| {
            with_path(&format!("the compiler's output cannot be understood: {error}"))
        })?;
        let ComponentNames { imports, exports } = &mut outline.names;
        for name in imports.iter_mut().chain(exports) {
            // A hostile name must not contain terminal escapes.
            *name = on_one_line(name).into_owned();
        }
        Ok(outline)
    }

    /// Describes what a component could access. A core module is first made into a component.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a component or core module.
    pub fn describe(&self, path: &Path) -> Result<ScriptDescription, CompileError> {
        let with_path =
            |text: &dyn fmt::Display| CompileError(format!("{}: {text}", path.display()));
        let (source, _) = regular(path).map_err(|error| match error.kind() {
            ErrorKind::IsADirectory | ErrorKind::Other => {
                with_path(&format!("{error}; name a component (.wasm) or a core module"))
            }
            _ => with_path(&format!("it cannot be read: {error}")),
        })?;
        let answer = self
            .run_task(&CompileTask::Describe, source, None)
            .map_err(|error| with_path(&error))?;
        let description: ScriptDescription = decode(&answer).map_err(|error| {
            with_path(&format!("the compiler's output cannot be understood: {error}"))
        })?;
        Ok(description.printable())
    }

    /// Makes a component of a core module and writes it to `target`.
    pub(super) fn componentize(&self, source: File, target: &File) -> Result<(), CompileError> {
        self.run_task(&CompileTask::Componentize, source, Some(target)).map(drop)
    }

    /// Writes to `target` a component that prepares an interpreter: the component runs `text`, a program in
    /// the interpreter's language.
    ///
    /// # Errors
    /// If the module does not contain an interpreter.
    pub fn prepare_interpreter(
        &self,
        module: File,
        text: &str,
        target: &File,
    ) -> Result<(), CompileError> {
        self.run_task(&CompileTask::Prepare(text.to_owned()), module, Some(target)).map(drop)
    }

    /// Writes the component of a prepared interpreter to `target`. The file `module_and_memory` has the
    /// interpreter's module (`module_bytes` long), followed by its memory after the preparation.
    ///
    /// # Errors
    /// If the module does not contain an interpreter.
    pub fn snapshot_interpreter(
        &self,
        module_and_memory: File,
        module_bytes: usize,
        target: &File,
    ) -> Result<(), CompileError> {
        self.run_task(&CompileTask::Snapshot(module_bytes), module_and_memory, Some(target))
            .map(drop)
    }

    /// Writes compiled code to `target`. `digest` is the digest of the bytes that the caller read.
    pub(super) fn compile(
        &self,
        source: File,
        target: &File,
        digest: &str,
        with: Instrumentation,
    ) -> Result<(), CompileError> {
        let task = CompileTask::Compile { digest: digest.to_owned(), with };
        self.run_task(&task, source, Some(target)).map(drop)
    }

    /// Runs a task in a child. Its result is written to `target`, or returned if there is no `target`.
    fn run_task(
        &self,
        task: &CompileTask,
        source: File,
        target: Option<&File>,
    ) -> Result<Vec<u8>, CompileError> {
        #[cfg(any(test, feature = "testing"))]
        if self.program.as_os_str().is_empty() {
            return super::child::perform_here(task, source, target);
        }
        let cannot = |error: io::Error| {
            let program = self.program.display();
            CompileError(format!("{program} cannot be run to inspect the entry script: {error}"))
        };
        let stdout =
            target.map_or_else(|| Ok(Stdio::piped()), |file| file.try_clone().map(Stdio::from));
        let mut command = Command::new(&self.program);
        command.arg(COMPILE_COMMAND).args(task.words(self.os_sandbox)).env_clear().current_dir("/");
        wall::keep_apart(&mut command);
        let mut child = command
            .stdin(source)
            .stdout(stdout.map_err(cannot)?)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        // Read both pipes, because a full pipe would block the child.
        let answer = drain(child.stdout.take(), ANSWER_BYTES);
        let message = drain(child.stderr.take(), MAX_MESSAGE_BYTES);
        let reported = self.wait(&message);
        let status = end(&mut child).map_err(cannot)?;
        let message = reported?;
        if status.success() {
            return Ok(answer.recv().unwrap_or_default());
        }
        let message = String::from_utf8_lossy(&message);
        Err(CompileError(failure(status, printable(message.trim()).into_owned())))
    }

    /// Waits until the child ends, which closes its standard error, or until its message reaches
    /// the limit.
    fn wait(&self, message: &Receiver<Vec<u8>>) -> Result<Vec<u8>, CompileError> {
        let begun = Instant::now();
        loop {
            match message.recv_timeout(POLL_INTERVAL) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if begun.elapsed() > self.limit {
                return Err(CompileError(format!(
                    "the compiler was ended after {} s: the entry script is too large or built to \
                     compile slowly",
                    self.limit.as_secs()
                )));
            }
            if self.is_stopped() {
                return Err(CompileError::new("the compiler was stopped, as requested"));
            }
        }
    }
}

/// Reads a pipe on another thread, up to its end or a limit.
fn drain(pipe: Option<impl Read + Send + 'static>, limit: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // After an error, return what was read before.
            let _ = pipe.take(limit).read_to_end(&mut bytes);
            // The receiver may have given up.
            let _ = sender.send(bytes);
        });
    }
    receiver
}

/// Kills the child. If it is already exiting, its status does not change.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    // This fails only if the child has ended.
    let _ = child.kill();
    child.wait()
}

/// Why a task failed, as a message for the user.
fn failure(status: ExitStatus, message: String) -> String {
    let how = match (status.code(), status.signal()) {
        // The child reported the reason.
        (Some(1), _) if !message.is_empty() => return message,
        (_, Some(libc::SIGXCPU)) => format!(
            "the compiler was ended after {CPU_SECONDS} seconds of processor time: the entry script \
             is too large or built to compile slowly"
        ),
        (_, Some(libc::SIGXFSZ)) => {
            format!("the compiled code would be larger than {}", ByteSize(CODE_BYTES))
        }
        (_, Some(libc::SIGKILL)) => {
            "the compiler was killed, probably because the machine has too little memory".to_owned()
        }
        (_, Some(libc::SIGABRT)) => format!(
            "the compiler gave up, probably because it needed more than {} of memory: the entry \
             script is too large or built to need much memory",
            ByteSize(MEMORY_BYTES)
        ),
        _ => format!("the compiler {}", death(status)),
    };
    if message.is_empty() { how } else { format!("{how}; its output: {message}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_report_how_the_compiler_ended() {
        let describe = |raw, text: &str| failure(ExitStatus::from_raw(raw), text.to_owned());
        assert!(describe(libc::SIGXCPU, "").contains("1800 seconds"));
        assert!(describe(libc::SIGKILL, "").contains("too little memory"));
        assert!(describe(libc::SIGXFSZ, "").contains("larger than 4 GB"));
        assert!(describe(libc::SIGSYS, "").contains("system-call filter"));
        assert!(describe(libc::SIGSEGV, "").contains("signal 11"));
        assert_eq!(describe(1 << 8, "it is not a component"), "it is not a component");
        assert_eq!(
            describe(101 << 8, "panic"),
            "the compiler ended with exit code 101; its output: panic"
        );
        let aborted = describe(libc::SIGABRT, "memory allocation of 9 bytes failed");
        assert!(aborted.contains("8 GB") && aborted.ends_with("of 9 bytes failed"), "{aborted}");
    }

    #[test]
    fn names_cannot_contain_terminal_escapes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.wasm");
        let bytes =
            wat::parse_str(r#"(component (core module $m) (export "mm" (core module $m)))"#);
        let mut bytes = bytes.unwrap();
        let at = bytes.windows(2).position(|two| two == b"mm").unwrap();
        bytes[at..at + 2].copy_from_slice(b"\x1b\n");
        std::fs::write(&path, bytes).unwrap();
        let outline = Compiler::here().outline(&path).unwrap();
        assert_eq!(outline.names.exports, ["\\u{1b}\\u{a}"]);
    }

    #[test]
    fn a_slow_compiler_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 30\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).unwrap();
        let mut compiler = Compiler::new(&program, OsSandbox::Off);
        compiler.limit = Duration::from_millis(100);
        let begun = Instant::now();
        let error = compiler.outline(&program).unwrap_err().to_string();
        assert!(error.contains("the compiler was ended after 0 s"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    /// The parent ends a program that does not behave like the compiler, and does not trust its
    /// output.
    #[test]
    fn a_misbehaving_child_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let script = |text: &str| {
            let path = folder.path().join("program");
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
                .unwrap();
            let begun = Instant::now();
            let stop = move || begun.elapsed() > Duration::from_millis(300);
            let outline = Compiler::new(&path, OsSandbox::Off).stopping(stop).outline(&path);
            assert!(begun.elapsed() < Duration::from_secs(10));
            outline.unwrap_err().to_string()
        };
        assert!(script("exec sleep 30").contains("was stopped"));
        assert!(script("exec 2>&-; exec sleep 30").contains("killed"));
        assert!(script("yes; exit 0").contains("cannot be understood"));
        assert!(script("exec yes").contains("signal 13"));
        // We kill the program, or SIGPIPE kills it once we no longer read.
        let endless = script("exec yes >&2");
        assert!(endless.contains("killed") || endless.contains("signal 13"), "{endless}");
        assert!(script("printf 'a\\033b' >&2; exit 1").ends_with("a\\u{1b}b"));
        assert!(script("echo $HOME$(pwd) >&2; exit 1").ends_with(": /"));
    }
}
