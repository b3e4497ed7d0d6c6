//! The messages to and from the process that fetches from stores.

use super::frames::check_frames;
use sandmill_wire::store::{FetchRequest, FromFetcher};

/// Like [`frames`](super::frames()), with other messages. The first byte chooses their type and the size of
/// the pieces in which they arrive; the rest is frames.
pub fn stores(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let piece_bytes = usize::from(first >> 1) + 1;
    match first & 1 {
        0 => check_frames::<FromFetcher>(stream, piece_bytes),
        _ => check_frames::<FetchRequest>(stream, piece_bytes),
    }
}
