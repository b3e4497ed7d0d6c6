//! `sandmill plan`: prints the mini-batches, and runs nothing.

use super::child::PLAN_COMMAND;
use super::exit::{Exit, Problem};
use super::logging::LoggingArguments;
use super::plan_shown::PlanTable;
use super::run::{self, JobArguments, LoadedJob, OptionSettings, not_prepared, this_program};
use super::schema_block::schema_block;
use super::{print_json, refused, say, signals, terminal};
use crate::model::{InputKind, JobDir, counted};
use crate::node::{self, Staged};
use crate::opening::{make_new_private, scratch_path};
use crate::protocol::{
    CutOptions, FrameError, FromPlanner, MayOpen, PlanRequest, PlannerQuestion, encode, read_frame,
};
use crate::run::{Options, PrepareError};
use crate::spec::JobSpec;
use crate::store::{JobObjects, StagingReport};
use crate::wall::{self, death};
use anyhow::{Context, anyhow, bail};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    counts: OptionSettings,
    /// Where the job would keep its state, logs and output, as for `run`.
    #[arg(long, value_name = "DIR")]
    job_dir: Option<PathBuf>,
    /// Shows all mini-batches, not only the first and the last ten.
    #[arg(long)]
    all: bool,
    /// Prints JSON.
    #[arg(long, conflicts_with = "write_schema")]
    json: bool,
    /// Prints the columns of text inputs instead, as lines to paste into the job file.
    #[arg(long)]
    write_schema: bool,
}

impl PlanArguments {
    /// The arguments of `run --dry-run`.
    pub(super) fn dry_run(run: &run::RunArguments) -> Self {
        let run::RunArguments { job, counts, job_dir, .. } = run;
        let (job, counts, job_dir) = (job.clone(), counts.clone(), job_dir.clone());
        Self { job, counts, job_dir, all: false, json: false, write_schema: false }
    }
}

/// Prints a summary of the job on standard error, and its mini-batches on standard output.
pub(super) fn plan(arguments: &PlanArguments, logging: &LoggingArguments) -> Result<Exit, Problem> {
    let LoadedJob { spec, policy, .. } = arguments.job.load(&arguments.counts)?;
    let conversions = if logging.is_verbose() { spec.conversions.as_slice() } else { &[] };
    for notice in spec.notices.iter().chain(conversions) {
        say(&format!("note: {notice}"));
    }
    let mut options = Options::new(PathBuf::new(), this_program()?);
    options.policy = policy.clone();
    options.datastores = arguments.job.datastores.load()?;
    // Fetched objects stay in the cache for `run`, if all of them fit.
    let staged = node::stage(&spec, &options.node(), (None, false), &mut say)
        .map_err(|error| not_prepared(PrepareError::Node(error)))?;
    let real = node::with_real_paths(&spec, &staged).map_err(Problem::usage)?;
    let Staged { sources, mut objects, .. } = staged;
    policy.check(&real, &sources, None).map_err(refused)?;
    let spill = spill_folder(&spec.input_kind).map_err(Problem::usage)?;
    let mut planner = StandalonePlanner::new(spill);
    let mut request = node::plan_request(&spec, &sources, planner.spill.clone());
    // If the planner dies because of a file, it is not restarted as in a job. Instead, we name the file.
    request.reports_files = true;
    request.asks = objects.asks();
    // Allow the planner to be silent for as long as a resumed job allows.
    planner.patience = spec.settings.first_task_creation_timeout.max(spec.progress_update_timeout);
    let messages = planner.start(&request).map_err(Problem::usage)?;
    let mut store =
        PlannerObjects { reads: node::PlannerReads::new(&sources), objects: &mut objects };
    let mut table = PlanTable::new(
        BufWriter::new(terminal::stdout()),
        &request.sources,
        (arguments.all, arguments.json),
    );
    table.schema_of = match &request.cut {
        CutOptions::Tables { inputs, .. } if arguments.write_schema => Some(inputs),
        _ if arguments.write_schema => {
            let why = "--write-schema is for inputs of tables (format: csv, tsv or jsonl)";
            return Err(Problem::usage(anyhow!(why)));
        }
        _ => None,
    };
    let printed = print(&mut planner, &messages, &mut store, &mut table);
    planner.stop();
    match printed {
        Ok(()) if arguments.write_schema => Ok(Exit::Completed),
        Ok(()) => show(&mut table, &spec, arguments),
        // The reader of the pipe has read enough.
        Err(error) if is_broken_pipe(&error) => Ok(Exit::Completed),
        Err(error) => Err(Problem::usage(error)),
    }
}

