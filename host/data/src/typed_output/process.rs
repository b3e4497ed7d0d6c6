//! The parent's side: starts the process, watches its progress, and explains how it ended.

use super::child::{CPU_SECONDS, FILE_BYTES, FINISH_COMMAND, FinishTask, MEMORY_BYTES};
use super::error::{FinishEnd, TypedOutputError};
use crate::model::{ByteSize, Compression, OsSandbox, OutputFormat, OutputKind, printable};
use crate::wall;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often the progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// The longest message that is read from the child, in bytes.
const MESSAGE_BYTES: u64 = 64 << 10;

/// Makes output files in child processes.
#[derive(Clone, Debug)]
pub struct Finisher {
    program: PathBuf,
    os_sandbox: OsSandbox,
    kind: OutputKind,
    compression: Compression,
}

impl Finisher {
    /// `program` is the sandmill binary; `os_sandbox` says how much of the wall must be in place.
    pub fn new(program: &Path, os_sandbox: OsSandbox, format: &OutputFormat) -> Self {
        // The path must be absolute, because the child starts in another working folder.
        let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        let &OutputFormat { kind, compression, .. } = format;
        Self { program, os_sandbox, kind, compression }
    }

    /// Makes `target` from the `rows` rows that were appended to `source`. Both files are used from their
    /// current positions. `on_progress` is called now and then with the number of bytes read. The process
    /// dies with this thread.
    ///
    /// # Errors
    /// If the process cannot be run, or did not make the file.
    pub fn run(
        &self,
        mut source: &File,
        target: &File,
        rows: u64,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<(), TypedOutputError> {
        let not_run = |source| TypedOutputError::NotRun { program: self.program.clone(), source };
        let &Self { os_sandbox: mode, kind, compression, .. } = self;
        let mut command = Command::new(&self.program);
        command
            .arg(FINISH_COMMAND)
            .args(FinishTask { mode, kind, compression, rows }.to_arguments());
        command.env_clear().current_dir("/");
        wall::keep_apart(&mut command);
        let mut child = command
            .stdin(source.try_clone().map_err(not_run)?)
            .stdout(target.try_clone().map_err(not_run)?)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(not_run)?;
        let (sender, message) = mpsc::channel();
        if let Some(pipe) = child.stderr.take() {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // After an error, the bytes read so far are the message.
                let _ = pipe.take(MESSAGE_BYTES).read_to_end(&mut bytes);
                // The receiver may be gone already.
                let _ = sender.send(bytes);
            });
        }
        let message = loop {
            match message.recv_timeout(PROGRESS_INTERVAL) {
                Ok(message) => break message,
                Err(RecvTimeoutError::Disconnected) => break Vec::new(),
                // The child shares this file's position, so the position shows the child's
                // progress.
                Err(RecvTimeoutError::Timeout) => {
                    on_progress(source.stream_position().unwrap_or(0));
                }
            }
        };
        // The child has closed its standard error, or its message is as long as allowed. If the child is
        // exiting by itself, the kill does not change its status.
        let _ = child.kill();
        let status = child.wait().map_err(not_run)?;
        if status.success() {
            return Ok(());
        }
        Err(failure(status, printable(String::from_utf8_lossy(&message).trim()).into_owned()))
    }
}

/// Why the process made no file.
fn failure(status: ExitStatus, message: String) -> TypedOutputError {
    let end = match (status.code(), status.signal()) {
        (Some(1), _) if !message.is_empty() => return TypedOutputError::Reported { message },
        (_, Some(libc::SIGXCPU)) => FinishEnd::Time { limit: CPU_SECONDS },
        (_, Some(libc::SIGXFSZ)) => FinishEnd::Size { limit: ByteSize(FILE_BYTES) },
        (_, Some(libc::SIGABRT)) => FinishEnd::Memory { limit: ByteSize(MEMORY_BYTES) },
        _ => FinishEnd::Other(status),
    };
    TypedOutputError::Ended { end, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn errors_report_how_the_process_ended() {
        let describe =
            |raw, text: &str| failure(ExitStatus::from_raw(raw), text.to_owned()).to_string();
        assert_eq!(describe(1 << 8, "it is full"), "it is full");
        assert!(describe(libc::SIGXCPU, "").contains("21600 seconds"));
        assert!(describe(libc::SIGXFSZ, "").contains("larger than 1024 GB"));
        assert!(describe(libc::SIGABRT, "").contains("more than 8 GB of memory"));
        assert!(describe(libc::SIGSYS, "").contains("system-call filter"));
        let panicked = describe(101 << 8, "panic");
        assert_eq!(
            panicked,
            "the process that makes it ended with exit code 101; its output: panic"
        );
    }

    #[test]
    fn the_child_ends_whatever_it_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let target = folder.path().join("made");
        let run = |text: &str| {
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            let format = OutputFormat::default_for(OutputKind::Parquet);
            let finisher = Finisher::new(&path, OsSandbox::Off, &format);
            let source = File::open(&path).unwrap();
            let target = File::create(&target).unwrap();
            let mut ticks = Vec::new();
            let result = finisher.run(&source, &target, 3, &mut |bytes| ticks.push(bytes));
            (result.map_err(|error| error.to_string()), ticks)
        };
        assert_eq!(run("echo $*; cat").0, Ok(()));
        let made = fs::read_to_string(&target).unwrap();
        assert!(made.starts_with("finish-output off parquet snappy 3\n#!/bin/sh"), "{made}");
        assert_eq!(run("printf 'a\\033b' >&2; exit 1").0, Err("a\\u{1b}b".to_owned()));
        assert!(run("exec 2>&-; exec sleep 30").0.unwrap_err().contains("killed"));
        let (result, ticks) = run("read line; sleep 1.2; exit 1");
        assert!(result.unwrap_err().contains("exit code 1"));
        assert!(!ticks.is_empty() && ticks[0] > 0, "{ticks:?}");
    }
}
