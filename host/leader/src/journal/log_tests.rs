//! Tests of journals with a commit log. The folder of the log is beside the journal.

use super::tests::{JournalFixture, commit, failed, identity, new_fixture, succeeded};
use super::*;
use crate::model::{JobStatus, MiniBatchId};
use sandmill_commit_log::{CommitLog, FolderStore, JobLogs, RunLog};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn logs(fixture: &JournalFixture) -> JobLogs {
    let folder = fixture.path.parent().unwrap().canonicalize().unwrap().join("store");
    JobLogs::new(Arc::new(FolderStore::new(folder)))
}

fn latest(fixture: &JournalFixture) -> RunLog {
    let logs = logs(fixture);
    logs.latest(&logs.runs_begun().unwrap()).unwrap()
}

/// A journal with a commit log.
pub(super) fn logged(fixture: &JournalFixture) -> Journal {
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    let first = Journal::first_record(journal.log_state(json!("first")).unwrap());
    let runs = logs(fixture).runs_begun().unwrap();
    logs(fixture).announce(&runs, &identity().id).unwrap();
    let (log, begun) = logs(fixture).begin(&identity().id, &first).unwrap();
    journal.connect(log, begun, json!("first")).unwrap();
    journal
}

/// The content of a journal that was made again from the log, on another machine.
fn made_again(fixture: &JournalFixture) -> LogState {
    let elsewhere = new_fixture();
    let run = latest(fixture);
    Journal::catch_up(&elsewhere.path, &run).unwrap();
    let summary = LogSummary::read(&run).unwrap();
    assert!(!summary.is_superseded);
    let mut journal = Journal::open(&elsewhere.path).unwrap();
    assert!(journal.is_from_log().unwrap());
    journal.forget_origin(Vec::new()).unwrap();
    assert!(!journal.is_from_log().unwrap());
    LogState {
        directory: directory_id(&fixture.path),
        ..journal.log_state(summary.job_state).unwrap()
    }
}

/// The folder of the log.
fn log_folder(fixture: &JournalFixture) -> PathBuf {
    fixture.path.parent().unwrap().join("store").join(identity().id).join("log")
}

pub(super) fn catch_up(path: &Path, fixture: &JournalFixture) -> Result<CommitLog, JournalError> {
    Journal::catch_up(path, &latest(fixture))
}

#[test]
fn a_journal_is_made_again_from_its_log() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    let file = FileEntry {
        mini_batch: Some(MiniBatchId(2)),
        source: "work/process000/staged/2-1".into(),
        path: "a \"b\"\n".into(),
        offset: 1,
        length: u64::MAX >> 1,
    };
    commit(&mut journal, &[succeeded(5, 100), failed(9)]).unwrap();
    journal.note("key", "value").unwrap();
    let notes = vec![("key".to_owned(), None), ("other".to_owned(), Some("x".to_owned()))];
    let changes = JournalChanges {
        removed: vec![MiniBatchId(9)],
        entries: vec![succeeded(2, 0), failed(9)],
        files: vec![file],
        notes,
        ..JournalChanges::default()
    };
    journal.commit(&changes).unwrap();
    let state = |journal: &Journal| journal.log_state(json!("first")).unwrap();
    assert_eq!(made_again(&fixture), state(&journal));
    journal.record_end(JobStatus::Failed, vec![("last".into(), Some("1".into()))]).unwrap();
    assert_eq!(made_again(&fixture), state(&journal));
    let changes =
        JournalChanges { reopened: true, replaces_files: true, ..JournalChanges::default() };
    journal.commit(&changes).unwrap();
    let again = made_again(&fixture);
    assert_eq!(again, state(&journal));
    assert_eq!((again.status, again.job), (None, identity()));
}

/// If the leader is killed between the log and the journal, the next run has what is in the log. The files of
/// its workers are still in the job directory.
#[test]
fn a_journal_that_is_older_than_its_log_catches_up() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    commit(&mut journal, &[succeeded(5, 100)]).unwrap();
    let changes = JournalChanges { entries: vec![failed(6)], ..JournalChanges::default() };
    journal
        .log
        .as_mut()
        .unwrap()
        .append(&log_record::LogRecord::bytes(&changes, Vec::new(), None))
        .unwrap();
    drop(journal);
    for _ in 0..2 {
        catch_up(&fixture.path, &fixture).unwrap();
        let journal = Journal::open(&fixture.path).unwrap();
        assert_eq!((journal.counts().succeeded, journal.counts().failed), (1, 1));
        assert!(!journal.is_from_log().unwrap());
    }
    // Another directory continues the job. Then the first one is older again.
    let elsewhere = new_fixture();
    let log = catch_up(&elsewhere.path, &fixture).unwrap();
    Journal::open(&elsewhere.path).unwrap().lead(log, json!("second")).unwrap();
    catch_up(&fixture.path, &fixture).unwrap();
    assert!(Journal::open(&fixture.path).unwrap().is_from_log().unwrap());
}

