//! `sandmill cancel`: asks a running job to end, through its control socket or through its job store.

use super::cancel_stored::{cancel_stored, not_running, writes_results};
use super::exit::{Exit, Problem};
use super::job_source::{AnyJobArgument, JobSource, resume};
use super::say;
use crate::engine::{JobState, is_locked};
use crate::model::{CONTROL_SOCKET, JobDir, shell_word};
use crate::protocol::control::{ControlAnswer, ControlQuestion, ask};
use anyhow::anyhow;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long we wait for the socket of a job that is being prepared.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct CancelArguments {
    #[command(flatten)]
    pub(super) job: AnyJobArgument,
    /// Ends running mini-batches, too, instead of letting them finish within ten seconds.
    #[arg(long)]
    pub(super) at_once: bool,
    /// Waits until the job has ended.
    #[arg(long)]
    pub(super) wait: bool,
}

/// Asks the job to end.
pub(super) fn cancel(arguments: &CancelArguments) -> Result<Exit, Problem> {
    let dir = &match arguments.job.find()? {
        JobSource::Directory(dir) => dir,
        JobSource::Store(mut view, _) => {
            return cancel_stored(&mut view, arguments.at_once, arguments.wait);
        }
    };
    let Some(state) = JobState::read(&JobDir::new(dir)).map_err(Problem::usage)? else {
        let shown = dir.display();
        return Err(Problem::usage(anyhow!("{shown} is not a job directory: it has no job.json")));
    };
    if !is_locked(dir) {
        return Err(not_running(&state));
    }
    if state.is_unpublished {
        return Err(writes_results(&state, &format!("process {}", state.pid)));
    }
    let answer = match reach(dir, ControlQuestion::Cancel { at_once: arguments.at_once }) {
        Ok(Some(answer)) => answer,
        Ok(None) => return Err(not_running(&state)),
        Err(error) => return Err(cannot_reach(&state, dir, &error)),
    };
    if let Some(refused) = &answer.refused {
        return Err(Problem::usage(anyhow!("job {} refused: {refused}", answer.job)));
    }
    print_answer(&answer, arguments.at_once, dir, &state);
    while arguments.wait && is_locked(dir) {
        sleep(POLL_INTERVAL);
    }
    Ok(Exit::Completed)
}

/// The job's answer; `None` if the job has ended meanwhile. Waits for the socket of a job that is being
/// prepared.
fn reach(dir: &Path, question: ControlQuestion) -> io::Result<Option<ControlAnswer>> {
    let end = Instant::now() + SOCKET_TIMEOUT;
    loop {
        let error = match ask(dir, CONTROL_SOCKET, question) {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error,
        };
        if !is_locked(dir) {
            return Ok(None);
        }
        let is_absent = [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind());
        if !is_absent || Instant::now() >= end {
            return Err(error);
        }
        sleep(POLL_INTERVAL);
    }
}

fn print_answer(answer: &ControlAnswer, at_once: bool, dir: &Path, state: &JobState) {
    let how = match at_once {
        true => "ends immediately",
        false => "finishes its running mini-batches, and begins no new ones",
    };
    let job = shell_word(&dir.display().to_string());
    say(&format!(
        "Job {} (process {}) {how}. Committed results are kept; resume later with: {}",
        answer.job,
        answer.pid,
        resume(state).advice(&job, "")
    ));
}

fn cannot_reach(state: &JobState, dir: &Path, error: &io::Error) -> Problem {
    let (name, pid) = (&state.name, state.pid);
    let socket = JobDir::new(dir).control_socket();
    Problem::usage(match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "job {name} (process {pid}) does not listen at {}: it is still being prepared, or an \
             earlier version of Sandmill runs it. Try again later, or press Ctrl-C where it runs",
            socket.display()
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "{}: {error}; only root and the user who started the job may cancel it",
            socket.display()
        ),
        _ => anyhow!("{}: {error}", socket.display()),
    })
}
