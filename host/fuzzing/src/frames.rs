//! Frames from processes that are not trusted.

use sandmill_wire::{
    FrameBuffer, FrameError, FromPlanner, FromWorker, PlanRequest, ToWorker, encode, read_frame,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte chooses the type of the messages and the size of the pieces in which they arrive; the rest
/// is frames. Reading in pieces and reading everything in one go must give the same messages, and encoding
/// and decoding a message again must not change it.
pub fn frames(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let piece_bytes = usize::from(first >> 2) + 1;
    match first & 3 {
        0 => check_frames::<FromWorker>(stream, piece_bytes),
        1 => check_frames::<FromPlanner>(stream, piece_bytes),
        2 => check_frames::<ToWorker>(stream, piece_bytes),
        _ => check_frames::<PlanRequest>(stream, piece_bytes),
    }
}

/// Checks that reading in pieces and reading everything in one go give the same messages.
pub(super) fn check_frames<T: Serialize + DeserializeOwned>(stream: &[u8], piece_bytes: usize) {
    let from_pieces = read_in_pieces::<T>(stream, piece_bytes);
    let mut rest = stream;
    let mut buffer = Vec::new();
    let mut from_stream = Vec::new();
    while let Ok(Some(message)) = read_frame::<T>(&mut rest, &mut buffer) {
        from_stream.push(message);
    }
    assert_eq!(from_pieces.len(), from_stream.len(), "in pieces and in one go");
    for (message, other) in from_pieces.iter().zip(&from_stream) {
        // Messages are compared as bytes: NaN is not equal to itself.
        let bytes = encoded(message);
        assert_eq!(bytes, encoded(other));
        let decoded = read_frame::<T>(&mut bytes.as_slice(), &mut buffer);
        assert_eq!(
            bytes,
            encoded(&decoded.ok().flatten().expect("an encoded message can be decoded"))
        );
    }
}

fn read_in_pieces<T: DeserializeOwned>(stream: &[u8], piece_bytes: usize) -> Vec<T> {
    let mut frames = FrameBuffer::default();
    let mut messages = Vec::new();
    for bytes in stream.chunks(piece_bytes) {
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
        Err(error) => panic!("a decoded message cannot be encoded: {error}"),
    }
}
