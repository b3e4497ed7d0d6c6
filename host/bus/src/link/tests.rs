//! Single frames and deadlines of a link.

use super::*;

const START: Duration = Duration::from_secs(100);

fn after(milliseconds: u64) -> Duration {
    START + Duration::from_millis(milliseconds)
}

fn chunk(bytes: usize, is_last: bool) -> Chunk {
    Chunk { bytes: vec![7; bytes], is_last }
}

fn frame(first: u64, chunks: Vec<Chunk>, received: u64) -> Frame {
    Frame { first, chunks, received }
}

#[test]
fn small_messages_share_a_frame() {
    let (mut link, mut peer) = (Link::new(START), Link::new(START));
    for text in ["a", "", "c"] {
        link.send(text.into());
    }
    assert_eq!(link.next_deadline(), Duration::ZERO);
    let mut frames = link.poll(START);
    assert_eq!(frames.len(), 1);
    let messages = peer.receive(frames.remove(0), START).unwrap();
    assert_eq!(messages, [b"a".to_vec(), b"".to_vec(), b"c".to_vec()]);
}

#[test]
fn a_frame_has_at_most_a_thousand_chunks() {
    let mut link = Link::new(START);
    for _ in 0..2500 {
        link.send(Vec::new());
    }
    let counts: Vec<_> = link.poll(START).iter().map(|frame| frame.chunks.len()).collect();
    assert_eq!(counts, [1000, 1000, 500]);
}

#[test]
fn frames_and_the_window_are_limited() {
    let mut link = Link::new(START);
    link.send(vec![0; 10 << 20]);
    let frames = link.poll(START);
    let sizes = frames.iter().map(|frame| postcard::to_stdvec(frame).unwrap().len());
    let (total, largest) = sizes.fold((0, 0), |(sum, max), size| (sum + size, max.max(size)));
    assert!(total <= WINDOW_BYTES && largest <= 1 << 20);
    assert!(total + CHUNK_BYTES + CHUNK_COST * 20 > WINDOW_BYTES);
    assert_eq!(link.poll(after(1)), []);
    // An acknowledgement makes room for as many chunks.
    link.receive(frame(0, vec![], 2), after(1)).unwrap();
    let chunks: usize = link.poll(after(1)).iter().map(|frame| frame.chunks.len()).sum();
    assert_eq!(chunks, 2);
}

#[test]
fn an_acknowledgement_waits_for_data() {
    let mut link = Link::new(START);
    link.receive(frame(0, vec![chunk(1, true)], 0), START).unwrap();
    assert_eq!((link.poll(START), link.next_deadline()), (vec![], after(50)));
    link.send(b"data".to_vec());
    let frames = link.poll(after(10));
    assert_eq!((frames.len(), frames[0].received), (1, 1));
    // Without data, it is sent after 50 ms, and only once.
    link.receive(frame(1, vec![chunk(1, true)], 1), after(20)).unwrap();
    assert!(!link.is_idle());
    assert_eq!(link.poll(after(69)), []);
    assert_eq!(link.poll(after(70)), [frame(1, vec![], 2)]);
    assert_eq!(link.poll(after(71)), []);
    assert!(link.is_idle());
}

#[test]
fn doubled_and_early_chunks_are_dropped_and_answered_at_once() {
    let mut link = Link::new(START);
    let early = frame(1, vec![chunk(2, true)], 0);
    assert_eq!(link.receive(early.clone(), START).unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(link.poll(START), [frame(0, vec![], 0)]);
    let both = frame(0, vec![chunk(1, true), chunk(2, true)], 0);
    assert_eq!(link.receive(both, START).unwrap().len(), 2);
    assert_eq!(link.receive(early, START).unwrap().len(), 0);
    assert_eq!(link.poll(START), [frame(0, vec![], 2)]);
}

#[test]
fn resends_become_rarer_until_one_is_acknowledged() {
    let mut link = Link::new(START);
    link.send(b"x".to_vec());
    let sent = link.poll(START);
    for due in [300, 900, 2100, 4100, 6100] {
        assert!(link.next_deadline() <= after(due));
        let early = link.poll(after(due - 1));
        assert!(early.iter().all(|frame| frame.chunks.is_empty()), "{early:?}");
        assert_eq!(link.poll(after(due)), sent);
    }
    link.receive(frame(0, vec![], 1), after(6200)).unwrap();
    link.send(b"y".to_vec());
    link.poll(after(6200));
    assert_eq!(link.poll(after(6500)).len(), 1);
}

#[test]
fn a_resend_begins_with_one_frame() {
    let mut link = Link::new(START);
    link.send(vec![0; 3 << 20]);
    assert!(link.poll(START).len() > 10);
    assert_eq!(link.poll(after(300)).len(), 1);
    // All chunks had arrived.
    link.receive(frame(0, vec![], 16), after(310)).unwrap();
    assert_eq!(link.poll(after(310)), []);
    assert!(link.is_idle());
}

#[test]
fn a_heartbeat_is_sent_and_heard() {
    let mut link = Link::new(START);
    assert_eq!((link.poll(after(999)), link.next_deadline()), (vec![], after(1000)));
    assert_eq!(link.poll(after(1000)), [frame(0, vec![], 0)]);
    assert_eq!(link.next_deadline(), after(2000));
    assert_eq!(link.silence(after(1500)), Duration::from_millis(1500));
    link.receive(frame(0, vec![], 0), after(1500)).unwrap();
    assert_eq!(link.silence(after(1600)), Duration::from_millis(100));
}

#[test]
fn impossible_frames_are_refused() {
    let mut link = Link::new(START);
    link.send(b"x".to_vec());
    let refused = link.receive(frame(0, vec![], 1), after(1));
    assert_eq!(refused, Err(LinkError::NeverSent { received: 1, sent: 0 }));
    let refused = link.receive(frame(u64::MAX, vec![chunk(0, true)], 0), after(1));
    assert_eq!(refused, Err(LinkError::NumberTooLarge { first: u64::MAX }));
    assert_eq!(link.silence(after(1)), Duration::from_millis(1));
    let late = frame(u64::MAX - 1, vec![chunk(0, true)], 0);
    assert_eq!(link.receive(late, after(2)), Ok(vec![]));
    for first in 0..8 {
        let part = frame(first, vec![chunk(MAX_MESSAGE / 8, false)], 0);
        assert_eq!(link.receive(part, after(2)), Ok(vec![]));
    }
    let refused = link.receive(frame(8, vec![chunk(1, true)], 0), after(2));
    assert_eq!(refused, Err(LinkError::MessageTooLarge));
    assert_eq!(
        LinkError::MessageTooLarge.to_string(),
        "the peer sent a message larger than 64 MiB"
    );
}

#[test]
fn bytes_are_the_same_in_any_format() {
    let frame = frame(1, vec![chunk(3, true), chunk(0, false)], 2);
    let bytes = postcard::to_stdvec(&frame).unwrap();
    assert_eq!(bytes, [1, 2, 3, 7, 7, 7, 1, 0, 0, 2]);
    assert_eq!(postcard::from_bytes::<Frame>(&bytes).unwrap(), frame);
}
