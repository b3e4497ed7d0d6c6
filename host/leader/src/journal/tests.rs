use super::*;
use crate::model::{FailureKind, ItemCounts, JobStatus, MiniBatchId, Segment, WorkerId};
use std::path::PathBuf;

pub(super) fn identity() -> JobIdentity {
    JobIdentity {
        id: "20261121T100000Z-0001".into(),
        entry_script_digest: "abc".into(),
        settings: vec![
            ("arguments".into(), r#"["--x"]"#.into()),
            ("mini_batch_size".into(), "10".into()),
        ],
        created: "2026-11-21T10:00:00Z".parse().unwrap(),
        ..JobIdentity::sample()
    }
}

pub(super) fn succeeded(id: u64, length: u64) -> JournalEntry {
    let segment = Segment { offset: 1000 * id, length, checksum: u32::MAX - 1, rows: 2 };
    let end = MiniBatchEnd::Succeeded {
        segment,
        is_short: id.is_multiple_of(3),
        has_files: id.is_multiple_of(2),
    };
    let items = ItemCounts { total: 3, succeeded: 2, failed: 1 };
    let worker = Some(WorkerId(7));
    JournalEntry { stamp: u64::MAX - id, attempts: 1, worker, ..entry(id, items, end) }
}

fn entry(id: u64, items: ItemCounts, end: MiniBatchEnd) -> JournalEntry {
    JournalEntry { id: MiniBatchId(id), stamp: id, attempts: 3, worker: None, items, end }
}

pub(super) fn failed(id: u64) -> JournalEntry {
    let end = MiniBatchEnd::Failed { kind: FailureKind::OutOfMemory, message: "too much".into() };
    let items = ItemCounts { total: 3, succeeded: 0, failed: 3 };
    entry(id, items, end)
}

pub(super) fn commit(journal: &mut Journal, entries: &[JournalEntry]) -> Result<(), JournalError> {
    journal.commit(&JournalChanges { entries: entries.to_vec(), ..JournalChanges::default() })
}

fn entries(journal: &Journal) -> Vec<Committed> {
    let mut entries = Vec::new();
    journal.for_each(EntryOrder::Commit, |entry| entries.push(entry)).unwrap();
    entries
}

pub(super) struct JournalFixture {
    _dir: tempfile::TempDir,
    pub(super) path: PathBuf,
}

pub(super) fn new_fixture() -> JournalFixture {
    let dir = tempfile::tempdir().unwrap();
    JournalFixture { path: dir.path().join("journal.sqlite"), _dir: dir }
}

fn text(error: &JournalError, fixture: &JournalFixture) -> String {
    error.to_string().replace(&fixture.path.display().to_string(), "JOURNAL")
}

#[test]
fn committed_entries_survive_reopening() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[succeeded(5, 100), failed(9)]).unwrap();
    commit(&mut journal, &[succeeded(2, 0), succeeded(1, 50)]).unwrap();
    let counts = journal.counts();
    drop(journal);

    let journal = Journal::open(&fixture.path).unwrap();
    assert_eq!(journal.job().unwrap(), identity());
    assert_eq!(journal.finished().unwrap(), None);
    assert_eq!(journal.counts(), counts);
    let items = ItemCounts { total: 12, succeeded: 6, failed: 6 };
    assert_eq!(
        counts,
        CommittedCounts { succeeded: 3, failed: 1, items, rows: 6, output_length: 150 }
    );
    let offsets: Vec<_> = entries(&journal)
        .iter()
        .map(|committed| (committed.entry.id.0, committed.output_offset))
        .collect();
    assert_eq!(offsets, [(5, 0), (9, 100), (2, 100), (1, 100)]);
    let back: Vec<_> = entries(&journal).into_iter().map(|committed| committed.entry).collect();
    assert_eq!(back, [succeeded(5, 100), failed(9), succeeded(2, 0), succeeded(1, 50)]);
}

