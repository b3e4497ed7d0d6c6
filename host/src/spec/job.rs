//! A job as the rest of the program sees it: checked, resolved, with defaults filled in.

use crate::model::{ErrorThreshold, Input, InputKind, Limits, LoggingLevel, Mount, OutputAction};
use std::path::PathBuf;
use std::time::Duration;

/// A checked job. Paths are absolute.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// The job's name.
    pub name: String,
    /// On whose behalf it runs.
    pub tenant: String,
    /// The component, a core module, or a guest crate's folder.
    pub entry_script: PathBuf,
    /// The SHA-256 that the component must have, in hex.
    pub entry_script_digest: Option<String>,
    /// Shown to the guest read-only at `/source`.
    pub source_directory: Option<PathBuf>,
    /// What is cut into mini-batches. Empty only for [`InputKind::Void`].
    pub inputs: Vec<Input>,
    /// What the inputs are made of, and how they are cut.
    pub input_kind: InputKind,
    /// Shown to the guest read-only.
    pub side_inputs: Vec<Mount>,
    /// The folder for results; none means the job directory's own.
    pub output: Option<PathBuf>,
    /// The program's arguments, references replaced by guest paths.
    pub arguments: Vec<String>,
    /// The guest's environment.
    pub environment_variables: Vec<(String, String)>,
    /// Number of workers.
    pub process_count: u32,
    /// What becomes of rows.
    pub output_action: OutputAction,
    /// The output file's name.
    pub append_row_file_name: String,
    /// How many failed items the job bears.
    pub error_threshold: ErrorThreshold,
    /// Attempts at each mini-batch, at least 1.
    pub run_max_try: u32,
    /// The longest that one call of `run` may take.
    pub run_invocation_timeout: Duration,
    /// What the guest's log is cut at.
    pub logging_level: LoggingLevel,
    /// The budget of each instance.
    pub limits: Limits,
    /// What the user should know about how the job file was read, one line each.
    pub notices: Vec<String>,
}
