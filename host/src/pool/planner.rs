//! The planner's life as the leader sees it.

use super::launch::{Process, STDERR_TAIL, printable};
use crate::protocol::{FrameBuffer, FrameError, FromPlanner};
use crate::wall::death;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::mpsc;

/// How long a planner that has said everything may take to end.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes read at once.
const READ: usize = 64 << 10;

/// Why reading ended.
#[derive(Debug)]
enum End {
    /// `Finished` or `Failed` was delivered.
    Complete,
    /// Its output ended, or nothing more can be read from it.
    Closed,
    /// What it sent is no message.
    Malformed(FrameError),
    /// Nobody wants the events any more.
    Unheard,
}

/// Gives the planner its request and delivers what it says, as fast as the channel is emptied.
pub(super) async fn run(
    mut child: Child,
    process: Arc<Process>,
    request: Vec<u8>,
    events: mpsc::Sender<FromPlanner>,
) {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut stderr = Tail { pipe: child.stderr.take(), bytes: Vec::new() };
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A planner that does not listen says why, or its end does.
            let _ = stdin.write_all(&request).await;
        }
    };
    let aside = async {
        tokio::join!(feed, stderr.collect());
        std::future::pending::<()>().await;
    };
    let end = tokio::select! {
        end = read(stdout, &events) => end,
        () = aside => End::Closed,
    };
    if matches!(end, End::Malformed(_) | End::Unheard) {
        process.kill();
    }
    let status = match tokio::time::timeout(GRACE, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            process.kill();
            child.wait().await
        }
    };
    process.set_reaped();
    if let End::Complete | End::Unheard = end {
        return;
    }
    // Its stderr ends with it, unless somebody else holds the pipe.
    let _ = tokio::time::timeout(GRACE, stderr.collect()).await;
    let text = describe(&end, &status, &printable(&stderr.bytes));
    // Nobody listening is no loss.
    let _ = events.send(FromPlanner::Failed(text)).await;
}

async fn read(stdout: Option<ChildStdout>, events: &mpsc::Sender<FromPlanner>) -> End {
    let Some(mut stdout) = stdout else { return End::Closed };
    let (mut frames, mut buffer) = (FrameBuffer::default(), vec![0; READ]);
    loop {
        loop {
            let message: FromPlanner = match frames.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return End::Malformed(error),
            };
            if let Err(error) = message.check() {
                return End::Malformed(error);
            }
            let last = matches!(message, FromPlanner::Finished | FromPlanner::Failed(_));
            if events.send(message).await.is_err() {
                return End::Unheard;
            }
            if last {
                return End::Complete;
            }
        }
        match stdout.read(&mut buffer).await {
            Ok(0) => return End::Closed,
            Ok(count) => frames.push(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return End::Closed,
        }
    }
}

fn describe(end: &End, status: &io::Result<ExitStatus>, stderr: &str) -> String {
    let how = match (end, status) {
        (End::Malformed(error), _) => format!("sent something that is no message ({error})"),
        (_, Err(e)) => format!("ended, and how cannot be found out ({e})"),
        (_, Ok(status)) => death(*status),
    };
    let mut text = format!("the planner process {how} before it had cut all inputs");
    if !stderr.is_empty() {
        text.push_str("; the end of what it printed:\n");
        text.push_str(stderr);
    }
    text
}

/// Keeps the end of what comes through a pipe.
struct Tail {
    pipe: Option<ChildStderr>,
    bytes: Vec<u8>,
}

impl Tail {
    /// Reads to the end of the pipe. May be cancelled and called again.
    async fn collect(&mut self) {
        let mut buffer = [0; 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer).await {
                Ok(count) if count > 0 => self.bytes.extend_from_slice(&buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => self.pipe = None,
            }
            let surplus = self.bytes.len().saturating_sub(STDERR_TAIL);
            self.bytes.drain(..surplus);
        }
    }
}
