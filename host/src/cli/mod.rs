//! The command line, with one file per command. Only this module uses both the engine and the reports, and
//! only it turns errors into messages and exit codes (`exit`). It may import every other module.
//!
//! Messages go to standard error. Standard output carries only what other programs may read.

mod about;
mod broker;
mod build;
mod cache;
mod cancel;
mod cancel_stored;
mod check;
mod check_script;
mod checked;
mod child;
mod clean;
mod config;
mod datastores;
mod detach;
mod doctor;
mod doctor_broker;
mod doctor_checks;
mod error;
mod event_thread;
mod exit;
mod help;
mod history;
mod inspect;
mod job_source;
mod job_store_place;
mod jobs;
mod jobs_found;
mod kit;
mod lead;
mod limit;
mod logging;
#[cfg(feature = "server")]
mod look_at_job;
mod map;
mod metrics;
mod new;
mod node;
mod palette;
mod plan;
mod plan_shown;
mod policy;
#[cfg(feature = "server")]
mod portal;
mod python;
mod registry;
#[cfg(feature = "server")]
mod remote;
mod resume;
mod resume_stored;
mod run;
mod schema_block;
mod script;
mod sdk;
#[cfg(feature = "server")]
mod serve;
mod signals;
mod signer;
mod template;
mod terminal;
mod tools;
mod upload;
mod usage;
mod usage_export;
mod which;

use crate::compile::{Compiler, EntryFile};
use crate::model::{OsSandbox, PythonRuntime, ScriptLanguage};
use crate::spec::SpecErrors;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use error::ArgumentError;
use exit::{Exit, Problem};
use logging::LoggingArguments;
use palette::{Color, ColorArgument};
use policy::PolicyArgument;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terminal::{print, print_json, print_paths, say};
use tools::{ToolArguments, ToolSettings};

