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

    fn hold(&self, output: Option<&Path>) -> Result<JobDirLock, ClaimError> {
        hold(&self.job, ClaimRequest { name: "iris", output, output_file: Some("rows.csv") })
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
    hold(job, ClaimRequest { name, output, output_file: Some("rows.csv") })?.begin(None)
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
    let place = ClaimFixture::new();
    let mut claimed = place.claim().unwrap();
    assert_eq!(claimed.output(), resolve(&place.job.default_output()).unwrap());
    assert!(claimed.output().is_dir());
    let state = place.state();
    assert_eq!((state.status, state.ended, state.times_resumed), (JobStanding::Running, None, 0));
    assert_eq!((state.id.as_str(), state.pid), (claimed.id(), std::process::id()));
    assert_eq!((state.started, state.output.as_path()), (claimed.started(), Path::new("output")));
    claimed.end(&result(JobStatus::Cancelled)).unwrap();
    assert_eq!(place.state().status, JobStanding::Cancelled);
    assert!(place.state().ended.is_some());
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
    let place = ClaimFixture::new();
    fs::create_dir(place.job.root()).unwrap();
    // A crash during the first write leaves this file.
    write(temporary(&place.job.state_file()), "{");
    place.claim().unwrap();
}

#[test]
fn locking_a_job_directory_changes_nothing() {
    let place = ClaimFixture::new();
    place.end(place.claim(), JobStatus::Failed);
    let state = place.state();
    let rows = place.job.default_output().join("rows.csv");
    write(rows.clone(), "1");
    drop(place.hold(Some(&place.out())).unwrap());
    assert!(place.state() == state && rows.exists() && !place.out().exists());
}

/// W15.
#[test]
fn a_resumed_job_keeps_its_files_and_state() {
    let place = ClaimFixture::new();
    place.end(place.claim_with_output(), JobStatus::Failed);
    let begun = place.state().begun;
    let id = place.state().id;
    let kept = [place.out().join("rows.csv"), place.out().join("a/published"), place.job.journal()];
    for path in &kept {
        write(path.clone(), "old");
    }
    let file = JobFile::new("job.yaml".as_ref(), &[]);
    let out = place.out();
    let claimed = place.hold(Some(&out)).unwrap().resume(Some(file.clone())).unwrap();
    assert!(claimed.has_earlier_run() && kept.iter().all(|path| path.exists()));
    let state = place.state();
    assert_eq!((state.status, state.times_resumed, state.begun), (JobStanding::Running, 1, begun));
    assert_ne!(state.id, id);
    assert_eq!(state.job_file, Some(file));
    claimed.undo().unwrap();
    assert!(kept.iter().all(|path| path.exists()), "existing files stay");
    assert_eq!((place.state().status, place.state().times_resumed), (JobStanding::Failed, 0));
    drop(claimed);
    drop(place.hold(Some(&out)).unwrap().resume(None).unwrap());
    assert_eq!(place.state().times_resumed, 1);
    let earlier =
        fs::read_to_string(place.job.state_file()).unwrap().replace("times_resumed", "taken_up");
    write(place.job.state_file(), &earlier);
    assert_eq!(place.state().times_resumed, 1, "an earlier version of Sandmill wrote it");
}

#[test]
fn a_job_directory_may_be_moved() {
    let mut place = ClaimFixture::new();
    place.end(place.claim(), JobStatus::Failed);
    let moved = place.dir.path().join("moved");
    fs::rename(place.job.root(), &moved).unwrap();
    place.job = JobDir::new(&moved);
    let held = place.hold(None).unwrap();
    assert_eq!(held.earlier_output().as_deref(), Some(held.output()));
}

