//! Inference, as a guest sees it: `wasi:nn`, and `sandmill:entry/models`. What computes is `inference`,
//! further down; here is what stands between it and a guest.
//!
//! - `bindings`: what is generated from `wit/`;
//! - `view`: what of a store the functions see, and how they are linked;
//! - `resources`: what a guest holds; `allowance`: how many bytes of tensors;
//! - `tensors`: making and reading tensors;
//! - `graphs`: loading models, and computing with them;
//! - `models`: which models there are, and what they are;
//! - `errors`: what a guest is told; `ended`: what ends its call.
//!
//! The guest may go on after every error but a few, which no type of `wasi:nn` can tell.

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

pub(super) use ended::Ended;
#[cfg(any(test, feature = "testing"))]
pub use view::no_models;
pub(super) use view::{Inference, View, link};
