//! `sandmill check score.py`: whether a Python script can be run, and what it returns.

use super::check::{Check, Verdict, asked, explain, longest, run};
use crate::compile::Instrumentation;
use crate::model::{GUEST_SOURCE, GUEST_TEMPORARY, LoggingLevel, Mount, PythonRuntime};
use crate::node::python::{Chooser, PythonError, Script, copy, library, variable};
use crate::node::trial::Trial;
use crate::opening::Scratch;
use anyhow::Context as _;
use std::fmt::Write as _;

/// Checks a Python script. `say` gets lines about what takes time.
///
/// # Errors
/// If there is no runtime for it, or the script cannot be read; what is wrong with the script is a verdict.
pub(super) fn check_script(
    check: &Check<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Verdict> {
    let script = check.path.canonicalize().with_context(|| check.path.display().to_string())?;
    let name = check.path.file_name().unwrap_or_default().to_string_lossy();
    let guest = format!("{GUEST_SOURCE}/{name}");
    let limits = check.policy.default_limits();
    let with = Instrumentation { fuel: limits.fuel.is_some(), ..Instrumentation::default() };
    let chooser = Chooser {
        program: check.program,
        cache_dir: check.cache,
        compiler: check.compiler,
        with,
        limits: &limits,
        os_sandbox: check.os_sandbox,
    };
    let shown = Script { path: &script, guest: &guest, source: None, gets_tables: false };
    let mut text = check.path.display().to_string();
    let chosen = match chooser.choose(shown, PythonRuntime::Auto, say) {
        Ok(chosen) => chosen,
        Err(PythonError::Refused(why)) => {
            let _ = writeln!(text, "\n{why}\nIt cannot be run.");
            return Ok(Verdict { text, good: false });
        }
        Err(error) => return Err(error.into()),
    };
    let _ = writeln!(text, ", for the {} runtime", chosen.runtime);
    for note in &chosen.notices {
        let _ = writeln!(text, "note: {note}");
    }
    text.push_str("It can be run: all that it imports is there.\n");
    if !check.runs() {
        return Ok(Verdict { text, good: true });
    }
    let scratch = Scratch::create("check").context("no folder for the run can be made")?;
    let mut asked = asked(check, limits, with, scratch.path(), say)?;
    let source = scratch.path().join("source");
    copy(&script, &guest, &source)?;
    asked.mounts.push(Mount { host: source, guest: GUEST_SOURCE.to_owned(), writable: false });
    asked.environment.push(variable(LoggingLevel::Debug, false));
    if let Some(program) = asked.arguments.first_mut() {
        *program = guest;
    }
    asked.mounts.extend(chosen.library.as_deref().map(library));
    let temporary = scratch.path().join("tmp");
    std::fs::create_dir(&temporary).context("no folder for the run can be made")?;
    let guest = GUEST_TEMPORARY.to_owned();
    asked.mounts.push(Mount { host: temporary, guest, writable: true });
    let mut trial = Trial::start(check.program, &chosen.compiled, &asked)?;
    trial.functions().map_err(|error| explain(&scratch, error))??;
    let good = run(&mut trial, &scratch, longest(check), &mut text)?;
    Ok(Verdict { text, good })
}
