//! The server's state folder, and the folders in it.

use crate::error::ServeError;
use crate::names::{JobId, TenantName};
use crate::state::ScriptDigest;
use sandmill_files::opening::make_private;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder that has everything a server keeps. Only the server's user can read it.
#[derive(Clone, Debug)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// Opens the folder at this path. Makes it, and the folders in it that are missing.
    ///
    /// # Errors
    /// If a folder cannot be made.
    pub fn open(root: &Path) -> Result<Self, ServeError> {
        let made = Self::make(root);
        made.map_err(|error| ServeError::Folder { path: root.to_owned(), error })
    }

    fn make(root: &Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        make_private(&root)?;
        let mode = std::fs::metadata(&root)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(io::Error::other(format!(
                "other users may use the folder (mode {mode:03o}): give the server a folder of its own with mode 700"
            )));
        }
        let root = root.canonicalize()?;
        let folders = Self(root);
        for folder in ["uploads", "components", "submitted", "jobs", "processes", "index"] {
            make_private(&folders.0.join(folder))?;
        }
        Ok(folders)
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The database.
    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("server.db")
    }

    /// A process that uses the state holds the lock of this file.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("server.lock")
    }

    /// The token of the first operator.
    pub(crate) fn operator_token(&self) -> PathBuf {
        self.0.join("operator-token")
    }

    /// The folder for files that are being uploaded.
    pub(crate) fn uploads(&self) -> PathBuf {
        self.0.join("uploads")
    }

    /// The folder below which the submitted job files and their entry scripts are.
    pub fn submitted(&self) -> PathBuf {
        self.0.join("submitted")
    }

    /// The folder below which the job directories are.
    pub fn jobs(&self) -> PathBuf {
        self.0.join("jobs")
    }

    /// The file of an uploaded entry script.
    pub(crate) fn script(&self, tenant: &TenantName, digest: &ScriptDigest) -> PathBuf {
        self.0.join("components").join(tenant.as_str()).join(digest.as_str())
    }

    /// The folder of a job's file and entry script.
    pub(crate) fn submitted_job(&self, tenant: &TenantName, id: &JobId) -> PathBuf {
        self.submitted().join(tenant.as_str()).join(id.as_str())
    }

    /// The job's directory.
    pub(crate) fn job(&self, tenant: &TenantName, id: &JobId) -> PathBuf {
        self.jobs().join(tenant.as_str()).join(id.as_str())
    }

    /// The file whose lock the job's process holds.
    pub(crate) fn process_lock(&self, id: &JobId) -> PathBuf {
        self.0.join("processes").join(format!("{id}.lock"))
    }

    /// What the job's process prints.
    pub(crate) fn process_text(&self, id: &JobId) -> PathBuf {
        self.0.join("processes").join(format!("{id}.txt"))
    }

    /// The index over a job's events. It may be removed: it is made again.
    pub(crate) fn index(&self, id: &JobId) -> PathBuf {
        self.0.join("index").join(format!("{id}.db"))
    }
}
