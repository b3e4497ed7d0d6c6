//! The libraries that machines choose for models.

use crate::model::Backend;
use crate::protocol::node::NodeFindings;
use serde_json::{Value, json};

/// The name of the setting that lets entry scripts load models.
pub(super) const GUEST_MODELS: &str = "inference.allow_guest_models";

/// The libraries that may compute with models, with their versions: what a node found. Empty if the job has no models.
pub fn backend_names(found: &NodeFindings) -> Vec<String> {
    let named = found.backends.iter().map(|found| match &found.version {
        Some(version) => format!("{} {version}", found.backend.name()),
        None => found.backend.name().to_owned(),
    });
    named.collect()
}

/// The settings without the library that a machine has chosen for models with the backend `auto`.
pub fn without_chosen_backends(settings: &[(String, String)]) -> Vec<(String, String)> {
    let auto = json!(Backend::Auto);
    let is_choice = |value: &Value| value.get(0) == Some(&auto);
    let without = |(name, text): &(String, String)| {
        let chosen = serde_json::from_str(text).ok().and_then(|mut value: Value| {
            let place = match &mut value {
                Value::Object(fields) if name.starts_with("models.") => {
                    fields.get_mut("backend")?
                }
                value if name == GUEST_MODELS => value,
                _ => return None,
            };
            *place = is_choice(place).then(|| auto.clone())?;
            Some(value.to_string())
        });
        (name.clone(), chosen.unwrap_or_else(|| text.clone()))
    };
    settings.iter().map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_backend_can_be_left_out() {
        let settings = |backend: &str| {
            let model = json!({"file": "m.onnx", "backend": ["auto", backend], "device": "cpu"});
            let named = json!({"file": "m.onnx", "backend": "tract", "device": "cpu"});
            let pairs = [
                ("models.digits", model),
                ("models.other", named),
                (GUEST_MODELS, json!(["auto", backend])),
                ("arguments", json!(["auto", backend])),
            ];
            pairs.map(|(name, value)| (name.to_owned(), value.to_string())).to_vec()
        };
        let one = settings("tract");
        let two = settings("libonnxruntime.so.1");
        let [left_one, left_two] = [&one, &two].map(|settings| without_chosen_backends(settings));
        assert_eq!(left_one[..3], left_two[..3]);
        assert_eq!(left_one[0].1, r#"{"backend":"auto","device":"cpu","file":"m.onnx"}"#);
        assert_eq!((&left_one[1], &left_one[3]), (&one[1], &one[3]));
    }
}
