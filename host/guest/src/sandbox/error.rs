//! Why a guest does not get what it asks for.

use crate::model::ByteSize;
use std::io::{self, ErrorKind};

/// Why a file is not read for the guest.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The path is longer than any.
    #[error("the path is longer than {limit} bytes")]
    Long {
        /// The longest that there may be.
        limit: usize,
    },
    /// The path says not where it begins.
    #[error("{path:?} is no absolute path")]
    Relative {
        /// The path.
        path: String,
    },
    /// The path holds what none can hold.
    #[error("{path:?} holds a null character")]
    Null {
        /// The path.
        path: String,
    },
    /// The path is below no folder of the guest's.
    #[error("{path}: it lies outside of the folders that were granted")]
    Outside {
        /// The path.
        path: String,
    },
    /// A folder, a fifo or the like.
    #[error("{path}: it is no regular file")]
    Irregular {
        /// The path.
        path: String,
    },
    /// The file is beyond a limit.
    #[error("{path}: it has {length} bytes, more than limits.read allows ({limit})")]
    TooLarge {
        /// The path.
        path: String,
        /// Bytes of the file.
        length: u64,
        /// `limits.read`.
        limit: ByteSize,
    },
    /// The operating system refused.
    #[error("{path}: {}", words(source))]
    Io {
        /// The path.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// Why a file cannot be read, in words that follow its path.
fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".into(),
        ErrorKind::NotADirectory => "a part of its path is no folder".into(),
        ErrorKind::IsADirectory => "it is a folder".into(),
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            // What cap-std says of `..` and links that lead out.
            "it lies outside of the folders that were granted".into()
        }
        ErrorKind::PermissionDenied => "it may not be read".into(),
        // A socket, or a device without a driver.
        _ if error.raw_os_error() == Some(libc::ENXIO) => "it is no regular file".into(),
        _ if error.raw_os_error() == Some(libc::ELOOP) => "its links go round in a circle".into(),
        _ => error.to_string(),
    }
}

/// Tensors beyond a limit.
#[derive(Debug, thiserror::Error)]
#[error(
    "limits.tensors allows {limit} of tensors at once, 4 for each dimension included; the entry script \
     holds {}, and {what} {} more. Drop tensors that are not needed any more, give the model less at a time, \
     or raise the limit",
    held.rounded(),
    more.rounded()
)]
pub(super) struct TensorsFull {
    /// `limits.tensors`.
    pub(super) limit: ByteSize,
    /// What the guest has.
    pub(super) held: ByteSize,
    /// What takes more, for people.
    pub(super) what: &'static str,
    /// How much that takes.
    pub(super) more: ByteSize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T2: the file's rights, and what was never granted, are told apart.
    #[test]
    fn what_may_not_be_read_is_told() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(words(&denied), "it may not be read");
        let outside = io::Error::from(ErrorKind::PermissionDenied);
        assert_eq!(words(&outside), "it lies outside of the folders that were granted");
    }
}
