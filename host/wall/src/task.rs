//! Waiting for a process that was started for one task.

use super::death::death;
use super::error::WaitError;
use sandmill_model::printable;
use std::io::{self, Read};
use std::process::{Child, ExitStatus};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval at which we check whether the process has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// How a process for one task ended by itself.
#[derive(Debug)]
pub struct TaskEnd {
    /// Its exit status.
    pub status: ExitStatus,
    /// The start of its standard output. Empty if its standard output is not a pipe.
    pub said: Vec<u8>,
    /// The start of its standard error, made printable. Empty if its standard error is not a pipe.
    pub faults: String,
}

impl TaskEnd {
    /// How the process ended, and its output: `the process that tried it was ended by signal 11;
    /// its output: ...`. `who`: the process, in words.
    pub fn describe(&self, who: &str) -> String {
        let ended = format!("{who} {}", death(self.status));
        if self.faults.is_empty() { ended } else { format!("{ended}; its output: {}", self.faults) }
    }
}

/// Waits for a process to end, and keeps the first `kept` bytes of each pipe. Kills the process if it takes
/// longer than `patience`, or once `stop` gives a reason.
///
/// # Errors
/// The reason from `stop`, or how long we waited. The text is shown to users.
pub fn end_of(
    mut child: Child,
    patience: Duration,
    kept: u64,
    stop: impl Fn() -> Option<String>,
) -> Result<TaskEnd, WaitError> {
    // Threads read both pipes meanwhile: a process that writes much blocks while a pipe is full.
    let said = drain(child.stdout.take(), kept);
    let faults = drain(child.stderr.take(), kept);
    let began = Instant::now();
    let status = loop {
        let reason = match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => stop().map(WaitError::Stopped).or_else(|| {
                let late = began.elapsed() >= patience;
                late.then_some(WaitError::Late(patience))
            }),
            Err(error) => Some(WaitError::Unknown(error)),
        };
        if let Some(reason) = reason {
            // We do not wait for the pipes: processes that this one started may keep them open.
            let _ = child.kill();
            let _ = child.wait();
            return Err(reason);
        }
        thread::sleep(CHECK_INTERVAL);
    };
    let faults = faults.join().unwrap_or_default();
    let faults = String::from_utf8_lossy(&faults);
    let faults = printable(faults.trim()).into_owned();
    Ok(TaskEnd { status, said: said.join().unwrap_or_default(), faults })
}

fn drain(pipe: Option<impl Read + Send + 'static>, kept: u64) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut first, Some(mut pipe)) = (Vec::new(), pipe) else { return Vec::new() };
        // After an error, the bytes read so far are all we have.
        let _ = pipe.by_ref().take(kept).read_to_end(&mut first);
        let _ = io::copy(&mut pipe, &mut io::sink());
        first
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn start(script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_is_kept_up_to_a_bound() {
        let script = "printf 12345; head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 3";
        let ended = end_of(start(script), LONG, 4, || None).unwrap();
        assert_eq!((&ended.said[..], ended.faults.as_str()), (&b"1234"[..], "xxxx"));
        insta::assert_snapshot!(ended.describe("it"), @"it ended with exit code 3; its output: xxxx");
    }

    #[test]
    fn a_hung_or_cancelled_task_is_killed() {
        let describe = |patience, stop: Option<&str>| {
            let stop = stop.map(str::to_owned);
            end_of(start("exec sleep 60"), patience, 4, || stop.clone()).unwrap_err().to_string()
        };
        let began = Instant::now();
        assert_eq!(describe(Duration::from_millis(100), None), "it did not finish within 0 s");
        assert_eq!(describe(LONG, Some("Ctrl-C")), "Ctrl-C");
        assert!(began.elapsed() < LONG);
    }
}
