//! The files in deploy/, as an operator uses them.

use crate::cluster::{Cluster, assert_complete, job};
use sandmill_tests::{Broker, root, sandmill};
use std::fs;
use std::path::Path;
use std::process::Command;

fn deployed(name: &str) -> String {
    fs::read_to_string(root().join("deploy").join(name)).unwrap()
}

fn nats_server() -> std::path::PathBuf {
    root().join("target/venv/bin/nats-server")
}

/// Makes the broker's key and certificate in this folder. Returns whether there is an openssl.
pub(crate) fn make_certificate(folder: &Path) -> bool {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "broker.key", "-out", "broker.crt"])
        .current_dir(folder)
        .output();
    let Ok(made) = made else {
        eprintln!("skipped: there is no openssl");
        return false;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}

/// The broker's configuration with another folder instead of /etc/nats.
fn config_in(folder: &Path) -> String {
    let config = deployed("nats-server.conf");
    let moved = config.replace("/etc/nats", folder.to_str().unwrap());
    assert_ne!(config, moved);
    moved
}

#[test]
fn the_broker_has_the_permissions_of_the_docs() {
    let docs = fs::read_to_string(root().join("docs/nodes.md")).unwrap();
    let begin = docs.find("authorization {").unwrap();
    let permissions = docs[begin..].split("```").next().unwrap();
    assert!(deployed("nats-server.conf").ends_with(permissions));
}

#[test]
fn a_job_runs_with_the_broker_of_deploy() {
    let folder = tempfile::tempdir().unwrap();
    if !make_certificate(folder.path()) {
        return;
    }
    let config = config_in(folder.path());
    let file = folder.path().join("nats-server.conf");
    fs::write(&file, &config).unwrap();
    let checked = Command::new(nats_server()).arg("-t").arg("-c").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // The broker of the test chooses its own port.
    let config = config.replace("listen: \"0.0.0.0:4222\"\n", "");
    let broker = Broker::start_with(&config);
    let urls =
        ["leader", "leading"].map(|user| broker.url_for(user, "...").replace("nats:", "tls:"));
    let authority = ["--broker-ca", &folder.path().join("broker.crt").display().to_string()];
    let mut cluster = Cluster::with_logins(broker, urls);
    cluster.start_agents_with(2, &authority);
    let ran = cluster.start(job(2, ""), "leader", &authority).wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

#[test]
fn systemd_accepts_the_services() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sandmill-node.service", "sandmill@.service", "nats-server.service"] {
        // systemd checks that the programs exist.
        let unit = deployed(name)
            .replace("/usr/bin/sandmill ", &format!("{} ", sandmill().display()))
            .replace("/usr/bin/nats-server ", &format!("{} ", nats_server().display()));
        let file = folder.path().join(name);
        fs::write(&file, unit).unwrap();
        let Ok(checked) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
            return eprintln!("skipped: there is no systemd-analyze");
        };
        // It also exits with 0 after some complaints.
        let complaints = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() && complaints.is_empty(), "{name}: {complaints}");
    }
}
