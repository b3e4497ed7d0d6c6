//! Job directories and the other roots: neither may reach into the other.
//!
//! Entry scripts and Sandmill itself write into job directories. A job that may name one of them as an input or an
//! output reads and writes what the policy meant for Sandmill alone.

use super::place::Place;
use crate::error::{Origin, Report};
use crate::scope::At;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A folder of the policy's roots.
pub(super) struct Named {
    pub(super) place: Place,
    /// As the policy file has it.
    pub(super) given: At<String>,
    /// Without links.
    pub(super) folder: PathBuf,
}

/// Refuses job directories that lie in another root, hold one or are one.
pub(super) fn refuse(roots: &[Named], report: &Report) {
    let (jobs, others): (Vec<_>, Vec<_>) =
        roots.iter().partition(|root| root.place == Place::JobDirectories);
    for job in &jobs {
        let Some((other, how)) = others.iter().find_map(|other| Some((other, how(job, other)?)))
        else {
            continue;
        };
        let line = match &other.given.origin {
            Origin::Line(line) => format!(" on line {line}"),
            Origin::File | Origin::In(..) | Origin::Set(_) => String::new(),
        };
        let message = format!(
            "{} {how} {} of roots.{}{line}; job directories need a folder of their own that neither lies in another \
             root nor holds one, as jobs write there what no other job may name: move one of the two (roots.inputs \
             and roots.outputs may overlap)",
            job.folder.display(),
            other.folder.display(),
            other.place.key(),
        );
        job.given.blame(report, message);
    }
}

fn how(job: &Named, other: &Named) -> Option<&'static str> {
    match (lies_in(&job.folder, &other.folder), lies_in(&other.folder, &job.folder)) {
        (true, true) => Some("is the same folder as"),
        (true, false) => Some("lies in"),
        (false, true) => Some("holds"),
        (false, false) => None,
    }
}

/// Whether one folder is another or lies below it. Folders are compared by device and inode, too: one folder has two
/// paths where it is mounted twice, or where the file system ignores case.
fn lies_in(inner: &Path, outer: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let outer_id = id(outer);
    inner.starts_with(outer)
        || inner.ancestors().any(|folder| outer_id.is_some() && id(folder) == outer_id)
}
