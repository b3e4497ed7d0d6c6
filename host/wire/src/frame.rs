//! Frames. A frame is the length of a message (four bytes, little-endian), and then the message, encoded by
//! postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};

/// The longest frame, in bytes. A mini-batch of 100,000 file names still fits.
pub const MAX_FRAME: usize = 16 << 20;

/// How many bytes of memory a [`FrameBuffer`] keeps between messages.
const KEPT_BYTES: usize = 64 << 10;

/// Why a frame cannot be sent or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The message is longer than [`MAX_FRAME`].
    #[error("a message of {0} bytes is longer than the {MAX_FRAME} allowed")]
    TooLong(usize),
    /// The bytes are not a valid encoding of the expected message.
    #[error("a message cannot be decoded: {0}")]
    Malformed(#[from] postcard::Error),
    /// The message exceeds a limit that no honest child process exceeds.
    #[error("a message exceeds its limits: {0}")]
    Beyond(&'static str),
    /// Further bytes follow the end of the message.
    #[error("{0} bytes follow a message's end")]
    Trailing(usize),
    /// The stream failed, or ended within a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Appends `message` as a frame to `out`. Fails if the message is too long.
pub fn encode<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut bytes = postcard::to_extend(message, std::mem::take(out))?;
    let length = bytes.len() - start - 4;
    let Some(header) = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME) else {
        bytes.truncate(start);
        *out = bytes;
        return Err(FrameError::TooLong(length));
    };
    bytes[start..start + 4].copy_from_slice(&header.to_le_bytes());
    *out = bytes;
    Ok(())
}

/// Decodes the message of one frame. Fails if bytes are left.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let (message, rest) = postcard::take_from_bytes(body)?;
    if rest.is_empty() { Ok(message) } else { Err(FrameError::Trailing(rest.len())) }
}

fn checked_length(header: [u8; 4]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(header) as usize;
    if length > MAX_FRAME { Err(FrameError::TooLong(length)) } else { Ok(length) }
}

/// Reads one message from a blocking stream. `None` at the end of the stream. `buffer` is memory that the
/// caller reuses.
pub fn read_frame<T: DeserializeOwned>(
    stream: &mut impl Read,
    buffer: &mut Vec<u8>,
) -> Result<Option<T>, FrameError> {
    let mut header = [0; 4];
    match stream.read(&mut header[..1])? {
        0 => return Ok(None),
        _ => stream.read_exact(&mut header[1..])?,
    }
    let length = checked_length(header)?;
    buffer.clear();
    // The buffer grows as bytes arrive: a sender must not make us allocate memory by announcing a length.
    if stream.take(length as u64).read_to_end(buffer)? < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    decode(buffer).map(Some)
}

/// Collects the bytes of a non-blocking stream and returns whole messages.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl FrameBuffer {
    /// Appends bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
            // Release the memory of a long message.
            self.bytes.shrink_to(KEPT_BYTES.max(bytes.len()));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if it has arrived.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let pending = &self.bytes[self.start..];
        let Some(header) = pending.first_chunk::<4>() else { return Ok(None) };
        let length = checked_length(*header)?;
        let Some(body) = pending.get(4..4 + length) else { return Ok(None) };
        let message = decode(body)?;
        self.start += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_survive_any_fragmentation(
            messages in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..40), 0..8),
            chunk in 1usize..50,
        ) {
            let mut wire = Vec::new();
            for message in &messages {
                encode(message, &mut wire).unwrap();
            }
            let mut buffer = FrameBuffer::default();
            let mut seen = Vec::new();
            for bytes in wire.chunks(chunk) {
                buffer.push(bytes);
                while let Some(message) = buffer.next_message::<Vec<u16>>().unwrap() {
                    seen.push(message);
                }
            }
            prop_assert_eq!(&seen, &messages);
            let mut stream = wire.as_slice();
            let mut scratch = Vec::new();
            for message in &messages {
                let read: Option<Vec<u16>> = read_frame(&mut stream, &mut scratch).unwrap();
                prop_assert_eq!(read.as_ref(), Some(message));
            }
        }

        #[test]
        fn garbage_is_an_error_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            while let Ok(Some(_)) = buffer.next_message::<crate::FromWorker>() {}
        }
    }

    #[test]
    fn the_buffer_shrinks_after_a_long_message() {
        let mut wire = Vec::new();
        encode(&vec![7_u8; 8 << 20], &mut wire).unwrap();
        let mut buffer = FrameBuffer::default();
        for bytes in wire.chunks(1 << 14) {
            buffer.push(bytes);
        }
        assert_eq!(buffer.next_message::<Vec<u8>>().unwrap().unwrap().len(), 8 << 20);
        buffer.push(&[1]);
        assert!(buffer.bytes.capacity() < 1 << 20, "{}", buffer.bytes.capacity());
    }

    #[test]
    fn a_huge_length_is_refused_before_allocating() {
        let mut buffer = FrameBuffer::default();
        buffer.push(&u32::MAX.to_le_bytes());
        let error = buffer.next_message::<u32>().unwrap_err();
        assert!(matches!(error, FrameError::TooLong(_)), "{error}");
    }
}
