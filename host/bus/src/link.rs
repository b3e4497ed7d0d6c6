//! A reliable connection between two peers, over a transport that loses, doubles, delays and reorders frames.
//!
//! Messages are split into chunks, which are numbered. A peer acknowledges all chunks that it received in
//! order. Chunks that are not acknowledged in time are sent again, from the first one on. Chunks that come
//! too early are dropped.
//!
//! This module does no I/O and reads no clock. The owner passes in the time, which never decreases.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// The size of the largest message, in bytes.
pub const MAX_MESSAGE: usize = 64 << 20;
/// Longer messages are split into chunks of this size.
pub(crate) const CHUNK_BYTES: usize = 200 << 10;
/// A frame carries chunks of at most this cost.
const FRAME_BYTES: usize = 256 << 10;
/// A frame carries at most this many chunks.
const FRAME_CHUNKS: usize = 1000;
/// Chunks of at most this cost are on their way.
const WINDOW_BYTES: usize = 4 << 20;
/// What a chunk costs besides its bytes. So the number of empty chunks is limited too.
const CHUNK_COST: usize = 32;
/// The first resend of a chunk is after this time. Later ones wait twice as long each.
const FIRST_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest time between two resends.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);
/// An acknowledgement waits this long for data that it can travel with.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_millis(50);
/// An acknowledgement waits no longer once chunks of this cost were received.
const ACKNOWLEDGE_BYTES: usize = WINDOW_BYTES / 4;
/// A peer that has nothing to say sends an empty frame after this time.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What peers send to each other. A frame is at most about 260 KiB long, so that it fits a message of NATS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The number of the first chunk.
    pub(crate) first: u64,
    pub(crate) chunks: Vec<Chunk>,
    /// How many chunks of the peer the sender has received in order.
    pub(crate) received: u64,
}

impl Frame {
    /// Whether this can be the first frame of a connection that has something to say.
    pub fn is_first(&self) -> bool {
        self.first == 0 && self.received == 0 && !self.chunks.is_empty()
    }
}

/// A message or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    #[serde(with = "byte_string")]
    pub(crate) bytes: Vec<u8>,
    /// Whether the message ends with this chunk.
    pub(crate) is_last: bool,
}

impl Chunk {
    fn cost(&self) -> usize {
        self.bytes.len() + CHUNK_COST
    }
}

/// A frame that no working peer sends. The connection cannot continue.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The peer acknowledges chunks that it cannot have received.
    #[error("the peer acknowledged {received} chunks, but only {sent} were sent")]
    NeverSent {
        /// How many chunks the peer acknowledges.
        received: u64,
        /// How many chunks were sent.
        sent: u64,
    },
    /// The peer sends a message that is too large.
    #[error("the peer sent a message larger than {} MiB", MAX_MESSAGE >> 20)]
    MessageTooLarge,
    /// The numbers of the frame's chunks are too large.
    #[error("the peer sent a frame that begins with chunk {first}, which is impossible")]
    NumberTooLarge {
        /// The number of the frame's first chunk.
        first: u64,
    },
}

/// One end of a reliable connection.
///
/// The owner calls [`Link::poll`] after each [`Link::send`] and [`Link::receive`], and at
/// [`Link::next_deadline`], and sends the frames to the peer.
#[derive(Debug)]
pub struct Link {
    /// The chunks that are not acknowledged. The first ones are on their way, the others wait.
    outgoing: VecDeque<Chunk>,
    /// How many chunks were acknowledged. It is the number of the first one in `outgoing`.
    acknowledged: u64,
    /// How many chunks were ever sent.
    sent: u64,
    /// How many chunks of `outgoing` are on their way.
    in_flight: usize,
    /// Their cost.
    flight_cost: usize,
    /// The limit of this cost. It is small after a resend, and grows with each acknowledgement.
    window: usize,
    /// The time between two resends.
    timeout: Duration,
    resend_at: Option<Duration>,
    last_sent: Duration,
    /// How many chunks of the peer were received in order.
    received: u64,
    /// The cost of those that no frame has acknowledged.
    unacknowledged_cost: usize,
    acknowledge_at: Option<Duration>,
    /// The beginning of the message that is being received.
    partial: Vec<u8>,
    heard: Duration,
}

