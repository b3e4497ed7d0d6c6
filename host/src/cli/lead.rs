//! The hidden command with which an agent starts a process that leads a job. It is `sandmill run`, but what it does
//! comes from standard input, and it ends with its agent.

use super::broker::BrokerArgument;
use super::exit::{Exit, Problem};
use super::run::{self, Assigned, RunArguments};
use super::{Cli, Command, say, terminal};
use crate::bus::Broker;
use crate::nodes::{FetchedJob, LeadSource, LeadTask};
use clap::Parser;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io;
use std::process::ExitCode;

/// Leads the job.
pub(super) fn serve() -> ExitCode {
    terminal::watch_panics();
    match lead() {
        Ok(exit) => exit.into(),
        Err(problem) => {
            say(&problem.to_string());
            problem.exit.into()
        }
    }
}

fn lead() -> Result<Exit, Problem> {
    let task: LeadTask = serde_json::from_reader(io::stdin().lock()).map_err(Problem::usage)?;
    end_with_agent(task.parent).map_err(Problem::usage)?;
    let LeadTask { mut words, broker, broker_credentials, broker_ca, assignment, source, .. } =
        task;
    let cli = Cli::try_parse_from(&words).map_err(Problem::usage)?;
    let Command::Run(mut arguments) = cli.command else {
        return Err(Problem::usage(io::Error::other("only `run` can lead a job")));
    };
    cli.logging.begin()?;
    // For the advice how to resume the job. A URL may have a password.
    if !broker.contains('@') {
        words.extend(["--broker".to_owned(), broker.clone()]);
    }
    arguments.job.broker = BrokerArgument::from(Broker {
        url: broker,
        credentials: broker_credentials,
        root_certificate: broker_ca,
    });
    // Removed when this process ends.
    let fetched = source.map(|source| fetch(&arguments, &source)).transpose()?;
    let job = fetched.as_ref().map(|fetched| &fetched.given);
    let assigned = Assigned { command: words, assignment, job };
    run::run_assigned(&arguments, &cli.logging, Some(assigned))
}

/// Fetches the job from its store.
fn fetch(arguments: &RunArguments, source: &LeadSource) -> Result<FetchedJob, Problem> {
    let LeadSource { job, from, work_dir } = source;
    let options = arguments.job.options()?.node();
    FetchedJob::to_lead(job, from, &options, work_dir.as_deref()).map_err(Problem::usage)
}

/// Makes the kernel kill this process when the agent ends, because only the agent can hand over the job, and replace a
/// leader that hangs. Other agents then take over.
fn end_with_agent(agent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|pid| pid.as_raw_pid().cast_unsigned());
    if parent == Some(agent) {
        return Ok(());
    }
    Err(io::Error::other("the agent that started this process has ended meanwhile"))
}
