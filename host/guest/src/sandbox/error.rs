//! Why a guest's request is refused.

use crate::model::ByteSize;
use std::io::{self, ErrorKind};

/// Why a file cannot be read for the guest.
#[derive(Debug, thiserror::Error)]
pub(super) enum GuestReadError {
    #[error("the path is longer than {limit} bytes")]
    Long {
        /// The longest path that is allowed, in bytes.
        limit: usize,
    },
    #[error("{path:?} is not an absolute path")]
    Relative { path: String },
    #[error("{path:?} contains a null character")]
    Null { path: String },
    /// The path is not in any of the guest's folders.
    #[error("{path}: it is outside of the folders that were granted")]
    Outside { path: String },
    /// The path leads to a folder, a FIFO or another special file.
    #[error("{path}: it is not a regular file")]
    Irregular { path: String },
    #[error("{path}: it has {length} bytes, more than limits.read allows ({limit})")]
    TooLarge {
        path: String,
        /// The size of the file, in bytes.
        length: u64,
        /// `limits.read`.
        limit: ByteSize,
    },
    /// The operating system refused.
    #[error("{path}: {}", io_reason(source))]
    Io { path: String, source: io::Error },
}

/// Why a file cannot be read. The text continues after the file's path.
fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".into(),
        ErrorKind::NotADirectory => "a part of its path is not a folder".into(),
        ErrorKind::IsADirectory => "it is a folder".into(),
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            // cap-std's error for `..` and links that lead out of the folder.
            "it is outside of the folders that were granted".into()
        }
        ErrorKind::PermissionDenied => "it may not be read".into(),
        // A socket, or a device without a driver.
        _ if error.raw_os_error() == Some(libc::ENXIO) => "it is not a regular file".into(),
        _ if error.raw_os_error() == Some(libc::ELOOP) => "its links form a loop".into(),
        _ => error.to_string(),
    }
}

/// The guest has more tensors than `limits.tensors` allows.
#[derive(Debug, thiserror::Error)]
#[error(
    "limits.tensors allows {limit} of tensors at a time, including 4 bytes for each dimension; the entry \
     script holds {}, and {what} {} more. Drop tensors that are no longer needed, give the model less at a \
     time, or raise the limit",
    held.rounded(),
    more.rounded()
)]
pub(super) struct TensorsFull {
    /// `limits.tensors`.
    pub(super) limit: ByteSize,
    /// The bytes that the guest holds.
    pub(super) held: ByteSize,
    /// What needs more bytes, for the message.
    pub(super) what: &'static str,
    /// The additional bytes that are needed.
    pub(super) more: ByteSize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule T2 in docs/parallel-run-step.md: messages distinguish a file's permissions from paths that were
    /// never granted.
    #[test]
    fn errors_distinguish_permissions_from_missing_grants() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(io_reason(&denied), "it may not be read");
        let outside = io::Error::from(ErrorKind::PermissionDenied);
        assert_eq!(io_reason(&outside), "it is outside of the folders that were granted");
    }
}
