//! Inference, as a guest sees it: `wasi:nn`, and `sandmill:entry/models`. What computes is `inference`,
//! further down; here is what stands between it and a guest.
//!
//! - `bindings`: what is generated from `wit/`;
//! - `view`: what of a store the functions see, and how they are linked;
//! - `tensors`: tensors, and how many bytes of them a guest may hold;
//! - `graphs`: loading models, and computing with them;
//! - `models`: which models there are, and what they are;
//! - `errors`: what a guest is told, and what ends its call.
//!
//! The guest may go on after every error but a few, which no type of `wasi:nn` can tell.

mod bindings;
mod errors;
mod graphs;
mod models;
mod tensors;
#[cfg(test)]
mod tests;
mod view;

pub(super) use errors::Ended;
#[cfg(any(test, feature = "testing"))]
pub use view::no_models;
pub(super) use view::{Inference, link};