impl Link {
    /// A connection that begins now.
    pub fn new(now: Duration) -> Self {
        Self {
            outgoing: VecDeque::new(),
            acknowledged: 0,
            sent: 0,
            in_flight: 0,
            flight_cost: 0,
            window: WINDOW_BYTES,
            timeout: FIRST_TIMEOUT,
            resend_at: None,
            last_sent: now,
            received: 0,
            unacknowledged_cost: 0,
            acknowledge_at: None,
            partial: Vec::new(),
            heard: now,
        }
    }

    /// Queues a message. The peer refuses messages larger than [`MAX_MESSAGE`].
    pub fn send(&mut self, message: Vec<u8>) {
        if message.len() <= CHUNK_BYTES {
            self.outgoing.push_back(Chunk { bytes: message, is_last: true });
            return;
        }
        let parts = message.len().div_ceil(CHUNK_BYTES);
        let chunks = message.chunks(CHUNK_BYTES).enumerate();
        self.outgoing.extend(
            chunks.map(|(part, bytes)| Chunk { bytes: bytes.into(), is_last: part + 1 == parts }),
        );
    }

    /// Takes a frame of the peer. Returns the messages that it completes. Each message is returned once, and
    /// in the order in which the peer sent them.
    ///
    /// # Errors
    /// If no working peer sends such a frame. Then the connection is of no use any longer.
    pub fn receive(&mut self, frame: Frame, now: Duration) -> Result<Vec<Vec<u8>>, LinkError> {
        if frame.received > self.sent {
            return Err(LinkError::NeverSent { received: frame.received, sent: self.sent });
        }
        let count = u64::try_from(frame.chunks.len()).ok();
        let end = count.and_then(|count| frame.first.checked_add(count));
        let end = end.ok_or(LinkError::NumberTooLarge { first: frame.first })?;
        self.take_acknowledgement(frame.received, now);
        let messages = self.take_chunks(frame.first..end, frame.chunks, now)?;
        self.heard = now;
        Ok(messages)
    }

    fn take_acknowledgement(&mut self, received: u64, now: Duration) {
        if received <= self.acknowledged {
            return;
        }
        while self.acknowledged < received {
            let Some(chunk) = self.outgoing.pop_front() else { break };
            self.acknowledged += 1;
            // After a time-out, a chunk may be acknowledged before it is sent again.
            if self.in_flight > 0 {
                self.in_flight -= 1;
                self.flight_cost -= chunk.cost();
            }
        }
        self.timeout = FIRST_TIMEOUT;
        self.window = (self.window * 2).min(WINDOW_BYTES);
        self.resend_at = (self.in_flight > 0).then(|| now + self.timeout);
    }

    fn take_chunks(
        &mut self,
        numbers: Range<u64>,
        chunks: Vec<Chunk>,
        now: Duration,
    ) -> Result<Vec<Vec<u8>>, LinkError> {
        let mut messages = Vec::new();
        for (number, chunk) in numbers.zip(chunks) {
            if number != self.received {
                // The peer does not know what was received, so tell it at once.
                self.acknowledge_at = Some(now);
                continue;
            }
            self.unacknowledged_cost = self.unacknowledged_cost.saturating_add(chunk.cost());
            messages.extend(self.take_chunk(chunk)?);
            self.received += 1;
            self.acknowledge_at.get_or_insert(now + ACKNOWLEDGE_WITHIN);
        }
        if self.unacknowledged_cost >= ACKNOWLEDGE_BYTES {
            self.acknowledge_at = Some(now);
        }
        Ok(messages)
    }

