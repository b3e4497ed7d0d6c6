//! Sandmill runs entry scripts, compiled to WebAssembly components, over large inputs in parallel.

#[doc(hidden)]
pub mod compile;
#[doc(hidden)]
pub mod dataset;
pub mod event;
pub mod model;
#[doc(hidden)]
pub mod plan;
mod process;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod sandbox;
pub mod spec;
