use super::log_tests::{catch_up, logged};
use super::tests::{commit, identity, new_fixture, succeeded};
use super::*;
use crate::model::{
    AttemptReceipt, AttemptUsage, MiniBatchId, NodeId, Receipt, ReceiptEnd, ReceiptRun,
    ReceiptTotals, WorkerId, hex,
};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use std::path::Path;

fn run(id: &str) -> ReceiptRun {
    ReceiptRun {
        run: id.into(),
        tenant: "ada".into(),
        component: "abc".into(),
        engine: "sandmill 1".into(),
    }
}

fn receipt(mini_batch: u64) -> AttemptReceipt {
    let end = match mini_batch % 3 {
        0 => ReceiptEnd::NODE_LOST,
        _ => ReceiptEnd::of(&Ok(())),
    };
    AttemptReceipt {
        mini_batch: MiniBatchId(mini_batch),
        attempt: 1,
        worker: WorkerId(7),
        node: NodeId(0),
        started_us: 1_000_000,
        ended_us: 3_000_000,
        end,
        usage: AttemptUsage {
            wall_us: 2_000_000,
            cpu_us: 1 + mini_batch,
            fuel: (mini_batch.is_multiple_of(2)).then_some(5),
            ..AttemptUsage::default()
        },
    }
}

fn changes(run_id: &str, mini_batches: std::ops::Range<u64>) -> JournalChanges {
    let receipts = mini_batches.map(receipt).collect();
    let batch = ReceiptBatch { run: run(run_id), receipts, head: String::new() };
    JournalChanges { receipts: vec![batch], ..JournalChanges::default() }
}

/// A journal with ten receipts of two runs.
fn journal_of_two_runs(path: &Path) -> ReceiptTotals {
    let mut journal = Journal::create(path, &identity()).unwrap();
    journal.commit(&changes("first", 0..4)).unwrap();
    journal.commit(&changes("first", 4..6)).unwrap();
    drop(journal);
    let mut journal = Journal::open(path).unwrap();
    journal.commit(&changes("second", 6..10)).unwrap();
    journal.receipt_totals().clone()
}

fn verify(path: &Path) -> Result<ReceiptTotals, BrokenReceipt> {
    ReceiptReader::open(path).unwrap().verify(None).unwrap()
}

fn all(path: &Path) -> Vec<SealedReceipt> {
    let mut all = Vec::new();
    ReceiptReader::open(path).unwrap().for_each(&mut |sealed| all.push(sealed)).unwrap();
    all
}

#[test]
fn receipts_of_all_runs_are_one_chain_with_exact_sums() {
    let fixture = new_fixture();
    let totals = journal_of_two_runs(&fixture.path);
    assert_eq!(totals.receipts(), 10);
    // Mini-batches 0, 3, 6 and 9 were lost.
    assert_eq!((totals.billable.attempts, totals.not_billable.attempts), (6, 4));
    assert_eq!(totals.billable.cpu_us, 2 + 3 + 5 + 6 + 8 + 9);
    assert_eq!(totals.not_billable.fuel, Some(10));
    assert_eq!(verify(&fixture.path), Ok(totals.clone()));
    let found = all(&fixture.path);
    assert_eq!(found.len(), 10);
    assert_eq!(found[9].hash, totals.head);
    assert_eq!((found[5].receipt.run.as_str(), found[6].receipt.run.as_str()), ("first", "second"));
    assert!(!found[0].receipt.billable && found[1].receipt.billable);
    let reader = ReceiptReader::open(&fixture.path).unwrap();
    assert_eq!(reader.page(3, 2).unwrap(), found[3..5]);
    assert_eq!(reader.page(10, 2).unwrap(), []);
}

