//! Sandmill runs entry scripts, compiled to WebAssembly components, over large inputs in parallel.

pub mod event;
pub mod model;
mod process;
#[doc(hidden)]
pub mod protocol;
pub mod spec;
