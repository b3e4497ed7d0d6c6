//! `job.json` records which job a job directory belongs to, the state of that job, and what `sandmill resume`
//! needs to know to resume it.

use super::ClaimError;
use crate::model::{
    ContentRef, JobDir, JobResult, JobStatus, LOCK_FILE, Latest, SignerKey, UploadedData,
    printable_json,
};
use crate::opening::regular;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The format of `job.json` that this build writes and reads.
const STATE_VERSION: u32 = 2;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStanding {
    /// The job is running if its directory is locked. Otherwise it was interrupted.
    Running,
    /// The job is completed.
    Completed,
    /// The job failed.
    Failed,
    /// The user stopped the job.
    Cancelled,
}

impl JobStanding {
    /// What happened to a job that is not running, as in "was interrupted".
    pub fn how(self) -> &'static str {
        match self {
            Self::Running => "was interrupted",
            Self::Completed => "was completed",
            Self::Failed => "failed",
            Self::Cancelled => "was cancelled",
        }
    }
}

impl From<JobStatus> for JobStanding {
    fn from(status: JobStatus) -> Self {
        match status {
            JobStatus::Completed => Self::Completed,
            JobStatus::Failed => Self::Failed,
            JobStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// Where a job comes from. With this, the job can be loaded again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    /// The job file. Absolute.
    pub path: PathBuf,
    /// Settings given in addition to the file, as [`load`](crate::spec::load) takes them.
    pub overrides: Vec<(String, String)>,
    /// The versions that "latest" meant for registered datasets and models.
    #[serde(default)]
    pub latest: Vec<Latest>,
    /// What other machines need of the job, in its store. `None` without a broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ContentRef>,
    /// What replaces paths of the submitter's machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uploads: Vec<UploadedData>,
}

impl JobFile {
    /// A job file, with settings given in addition. If a key is given more than once, the last one counts.
    pub fn new(path: &Path, overrides: &[(String, String)]) -> Self {
        let is_given_later =
            |index: usize, key: &str| overrides[index + 1..].iter().any(|(k, _)| k == key);
        let kept =
            overrides.iter().enumerate().filter(|(index, (key, _))| !is_given_later(*index, key));
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            overrides: kept.map(|(_, pair)| pair.clone()).collect(),
            latest: Vec::new(),
            source: None,
            uploads: Vec::new(),
        }
    }
}

/// Who started a run of a job, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedBy {
    /// The run's tenant.
    pub tenant: String,
    /// The user ID of the run's processes.
    pub uid: u32,
    /// The version of Sandmill that runs the job.
    pub version: String,
    /// The command line. Empty if a program runs the job through the library.
    pub command: Vec<String>,
    /// The operator's policy. `None` if there is none.
    pub policy: Option<PolicyUsed>,
    /// The key with which the run's leader signs what nodes execute. `None` if it signs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<SignerKey>,
    /// Whether an agent started the run, because a user submitted the job or its leader was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
}

/// A policy file as it was when a run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyUsed {
    /// The file's absolute path.
    pub file: PathBuf,
    /// The SHA-256 of the file's text, in hexadecimal.
    pub sha256: String,
}

/// The size of an output folder when its job completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSize {
    /// Bytes in the output file. `None` if rows are only counted.
    pub file_bytes: Option<u64>,
    /// The number of files in the folder and its subfolders.
    pub files: u64,
}

