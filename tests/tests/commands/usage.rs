//! `sandmill usage`: the receipts of attempts, their sums, their chain and their export.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use rusqlite::Connection;
use sandmill_tests::{Ran, TestJob, texts};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A job whose second of three mini-batches fails twice.
fn job_with_failures() -> TestJob {
    let lines = "arguments: [--do, error, --on-batch, 1]\nrun_max_try: 2\nerror_threshold: -1";
    texts("hostile_files").yaml(lines)
}

fn ran_with_failures() -> Ran {
    let ran = job_with_failures().run(&[]);
    ran.exits_with(0);
    ran
}

/// The JSON that a command prints.
fn printed(job: TestJob, arguments: &[&str]) -> (Value, TestJob) {
    let ran = job.command(arguments);
    ran.exits_with(0);
    (serde_json::from_str(&ran.stdout).unwrap(), ran.into_job())
}

/// The rows of an export: for each, the values by the names of their columns.
fn exported(job: TestJob, dirs: &[&str]) -> (Vec<Value>, TestJob) {
    let ran = job.command(&[&["usage", "--export", "usage.csv"], dirs].concat());
    ran.exits_with(0);
    let text = ran.text("usage.csv");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows = lines.map(|line| {
        let values = line.split(',').map(|value| json!(value));
        names.iter().map(|name| (*name).to_owned()).zip(values).collect::<serde_json::Map<_, _>>()
    });
    (rows.map(Value::Object).collect(), ran.into_job())
}

fn count(rows: &[Value], outcome: &str) -> usize {
    rows.iter().filter(|row| row["x_Outcome"] == outcome).count()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&entry.path(), &target),
            kind if kind.is_file() => {
                fs::copy(entry.path(), target).unwrap();
            }
            _ => {}
        }
    }
}