/// Another program can check the chain with the JSON that Sandmill shows: see docs/usage.md.
#[test]
fn the_chain_follows_from_the_shown_json() {
    let fixture = new_fixture();
    let totals = journal_of_two_runs(&fixture.path);
    let first = format!("sandmill receipts 1 {}", identity().id);
    let mut hash: [u8; 32] = Sha256::digest(first).into();
    for sealed in all(&fixture.path) {
        let shown = serde_json::to_string(&sealed).unwrap();
        let again: SealedReceipt = serde_json::from_str(&shown).unwrap();
        let json = serde_json::to_string(&again.receipt).unwrap();
        hash = Sha256::digest([&hash[..], json.as_bytes()].concat()).into();
        assert_eq!(hex(hash), sealed.hash);
    }
    assert_eq!(hex(hash), totals.head);
}

/// The format of what the hashes cover. If it changes, the hashes of old receipts no longer fit.
#[test]
fn the_hashed_text_stays_the_same() {
    let receipt = Receipt::new(1, ("job", "iris"), &run("run"), &receipt(0));
    insta::assert_snapshot!(serde_json::to_string(&receipt).unwrap(), @r#"{"number":1,"job":"job","name":"iris","tenant":"ada","run":"run","attempt_id":"run/1","mini_batch":0,"attempt":1,"worker":"process007","node":0,"component":"abc","engine":"sandmill 1","started":"1970-01-01T00:00:01Z","ended":"1970-01-01T00:00:03Z","outcome":"node_lost","billable":false,"not_billable":"node_lost","usage":{"wall_us":2000000,"cpu_us":1,"memory_byte_ms":0,"peak_memory":0,"fuel":5,"bytes_read":0,"bytes_written":0,"bytes_fetched":0,"model_calls":0,"model_us":0,"gpu_us":0}}"#);
}

#[test]
fn each_change_of_a_receipt_is_found() {
    for (sql, number, what) in [
        ("UPDATE receipt SET cpu_us = cpu_us + 1 WHERE number = 4", 4, "not what its hash covers"),
        ("UPDATE receipt SET not_billable = NULL WHERE number = 1", 1, "not what its hash covers"),
        ("UPDATE receipt SET cpu_us = -1 WHERE number = 4", 4, "does not write"),
        ("UPDATE receipt SET outcome = 'free' WHERE number = 6", 6, "does not write"),
        ("UPDATE receipt SET hash = zeroblob(32) WHERE number = 7", 7, "not what its hash covers"),
        ("UPDATE receipt_run SET tenant = 'bob' WHERE run = 'second'", 7, "its hash covers"),
        ("UPDATE receipt SET run = 99 WHERE number = 3", 3, "does not write"),
        ("DELETE FROM receipt WHERE number = 5", 5, "missing; receipt 6 comes next"),
        ("DELETE FROM receipt WHERE number = 10", 10, "missing; the job has 10 receipts"),
        ("DELETE FROM receipt", 1, "missing; the job has 10 receipts"),
        (
            "INSERT INTO receipt SELECT 11, run, mini_batch, attempt, worker, node, started_us, ended_us, outcome,
             not_billable, wall_us, cpu_us, memory_byte_ms, peak_memory, fuel, bytes_read, bytes_written, bytes_fetched,
             model_calls, model_us, gpu_us, hash FROM receipt WHERE number = 10",
            11,
            "its hash covers",
        ),
        (
            "UPDATE job SET value = replace(value, '\"attempts\":6', '\"attempts\":5') WHERE key = 'receipts'",
            10,
            "sums",
        ),
    ] {
        let fixture = new_fixture();
        journal_of_two_runs(&fixture.path);
        let changed = Connection::open(&fixture.path).unwrap().execute(sql, []).unwrap();
        assert!(changed > 0, "{sql}");
        let broken = verify(&fixture.path).unwrap_err();
        assert_eq!(broken.number, number, "{sql}: {broken}");
        assert!(broken.what.contains(what), "{sql}: {broken}");
    }
}

/// If all hashes were made again, the hash in the job's result shows it.
#[test]
fn a_chain_that_was_made_again_is_found() {
    let fixture = new_fixture();
    let totals = journal_of_two_runs(&fixture.path);
    let other = new_fixture();
    let mut journal = Journal::create(&other.path, &identity()).unwrap();
    journal.commit(&changes("other", 0..10)).unwrap();
    drop(journal);
    assert!(verify(&other.path).is_ok());
    let reader = ReceiptReader::open(&other.path).unwrap();
    let broken = reader.verify(Some((10, &totals.head))).unwrap().unwrap_err();
    assert_eq!(broken.number, 10);
    let broken = reader.verify(Some((12, &totals.head))).unwrap().unwrap_err();
    assert_eq!(broken.number, 11);
}

#[test]
fn a_journal_of_the_format_before_is_continued() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[succeeded(5, 100)]).unwrap();
    drop(journal);
    let old = Connection::open(&fixture.path).unwrap();
    old.execute_batch("DROP TABLE receipt; DROP TABLE receipt_run; PRAGMA user_version = 3")
        .unwrap();
    drop(old);
    assert_eq!(verify(&fixture.path), Ok(ReceiptTotals::default()));
    assert_eq!(all(&fixture.path), []);
    let mut journal = Journal::open(&fixture.path).unwrap();
    assert!(journal.has_entries());
    journal.commit(&changes("later", 0..2)).unwrap();
    drop(journal);
    assert_eq!(verify(&fixture.path).unwrap().receipts(), 2);
}

