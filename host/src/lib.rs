//! Sandmill runs entry scripts, compiled to WebAssembly components, over large inputs in parallel.

#[doc(hidden)]
pub mod compile;
#[doc(hidden)]
pub mod dataset;
pub mod engine;
pub mod event;
#[doc(hidden)]
pub mod journal;
pub mod model;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod pool;
mod process;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod sandbox;
pub mod spec;
#[doc(hidden)]
pub mod worker;
