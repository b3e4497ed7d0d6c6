//! The table of exit codes, and how errors are shown.

use std::fmt;
use std::process::ExitCode;

/// How the process exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The job is completed, or another command did its work.
    Completed,
    /// Bad usage, a bad job file, or an input, a component or a folder that cannot be used. No worker was
    /// started. `clap` exits with this code, too.
    Usage,
    /// The job began and failed. For `check` and `inspect`: the component did not pass the check, or has
    /// refused imports.
    Failed,
    /// For `status --exit-code`: the job has not ended. It is running, waits, or was interrupted.
    Unfinished,
    /// For `node`: the agent was asked to end.
    NodeEnded,
    /// The job was cancelled (Ctrl-C, SIGTERM). Committed results are kept.
    Cancelled,
}

/// The table, printed after the help text.
pub(super) const HELP: &str = "\
Exit codes:
    0  completed
    2  bad usage or bad job file; nothing was run
    3  the job has not ended (status --exit-code)
   41  the node ended, and its jobs go on elsewhere (node)
   42  the job failed; the component did not pass the check, or has refused imports
  130  the job was cancelled; what was committed is kept";

impl Exit {
    fn code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::Usage => 2,
            Self::Unfinished => 3,
            Self::NodeEnded => 41,
            Self::Failed => 42,
            Self::Cancelled => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) exit: Exit,
    error: anyhow::Error,
}

impl Problem {
    /// For an error before anything was run.
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Usage, error: error.into() }
    }

    /// Like [`usage`](Self::usage), but for several reasons, each on its own line.
    pub(super) fn each_line(reasons: &str) -> Self {
        Self::usage(anyhow::anyhow!("{}", reasons.replace('\n', "\nerror: ")))
    }

    /// The same, with another line of text.
    pub(super) fn with(self, line: &str) -> Self {
        Self { error: anyhow::anyhow!("{:#}\n{line}", self.error), ..self }
    }

    /// For an error after the job had begun.
    pub(super) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Failed, error: error.into() }
    }
}

/// Prints `error: ` and the error, then each cause whose text is not yet printed.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reported = self.error.to_string();
        write!(f, "error: {reported}")?;
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            if !reported.contains(&cause) {
                write!(f, "\n  caused by: {cause}")?;
                reported = cause;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_help_has_all_codes() {
        let ended = [Exit::NodeEnded, Exit::Failed, Exit::Cancelled];
        for exit in [Exit::Completed, Exit::Usage, Exit::Unfinished].into_iter().chain(ended) {
            let code = format!(" {}  ", exit.code());
            assert!(HELP.contains(&code), "{exit:?}");
        }
    }

    #[test]
    fn causes_are_printed_once() {
        let cause = std::io::Error::other("disk on fire");
        let error = Err::<(), _>(cause).context("cannot write job.json: disk on fire");
        let problem = Problem::failed(error.context("cannot claim the folder").unwrap_err());
        insta::assert_snapshot!(problem.to_string(), @r"
        error: cannot claim the folder
          caused by: cannot write job.json: disk on fire
        ");
        let many = Problem::each_line("job.yaml:1: a: b\njob.yaml:2: c: d");
        insta::assert_snapshot!(many.to_string(), @r"
        error: job.yaml:1: a: b
        error: job.yaml:2: c: d
        ");
    }
}
