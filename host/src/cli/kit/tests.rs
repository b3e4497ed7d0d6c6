//! Tests that each check of the kit can fail: gives each check outcomes that it must refuse.

use super::checks::{CHECKS, SCRIPT};
use super::plan::{CheckFailure, InstanceEnding, PlanResult};
use super::report::KitReport;
use crate::model::{Failure, FailureKind};
use crate::node::trial::{InstanceResults, TrialResult};

fn plan_result(results: InstanceResults) -> PlanResult {
    let empty = String::new;
    PlanResult {
        ending: InstanceEnding::Completed(results),
        stdout: empty(),
        stderr: empty(),
        log: empty(),
        output: empty(),
    }
}

/// The outcomes of two plans with as many mini-batches as any check has. All mini-batches have the same
/// outcome.
fn two_plans(mini_batch: &TrialResult) -> Vec<PlanResult> {
    let results =
        InstanceResults { steps: vec![mini_batch.clone(); 5], ..InstanceResults::default() };
    vec![plan_result(results.clone()), plan_result(results)]
}

fn verdicts(plan_result: &[PlanResult]) -> Vec<(&'static str, Option<CheckFailure>)> {
    CHECKS.iter().map(|check| (check.name, (check.judge)(plan_result).err())).collect()
}

#[test]
fn a_script_that_returns_nothing_passes_no_check() {
    let passed =
        verdicts(&two_plans(&TrialResult::default())).into_iter().filter(|(_, why)| why.is_none());
    assert_eq!(passed.map(|(name, _)| name).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn constant_answers_pass_only_the_memory_check() {
    let mini_batch =
        TrialResult { rows: vec![Ok("row".to_owned())], peak: 1, ..TrialResult::default() };
    let passed = verdicts(&two_plans(&mini_batch)).into_iter().filter(|(_, why)| why.is_none());
    // The only thing that this script does right is to hold no memory.
    assert_eq!(passed.map(|(name, _)| name).collect::<Vec<_>>(), ["memory-flat"]);
}

#[test]
fn a_script_that_hangs_passes_only_the_endless_loop() {
    let with = |ending: InstanceEnding| {
        let results = plan_result(InstanceResults::default());
        let passed = verdicts(&[
            PlanResult { ending: ending.clone(), ..results.clone() },
            PlanResult { ending, ..results },
        ]);
        let passed = passed.into_iter().filter(|(_, why)| why.is_none());
        passed.map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(with(InstanceEnding::TimedOut), ["endless"]);
    assert_eq!(with(InstanceEnding::Died("was killed".to_owned())), [""; 0]);
}

#[test]
fn a_script_may_report_what_its_language_lacks() {
    let message = "RuntimeError: not in this language: node ids".to_owned();
    let failure = Some(Failure::new(FailureKind::ScriptError, message));
    let verdict = (SCRIPT.judge)(&two_plans(&TrialResult { failure, ..TrialResult::default() }));
    assert_eq!(verdict, Err(CheckFailure::Skipped("not in this language: node ids".to_owned())));
}

#[test]
fn growing_memory_fails() {
    let mini_batch =
        |peak| TrialResult { rows: vec![Ok(String::new())], peak, ..TrialResult::default() };
    let check = CHECKS.iter().find(|check| check.name == "memory-flat").expect("it is there");
    let judged = |after| {
        let steps = vec![mini_batch(100 << 20), mini_batch(after)];
        (check.judge)(&[plan_result(InstanceResults { steps, ..InstanceResults::default() })])
    };
    assert_eq!(judged(107 << 20), Ok(()));
    assert!(matches!(judged(110 << 20), Err(CheckFailure::Failed(_))));
    assert!(matches!(judged(0), Err(CheckFailure::Skipped(_))));
}

#[test]
fn names_are_stable_and_different() {
    let mut names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn the_report_lists_each_check() {
    let mut report = KitReport::new("x.wasm".into());
    report.add("one", "entry.run", Ok(()));
    report.add(
        "another",
        "entry.init",
        Err(CheckFailure::Failed("found a\nexpected b".to_owned())),
    );
    report.skip([&SCRIPT], "needs the kit's script");
    assert!(!report.is_good());
    insta::assert_snapshot!(report.text(), @"
    passed   one      entry.run
    FAILED   another  entry.init
             found a
             expected b
    skipped  script   entry.run
             needs the kit's script
    1 passed, 1 failed, 1 skipped
    ");
    let json = serde_json::to_string(&report).expect("JSON");
    insta::assert_snapshot!(json, @r#"{"version":1,"path":"x.wasm","checks":[{"name":"one","holds":"entry.run","result":"passed","words":null},{"name":"another","holds":"entry.init","result":"failed","words":"found a\nexpected b"},{"name":"script","holds":"entry.run","result":"skipped","words":"needs the kit's script"}],"passed":1,"failed":1,"skipped":1,"good":false}"#);
}