/// The journal is damaged, or was never completed. The log has everything.
#[test]
fn an_unusable_journal_is_made_again() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    commit(&mut journal, &[succeeded(5, 100)]).unwrap();
    drop(journal);
    for damage in ["not a database, but long enough to be looked at".repeat(20).as_str(), ""] {
        fs::write(&fixture.path, damage).unwrap();
        catch_up(&fixture.path, &fixture).unwrap();
        let journal = Journal::open(&fixture.path).unwrap();
        assert_eq!(journal.counts().succeeded, 1);
        assert!(journal.is_from_log().unwrap());
    }
}

/// The job store was restored from an older copy. The log no longer has what the job committed.
#[test]
fn a_log_that_is_older_than_its_journal_is_refused() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    commit(&mut journal, &[succeeded(5, 100)]).unwrap();
    commit(&mut journal, &[succeeded(6, 100)]).unwrap();
    drop(journal);
    fs::remove_file(log_folder(&fixture).join("00000000000000000002")).unwrap();
    let error = catch_up(&fixture.path, &fixture).unwrap_err();
    insta::assert_snapshot!(error, @"the commit log in the job store is not the one that this job wrote: it ends with record 1, and the job wrote record 2, so the job store was probably restored from an older copy; restore the latest state of the job store, or run the job again with --overwrite");
    // Another machine has continued from the older copy.
    let elsewhere = new_fixture();
    let log = catch_up(&elsewhere.path, &fixture).unwrap();
    Journal::open(&elsewhere.path).unwrap().lead(log, json!("second")).unwrap();
    let error = catch_up(&fixture.path, &fixture).unwrap_err();
    insta::assert_snapshot!(error, @"the commit log in the job store is not the one that this job wrote: it has another record 2, so the job store was probably restored from an older copy; restore the latest state of the job store, or run the job again with --overwrite");
}

/// The record is in the log, and the journal cannot be written. Nothing may follow that the journal lacks.
#[test]
fn a_journal_that_lacks_a_record_is_closed() {
    let fixture = new_fixture();
    drop(logged(&fixture));
    let raw = rusqlite::Connection::open(&fixture.path).unwrap();
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON job WHEN NEW.value LIKE '2 %'
        BEGIN SELECT RAISE(ABORT, 'broken'); END";
    raw.execute_batch(trigger).unwrap();
    drop(raw);
    let log = catch_up(&fixture.path, &fixture).unwrap();
    let mut journal = Journal::open(&fixture.path).unwrap();
    journal.lead(log, json!("again")).unwrap();
    assert!(!journal.may_be_replaced());
    commit(&mut journal, &[succeeded(5, 100)]).unwrap_err();
    assert!(journal.may_be_replaced());
    let error = commit(&mut journal, &[succeeded(6, 100)]).unwrap_err();
    assert!(error.to_string().starts_with("an earlier write to the commit log failed"), "{error}");
    assert_eq!(journal.counts().succeeded, 0);
}

#[test]
fn a_record_that_names_a_file_elsewhere_is_refused() {
    for path in ["/etc/passwd", "../x", "a/../../x", ""] {
        let fixture = new_fixture();
        let mut journal = logged(&fixture);
        let source = "work/process000/staged/2-1".to_owned();
        let path = path.to_owned();
        let file = FileEntry { mini_batch: None, source, path, offset: 0, length: 1 };
        journal.commit(&JournalChanges { files: vec![file], ..JournalChanges::default() }).unwrap();
        let error = catch_up(&new_fixture().path, &fixture).unwrap_err();
        assert!(error.to_string().contains("it names the file"), "{error}");
    }
}

