//! What a login may do at the broker, under the permissions that docs/nodes.md gives to each role.

use crate::cluster::{Cluster, assert_complete, broker_of_the_docs, client_at, job};
use sandmill_bus::{OFFERS, to_leader, to_node};
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// The password of each login in the docs.
const PASSWORD: &str = "...";

/// What a login of each role may subscribe and publish, of all subjects that Sandmill uses.
#[test]
fn a_login_may_do_what_its_role_needs_and_no_more() {
    let broker = broker_of_the_docs();
    let client = |user: &str| client_at(broker.url_for(user, PASSWORD));
    let offers = OFFERS.to_owned();
    let orders = to_node("a");
    let all_orders = to_node(">");
    let reports = to_leader("l", "a");
    let all_reports = to_leader("l", ">");
    let echo = to_leader("l", "echo");
    let other = "other".to_owned();
    // A wildcard is only for subscriptions.
    let subscriptions =
        [&offers, &orders, &all_orders, &reports, &all_reports, &echo, &other, &">".to_owned()];
    let publications = [&offers, &orders, &reports, &echo, &other];
    let roles: [(&str, &[&String], &[&String]); 3] = [
        // A leader cannot report as a node, and reads neither offers nor orders of other leaders.
        ("leader", &[&reports, &all_reports, &echo], &[&offers, &orders, &echo]),
        // An agent cannot offer jobs, cannot order anything of other agents, and reads no reports.
        ("node", &[&offers, &orders, &all_orders], &[&reports, &echo]),
        // An observer sees which jobs are offered, and nothing that has settings.
        ("observer", &[&offers], &[]),
    ];
    for (role, may_subscribe, may_publish) in roles {
        for subject in subscriptions {
            let subscribed = client(role).subscribe(subject.clone());
            let expected = may_subscribe.contains(&subject);
            assert_eq!(subscribed.is_ok(), expected, "{role} subscribes {subject}: {subscribed:?}");
        }
        let mut spy = client("all");
        spy.subscribe(">".to_owned()).unwrap();
        let bus = client(role);
        for subject in publications {
            bus.publish(subject.clone(), role.as_bytes().to_vec());
        }
        // The broker handles the messages of a connection in order.
        bus.flush(Duration::from_secs(5));
        client("all").publish("end".to_owned(), Vec::new());
        let mut arrived = BTreeSet::new();
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(30), "the last message does not arrive");
            match spy.try_next() {
                Some(message) if message.subject == "end" => break,
                Some(message) if message.payload == role.as_bytes() => {
                    arrived.insert(message.subject);
                }
                Some(_) => {}
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
        let expected = may_publish.iter().map(|subject| (*subject).clone()).collect();
        assert_eq!(arrived, expected, "{role} publishes");
    }
}

#[test]
fn a_job_runs_with_the_permissions_of_the_docs() {
    let broker = broker_of_the_docs();
    let urls = ["leader", "node"].map(|user| broker.url_for(user, PASSWORD));
    let mut cluster = Cluster::with_logins(broker, urls);
    cluster.start_agents(2);
    let ran = cluster.run(job(2, ""), "leader");
    ran.exits_with(0);
    assert_complete(&ran);
}
