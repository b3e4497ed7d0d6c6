//! The interfaces of inference for guests: `wasi:nn` and `sandmill:entry/models`. The module `inference` runs
//! the models; this module connects it to a guest.
//!
//! - `bindings`: the code generated from `wit/`;
//! - `view`: links the functions, and the part of a store that they use;
//! - `resources`: the resources that a guest holds; `allowance`: the limit on the guest's tensors;
//! - `tensors`: making and reading tensors;
//! - `graphs`: loading models, and computing with them;
//! - `models`: listing and describing models;
//! - `errors`: the errors that a guest receives; `ended`: the errors that end the guest's call.
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
