//! Sample values, for fields that do not matter to a test.

use super::{LoadContext, MachineSize, ModelSpec, NoRegistry, OperatorPolicy};
use crate::model::{Backend, DeviceChoice};
use std::sync::LazyLock;

static MACHINE: LazyLock<MachineSize> = LazyLock::new(MachineSize::default);

impl<'a> LoadContext<'a> {
    /// A context with this policy, without a registry, on a machine with one core.
    pub fn sample(policy: &'a OperatorPolicy) -> Self {
        Self { policy, registrations: &NoRegistry, machine: &MACHINE, uploads: &[] }
    }
}

impl ModelSpec {
    /// A single file of one byte, with any backend and device.
    pub fn sample() -> Self {
        Self {
            name: "digits".to_owned(),
            file: "/m/model.onnx".into(),
            folder: None,
            bytes: 1,
            digest: None,
            digest_at: None,
            registered: None,
            backend: Backend::Auto,
            device: DeviceChoice::Auto,
            fallback: false,
        }
    }
}
