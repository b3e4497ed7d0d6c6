//! A process of this machine that leads a job, or is about to.

use super::agent_options::{AgentOptions, LeadingOptions};
use super::assignment::{Assignment, LEAD_COMMAND, LeadSource, LeadTask};
use crate::bus::JobToLead;
use crate::wall;
use rustix::process::{Signal, getpid};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A log of this size is emptied before another process writes to it.
const MAX_LOG_BYTES: u64 = 1 << 20;
/// How often to look whether a killed process has ended.
const KILL_LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// At most so many bytes of the log are shown.
const SHOWN_BYTES: u64 = 4096;

/// Why the process leads the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeadReason {
    /// A user has submitted the job. The texts are the id of the submission, and options of `run`.
    Submitted { submission: String, options: Vec<String> },
    /// The leader of this run is lost.
    TakeOver { run: String },
}

/// A process of this machine that leads a job, or is about to. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct LedJob {
    child: Child,
    /// The job's name.
    pub(super) job: String,
    /// The job's folder in its store.
    pub(super) store: PathBuf,
    pub(super) job_dir: PathBuf,
    /// What the process prints.
    pub(super) log: PathBuf,
    /// The length of the log when the process was started.
    log_start: u64,
    /// The id of the run. `None` until a submitted job has begun.
    pub(super) run: Option<String>,
    /// The id of the submission, if the job was submitted to this agent.
    pub(super) submission: Option<String>,
    /// When the process was started.
    pub(super) since: Duration,
    /// Whether it leads the job.
    pub(super) leads: bool,
    /// Whether it was killed because it is not needed.
    pub(super) is_stopped: bool,
    /// Whether the operator knows what the process waits for.
    pub(super) wait_was_said: bool,
}

impl LedJob {
    /// Starts a process. It ends when the thread ends that calls this.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub(super) fn start(
        options: &AgentOptions,
        (agent, limits): (&str, &LeadingOptions),
        job: &JobToLead,
        reason: LeadReason,
        since: Duration,
    ) -> io::Result<Self> {
        let name = folder_name(job);
        let root = &limits.root;
        let job_dir = root.join(&name);
        let log = root.join(format!("{name}.log"));
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let (mut output, log_start) = open_log(&log)?;
        let mut words = vec!["sandmill".to_owned(), "run".to_owned()];
        words.push(text(&job.file)?);
        words.extend(["--job-dir".to_owned(), text(&job_dir)?]);
        words.push(format!("--node-timeout={}", job.node_timeout.as_secs().max(1)));
        words.extend(job.overrides.iter().map(|(key, value)| format!("--set={key}={value}")));
        words.extend(limits.words.iter().cloned());
        let (submission, run) = match reason {
            LeadReason::Submitted { submission, options } => {
                words.extend(options);
                (Some(submission), None)
            }
            LeadReason::TakeOver { run } => {
                words.push("--standby".to_owned());
                (None, Some(run))
            }
        };
        let task = LeadTask {
            words,
            broker: options.broker.url.clone(),
            broker_credentials: options.broker.credentials.clone(),
            broker_ca: options.broker.root_certificate.clone(),
            source: job.source.clone().map(|from| LeadSource {
                job: job.job.clone(),
                from,
                work_dir: options.work_dir.clone(),
            }),
            parent: getpid().as_raw_pid().cast_unsigned(),
            assignment: Assignment {
                agent: agent.to_owned(),
                machine: options.name.clone(),
                submission: submission.clone(),
                take_over: run.clone(),
            },
        };
        let task = serde_json::to_vec(&task)?;
        writeln!(output, "--- process of the agent {}", options.name)?;
        let mut command = Command::new(&options.node.program);
        command.arg(LEAD_COMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(output);
        // Ctrl-C is for the agent, which decides what becomes of the process.
        wall::keep_apart(&mut command);
        let mut child = command.spawn()?;
        // If this fails, the process has ended, and its log says why.
        let _ = child.stdin.take().map(|mut input| input.write_all(&task));
        Ok(Self {
            child,
            job: job.job.clone(),
            store: job.store.clone(),
            job_dir,
            log,
            log_start,
            run,
            submission,
            since,
            leads: false,
            is_stopped: false,
            wait_was_said: false,
        })
    }

    /// How the process has ended. `None` if it runs.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        // An error means that the process was waited for.
        self.child.try_wait().unwrap_or_else(|_| Some(ExitStatus::from_raw(Signal::KILL.as_raw())))
    }

    /// Kills the process. It may take long to end if the shared folder hangs, so this does not wait.
    pub(super) fn kill(&mut self) {
        // A process that has ended needs no signal.
        let _ = self.child.kill();
    }

    /// Kills the process, and waits for at most this time until it has ended.
    pub(super) fn kill_and_wait(&mut self, within: Duration) {
        self.kill();
        let until = Instant::now() + within;
        while self.ended().is_none() && Instant::now() < until {
            std::thread::sleep(KILL_LOOK_INTERVAL);
        }
    }

    /// The errors that the process has printed, or else its last lines.
    pub(super) fn last_words(&self) -> String {
        let read = || -> io::Result<String> {
            let mut log = File::open(&self.log)?;
            let end = log.metadata()?.len();
            log.seek(SeekFrom::Start(self.log_start.max(end.saturating_sub(SHOWN_BYTES))))?;
            let mut bytes = Vec::new();
            log.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        chosen_lines(&read().unwrap_or_default())
    }
}

impl Drop for LedJob {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The errors in a log, or else all of its lines but the first, which the agent has written.
fn chosen_lines(log: &str) -> String {
    let errors: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    if !errors.is_empty() {
        return errors.join("\n");
    }
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("--- ")).collect();
    lines.join("\n")
}

/// Opens the log, which only its owner can read. Returns its length, too.
fn open_log(path: &Path) -> io::Result<(File, u64)> {
    let log = File::options().create(true).append(true).mode(0o600).open(path)?;
    let length = log.metadata()?.len();
    if length <= MAX_LOG_BYTES {
        return Ok((log, length));
    }
    log.set_len(0)?;
    Ok((log, 0))
}

fn text(path: &Path) -> io::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| io::Error::other(format!("{} is not UTF-8", path.display())))
}

/// The name of a job's directory on this machine: the job's name, and a number that jobs of other stores do not have.
fn folder_name(job: &JobToLead) -> String {
    let hashed = job.store.as_os_str().as_encoded_bytes().iter();
    // FNV-1a
    let hash = hashed.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{}-{:08x}", job.job, hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_first() {
        assert_eq!(chosen_lines("--- x\nnote\nerror: a\nerror: b\nrest\n"), "a\nb");
        assert_eq!(chosen_lines("--- x\none\ntwo\n"), "one\ntwo");
    }

    #[test]
    fn jobs_of_different_stores_have_different_folders() {
        let job = |store: &str| JobToLead {
            job: "nightly".to_owned(),
            file: "/shared/nightly.yaml".into(),
            overrides: Vec::new(),
            store: store.into(),
            source: None,
            node_timeout: Duration::from_secs(10),
        };
        assert_eq!(folder_name(&job("/shared/jobs/nightly")), "nightly-0e64dc9e");
        assert_ne!(folder_name(&job("/a")), folder_name(&job("/b")));
    }
}
