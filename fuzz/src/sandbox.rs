//! Of the sandbox, what its results look like to others.

#[path = "../../host/src/sandbox/results.rs"]
mod results;

pub use results::{MiniBatchData, ResultSink};
