//! `sandmill check --kit COMPONENT`: checks whether a language's bindings keep the contract. COMPONENT is the
//! kit's script, which is implemented in each language (`tests/kit`).
//!
//! Each check runs mini-batches in its own process, in the sandbox of a worker.

mod checks;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use super::check::{
    self, CheckArguments, TrialArguments, captured_output, explain, instrumentation,
};
use super::check_script::check_script;
use super::checked::{CapturedOutput, CheckedScript};
use super::script::ExistingScript;
use crate::compile::{Cache, Compiled};
use crate::model::{ByteSize, LoggingLevel};
use crate::node::python::Chosen;
use crate::node::trial::{
    StepData, TrialChild as Process, TrialError, TrialRequest, TrialSetup, TrialStep,
};
use crate::opening::ScratchFolder;
use anyhow::Context as _;
use checks::{CHECKS, SCRIPT};
use plan::{
    CheckFailure, CheckVerdict, InstanceEnding, KitData, KitMiniBatch, KitPlan, PlanResult,
};
pub(super) use report::KitReport;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The reason why checks are skipped if the component is not the kit's script.
const NEEDS_SCRIPT: &str = "needs the kit's script";

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
    let all_checks = || std::iter::once(&SCRIPT).chain(CHECKS);
    if !found {
        report.skip(all_checks(), "it cannot be loaded");
        return Ok(report);
    }
    let subject = subject(check, &checked.path, is_script, say)?;
    let verdict = run_check(check, &subject, &SCRIPT, say)?;
    if verdict.is_err() {
        report.skip(all_checks(), NEEDS_SCRIPT);
        return Ok(report);
    }
    report.add(SCRIPT.name, SCRIPT.covers, verdict);
    for spec in CHECKS {
        report.add(spec.name, spec.covers, run_check(check, &subject, spec, say)?);
    }
    Ok(report)
}

/// The checks that need no run. Returns whether the component can be loaded.
fn check_names(checked: &CheckedScript, report: &mut KitReport) -> bool {
    let problems = &checked.problems;
    let words = || Err(CheckFailure::Failed(problems.join("\n")));
    let refuses = checked.has_refused_imports();
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
        let runtime = (check.trial.runtime, false);
        return Ok(Subject::Script(
            ExistingScript::at(check.path)?.choose(check, &limits, runtime, say)?,
        ));
    }
    let cache = Cache::open(check.cache, check.compiler)?;
    Ok(Subject::Component(cache.prepare(component, instrumentation(&limits), say)?))
}

/// Runs the plans of a check, and judges the outcomes.
fn run_check(
    check: &CheckArguments<'_>,
    subject: &Subject,
    spec: &checks::CheckSpec,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<CheckVerdict> {
    let plans = (spec.plans)().into_iter();
    let results: anyhow::Result<Vec<PlanResult>> =
        plans.map(|plan| run_plan(check, subject, plan, say)).collect();
    Ok((spec.judge)(&results?))
}

/// Runs a plan in its own process.
fn run_plan(
    check: &CheckArguments<'_>,
    subject: &Subject,
    plan: KitPlan,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<PlanResult> {
    let scratch = ScratchFolder::create("kit").context("no folder for the run can be created")?;
    let longest = check.policy.longest_call();
    let limit = Duration::from_secs(plan.seconds);
    let limit = longest.map_or(limit, |most| limit.min(most));
    let (compiled, setup) = prepare_process(check, subject, plan, scratch.path(), say)?;
    let mut process = Process::start(check.program, compiled, &setup)?;
    process.functions().map_err(|error| explain(&scratch, error))??;
    let ending = match process.lived(limit) {
        Ok(Some(lived)) => InstanceEnding::Completed(lived),
        Ok(None) => InstanceEnding::TimedOut,
        Err(TrialError::Died(how)) => InstanceEnding::Died(how),
        Err(error) => return Err(explain(&scratch, error)),
    };
    drop(process);
    let CapturedOutput { stdout, stderr, log } = captured_output(&scratch);
    let output = check::shown(&scratch, "output/kit.txt");
    Ok(PlanResult { ending, stdout, stderr, log, output })
}

/// The compiled code and the request for the process. Creates the files of the mini-batches in the scratch
/// folder.
fn prepare_process<'a>(
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
    for (index, mini_batch) in plan.mini_batches.into_iter().enumerate() {
        steps.push(step(&folder, index, mini_batch, &mut files)?);
    }
    let trial = TrialArguments::with(files, plan.arguments, plan.environment);
    let mut limits = check.policy.default_limits();
    limits.memory = plan.memory.map_or(limits.memory, |bytes| limits.memory.min(ByteSize(bytes)));
    limits.read = plan.read.map_or(limits.read, |bytes| limits.read.min(ByteSize(bytes)));
    let with = instrumentation(&limits);
    let mut setup = check::trial_setup(&check.trying(&trial), limits, with, scratch, say)?;
    setup.wanted = TrialRequest::Steps(steps);
    let compiled = match subject {
        Subject::Component(compiled) => compiled,
        Subject::Script(chosen) => {
            let library = chosen.library.as_deref();
            ExistingScript::at(check.path)?.mount_into(library, LoggingLevel::Debug, &mut setup)?;
            &chosen.compiled
        }
    };
    Ok((compiled, setup))
}

fn step(
    folder: &Path,
    index: usize,
    mini_batch: KitMiniBatch,
    files: &mut Vec<PathBuf>,
) -> anyhow::Result<TrialStep> {
    let KitMiniBatch { data, id, dataset, attempt, keys, times } = mini_batch;
    let data = match data {
        KitData::Void => StepData::Void,
        KitData::Table(kind) => StepData::Table(kind),
        KitData::Files(command, others) => {
            let first = (format!("turn{index}.txt"), command.into_bytes());
            let all_files: Vec<_> = std::iter::once(first).chain(others).collect();
            for (name, content) in &all_files {
                files.push(write(folder, name, content)?);
            }
            StepData::Files(
                all_files
                    .iter()
                    .map(|(name, _)| format!("{}/{name}", plan::FILES_FOLDER))
                    .collect(),
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
