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

/// Refuses a root of job directories or job stores that equals a root for another use, is in it, or
/// contains it.
pub(super) fn refuse(roots: &[PolicyFolder], report: &ErrorReport) {
    for (index, job) in roots.iter().enumerate().filter(|(_, root)| root.folder_use.is_private()) {
        // Of two private roots, the second one is reported.
        let is_other = |(at, other): &(usize, &PolicyFolder)| {
            other.folder_use != job.folder_use && (!other.folder_use.is_private() || *at < index)
        };
        let mut others = roots.iter().enumerate().filter(is_other);
        let Some((other, relation)) =
            others.find_map(|(_, other)| Some((other, relation(job, other)?)))
        else {
            continue;
        };
        let line = match &other.given.origin {
            SettingOrigin::Line(line) => format!(" on line {line}"),
            SettingOrigin::File | SettingOrigin::In(..) | SettingOrigin::Set(_) => String::new(),
        };
        let message = format!(
            "{} {relation} {} of roots.{}{line}; {} need a separate folder, neither in another \
             root nor around it, because other jobs must not read or write there: move one of the two \
             (roots.inputs and roots.outputs may overlap)",
            job.folder.display(),
            other.folder.display(),
            other.folder_use.key(),
            job.folder_use.phrase(),
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
