//! Runs a Sandmill job from another program. Prints a line when an attempt of a mini-batch ends, and the
//! result at the end. Ends the job early on Ctrl-C, or after a given time.

use clap::Parser;
use sandmill::model::printable;
use sandmill::{Cancel, Event, EventKind, JobFile, JobStatus, Options, Prepared};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io, thread};
use tokio::signal::unix::{SignalKind, signal};

const EXIT_FAILED: u8 = 42;
const EXIT_CANCELLED: u8 = 130;

/// Runs a job, and prints a line when an attempt of a mini-batch ends. Exit codes: 0 completed, 1 error, 2
/// bad usage, 42 the job failed, 130 it was cancelled.
#[derive(Debug, Parser)]
struct Arguments {
    /// The job file.
    #[arg(value_name = "JOB.yaml")]
    job: PathBuf,
    /// The folder for the job's state and output.
    #[arg(value_name = "DIR")]
    job_dir: PathBuf,
    /// The `sandmill` binary, which child processes run [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    sandmill: Option<PathBuf>,
    /// Ends the job early after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    cancel_after: Option<u64>,
}

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        say(&format!("error: {error}"));
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let spec = sandmill::load(&arguments.job, &[])?;
    let mut options = Options::new(&arguments.job_dir, program(arguments.sandmill.as_deref())?);
    // Lets `sandmill resume DIR` continue the job.
    options.job_file = Some(JobFile::new(&arguments.job, &[]));
    let cancel = options.cancel.clone();
    cancel_on_signal(cancel.clone())?;
    if let Some(seconds) = arguments.cancel_after {
        let cancel = cancel.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(seconds));
            cancel.cancel(format!("--cancel-after {seconds}"));
        });
    }

    let (result, output) = match sandmill::prepare(spec.clone(), &options, &mut say) {
        Ok(Prepared::Job(job)) => {
            let output = job.claim.output().to_owned();
            (sandmill::run(*job, &mut on_event, &cancel)?, output)
        }
        // An earlier run completed the job, and nothing has changed since.
        Ok(Prepared::Reused(earlier)) => (earlier.result, earlier.output),
        Err(error) if cancel.reason().is_some() => {
            say(&error.to_string());
            return Ok(EXIT_CANCELLED.into());
        }
        Err(error) => return Err(error.into()),
    };
    println!("{}: {} rows in {}", result.status, result.rows, output.display());
    Ok(match result.status {
        JobStatus::Completed => {
            // Does nothing if the job file does not name a store for the results.
            sandmill::upload_results(&spec, &options, &output, &mut say)?;
            ExitCode::SUCCESS
        }
        JobStatus::Failed => {
            say(&result.reason);
            EXIT_FAILED.into()
        }
        JobStatus::Cancelled => {
            say(&result.reason);
            EXIT_CANCELLED.into()
        }
    })
}

/// Prints an attempt that ended. Escapes the texts, because they come from inputs and entry scripts.
fn on_event(event: &Event) {
    let EventKind::AttemptFinished { report, location, will_retry, .. } = &event.kind else {
        return;
    };
    let outcome = match &report.outcome {
        Ok(_) => "succeeded".to_owned(),
        Err(failure) if *will_retry => format!("failed, to be retried: {failure}"),
        Err(failure) => format!("failed: {failure}"),
    };
    let line =
        format!("mini-batch {}, attempt {} ({location}): {outcome}", report.id, report.attempt);
    println!("{}", printable(&line));
}

fn say(line: &str) {
    eprintln!("{}", printable(line));
}

/// The absolute path of the `sandmill` binary. A relative path would not work, because child processes have
/// other working folders.
fn program(option: Option<&Path>) -> io::Result<PathBuf> {
    match option {
        Some(path) => std::path::absolute(path),
        None => Ok(env::current_exe()?.with_file_name("sandmill")),
    }
}

/// On the first Ctrl-C, lets running mini-batches finish and ends the job. On the second Ctrl-C, kills the
/// mini-batches. In both cases, committed results are kept.
fn cancel_on_signal(cancel: Cancel) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt())?;
    drop(guard);
    thread::spawn(move || {
        runtime.block_on(interrupts.recv());
        say("Ctrl-C: running mini-batches may still finish; a second Ctrl-C kills them");
        cancel.cancel("Ctrl-C");
        runtime.block_on(interrupts.recv());
        cancel.cancel_at_once("Ctrl-C");
    });
    Ok(())
}
