//! `sandmill doctor --broker`: what it finds at a broker, with each login.

use crate::cluster::{Cluster, broker_of_the_docs};
use sandmill_tests::{Broker, Brokers, Ran, TestJob};
use serde_json::Value;
use std::net::TcpListener;

fn doctor(url: &str, options: &[&str]) -> Ran {
    TestJob::empty().command(&[&["doctor", "--broker", url], options].concat())
}

/// The lines about the broker, without ports and times.
fn section(ran: &Ran) -> String {
    let (_, rest) = ran.stdout.split_once("\nThe broker:\n").unwrap();
    let (lines, _) = rest.split_once("\n\n").unwrap();
    let mut text = String::new();
    for (number, part) in lines.split("127.0.0.1:").enumerate() {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        text += if number == 0 { part } else { "BROKER" };
        text += if number == 0 { "" } else { rest };
    }
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for word in &mut words {
        if word.starts_with("broker-") {
            *word = "NAME".to_owned();
        }
        if word.parse::<f64>().is_ok() && word.contains('.') {
            *word = "N".to_owned();
        }
    }
    words.join(" ")
}

#[test]
fn a_broker_with_agents_is_fine() {
    let mut cluster = Cluster::new();
    cluster.start_agents(1);
    cluster.add_agent(&["--no-lead", "--max-jobs", "2"], &[]);
    let ran = doctor(&cluster.broker.url(), &[]);
    insta::assert_snapshot!(section(&ran).replace(env!("CARGO_PKG_VERSION"), "VERSION"), @"
      ok        the server NAME at nats://BROKER has version 2.15.1; the connection is not encrypted (tls:// encrypts it)
      ok        a message may have 1 MB; Sandmill needs 512 KB
      ok        a message to itself comes back after N ms
      ok        the login has the permissions of: leader (sandmill run), submitter (sandmill run --detach), node (sandmill node --no-lead), leading (sandmill node)
      ok        agents that answer: 2
                machine-0: version VERSION, may lead jobs, takes part in 0 of at most 4 jobs
                machine-1: version VERSION, leads no jobs, takes part in 0 of at most 2 jobs
    ");
    let ran = doctor(&cluster.broker.url(), &["--json"]);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["broker"]["agents"][1]["machine"], "machine-1", "{ran}");
    assert_eq!(found["broker"]["agents"][1]["max_jobs"], 2, "{ran}");
    assert!(found["broker"]["needed"][0]["missing"].is_null(), "{ran}");
    ran.exits_with(if found["required_works"] == true { 0 } else { 2 });
    // The agents do not take a roll call for anything else.
    let said = cluster.agent(0).said() + &cluster.agent(1).said();
    assert_eq!(said.lines().filter(|line| !line.contains("waits for jobs")).count(), 0, "{said}");
}

#[test]
fn each_login_of_the_docs_has_its_role() {
    let broker = broker_of_the_docs();
    let said = |user: &str| section(&doctor(&broker.url_for(user, "..."), &[]));
    let usable = |user: &str| {
        let text = said(user);
        text.lines().find(|line| line.contains("has the permissions of")).unwrap().to_owned()
    };
    insta::assert_snapshot!(["leader", "submitter", "node", "leading"].map(usable).join("\n"), @"
      ok        the login has the permissions of: leader (sandmill run)
      ok        the login has the permissions of: submitter (sandmill run --detach)
      ok        the login has the permissions of: node (sandmill node --no-lead)
      ok        the login has the permissions of: leader (sandmill run), node (sandmill node --no-lead), leading (sandmill node)
    ");
    let text = said("node");
    assert!(text.contains("the server answers after N ms (this login may not send"), "{text}");
    assert!(text.contains("agents: not known, as the login may not ask them"), "{text}");
    insta::assert_snapshot!(said("leading").lines().filter(|line| line.starts_with("  - ")).collect::<Vec<_>>().join("\n"), @"
      -         permissions: as submitter (sandmill run --detach), it may not publish to sandmill.submits, nor subscribe to sandmill.submitter.>
      -         agents: no agent answers
    ");
    let observer = said("observer");
    assert!(
        observer
            .contains("the login has the permissions of: observer (reads which jobs are offered)"),
        "{observer}"
    );
    let useless = Broker::start_with(
        r#"authorization { users: [{ user: ann, password: "...", permissions: { publish: { deny: ">" }, subscribe: { deny: ">" } } }] }"#,
    );
    let ran = doctor(&useless.url_for("ann", "..."), &[]);
    ran.exits_with(2);
    let text = section(&ran);
    assert!(
        text.contains("  WRONG     permissions: the login can be used for no role: "),
        "{text}"
    );
    assert!(text.contains("as node (sandmill node --no-lead), it may not publish to sandmill.leader.>, nor subscribe to sandmill.offers, sandmill.node.>"), "{text}");
    assert!(text.contains("what to do: give the login the permissions of its role"), "{text}");
}

#[test]
fn a_broker_that_cannot_be_used_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = doctor(&format!("nats://127.0.0.1:{port}"), &[]);
    ran.exits_with(2);
    let text = section(&ran);
    assert!(
        text.contains("WRONG     the broker: no NATS server answers at nats://BROKER"),
        "{text}"
    );
    let broker = Broker::start_with("authorization { users: [{ user: ann, password: secret }] }");
    let ran = doctor(&broker.url_for("ann", "wrong"), &[]);
    ran.exits_with(2);
    assert!(section(&ran).contains("refuses the login. Check the user name"), "{ran}");
    assert!(!ran.stdout.contains("ann:wrong"), "{ran}");
    let ran = doctor("ws://127.0.0.1", &[]);
    ran.exits_with(2);
    assert!(section(&ran).contains("the broker's URL is wrong"), "{ran}");
    let small = Broker::start_with("max_payload: 65536");
    let ran = doctor(&small.url(), &[]);
    ran.exits_with(2);
    let text = section(&ran);
    assert!(text.contains(" may have only 64 KB, and Sandmill needs 512 KB"), "{text}");
    // Without the option, no broker is tried.
    let ran = TestJob::empty().command(&["doctor"]);
    assert!(!ran.stdout.contains("The broker:"), "{ran}");
}

#[test]
fn servers_that_are_not_one_cluster_are_found() {
    let one = Broker::start();
    let two = Broker::start();
    let ran = doctor(&format!("{},{}", one.url(), two.url()), &[]);
    ran.exits_with(2);
    let text = section(&ran);
    assert!(
        text.contains("WRONG     the cluster: messages from nats://BROKER do not arrive at"),
        "{text}"
    );
    assert!(text.contains("what to do: connect the servers by the block `cluster`"), "{text}");
    let mut cluster = Brokers::cluster(3);
    let text = section(&doctor(&cluster.urls(), &[]));
    assert_eq!(
        text.matches("ok        messages from nats://BROKER arrive at").count(),
        2,
        "{text}"
    );
    cluster.kill(2);
    let ran = doctor(&cluster.urls(), &[]);
    ran.exits_with(2);
    let text = section(&ran);
    assert!(text.contains("WRONG     the broker: no NATS server answers at"), "{text}");
    assert_eq!(
        text.matches("ok        messages from nats://BROKER arrive at").count(),
        1,
        "{text}"
    );
}
