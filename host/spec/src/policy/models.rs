//! Checks the names of models, and whether the entry script may load models from bytes.

use super::file::PolicySettings;
use crate::ModelSpec;
use crate::error::{ErrorReport, SettingOrigin};
use crate::model::InferenceSettings;
use crate::raw::RawJob;

impl PolicySettings {
    /// Refuses models that are not on the policy's list. `raw`: the job file's settings, for the line
    /// numbers.
    pub(super) fn check_model_names(
        &self,
        models: &[ModelSpec],
        raw: Option<&RawJob>,
        report: &ErrorReport,
    ) {
        let given = raw.and_then(|raw| raw.models.as_ref());
        let allowed = self.models.as_ref().map_or(&[][..], |models| &models.value);
        for model in models.iter().filter(|model| !allowed.contains(&model.name)) {
            let raw = given
                .and_then(|given| given.value.iter().find(|given| given.name.value == model.name));
            let rule = match allowed {
                [] => String::from("allows none"),
                names => format!("allows only {}", names.join(", ")),
            };
            let rule_origin =
                self.models.as_ref().map_or(&SettingOrigin::File, |models| &models.origin);
            let message = format!(
                "found the model {:?}; the operator's policy {rule} (models, {})",
                model.name,
                self.file_and_line(rule_origin)
            );
            let origin = raw.map_or(&SettingOrigin::File, |raw| &raw.name.origin);
            report.error(origin, &format!("models.{}", model.name), message);
        }
    }

    /// Refuses models that the entry script loads from its own bytes, unless the policy allows them.
    pub(super) fn check_guest_models(
        &self,
        inference: &InferenceSettings,
        raw: Option<&RawJob>,
        report: &ErrorReport,
    ) {
        let rule = self.guest_models.as_ref();
        if inference.allow_guest_models && !rule.is_some_and(|allowed| allowed.value) {
            let given = raw.and_then(|raw| raw.inference.allow_guest_models.as_ref());
            let message = format!(
                "found true; the operator's policy does not allow models that the entry script loads \
                 from bytes \
                 (guest_models, {})",
                self.file_and_line(rule.map_or(&SettingOrigin::File, |rule| &rule.origin))
            );
            let origin = given.map_or(&SettingOrigin::File, |given| &given.origin);
            report.error(origin, "inference.allow_guest_models", message);
        }
    }
}
