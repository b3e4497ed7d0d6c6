//! `sandmill map ENTRY_SCRIPT`: reads an Arrow IPC stream from standard input, and writes one to standard
//! output.
//!
//! This process only passes bytes on. A child process in the sandbox of a worker parses the input and writes
//! the output.

use super::check::{
    self, CheckArguments, captured_output, explain, instrumentation, time_limit, trial_setup,
};
use super::exit::{Exit, Problem};
use super::run::BackendArguments;
use super::script::ExistingScript;
use super::tools::ToolArguments;
use super::{say, signals, terminal};
use crate::compile::{Cache, Compiled, Instrumentation};
use crate::model::{LoggingLevel, PythonRuntime, counted, printable};
use crate::node::mapping::{MapNews, MapSettings, MappedRows};
use crate::node::python::PythonError;
use crate::node::trial::{TrialChild, TrialError, TrialRequest, TrialSetup};
use crate::opening::ScratchFolder;
use anyhow::Context as _;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;
use std::time::Duration;

/// The time that the reader of standard output has after a failure, to read the results so far.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of bytes that are passed on in one piece.
const PIECE_BYTES: usize = 256 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct MapArguments {
    /// A script in Python or JavaScript, a component, a core module, or the folder of a guest crate or of C
    /// sources.
    entry_script: PathBuf,
    /// Cuts record batches into mini-batches of at most N rows [default: each record batch is a mini-batch].
    #[arg(long, value_name = "N")]
    rows: Option<NonZeroU64>,
    /// Continues while the entry script reports at most N failed rows; -1 for any number.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    error_threshold: i64,
    /// Runtime of a Python script. auto means science, whose `run` gets a pandas DataFrame; with light, `run`
    /// gets a sandmill.Table.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = check::runtime)]
    runtime: PythonRuntime,
    #[command(flatten)]
    given: check::GivenArguments,
    #[command(flatten)]
    backends: BackendArguments,
    #[command(flatten)]
    tools: ToolArguments,
}

/// Maps standard input to standard output.
pub(super) fn map(arguments: &MapArguments, is_verbose: bool) -> Result<Exit, Problem> {
    let (from, to) = terminal::streams().map_err(Problem::usage)?;
    let tools = arguments.tools.load()?;
    let trial = check::TrialArguments::without_files(arguments.given.clone());
    let check = CheckArguments::new(&arguments.entry_script, &trial, &tools, &arguments.backends)?;
    let scratch = ScratchFolder::create("map")
        .context("no folder for the run can be created")
        .map_err(Problem::usage)?;
    let (compiled, setup) = prepare(&check, arguments, &scratch)?;
    let started = TrialChild::map(check.program, &compiled, &setup).map_err(anyhow::Error::from);
    let (trial, data) = started.map_err(Problem::usage)?;
    let mapped = Mapper { trial, scratch: &scratch, limit: time_limit(&check) }.map(
        data,
        (from, to),
        arguments.error_threshold,
    );
    if is_verbose {
        let output = captured_output(&scratch).to_string();
        if !output.is_empty() {
            say(output.trim_end());
        }
    }
    mapped
}

/// Compiles the entry script, and builds the request for the child process.
fn prepare(
    check: &CheckArguments<'_>,
    arguments: &MapArguments,
    scratch: &ScratchFolder,
) -> Result<(Compiled, TrialSetup), Problem> {
    let limits = check.policy.default_limits();
    let with = instrumentation(&limits);
    let is_script = check.is_script();
    let script =
        is_script.then(|| ExistingScript::at(check.path)).transpose().map_err(Problem::usage)?;
    let (compiled, library) = match &script {
        Some(script) => match script.choose(check, &limits, (arguments.runtime, true), &mut say) {
            Ok(chosen) => {
                chosen.notices.iter().for_each(|note| say(&format!("note: {note}")));
                (chosen.compiled, chosen.library)
            }
            Err(PythonError::Refused(why)) => return Err(Problem::each_line(&why)),
            Err(error) => return Err(Problem::usage(error)),
        },
        None => (component(check, with)?, None),
    };
    let setup = trial_setup(check, limits, with, scratch.path(), &mut say);
    let mut setup = setup.map_err(Problem::usage)?;
    if let Some(script) = script {
        let shown = script.mount_into(library.as_deref(), LoggingLevel::Info, &mut setup);
        shown.map_err(Problem::usage)?;
    }
    setup.wanted = TrialRequest::Map(MapSettings { rows: arguments.rows });
    Ok((compiled, setup))
}