/// Prints the summary, then the mini-batches.
fn show<W: Write>(
    table: &mut PlanTable<'_, W>,
    spec: &JobSpec,
    arguments: &PlanArguments,
) -> Result<Exit, Problem> {
    let job_dir = arguments.job_dir.clone().unwrap_or_else(|| Path::new("jobs").join(&spec.name));
    let output = match &spec.upload {
        Some(address) => address.to_string(),
        None => {
            let output = spec.output.clone();
            output.unwrap_or_else(|| JobDir::new(&job_dir).default_output()).display().to_string()
        }
    };
    if arguments.json {
        let mut value = table.json();
        value["version"] = VERSION.into();
        value["job"] = spec.name.clone().into();
        value["workers"] = spec.process_count.into();
        value["job_dir"] = job_dir.display().to_string().into();
        value["output"] = output.into();
        return print_json(&format!("{value:#}\n")).map(|()| Exit::Completed);
    }
    let workers = counted(spec.process_count.into(), "worker");
    say(&format!("{}; {workers}; the results go to {output}", table.summary()));
    match table.finish() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Problem::usage(error)),
        _ => Ok(Exit::Completed),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The folder in which the planner groups rows by key and decompresses text; an empty path if there are no
/// tables.
fn spill_folder(kind: &InputKind) -> io::Result<PathBuf> {
    match kind {
        InputKind::Tables { .. } => scratch_path("plan"),
        _ => Ok(PathBuf::new()),
    }
}

/// The maximum time that Ctrl-C takes to reach this process.
const CTRL_C_DELAY: Duration = Duration::from_millis(500);

/// The planner. It is a child process, since it parses untrusted files. When this value is dropped, or on
/// Ctrl-C, the planner is killed and its spilled files are removed.
struct StandalonePlanner {
    child: Arc<Mutex<Option<Child>>>,
    /// The pipe for answers about the files that the planner asks for. `None` if the planner does not ask.
    stdin: Option<ChildStdin>,
    question: Arc<PlannerQuestion>,
    spill: PathBuf,
    /// How long the planner may be silent.
    patience: Duration,
}

/// The planner's messages; `None` at the end.
type PlannerMessages = Receiver<Result<Option<FromPlanner>, FrameError>>;

impl StandalonePlanner {
    fn new(spill: PathBuf) -> Self {
        let child = Arc::default();
        let patience = Duration::MAX;
        let planner = Self { child, stdin: None, question: Arc::default(), spill, patience };
        let child = planner.child.clone();
        let spill = planner.spill.clone();
        let watched = signals::on_each(move |_, signal_name| {
            // We hold the lock until the exit, so that no other thread can start a process or report the
            // planner's death.
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            kill_planner(&mut child, &spill);
            say(&format!("{signal_name}: nothing was run"));
            std::process::exit(signals::CANCELLED);
        });
        if let Err(error) = watched {
            say(&format!("warning: Ctrl-C may not remove temporary files: {error}"));
        }
        planner
    }

    fn start(&mut self, request: &PlanRequest) -> anyhow::Result<PlannerMessages> {
        let program = this_program().map_err(|problem| anyhow!("{problem}"))?;
        let mut frame = Vec::new();
        encode(request, &mut frame).context("the inputs have too many names")?;
        let mut slot = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.spill.as_os_str().is_empty() {
            let made = make_new_private(&self.spill);
            made.with_context(|| format!("cannot make {}", self.spill.display()))?;
        }
        let mut command = Command::new(&program);
        command.arg(PLAN_COMMAND).env_clear().current_dir("/");
        wall::keep_apart(&mut command);
        let child = slot.insert(
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .with_context(|| format!("cannot start {}", program.display()))?,
        );
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the planner has no pipes");
        };
        drop(slot);
        // The planner reads the whole request before it writes. If this write fails, the planner's exit
        // status says more than the error.
        let _ = stdin.write_all(&frame);
        let are_answered = request.asks.are_answered();
        self.stdin = are_answered.then_some(stdin);
        listen(stdout, are_answered.then(|| Arc::clone(&self.question)))
    }

    fn answer(&mut self, answer: &MayOpen) -> anyhow::Result<()> {
        let mut frame = Vec::new();
        encode(answer, &mut frame)?;
        if let Some(stdin) = &mut self.stdin {
            self.question.answer();
            // Errors are ignored, as in `start`. The write cannot block: the planner asks one question at a
            // time, so the pipe is empty.
            let _ = stdin.write_all(&frame);
        }
        Ok(())
    }

    fn stop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        kill_planner(&mut child, &self.spill);
    }

    /// How the planner ended, after its last message.
    fn status(&mut self) -> String {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.as_mut().map(Child::wait);
        drop(child);
        // Ctrl-C reaches the planner, too, until the planner has its own process group. If the planner died
        // of it, wait for our own signal handler, which exits.
        let by_signal = status.as_ref().and_then(|status| status.as_ref().ok()?.signal());
        if by_signal
            .is_some_and(|signal| [libc::SIGHUP, libc::SIGINT, libc::SIGTERM].contains(&signal))
        {
            std::thread::sleep(CTRL_C_DELAY);
        }
        status.and_then(Result::ok).map_or_else(|| "ended".to_owned(), death)
    }
}

