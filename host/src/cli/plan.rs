//! `sandmill plan`: prints the mini-batches, runs nothing.

use super::child::PLAN_COMMAND;
use super::exit::{Exit, Problem};
use super::logging::LoggingArguments;
use super::plan_shown::Table;
use super::run::{self, Counts, JobArguments, Loaded, not_prepared, this_program};
use super::schema_block::schema_block;
use super::{print_json, refused, say, signals, terminal};
use crate::model::{InputKind, JobDir, counted};
use crate::node::{self, Staged};
use crate::opening::{make_new_private, scratch_path};
use crate::protocol::{
    Cut, FrameError, FromPlanner, MayOpen, PlanRequest, Question, encode, read_frame,
};
use crate::run::{Options, PrepareError};
use crate::spec::JobSpec;
use crate::store::{Arrival, Objects};
use crate::wall::{self, death};
use anyhow::{Context, anyhow, bail};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Changes with every change of the JSON that is not an addition.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    counts: Counts,
    /// Where the job would keep its state, logs and output, as for `run`.
    #[arg(long, value_name = "DIR")]
    job_dir: Option<PathBuf>,
    /// Shows all mini-batches, not the first and the last ten.
    #[arg(long)]
    all: bool,
    /// For programs.
    #[arg(long, conflicts_with = "write_schema")]
    json: bool,
    /// Prints the columns of text inputs instead, as a piece of a job file to paste there.
    #[arg(long)]
    write_schema: bool,
}

impl Arguments {
    /// Those of `run --dry-run`.
    pub(super) fn dry_run(run: &run::Arguments) -> Self {
        let run::Arguments { job, counts, job_dir, .. } = run;
        let (job, counts, job_dir) = (job.clone(), counts.clone(), job_dir.clone());
        Self { job, counts, job_dir, all: false, json: false, write_schema: false }
    }
}

/// Prints what a job comes to on standard error, its mini-batches on standard output.
pub(super) fn plan(arguments: &Arguments, logging: &LoggingArguments) -> Result<Exit, Problem> {
    let Loaded { spec, policy, .. } = arguments.job.load(&arguments.counts)?;
    let conversions = if logging.is_verbose() { spec.conversions.as_slice() } else { &[] };
    for notice in spec.notices.iter().chain(conversions) {
        say(&format!("note: {notice}"));
    }
    let mut options = Options::new(PathBuf::new(), this_program()?);
    options.policy = policy.clone();
    options.datastores = arguments.job.datastores.load()?;
    // What is fetched stays for `run`, if all of it has room.
    let staged = node::stage(&spec, &options.node(), &mut say)
        .map_err(|error| not_prepared(PrepareError::Node(error)))?;
    let real = node::with_real_paths(&spec, &staged).map_err(Problem::usage)?;
    let Staged { sources, mut objects, .. } = staged;
    policy.check(&real, &sources, None).map_err(refused)?;
    let spill = spill_folder(&spec.input_kind).map_err(Problem::usage)?;
    let mut planner = Planner::new(spill);
    let mut request = node::plan_request(&spec, &sources, planner.spill.clone());
    // A planner that dies over a file is not replaced, as that of a job is; the file is named.
    request.tells_files = true;
    request.asks = objects.asks();
    // As long as when a job is taken up.
    planner.patience = spec.settings.first_task_creation_timeout.max(spec.progress_update_timeout);
    let messages = planner.start(&request).map_err(Problem::usage)?;
    let mut store = Store { looks: node::Looks::new(&sources), objects: &mut objects };
    let mut table = Table::new(
        BufWriter::new(terminal::stdout()),
        &request.sources,
        (arguments.all, arguments.json),
    );
    table.schema_of = match &request.cut {
        Cut::Tables { inputs, .. } if arguments.write_schema => Some(inputs),
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
        // Whoever reads this has read enough.
        Err(error) if is_broken_pipe(&error) => Ok(Exit::Completed),
        Err(error) => Err(Problem::usage(error)),
    }
}