fn component(check: &CheckArguments<'_>, with: Instrumentation) -> Result<Compiled, Problem> {
    let cache = Cache::open(check.cache, check.compiler).map_err(Problem::usage)?;
    let path = check.component(&mut say).map_err(Problem::usage)?;
    cache.prepare(&path, with, &mut say).map_err(Problem::usage)
}

/// The child process that maps, and how it is watched.
struct Mapper<'a> {
    trial: TrialChild,
    scratch: &'a ScratchFolder,
    /// The longest time that a call may take.
    limit: Duration,
}

/// Why the mapping ended before the end of the input.
#[derive(Default)]
struct MapEnding {
    /// A signal, such as Ctrl-C.
    signal: OnceLock<&'static str>,
    /// Standard input cannot be read.
    input: OnceLock<io::Error>,
    /// Standard output cannot be written.
    output: OnceLock<io::Error>,
}

impl Mapper<'_> {
    fn map(
        mut self,
        data: UnixStream,
        (from, to): (File, File),
        threshold: i64,
    ) -> Result<Exit, Problem> {
        self.await_loaded()?;
        let ending = Arc::new(MapEnding::default());
        self.watch_signals(&ending);
        let written = self.pass_on(data, (from, to), &ending).map_err(Problem::usage)?;
        let result = self.follow(threshold);
        if result.is_err() {
            // The entry script may be in an endless loop.
            drop(self.trial);
        }
        // Wait until the reader has read the results so far, or has closed the pipe.
        let _ = match result {
            Ok(()) => written.recv().map_err(drop),
            Err(_) => written.recv_timeout(DRAIN_TIMEOUT).map_err(drop),
        };
        if let Some(signal) = ending.signal.get() {
            say(&format!("{signal}: stopped; the output has no end-of-stream marker"));
            return Ok(Exit::Cancelled);
        }
        if let Some(error) = ending.input.get() {
            return Err(Problem::failed(anyhow::anyhow!("standard input cannot be read: {error}")));
        }
        if let Some(error) = ending.output.get() {
            return Err(unwritten_output(error));
        }
        result.map(|()| Exit::Completed)
    }

    /// Waits until the child has loaded the entry script.
    fn await_loaded(&mut self) -> Result<(), Problem> {
        let functions = self.trial.functions();
        let loaded = functions.map_err(|error| Problem::usage(explain(self.scratch, error)))?;
        loaded.map(drop).map_err(Problem::usage)
    }

    fn watch_signals(&self, ending: &Arc<MapEnding>) {
        let stopper = self.trial.stopper();
        let ending = Arc::clone(ending);
        let watched = signals::on_each(move |count, signal| {
            if count > 1 {
                std::process::exit(signals::CANCELLED);
            }
            let _ = ending.signal.set(signal);
            stopper.stop();
        });
        if let Err(error) = watched {
            say(&format!("warning: Ctrl-C does not remove the folder of this run: {error}"));
        }
    }

    /// Passes bytes on in both directions. The receiver gets a message when all output is written.
    fn pass_on(
        &self,
        data: UnixStream,
        (mut from, mut to): (File, File),
        ending: &Arc<MapEnding>,
    ) -> io::Result<Receiver<()>> {
        let mut into = data.try_clone()?;
        let (stopper, endings) = (self.trial.stopper(), Arc::clone(ending));
        Builder::new().name("input".to_owned()).spawn(move || {
            // Ignore write errors, which mean that the child has ended: `follow` reports how.
            if let Err(PassError::Read(error)) = pass(&mut from, &mut into) {
                let _ = endings.input.set(error);
                stopper.stop();
            }
            let _ = into.shutdown(Shutdown::Write);
        })?;
        let (sender, written) = mpsc::channel();
        let (stopper, endings) = (self.trial.stopper(), Arc::clone(ending));
        let mut out_of = data;
        Builder::new().name("output".to_owned()).spawn(move || {
            // Ignore read errors: `follow` reports how the child ended.
            if let Err(PassError::Write(error)) = pass(&mut out_of, &mut to) {
                let _ = endings.output.set(error);
                stopper.stop();
            }
            let _ = sender.send(());
        })?;
        Ok(written)
    }

    /// Follows the child's reports about the mini-batches, until the end or a failure.
    fn follow(&mut self, threshold: i64) -> Result<(), Problem> {
        let mut running = None;
        let mut call = "init";
        let mut limit = Some(self.limit);
        let mut failed = 0;
        let mut has_begun = false;
        loop {
            let message = self.trial.news(limit);
            let place =
                running.map(|taken| format!("{}: ", mini_batch_text(taken))).unwrap_or_default();
            match message.map_err(|error| self.died(&place, error))? {
                None => {
                    let seconds = self.limit.as_secs_f64();
                    return Err(failure(&format!(
                        "{place}stopped: {call} did not return within {seconds} s (--timeout)"
                    )));
                }
                Some(MapNews::Ready) => limit = None,
                Some(MapNews::Began(taken)) => {
                    call = "run";
                    has_begun = true;
                    running = Some(taken);
                    limit = Some(self.limit);
                }
                Some(MapNews::Returned(count, named)) => {
                    limit = None;
                    failed += count;
                    say_failed(count, &named, running);
                    running = None;
                    if u64::try_from(threshold).is_ok_and(|most| failed > most) {
                        return Err(too_many(failed, threshold));
                    }
                }
                Some(MapNews::ShuttingDown) => {
                    call = "shutdown";
                    limit = Some(self.limit);
                }
                Some(MapNews::Ended) => return Ok(()),
                Some(MapNews::BadInput(why)) => {
                    let error = anyhow::anyhow!("standard input {why}");
                    return Err(match has_begun {
                        true => Problem::failed(error),
                        false => Problem::usage(error),
                    });
                }
                Some(MapNews::Failed(found)) => {
                    let detail = found.detail.trim_end();
                    let line = if detail.is_empty() { "" } else { "\n" };
                    return Err(failure(&format!("{place}{found}{line}{detail}")));
                }
            }
        }
    }

    fn died(&self, place: &str, error: TrialError) -> Problem {
        failure(&format!("{place}{}", explain(self.scratch, error)))
    }
}

