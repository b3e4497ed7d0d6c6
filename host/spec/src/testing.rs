//! One value of what tests build, for the fields that a test does not speak of.

use super::{Machine, ModelSpec, NoRegistry, OperatorPolicy, Surroundings};
use crate::model::{Backend, DeviceChoice};
use std::sync::LazyLock;

static MACHINE: LazyLock<Machine> = LazyLock::new(Machine::default);

impl<'a> Surroundings<'a> {
    /// Under a policy, without a registry, on a machine of one core.
    pub fn sample(policy: &'a OperatorPolicy) -> Self {
        Self { policy, registrations: &NoRegistry, machine: &MACHINE }
    }
}

impl ModelSpec {
    /// A file alone, of one byte, that anything may run anywhere.
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
