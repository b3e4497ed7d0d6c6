//! Of the sandbox, what its results look like to others.

#[path = "../../host/src/sandbox/errno.rs"]
mod errno;
#[path = "../../host/src/sandbox/results.rs"]
mod results;

pub use errno::name_errors;
pub use results::{MiniBatchData, ResultSink};