#[test]
fn a_leader_that_was_replaced_commits_nothing() {
    let fixture = new_fixture();
    let mut old = logged(&fixture);
    commit(&mut old, &[succeeded(5, 100)]).unwrap();
    let elsewhere = new_fixture();
    let run = latest(&fixture);
    let log = Journal::catch_up(&elsewhere.path, &run).unwrap();
    let mut new = Journal::open(&elsewhere.path).unwrap();
    new.lead(log, json!("second")).unwrap();
    assert!(!old.may_be_replaced());
    let error = commit(&mut old, &[succeeded(6, 100)]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("another process leads the job now: process ")
            && text.ends_with(
                "has written record 2 of the commit log. This process stops: only the results of the \
                 other one count"
            ),
        "{text}"
    );
    assert!(old.may_be_replaced());
    assert_eq!(old.counts().succeeded, 1);
    assert!(old.record_end(JobStatus::Completed, Vec::new()).is_err());
    assert_eq!(old.finished().unwrap(), None);
    commit(&mut new, &[succeeded(6, 100)]).unwrap();
    new.forget_origin(Vec::new()).unwrap();
    let directory = directory_id(&fixture.path);
    let state = LogState { directory, ..new.log_state(json!("second")).unwrap() };
    assert_eq!(made_again(&fixture), state);
}

/// A take-over reads one snapshot, and the records after it.
#[test]
fn a_snapshot_follows_a_thousand_records() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    for id in 0..1010 {
        commit(&mut journal, &[succeeded(id, 10)]).unwrap();
    }
    let folder = fixture.path.parent().unwrap().join("store").join(identity().id);
    let snapshots: Vec<_> = std::fs::read_dir(folder.join("snapshot")).unwrap().collect();
    assert_eq!(snapshots.len(), 1);
    // The records that the snapshot includes are no longer read.
    for number in 1..1000 {
        std::fs::write(folder.join(format!("log/{number:020}")), "damaged").unwrap();
    }
    assert_eq!(made_again(&fixture), journal.log_state(json!("first")).unwrap());
}

#[test]
fn a_log_of_a_job_that_was_started_over_says_so() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    let runs = logs(&fixture).runs_begun().unwrap();
    logs(&fixture).supersede(&runs, &Journal::superseded(Some("other"))).unwrap();
    commit(&mut journal, &[succeeded(5, 100)]).unwrap_err();
    let run = latest(&fixture);
    assert!(LogSummary::read(&run).unwrap().is_superseded);
}

#[test]
fn a_record_of_a_later_version_is_named() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    journal.log.as_mut().unwrap().append(br#"{"another":{}}"#).unwrap();
    let run = latest(&fixture);
    let error = Journal::catch_up(&new_fixture().path, &run).unwrap_err();
    insta::assert_snapshot!(error, @"record 1 of the commit log in the job store cannot be understood (unknown variant `another`, expected one of `begin`, `lead`, `changes`, `end`, `superseded` at line 1 column 10): use the version of sandmill that wrote it");
}

/// The end of a job consumes earlier requests to cancel it.
#[test]
fn the_record_of_the_end_is_known() {
    let fixture = new_fixture();
    let mut journal = logged(&fixture);
    commit(&mut journal, &[succeeded(5, 100)]).unwrap();
    let mut read = LogSummary::default();
    read.read_on(&latest(&fixture)).unwrap();
    assert_eq!((read.ended_at, read.cancels_from(7), read.ended.len()), (None, 7, 1));
    journal.record_end(JobStatus::Cancelled, Vec::new()).unwrap();
    read.read_on(&latest(&fixture)).unwrap();
    let ended = read.records - 1;
    assert_eq!((read.ended_at, read.cancels_from(0)), (Some(ended), ended + 1));
    // What was read is stored, and read on later.
    let stored = serde_json::to_vec(&read).unwrap();
    let mut read: LogSummary = serde_json::from_slice(&stored).unwrap();
    let state = serde_json::to_vec(&journal.log_state(json!("last")).unwrap()).unwrap();
    let log = journal.log.as_mut().unwrap();
    log.write_snapshot::<JournalError>(|| Ok(state)).unwrap();
    let from_snapshot = LogSummary::read(&latest(&fixture)).unwrap();
    assert_eq!((from_snapshot.ended_at, from_snapshot.job_state), (Some(ended), json!("last")));
    journal.commit(&JournalChanges { reopened: true, ..JournalChanges::default() }).unwrap();
    read.read_on(&latest(&fixture)).unwrap();
    assert_eq!((read.ended_at, read.status, read.records), (None, None, ended + 2));
}
