//! The interface `sandmill:entry/models`.

use super::bindings::sandmill::entry::models::{self, Description, Host};
use super::ended::ended;
use super::view::View;
use crate::inference::{InferenceError, ModelDimension, ModelElementType, ModelPort};
use wasmtime::Result;

impl Host for View<'_> {
    fn names(&mut self) -> Result<Vec<String>> {
        let mut names = self.inference.models.names();
        names.sort_unstable();
        Ok(names)
    }

    fn describe(&mut self, name: String) -> Result<Result<Description, String>> {
        let model = match self.inference.models.load(&name) {
            Ok(model) => model,
            Err(InferenceError::Refused { message, .. }) => return Ok(Err(message)),
            Err(InferenceError::Ends { kind, message }) => return Err(ended(kind, message)),
        };
        let facts = model.facts();
        Ok(Ok(Description {
            name,
            backend: facts.backend.name().to_owned(),
            device: facts.device.to_string(),
            fell_back: facts.fell_back,
            inputs: facts.inputs.iter().map(port).collect(),
            outputs: facts.outputs.iter().map(port).collect(),
        }))
    }
}

fn port(port: &ModelPort) -> models::Port {
    let dimension = |dimension: &ModelDimension| match dimension {
        ModelDimension::Fixed(count) => models::Dimension::Fixed(*count),
        ModelDimension::Named(name) => models::Dimension::Named(name.clone()),
        ModelDimension::Unknown => models::Dimension::Unknown,
    };
    models::Port {
        name: port.name.clone(),
        ty: match &port.ty {
            ModelElementType::Standard(ty) => models::ElementType::Standard((*ty).into()),
            ModelElementType::Other(name) => models::ElementType::Other(name.clone()),
        },
        shape: port.shape.as_ref().map(|shape| shape.iter().map(dimension).collect()),
    }
}
