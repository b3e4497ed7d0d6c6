//! Frames from processes that are not trusted.

use sandmill_wire::{
    FrameBuffer, FrameError, FromPlanner, FromWorker, PlanRequest, ToWorker, encode, read_frame,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte chooses the type of the messages and the size of the pieces in which they arrive; the rest
/// is frames. All ways of reading must agree, and encoding and decoding a message again must not change it.
pub fn frames(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let piece = usize::from(first >> 2) + 1;
    match first & 3 {
        0 => all::<FromWorker>(stream, piece),
        1 => all::<FromPlanner>(stream, piece),
        2 => all::<ToWorker>(stream, piece),
        _ => all::<PlanRequest>(stream, piece),
    }
}

/// Checks that all ways of reading the frames of a stream agree.
pub(super) fn all<T: Serialize + DeserializeOwned>(stream: &[u8], piece: usize) {
    let in_pieces = in_pieces::<T>(stream, piece);
    let mut rest = stream;
    let mut buffer = Vec::new();
    let mut at_once = Vec::new();
    while let Ok(Some(message)) = read_frame::<T>(&mut rest, &mut buffer) {
        at_once.push(message);
    }
    assert_eq!(in_pieces.len(), at_once.len(), "in pieces and at once");
    for (one, other) in in_pieces.iter().zip(&at_once) {
        // Compare them as bytes: NaN is not equal to itself.
        let bytes = encoded(one);
        assert_eq!(bytes, encoded(other));
        let again = read_frame::<T>(&mut bytes.as_slice(), &mut buffer);
        assert_eq!(bytes, encoded(&again.ok().flatten().expect("what was encoded is decoded")));
    }
}

fn in_pieces<T: DeserializeOwned>(stream: &[u8], piece: usize) -> Vec<T> {
    let mut frames = FrameBuffer::default();
    let mut messages = Vec::new();
    for bytes in stream.chunks(piece) {
        frames.push(bytes);
        loop {
            match frames.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return messages,
            }
        }
    }
    messages
}

fn encoded<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    match encode(message, &mut bytes) {
        Ok(()) | Err(FrameError::TooLong(_)) => bytes,
        Err(error) => panic!("what was decoded cannot be encoded: {error}"),
    }
}
