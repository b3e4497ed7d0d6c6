//! Sandmill runs entry scripts, compiled to WebAssembly components, over large inputs in parallel.

#[doc(hidden)]
pub mod dataset;
pub mod event;
pub mod model;
#[doc(hidden)]
pub mod plan;
mod process;
#[doc(hidden)]
pub mod protocol;
pub mod spec;