impl Drop for StandalonePlanner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads the planner's messages on a thread, a few in advance. The thread also checks them, because the
/// planner is untrusted.
fn listen(
    stdout: ChildStdout,
    question: Option<Arc<PlannerQuestion>>,
) -> anyhow::Result<PlannerMessages> {
    let (sender, messages) = mpsc::sync_channel(4);
    std::thread::Builder::new().spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut buffer = Vec::new();
        loop {
            let message = read_frame(&mut stdout, &mut buffer).and_then(|message| {
                let Some(message): Option<FromPlanner> = message else { return Ok(None) };
                message.check()?;
                question.as_ref().map_or(Ok(()), |question| question.on_report(&message))?;
                Ok(Some(message))
            });
            let last = !matches!(message, Ok(Some(_)));
            if sender.send(message).is_err() || last {
                return;
            }
        }
    })?;
    Ok(messages)
}

/// Kills the planner and its helpers if they are running, and removes its spilled files.
fn kill_planner(child: &mut Option<Child>, spill: &Path) {
    if let Some(mut child) = child.take() {
        // The planner's helpers die with it. This fails only if the planner has ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
    if !spill.as_os_str().is_empty() {
        // Temporary files: if some are left, the system cleans them up.
        let _ = std::fs::remove_dir_all(spill);
    }
}

/// Fetches the objects that the planner wants to open.
struct PlannerObjects<'a> {
    reads: node::PlannerReads,
    objects: &'a mut JobObjects,
}

impl PlannerObjects<'_> {
    /// Waits for the answer to the planner's request for a file. Returns `None` if no objects are being
    /// fetched. Fails if the disk is full.
    fn fetch_file(
        &mut self,
        source: u32,
        file: String,
        next: Vec<String>,
    ) -> anyhow::Result<Option<MayOpen>> {
        let mut answer = self.reads.open(source, file, next, self.objects);
        while answer.is_none() {
            answer = match self.objects.blocking_arrival() {
                None => return Ok(None),
                Some(StagingReport::NoSpace(text)) => bail!(text),
                Some(arrival) => self.reads.arrived(&arrival),
            };
        }
        Ok(answer)
    }
}

/// The planner's next message; `None` after the last one. Fails if the planner is silent for too long.
fn next(messages: &PlannerMessages, patience: Duration) -> anyhow::Result<Option<FromPlanner>> {
    match messages.recv_timeout(patience) {
        Ok(message) => Ok(message?),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => bail!(
            "the planner sent nothing for {} s: check that the inputs can be read, or \
             raise first_task_creation_timeout",
            patience.as_secs()
        ),
    }
}

fn print<W: Write>(
    planner: &mut StandalonePlanner,
    messages: &PlannerMessages,
    store: &mut PlannerObjects<'_>,
    table: &mut PlanTable<'_, W>,
) -> anyhow::Result<()> {
    let mut opened = None;
    loop {
        match next(messages, planner.patience)? {
            Some(FromPlanner::Tables(formats)) => {
                if let Some(inputs) = table.schema_of {
                    let block = schema_block(table.sources, inputs, &formats)?;
                    table.out.write_all(block.as_bytes())?;
                    return Ok(table.out.flush()?);
                }
            }
            Some(FromPlanner::Opening { source, file, waits, next }) => {
                let root = table.sources.get(source as usize).map(|source| &source.root);
                opened = root.map(|root| root.join(&file));
                if waits && let Some(answer) = store.fetch_file(source, file, next)? {
                    planner.answer(&answer)?;
                }
            }
            Some(FromPlanner::Closed | FromPlanner::Share(_)) => {}
            // These concern plans that continue.
            Some(
                FromPlanner::Position(_) | FromPlanner::Continues | FromPlanner::CannotContinue,
            ) => {}
            Some(FromPlanner::Columns(notice) | FromPlanner::Notice(notice)) => {
                say(&format!("note: {notice}"));
            }
            Some(FromPlanner::MiniBatches(batches)) => {
                batches.iter().try_for_each(|batch| table.row(batch))?;
            }
            Some(FromPlanner::Finished) => return Ok(()),
            Some(FromPlanner::Failed(reason)) => bail!(reason),
            None => {
                let status = planner.status();
                let last = opened.map_or_else(String::new, |file| {
                    format!("; the last file that it opened is {}", file.display())
                });
                bail!("the planner process {status} before it had planned all mini-batches{last}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pipe_is_recognised() {
        assert!(is_broken_pipe(&io::Error::from(ErrorKind::BrokenPipe).into()));
        assert!(!is_broken_pipe(&anyhow!("no")));
    }
}