/// What `job.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    /// The version of the file's format.
    pub(super) version: u32,
    /// The job's name.
    pub name: String,
    /// The id of the job's latest run.
    pub id: String,
    /// A mark that all runs of the job in this directory share, and no other job has. Empty if an earlier
    /// version of Sandmill began the job.
    #[serde(default)]
    pub(super) mark: String,
    /// The state of the job.
    pub status: JobStanding,
    /// The output folder. Relative to the job directory if the output is inside it.
    pub output: PathBuf,
    /// The address in a store to which the results go from there. `None` if they stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<String>,
    /// Whether the job is completed, and its results are not yet all at the address [`results`](Self::results).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unpublished: bool,
    /// The file for rows in the output folder.
    pub output_file: Option<String>,
    /// The process of the latest run.
    pub pid: u32,
    /// When the job was begun.
    pub begun: Timestamp,
    /// When the latest run was started.
    pub started: Timestamp,
    /// When the latest run ended. `None` if it is running, or was interrupted.
    pub ended: Option<Timestamp>,
    /// How often the job was resumed. Earlier versions of Sandmill called it `taken_up`.
    #[serde(alias = "taken_up")]
    pub times_resumed: u32,
    /// Whether the job directory was made from a commit log. Then the log must be there, also if the directory
    /// has no journal yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_from_log: bool,
    /// The folder of the job's run in the job store. `None` if the job has no store, or if an earlier version of
    /// Sandmill started its latest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_folder: Option<PathBuf>,
    /// Requests in the job store to cancel the job count if the commit log had at least this many records when they
    /// were made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) cancels_from: u64,
    /// Who started the latest run. `None` if an earlier version of Sandmill did.
    #[serde(default)]
    pub started_by: Option<StartedBy>,
    /// Where the job comes from. `None` if a program created it.
    pub job_file: Option<JobFile>,
    /// The job's result.
    pub result: Option<JobResult>,
    /// The size of the output when the job completed.
    pub output_size: Option<OutputSize>,
}

impl JobState {
    /// The output folder that machines which continue the job share, with the lock of its leader. `None` if the
    /// results go to an address: then each machine has an output folder of its own.
    pub(super) fn shared_output(&self) -> Option<&Path> {
        self.results.is_none().then_some(self.output.as_path())
    }

    /// The output folder, or the address to which the results go.
    pub fn output_shown(&self) -> &Path {
        self.results.as_ref().map_or(&self.output, Path::new)
    }

    /// A job that begins now.
    pub(super) fn new(name: &str, id: String, started: Timestamp) -> Self {
        Self {
            version: STATE_VERSION,
            name: name.to_owned(),
            id,
            mark: String::new(),
            status: JobStanding::Running,
            output: PathBuf::new(),
            results: None,
            is_unpublished: false,
            output_file: None,
            pid: std::process::id(),
            begun: started,
            started,
            ended: None,
            times_resumed: 0,
            is_from_log: false,
            run_folder: None,
            cancels_from: 0,
            started_by: None,
            job_file: None,
            result: None,
            output_size: None,
        }
    }

    /// Where nodes on other machines write their logs until the job ends, and its leader copies them to the job
    /// directory. `None` if the job has ended, or has no store.
    pub fn node_logs(&self) -> Option<JobDir> {
        let run = self.run_folder.as_ref().filter(|_| self.status == JobStanding::Running)?;
        Some(workers_of_run(run))
    }

    /// Reads the state of a job directory. `None` if there is no state file.
    ///
    /// # Errors
    /// If the file cannot be read, or does not have the format that this version writes.
    pub fn read(job_dir: &JobDir) -> Result<Option<Self>, ClaimError> {
        let path = &job_dir.state_file();
        let text = match regular(path).and_then(|(file, _)| io::read_to_string(file)) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(e) => return Err(ClaimError::io("read", path, e)),
        };
        let unknown = |what: String| ClaimError::UnknownState { path: path.to_owned(), what };
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| unknown(e.to_string()))?;
        Self::parse(value).map(Some).map_err(unknown)
    }

    /// Reads the content of a state file. The error says what is wrong with it.
    pub(super) fn parse(value: serde_json::Value) -> Result<Self, String> {
        // Check the version first: other versions may have other fields.
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(STATE_VERSION) => {}
            Some(version) => {
                return Err(format!(
                    "its version is {version}, this program knows {STATE_VERSION}"
                ));
            }
            None => return Err("it has no version".into()),
        }
        serde_json::from_value(value).map_err(|e| e.to_string())
    }

    /// Replaces the file atomically, so that a reader never sees half of it.
    pub(super) fn write(&self, path: &Path) -> Result<(), ClaimError> {
        self.write_without_folder_sync(path)?;
        sync_name(path)
    }

    /// Like [`write`](Self::write), but the file's name is durable only after [`sync_name`] was called.
    pub(super) fn write_without_folder_sync(&self, path: &Path) -> Result<(), ClaimError> {
        let temporary = temporary(path);
        let write = || -> io::Result<()> {
            let mut options = File::options();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&temporary)?;
            // The command line's settings may be secrets, and a crash may leave the temporary file. So the
            // file is private from the start.
            file.set_permissions(Permissions::from_mode(0o600))?;
            let text = serde_json::to_string_pretty(self)? + "\n";
            file.write_all(printable_json(&text).as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        };
        write().map_err(|e| ClaimError::io("write", path, e))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Syncs the folder of a state file, so that the file's name is durable.
pub(super) fn sync_name(path: &Path) -> Result<(), ClaimError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|e| ClaimError::io("write", path, e))
}