/// C25.
#[test]
fn changed_results_of_a_completed_job_are_reported() {
    let place = ClaimFixture::new();
    let claimed = place.claim_with_output();
    let rows = place.out().join("rows.csv");
    let other = place.out().join("a/b.png");
    write(rows.clone(), "1\n2\n");
    write(other.clone(), "");
    place.end(claimed, JobStatus::Completed);
    let out = place.out();
    let describe = || {
        let changed = place.hold(Some(&out)).unwrap().output_changed().unwrap()?;
        let real = place.dir.path().canonicalize().unwrap();
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
    let place = ClaimFixture::new();
    place.end(place.claim_with_output(), JobStatus::Failed);
    assert_eq!(mode(place.job.root()), 0o700);
    assert_eq!(mode(&place.job.state_file()), 0o600);
    let usual = place.dir.path().join("usual");
    fs::create_dir(&usual).unwrap();
    assert_eq!(mode(&place.out()), mode(&usual), "the umask applies to outputs");
    fs::create_dir(place.job.logs()).unwrap();
    for open in [place.job.root().to_owned(), place.job.logs()] {
        fs::set_permissions(open, PermissionsExt::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(place.job.state_file(), PermissionsExt::from_mode(0o666)).unwrap();
    let mark = place.state().mark;
    let claimed = place.hold(Some(&place.out())).unwrap().resume(None).unwrap();
    assert_eq!(mode(place.job.root()), 0o700);
    assert_eq!([mode(&place.job.logs()), mode(&place.job.state_file())], [0o700, 0o600]);
    assert!(!mark.is_empty() && claimed.state.mark == mark, "it is the same job");
    drop(claimed);
    assert_eq!(place.claim_with_output().unwrap().state.mark, mark, "also when it starts over");
    assert_ne!(ClaimFixture::new().claim().unwrap().state.mark, mark);
}

#[test]
fn the_directory_of_a_running_job_is_refused() {
    let place = ClaimFixture::new();
    let _running = place.claim().unwrap();
    insta::assert_snapshot!(place.text(place.claim()), @"job 'iris' (process PID) is running in DIR/job: wait for it to end, or name another place with --job-dir");
}

#[test]
fn directories_of_other_jobs_and_foreign_files_are_refused() {
    let place = ClaimFixture::new();
    place.end(place.claim(), JobStatus::Completed);
    let other = claim(&place.job, "wine", None);
    insta::assert_snapshot!(place.text(other), @"DIR/job is the directory of job 'iris', not of 'wine': name another place with --job-dir");

    let place = ClaimFixture::new();
    write(place.job.root().join("photo.png"), "");
    insta::assert_snapshot!(place.text(place.claim()), @"DIR/job is not a job directory (it holds 'photo.png' but no job.json): name an empty or new folder with --job-dir");

    let place = ClaimFixture::new();
    fs::write(place.job.root(), "").unwrap();
    insta::assert_snapshot!(place.text(place.claim()), @"DIR/job is not a folder: name an empty or new one");
}

#[test]
fn an_unknown_state_file_is_refused() {
    let place = ClaimFixture::new();
    write(place.job.state_file(), r#"{"version": 1, "job": {}}"#);
    insta::assert_snapshot!(place.text(place.claim()), @"DIR/job/job.json cannot be understood (its version is 1, this program knows 2): name another place with --job-dir, or use the version of sandmill that wrote it");
    for text in ["", "[]", "{}", r#"{"version": 2, "name": 3}"#] {
        write(place.job.state_file(), text);
        assert!(matches!(place.claim(), Err(ClaimError::UnknownState { .. })), "{text}");
    }
}

#[test]
fn overwrite_removes_what_the_job_made_and_follows_no_links() {
    let place = ClaimFixture::new();
    place.end(place.claim(), JobStatus::Completed);
    let precious = place.dir.path().join("precious/file");
    write(precious.clone(), "keep");
    let old = [
        place.job.journal(),
        place.job.root().join("journal.sqlite-wal"),
        place.job.parts().join("process000.part"),
        place.job.work().join("process000/output/x"),
        place.job.logs().join("job_result.txt"),
        place.job.default_output().join("rows.csv"),
        place.job.default_output().join("sub/published"),
    ];
    for path in &old {
        write(path.clone(), "old");
    }
    let notes = place.job.root().join("notes.txt");
    write(notes.clone(), "mine");
    symlink(precious.parent().unwrap(), place.job.work().join("link")).unwrap();
    fs::remove_dir_all(place.job.parts()).unwrap();
    symlink(precious.parent().unwrap(), place.job.parts()).unwrap();

    let claimed = place.claim().unwrap();
    for path in &old {
        assert!(path.symlink_metadata().is_err(), "{}", path.display());
    }
    assert!(claimed.output().is_dir() && notes.exists() && precious.exists());
}

#[test]
fn an_output_folder_elsewhere_belongs_to_one_job() {
    let place = ClaimFixture::new();
    let claimed = place.claim_with_output().unwrap();
    assert_eq!(claimed.output(), place.out().canonicalize().unwrap());
    assert_eq!(fs::read_dir(place.out()).unwrap().count(), 1, "its lock");
    // Another job, first at the same time and then later.
    let second = JobDir::new(place.dir.path().join("second"));
    let take = || claim(&second, "wine", Some(&place.out()));
    insta::assert_snapshot!(place.text(take()), @"another running job writes to the output folder DIR/out: name another folder for `output`");
    drop(claimed);
    write(place.out().join("rows.csv"), "old");
    insta::assert_snapshot!(place.text(take()), @"the output folder DIR/out is not empty (it holds 'rows.csv'): it may be another job's output; name an empty or new folder for `output`");
    // The refused job left its own directory free.
    claim(&second, "wine", None).unwrap();
}

#[test]
fn overwrite_replaces_only_rows_in_an_output_folder_elsewhere() {
    let place = ClaimFixture::new();
    place.end(place.claim_with_output(), JobStatus::Completed);
    let rows = place.out().join("rows.csv");
    let more = place.out().join("model.bin");
    write(rows.clone(), "old");
    write(more.clone(), "published");
    insta::assert_snapshot!(place.text(place.claim_with_output()), @"the output folder DIR/out holds 'model.bin' beside the rows of the earlier run, and only the rows can be replaced: remove the other files yourself, or name an empty or new folder for `output`");
    // The refusal has changed nothing.
    assert!(rows.exists());
    assert_eq!(place.state().status, JobStanding::Completed);
    fs::remove_file(&more).unwrap();
    place.claim_with_output().unwrap();
    assert!(!rows.exists());
}

#[test]
fn an_output_folder_inside_the_job_directory_is_cleared() {
    let place = ClaimFixture::new();
    let results = place.job.root().join("results");
    let take = || claim(&place.job, "iris", Some(&results));
    place.end(take(), JobStatus::Completed);
    write(results.join("published"), "old");
    take().unwrap();
    assert!(results.is_dir() && !results.join("published").exists());
}

#[test]
fn a_recorded_output_that_became_a_link_is_not_followed() {
    let place = ClaimFixture::new();
    let results = place.job.root().join("results");
    let take = |output: &Path| claim(&place.job, "iris", Some(output));
    place.end(take(&results), JobStatus::Completed);
    fs::remove_dir(&results).unwrap();
    let precious = place.dir.path().join("precious/rows.csv");
    write(precious.clone(), "keep");
    symlink(precious.parent().unwrap(), &results).unwrap();
    take(&place.job.root().join("fresh")).unwrap();
    assert!(take(&results).is_err());
    assert!(precious.exists());
}

#[test]
fn an_output_folder_in_the_way_is_refused() {
    let place = ClaimFixture::new();
    for output in
        [place.dir.path().to_owned(), place.job.root().to_owned(), place.job.logs().join("x")]
    {
        let refused = claim(&place.job, "iris", Some(&output));
        assert!(matches!(refused, Err(ClaimError::Misplaced { .. })), "{}", output.display());
    }
    let refused = claim(&place.job, "iris", Some(&place.job.parts()));
    insta::assert_snapshot!(place.text(refused), @"the output folder DIR/job/parts is in the way of the job directory DIR/job: name a folder for `output` that neither holds the job directory nor is one of its own folders");
}

#[test]
fn the_error_names_an_output_folder_that_cannot_be_made() {
    let place = ClaimFixture::new();
    write(place.out(), "a file");
    insta::assert_snapshot!(place.text(place.claim_with_output()), @"DIR/out is not a folder: name an empty or new one");
    let refused = claim(&place.job, "iris", Some(Path::new("/proc/nowhere/out")));
    assert!(place.text(refused).starts_with("cannot make the folder /proc/nowhere/out: "));
    // No process can write there, not even as root.
    let refused = claim(&place.job, "iris", Some(Path::new("/proc/self/fdinfo")));
    assert!(refused.is_err());
}

#[test]
fn a_claim_that_is_undone_leaves_no_trace() {
    let place = ClaimFixture::new();
    place.claim_with_output().unwrap().undo().unwrap();
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
    fs::create_dir(place.job.root()).unwrap();
    let claimed = place.claim().unwrap();
    write(place.job.logs().join("readme.txt"), "text");
    claimed.undo().unwrap();
    assert_eq!(fs::read_dir(place.job.root()).unwrap().count(), 0, "it was there, and empty");
    drop(claimed);
    place.end(place.claim(), JobStatus::Completed);
    let overwritten = place.claim().unwrap();
    overwritten.undo().unwrap();
    assert!(place.job.state_file().exists());
}

/// The mark for copies elsewhere is known before anything of an earlier run is removed.
#[test]
fn a_mark_is_known_before_anything_changes() {
    let place = ClaimFixture::new();
    let held = place.hold(None).unwrap();
    let mark = held.mark().to_owned();
    assert!(!held.was_unmarked());
    place.end(held.begin(None), JobStatus::Completed);
    assert_eq!(place.state().mark, mark);
    let held = place.hold(None).unwrap();
    assert_eq!((held.mark(), held.was_unmarked()), (mark.as_str(), false));
    drop(held);
    // An earlier version wrote no mark.
    let mut state = place.state();
    state.mark.clear();
    state.write(&place.job.state_file()).unwrap();
    let held = place.hold(None).unwrap();
    assert!(held.was_unmarked() && !held.mark().is_empty());
}
