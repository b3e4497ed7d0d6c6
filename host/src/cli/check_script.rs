//! `sandmill check score.py`: whether a Python script can be run, and what it returns.

use super::check::{Check, asked, explain, longest, run};
use super::checked::{Checked, Kind};
use crate::compile::{Cache, Instrumentation};
use crate::model::{GUEST_SOURCE, LoggingLevel, Mount};
use crate::node::python::{Looker, PythonError, copy, variable};
use crate::node::trial::Trial;
use crate::opening::Scratch;
use crate::runtimes;
use anyhow::Context as _;

/// Checks a Python script. `say` gets lines about what takes time.
///
/// # Errors
/// If there is no runtime for it, or the script cannot be read; what is wrong with the script is a verdict.
pub(super) fn check_script(
    check: &Check<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Checked> {
    let script = check.path.canonicalize().with_context(|| check.path.display().to_string())?;
    let name = check.path.file_name().unwrap_or_default().to_string_lossy();
    let guest = format!("{GUEST_SOURCE}/{name}");
    let runtime = runtimes::find(check.program, check.cache)?;
    let limits = check.policy.default_limits();
    let with = Instrumentation { fuel: limits.fuel.is_some(), ..Instrumentation::default() };
    let compiled = Cache::open(check.cache, check.compiler)?.prepare(&runtime, with, say)?;
    let mut checked = Checked::new(Kind::PythonScript, check.path.to_owned());
    let looker = Looker {
        program: check.program,
        runtime: &compiled,
        with,
        limits: &limits,
        os_sandbox: check.os_sandbox,
    };
    match looker.look(&script, &guest, None) {
        Ok(notes) => checked.notes.extend(notes.iter().map(ToString::to_string)),
        Err(PythonError::Refused(why)) => {
            checked.problems.push(why.to_string());
            return Ok(checked.judged());
        }
        Err(error) => return Err(error.into()),
    }
    if !check.runs() {
        return Ok(checked.judged());
    }
    let scratch = Scratch::create("check").context("no folder for the run can be made")?;
    let mut asked = asked(check, limits, with, scratch.path(), say)?;
    let source = scratch.path().join("source");
    copy(&script, &guest, &source)?;
    asked.mounts.push(Mount { host: source, guest: GUEST_SOURCE.to_owned(), writable: false });
    asked.environment.push(variable(LoggingLevel::Debug));
    if let Some(program) = asked.arguments.first_mut() {
        *program = guest;
    }
    let mut trial = Trial::start(check.program, &compiled, &asked)?;
    trial.functions().map_err(|error| explain(&scratch, error))??;
    checked.run = Some(run(&mut trial, &scratch, longest(check))?);
    Ok(checked.judged())
}
