//! Makes a typed output file (Parquet, Arrow) from the rows that were appended while the job ran. The work is
//! done in a child process, because it parses data from guests. The child runs behind the process wall and
//! has only the two files that it is started with. This module imports `output`, `wall` and `model` only.
//!
//! - `process`: the parent's side, [`Finisher`]; `child`: the child's side; `error`: why there is no file.

mod child;
mod error;
mod process;

pub use child::{FINISH_COMMAND, serve_finish};
pub use error::{FinishEnd, TypedOutputError};
pub use process::Finisher;
