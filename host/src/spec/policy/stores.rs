//! The stores that a job may read.

use super::file::Settings;
use crate::model::{Input, StorePlace};
use crate::spec::error::{Origin, Report};
use crate::spec::raw::RawJob;

impl Settings {
    /// Refuses stores that are not datastores on the list: an address alone would be opened with what the
    /// operator's own environment has, for whoever asks. `raw`: what the job file says, for its lines.
    pub(super) fn stores(&self, inputs: &[Input], raw: Option<&RawJob>, report: &Report) {
        let allowed = self.datastores.as_ref().map_or(&[][..], |names| &names.value);
        for input in inputs {
            for address in input.addresses() {
                let named = match &address.place {
                    StorePlace::Datastore(name) => Some(name),
                    _ => None,
                };
                if named.is_some_and(|name| allowed.contains(name)) {
                    continue;
                }
                let rule = match allowed {
                    [] => String::from("allows no datastores"),
                    names => format!("allows only the datastores {}", names.join(", ")),
                };
                let at = self.datastores.as_ref().map_or(&Origin::File, |names| &names.origin);
                let message = format!(
                    "found {address}; the operator's policy {rule} (datastores, {})",
                    self.at(at)
                );
                let given = raw.and_then(|raw| raw.inputs.as_ref());
                let given =
                    given.and_then(|all| all.value.iter().find(|it| it.name.value == input.name));
                let origin = given.map_or(&Origin::File, |raw| &raw.name.origin);
                report.error(origin, &format!("inputs.{}.path", input.name), message);
                // One error for one input.
                break;
            }
        }
    }
}