/// The side that failed while bytes were passed on.
enum PassError {
    Read(io::Error),
    Write(io::Error),
}

/// Passes bytes on until the end of the source.
fn pass(from: &mut impl Read, to: &mut impl Write) -> Result<(), PassError> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(&buffer[..read]).map_err(PassError::Write)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(PassError::Read(error)),
        }
    }
}

fn failure(text: &str) -> Problem {
    Problem::failed(anyhow::anyhow!(printable(text).into_owned()))
}

/// Prints which rows of a mini-batch failed.
fn say_failed(count: u64, named: &[(u64, String)], taken: Option<MappedRows>) {
    let first = taken.map_or(0, |taken| taken.first);
    for (row, reason) in named {
        say(&format!("row {} failed: {reason}", first + row));
    }
    let more = count.saturating_sub(named.len() as u64);
    if more > 0 {
        say(&format!("{} more of the same mini-batch failed", counted(more, "row")));
    }
}

fn too_many(failed: u64, threshold: i64) -> Problem {
    let rows = counted(failed, "row");
    Problem::failed(anyhow::anyhow!(
        "{rows} failed, more than --error-threshold allows ({threshold}); to continue despite all failures: --error-threshold -1"
    ))
}

/// The mini-batch and its rows, for messages. Rows are counted from 1, and mini-batches from 0, as the entry
/// script counts them.
fn mini_batch_text(taken: MappedRows) -> String {
    let MappedRows { id, first, count } = taken;
    format!("mini-batch {id} (rows {} to {} of the input)", first + 1, first + count)
}

fn unwritten_output(error: &io::Error) -> Problem {
    Problem::failed(match error.kind() {
        ErrorKind::BrokenPipe => {
            anyhow::anyhow!("standard output was closed before all results were written")
        }
        _ => anyhow::anyhow!("the results cannot be written to standard output: {error}"),
    })
}
