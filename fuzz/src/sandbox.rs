//! Of the sandbox, what its results look like to others.

#[path = "../../host/guest/src/sandbox/errno.rs"]
mod errno;
#[path = "../../host/guest/src/sandbox/results.rs"]
mod results;

pub use errno::name_errors;
pub use results::{MiniBatchData, ResultSink};
