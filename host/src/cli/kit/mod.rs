//! `sandmill check --kit COMPONENT`: checks whether a language's bindings keep the contract, by a script that
//! each language implements (`tests/kit`).
//!
//! Each check runs mini-batches in its own process, in the sandbox of a worker.

mod checks;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use super::check::{self, CheckArguments, TrialArguments, explain, instrumentation, written};
use super::check_script::check_script;
use super::checked::{CapturedOutput, CheckedScript};
use super::script::ExistingScript;
use crate::compile::{Cache, Compiled};
use crate::model::{ByteSize, LoggingLevel, PythonRuntime};
use crate::node::python::Chosen;
use crate::node::trial::{
    StepData, TrialChild as Process, TrialError, TrialRequest, TrialSetup, TrialStep,
};
use crate::opening::ScratchFolder;
use anyhow::Context as _;
use checks::{CHECKS, SCRIPT};
use plan::{CheckFailure, InstanceEnding, KitData, KitMiniBatch, KitPlan, PlanResult, Verdict};
pub(super) use report::KitReport;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The reason why checks are skipped if the component is not the kit's script.
const NEEDS: &str = "needs the kit's script";

/// What is checked.
enum Subject {
    Component(Compiled),
    Script(Chosen),
}

/// Runs the checks. `say` receives lines about steps that take long.
///
/// # Errors
/// As for [`check::check`].
pub(super) fn kit(
    check: &CheckArguments<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<KitReport> {
    let is_script = check.is_script();
    let checked = match is_script {
        true => check_script(check, say)?,
        false => check::check(check, say)?,
    };
    let mut report = KitReport::new(checked.path.clone());
    let found = check_names(&checked, &mut report);
    let all = || std::iter::once(&SCRIPT).chain(CHECKS);
    if !found {
        report.skip(all(), "it cannot be loaded");
        return Ok(report);
    }
    let subject = subject(check, &checked.path, is_script, say)?;
    let verdict = judge(check, &subject, &SCRIPT, say)?;
    if verdict.is_err() {
        report.skip(all(), NEEDS);
        return Ok(report);
    }
    report.add(SCRIPT.name, SCRIPT.holds, verdict);
    for one in CHECKS {
        report.add(one.name, one.holds, judge(check, &subject, one, say)?);
    }
    Ok(report)
}

/// The checks that need no run. Returns whether the component can be loaded.
fn check_names(checked: &CheckedScript, report: &mut KitReport) -> bool {
    let problems = &checked.problems;
    let words = || Err(CheckFailure::Failed(problems.join("\n")));
    let refuses = checked.imports_what_is_refused();
    report.add("imports", "world grants", if refuses { words() } else { Ok(()) });
    let exports = match (problems.is_empty(), refuses) {
        (true, _) => Ok(()),
        (false, true) => Err(CheckFailure::Skipped("its imports are refused".to_owned())),
        (false, false) => words(),
    };
    report.add("exports", "entry, entry-run: names and types", exports);
    problems.is_empty()
}

fn subject(
    check: &CheckArguments<'_>,
    component: &Path,
    is_script: bool,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Subject> {
    let limits = check.policy.default_limits();
    if is_script {
        let runtime = (PythonRuntime::Auto, false);
        return Ok(Subject::Script(
            ExistingScript::at(check.path)?.choose(check, &limits, runtime, say)?,
        ));
    }
    let cache = Cache::open(check.cache, check.compiler)?;
    Ok(Subject::Component(cache.prepare(component, instrumentation(&limits), say)?))
}

fn judge(
    check: &CheckArguments<'_>,
    subject: &Subject,
    one: &checks::CheckSpec,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Verdict> {
    let plans = (one.plans)().into_iter();
    let seen: anyhow::Result<Vec<PlanResult>> =
        plans.map(|plan| see(check, subject, plan, say)).collect();
    Ok((one.judge)(&seen?))
}

/// Runs a plan in its own process.
fn see(
    check: &CheckArguments<'_>,
    subject: &Subject,
    plan: KitPlan,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<PlanResult> {
    let scratch = ScratchFolder::create("kit").context("no folder for the run can be created")?;
    let longest = check.policy.longest_call();
    let limit = Duration::from_secs(plan.seconds);
    let limit = longest.map_or(limit, |most| limit.min(most));
    let (compiled, asked) = ask(check, subject, plan, scratch.path(), say)?;
    let mut process = Process::start(check.program, compiled, &asked)?;
    process.functions().map_err(|error| explain(&scratch, error))??;
    let ending = match process.lived(limit) {
        Ok(Some(lived)) => InstanceEnding::Lived(lived),
        Ok(None) => InstanceEnding::TimedOut,
        Err(TrialError::Died(how)) => InstanceEnding::Died(how),
        Err(error) => return Err(explain(&scratch, error)),
    };
    drop(process);
    let CapturedOutput { stdout, stderr, log } = written(&scratch);
    let output = check::shown(&scratch, "output/kit.txt");
    Ok(PlanResult { ending, stdout, stderr, log, output })
}

/// The request for the process. The files of the mini-batches are created in the scratch folder.
fn ask<'a>(
    check: &CheckArguments<'_>,
    subject: &'a Subject,
    plan: KitPlan,
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<(&'a Compiled, TrialSetup)> {
    let folder = scratch.join("given");
    std::fs::create_dir(&folder).context("no folder for the run can be created")?;
    let mut steps = Vec::new();
    let mut files = vec![write(&folder, "kit.txt", b"")?];
    for (index, turn) in plan.turns.into_iter().enumerate() {
        steps.push(step(&folder, index, turn, &mut files)?);
    }
    let trial = TrialArguments::with(files, plan.arguments, plan.environment);
    let mut limits = check.policy.default_limits();
    limits.memory = plan.memory.map_or(limits.memory, |bytes| limits.memory.min(ByteSize(bytes)));
    limits.read = plan.read.map_or(limits.read, |bytes| limits.read.min(ByteSize(bytes)));
    let with = instrumentation(&limits);
    let mut asked = check::asked(&check.trying(&trial), limits, with, scratch, say)?;
    asked.wanted = TrialRequest::Steps(steps);
    let compiled = match subject {
        Subject::Component(compiled) => compiled,
        Subject::Script(chosen) => {
            let library = chosen.library.as_deref();
            ExistingScript::at(check.path)?.show(library, LoggingLevel::Debug, &mut asked)?;
            &chosen.compiled
        }
    };
    Ok((compiled, asked))
}

fn step(
    folder: &Path,
    index: usize,
    turn: KitMiniBatch,
    files: &mut Vec<PathBuf>,
) -> anyhow::Result<TrialStep> {
    let KitMiniBatch { data, id, dataset, attempt, keys, times } = turn;
    let data = match data {
        KitData::Void => StepData::Void,
        KitData::Table(kind) => StepData::Table(kind),
        KitData::Files(command, others) => {
            let first = (format!("turn{index}.txt"), command.into_bytes());
            let all: Vec<_> = std::iter::once(first).chain(others).collect();
            for (name, content) in &all {
                files.push(write(folder, name, content)?);
            }
            StepData::Files(
                all.iter().map(|(name, _)| format!("{}/{name}", plan::FOLDER)).collect(),
            )
        }
    };
    Ok(TrialStep { data, id, dataset, attempt, keys, times })
}

fn write(folder: &Path, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, content).context("the files for the run cannot be written")?;
    Ok(path)
}
