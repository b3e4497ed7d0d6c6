//! Reads the roots of a policy: the folders below which the paths of a job must be.

use super::folder_use::FolderUse;
use super::overlap::{self, PolicyFolder};
use crate::error::{ErrorReport, SettingOrigin};
use crate::scope::{Located, UnreadNames};
use crate::tree::join;
use std::path::{Path, PathBuf};

/// The folders below which the paths of a job must be.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots(pub(super) Vec<PolicyRoot>);

/// The folders for one use.
#[derive(Clone, Debug)]
pub(super) struct PolicyRoot {
    pub(super) folder_use: FolderUse,
    pub(super) origin: SettingOrigin,
    /// The paths without links.
    pub(super) folders: Vec<PathBuf>,
}

impl Roots {
    /// Reads the group `roots`. Each key must be present unless a missing one allows nothing, so that no kind
    /// of path is left open by oversight.
    pub(super) fn read(mut group: UnreadNames<'_>, report: &ErrorReport) -> Self {
        let mut roots = Vec::new();
        let mut all_folders = Vec::new();
        for folder_use in FolderUse::ALL {
            if !group.has(folder_use.key()) && !folder_use.is_optional() {
                let message = "missing; name the folders, or write [] for none";
                report.error(&group.origin, &join(&group.path, folder_use.key()), message);
            }
            let Some(given) = group.texts(folder_use.key()) else { continue };
            let mut folders = Vec::new();
            for given in given.value {
                let Some(folder) = root_folder(&given, report) else { continue };
                folders.push(folder.clone());
                all_folders.push(PolicyFolder { folder_use, given, folder });
            }
            roots.push(PolicyRoot { folder_use, origin: given.origin, folders });
        }
        overlap::refuse(&all_folders, report);
        group.report_unread();
        Self(roots)
    }
}

fn root_folder(given: &Located<String>, report: &ErrorReport) -> Option<PathBuf> {
    let path = Path::new(&given.value);
    if !path.is_absolute() {
        let message = format!("found {:?}; expected an absolute path to a folder", given.value);
        given.blame(report, message);
        return None;
    }
    match path.canonicalize() {
        Ok(real) if real.is_dir() => Some(real),
        Ok(_) => {
            given.blame(report, format!("{} is not a folder; name a folder", path.display()));
            None
        }
        Err(error) => {
            let message = format!(
                "{} cannot be used: {error}; create the folder, or remove it from the list",
                path.display()
            );
            given.blame(report, message);
            None
        }
    }
}
