//! The settings files that a job file refers to. They are on this machine, or came with the job file from another one.

use super::error::FileError;
use super::{reading, small_file};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where the settings files are that a job file refers to.
#[derive(Debug)]
pub(super) enum SettingsFiles {
    /// On this machine. Keeps the text of each file that was read.
    Here(RefCell<BTreeMap<PathBuf, String>>),
    /// Another machine has read them.
    Given(BTreeMap<PathBuf, String>),
}

impl SettingsFiles {
    /// The files of this machine.
    pub(super) fn here() -> Self {
        Self::Here(RefCell::default())
    }

    /// Whether the files came from another machine. Then no path of this machine is opened, so the policy's roots do not
    /// apply to them.
    pub(super) fn are_given(&self) -> bool {
        matches!(self, Self::Given(_))
    }

    /// Whether another machine has read a file at this path.
    pub(super) fn were_given(&self, path: &Path) -> bool {
        matches!(self, Self::Given(files) if files.contains_key(path))
    }

    /// Reads at most `most` bytes of a file, and one more byte if the file is longer.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Here(read) => {
                let bytes = small_file::read(path, most)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                read.borrow_mut().insert(path.to_owned(), text);
                Ok(bytes)
            }
            Self::Given(files) => match files.get(path) {
                Some(text) => Ok(text.clone().into_bytes()),
                None => Err(ErrorKind::NotFound.into()),
            },
        }
    }

    /// Reads the text of a file. `what` is the kind of file, as a word in errors.
    ///
    /// # Errors
    /// If the file cannot be read, or is not text.
    pub(super) fn read_text(&self, path: &Path, what: &'static str) -> Result<String, FileError> {
        match self {
            Self::Here(read) => {
                let text = reading::read(path, what)?;
                read.borrow_mut().insert(path.to_owned(), text.clone());
                Ok(text)
            }
            Self::Given(files) => files.get(path).cloned().ok_or(FileError::NotThere),
        }
    }

    /// The texts of all files that were read.
    pub(super) fn into_texts(self) -> BTreeMap<PathBuf, String> {
        match self {
            Self::Here(read) => read.into_inner(),
            Self::Given(files) => files,
        }
    }
}
