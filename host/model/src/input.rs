//! The inputs of a job, as the job file gives them.

use serde::{Deserialize, Serialize};

/// One named input of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its name, which is part of the guest's paths.
    pub name: String,
    /// Files, folders or globs, as absolute paths: relative ones have already been joined to the job file's
    /// folder. Or addresses of stores (see [`super::Address`]), for all of them.
    pub paths: Vec<String>,
    /// Names the parts of the files' paths below `paths`, as in `{user}/{season}/{genre}.wav`
    /// (docs/parallel-run-step.md M4). `None` unless the job file gives it.
    pub partition_format: Option<String>,
    /// The maximum number of its rows or files, counted from the first. `None` for all of them.
    #[serde(default)]
    pub take: Option<u64>,
}

impl Input {
    /// The places in stores that it names. Empty if its files are on this machine.
    pub fn addresses(&self) -> impl Iterator<Item = super::Address> {
        self.paths
            .iter()
            .filter(|path| super::Address::looks_like_one(path))
            .flat_map(|it| it.parse())
    }
}

/// The kind of a job's inputs. All of them have the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputKind {
    /// Files. The entry script gets their paths.
    Files {
        /// Files in a mini-batch.
        mini_batch_files: u64,
    },
    /// Files of rows. The entry script gets tables.
    Tables {
        /// The size of the part of a file that is one mini-batch.
        mini_batch_size: super::SliceSize,
        /// The job file's settings for each input.
        inputs: Vec<super::TableInput>,
        /// Whether types are inferred from the whole input, not only from its first part.
        full_inference: bool,
    },
    /// No input: the entry script runs a given number of times.
    Void {
        /// The number of times.
        count: u64,
    },
}
