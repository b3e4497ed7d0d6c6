//! The stores that a job may use.

use super::file::PolicySettings;
use super::folder_use::FolderUse;
use crate::error::{ErrorReport, SettingOrigin};
use crate::model::{Address, StorePlace};
use crate::raw::RawJob;
use crate::{JobSpec, JobStorePlace};

impl PolicySettings {
    /// Refuses stores that are not datastores on the policy's list. A bare address is refused as well:
    /// Sandmill would open it with the credentials in the operator's own environment, for any user's job.
    /// `raw`: the job file's settings, for the line numbers.
    pub(super) fn check_store_names(
        &self,
        spec: &JobSpec,
        raw: Option<&RawJob>,
        report: &ErrorReport,
    ) {
        let mut reported = String::new();
        for (key, address) in spec.addresses() {
            // Report only one error for each key.
            if self.allows_store(&address) || reported == key {
                continue;
            }
            let message = format!("found {address}; {}", self.stores_rule());
            let origin = raw.and_then(|raw| raw.origin_of_address(&key));
            report.error(origin.unwrap_or(&SettingOrigin::File), &key, message);
            reported = key;
        }
    }

    fn allows_store(&self, address: &Address) -> bool {
        let allowed = self.datastores.as_ref().map_or(&[][..], |names| &names.value);
        matches!(&address.place, StorePlace::Datastore(name) if allowed.contains(name))
    }

    /// Refuses a place for the job store that the policy does not allow.
    pub(super) fn check_job_store(&self, place: &JobStorePlace, report: &ErrorReport) {
        match place {
            JobStorePlace::Folder(folder) => {
                self.check_path(FolderUse::JobStores, "job_store", folder, None, report);
            }
            JobStorePlace::Address(address) if self.allows_store(address) => {}
            JobStorePlace::Address(address) => {
                let message = format!("found {address}; {}", self.stores_rule());
                report.error(&SettingOrigin::File, "job_store", message);
            }
        }
    }

    /// Refuses to register something in a datastore that is not on the list.
    pub(super) fn check_registered_store(&self, name: &str, report: &ErrorReport) {
        let mut allowed = self.datastores.iter().flat_map(|names| &names.value);
        if !allowed.any(|allowed| allowed == name) {
            let message = format!("found {name}; {}", self.stores_rule());
            report.error(&SettingOrigin::File, "--datastore", message);
        }
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
