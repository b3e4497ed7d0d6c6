//! What can go wrong with rows and files on their way to the output.

use sandmill_model::{GUEST_OUTPUT, is_full};
use std::io;
use std::path::{Path, PathBuf};

/// Rows or files could not be stored; complete sentences for people.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `write to`.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A segment that the part file does not hold.
    #[error(
        "{length} bytes of rows at offset {offset} lie outside their part file, which has {size} \
         bytes: the part file was cut or the worker's report is wrong"
    )]
    OutsidePart {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes in the part file.
        size: u64,
    },
    /// A segment that is not what the worker wrote.
    #[error(
        "{length} bytes of rows at offset {offset} of a part file have the checksum {found:08x} \
         instead of {expected:08x}: the part file is damaged"
    )]
    Checksum {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// The journaled checksum.
        expected: u32,
        /// That of the bytes in the file.
        found: u32,
    },
    /// The guest left something that is neither file nor folder.
    #[error(
        "the output {path:?} is {what}: only ordinary files and folders are published, so write \
         the data itself"
    )]
    NotPublishable {
        /// Below the output folder.
        path: PathBuf,
        /// `a symbolic link`.
        what: &'static str,
    },
    /// What an attempt left cannot be looked at.
    #[error("the output {path:?} cannot be published because it cannot be read: {source}")]
    Unreadable {
        /// Below the output folder; empty for all of it.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The guest chose a name that would trouble others.
    #[error("the output {path:?} cannot be published because its name {why}: choose another name")]
    BadName {
        /// Below the output folder.
        path: PathBuf,
        /// `holds a control character`.
        why: &'static str,
    },
    /// Folders in folders without end.
    #[error("the output {path:?} lies more than {limit} folders deep: use fewer nested folders")]
    TooDeep {
        /// Below the output folder.
        path: PathBuf,
        /// How deep folders may lie.
        limit: usize,
    },
    /// Files without end.
    #[error(
        "more than {limit} files and folders are in the output folder: write fewer, larger files, \
         or make mini_batch_size smaller"
    )]
    TooMany {
        /// How many there may be.
        limit: usize,
    },
    /// A mini-batch wrote where `init` had written.
    #[error(
        "run changed {GUEST_OUTPUT}/{}, which init made: a result file belongs to the mini-batch \
         that writes it, so write new files in run", path.display()
    )]
    Changed {
        /// Below the output folder.
        path: PathBuf,
    },
    /// A mini-batch removed what `init` had made.
    #[error(
        "run removed {GUEST_OUTPUT}/{}, which init made for all mini-batches: leave it where it is",
        path.display()
    )]
    Removed {
        /// Below the output folder.
        path: PathBuf,
    },
    /// Another mini-batch, or an earlier job, was there first.
    #[error(
        "the output {path:?} exists already in {}: the file names of different mini-batches must \
         differ (put the mini-batch's id or the item's name into them), or set output_files to \
         append or overwrite", output.display()
    )]
    Exists {
        /// Below the output folder.
        path: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// A file here, a folder there.
    #[error(
        "the output {path:?} cannot join what has that name in {}: one of them is a folder and the \
         other a file; give them different names", output.display()
    )]
    OtherKind {
        /// Below the output folder.
        path: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// The name of the file for rows, or of a file that this job has not written.
    #[error(
        "the output {path:?} cannot be published because the file of that name in the output folder \
         is not one that mini-batches write: choose another name"
    )]
    Taken {
        /// Below the output folder.
        path: PathBuf,
    },
}

impl OutputError {
    /// Wraps an answer of the operating system.
    pub(super) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether there is no room on the disk, or for this user.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }

    /// Whether the guest's choice of files is to blame, not the machine and not Sandmill.
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
