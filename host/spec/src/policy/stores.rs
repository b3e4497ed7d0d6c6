//! The stores that a job may use.

use super::file::PolicySettings;
use super::folder_use::FolderUse;
use crate::error::{ErrorReport, SettingOrigin};
use crate::model::{Address, StorePlace, is_uploaded};
use crate::raw::RawJob;
use crate::{JobSpec, JobStorePlace};
use std::path::Path;

impl PolicySettings {
    /// Refuses stores that are not datastores on the policy's list, and addresses that are not below its `store_roots`.
    /// Without `store_roots`, a bare address is refused as well: Sandmill would open it with the credentials in the
    /// operator's own environment, for any user's job. `raw`: the job file's settings, for the line numbers.
    pub(super) fn check_store_names(
        &self,
        spec: &JobSpec,
        raw: Option<&RawJob>,
        report: &ErrorReport,
    ) {
        let mut reported = String::new();
        for (key, address) in spec.addresses() {
            // Report only one error for each key.
            if reported == key || is_uploaded_data(spec, &key, &address) {
                continue;
            }
            let Err(rule) = self.check_address(&address, use_of(&key)) else { continue };
            let message = format!("found {address}; {rule}");
            let origin = raw.and_then(|raw| raw.origin_of_address(&key));
            report.error(origin.unwrap_or(&SettingOrigin::File), &key, message);
            reported = key;
        }
    }

    /// Refuses a place for the job store that the policy does not allow.
    pub(super) fn check_job_store(&self, place: &JobStorePlace, report: &ErrorReport) {
        match place {
            JobStorePlace::Folder(folder) => {
                self.check_path(FolderUse::JobStores, "job_store", folder, None, report);
            }
            JobStorePlace::Address(address) => {
                if let Err(rule) = self.check_address(address, FolderUse::JobStores) {
                    let message = format!("found {address}; {rule}");
                    report.error(&SettingOrigin::File, "job_store", message);
                }
            }
        }
    }

    /// Checks an address for one use. The error is the policy's rule.
    fn check_address(&self, address: &Address, folder_use: FolderUse) -> Result<(), String> {
        if let StorePlace::Datastore(name) = &address.place
            && !self.has_datastore(name)
        {
            return Err(self.stores_rule());
        }
        match (&self.store_roots, &address.place) {
            (Some(roots), _) => roots.check(address, folder_use).map_err(|(rule, key, origin)| {
                format!("the operator's policy {rule} ({key}, {})", self.file_and_line(origin))
            }),
            (None, StorePlace::Datastore(_)) => Ok(()),
            (None, _) => Err(self.stores_rule()),
        }
    }

    /// Refuses to register something in a datastore that is not on the list.
    pub(super) fn check_registered_store(&self, name: &str, report: &ErrorReport) {
        if !self.has_datastore(name) {
            let message = format!("found {name}; {}", self.stores_rule());
            report.error(&SettingOrigin::File, "--datastore", message);
        }
    }

    fn has_datastore(&self, name: &str) -> bool {
        let mut allowed = self.datastores.iter().flat_map(|names| &names.value);
        allowed.any(|allowed| allowed == name)
    }

    /// The policy's rule for stores, and where the policy file gives the rule.
    fn stores_rule(&self) -> String {
        let allowed = self.datastores.as_ref().map_or(&[][..], |names| &names.value);
        let rule = match allowed {
            [] => String::from("allows no datastores"),
            names => format!("allows only the datastores {}", names.join(", ")),
        };
        let origin = self.datastores.as_ref().map_or(&SettingOrigin::File, |names| &names.origin);
        format!("the operator's policy {rule} (datastores, {})", self.file_and_line(origin))
    }
}

/// Whether data of the job was uploaded to this address in its job store. The job store itself is checked, too.
fn is_uploaded_data(spec: &JobSpec, key: &str, address: &Address) -> bool {
    let store = spec.job_store.as_ref().and_then(JobStorePlace::address);
    let Some(store) = store.filter(|store| store.place == address.place) else { return false };
    let named = if address.is_glob() { address.split().0 } else { &address.key };
    let job = Path::new(&store.key).join(&spec.name);
    !matches!(key, "output" | "job_store") && is_uploaded(&job, Path::new(named))
}

/// What a job uses the address at this key for.
fn use_of(key: &str) -> FolderUse {
    match key {
        "output" => FolderUse::Outputs,
        "job_store" => FolderUse::JobStores,
        key if key.starts_with("inputs.") => FolderUse::Inputs,
        key if key.starts_with("models.") => FolderUse::Models,
        _ => FolderUse::SideInputs,
    }
}