/// The temporary path at which a state file is written before it is renamed.
pub(super) fn temporary(path: &Path) -> PathBuf {
    path.with_extension("json.new")
}

/// The directory for the files of a run's workers, if they run on several machines. `run`: the folder of the run in
/// the job's store.
pub(super) fn workers_of_run(run: &Path) -> JobDir {
    JobDir::new(run.join("workers"))
}

/// The size of the output folder of a completed job.
pub(super) fn output_size(output: &Path, file: Option<&str>) -> Result<OutputSize, ClaimError> {
    let files_in = |folder: &Path| {
        let entries = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
        entries.filter(|entry| !entry.file_type().is_dir() && entry.file_name() != LOCK_FILE)
    };
    let file = file.map(|file| output.join(file)).filter(|file| file.exists());
    // If the output is a folder of parts, this is the size of all files in it.
    let bytes = |file: &PathBuf| {
        files_in(file).filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    };
    Ok(OutputSize { file_bytes: file.as_ref().map(bytes), files: files_in(output).count() as u64 })
}

/// The id of a run that starts now.
pub(super) fn new_id(now: Timestamp) -> String {
    // The standard library's hasher is seeded randomly.
    let random = RandomState::new().hash_one((std::process::id(), now.as_nanosecond()));
    format!("{}-{:08x}", now.strftime("%Y%m%dT%H%M%SZ"), random & 0xffff_ffff)
}

/// A mark that no other job has.
pub(super) fn new_mark() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_settings_is_remembered() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let given = [pair("a", "1"), pair("b", "2"), pair("a", "3")];
        let file = JobFile::new("job.yaml".as_ref(), &given);
        assert!(file.path.is_absolute());
        assert_eq!(file.overrides, [pair("b", "2"), pair("a", "3")]);
    }

    #[test]
    fn a_written_state_is_read_back_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let job_dir = JobDir::new(dir.path());
        assert_eq!(JobState::read(&job_dir).unwrap(), None);
        let mut state = JobState::new("iris", "id".into(), Timestamp::UNIX_EPOCH);
        state.output_size = Some(OutputSize { file_bytes: None, files: 3 });
        state.write(&job_dir.state_file()).unwrap();
        assert_eq!(JobState::read(&job_dir).unwrap(), Some(state));
        assert!(!temporary(&job_dir.state_file()).exists());
    }

    /// Earlier versions recorded no signer.
    #[test]
    fn a_state_without_a_signer_is_read() {
        let mut state = JobState::new("iris", "id".into(), Timestamp::UNIX_EPOCH);
        state.started_by = Some(StartedBy::default());
        let unsigned = serde_json::to_value(&state).unwrap();
        assert_eq!(unsigned["started_by"].get("signer"), None);
        assert_eq!(JobState::parse(unsigned), Ok(state.clone()));
        state.started_by =
            Some(StartedBy { signer: Some(SignerKey([7; 32])), ..Default::default() });
        assert_eq!(JobState::parse(serde_json::to_value(&state).unwrap()), Ok(state));
    }

    #[test]
    fn only_the_owner_can_read_stored_settings() {
        let dir = tempfile::tempdir().unwrap();
        let path = JobDir::new(dir.path()).state_file();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let mut state = JobState::new("iris", "id".into(), Timestamp::UNIX_EPOCH);
        state.job_file = Some(JobFile::new("job.yaml".as_ref(), &[]));
        state.write(&path).unwrap();
        assert_eq!(mode(), 0o600);
        let token = ("environment_variables.TOKEN".to_owned(), "secret".to_owned());
        state.job_file = Some(JobFile::new("job.yaml".as_ref(), &[token]));
        state.write(&path).unwrap();
        assert_eq!(mode(), 0o600);
    }
}
