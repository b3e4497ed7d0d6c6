//! `sandmill check score.py`: finds out whether a script can be run, and what it returns.

use super::check::{CheckArguments, explain, instrumentation, run, time_limit, trial_setup};
use super::checked::{CheckedScript, FileKind};
use super::script::ExistingScript;
use crate::model::LoggingLevel;
use crate::node::python::PythonError;
use crate::node::trial::TrialChild;
use crate::opening::ScratchFolder;
use anyhow::Context as _;

/// Checks a script. `say` receives lines about steps that take long.
///
/// # Errors
/// If no runtime for the script is installed, or if the script cannot be read. Faults of the script itself
/// are not errors but part of the verdict.
pub(super) fn check_script(
    check: &CheckArguments<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<CheckedScript> {
    let script = ExistingScript::at(check.path)?;
    let limits = check.policy.default_limits();
    let mut checked = CheckedScript::new(FileKind::from_script(check.path), check.path.to_owned());
    let chosen = match script.choose(check, &limits, (check.trial.runtime, false), say) {
        Ok(chosen) => chosen,
        Err(PythonError::Refused(why)) => {
            checked.problems.push(why);
            return Ok(checked.with_verdict());
        }
        Err(error) => return Err(error.into()),
    };
    checked.runtime = Some(chosen.runtime.to_string());
    checked.notes = chosen.notices;
    if !check.runs() {
        return Ok(checked.with_verdict());
    }
    let scratch = ScratchFolder::create("check").context("no folder for the run can be created")?;
    let with = instrumentation(&limits);
    let mut setup = trial_setup(check, limits, with, scratch.path(), say)?;
    script.mount_into(chosen.library.as_deref(), LoggingLevel::Debug, &mut setup)?;
    let mut trial = TrialChild::start(check.program, &chosen.compiled, &setup)?;
    trial.functions().map_err(|error| explain(&scratch, error))??;
    checked.run = Some(run(&mut trial, &scratch, time_limit(check))?);
    Ok(checked.with_verdict())
}
