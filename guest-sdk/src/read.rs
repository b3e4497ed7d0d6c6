//! Reads a whole file in one call.

use std::io;
use std::path::Path;

/// Reads a whole file. In a component `read` is much faster than `std::fs::read`, because the host reads the
/// file in one call. It can read the same files as `std::fs`. In a native build it calls `std::fs::read`.
///
/// # Errors
/// The error names the file and says why it cannot be read: it does not exist, is outside of the granted
/// folders, is not a regular file, or is larger than the job's limits allow. The error has the same kind as
/// the error of `std::fs`.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    #[cfg(target_arch = "wasm32")]
    {
        // The host passes paths as texts, so every path that the guest received is UTF-8.
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

/// Finds the kind of the error, because the host reports only a text. Opens only regular files, because
/// opening a FIFO may block.
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