/// Each attempt has one receipt, also those that failed. Their sums are everywhere the same.
#[test]
fn a_job_shows_what_all_its_attempts_used() {
    let ran = ran_with_failures();
    let result = ran.text("job/logs/job_result.txt");
    assert!(result.contains("\n  receipts      4 attempts; the last has the hash "), "{result}");
    assert!(result.contains("\n  used          CPU "), "{result}");
    assert!(!result.contains("not billed"), "{result}");
    let written = ran.output().len();
    let (status, job) = printed(ran.into_job(), &["status", "job", "--json"]);
    let sums = &status["receipts"];
    assert_eq!(sums["billable"]["attempts"], 4, "{sums:#}");
    assert_eq!(sums["not_billable"]["attempts"], 0);
    assert_eq!(sums["billable"]["bytes_written"], written);
    assert_eq!(sums["billable"]["fuel"], Value::Null);
    for measured in ["wall_us", "cpu_us", "peak_memory"] {
        assert!(sums["billable"][measured].as_u64().unwrap() > 0, "{measured}: {sums:#}");
    }
    let memory: u128 = sums["billable"]["memory_byte_ms"].as_str().unwrap().parse().unwrap();
    assert!(memory > 0);
    assert!(result.contains(sums["head"].as_str().unwrap()));
    let (rows, job) = exported(job, &["job"]);
    assert_eq!((rows.len(), count(&rows, "succeeded"), count(&rows, "failed")), (4, 2, 2));
    let sum = |column: &str| -> u64 {
        rows.iter().map(|row| row[column].as_str().unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum("x_WallMicroseconds"), sums["billable"]["wall_us"]);
    assert_eq!(sum("x_CpuMicroseconds"), sums["billable"]["cpu_us"]);
    assert_eq!(u128::from(sum("x_MemoryByteMilliseconds")), memory);
    for (by, key) in [("tenant", "default"), ("job", ""), ("month", ""), ("component", "")] {
        let (used, _) = printed(
            texts("hostile_files"),
            &["usage", "--json", "--by", by, job.path("job").to_str().unwrap()],
        );
        assert_eq!(used["groups"].as_array().unwrap().len(), 1, "{used:#}");
        assert!(key.is_empty() || used["groups"][0]["key"] == key, "{used:#}");
        assert_eq!(used["total"]["billable"], sums["billable"], "{by}");
    }
    let shown = job.command(&["usage", "--root", "."]);
    shown.exits_with(0);
    assert!(shown.stdout.contains("test ("), "{shown}");
    assert!(shown.stdout.lines().last().unwrap().starts_with("all "), "{shown}");
}

/// Fuel is in the receipts if it is limited.
#[test]
fn fuel_is_in_the_receipts() {
    let ran = texts("outcomes").yaml("limits: {fuel: 1000000000}").run(&[]);
    ran.exits_with(0);
    let (status, _) = printed(ran.into_job(), &["status", "job", "--json"]);
    assert!(status["receipts"]["billable"]["fuel"].as_u64().unwrap() > 0, "{status:#}");
}

/// All runs of a job count, each once, and a copy of a job directory counts nothing.
#[test]
fn a_resumed_job_and_a_copy_count_once() {
    let lines = "arguments: [--do, error, --on-batch, 1]\nrun_max_try: 1";
    let ran = texts("hostile_files").yaml(lines).run(&[]);
    ran.exits_with(42);
    let done = ran.into_job().resume(&["--set", "error_threshold=1"]);
    done.exits_with(0);
    let (rows, job) = exported(done.into_job(), &["job"]);
    assert_eq!((count(&rows, "succeeded"), count(&rows, "failed")), (2, 2), "{rows:#?}");
    let runs: std::collections::BTreeSet<_> =
        rows.iter().map(|row| row["x_Run"].to_string()).collect();
    assert_eq!(runs.len(), 2);
    let ids: std::collections::BTreeSet<_> =
        rows.iter().map(|row| row["x_AttemptId"].to_string()).collect();
    assert_eq!(ids.len(), rows.len());
    copy(&job.path("job"), &job.path("copy"));
    let (both, job) = exported(job, &["job", "copy"]);
    assert_eq!(both, rows);
    // A result that is reused has no attempts.
    let reused = job.run(&["--set", "error_threshold=1"]);
    reused.exits_with(0);
    let (again, _) = exported(reused.into_job(), &["job"]);
    assert_eq!(again, rows);
}

/// If the leader is killed, what it has recorded is kept and readable, and no success has two receipts.
#[test]
fn receipts_survive_a_killed_leader() {
    for (point, least) in [("journaled:1", 0), ("all-synced", 3)] {
        let killed = texts("outcomes").env("SANDMILL_FAIL_POINT", point).run(&[]);
        assert_ne!(killed.code, 0, "{point}: {killed}");
        let (rows, job) = exported(killed.into_job(), &["job"]);
        assert!((least..=3).contains(&rows.len()), "{point}: {rows:#?}");
        let (status, job) = printed(job, &["usage", "--verify", "--json", "job"]);
        assert_eq!(status["jobs"][0]["receipts"], rows.len(), "{point}: {status:#}");
        let done = job.env("SANDMILL_FAIL_POINT", "").resume(&[]);
        done.exits_with(0);
        let (all, job) = exported(done.into_job(), &["job"]);
        assert_eq!(all[..rows.len()], rows[..], "{point}");
        assert_eq!(count(&all, "succeeded"), 3, "{point}: {all:#?}");
        job.command(&["usage", "--verify", "job"]).exits_with(0);
    }
}

#[test]
fn a_changed_receipt_is_named() {
    let ran = ran_with_failures();
    let intact = ran.into_job().command(&["usage", "--verify", "job"]);
    intact.exits_with(0);
    assert!(intact.stdout.starts_with("job: 4 receipts, intact; the last hash is "), "{intact}");
    let job = intact.into_job();
    let change = |sql: &str| {
        let journal = Connection::open(job.path("job/journal.sqlite")).unwrap();
        assert_eq!(journal.execute(sql, []).unwrap(), 1, "{sql}");
    };
    change("UPDATE receipt SET cpu_us = cpu_us + 1 WHERE number = 3");
    let broken = job.command(&["usage", "--verify", "job"]);
    broken.exits_with(42);
    assert!(broken.stdout.starts_with("job: receipt 3 is broken: "), "{broken}");
    let job = broken.into_job();
    let change = |sql: &str| {
        let journal = Connection::open(job.path("job/journal.sqlite")).unwrap();
        assert_eq!(journal.execute(sql, []).unwrap(), 1, "{sql}");
    };
    change("UPDATE receipt SET cpu_us = cpu_us - 1 WHERE number = 3");
    // The last one is removed, with its trace in the journal. The job's result still has its hash.
    change("DELETE FROM receipt WHERE number = 4");
    change("DELETE FROM job WHERE key = 'receipts'");
    let broken = job.command(&["usage", "--verify", "--json", "job"]);
    broken.exits_with(42);
    let found: Value = serde_json::from_str(&broken.stdout).unwrap();
    assert_eq!(found["jobs"][0]["broken"]["number"], 4, "{found:#}");
}

/// A journal that cannot be read does not hide the state of other jobs, and counts nothing.
#[test]
fn an_unreadable_journal_is_reported_and_the_others_are_checked() {
    let ran = ran_with_failures();
    let job = ran.into_job();
    copy(&job.path("job"), &job.path("damaged"));
    copy(&job.path("job"), &job.path("removed"));
    fs::write(job.path("damaged/journal.sqlite"), "not a database").unwrap();
    fs::remove_file(job.path("removed/journal.sqlite")).unwrap();
    let checked = job.command(&["usage", "--verify", "damaged", "removed", "job"]);
    checked.exits_with(42);
    let lines: Vec<&str> = checked.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{checked}");
    assert!(lines[0].starts_with("damaged: not checked: "), "{checked}");
    assert!(lines[1].starts_with("removed: not checked: "), "{checked}");
    assert!(lines[2].starts_with("job: 4 receipts, intact"), "{checked}");
    let used = checked.into_job().command(&["usage", "--json", "damaged", "removed", "job"]);
    used.exits_with(42);
    let sums: Value = serde_json::from_str(&used.stdout).unwrap();
    assert_eq!(sums["jobs"], 1, "{sums:#}");
    assert_eq!(sums["total"]["billable"]["attempts"], 4, "{sums:#}");
    used.into_job().command(&["usage", "removed", "job"]).exits_with(0);
}

/// The export has the columns that FOCUS requires.
#[test]
fn an_export_has_the_columns_of_focus() {
    let (rows, job) = exported(ran_with_failures().into_job(), &["job"]);
    for column in [
        "BilledCost",
        "BillingAccountId",
        "BillingAccountName",
        "BillingCurrency",
        "BillingPeriodEnd",
        "BillingPeriodStart",
        "ChargeCategory",
        "ChargeDescription",
        "ChargePeriodEnd",
        "ChargePeriodStart",
        "ConsumedQuantity",
        "ConsumedUnit",
        "ContractedCost",
        "EffectiveCost",
        "InvoiceIssuerName",
        "ListCost",
        "PricingQuantity",
        "PricingUnit",
        "ListCost",
        "ProviderName",
        "PublisherName",
        "ServiceCategory",
        "ServiceName",
    ] {
        assert!(
            rows.iter().all(|row| row[column].as_str().is_some_and(|v| !v.is_empty())),
            "{column}"
        );
    }
    let first = &rows[0];
    assert_eq!(first["ChargeClass"], "", "a column without values");
    assert_eq!(
        (&first["SubAccountId"], &first["ChargeCategory"]),
        (&json!("default"), &json!("Usage"))
    );
    assert!(first["BillingPeriodStart"].as_str().unwrap().ends_with("-01T00:00:00Z"), "{first:#}");
    let seconds = first["ConsumedQuantity"].as_str().unwrap().replace('.', "");
    let micros: u64 = first["x_CpuMicroseconds"].as_str().unwrap().parse().unwrap();
    assert_eq!(seconds.parse::<u64>().unwrap(), micros, "{first:#}");
    let parquet = job.command(&["usage", "--export", "usage.parquet", "job"]);
    parquet.exits_with(0).says("4 rows are in usage.parquet");
    let bytes = fs::read(parquet.dir().join("usage.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let none =
        parquet.into_job().command(&["usage", "--to", "2020-01-01", "--export", "none.csv", "job"]);
    none.exits_with(0).says("0 rows");
    assert_eq!(none.text("none.csv").lines().count(), 1, "the names of the columns");
    let piped = none.into_job().command(&["usage", "--export", "/dev/stdout", "job"]);
    piped.exits_with(0).says("4 rows");
    assert_eq!(piped.stdout.lines().count(), 5, "{piped}");
    let names = fs::read_dir(piped.dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let hidden = names.filter(|name| name.to_string_lossy().starts_with(".usage")).count();
    assert_eq!(hidden, 0, "no incomplete file is left");
}
