//! Reads the roots of a policy: the folders below which the paths of a job must be.

use super::folder_use::FolderUse;
use super::overlap::{self, PolicyFolder};
use super::real::real_path;
use crate::error::{ErrorReport, SettingOrigin};
use crate::scope::{Located, UnreadNames};
use crate::tree::join;
use std::io::ErrorKind;
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
    /// The folders for a use. `None` if there is no such key, so that no folder is allowed.
    pub(super) fn of_use(&self, folder_use: FolderUse) -> Option<&PolicyRoot> {
        self.0.iter().find(|root| root.folder_use == folder_use)
    }
}

/// In a root, this stands for the name of the job's tenant.
const TENANT_VARIABLE: &str = "${tenant}";

/// Reads the roots of a policy. Remembers all their folders, to compare them with each other.
pub(super) struct RootsReader {
    folders: Vec<PolicyFolder>,
    /// The tenant for whose jobs the policy is read. `None` if it is read for no tenant in particular.
    tenant: Option<String>,
}

impl RootsReader {
    /// Reads roots for the jobs of this tenant.
    pub(super) fn new(tenant: Option<&str>) -> Self {
        Self { folders: Vec::new(), tenant: tenant.map(str::to_owned) }
    }

    /// Reads a group `roots`. `for_all`: the roots for all jobs, if the group is for the jobs of one signer. Then its
    /// folders must be below these roots, which also apply to uses that the group leaves out. Without such roots, each
    /// key must be present unless a missing one allows nothing, so that no kind of path is left open by oversight.
    pub(super) fn read(
        &mut self,
        mut group: UnreadNames<'_>,
        for_all: Option<&Roots>,
        report: &ErrorReport,
    ) -> Roots {
        let mut roots = Vec::new();
        for folder_use in FolderUse::ALL {
            let key = folder_use.key();
            let limit = for_all.map(|roots| roots.of_use(folder_use));
            if !group.has(key) {
                match limit {
                    Some(limit) => roots.extend(limit.cloned()),
                    None if folder_use.is_optional() => {}
                    None => {
                        let message = "missing; name the folders, or write [] for none";
                        report.error(&group.origin, &join(&group.path, key), message);
                    }
                }
                continue;
            }
            let Some(given) = group.texts(key) else { continue };
            let mut folders = Vec::new();
            for given in given.value {
                let Some(folder) = self.root_folder(&given, report) else { continue };
                if let Some(limit) = limit {
                    refuse_above(&folder, &given, folder_use, limit, report);
                }
                folders.push(folder.clone());
                self.folders.push(PolicyFolder { folder_use, given, folder });
            }
            roots.push(PolicyRoot { folder_use, origin: given.origin, folders });
        }
        group.report_unread();
        Roots(roots)
    }

    /// Refuses folders with Sandmill's own data that overlap other folders.
    pub(super) fn refuse_overlaps(self, report: &ErrorReport) {
        overlap::refuse(&self.folders, report);
    }

    /// The folder of a root. `None` if it allows nothing, or is wrong.
    fn root_folder(&self, given: &Located<String>, report: &ErrorReport) -> Option<PathBuf> {
        if !given.value.contains(TENANT_VARIABLE) {
            return root_folder(given, report);
        }
        let Some(tenant) = &self.tenant else {
            let message = format!(
                "found {:?}, and the command names no tenant: add --tenant NAME",
                given.value
            );
            given.blame(report, message);
            return None;
        };
        let value = given.value.replace(TENANT_VARIABLE, tenant);
        let is_missing = Path::new(&value)
            .symlink_metadata()
            .is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if is_missing && Path::new(&value).is_absolute() {
            // The folder may be made later, when the tenant has something in it.
            return real_path(Path::new(&value))
                .map_err(|error| given.blame(report, error.to_string()))
                .ok();
        }
        let (key, origin) = (given.key.clone(), given.origin.clone());
        root_folder(&Located { value, key, origin }, report)
    }
}

/// Refuses a folder for the jobs of one signer that is not below the folders for all jobs.
fn refuse_above(
    folder: &Path,
    given: &Located<String>,
    folder_use: FolderUse,
    limit: Option<&PolicyRoot>,
    report: &ErrorReport,
) {
    let allowed = limit.map_or(&[][..], |root| root.folders.as_slice());
    if allowed.iter().any(|root| folder.starts_with(root)) {
        return;
    }
    let listed: Vec<String> = allowed.iter().map(|root| root.display().to_string()).collect();
    let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
    let key = folder_use.key();
    let message = format!(
        "found {}, which is not below the folders for all jobs ({listed}): name a folder below, or add this one to \
         roots.{key}",
        folder.display()
    );
    given.blame(report, message);
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

/// Whether entry scripts may come from a job's store. `rule`: what the policy says.
pub(super) fn allows_stored_scripts(rule: Option<&Located<bool>>, roots: Option<&Roots>) -> bool {
    rule.map_or(roots.is_none(), |rule| rule.value)
}