#[test]
fn removed_entries_can_return_and_shift_later_ones() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[succeeded(5, 100), succeeded(2, 10), failed(7), succeeded(0, 1)])
        .unwrap();
    let file = |id: u64| FileEntry {
        mini_batch: Some(MiniBatchId(id)),
        source: format!("work/{id}"),
        path: "a/b".into(),
        offset: id,
        length: 7,
    };
    let files = vec![file(5), file(2), FileEntry { mini_batch: None, ..file(9) }];
    journal.commit(&JournalChanges { files: files.clone(), ..JournalChanges::default() }).unwrap();
    assert_eq!(journal.files().unwrap(), files);
    let removed = vec![MiniBatchId(5), MiniBatchId(7), MiniBatchId(99)];
    let entries_again = vec![succeeded(7, 3)];
    let again = JournalChanges { removed, entries: entries_again, ..JournalChanges::default() };
    journal.commit(&again).unwrap();
    assert_eq!(journal.files().unwrap(), files[1..]);
    let counts = journal.counts();
    assert_eq!((counts.succeeded, counts.failed, counts.output_length), (3, 0, 14));
    drop(journal);
    let journal = Journal::open(&fixture.path).unwrap();
    assert_eq!(journal.counts(), counts);
    let places = |order| {
        let mut places = Vec::new();
        journal.for_each(order, |c| places.push((c.entry.id.0, c.output_offset))).unwrap();
        places
    };
    assert_eq!(places(EntryOrder::Commit), [(2, 0), (0, 10), (7, 11)]);
    assert_eq!(places(EntryOrder::Id), [(0, 0), (2, 1), (7, 11)]);
    let stamps: Vec<_> = [0, 2, 7].map(|id| (MiniBatchId(id), u64::MAX - id)).into();
    assert_eq!(journal.stamps().unwrap(), stamps);
}

#[test]
fn notes_are_kept_until_they_are_removed() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    journal.note("plan", "1").unwrap();
    journal.note("plan", "2").unwrap();
    journal.note("done.1", "").unwrap();
    journal.record_end(JobStatus::Failed, vec![("done.10".into(), Some("x".into()))]).unwrap();
    let at_end = JournalChanges {
        reopened: true,
        notes: vec![("done.1".into(), None), ("none".into(), None)],
        ..JournalChanges::default()
    };
    journal.commit(&at_end).unwrap();
    drop(journal);
    let journal = Journal::open(&fixture.path).unwrap();
    assert_eq!(journal.noted("plan").unwrap().as_deref(), Some("2"));
    assert_eq!(journal.noted("none").unwrap(), None);
    assert_eq!(journal.notes("done.").unwrap(), [("10".to_owned(), "x".to_owned())]);
    assert_eq!(journal.finished().unwrap(), None);
    assert_eq!(journal.job().unwrap(), identity());
}

#[test]
fn a_large_journal_opens_at_once() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    let many: Vec<_> = (0..100_000).map(|id| succeeded(id, 10)).collect();
    commit(&mut journal, &many).unwrap();
    drop(journal);
    let begun = std::time::Instant::now();
    let journal = Journal::open(&fixture.path).unwrap();
    assert_eq!(journal.stamps().unwrap().len(), 100_000);
    // This takes a few hundredths of a second. A slow machine may take longer.
    assert!(begun.elapsed().as_secs() < 2);
    assert_eq!(journal.counts().output_length, 1_000_000);
}

#[test]
fn a_late_attempt_is_refused_with_its_whole_group() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[succeeded(1, 10)]).unwrap();
    let before = (journal.counts(), entries(&journal));
    for late in [failed(1), succeeded(1, 10), succeeded(1, 0)] {
        let error = commit(&mut journal, &[succeeded(2, 10), late]).unwrap_err();
        assert!(matches!(error, JournalError::AlreadyCommitted { id: MiniBatchId(1), .. }));
        assert_eq!((journal.counts(), entries(&journal)), before);
    }
    let twice = commit(&mut journal, &[succeeded(3, 10), succeeded(3, 10)]).unwrap_err();
    insta::assert_snapshot!(text(&twice, &fixture), @"mini-batch 3 is in the journal JOURNAL already; a late attempt must not be committed");
    // The next group continues where the last good one ended.
    commit(&mut journal, &[succeeded(2, 10)]).unwrap();
    assert_eq!(entries(&journal)[1].output_offset, 10);
}

#[test]
fn a_crash_loses_no_committed_entries() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[succeeded(1, 10)]).unwrap();
    // The state after a crash: database and WAL, copied while the journal is open.
    let copy = new_fixture();
    for suffix in ["", "-wal"] {
        let name = |path: &PathBuf| format!("{}{suffix}", path.display());
        std::fs::copy(name(&fixture.path), name(&copy.path)).unwrap();
    }
    let reopened = Journal::open(&copy.path).unwrap();
    assert_eq!(reopened.counts(), journal.counts());
}

#[test]
fn two_leaders_cannot_share_a_journal() {
    let fixture = new_fixture();
    let journal = Journal::create(&fixture.path, &identity()).unwrap();
    let error = Journal::open(&fixture.path).unwrap_err();
    insta::assert_snapshot!(text(&error, &fixture), @"the journal JOURNAL is in use: another process works on this job directory; wait for it to end, or use another --job-dir");
    let error = Journal::create(&fixture.path, &identity()).unwrap_err();
    insta::assert_snapshot!(text(&error, &fixture), @"the journal JOURNAL exists already: start in an empty job directory");
    drop(journal);
    Journal::open(&fixture.path).unwrap();
}

