//! The inputs of a job, as the job file defines them.

use serde::{Deserialize, Serialize};

/// One named input of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInput {
    /// The input's name, which is part of the guest's paths.
    pub name: String,
    /// Absolute paths of files and folders, or globs. Relative paths of the job file have already been joined
    /// to its folder. Either all paths are addresses of stores (see [`super::Address`]), or none is.
    pub paths: Vec<String>,
    /// A template that names the parts of the files' paths below `paths`, such as
    /// `{user}/{season}/{genre}.wav` (rule M4 in docs/parallel-run-step.md). `None` if the job file has none.
    pub partition_format: Option<String>,
    /// How many of the input's rows or files are used, counted from the first. `None` means all.
    #[serde(default)]
    pub take: Option<u64>,
}

impl JobInput {
    /// The input's addresses in stores. Empty if its files are on this machine.
    pub fn addresses(&self) -> impl Iterator<Item = super::Address> {
        self.paths
            .iter()
            .filter(|path| super::Address::looks_like_one(path))
            .flat_map(|path| path.parse())
    }
}

/// The kind of a job's inputs. All of them have the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputKind {
    /// Whole files. The entry script gets their paths.
    Files {
        /// How many files a mini-batch has.
        mini_batch_files: u64,
    },
    /// Files of rows. The entry script gets tables.
    Tables {
        /// How much of a file is one mini-batch.
        mini_batch_size: super::SliceSize,
        /// The job file's settings for each input.
        inputs: Vec<super::TableInput>,
        /// Whether types are inferred from the whole input, not only from its first part.
        full_inference: bool,
    },
    /// No input: the entry script runs a given number of times.
    Void {
        /// How many times.
        count: u64,
    },
}
