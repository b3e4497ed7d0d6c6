//! Inference from the guest's side: `wasi:nn`, and `sandmill:entry/models`. The module `inference` computes;
//! this module connects it to a guest.
//!
//! - `bindings`: the code generated from `wit/`;
//! - `view`: the part of a store that the functions use, and linking them;
//! - `resources`: the resources that a guest holds; `allowance`: the limit on its tensors;
//! - `tensors`: making and reading tensors;
//! - `graphs`: loading models, and computing with them;
//! - `models`: listing and describing models;
//! - `errors`: the errors that a guest receives; `ended`: the errors that end its call.
//!
//! A guest can handle all errors except a few that `wasi:nn` has no type for.

mod allowance;
mod bindings;
mod ended;
mod errors;
mod graphs;
mod models;
mod resources;
mod tensors;
#[cfg(all(test, feature = "inference"))]
mod tests;
mod view;

pub(super) use ended::CallEnd;
#[cfg(any(test, feature = "testing"))]
pub use view::no_models;
pub(super) use view::{InferenceState, View, link};
