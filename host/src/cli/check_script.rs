//! `sandmill check score.py`: whether a Python script can be run, and what it returns.

use super::check::{Check, Verdict, asked, explain, longest, run};
use super::script::{Tried, instrumentation};
use crate::model::{LoggingLevel, PythonRuntime};
use crate::node::python::PythonError;
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
    let script = Tried::at(check.path)?;
    let limits = check.policy.default_limits();
    let mut text = check.path.display().to_string();
    let chosen = match script.choose(check, &limits, (PythonRuntime::Auto, false), say) {
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
    let with = instrumentation(&limits);
    let mut asked = asked(check, limits, with, scratch.path(), say)?;
    script.show(chosen.library.as_deref(), LoggingLevel::Debug, &mut asked)?;
    let mut trial = Trial::start(check.program, &chosen.compiled, &asked)?;
    trial.functions().map_err(|error| explain(&scratch, error))??;
    let good = run(&mut trial, &scratch, longest(check), &mut text)?;
    Ok(Verdict { text, good })
}