/// Runs untrusted WebAssembly entry scripts over large inputs, in parallel.
#[derive(Debug, Parser)]
#[command(name = "sandmill", version, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[cfg(feature = "server")]
    #[command(flatten)]
    server: remote::ServerArgument,
    #[command(flatten)]
    logging: LoggingArguments,
    #[command(flatten)]
    _color: ColorArgument,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a job. If it was interrupted, it is resumed.
    Run(run::RunArguments),
    /// Resumes a job that was interrupted, failed or was cancelled.
    Resume(resume::ResumeArguments),
    /// Runs workers of jobs of other machines, until a signal ends it.
    ///
    /// Machines find each other through a broker, a NATS server. It also leads jobs that users submit with
    /// `run --detach`, and jobs whose leader is lost. On SIGTERM or Ctrl-C, workers finish what they run, the rest
    /// is given back, other machines continue the jobs that this one leads, and the exit code is 41. A second signal
    /// ends the workers at once.
    Node(node::NodeArguments),
    /// Runs the jobs of many tenants, and answers requests over HTTP, until a signal ends it.
    ///
    /// On SIGTERM or Ctrl-C, it finishes its requests and ends. Jobs that run go on, and the next server finds them.
    #[cfg(feature = "server")]
    Serve(serve::ServeArguments),
    /// Shows a job to browsers of this machine, until a signal ends it.
    ///
    /// The pages show a finished or running job directory, and change nothing. They need no sign-in: all users of this
    /// machine can read them meanwhile.
    #[cfg(feature = "server")]
    Portal(portal::PortalArguments),
    /// Submits a job to a server, and prints its id.
    #[cfg(feature = "server")]
    Submit(remote::SubmitArguments),
    /// Pauses a job of a server: it finishes its running mini-batches, and waits until it is resumed.
    #[cfg(feature = "server")]
    Pause {
        /// The id of the job.
        job: String,
    },
    /// Summarizes a job, shows its mini-batches, and runs nothing.
    Plan(plan::PlanArguments),
    /// Shows the state of a job.
    Status(history::StatusArguments),
    /// Lists the jobs below a folder and their states.
    Jobs(jobs::JobsArguments),
    /// Asks a running or waiting job to end. Committed results are kept.
    ///
    /// Exits with 2 if the job is not running. With --store, a request also holds if the job was interrupted: the next
    /// process that leads the job ends it as cancelled.
    Cancel(cancel::CancelArguments),
    /// Removes the directories of jobs that ended long ago, including their output.
    ///
    /// Keeps the directories of running and waiting jobs and, without --failed, of all jobs that are not
    /// completed.
    Clean(clean::CleanArguments),
    /// Shows how much compiled code and how many objects are cached for later jobs. `clear` removes them.
    Cache(cache::CacheArguments),
    /// Prints the jobs below a folder as OpenMetrics, for Prometheus.
    Metrics(metrics::MetricsArguments),
    /// Sums what jobs have used, exports it, or checks its hash chain.
    ///
    /// Each attempt at a mini-batch has a receipt in its job's journal. A job that was resumed, and a copy of a job
    /// directory, count once.
    Usage(usage::UsageArguments),
    /// Prints the output of the entry script: of all workers, of one worker, or for one mini-batch.
    Logs(history::LogArguments),
    /// Explains what went wrong in a job or made it slow, what to read, and what to change.
    Explain(history::ExplainArguments),
    /// Registers input data of jobs under names with versions.
    Dataset {
        #[command(subcommand)]
        command: registry::DatasetCommand,
    },
    /// Registers models of jobs under names with versions.
    Model {
        #[command(subcommand)]
        command: registry::ModelCommand,
    },
    /// Makes the keys with which jobs on several machines are signed.
    Signer {
        #[command(subcommand)]
        command: signer::SignerCommand,
    },
    /// Makes a component from a guest crate, C sources or a core module, and prints its path.
    Build {
        /// The folder of a guest crate or of C sources, or a core module made for wasm32-wasip1.
        path: PathBuf,
        /// Builds the crate's examples of type cdylib instead, each as a component.
        #[arg(long)]
        examples: bool,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        tools: ToolArguments,
    },
    /// Installs the runtime of entry scripts in Python.
    Python {
        #[command(subcommand)]
        command: python::PythonCommand,
    },
    /// Installs the runtime of entry scripts in JavaScript and TypeScript.
    Javascript {
        #[command(subcommand)]
        command: python::JavascriptCommand,
    },
    /// Checks whether a component keeps the contract, and lists its imports; or whether a script can be run.
    ///
    /// The code of the component or script runs only with --run.
    Check {
        /// A component, a core module, the folder of a guest crate or of C sources, or a script in Python,
        /// JavaScript or TypeScript.
        component: PathBuf,
        #[command(flatten)]
        trial: check::TrialArguments,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        backends: run::BackendArguments,
        #[command(flatten)]
        tools: ToolArguments,
    },
    /// Runs an entry script on an Arrow IPC stream, from standard input to standard output.
    ///
    /// The entry script runs in one process, with the sandbox and limits of a job's workers. Each record
    /// batch is a mini-batch, and gives one record batch. If the entry script returns rows of text, they
    /// become a table with the column `value`.
    Map(map::MapArguments),
    /// Checks what this machine has for running untrusted entry scripts, and what is missing.
    ///
    /// Exits with 0 if jobs with `os_sandbox: required` can run on this machine.
    Doctor(doctor::DoctorArguments),
    /// Shows what a component could access, judged by its imports, and runs nothing.
    Inspect(inspect::InspectArguments),
    /// Creates the folder of a new entry script, ready to build and run.
    New(new::NewArguments),
    /// Prints the version, its commit, and the features that it was built with.
    Version(about::VersionArguments),
    /// Prints a script for the shell that completes commands and options.
    Completions(about::CompletionsArguments),
    /// Writes a man page for each command.
    Man(about::ManArguments),
}

/// The command line, with an example for each command.
fn full_command() -> clap::Command {
    help::with_examples(Cli::command())
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    signals::keep_children();
    if let Some(code) = child::serve() {
        return code;
    }
    terminal::watch_panics();
    let color = Color::from_arguments(std::env::args_os()).begin();
    let matches = full_command().color(color).try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = terminal::usage(&error);
            help::advice(&error, &Cli::command()).iter().for_each(|advice| say(advice));
            return exit.into();
        }
    };
    let result = cli.logging.begin().and_then(|()| cli.run());
    match result {
        Ok(exit) => exit.into(),
        Err(problem) => {
            say(&problem.to_string());
            problem.exit.into()
        }
    }
}

impl Cli {
    fn run(self) -> Result<Exit, Problem> {
        #[cfg(feature = "server")]
        if let Some(exit) = on_server(&self.command, &self.server)? {
            return Ok(exit);
        }
        serve(self.command, &self.logging)
    }
}

