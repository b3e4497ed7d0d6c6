//! The roots of a policy.

use super::folder_use::FolderUse;
use super::overlap::{self, PolicyFolder};
use crate::error::{ErrorReport, SettingOrigin};
use crate::scope::{Located, UnreadNames};
use crate::tree::join;
use std::path::{Path, PathBuf};

/// The folders below which the paths of a job must be.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots(pub(super) Vec<PolicyRoot>);

#[derive(Clone, Debug)]
pub(super) struct PolicyRoot {
    pub(super) place: FolderUse,
    pub(super) origin: SettingOrigin,
    /// Without links.
    pub(super) folders: Vec<PathBuf>,
}

impl Roots {
    /// Reads the group `roots`. Each key must be present, so that no kind of path is left open by oversight.
    pub(super) fn read(mut group: UnreadNames<'_>, report: &ErrorReport) -> Self {
        let mut roots = Vec::new();
        let mut named = Vec::new();
        for place in FolderUse::ALL {
            if !group.has(place.key()) {
                let message = "missing; name the folders, or write [] for none";
                report.error(&group.origin, &join(&group.path, place.key()), message);
            }
            let Some(given) = group.texts(place.key()) else { continue };
            let mut folders = Vec::new();
            for given in given.value {
                let Some(folder) = root(&given, report) else { continue };
                folders.push(folder.clone());
                named.push(PolicyFolder { place, given, folder });
            }
            roots.push(PolicyRoot { place, origin: given.origin, folders });
        }
        overlap::refuse(&named, report);
        group.finish();
        Self(roots)
    }
}

fn root(given: &Located<String>, report: &ErrorReport) -> Option<PathBuf> {
    let path = Path::new(&given.value);
    if !path.is_absolute() {
        let message = format!("found {:?}; expected an absolute path to a folder", given.value);
        given.blame(report, message);
        return None;
    }
    match path.canonicalize() {
        Ok(real) if real.is_dir() => Some(real),
        Ok(_) => {
            given.blame(report, format!("{} is not a folder; name one", path.display()));
            None
        }
        Err(error) => {
            let message = format!(
                "{} cannot be used: {error}; make the folder, or take it out of the list",
                path.display()
            );
            given.blame(report, message);
            None
        }
    }
}