/// Receipts are read while a leader has the journal, and after it was killed.
#[test]
fn receipts_of_a_running_job_are_read_from_a_copy() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    journal.commit(&changes("first", 0..4)).unwrap();
    assert_eq!(all(&fixture.path).len(), 4);
    journal.commit(&changes("first", 4..9)).unwrap();
    let found = all(&fixture.path);
    assert_eq!(found.len(), 9);
    assert_eq!(verify(&fixture.path).unwrap(), *journal.receipt_totals());
    // The leader goes on.
    journal.commit(&changes("first", 9..10)).unwrap();
}

#[test]
fn a_leader_that_takes_over_continues_the_chain_of_the_log() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    journal.commit(&changes("first", 0..4)).unwrap();
    let head = journal.receipt_totals().head.clone();
    drop(journal);
    // Another machine has no journal.
    let other = new_fixture();
    let taken_over = catch_up(&other.path, &fixture).unwrap();
    let mut journal = Journal::open(&other.path).unwrap();
    assert_eq!(journal.receipt_totals().head, head);
    journal.lead(taken_over, serde_json::Value::Null).unwrap();
    journal.commit(&changes("second", 4..6)).unwrap();
    let totals = journal.receipt_totals().clone();
    // A snapshot has all receipts.
    let state = journal.log_state(serde_json::Value::Null).unwrap();
    drop(journal);
    assert_eq!(verify(&other.path), Ok(totals.clone()));
    assert_eq!(totals.receipts(), 6);
    let runs: Vec<&str> =
        state.content.receipts.iter().map(|batch| batch.run.run.as_str()).collect();
    assert_eq!(runs, ["first", "second"]);
    assert_eq!(state.content.receipts[1].head, totals.head);
    // The first machine catches up.
    catch_up(&fixture.path, &fixture).unwrap();
    assert_eq!(verify(&fixture.path), Ok(totals));
}

/// A log whose receipts do not continue those of the journal is not the one of the journal.
#[test]
fn receipts_of_another_chain_are_refused() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    let mut other = changes("first", 0..4);
    other.receipts[0].head = hex([0; 32]);
    let error = journal.commit(&other).unwrap_err();
    assert!(matches!(error, JournalError::OtherLog { .. }), "{error}");
    assert_eq!(journal.receipt_totals().receipts(), 0);
    journal.commit(&changes("first", 0..4)).unwrap();
    drop(journal);
    assert_eq!(verify(&fixture.path).unwrap().receipts(), 4);
}
