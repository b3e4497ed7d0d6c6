//! Two peers, and a transport that loses, doubles, delays and reorders frames.

use super::link::{CHUNK_BYTES, Chunk, Frame, Link};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

/// After the last fault, everything must arrive within this time.
const BOUND: Duration = Duration::from_secs(30);

/// What the transport does with a frame. The frame is delivered after each of these milliseconds.
type Fate = Vec<u64>;

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        4 => Just(vec![1]),
        3 => Just(vec![]),
        2 => (0..800u64).prop_map(|delay| vec![delay]),
        1 => (0..50u64, 0..3000u64).prop_map(|(first, second)| vec![first, second]),
    ];
    prop::collection::vec(fate, 0..150)
}

/// A message, its sender, and the milliseconds since the message before.
#[derive(Clone, Debug)]
struct Sending {
    peer: usize,
    pause: u64,
    size: usize,
}

fn sendings() -> impl Strategy<Value = Vec<Sending>> {
    let size = prop_oneof![
        10 => 0..200usize,
        1 => CHUNK_BYTES - 1..CHUNK_BYTES + 2,
        2 => 0..5 * CHUNK_BYTES,
    ];
    let pause = prop_oneof![3 => Just(0), 2 => 0..100u64, 1 => 0..4000u64];
    let sending =
        (0..2usize, pause, size).prop_map(|(peer, pause, size)| Sending { peer, pause, size });
    prop::collection::vec(sending, 0..40)
}

/// A frame on its way.
struct Transit {
    at: Duration,
    to: usize,
    frame: Frame,
}

struct Network {
    now: Duration,
    links: [Link; 2],
    /// The messages that each peer has received.
    received: [Vec<Vec<u8>>; 2],
    transits: Vec<Transit>,
    fates: VecDeque<Fate>,
}

impl Network {
    fn new(fates: Vec<Fate>) -> Self {
        let now = Duration::from_secs(5);
        Self {
            now,
            links: [Link::new(now), Link::new(now)],
            received: [vec![], vec![]],
            transits: vec![],
            fates: fates.into(),
        }
    }

    fn poll(&mut self) {
        for from in 0..2 {
            for frame in self.links[from].poll(self.now) {
                for delay in self.fates.pop_front().unwrap_or_else(|| vec![1]) {
                    let at = self.now + Duration::from_millis(delay);
                    self.transits.push(Transit { at, to: 1 - from, frame: frame.clone() });
                }
            }
        }
    }

    fn deliver(&mut self) {
        let (due, later) = self.transits.drain(..).partition(|transit| transit.at <= self.now);
        self.transits = later;
        let mut due: Vec<Transit> = due;
        due.sort_by_key(|transit| transit.at);
        for Transit { to, frame, .. } in due {
            self.received[to].extend(self.links[to].receive(frame, self.now).unwrap());
        }
    }

    /// Lets time pass until `end`, from one event to the next.
    fn run_until(&mut self, end: Duration) {
        loop {
            self.deliver();
            self.poll();
            let arrivals = self.transits.iter().map(|transit| transit.at);
            let deadlines = self.links.iter().map(Link::next_deadline);
            let next = arrivals.chain(deadlines).min().unwrap_or(end);
            if next > end {
                break;
            }
            assert!(next >= self.now, "a deadline must not remain in the past");
            self.now = next;
        }
        self.now = end;
    }

    fn is_idle(&self) -> bool {
        self.links.iter().all(Link::is_idle)
    }
}

/// The content shows the message's number.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is a byte")]
fn content(number: usize, size: usize) -> Vec<u8> {
    (0..size).map(|index| ((index / 1000 + index + number * 31) % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_once_and_in_order(fates in fates(), sendings in sendings()) {
        let mut network = Network::new(fates);
        let mut sent = [vec![], vec![]];
        for (number, sending) in sendings.into_iter().enumerate() {
            network.run_until(network.now + Duration::from_millis(sending.pause));
            let message = content(number, sending.size);
            sent[1 - sending.peer].push(message.clone());
            network.links[sending.peer].send(message);
            for (received, sent) in network.received.iter().zip(&sent) {
                prop_assert!(sent.starts_with(received));
            }
        }
        // Each heartbeat meets a fault, so the faults end.
        while !network.fates.is_empty() {
            network.run_until(network.now + Duration::from_secs(1));
        }
        let end = network.now + BOUND;
        while !(network.is_idle() && network.received == sent) {
            prop_assert!(network.now < end);
            network.run_until(network.now + Duration::from_millis(10));
        }
        network.run_until(end);
        prop_assert!(network.received == sent && network.is_idle());
        let now = network.now;
        prop_assert!(network.links.iter().all(|link| link.silence(now) < Duration::from_secs(2)));
    }

    /// Frames of a broken peer are refused or ignored, and the link never holds much of them.
    #[test]
    fn frames_of_a_broken_peer_do_no_harm(
        frames in prop::collection::vec((numbers(), chunks(), numbers()), 0..60),
        sends in 0..20usize,
    ) {
        let mut link = Link::new(Duration::ZERO);
        let mut now = Duration::ZERO;
        let mut received = 0;
        let mut arrived = 0;
        for (step, (first, chunks, acknowledged)) in frames.into_iter().enumerate() {
            if step < sends {
                link.send(vec![0; step * 1000]);
            }
            arrived += chunks.len();
            if let Ok(messages) = link.receive(Frame { first, chunks, received: acknowledged }, now) {
                received += messages.len();
            }
            now += Duration::from_millis(100);
            prop_assert!(link.poll(now).len() <= 20);
            prop_assert!(link.next_deadline() > now);
        }
        prop_assert!(received <= arrived);
    }
}

/// Numbers that are plausible, and some that are not.
fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..10u64, 1 => any::<u64>(), 1 => u64::MAX - 5..=u64::MAX]
}

fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    let chunk = (bytes, any::<bool>()).prop_map(|(bytes, is_last)| Chunk { bytes, is_last });
    prop::collection::vec(chunk, 0..6)
}
