//! Where results go, and how the output is made.

use super::places::Places;
use crate::model::OnConflict;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Where results go.
#[derive(Clone, Debug)]
pub(crate) struct CommitTarget {
    /// Where workers leave rows and files.
    pub places: Places,
    /// The output folder. It exists.
    pub output: PathBuf,
    /// The file for rows in it, which must not exist yet when the journal is new; none if rows are
    /// only counted.
    pub output_file: Option<String>,
    /// Whether rows stand in the order of their mini-batches.
    pub ordered: bool,
    /// What becomes of files of one name.
    pub on_conflict: OnConflict,
    /// Whether the first header that comes is put at the top of the output file.
    pub header_wanted: bool,
    /// Whether rows are lines of text, as they are.
    pub is_plain: bool,
    /// For an output of one file for each worker: how their names end. `output_file` is their folder then.
    pub parts: Option<String>,
    /// For an output that is made at the job's end of what was appended to `output_file`, or of each part.
    pub finish: Option<Finish>,
}

/// Makes the output of what was appended: reads the one file and writes the other, which is to hold so
/// many rows. Says now and then how many bytes it has read.
pub type Make =
    dyn Fn(&File, &File, u64, &mut dyn FnMut(u64)) -> Result<(), MakeError> + Send + Sync;

/// Why an output file could not be made; a clause for people.
pub type MakeError = Box<dyn Error + Send + Sync>;

/// How the output is made at the end of a job.
#[derive(Clone)]
pub(crate) struct Finish {
    /// The name of the file that is made.
    pub name: String,
    /// Who makes it.
    pub make: Arc<Make>,
}

impl fmt::Debug for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finish").field("name", &self.name).finish_non_exhaustive()
    }
}
