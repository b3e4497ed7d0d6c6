//! A client of the broker that pretends to be an agent, and lies.

use crate::cluster::{Cluster, assert_complete, job};
use sandmill_bus::{
    BUS_PROTOCOL, Bus, FromNode, Link, OFFERS, Offer, Packet, ToNode, decode_message,
    encode_message, to_leader, to_node,
};
use sandmill_model::{AttemptReport, AttemptUsage, MiniBatchId, NodeId, WorkerId};
use sandmill_wire::{NodeNews, NodeReport, Order, WorkersStanding};
use std::thread;
use std::time::{Duration, Instant};

/// A false agent.
struct Liar {
    bus: Bus,
    link: Link,
    leader: String,
    begun: Instant,
}

impl Liar {
    fn new(bus: Bus, leader: &str) -> Self {
        bus.subscribe(to_node("liar")).unwrap();
        let leader = to_leader(leader, "liar");
        let mut liar = Self { bus, link: Link::new(Duration::ZERO), leader, begun: Instant::now() };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (name, protocol) = ("liar".to_owned(), BUS_PROTOCOL);
        let (may_lead, continues) = (None, None);
        liar.send(&FromNode::Hello { name, protocol, version, may_lead, continues });
        liar
    }

    fn send(&mut self, message: &FromNode) {
        self.link.send(encode_message(message).unwrap());
        self.flush();
    }

    fn flush(&mut self) {
        for frame in self.link.poll(self.begun.elapsed()) {
            self.bus.publish(self.leader.clone(), encode_message(&Packet::Frame(frame)).unwrap());
        }
    }

    /// The leader's next messages. `None` if the leader does not count on this agent.
    fn receive(&mut self) -> Option<Vec<ToNode>> {
        self.flush();
        let Some(message) = self.bus.try_next() else {
            thread::sleep(Duration::from_millis(5));
            return Some(Vec::new());
        };
        if message.subject != to_node("liar") {
            return Some(Vec::new());
        }
        match decode_message(&message.payload).unwrap() {
            Packet::Gone => None,
            Packet::Sealed(_) => panic!("the job is not signed"),
            Packet::Frame(frame) => {
                let messages = self.link.receive(frame, self.begun.elapsed()).unwrap();
                Some(messages.iter().map(|message| decode_message(message).unwrap()).collect())
            }
        }
    }

    /// Waits for a message that `pick` accepts.
    fn until<T>(&mut self, pick: impl Fn(ToNode) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(30), "the leader does not answer");
            let messages = self.receive().expect("the leader still counts on this agent");
            if let Some(found) = messages.into_iter().find_map(&pick) {
                return found;
            }
        }
    }

    /// Waits until the leader accepts this agent, and returns its number.
    fn until_accepted(&mut self) -> NodeId {
        self.until(|message| match message {
            ToNode::Accepted(job) => Some(job.node),
            _ => None,
        })
    }

    /// Waits until the leader gives this agent up.
    fn until_given_up(&mut self) {
        let begun = Instant::now();
        while self.receive().is_some() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the leader believes everything");
        }
    }
}

/// Waits for an offer, and returns the leader's name.
pub(crate) fn offered(bus: &mut Bus) -> String {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing is offered");
        match bus.try_next() {
            Some(message) if message.subject == OFFERS => {
                return decode_message::<Offer>(&message.payload).unwrap().leader;
            }
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A [`Packet::Frame`] as it is encoded: the kind of packet, the number of the first chunk, the chunks, and how many
/// chunks were received.
type EncodedFrame = (u32, u64, Vec<(Vec<u8>, bool)>, u64);

/// What an honest agent says that it has prepared. It is read from the broker.
fn overheard(bus: &mut Bus) -> FromNode {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "the agent prepares nothing");
        let Some(message) = bus.try_next() else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        let frame = decode_message::<EncodedFrame>(&message.payload);
        let chunks = frame.map(|(_, _, chunks, _)| chunks).unwrap_or_default();
        let mut messages = chunks.iter().filter_map(|(bytes, _)| decode_message(bytes).ok());
        if let Some(found) = messages.find(|message| matches!(message, FromNode::Prepared { .. })) {
            return found;
        }
    }
}

