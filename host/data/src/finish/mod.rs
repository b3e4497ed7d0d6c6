//! The process that makes an output file with types (Parquet, Arrow) of what was appended while the job ran.
//! It looks into what guests returned, so it is a child behind the process wall, with nothing but the two
//! files that it is started with. Imports `output`, `wall` and `model` only.
//!
//! - `process`: the parent's side, [`Finisher`]; `child`: its own; `error`: why there is no file.

mod child;
mod error;
mod process;

pub use child::{FINISH_COMMAND, serve_finish};
pub use error::{End, MakeError};
pub use process::Finisher;