    /// Takes the next chunk. Returns the message that it completes.
    fn take_chunk(&mut self, chunk: Chunk) -> Result<Option<Vec<u8>>, LinkError> {
        if self.partial.len() + chunk.bytes.len() > MAX_MESSAGE {
            return Err(LinkError::MessageTooLarge);
        }
        if self.partial.is_empty() {
            self.partial = chunk.bytes;
        } else {
            self.partial.extend_from_slice(&chunk.bytes);
        }
        Ok(chunk.is_last.then(|| std::mem::take(&mut self.partial)))
    }

    /// The frames that must be sent now, in this order.
    pub fn poll(&mut self, now: Duration) -> Vec<Frame> {
        if self.resend_at.is_some_and(|at| at <= now) {
            self.begin_resend();
        }
        let mut frames = Vec::new();
        while self.can_send() {
            frames.push(self.next_frame());
        }
        let is_due = self.acknowledge_at.is_some_and(|at| at <= now)
            || self.last_sent.saturating_add(HEARTBEAT) <= now;
        if frames.is_empty() && is_due {
            frames.push(self.next_frame());
        }
        if !frames.is_empty() {
            self.last_sent = now;
            self.acknowledge_at = None;
            self.unacknowledged_cost = 0;
        }
        if self.in_flight > 0 {
            self.resend_at.get_or_insert(now + self.timeout);
        }
        frames
    }

    /// All chunks that were on their way are regarded as lost.
    fn begin_resend(&mut self) {
        self.in_flight = 0;
        self.flight_cost = 0;
        self.window = FRAME_BYTES;
        self.timeout = (self.timeout * 2).min(LAST_TIMEOUT);
        self.resend_at = None;
    }

    /// Whether a chunk waits, and fits the window.
    fn can_send(&self) -> bool {
        let next = self.outgoing.get(self.in_flight);
        next.is_some_and(|chunk| self.flight_cost + chunk.cost() <= self.window)
    }

    /// A frame with as many chunks as fit it and the window.
    fn next_frame(&mut self) -> Frame {
        let first = self.acknowledged + self.in_flight as u64;
        let (mut chunks, mut cost) = (Vec::new(), 0);
        while self.can_send() && chunks.len() < FRAME_CHUNKS {
            let chunk = &self.outgoing[self.in_flight];
            if cost + chunk.cost() > FRAME_BYTES {
                break;
            }
            cost += chunk.cost();
            chunks.push(chunk.clone());
            self.in_flight += 1;
            self.flight_cost += chunk.cost();
        }
        self.sent = self.sent.max(first + chunks.len() as u64);
        Frame { first, chunks, received: self.received }
    }

    /// When [`Link::poll`] must be called next. The time is in the past if it must be called now.
    pub fn next_deadline(&self) -> Duration {
        if self.can_send() {
            return Duration::ZERO;
        }
        let heartbeat = self.last_sent.saturating_add(HEARTBEAT);
        let others = [self.resend_at, self.acknowledge_at];
        others.into_iter().flatten().fold(heartbeat, Duration::min)
    }

    /// When the peer's last valid frame arrived, or the connection began.
    pub fn heard(&self) -> Duration {
        self.heard
    }

    /// The time since the last valid frame of the peer, or since the connection began.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.heard)
    }

    /// Whether the peer has received everything that was sent.
    pub fn is_acknowledged(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Whether the peer has acknowledged everything, and everything of the peer was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.acknowledge_at.is_none()
    }
}

/// Serialises bytes at once, rather than one by one.
pub(crate) mod byte_string {
    use serde::de::{Deserializer, Error, SeqAccess, Visitor};
    use serde::ser::Serializer;
    use std::fmt;

    /// Memory is reserved for at most this many bytes before they are read.
    const RESERVED: usize = 64 << 10;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        from.deserialize_byte_buf(Bytes)
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }

        /// Formats of text, such as JSON, have no bytes.
        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::with_capacity(from.size_hint().unwrap_or(0).min(RESERVED));
            while let Some(byte) = from.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
}
