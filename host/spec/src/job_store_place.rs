//! The place of a job's commit log.

use crate::model::Address;
use std::fmt;
use std::path::{Path, PathBuf};

/// The place of jobs' commit logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStorePlace {
    /// A folder that machines share. Absolute.
    Folder(PathBuf),
    /// A folder in a store.
    Address(Address),
}

impl JobStorePlace {
    /// The place that another machine names, as [`Display`](fmt::Display) shows it. `None` if the text is not a place that all
    /// machines could mean: an absolute path, or an address.
    pub fn parse(text: &str) -> Option<Self> {
        match Address::looks_like_one(text) {
            true => text.parse().ok().map(Self::Address),
            false => Path::new(text).is_absolute().then(|| Self::Folder(text.into())),
        }
    }

    /// The path of a folder. `None` for an address in a store.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Address(_) => None,
        }
    }

    /// The address in a store. `None` for a folder.
    pub fn address(&self) -> Option<&Address> {
        match self {
            Self::Folder(_) => None,
            Self::Address(address) => Some(address),
        }
    }
}

impl fmt::Display for JobStorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}
