//! The messages to and from the process that fetches from stores.

use super::frames::all;
use sandmill_wire::store::{FetchRequest, FromFetcher};

/// The first byte chooses the type of the messages and the size of the pieces in which they arrive; the rest
/// is frames, as for [`frames`](super::frames()).
pub fn stores(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let piece = usize::from(first >> 1) + 1;
    match first & 1 {
        0 => all::<FromFetcher>(stream, piece),
        _ => all::<FetchRequest>(stream, piece),
    }
}
