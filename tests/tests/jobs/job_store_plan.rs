//! The plan in the job's store: another machine continues with it, and does not plan the inputs again.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use crate::job_store::{killed_at, rows, run_on};
use sandmill_tests::{Ran, TestJob, guest};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Damages a plan, whose objects these are.
type Damage = fn(&[PathBuf]);

/// How many rows a job has. Each is a mini-batch.
const ROWS: usize = 5000;

/// A job with a row of a CSV file in each mini-batch.
fn job() -> TestJob {
    let job = TestJob::new(&guest("echo_table")).yaml(
        "inputs: {rows: {path: in, format: csv}}\nmini_batch_size: 1 rows\nprocess_count_per_node: 2\n\
         arguments: [--rows]\noutput: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let row = |number: usize| format!("{number},\"text, {number}\"\n");
    let text: String = (0..ROWS).map(row).collect();
    job.file("in/1.csv", format!("id,text\n{text}")).file("in/2.csv", "id,text\n")
}

/// The files with the plan.
fn plan_files(dir: &Path) -> Vec<PathBuf> {
    let runs = fs::read_dir(dir.join("shared/jobs/test")).unwrap().flatten();
    let plans = runs.filter_map(|run| fs::read_dir(run.path().join("plan")).ok());
    let mut files: Vec<PathBuf> = plans.flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    files
}

/// Runs the job on a first machine until this fail point kills it. Then the machine is lost.
fn lost_at(point: &str) -> TestJob {
    let job = killed_at(job(), point, "first", &[]);
    fs::remove_dir_all(job.path("first")).unwrap();
    job
}

/// The events of a job in this job directory.
fn events(ran: &Ran, machine: &str) -> Vec<Value> {
    let path = ran.dir().join(machine).join("logs/sys/events.jsonl");
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_complete(ran: &Ran) {
    let row = |number| format!("{number},text, {number}");
    let mut expected: Vec<String> = (0..ROWS).map(row).collect();
    expected.sort();
    assert_eq!(rows(ran), expected, "{ran}");
}

/// The second machine begins with all that the first one has planned, before its own planner says anything. Then it
/// plans the rest.
#[test]
fn a_half_planned_job_continues_with_its_plan() {
    let ran = run_on(lost_at("plan-written:2"), "second", &[]);
    ran.exits_with(0);
    assert_complete(&ran);
    let events = events(&ran, "second");
    let of = |kind: &str| {
        let kind = kind.to_owned();
        (0..).zip(&events).filter(move |(_, event)| event["kind"]["event"] == *kind)
    };
    let (first, _) = of("planned").next().unwrap();
    let (columns, _) = of("columns").next().unwrap();
    assert!(first < columns, "{events:#?}");
    let (_, last) = of("planned").last().unwrap();
    assert_eq!(last["kind"]["mini_batches"], ROWS);
    assert_eq!(last["kind"]["finished"], true);
}

/// What is lost or damaged of the plan is planned again.
#[test]
fn a_damaged_plan_is_planned_again() {
    let damages: [(&str, Damage); 3] = [
        ("one missing", |files| fs::remove_file(&files[1]).unwrap()),
        ("damaged", |files| {
            fs::remove_file(&files[1]).unwrap();
            fs::write(&files[1], "no plan\n").unwrap();
        }),
        ("all missing", |files| files.iter().for_each(|file| fs::remove_file(file).unwrap())),
    ];
    for (what, damage) in damages {
        let job = lost_at("plan-written:2");
        damage(&plan_files(&job.path("")));
        let ran = run_on(job, "second", &[]);
        ran.exits_with(0);
        assert_complete(&ran);
        if what == "damaged" {
            ran.says(
                "it is not a record of a commit log; the inputs are planned again from there on",
            );
        }
    }
}

/// A changed input is noticed as without the plan.
#[test]
fn a_changed_input_is_noticed_although_the_plan_is_known() {
    let job = lost_at("journaled:3");
    assert!(!plan_files(&job.path("")).is_empty());
    let path = job.path("in/1.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("text, 7", "texts, 7")).unwrap();
    let ran = run_on(job, "second", &[]);
    ran.exits_with(2).says("input 'rows' changed: mini-batch ");
    assert!(ran.stderr.contains("has changed since it was done"), "{ran}");
}