/// The summary, then what is shown of the mini-batches.
fn show<W: Write>(
    table: &mut Table<'_, W>,
    spec: &JobSpec,
    arguments: &Arguments,
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

/// Where rows are grouped by key and texts are unpacked; an empty path where there are no tables.
fn spill_folder(kind: &InputKind) -> io::Result<PathBuf> {
    match kind {
        InputKind::Tables { .. } => scratch_path("plan"),
        _ => Ok(PathBuf::new()),
    }
}

/// How long Ctrl-C may take to arrive in this process.
const CTRL_C: Duration = Duration::from_millis(500);

/// The planner as a child process: it looks into files that nobody vouches for. It ends, and what it
/// spilled is taken away, with this or with Ctrl-C, whichever comes first.
struct Planner {
    child: Arc<Mutex<Option<Child>>>,
    /// Where it is told of files that it asks for, if it does.
    stdin: Option<ChildStdin>,
    question: Arc<Question>,
    spill: PathBuf,
    /// The longest that it may say nothing.
    patience: Duration,
}

/// What the planner says; none when it says nothing more.
type Messages = Receiver<Result<Option<FromPlanner>, FrameError>>;

impl Planner {
    fn new(spill: PathBuf) -> Self {
        let child = Arc::default();
        let patience = Duration::MAX;
        let planner = Self { child, stdin: None, question: Arc::default(), spill, patience };
        let child = planner.child.clone();
        let spill = planner.spill.clone();
        let watched = signals::each(move |_, what| {
            // Held until the end: nobody starts anything, or tells of the planner's end.
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            end(&mut child, &spill);
            say(&format!("{what}: nothing was run"));
            std::process::exit(signals::CANCELLED);
        });
        if let Err(error) = watched {
            say(&format!("warning: Ctrl-C may leave temporary files behind: {error}"));
        }
        planner
    }

    fn start(&mut self, request: &PlanRequest) -> anyhow::Result<Messages> {
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
        // The planner reads all of it before it says anything. If it cannot, its end says more
        // than this error would.
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
            // As above. It has room in the pipe, as there is no other one in it.
            let _ = stdin.write_all(&frame);
        }
        Ok(())
    }

    fn stop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        end(&mut child, &self.spill);
    }

    /// How a planner ended that says nothing any more.
    fn status(&mut self) -> String {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.as_mut().map(Child::wait);
        drop(child);
        // Before it has a process group of its own, Ctrl-C is meant for it, too: this process ends by that.
        let by_signal = status.as_ref().and_then(|status| status.as_ref().ok()?.signal());
        if by_signal
            .is_some_and(|signal| [libc::SIGHUP, libc::SIGINT, libc::SIGTERM].contains(&signal))
        {
            std::thread::sleep(CTRL_C);
        }
        status.and_then(Result::ok).map_or_else(|| "ended".to_owned(), death)
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads on a thread, a little ahead. Nobody vouches for what the planner says, either.
fn listen(stdout: ChildStdout, question: Option<Arc<Question>>) -> anyhow::Result<Messages> {
    let (sender, messages) = mpsc::sync_channel(4);
    std::thread::Builder::new().spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut buffer = Vec::new();
        loop {
            let message = read_frame(&mut stdout, &mut buffer).and_then(|message| {
                let Some(message): Option<FromPlanner> = message else { return Ok(None) };
                message.check()?;
                question.as_ref().map_or(Ok(()), |question| question.hear(&message))?;
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

/// Ends the planner with its helpers, if it has not ended, and removes what it spilled.
fn end(child: &mut Option<Child>, spill: &Path) {
    if let Some(mut child) = child.take() {
        // Its helpers end with it. Fails only if it has ended.
        let _ = child.kill();
        let _ = child.wait();
    }
    if !spill.as_os_str().is_empty() {
        // Nothing that anybody needs; the system's own cleaning takes what is left.
        let _ = std::fs::remove_dir_all(spill);
    }
}

/// Where the planner's objects come from.
struct Store<'a> {
    looks: node::Looks,
    objects: &'a mut Objects,
}

impl Store<'_> {
    /// Waits for the answer to a planner that asks for a file. Returns `None` if no object comes. Fails if the disk has no
    /// room for the file.
    fn bring(
        &mut self,
        source: u32,
        file: String,
        next: Vec<String>,
    ) -> anyhow::Result<Option<MayOpen>> {
        let mut answer = self.looks.open(source, file, next, self.objects);
        while answer.is_none() {
            answer = match self.objects.blocking_arrival() {
                None => return Ok(None),
                Some(Arrival::NoSpace(text)) => bail!(text),
                Some(arrival) => self.looks.arrived(&arrival),
            };
        }
        Ok(answer)
    }
}

/// The planner's next message, or `None` after its last. Fails if the planner takes too long.
fn next(messages: &Messages, patience: Duration) -> anyhow::Result<Option<FromPlanner>> {
    match messages.recv_timeout(patience) {
        Ok(message) => Ok(message?),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => bail!(
            "nothing was heard of the planner for {} s: see that the inputs can be read, or \
             raise first_task_creation_timeout",
            patience.as_secs()
        ),
    }
}

fn print<W: Write>(
    planner: &mut Planner,
    messages: &Messages,
    store: &mut Store<'_>,
    table: &mut Table<'_, W>,
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
                if waits && let Some(answer) = store.bring(source, file, next)? {
                    planner.answer(&answer)?;
                }
            }
            Some(FromPlanner::Closed | FromPlanner::Share(_)) => {}
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
                    format!("; the last file that it looked into is {}", file.display())
                });
                bail!("the planner process {status} before it had cut all inputs{last}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pipe_is_no_error() {
        assert!(is_broken_pipe(&io::Error::from(ErrorKind::BrokenPipe).into()));
        assert!(!is_broken_pipe(&anyhow!("no")));
    }
}