/// A report of a success that never was.
fn finished(worker: WorkerId, id: MiniBatchId) -> NodeReport {
    let mut report = AttemptReport::sample();
    report.id = id;
    let report = Box::new(report);
    let usage = AttemptUsage::default();
    NodeReport::News(NodeNews::Finished {
        worker,
        age: Duration::ZERO,
        has_run: true,
        usage,
        report,
    })
}

fn standing(idle: u32) -> NodeReport {
    NodeReport::News(NodeNews::Standing(WorkersStanding { idle, ..WorkersStanding::default() }))
}

/// The results of a job are right although a client of the broker sends garbage to the leader, reports results that
/// do not exist, and speaks for other nodes.
#[test]
fn lies_do_no_harm() {
    let job = job(2, "");
    let mut cluster = Cluster::new();
    let mut ears = cluster.client();
    ears.subscribe(OFFERS.to_owned()).unwrap();
    let running = cluster.start(job, "leader", &["--set", "run_max_try=5"]);
    let leader = offered(&mut ears);
    ears.subscribe("sandmill.leader.>".to_owned()).unwrap();
    let noise = cluster.client();
    for garbage in [&b""[..], b"\xff\xff\xff\xff", &[0; 1000], &[7; 300_000]] {
        noise.publish(to_leader(&leader, "garbage"), garbage.to_vec());
        noise.publish(OFFERS.to_owned(), garbage.to_vec());
    }
    cluster.start_agents(1);
    let prepared = overheard(&mut ears);

    // It reports before it has prepared anything.
    let mut liar = Liar::new(cluster.client(), &leader);
    let node = liar.until_accepted();
    assert_ne!(node, NodeId(0), "the honest agent came first");
    liar.send(&FromNode::Reports(vec![standing(2)]));
    liar.until_given_up();

    // It speaks for the workers of another node.
    let mut liar = Liar::new(cluster.client(), &leader);
    liar.until_accepted();
    liar.send(&prepared);
    liar.send(&FromNode::Reports(vec![finished(WorkerId(0), MiniBatchId(0))]));
    liar.until_given_up();

    // It claims to have attempts of an earlier leader.
    let mut liar = Liar::new(cluster.client(), &leader);
    liar.until_accepted();
    liar.send(&prepared);
    let continues = NodeReport::News(NodeNews::Continues(Vec::new()));
    liar.send(&FromNode::Reports(vec![continues]));
    liar.until_given_up();
    drop(liar);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

/// A node that reports rows that it never wrote gets them refused, and another node does the work.
#[test]
fn rows_that_do_not_exist_are_refused() {
    let job = job(2, "");
    let mut cluster = Cluster::new();
    let mut ears = cluster.client();
    ears.subscribe(OFFERS.to_owned()).unwrap();
    ears.subscribe("sandmill.leader.>".to_owned()).unwrap();
    // The honest agent must not do all the work before the liar gets some.
    let slow = ["--set", "run_max_try=5", "--set", "process_count_per_node=1"];
    let running = cluster.start(job, "leader", &slow);
    let leader = offered(&mut ears);
    let mut liar = Liar::new(cluster.client(), &leader);
    let node = liar.until_accepted();
    cluster.start_agents(1);
    liar.send(&overheard(&mut ears));
    let worker = WorkerId(node.first_worker().unwrap());
    liar.send(&FromNode::Reports(vec![standing(1)]));
    let grant = liar.until(|message| match message {
        ToNode::Order(Order::Grant(grants)) => grants.into_iter().next(),
        _ => None,
    });
    let granted = finished(worker, grant.assignment.mini_batch.id);
    // It also reports a mini-batch that it was not granted.
    let other = finished(worker, MiniBatchId(59));
    liar.send(&FromNode::Reports(vec![granted, other]));
    liar.flush();
    thread::sleep(Duration::from_millis(300));
    drop(liar);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}
