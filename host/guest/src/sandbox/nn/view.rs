//! The part of a store that inference uses, and the linking of its functions.

use super::allowance::Allowance;
use super::bindings::sandmill::entry::models::{self, Host as _};
use super::bindings::wasi::nn;
use crate::inference::LoadedModels;
#[cfg(any(test, feature = "testing"))]
use crate::model::InferenceSettings;
use crate::model::Limits;
use std::sync::Arc;
use wasmtime::component::{HasData, Linker};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::ResourceTable;

/// The inference state of an instance.
pub(in crate::sandbox) struct InferenceState {
    pub(super) models: Arc<LoadedModels>,
    pub(super) allowance: Allowance,
}

impl InferenceState {
    pub(in crate::sandbox) fn new(models: &Arc<LoadedModels>, limits: &Limits) -> Self {
        Self { models: Arc::clone(models), allowance: Allowance::new(limits.tensors) }
    }
}

/// An empty set of models, for guests without models. All requests of such a guest are refused.
#[cfg(any(test, feature = "testing"))]
pub fn no_models() -> Arc<LoadedModels> {
    let settings = InferenceSettings::default();
    Arc::new(LoadedModels::open(Vec::new(), &settings, None, 1, &Limits::default()))
}

/// The part of the store that a function uses.
pub(in crate::sandbox) struct View<'a> {
    pub(in crate::sandbox) table: &'a mut ResourceTable,
    pub(in crate::sandbox) inference: &'a mut InferenceState,
}

struct HasView;

impl HasData for HasView {
    type Data<'a> = View<'a>;
}

/// Links `wasi:nn` and `sandmill:entry/models`. Jobs without models have these interfaces too, so that a
/// component's permitted imports do not depend on its job.
///
/// # Errors
/// If a name is already defined, which would be a bug.
pub(in crate::sandbox) fn link<T: 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> View<'_>,
) -> Result<()> {
    nn::tensor::add_to_linker::<_, HasView>(linker, view)?;
    nn::graph::add_to_linker::<_, HasView>(linker, view)?;
    nn::inference::add_to_linker::<_, HasView>(linker, view)?;
    nn::errors::add_to_linker::<_, HasView>(linker, view)?;
    models::add_to_linker::<_, HasView>(linker, view)?;
    // Versions 0.1 and 0.2 of the interface have the same functions.
    let mut first_models = linker.instance("sandmill:entry/models@0.1.0")?;
    first_models.func_wrap("names", move |mut cx: StoreContextMut<'_, T>, (): ()| {
        Ok((view(cx.data_mut()).names()?,))
    })?;
    first_models.func_wrap("describe", move |mut cx: StoreContextMut<'_, T>, (name,): (String,)| {
        Ok((view(cx.data_mut()).describe(name)?,))
    })
}
