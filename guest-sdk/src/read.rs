//! Whole files in one call.

use std::io;
use std::path::Path;

/// Reads a whole file, much faster than `std::fs::read` in a component: the host reads it in one
/// call. It sees the files that `std::fs` sees, and no others; natively it is `std::fs::read`.
///
/// # Errors
/// The error names the file and says why it cannot be read: not there, outside what was granted,
/// no regular file, or larger than the job's limits allow. Its kind is the one that `std::fs` gives.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    #[cfg(target_arch = "wasm32")]
    {
        // A guest's paths come from texts, so this holds for every path that it was given.
        let text = path.to_str().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{}: the path is not UTF-8", path.display()),
            )
        })?;
        crate::component::host::read(text).map_err(|reason| {
            let named = if reason.contains(text) { reason } else { format!("{text}: {reason}") };
            io::Error::new(kind_of_failure(path), named)
        })
    }
    #[cfg(not(target_arch = "wasm32"))]
    std::fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Why a file could not be read, as a kind: the host says it in words alone. Opens regular files only,
/// since opening a fifo may wait.
#[cfg(target_arch = "wasm32")]
fn kind_of_failure(path: &Path) -> io::ErrorKind {
    match std::fs::metadata(path) {
        Err(error) => error.kind(),
        Ok(metadata) if metadata.is_dir() => io::ErrorKind::IsADirectory,
        Ok(metadata) if metadata.is_file() => {
            std::fs::File::open(path).map_or_else(|error| error.kind(), |_| io::ErrorKind::Other)
        }
        Ok(_) => io::ErrorKind::Other,
    }
}
