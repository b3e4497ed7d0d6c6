//! What a job reads, as the job file says it.

use serde::{Deserialize, Serialize};

/// One named input of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its name; part of the guest's paths.
    pub name: String,
    /// Files, folders or globs. Absolute: the job file's folder is already put before them. Or all of them
    /// addresses of stores (see [`super::Address`]).
    pub paths: Vec<String>,
    /// Names the parts of the files' paths below `paths`, as in `{user}/{season}/{genre}.wav`
    /// (prs-semantics M4); none unless given.
    pub partition_format: Option<String>,
    /// How many of its rows, or of its files, the job has, from the first; none for all of them.
    #[serde(default)]
    pub take: Option<u64>,
}

impl Input {
    /// The places in stores that it names; none if all of it lies on this machine.
    pub fn addresses(&self) -> impl Iterator<Item = super::Address> {
        self.paths
            .iter()
            .filter(|path| super::Address::looks_like_one(path))
            .flat_map(|it| it.parse())
    }
}

/// What all inputs of a job are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputKind {
    /// Files, handed over by name.
    Files {
        /// Files in a mini-batch.
        mini_batch_files: u64,
    },
    /// Files of rows, handed over as tables.
    Tables {
        /// How much of a file is in a mini-batch.
        mini_batch_size: super::SliceSize,
        /// What the job file says of each.
        inputs: Vec<super::TableInput>,
        /// Whether types are inferred from all of the input instead of its first part.
        full_inference: bool,
    },
    /// Nothing: the entry script runs a set number of times.
    Void {
        /// How often.
        count: u64,
    },
}
