use super::*;
use crate::JobStanding;
use std::os::unix::fs::symlink;

struct ClaimFixture {
    dir: tempfile::TempDir,
    job: JobDir,
}

impl ClaimFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let job = JobDir::new(dir.path().join("job"));
        Self { dir, job }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// Begins the job, or starts it over.
    fn claim(&self) -> Result<Claim, ClaimError> {
        claim(&self.job, "iris", None)
    }

    fn claim_with_output(&self) -> Result<Claim, ClaimError> {
        claim(&self.job, "iris", Some(&self.out()))
    }

    fn lock(&self, output: Option<&Path>) -> Result<JobDirLock, ClaimError> {
        lock_job_dir(
            &self.job,
            ClaimRequest { name: "iris", output, results: None, output_file: Some("rows.csv") },
        )
    }

    fn end(&self, claimed: Result<Claim, ClaimError>, status: JobStatus) {
        claimed.unwrap().end(&result(status)).unwrap();
    }

    fn state(&self) -> JobState {
        JobState::read(&self.job).unwrap().unwrap()
    }

    fn text<T: std::fmt::Debug>(&self, result: Result<T, ClaimError>) -> String {
        let real = self.dir.path().canonicalize().unwrap();
        result
            .unwrap_err()
            .to_string()
            .replace(&real.display().to_string(), "DIR")
            .replace(&self.dir.path().display().to_string(), "DIR")
            .replace(&format!("process {}", std::process::id()), "process PID")
    }
}

fn claim(job: &JobDir, name: &str, output: Option<&Path>) -> Result<Claim, ClaimError> {
    lock_job_dir(job, ClaimRequest { name, output, results: None, output_file: Some("rows.csv") })?
        .begin(None, &mut |_| Ok(()))
}