/// Runs a command on a server. `None` if the command is about this machine.
#[cfg(feature = "server")]
fn on_server(command: &Command, server: &remote::ServerArgument) -> Result<Option<Exit>, Problem> {
    let exit = match command {
        Command::Submit(arguments) => remote::submit(arguments, &server.must_find()?)?,
        Command::Pause { job } => remote::pause(&server.must_find()?, job)?,
        Command::Jobs(arguments) => {
            let Some(server) = server.find()? else { return Ok(None) };
            let states: Vec<_> = arguments.state.iter().map(ToString::to_string).collect();
            remote::list(&server, &states, arguments.tenant.as_deref(), arguments.json)?
        }
        Command::Status(history::StatusArguments { job, json, watch, exit_code }) => {
            let Some(server) = server.find()? else { return Ok(None) };
            remote::status(&server, job.given(), (*json, *watch, *exit_code))?
        }
        Command::Explain(history::ExplainArguments { job, json }) => {
            let Some(server) = server.find()? else { return Ok(None) };
            remote::explain(&server, job.given(), *json)?
        }
        Command::Logs(history::LogArguments { job, follow, worker, mini_batch, json }) => {
            let Some(server) = server.find()? else { return Ok(None) };
            remote::refuse_options(&[("--mini-batch", mini_batch.is_some()), ("--json", *json)])?;
            remote::logs(&server, job.given(), worker.as_deref(), *follow)?
        }
        Command::Cancel(cancel::CancelArguments { job, at_once, wait }) => {
            let Some(server) = server.find()? else { return Ok(None) };
            remote::cancel(&server, job.given(), (*at_once, *wait))?
        }
        Command::Usage(arguments) if arguments.names_no_files() => {
            let Some(server) = server.find()? else { return Ok(None) };
            remote::usage(&server, arguments)?
        }
        Command::Resume(arguments) => {
            let Some(server) = server.find()? else { return Ok(None) };
            remote::refuse_options(&[("--set", arguments.has_sets())])?;
            remote::resume(&server, arguments.job.given())?
        }
        _ => return Ok(None),
    };
    Ok(Some(exit))
}

fn serve(command: Command, logging: &LoggingArguments) -> Result<Exit, Problem> {
    match command {
        Command::Run(arguments) if arguments.dry_run => {
            plan::plan(&plan::PlanArguments::dry_run(&arguments), logging)
        }
        Command::Run(arguments) if arguments.detach => detach::detach(&arguments, logging),
        Command::Run(arguments) => run::run(&arguments, logging),
        Command::Resume(arguments) => resume::resume(&arguments, logging),
        Command::Node(arguments) => node::node(&arguments),
        #[cfg(feature = "server")]
        Command::Serve(arguments) => serve::serve(&arguments),
        #[cfg(feature = "server")]
        Command::Portal(arguments) => portal::portal(&arguments),
        // `on_server` has run them.
        #[cfg(feature = "server")]
        Command::Submit(_) | Command::Pause { .. } => Ok(Exit::Completed),
        Command::Plan(arguments) => plan::plan(&arguments, logging),
        Command::Status(arguments) => history::status(&arguments),
        Command::Jobs(arguments) => jobs::jobs(&arguments),
        Command::Cancel(arguments) => cancel::cancel(&arguments),
        Command::Clean(arguments) => clean::clean(&arguments),
        Command::Cache(arguments) => cache::cache(&arguments),
        Command::Metrics(arguments) => metrics::metrics(&arguments),
        Command::Usage(arguments) => usage::usage(&arguments),
        Command::Logs(arguments) => history::logs(&arguments),
        Command::Explain(arguments) => history::explain(&arguments),
        Command::Dataset { command } => registry::dataset(&command),
        Command::Model { command } => registry::model(&command),
        Command::Signer { command } => signer::signer(&command),
        Command::Build { path, examples, json, tools } => {
            build_and_print((&path, examples), json, &tools)
        }
        Command::Python { command } => python::python(&command),
        Command::Javascript { command } => python::javascript(&command),
        Command::Check { component, trial, json, backends, tools } => {
            check_and_print(&component, (&trial, &backends, json), &tools)
        }
        Command::Map(arguments) => map::map(&arguments, logging.is_verbose()),
        Command::Doctor(arguments) => doctor::doctor(&arguments, logging.is_verbose()),
        Command::Inspect(arguments) => inspect_and_print(&arguments),
        Command::New(arguments) => new::new(&arguments),
        Command::Version(arguments) => about::version(&arguments),
        Command::Completions(arguments) => about::completions(&arguments, full_command()),
        Command::Man(arguments) => about::man(&arguments, full_command()),
    }
}

/// The sandbox option of commands without a job file.
#[derive(Debug, clap::Args)]
struct WallArgument {
    /// The sandbox that the child processes that parse the component must get from the operating system:
    /// required, best-effort or off, as in a job file.
    #[arg(long, value_name = "MODE", default_value = "required", value_parser = os_sandbox)]
    os_sandbox: OsSandbox,
}

fn os_sandbox(text: &str) -> Result<OsSandbox, ArgumentError> {
    let known = OsSandbox::ALL.into_iter().find(|mode| mode.name() == text);
    known.ok_or(ArgumentError::Mode)
}

