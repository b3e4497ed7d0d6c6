//! A client of the broker that may publish and read everything, and attacks signed jobs.

use crate::cluster::{Cluster, assert_complete, job, job_of};
use crate::signers::{Signer, start_agents};
use sandmill_bus::{
    BUS_PROTOCOL, Bus, BusMessage, Channel, ExpectedJob, FromNode, JobForNode, Link, LinkEnd,
    LinkKey, OFFERS, Offer, Packet, ToNode, decode_message, encode_message, publish, queue,
    to_leader, to_node,
};
use sandmill_model::{ContentRef, NodeId, random_name};
use sandmill_wire::node::ListedInputs;
use std::collections::{BTreeMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

/// Waits for a message that `pick` accepts.
fn until<T>(bus: &mut Bus, what: &str, mut pick: impl FnMut(&BusMessage) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        match bus.try_next() {
            Some(message) => {
                if let Some(found) = pick(&message) {
                    return found;
                }
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// All messages that have arrived.
fn arrived(bus: &mut Bus) -> Vec<BusMessage> {
    std::iter::from_fn(|| bus.try_next()).collect()
}

/// An offer of a job that does not exist.
fn offer(leader: &str) -> Offer {
    Offer {
        protocol: BUS_PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        job: "forged".to_owned(),
        run: "20260101T000000Z-00000000".to_owned(),
        leader: leader.to_owned(),
        epoch: 1,
        signature: None,
    }
}

/// The last part of a message's subject.
fn incarnation(message: &BusMessage) -> String {
    message.subject.rsplit('.').next().unwrap().to_owned()
}

/// Agents answer no offer without a signature that their policy names. A forged offer changes nothing for the job
/// that they work on, even if it claims to be of a later leader of this job.
#[test]
fn forged_offers_are_ignored() {
    let mut cluster = Cluster::new();
    let [ada, stranger] = ["ada", "stranger"].map(|name| Signer::new(&cluster, name));
    start_agents(&mut cluster, 1, &[&ada]);
    let mut attacker = cluster.client();
    attacker.subscribe("sandmill.>".to_owned()).unwrap();
    let names = [random_name(), LinkKey::new().unwrap().name().to_owned()];
    publish(&attacker, OFFERS, &offer(&names[0]));
    let mut signed = offer(&names[1]);
    signed.sign(&stranger.key, [0; 32]);
    publish(&attacker, OFFERS, &signed);
    // It claims another signer's name.
    signed.signature.as_mut().unwrap().signer = ada.public();
    publish(&attacker, OFFERS, &signed);
    let agent = cluster.agent(0);
    agent.until("takes no part in the job forged: it is not signed");
    agent.until("takes no part in the job forged: its signer is");
    agent.until("takes no part in the job forged: its signature is wrong");

    let job = job_of(200, 2, "");
    let mut running = cluster.start(job, "leader", &["--signing-key", &ada.file]);
    let genuine = until(&mut attacker, "the offer", |message| {
        let offer: Offer = decode_message(&message.payload).ok()?;
        (message.subject == OFFERS && offer.job == "test").then_some(offer)
    });
    let begun = Instant::now();
    while !running.has_ended() && begun.elapsed() < Duration::from_secs(60) {
        for changed in [
            Offer { epoch: u64::MAX, ..genuine.clone() },
            Offer { epoch: u64::MAX, signature: None, ..genuine.clone() },
            Offer { epoch: u64::MAX, leader: names[0].clone(), signature: None, ..genuine.clone() },
        ] {
            publish(&attacker, OFFERS, &changed);
        }
        thread::sleep(Duration::from_millis(20));
    }
    let ran = running.wait();
    ran.exits_with(0);
    assert!(!ran.stderr.contains("takes no part"), "{ran}");
    let answered = |message: &BusMessage| names.iter().any(|name| message.subject.contains(name));
    assert!(!arrived(&mut attacker).iter().any(answered), "an agent has answered a forged offer");
}

/// Messages that were recorded do not make an agent do anything, not even with the recorded offer, whose signature is
/// genuine.
#[test]
fn recorded_messages_start_nothing() {
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    let mut attacker = cluster.client();
    attacker.subscribe("sandmill.>".to_owned()).unwrap();
    start_agents(&mut cluster, 1, &[&ada]);
    let ran = cluster.start(job(1, ""), "leader", &["--signing-key", &ada.file]).wait();
    ran.exits_with(0);
    assert_complete(&ran);
    let recorded = arrived(&mut attacker);
    cluster.agent(0).until("is over");
    let before = cluster.agent(0).said();

    let offer = recorded.iter().find(|message| message.subject == OFFERS).unwrap();
    let orders: Vec<&BusMessage> =
        recorded.iter().filter(|message| message.subject.starts_with("sandmill.node.")).collect();
    assert!(orders.len() > 3, "{orders:?}");
    let old = incarnation(orders[0]);
    attacker.publish(offer.subject.clone(), offer.payload.clone());
    let new = until(&mut attacker, "the agent's answer", |message| {
        let is_new = message.subject.starts_with("sandmill.leader.") && incarnation(message) != old;
        is_new.then(|| incarnation(message)).filter(|new| new != "echo")
    });
    for order in orders {
        attacker.publish(to_node(&new), order.payload.clone());
        attacker.publish(to_node(&new), encode_message(&Packet::Gone).unwrap());
    }
    attacker.flush(Duration::from_secs(5));
    thread::sleep(Duration::from_millis(1500));
    let said = cluster.agent(0).said();
    assert!(said.starts_with(&before));
    assert!(said.ends_with("offers to run workers of the job test\n"), "{said}");
}

/// A client that publishes forged, changed and recorded packets at the subjects of a leader and its nodes does not
/// disturb the job.
#[test]
fn forged_packets_do_no_harm() {
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    start_agents(&mut cluster, 2, &[&ada]);
    let mut attacker = cluster.client();
    attacker.subscribe("sandmill.>".to_owned()).unwrap();
    let job = job_of(200, 2, "");
    let mut running = cluster.start(job, "leader", &["--signing-key", &ada.file]);
    let mut seen = HashSet::new();
    let mut firsts: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut forged = 0;
    while !running.has_ended() {
        let Some(BusMessage { subject, payload }) = attacker.try_next() else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let is_sealed = matches!(decode_message(&payload), Ok(Packet::Sealed(_)));
        if !is_sealed || !seen.insert(payload.clone()) {
            continue;
        }
        let mut changed = payload.clone();
        *changed.last_mut().unwrap() ^= 1;
        // The attacker must not take its own messages for those of others.
        seen.insert(changed.clone());
        let first = firsts.entry(subject.clone()).or_insert_with(|| payload.clone()).clone();
        let mut link = Link::new(Duration::ZERO);
        queue(&mut link, &ToNode::Over);
        let frame = Packet::Frame(link.poll(Duration::ZERO).remove(0));
        let plain = [Packet::Gone, frame].map(|packet| encode_message(&packet).unwrap());
        for payload in [changed, payload, first, vec![0xff; 40]].into_iter().chain(plain) {
            attacker.publish(subject.clone(), payload);
            forged += 1;
        }
    }
    let ran = running.wait();
    ran.exits_with(0);
    assert!(forged > 100, "{forged} forged packets");
    assert!(!ran.stderr.contains("takes no part"), "{ran}");
}

/// A client that may read everything learns no setting of a signed job.
#[test]
fn the_messages_of_a_signed_job_are_secret() {
    let secret = "tiger-and-lion";
    let set = format!("environment_variables.TOKEN={secret}");
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    start_agents(&mut cluster, 1, &[&ada]);
    cluster.start_agents(1);
    for is_signed in [true, false] {
        let mut ears = cluster.client();
        ears.subscribe(">".to_owned()).unwrap();
        let key = if is_signed { &["--signing-key", &ada.file][..] } else { &[] };
        let options = [&["--set", &set], key].concat();
        let ran = cluster.start(job(1, ""), "leader", &options).wait();
        ran.exits_with(0);
        let heard = arrived(&mut ears);
        assert!(heard.len() > 5, "{heard:?}");
        let has_secret = |message: &BusMessage| {
            message.payload.windows(secret.len()).any(|part| part == secret.as_bytes())
        };
        // An unsigned job shows that the test could hear it.
        assert_eq!(heard.iter().any(has_secret), !is_signed);
    }
}

/// A leader that has a genuine offer, and asks an agent for something else.
struct FalseLeader {
    bus: Bus,
    key: LinkKey,
    link: Link,
    begun: Instant,
}

impl FalseLeader {
    fn new(cluster: &Cluster) -> Self {
        let bus = cluster.client();
        let key = LinkKey::new().unwrap();
        bus.subscribe(to_leader(key.name(), "*")).unwrap();
        Self { bus, key, link: Link::new(Duration::ZERO), begun: Instant::now() }
    }

    /// Offers a job until an agent answers. Asks it for `job`, and returns why it declines.
    fn ask(mut self, offer: &Offer, job: JobForNode) -> String {
        let agent = loop {
            publish(&self.bus, OFFERS, offer);
            thread::sleep(Duration::from_millis(50));
            match self.bus.try_next() {
                Some(message) => break incarnation(&message),
                None => assert!(self.begun.elapsed() < Duration::from_secs(60), "no agent answers"),
            }
        };
        let seal = self.key.seal_with(&agent, LinkEnd::Leader).unwrap();
        let mut channel = Channel::new(to_node(&agent), Some(seal));
        queue(&mut self.link, &ToNode::Accepted(Box::new(job)));
        loop {
            channel.publish_frames(&self.bus, &mut self.link, self.begun.elapsed());
            let Some(message) = self.bus.try_next() else {
                assert!(
                    self.begun.elapsed() < Duration::from_secs(60),
                    "the agent does not answer"
                );
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let Ok(Packet::Frame(frame)) = channel.open(&message.payload) else { continue };
            for message in self.link.receive(frame, self.begun.elapsed()).unwrap() {
                if let FromNode::Declined(reason) = decode_message(&message).unwrap() {
                    return reason;
                }
            }
        }
    }
}

/// An agent does not look for the job if the leader asks for something else than what was signed.
#[test]
fn an_order_that_was_not_signed_is_refused() {
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    start_agents(&mut cluster, 1, &[&ada]);
    let pair = |value: &str| ("arguments".to_owned(), value.to_owned());
    let expected = ExpectedJob {
        salt: random_name(),
        job_file: String::new(),
        component: String::new(),
        settings: Vec::new(),
    };
    let signed = JobForNode {
        node: NodeId(0),
        proof: random_name(),
        store: "/nowhere/jobs".to_owned(),
        tenant: "default".to_owned(),
        source: ContentRef { sha256: [7; 32], bytes: 9 },
        job_file: "/nowhere/job.yaml".into(),
        overrides: vec![pair("[good]")],
        job: "forged".to_owned(),
        run: "20260101T000000Z-00000000".to_owned(),
        expected: Some(expected),
        listed: ListedInputs::default(),
    };
    let changes: [fn(&mut JobForNode); 8] = [
        // Not changed: the agent looks into the job's store.
        |_| {},
        |job| job.source.sha256[0] = 8,
        |job| job.source.bytes = 10,
        |job| job.overrides[0].1 = "[bad]".to_owned(),
        |job| job.job_file = "/etc/hostname".into(),
        |job| job.run = "20260101T000000Z-00000009".to_owned(),
        |job| job.expected.as_mut().unwrap().component = "00".to_owned(),
        |job| job.expected = None,
    ];
    for (index, change) in changes.iter().enumerate() {
        let leader = FalseLeader::new(&cluster);
        // The agent may not have left the earlier run yet.
        let run = format!("20260101T000000Z-{index:08}");
        let mut offer = Offer { run: run.clone(), ..offer(leader.key.name()) };
        offer.sign(&ada.key, signed.digest().unwrap());
        let mut asked = JobForNode { run, ..signed.clone() };
        change(&mut asked);
        let reason = leader.ask(&offer, asked);
        let expected = match index {
            0 => {
                "the job store /nowhere/jobs is not the one that the leader uses: the machines must share job_store \
                 at the same path"
            }
            _ => "the leader asks for something else than what the job's signer has signed",
        };
        assert_eq!(reason, expected, "change {index}");
    }
}
