//! What is said to the process that fetches from stores, and what it says.

use super::frames::all;
use sandmill_wire::store::{FetchRequest, FromFetcher};

/// The first byte says whose message it is and in which pieces it arrives; the rest are frames, as for
/// [`frames`](super::frames()).
pub fn stores(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let piece = usize::from(first >> 1) + 1;
    match first & 1 {
        0 => all::<FromFetcher>(stream, piece),
        _ => all::<FetchRequest>(stream, piece),
    }
}