/// Prints the components' paths on standard output, one per line.
fn build_and_print(
    (path, examples): (&Path, bool),
    as_json: bool,
    tools: &ToolArguments,
) -> Result<Exit, Problem> {
    let ToolSettings { policy, compiler, cache, .. } = tools.load()?;
    policy.check_trial(path, [], []).map_err(refused)?;
    let components = build::build((path, examples), cache.as_deref(), &compiler, &mut say);
    let components = components.map_err(Problem::usage)?;
    let mut listed = Vec::new();
    for component in &components {
        let file = EntryFile::open(component, &compiler).map_err(Problem::usage)?;
        say(&format!("sha256:{}  {}", file.digest(), component.display()));
        listed.push(serde_json::json!({"path": component, "sha256": file.digest().to_string()}));
    }
    if as_json {
        let value = serde_json::json!({"version": 1, "components": listed});
        print_json(&format!("{value:#}\n"))?;
    } else {
        print_paths(&components)?;
    }
    Ok(Exit::Completed)
}

/// Prints the verdict on standard output.
fn check_and_print(
    path: &Path,
    (trial, backends, as_json): (&check::TrialArguments, &run::BackendArguments, bool),
    tools: &ToolArguments,
) -> Result<Exit, Problem> {
    if let Some(option) = trial.unused_option() {
        return Err(Problem::usage(anyhow::anyhow!(
            "{option} needs --run: add --run, with or without files"
        )));
    }
    let tools = tools.load()?;
    let check = check::CheckArguments::new(path, trial, &tools, backends)?;
    let is_python =
        check.is_script() && ScriptLanguage::from_path(path) == Some(ScriptLanguage::Python);
    if trial.runtime != PythonRuntime::Auto && !is_python {
        return Err(Problem::usage(anyhow::anyhow!(
            "--runtime is only for Python scripts (.py); leave it out"
        )));
    }
    if trial.kit {
        let report = kit::kit(&check, &mut say).map_err(Problem::usage)?;
        print_found(&report, as_json, &report.text())?;
        return Ok(if report.is_good() { Exit::Completed } else { Exit::Failed });
    }
    let checked = match check.is_script() {
        true => check_script::check_script(&check, &mut say),
        false => check::check(&check, &mut say),
    };
    let checked = checked.map_err(Problem::usage)?;
    print_found(&checked, as_json, &checked.text())?;
    Ok(if checked.is_good() { Exit::Completed } else { Exit::Failed })
}

/// Prints a result, for programs or for people.
fn print_found(found: &impl serde::Serialize, as_json: bool, text: &str) -> Result<(), Problem> {
    if as_json {
        let json = serde_json::to_string_pretty(found).map_err(Problem::usage)?;
        return print_json(&(json + "\n"));
    }
    print(text)
}

/// The problem for errors of the policy.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(errors: SpecErrors) -> Problem {
    Problem::each_line(&errors.to_string())
}

/// Prints the description on standard output.
fn inspect_and_print(arguments: &inspect::InspectArguments) -> Result<Exit, Problem> {
    let policy = arguments.policy.load()?;
    for file in arguments.files() {
        policy.check_trial(file, [], []).map_err(refused)?;
    }
    let os_sandbox = policy.sandbox(arguments.wall.os_sandbox);
    let compiler = Compiler::new(&run::this_program()?, os_sandbox);
    let (text, good) = inspect::inspect(arguments, &compiler).map_err(Problem::usage)?;
    if arguments.json {
        print_json(&text)?;
    } else {
        print(&text)?;
    }
    Ok(if good { Exit::Completed } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_are_read() {
        let cli = Cli::try_parse_from([
            "sandmill",
            "run",
            "job.yaml",
            "--set",
            "error_threshold=-1",
            "--set",
            "arguments=[--fast, a=b]",
            "--process-count",
            "2",
            "--gpus",
            "0",
            "--overwrite",
        ]);
        let Command::Run(run) = cli.unwrap().command else { panic!("not run") };
        assert_eq!(
            run.job.all_sets(&run.counts),
            [
                ("error_threshold".to_owned(), "-1".to_owned()),
                ("arguments".to_owned(), "[--fast, a=b]".to_owned()),
                ("process_count_per_node".to_owned(), "2".to_owned()),
                ("gpus".to_owned(), "0".to_owned()),
            ]
        );
        assert!(run.overwrite);
        for wrong in [
            &["sandmill", "run"][..],
            &["sandmill", "run", "job.yaml", "--set", "error_threshold"],
            &["sandmill", "run", "job.yaml", "--process-count", "0"],
            &["sandmill", "rnu", "job.yaml"],
        ] {
            let error = Cli::try_parse_from(wrong).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong:?}");
        }
    }
}
