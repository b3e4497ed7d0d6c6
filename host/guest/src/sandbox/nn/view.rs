//! What of a store inference sees, and how its functions are linked.

use super::allowance::Allowance;
use super::bindings::{sandmill::entry::models, wasi::nn};
use crate::inference::Models;
#[cfg(any(test, feature = "testing"))]
use crate::model::InferenceSettings;
use crate::model::Limits;
use std::sync::Arc;
use wasmtime::Result;
use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::ResourceTable;

/// What an instance has of inference.
pub(in crate::sandbox) struct Inference {
    pub(super) models: Arc<Models>,
    pub(super) allowance: Allowance,
}

impl Inference {
    pub(in crate::sandbox) fn new(models: &Arc<Models>, limits: &Limits) -> Self {
        Self { models: Arc::clone(models), allowance: Allowance::new(limits.tensors) }
    }
}

/// For guests without models: what they ask for is refused.
#[cfg(any(test, feature = "testing"))]
pub fn no_models() -> Arc<Models> {
    let settings = InferenceSettings::default();
    Arc::new(Models::open(Vec::new(), &settings, None, 1, &Limits::default()))
}

/// What a function sees of its store.
pub(in crate::sandbox) struct View<'a> {
    pub(in crate::sandbox) table: &'a mut ResourceTable,
    pub(in crate::sandbox) inference: &'a mut Inference,
}

struct HasView;

impl HasData for HasView {
    type Data<'a> = View<'a>;
}

/// Links `wasi:nn` and `sandmill:entry/models`. They are there in jobs without models, too, so that what
/// a component may import does not hang on its job.
///
/// # Errors
/// If a name is taken, which would be a bug.
pub(in crate::sandbox) fn link<T>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> View<'_>,
) -> Result<()> {
    nn::tensor::add_to_linker::<_, HasView>(linker, view)?;
    nn::graph::add_to_linker::<_, HasView>(linker, view)?;
    nn::inference::add_to_linker::<_, HasView>(linker, view)?;
    nn::errors::add_to_linker::<_, HasView>(linker, view)?;
    models::add_to_linker::<_, HasView>(linker, view)
}
