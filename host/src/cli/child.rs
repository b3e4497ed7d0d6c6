//! The hidden commands: what this program is when it started itself.

use crate::model::Feature;
use crate::node::trial;
use crate::{compile, finish, inference, plan, sandbox, store, worker};
use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

/// The planner.
pub(super) const PLAN_COMMAND: &str = "plan-worker";
const WORKER_COMMAND: &str = "worker";

/// Serves, if this process was started as somebody's child. Before the command line is parsed: a
/// worker must start fast, and must not have threads or anything else of the command's making.
pub(super) fn serve() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next()?;
    match command.to_str()? {
        WORKER_COMMAND => Some(worker::serve().unwrap_or_else(plan)),
        PLAN_COMMAND => Some(plan()),
        #[cfg(feature = "stores")]
        store::FETCH_COMMAND => Some(served("the process that fetches", store::serve())),
        plan::SHUFFLE_COMMAND => Some(served("a process that groups rows", plan::serve_shuffle())),
        #[cfg(feature = "cuda")]
        inference::KERNELS_COMMAND => {
            let made = inference::serve_kernels().map_err(io::Error::other);
            Some(served("the process that makes a GPU ready", made))
        }
        trial::TRIAL_COMMAND => Some(served("the process that tries a component", trial::serve())),
        compile::COMPILE_COMMAND => {
            let rest: Vec<_> = arguments.map(|argument| lossy(&argument)).collect();
            Some(compile::serve_compile(&rest, sandbox::check_imports))
        }
        finish::FINISH_COMMAND => {
            let rest: Vec<_> = arguments.map(|argument| lossy(&argument)).collect();
            Some(finish::serve_finish(&rest))
        }
        #[cfg(feature = "inference")]
        inference::PROBE_COMMAND => {
            let rest: Vec<_> = arguments.map(|argument| lossy(&argument)).collect();
            Some(inference::serve_probe(&rest))
        }
        other => left_out(other),
    }
}

/// Ends what only another build serves: a program that embeds Sandmill may have more of it than this one.
fn left_out(command: &str) -> Option<ExitCode> {
    let feature = match command {
        store::FETCH_COMMAND => Feature::Stores,
        inference::KERNELS_COMMAND => Feature::Cuda,
        inference::PROBE_COMMAND => Feature::Inference,
        _ => return None,
    };
    Some(served(command, Err(io::Error::other(feature.absence()))))
}

fn plan() -> ExitCode {
    served("the planner", plan::serve())
}

fn lossy(argument: &OsStr) -> String {
    argument.to_string_lossy().into_owned()
}

fn served(who: &str, result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::say(&format!("{who} stops: {error}"));
            ExitCode::FAILURE
        }
    }
}
