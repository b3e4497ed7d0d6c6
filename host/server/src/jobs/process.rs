//! The processes of jobs. A process outlives the server that started it: it has no terminal, reads nothing, and writes to a
//! file. A server finds out whether it runs by a lock that the kernel releases when the process ends.

use crate::folders::StateFolder;
use crate::state::JobRecord;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sandmill_model::{CONTROL_SOCKET, JobDir};
use sandmill_wire::control::{ControlQuestion, ask};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The end of a process's text that explains why it failed. The rest is in the file.
const SHOWN_BYTES: u64 = 4000;
/// The job file in the folder of a submitted job.
pub(crate) const JOB_FILE: &str = "job.yaml";
/// The settings of a submitted job, as JSON: pairs of a key and a value.
pub(crate) const SETTINGS_FILE: &str = "settings.json";

/// Starts and finds the processes of jobs.
#[derive(Clone, Debug)]
pub(crate) struct JobProcesses {
    /// The program of Sandmill.
    pub(crate) program: PathBuf,
    /// The operator's policy.
    pub(crate) policy: PathBuf,
    /// The file with the datastores. `None` if there is none.
    pub(crate) datastores: Option<PathBuf>,
    pub(crate) folders: StateFolder,
}

impl JobProcesses {
    /// Starts the process of a job. It begins the job, or resumes it if its directory says that it began. `weight`: that of the
    /// job's tenant.
    ///
    /// # Errors
    /// If the process cannot be started, or another one runs the job.
    pub(crate) fn start(
        &self,
        job: &JobRecord,
        settings: &[(String, String)],
        weight: u32,
    ) -> io::Result<Child> {
        let lock = self.lock_file(job)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(io::Error::other("another process runs the job")),
            Err(errno) => return Err(errno.into()),
        }
        let text = self.folders.process_text(&job.id);
        let text = OpenOptions::new().create(true).append(true).mode(0o600).open(text)?;
        let dir = self.folders.job(&job.tenant, &job.id);
        let mut command = Command::new(&self.program);
        if has_begun(&JobDir::new(&dir)) {
            command.arg("resume").arg(&dir);
        } else {
            let file = self.folders.submitted_job(&job.tenant, &job.id).join(JOB_FILE);
            command.arg("run").arg(file).arg("--job-dir").arg(&dir);
            for (key, value) in settings {
                command.arg("--set").arg(format!("{key}={value}"));
            }
        }
        if let Some(datastores) = &self.datastores {
            command.arg("--datastores").arg(datastores);
        }
        // These are for the user who started the server.
        command.env_remove("SANDMILL_SERVER").env_remove("SANDMILL_TOKEN");
        command.arg("--policy").arg(&self.policy).arg("--tenant").arg(job.tenant.as_str());
        command.arg("--weight").arg(weight.to_string());
        // The process keeps the lock: it never closes its standard input.
        command.stdin(Stdio::from(lock)).stdout(Stdio::from(text.try_clone()?)).stderr(text);
        // A Ctrl-C at the server's terminal is not meant for the jobs.
        command.process_group(0).current_dir("/");
        command.spawn()
    }

    fn lock_file(&self, job: &JobRecord) -> io::Result<File> {
        let path = self.folders.process_lock(&job.id);
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
    }

    /// Whether the process of a job runs. Any server may have started it.
    ///
    /// # Errors
    /// If the lock cannot be tried.
    pub(crate) fn runs(&self, job: &JobRecord) -> io::Result<bool> {
        match flock(&self.lock_file(job)?, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Asks the process of a job to end. Returns false if it does not listen yet, or no longer.
    pub(crate) fn cancel(&self, job: &JobRecord, at_once: bool) -> bool {
        let dir = self.folders.job(&job.tenant, &job.id);
        ask(&dir, CONTROL_SOCKET, ControlQuestion::Cancel { at_once }).is_ok()
    }

    /// How much the processes of a job have printed so far.
    pub(crate) fn text_length(&self, job: &JobRecord) -> u64 {
        std::fs::metadata(self.folders.process_text(&job.id)).map_or(0, |found| found.len())
    }

    /// The last lines that the job's process has printed. `from`: how much was printed before.
    pub(crate) fn last_text(&self, job: &JobRecord, from: u64) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(self.folders.process_text(&job.id))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(from.max(length.saturating_sub(SHOWN_BYTES))))?;
            let mut bytes = Vec::new();
            file.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).trim().to_owned()
    }
}

/// Whether a job's directory says that the job began.
fn has_begun(dir: &JobDir) -> bool {
    dir.state_file().symlink_metadata().is_ok()
}
