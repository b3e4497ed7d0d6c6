//! The roots of a policy.

use super::overlap::{self, Named};
use super::place::Place;
use crate::error::{Origin, Report};
use crate::scope::{At, Scope};
use crate::tree::join;
use std::path::{Path, PathBuf};

/// The folders below which the paths of a job must be.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots(pub(super) Vec<Root>);

#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) place: Place,
    pub(super) origin: Origin,
    /// Without links.
    pub(super) folders: Vec<PathBuf>,
}

impl Roots {
    /// Reads the group `roots`. Each key must be present, so that no kind of path is left open by oversight.
    pub(super) fn read(mut group: Scope<'_>, report: &Report) -> Self {
        let mut roots = Vec::new();
        let mut named = Vec::new();
        for place in Place::ALL {
            if !group.has(place.key()) {
                let message = "missing; name the folders, or write [] for none";
                report.error(&group.origin, &join(&group.path, place.key()), message);
            }
            let Some(given) = group.texts(place.key()) else { continue };
            let mut folders = Vec::new();
            for given in given.value {
                let Some(folder) = root(&given, report) else { continue };
                folders.push(folder.clone());
                named.push(Named { place, given, folder });
            }
            roots.push(Root { place, origin: given.origin, folders });
        }
        overlap::refuse(&named, report);
        group.finish();
        Self(roots)
    }
}

fn root(given: &At<String>, report: &Report) -> Option<PathBuf> {
    let path = Path::new(&given.value);
    if !path.is_absolute() {
        let message = format!("found {:?}; expected an absolute path to a folder", given.value);
        given.blame(report, message);
        return None;
    }
    match path.canonicalize() {
        Ok(real) if real.is_dir() => Some(real),
        Ok(_) => {
            given.blame(report, format!("{} is no folder; name one", path.display()));
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
