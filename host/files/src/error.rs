//! Errors in storing rows and files.

use sandmill_model::{GUEST_OUTPUT, is_full};
use std::io;
use std::path::{Path, PathBuf};

/// Why rows or files could not be stored. The messages are complete sentences for the user.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The operating system refused an action.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action, e.g. `write to`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A segment is outside of its part file.
    #[error(
        "{length} bytes of rows at offset {offset} are outside of their part file, which has {size} \
         bytes: the part file was truncated or the worker's report is wrong"
    )]
    OutsidePart {
        /// The offset of the segment.
        offset: u64,
        /// The length of the segment in bytes.
        length: u64,
        /// Bytes in the part file.
        size: u64,
    },
    /// A segment differs from what the worker wrote.
    #[error(
        "{length} bytes of rows at offset {offset} of a part file have the checksum {found:08x} \
         instead of {expected:08x}: the part file is damaged"
    )]
    Checksum {
        /// The offset of the segment.
        offset: u64,
        /// The length of the segment in bytes.
        length: u64,
        /// The checksum in the journal.
        expected: u32,
        /// The checksum of the bytes in the file.
        found: u32,
    },
    /// The guest left something other than an ordinary file or folder.
    #[error(
        "the output {path:?} is {what}: only ordinary files and folders are published, so write \
         the data itself"
    )]
    NotPublishable {
        /// The path below the output folder.
        path: PathBuf,
        /// The kind of entry, e.g. `a symbolic link`.
        what: &'static str,
    },
    /// What an attempt left cannot be read.
    #[error("the output {path:?} cannot be published because it cannot be read: {source}")]
    Unreadable {
        /// The path below the output folder; empty for the folder itself.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The guest chose a name that could cause trouble elsewhere.
    #[error("the output {path:?} cannot be published because its name {why}: choose another name")]
    BadName {
        /// The path below the output folder.
        path: PathBuf,
        /// The reason, e.g. `holds a control character`.
        why: &'static str,
    },
    /// Folders are nested too deep.
    #[error("the output {path:?} is more than {limit} folders deep: use fewer nested folders")]
    TooDeep {
        /// The path below the output folder.
        path: PathBuf,
        /// How deep folders may be nested.
        limit: usize,
    },
    /// There are too many files and folders.
    #[error(
        "more than {limit} files and folders are in the output folder: write fewer, larger files, \
         or make mini_batch_size smaller"
    )]
    TooMany {
        /// How many files and folders are allowed.
        limit: usize,
    },
    /// A mini-batch changed a file that `init` had made.
    #[error(
        "run changed {GUEST_OUTPUT}/{}, which init made: a result file belongs to the mini-batch \
         that writes it, so write new files in run", path.display()
    )]
    Changed {
        /// The path below the output folder.
        path: PathBuf,
    },
    /// A mini-batch removed what `init` had made.
    #[error(
        "run removed {GUEST_OUTPUT}/{}, which init made for all mini-batches: leave it where it is",
        path.display()
    )]
    Removed {
        /// The path below the output folder.
        path: PathBuf,
    },
    /// Another mini-batch or an earlier job has used the name.
    #[error(
        "the output {path:?} exists already in {}: the file names of different mini-batches must \
         differ (put the mini-batch's id or the item's name into them), or set output_files to \
         append or overwrite", output.display()
    )]
    Exists {
        /// The path below the output folder.
        path: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// A file and a folder would have the same name.
    #[error(
        "the output {path:?} conflicts with the same name in {}: one of them is a folder and the \
         other a file; give them different names", output.display()
    )]
    OtherKind {
        /// The path below the output folder.
        path: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// The name belongs to the file for rows, or to a file that this job did not write.
    #[error(
        "the output {path:?} cannot be published because the file of that name in the output folder \
         is not one that mini-batches write: choose another name"
    )]
    Taken {
        /// The path below the output folder.
        path: PathBuf,
    },
}

impl OutputError {
    /// Wraps an error of the operating system.
    pub(super) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the disk is full, or this user's quota is used up.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }

    /// Whether the guest's files are to blame, and not the machine or Sandmill.
    pub fn is_guest_fault(&self) -> bool {
        matches!(
            self,
            Self::NotPublishable { .. }
                | Self::Unreadable { .. }
                | Self::BadName { .. }
                | Self::TooDeep { .. }
                | Self::TooMany { .. }
                | Self::Changed { .. }
                | Self::Removed { .. }
                | Self::Exists { .. }
                | Self::OtherKind { .. }
                | Self::Taken { .. }
        )
    }
}
