//! The hidden commands: what this program is when it started itself.

use super::trial;
use crate::{compile, finish, plan, sandbox, worker};
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
        crate::store::FETCH_COMMAND => {
            Some(served("the process that fetches", crate::store::serve()))
        }
        plan::SHUFFLE_COMMAND => Some(served("a process that groups rows", plan::serve_shuffle())),
        #[cfg(feature = "cuda")]
        crate::inference::KERNELS_COMMAND => {
            let made = crate::inference::serve_kernels().map_err(io::Error::other);
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
        crate::inference::PROBE_COMMAND => {
            let rest: Vec<_> = arguments.map(|argument| lossy(&argument)).collect();
            Some(crate::inference::serve_probe(&rest))
        }
        _ => None,
    }
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
