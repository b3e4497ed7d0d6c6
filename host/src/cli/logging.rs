//! The log of Sandmill's own work, for people who debug or operate it: `--log`, `-v`, `-q` and
//! `SANDMILL_LOG`. The events of a job, which users and the log tree show, are separate.

use super::exit::Problem;
use super::terminal;
use crate::model::on_one_line;
use crate::report::StatusDisplay;
use std::io::{self, Write};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// The variable that applies if no option says what to log.
const VARIABLE: &str = "SANDMILL_LOG";

/// The target of the spans of the leader. The log lines of all targets are within these spans.
const LEADER_TARGET: &str = "sandmill_leader";

/// What to log, and how much to print.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logging")]
pub(super) struct LoggingArguments {
    /// Logs what Sandmill does, on standard error: off, error, warn, info, debug or trace [default:
    /// $SANDMILL_LOG, else off].
    #[arg(long, value_name = "LEVEL", global = true)]
    log: Option<String>,
    /// Format of the log: lines for people, or a JSON object per line.
    #[arg(long, value_name = "FORMAT", global = true, default_value = "text")]
    log_format: LogFormat,
    /// Logs more: -v is --log info, -vv --log debug, -vvv --log trace.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "log")]
    verbose: u8,
    /// Prints only failures of a job: no progress, and no result if it completes.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(super) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl LoggingArguments {
    /// Starts the log, unless nothing is to be logged.
    pub(super) fn begin(&self) -> Result<(), Problem> {
        let targets = self.targets(std::env::var(VARIABLE).ok())?;
        if targets.iter().all(|(_, level)| level == LevelFilter::OFF)
            && targets.default_level().is_none_or(|level| level == LevelFilter::OFF)
        {
            return Ok(());
        }
        // Lines have no targets, since the spans name the part of the program.
        let lines = fmt::layer().with_ansi(false).with_target(false);
        let layer = match self.log_format {
            LogFormat::Text => {
                lines.with_writer(|| StderrLines(|line| terminal::say(&on_one_line(line)))).boxed()
            }
            LogFormat::Json => lines
                .json()
                .flatten_event(true)
                .with_writer(|| StderrLines(terminal::say_json))
                .boxed(),
        };
        tracing_subscriber::registry().with(layer.with_filter(targets)).init();
        Ok(())
    }

    /// What to log; `variable` is the value of the environment variable [`VARIABLE`].
    fn targets(&self, variable: Option<String>) -> Result<Targets, Problem> {
        let (text, place) = match (&self.log, self.verbose) {
            (Some(text), _) => (text.clone(), "--log"),
            (None, 0) => (variable.unwrap_or_default(), VARIABLE),
            (None, 1) => return Ok(Targets::new().with_default(Level::INFO)),
            (None, 2) => return Ok(Targets::new().with_default(Level::DEBUG)),
            (None, _) => return Ok(Targets::new().with_default(Level::TRACE)),
        };
        if text.trim().is_empty() {
            return Ok(Targets::new().with_default(LevelFilter::OFF));
        }
        let known = text.parse().ok().filter(|_| text.split(',').all(is_directive));
        known.map(with_spans).ok_or_else(|| {
            Problem::usage(anyhow::anyhow!(
                "{place}: found {text:?}; expected off, error, warn, info, debug or trace, or several, each with \
                 the part of Sandmill that it applies to (e.g. sandmill_leader=debug,info)"
            ))
        })
    }

    /// Whether commands print more details (`-v`).
    pub(super) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// How a job is shown on standard error.
    pub(super) fn shown(&self) -> StatusDisplay {
        if self.quiet {
            return StatusDisplay::Failures;
        }
        // Lines of the log would break the bar.
        match terminal::shows_progress_bar() && LevelFilter::current() == LevelFilter::OFF {
            true => StatusDisplay::Bar,
            false => StatusDisplay::Lines,
        }
    }
}

/// Whether a part of a filter is a level, or names a part of Sandmill. Without this check, a mistyped level
/// would count as the name of a target that does not exist.
fn is_directive(text: &str) -> bool {
    text.contains('=') || text.starts_with("sandmill") || text.trim().parse::<LevelFilter>().is_ok()
}

/// Adds the leader's spans to the filter, because they give log lines their context. The spans have the most
/// severe level, so enabling this level is enough.
fn with_spans(targets: Targets) -> Targets {
    match targets.iter().any(|(part, _)| part == LEADER_TARGET) {
        true => targets,
        false if targets.default_level().is_some_and(|level| level > LevelFilter::OFF) => targets,
        false => targets.with_target(LEADER_TARGET, LevelFilter::ERROR),
    }
}

/// Writes to standard error, line by line. The field is the function that escapes a line and prints it.
/// So untrusted text cannot add lines or control the terminal.
struct StderrLines(fn(&str));

impl Write for StderrLines {
    /// The formatter passes a whole line to each call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        (self.0)(String::from_utf8_lossy(line).trim_end_matches('\n'));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct LoggedCommand {
        #[command(flatten)]
        logging: LoggingArguments,
    }

    fn targets(arguments: &str, variable: Option<&str>) -> Result<String, String> {
        let command = LoggedCommand::try_parse_from(format!("x {arguments}").split_whitespace());
        let logging = command.map_err(|error| error.kind().to_string())?.logging;
        let targets = logging.targets(variable.map(str::to_owned));
        targets.map(|targets| targets.to_string()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn options_come_before_the_variable() {
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(targets("", None), ok("off"));
        assert_eq!(targets("", Some("")), ok("off"));
        assert_eq!(targets("", Some("warn")), ok("warn"));
        assert_eq!(targets("--log debug", Some("warn")), ok("debug"));
        assert_eq!(targets("-v", Some("warn")), ok("info"));
        assert_eq!(targets("-vv", None), ok("debug"));
        assert_eq!(targets("-vvvv", None), ok("trace"));
        assert_eq!(
            targets("--log sandmill_leader=debug,info", None),
            ok("sandmill_leader=debug,info")
        );
        // The lines need the leader's spans.
        let commit = "--log sandmill_leader::commit=debug";
        assert_eq!(
            targets(commit, None),
            ok("sandmill_leader::commit=debug,sandmill_leader=error")
        );
    }

    #[test]
    fn unknown_log_levels_are_refused() {
        insta::assert_snapshot!(targets("", Some("loud=very")).unwrap_err(), @r#"error: SANDMILL_LOG: found "loud=very"; expected off, error, warn, info, debug or trace, or several, each with the part of Sandmill that it applies to (e.g. sandmill_leader=debug,info)"#);
        insta::assert_snapshot!(targets("--log sandmill=much", None).unwrap_err(), @r#"error: --log: found "sandmill=much"; expected off, error, warn, info, debug or trace, or several, each with the part of Sandmill that it applies to (e.g. sandmill_leader=debug,info)"#);
        for mistyped in ["inof", "warning", "verbose,info"] {
            assert!(targets("", Some(mistyped)).is_err(), "{mistyped}");
        }
        assert!(targets("-v --log info", None).is_err());
        assert!(targets("-v -q", None).is_err());
    }
}
