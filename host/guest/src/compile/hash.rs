//! Digests.

use crate::model::hex;
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, Read};

/// Hex SHA-256.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

/// SHA-256 of what is left in `reader`, without holding it in memory. A file may be large: `stop` is asked again and
/// again.
///
/// # Errors
/// If it cannot be read, or `stop` says so.
pub fn hash_until(reader: &mut impl Read, stop: &dyn Fn() -> bool) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    each_block(reader, |block| {
        hash.update(block);
        match stop() {
            true => Err(io::Error::other("reading was stopped, as was asked")),
            false => Ok(()),
        }
    })?;
    Ok(hash.finalize().into())
}

/// Hands over what is left in `reader`, in blocks.
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