#[test]
fn finishing_is_remembered_and_leaves_one_file() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[succeeded(1, 10)]).unwrap();
    journal.record_end(JobStatus::Failed, Vec::new()).unwrap();
    journal.record_end(JobStatus::Completed, Vec::new()).unwrap();
    drop(journal);
    let files = std::fs::read_dir(fixture.path.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1);
    let journal = Journal::open(&fixture.path).unwrap();
    assert_eq!(journal.finished().unwrap(), Some(JobStatus::Completed));
}

#[test]
fn a_missing_or_foreign_journal_is_refused() {
    let fixture = new_fixture();
    let error = Journal::open(&fixture.path).unwrap_err();
    insta::assert_snapshot!(text(&error, &fixture), @"there is no journal at JOURNAL, so the job cannot be resumed: run it again with --overwrite, or in another --job-dir");

    std::fs::write(&fixture.path, "certainly not a database, but long enough to look".repeat(20))
        .unwrap();
    let error = Journal::open(&fixture.path).unwrap_err();
    insta::assert_snapshot!(text(&error, &fixture), @"the journal JOURNAL is damaged (file is not a database): the job cannot be resumed; run it again with --overwrite, or in another --job-dir");
    // The command line also prints the sources of an error. So a source must not repeat the error's message.
    assert!(std::error::Error::source(&error).is_none(), "{error:?}");

    let fixture = new_fixture();
    drop(Journal::create(&fixture.path, &identity()).unwrap());
    let raw = rusqlite::Connection::open(&fixture.path).unwrap();
    raw.pragma_update(None, "user_version", 8).unwrap();
    drop(raw);
    let error = Journal::open(&fixture.path).unwrap_err();
    insta::assert_snapshot!(text(&error, &fixture), @"the journal JOURNAL has format 8, and this version of sandmill reads only format 4: use the version that started the job");

    let nowhere = fixture.path.with_file_name("no-such-folder").join("journal.sqlite");
    let error = Journal::create(&nowhere, &identity()).unwrap_err();
    assert!(matches!(error, JournalError::ReadOnly(_)), "{error}");
}

#[test]
fn numbers_too_large_for_the_database_are_refused() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[succeeded(1, i64::MAX as u64)]).unwrap();
    let error = commit(&mut journal, &[succeeded(2, 1)]).unwrap_err();
    insta::assert_snapshot!(text(&error, &fixture), @"mini-batch 2 cannot be written to the journal JOURNAL: its place in the output is 9223372036854775808; the maximum is 2^63 - 1");
    assert!(commit(&mut journal, &[failed(u64::MAX)]).is_err());
}

/// A resumed job gives its next worker the number after the highest one in the journal.
#[test]
fn a_worker_with_the_highest_number_is_refused() {
    let fixture = new_fixture();
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    let last = JournalEntry { worker: Some(WorkerId(u32::MAX)), ..succeeded(1, 10) };
    commit(&mut journal, &[last]).unwrap();
    let error = journal.for_each(EntryOrder::Commit, |_| ()).unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
}

#[test]
fn the_error_names_a_full_disk() {
    let fixture = new_fixture();
    let full = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(13), None);
    let error = JournalError::from_sqlite(&fixture.path, full);
    insta::assert_snapshot!(text(&error, &fixture), @"no space left on the disk that holds the journal JOURNAL: free some space, then run the job again");
}

/// Settings contain arguments, which may be secrets.
#[test]
fn only_its_owner_can_read_a_journal() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = new_fixture();
    let files = ["", "-wal"].map(|suffix| {
        let mut path = fixture.path.as_os_str().to_owned();
        path.push(suffix);
        PathBuf::from(path)
    });
    let modes =
        || files.each_ref().map(|file| file.metadata().unwrap().permissions().mode() & 0o777);
    let mut journal = Journal::create(&fixture.path, &identity()).unwrap();
    commit(&mut journal, &[failed(1)]).unwrap();
    assert_eq!(modes(), [0o600; 2]);
    for file in &files {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o644)).unwrap();
    }
    // A killed leader leaves the files like this.
    std::mem::forget(journal);
    assert_eq!(modes(), [0o644; 2]);
    super::store::keep_private(&fixture.path);
    assert_eq!(modes(), [0o600; 2]);
}
