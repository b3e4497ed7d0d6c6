//! The hidden commands, with which this program starts itself as a child process.

use crate::model::Feature;
use crate::node::trial;
use crate::nodes::LEAD_COMMAND;
use crate::{compile, inference, plan, sandbox, store, typed_output, worker};
use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

/// The hidden command that starts the planner.
pub(super) const PLAN_COMMAND: &str = "plan-worker";
const WORKER_COMMAND: &str = "worker";

/// Does the work of a child process, if this process was started as one. The caller has not parsed the
/// command line yet: a worker must start fast, and must not have the threads or other state of the command
/// line.
pub(super) fn serve() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next()?;
    match command.to_str()? {
        WORKER_COMMAND => Some(worker::serve().unwrap_or_else(serve_plan)),
        PLAN_COMMAND => Some(serve_plan()),
        LEAD_COMMAND => Some(super::lead::serve()),
        #[cfg(feature = "stores")]
        store::FETCH_COMMAND => Some(exit_code("the process that fetches", store::serve())),
        #[cfg(feature = "server")]
        sandmill_server::LOOK_COMMAND => {
            Some(exit_code("the process that reads a job file", super::look_at_job::serve()))
        }
        plan::SHUFFLE_COMMAND => {
            Some(exit_code("a process that groups rows", plan::serve_shuffle()))
        }
        #[cfg(feature = "cuda")]
        inference::KERNELS_COMMAND => {
            let made = inference::serve_kernels().map_err(io::Error::other);
            Some(exit_code("the process that makes a GPU ready", made))
        }
        trial::TRIAL_COMMAND => {
            Some(exit_code("the process that tries a component", trial::serve()))
        }
        compile::COMPILE_COMMAND => {
            let rest: Vec<_> = arguments.map(|argument| lossy(&argument)).collect();
            Some(compile::serve_compile(&rest, sandbox::check_imports))
        }
        typed_output::FINISH_COMMAND => {
            let rest: Vec<_> = arguments.map(|argument| lossy(&argument)).collect();
            Some(typed_output::serve_finish(&rest))
        }
        #[cfg(feature = "inference")]
        inference::PROBE_COMMAND => {
            let rest: Vec<_> = arguments.map(|argument| lossy(&argument)).collect();
            Some(inference::serve_probe(&rest))
        }
        other => missing_feature(other),
    }
}

/// Fails if a command belongs to a feature that this build lacks. `None` for other commands. The parent
/// may start such a command: a program that embeds Sandmill may be built with more features than the
/// binary that it starts.
fn missing_feature(command: &str) -> Option<ExitCode> {
    let feature = match command {
        store::FETCH_COMMAND => Feature::Stores,
        inference::KERNELS_COMMAND => Feature::Cuda,
        inference::PROBE_COMMAND => Feature::Inference,
        _ => return None,
    };
    Some(exit_code(command, Err(io::Error::other(feature.absence()))))
}

fn serve_plan() -> ExitCode {
    exit_code("the planner", plan::serve())
}

fn lossy(argument: &OsStr) -> String {
    argument.to_string_lossy().into_owned()
}

/// Returns the exit code of a child process. Prints its error, in which `who` names the process.
fn exit_code(who: &str, result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::say(&format!("{who} stops: {error}"));
            ExitCode::FAILURE
        }
    }
}
