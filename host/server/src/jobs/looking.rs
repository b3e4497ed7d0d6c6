//! Reads a stranger's job file in a process of its own, behind the wall: the server itself parses nothing that a stranger
//! has written.

use super::process::{JOB_FILE, JobProcesses};
use crate::names::{JobId, TenantName};
use crate::problem::JobFileError;
use crate::state::WorkerNeeds;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The hidden command that starts the process.
pub const LOOK_COMMAND: &str = "look-at-job";
/// How long the process may take. It reads one short file.
const LONGEST: Duration = Duration::from_secs(20);
/// The longest answer.
const MOST_BYTES: u64 = 4 << 20;

/// What the process is asked, on its standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LookQuestion {
    /// The job file.
    pub job_file: PathBuf,
    /// The operator's policy.
    pub policy: PathBuf,
    /// The tenant for whom the job would run.
    pub tenant: String,
    /// The settings that replace those of the file.
    pub settings: Vec<(String, String)>,
}

/// What the process answers, on its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LookAnswer {
    /// The job file has no errors.
    Job {
        /// The job's name.
        name: String,
        /// What its workers need.
        needs: WorkerNeeds,
        /// What the user should know about how the file was read.
        notices: Vec<String>,
    },
    /// The errors in the job file.
    Errors(Vec<JobFileError>),
}

/// Why a job file could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// The process could not be started or talked to.
    #[error("the process that reads a job file: {0}")]
    Process(#[from] io::Error),
    /// The process took too long.
    #[error("the job file takes longer than {} s to read", LONGEST.as_secs())]
    TooLong,
    /// The process did not answer.
    #[error("the process that reads the job file used up its memory or time, or failed: {0}")]
    NoAnswer(String),
}

/// Reads the job file of a job that is being submitted.
///
/// # Errors
/// If the process does not answer. Errors in the file are an answer.
pub(crate) fn look(
    processes: &JobProcesses,
    (tenant, id): (&TenantName, &JobId),
    settings: &[(String, String)],
) -> Result<LookAnswer, LookError> {
    let job_file = processes.folders.submitted_job(tenant, id).join(JOB_FILE);
    let (policy, settings) = (processes.policy.clone(), settings.to_vec());
    let question = LookQuestion { job_file, policy, tenant: tenant.to_string(), settings };
    let question = serde_json::to_vec(&question).map_err(io::Error::other)?;
    let mut command = Command::new(&processes.program);
    command.arg(LOOK_COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let answer = ask(&mut child, &question);
    if answer.is_err() {
        // It may have ended already.
        let _ = child.kill();
    }
    let _ = child.wait();
    answer
}

fn ask(child: &mut Child, question: &[u8]) -> Result<LookAnswer, LookError> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("it has no pipes").into());
    };
    stdin.write_all(question)?;
    drop(stdin);
    let (sender, answers) = mpsc::channel();
    std::thread::spawn(move || {
        let read = |from: &mut dyn Read| {
            let mut bytes = Vec::new();
            from.take(MOST_BYTES).read_to_end(&mut bytes).map(|_| bytes)
        };
        // The text on standard error is short.
        let answer = read(&mut { stdout });
        let text = read(&mut { stderr }).unwrap_or_default();
        // The caller may have given up.
        let _ = sender.send((answer, text));
    });
    let (answer, text) = answers.recv_timeout(LONGEST).map_err(|_| LookError::TooLong)?;
    let no_answer = || LookError::NoAnswer(String::from_utf8_lossy(&text).trim().to_owned());
    serde_json::from_slice(&answer?).map_err(|_| no_answer())
}
