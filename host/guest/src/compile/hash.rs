//! Digests.

use crate::model::hex;
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, Read};

/// SHA-256, in hex.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

/// SHA-256 of the rest of `reader`, without loading it into memory. A file may be large, so `stop` is called
/// after each block.
///
/// # Errors
/// If it cannot be read, or `stop` returns true.
pub fn hash_until(reader: &mut impl Read, stop: &dyn Fn() -> bool) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    each_block(reader, |block| {
        hash.update(block);
        match stop() {
            true => Err(io::Error::other("reading was stopped, as requested")),
            false => Ok(()),
        }
    })?;
    Ok(hash.finalize().into())
}

/// Passes the rest of `reader` to `take`, in blocks.
pub(super) fn each_block(
    reader: &mut impl Read,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
