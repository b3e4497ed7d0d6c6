//! Where results go, and how the output is made.

use super::saved::SavedResults;
use super::worker_folders::WorkerFolders;
use crate::model::{OnConflict, ReceiptRun};
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Where results go.
#[derive(Clone, Debug)]
pub(crate) struct CommitTarget {
    /// Where workers leave rows and files.
    pub worker_folders: WorkerFolders,
    /// Where copies of results are kept. `None` if the output folder is where the results belong.
    pub saved: Option<SavedResults>,
    /// The output folder. It exists.
    pub output: PathBuf,
    /// The file for rows in the output folder. It must not exist yet if the journal is new. `None` if rows
    /// are only counted.
    pub output_file: Option<String>,
    /// Whether rows are in the order of their mini-batches.
    pub ordered: bool,
    /// How files of the same name are handled.
    pub on_conflict: OnConflict,
    /// Whether the first header is written at the top of the output file.
    pub header_wanted: bool,
    /// Whether rows are plain lines of text.
    pub is_plain: bool,
    /// The suffix of the files' names, for an output of one file per worker. `output_file` is then the folder
    /// of these files.
    pub part_suffix: Option<String>,
    /// How the output is made at the job's end from `output_file`, or from each part. `None` if rows are
    /// appended to the output itself.
    pub conversion: Option<OutputConversion>,
    /// What the receipts of this run have in common.
    pub receipt_run: ReceiptRun,
}

/// Makes the output from the appended rows: reads the first file and writes the second, which must hold the
/// given number of rows. Reports at intervals how many bytes have been read.
pub type Make =
    dyn Fn(&File, &File, u64, &mut dyn FnMut(u64)) -> Result<(), OutputFileError> + Send + Sync;

/// Why an output file could not be made. The text is a clause that is shown to users.
pub type OutputFileError = Box<dyn Error + Send + Sync>;

/// How the output is made at the end of a job.
#[derive(Clone)]
pub(crate) struct OutputConversion {
    /// The name of the output file.
    pub name: String,
    /// The function that makes the file.
    pub make: Arc<Make>,
}

impl fmt::Debug for OutputConversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputConversion").field("name", &self.name).finish_non_exhaustive()
    }
}
