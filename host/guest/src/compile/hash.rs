//! Computes SHA-256 digests.

use crate::model::hex;
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, Read};

/// The SHA-256 of bytes, in hex.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

/// The SHA-256 of the rest of `reader`, which is read in blocks. Calls `stop` after each block, because a
/// large file takes long.
///
/// # Errors
/// If `reader` fails, or `stop` returns true.
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

/// Passes the rest of `reader` to `consume`, in blocks.
pub(super) fn each_block(
    reader: &mut impl Read,
    mut consume: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => consume(&buffer[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
