//! Refuses roots that overlap job directories.
//!
//! Entry scripts and Sandmill itself write into job directories. If a job could name a job directory as an
//! input or an output, it could read and change Sandmill's own data.

use super::folder_use::FolderUse;
use crate::error::{ErrorReport, SettingOrigin};
use crate::scope::Located;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A folder of the policy's roots.
pub(super) struct PolicyFolder {
    pub(super) folder_use: FolderUse,
    /// The path as written in the policy file.
    pub(super) given: Located<String>,
    /// The path without links.
    pub(super) folder: PathBuf,
}

/// Refuses a root of job directories that equals another root, is in it, or contains it.
pub(super) fn refuse(roots: &[PolicyFolder], report: &ErrorReport) {
    let (jobs, others): (Vec<_>, Vec<_>) =
        roots.iter().partition(|root| root.folder_use == FolderUse::JobDirectories);
    for job in &jobs {
        let Some((other, relation)) =
            others.iter().find_map(|other| Some((other, relation(job, other)?)))
        else {
            continue;
        };
        let line = match &other.given.origin {
            SettingOrigin::Line(line) => format!(" on line {line}"),
            SettingOrigin::File | SettingOrigin::In(..) | SettingOrigin::Set(_) => String::new(),
        };
        let message = format!(
            "{} {relation} {} of roots.{}{line}; job directories need a separate folder, neither in another \
             root nor around it, because other jobs must not read or write there: move one of the two \
             (roots.inputs and roots.outputs may overlap)",
            job.folder.display(),
            other.folder.display(),
            other.folder_use.key(),
        );
        job.given.blame(report, message);
    }
}

/// How the two folders overlap, as a phrase. `None` if they do not overlap.
fn relation(job: &PolicyFolder, other: &PolicyFolder) -> Option<&'static str> {
    match (is_in(&job.folder, &other.folder), is_in(&other.folder, &job.folder)) {
        (true, true) => Some("is the same folder as"),
        (true, false) => Some("is in"),
        (false, true) => Some("holds"),
        (false, false) => None,
    }
}

/// Whether `inner` is the folder `outer`, or is below it. Folders are also compared by device and inode,
/// because a folder has two paths if it is mounted twice or if the file system ignores case.
fn is_in(inner: &Path, outer: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let outer_id = id(outer);
    inner.starts_with(outer)
        || inner.ancestors().any(|folder| outer_id.is_some() && id(folder) == outer_id)
}