fn result(status: JobStatus) -> JobResult {
    JobResult { status, ..JobResult::sample() }
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_new_job_directory_records_the_state_of_its_job() {
    let fixture = ClaimFixture::new();
    let mut claimed = fixture.claim().unwrap();
    assert_eq!(claimed.output(), resolve(&fixture.job.default_output()).unwrap());
    assert!(claimed.output().is_dir());
    let state = fixture.state();
    assert_eq!((state.status, state.ended, state.times_resumed), (JobStanding::Running, None, 0));
    assert_eq!((state.id.as_str(), state.pid), (claimed.id(), std::process::id()));
    assert_eq!((state.started, state.output.as_path()), (claimed.started(), Path::new("output")));
    claimed.end(&result(JobStatus::Cancelled)).unwrap();
    assert_eq!(fixture.state().status, JobStanding::Cancelled);
    assert!(fixture.state().ended.is_some());
}

#[test]
fn ids_differ_and_contain_the_time() {
    let now: Timestamp = "2026-11-21T10:00:00.5Z".parse().unwrap();
    let first = new_id(now);
    let second = new_id(now);
    assert_ne!(first, second);
    assert!(first.starts_with("20261121T100000Z-"), "{first}");
}

#[test]
fn a_job_can_begin_in_an_empty_directory() {
    let fixture = ClaimFixture::new();
    fs::create_dir(fixture.job.root()).unwrap();
    // A crash during the first write leaves this file.
    write(temporary(&fixture.job.state_file()), "{");
    fixture.claim().unwrap();
}

#[test]
fn locking_a_job_directory_changes_nothing() {
    let fixture = ClaimFixture::new();
    fixture.end(fixture.claim(), JobStatus::Failed);
    let state = fixture.state();
    let rows = fixture.job.default_output().join("rows.csv");
    write(rows.clone(), "1");
    drop(fixture.lock(Some(&fixture.out())).unwrap());
    assert!(fixture.state() == state && rows.exists() && !fixture.out().exists());
}

/// Rule W15 in docs/parallel-run-step.md.
#[test]
fn a_resumed_job_keeps_its_files_and_state() {
    let fixture = ClaimFixture::new();
    fixture.end(fixture.claim_with_output(), JobStatus::Failed);
    let begun = fixture.state().begun;
    let id = fixture.state().id;
    let kept =
        [fixture.out().join("rows.csv"), fixture.out().join("a/published"), fixture.job.journal()];
    for path in &kept {
        write(path.clone(), "old");
    }
    let file = JobFile::new("job.yaml".as_ref(), &[]);
    let out = fixture.out();
    let claimed = fixture.lock(Some(&out)).unwrap().resume(Some(file.clone())).unwrap();
    assert!(claimed.has_earlier_run() && kept.iter().all(|path| path.exists()));
    let state = fixture.state();
    assert_eq!((state.status, state.times_resumed, state.begun), (JobStanding::Running, 1, begun));
    assert_ne!(state.id, id);
    assert_eq!(state.job_file, Some(file));
    claimed.undo().unwrap();
    assert!(kept.iter().all(|path| path.exists()), "existing files stay");
    assert_eq!((fixture.state().status, fixture.state().times_resumed), (JobStanding::Failed, 0));
    drop(claimed);
    drop(fixture.lock(Some(&out)).unwrap().resume(None).unwrap());
    assert_eq!(fixture.state().times_resumed, 1);
    let earlier =
        fs::read_to_string(fixture.job.state_file()).unwrap().replace("times_resumed", "taken_up");
    write(fixture.job.state_file(), &earlier);
    assert_eq!(fixture.state().times_resumed, 1, "an earlier version of Sandmill wrote it");
}

#[test]
fn a_job_directory_may_be_moved() {
    let mut fixture = ClaimFixture::new();
    fixture.end(fixture.claim(), JobStatus::Failed);
    let moved = fixture.dir.path().join("moved");
    fs::rename(fixture.job.root(), &moved).unwrap();
    fixture.job = JobDir::new(&moved);
    let held = fixture.lock(None).unwrap();
    assert_eq!(held.earlier_output().as_deref(), Some(held.output()));
}

/// Rule C25.
#[test]
fn changed_results_of_a_completed_job_are_reported() {
    let fixture = ClaimFixture::new();
    let claimed = fixture.claim_with_output();
    let rows = fixture.out().join("rows.csv");
    let other = fixture.out().join("a/b.png");
    write(rows.clone(), "1\n2\n");
    write(other.clone(), "");
    fixture.end(claimed, JobStatus::Completed);
    let out = fixture.out();
    let describe = || {
        let changed = fixture.lock(Some(&out)).unwrap().output_changed().unwrap()?;
        let real = fixture.dir.path().canonicalize().unwrap();
        Some(changed.replace(&real.display().to_string(), "DIR"))
    };
    assert_eq!(describe(), None);
    write(out.join("notes.txt"), "mine");
    assert_eq!(describe(), None);
    fs::remove_file(out.join("notes.txt")).unwrap();
    fs::remove_file(&other).unwrap();
    insta::assert_snapshot!(describe().unwrap(), @"the output folder DIR/out held 2 files, now 1");
    write(rows.clone(), "1\n");
    insta::assert_snapshot!(describe().unwrap(), @"the output file DIR/out/rows.csv had 4 bytes, now 2");
    fs::remove_file(&rows).unwrap();
    insta::assert_snapshot!(describe().unwrap(), @"the output file DIR/out/rows.csv is gone");
    fs::remove_dir_all(&out).unwrap();
    insta::assert_snapshot!(describe().unwrap(), @"the output folder DIR/out is gone");
}

/// Other users have no access, whatever the umask was when the directory was created.
#[test]
fn only_its_owner_can_access_a_job_directory() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let fixture = ClaimFixture::new();
    fixture.end(fixture.claim_with_output(), JobStatus::Failed);
    assert_eq!(mode(fixture.job.root()), 0o700);
    assert_eq!(mode(&fixture.job.state_file()), 0o600);
    let usual = fixture.dir.path().join("usual");
    fs::create_dir(&usual).unwrap();
    assert_eq!(mode(&fixture.out()), mode(&usual), "the umask applies to outputs");
    fs::create_dir(fixture.job.logs()).unwrap();
    for open in [fixture.job.root().to_owned(), fixture.job.logs()] {
        fs::set_permissions(open, PermissionsExt::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(fixture.job.state_file(), PermissionsExt::from_mode(0o666)).unwrap();
    let mark = fixture.state().mark;
    let claimed = fixture.lock(Some(&fixture.out())).unwrap().resume(None).unwrap();
    assert_eq!(mode(fixture.job.root()), 0o700);
    assert_eq!([mode(&fixture.job.logs()), mode(&fixture.job.state_file())], [0o700, 0o600]);
    assert!(!mark.is_empty() && claimed.state.mark == mark, "it is the same job");
    drop(claimed);
    assert_eq!(fixture.claim_with_output().unwrap().state.mark, mark, "also when it starts over");
    assert_ne!(ClaimFixture::new().claim().unwrap().state.mark, mark);
}

#[test]
fn the_directory_of_a_running_job_is_refused() {
    let fixture = ClaimFixture::new();
    let _running = fixture.claim().unwrap();
    insta::assert_snapshot!(fixture.text(fixture.claim()), @"job 'iris' (process PID) is running in DIR/job: wait for it to end, or name another place with --job-dir");
}

#[test]
fn directories_of_other_jobs_and_foreign_files_are_refused() {
    let fixture = ClaimFixture::new();
    fixture.end(fixture.claim(), JobStatus::Completed);
    let other = claim(&fixture.job, "wine", None);
    insta::assert_snapshot!(fixture.text(other), @"DIR/job is the directory of job 'iris', not of 'wine': name another place with --job-dir");

    let fixture = ClaimFixture::new();
    write(fixture.job.root().join("photo.png"), "");
    insta::assert_snapshot!(fixture.text(fixture.claim()), @"DIR/job is not a job directory (it holds 'photo.png' but no job.json): name an empty or new folder with --job-dir");

    let fixture = ClaimFixture::new();
    fs::write(fixture.job.root(), "").unwrap();
    insta::assert_snapshot!(fixture.text(fixture.claim()), @"DIR/job is not a folder: name an empty or new one");
}

#[test]
fn an_unknown_state_file_is_refused() {
    let fixture = ClaimFixture::new();
    write(fixture.job.state_file(), r#"{"version": 1, "job": {}}"#);
    insta::assert_snapshot!(fixture.text(fixture.claim()), @"DIR/job/job.json cannot be understood (its version is 1, this program knows 2): name another place with --job-dir, or use the version of sandmill that wrote it");
    for text in ["", "[]", "{}", r#"{"version": 2, "name": 3}"#] {
        write(fixture.job.state_file(), text);
        assert!(matches!(fixture.claim(), Err(ClaimError::UnknownState { .. })), "{text}");
    }
}

#[test]
fn overwrite_removes_what_the_job_made_and_follows_no_links() {
    let fixture = ClaimFixture::new();
    fixture.end(fixture.claim(), JobStatus::Completed);
    let precious = fixture.dir.path().join("precious/file");
    write(precious.clone(), "keep");
    let old = [
        fixture.job.journal(),
        fixture.job.root().join("journal.sqlite-wal"),
        fixture.job.parts().join("process000.part"),
        fixture.job.work().join("process000/output/x"),
        fixture.job.logs().join("job_result.txt"),
        fixture.job.default_output().join("rows.csv"),
        fixture.job.default_output().join("sub/published"),
    ];
    for path in &old {
        write(path.clone(), "old");
    }
    let notes = fixture.job.root().join("notes.txt");
    write(notes.clone(), "mine");
    symlink(precious.parent().unwrap(), fixture.job.work().join("link")).unwrap();
    fs::remove_dir_all(fixture.job.parts()).unwrap();
    symlink(precious.parent().unwrap(), fixture.job.parts()).unwrap();

    let claimed = fixture.claim().unwrap();
    for path in &old {
        assert!(path.symlink_metadata().is_err(), "{}", path.display());
    }
    assert!(claimed.output().is_dir() && notes.exists() && precious.exists());
}

#[test]
fn an_output_folder_elsewhere_belongs_to_one_job() {
    let fixture = ClaimFixture::new();
    let claimed = fixture.claim_with_output().unwrap();
    assert_eq!(claimed.output(), fixture.out().canonicalize().unwrap());
    assert_eq!(fs::read_dir(fixture.out()).unwrap().count(), 1, "its lock");
    // Another job, first at the same time and then later.
    let second = JobDir::new(fixture.dir.path().join("second"));
    let take = || claim(&second, "wine", Some(&fixture.out()));
    insta::assert_snapshot!(fixture.text(take()), @"another running job writes to the output folder DIR/out: name another folder for `output`");
    drop(claimed);
    write(fixture.out().join("rows.csv"), "old");
    insta::assert_snapshot!(fixture.text(take()), @"the output folder DIR/out is not empty (it holds 'rows.csv'): it may be another job's output; name an empty or new folder for `output`");
    // The refused job left its own directory free.
    claim(&second, "wine", None).unwrap();
}

#[test]
fn overwrite_replaces_only_rows_in_an_output_folder_elsewhere() {
    let fixture = ClaimFixture::new();
    fixture.end(fixture.claim_with_output(), JobStatus::Completed);
    let rows = fixture.out().join("rows.csv");
    let more = fixture.out().join("model.bin");
    write(rows.clone(), "old");
    write(more.clone(), "published");
    insta::assert_snapshot!(fixture.text(fixture.claim_with_output()), @"the output folder DIR/out holds 'model.bin' beside the rows of the earlier run, and only the rows can be replaced: remove the other files yourself, or name an empty or new folder for `output`");
    // The refusal has changed nothing.
    assert!(rows.exists());
    assert_eq!(fixture.state().status, JobStanding::Completed);
    fs::remove_file(&more).unwrap();
    fixture.claim_with_output().unwrap();
    assert!(!rows.exists());
}

#[test]
fn an_output_folder_inside_the_job_directory_is_cleared() {
    let fixture = ClaimFixture::new();
    let results = fixture.job.root().join("results");
    let take = || claim(&fixture.job, "iris", Some(&results));
    fixture.end(take(), JobStatus::Completed);
    write(results.join("published"), "old");
    take().unwrap();
    assert!(results.is_dir() && !results.join("published").exists());
}

#[test]
fn a_recorded_output_that_became_a_link_is_not_followed() {
    let fixture = ClaimFixture::new();
    let results = fixture.job.root().join("results");
    let take = |output: &Path| claim(&fixture.job, "iris", Some(output));
    fixture.end(take(&results), JobStatus::Completed);
    fs::remove_dir(&results).unwrap();
    let precious = fixture.dir.path().join("precious/rows.csv");
    write(precious.clone(), "keep");
    symlink(precious.parent().unwrap(), &results).unwrap();
    take(&fixture.job.root().join("fresh")).unwrap();
    assert!(take(&results).is_err());
    assert!(precious.exists());
}

#[test]
fn an_output_folder_in_the_way_is_refused() {
    let fixture = ClaimFixture::new();
    for output in
        [fixture.dir.path().to_owned(), fixture.job.root().to_owned(), fixture.job.logs().join("x")]
    {
        let refused = claim(&fixture.job, "iris", Some(&output));
        assert!(matches!(refused, Err(ClaimError::Misplaced { .. })), "{}", output.display());
    }
    let refused = claim(&fixture.job, "iris", Some(&fixture.job.parts()));
    insta::assert_snapshot!(fixture.text(refused), @"the output folder DIR/job/parts contains the job directory DIR/job, or is one of the job directory's own folders: name another folder for `output`");
}

#[test]
fn the_error_names_an_output_folder_that_cannot_be_made() {
    let fixture = ClaimFixture::new();
    write(fixture.out(), "a file");
    insta::assert_snapshot!(fixture.text(fixture.claim_with_output()), @"DIR/out is not a folder: name an empty or new one");
    let refused = claim(&fixture.job, "iris", Some(Path::new("/proc/nowhere/out")));
    assert!(fixture.text(refused).starts_with("cannot make the folder /proc/nowhere/out: "));
    // No process can write there, not even as root.
    let refused = claim(&fixture.job, "iris", Some(Path::new("/proc/self/fdinfo")));
    assert!(refused.is_err());
}

#[test]
fn a_claim_that_is_undone_leaves_no_trace() {
    let fixture = ClaimFixture::new();
    fixture.claim_with_output().unwrap().undo().unwrap();
    assert_eq!(fs::read_dir(fixture.dir.path()).unwrap().count(), 0);
    fs::create_dir(fixture.job.root()).unwrap();
    let claimed = fixture.claim().unwrap();
    write(fixture.job.logs().join("readme.txt"), "text");
    claimed.undo().unwrap();
    assert_eq!(fs::read_dir(fixture.job.root()).unwrap().count(), 0, "it was there, and empty");
    drop(claimed);
    fixture.end(fixture.claim(), JobStatus::Completed);
    let overwritten = fixture.claim().unwrap();
    overwritten.undo().unwrap();
    assert!(fixture.job.state_file().exists());
}

/// The job's mark is known before anything of an earlier run is removed. The mark labels the job's copies
/// elsewhere.
#[test]
fn a_mark_is_known_before_anything_changes() {
    let fixture = ClaimFixture::new();
    let held = fixture.lock(None).unwrap();
    let mark = held.mark().to_owned();
    assert!(!held.was_unmarked());
    fixture.end(held.begin(None, &mut |_| Ok(())), JobStatus::Completed);
    assert_eq!(fixture.state().mark, mark);
    let held = fixture.lock(None).unwrap();
    assert_eq!((held.mark(), held.was_unmarked()), (mark.as_str(), false));
    drop(held);
    // An earlier version wrote no mark.
    let mut state = fixture.state();
    state.mark.clear();
    state.write(&fixture.job.state_file()).unwrap();
    let held = fixture.lock(None).unwrap();
    assert!(held.was_unmarked() && !held.mark().is_empty());
}
