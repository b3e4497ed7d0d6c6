//! The bus against a real server. Without one, these tests are skipped.

use super::{Broker, Bus, BusError, BusMessage};
use crate::link::{Frame, Link};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(20);

/// The program of the server, if there is one.
fn program() -> Option<PathBuf> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/nats-server");
    let named = std::env::var_os("SANDMILL_TEST_NATS_SERVER");
    let path = PathBuf::from(named.unwrap_or_else(|| OsString::from(installed)));
    if path.exists() {
        return Some(path);
    }
    writeln!(std::io::stderr(), "skipped: there is no NATS server at {}", path.display()).unwrap();
    None
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server, which ends with the test.
struct Server {
    program: PathBuf,
    port: u16,
    folder: TempDir,
    process: Child,
}

impl Server {
    /// Starts a server with this configuration, in which `FOLDER` is a temporary folder.
    fn start(configuration: &str) -> Option<Self> {
        Self::start_in(tempfile::tempdir().unwrap(), configuration)
    }

    fn start_in(folder: TempDir, configuration: &str) -> Option<Self> {
        let program = program()?;
        let configuration = configuration.replace("FOLDER", folder.path().to_str().unwrap());
        fs::write(folder.path().join("server.conf"), configuration).unwrap();
        let port = free_port();
        let process = run(&program, port, folder.path());
        Some(Self { program, port, folder, process })
    }

    fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.process = run(&self.program, self.port, self.folder.path());
    }

    fn broker(&self, login: &str) -> Broker {
        broker(&format!("nats://{login}127.0.0.1:{}", self.port))
    }

    fn bus(&self, login: &str) -> Bus {
        Bus::connect(&self.broker(login), "test").unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(program: &Path, port: u16, folder: &Path) -> Child {
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-c"]);
    command.arg(folder.join("server.conf")).stdout(Stdio::null()).stderr(Stdio::null());
    let process = command.spawn().unwrap();
    wait_until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    process
}

fn broker(url: &str) -> Broker {
    Broker { url: url.to_owned(), credentials: None, root_certificate: None }
}

fn refusal(broker: &Broker) -> BusError {
    Bus::connect(broker, "test").unwrap_err()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}

fn receive(bus: &mut Bus) -> BusMessage {
    let mut message = None;
    wait_until("a message arrives", || {
        message = bus.try_next();
        message.is_some()
    });
    message.unwrap()
}

fn message(subject: &str, payload: &[u8]) -> BusMessage {
    BusMessage { subject: subject.to_owned(), payload: payload.to_owned() }
}

#[test]
fn messages_arrive_at_subscribers() {
    let Some(server) = Server::start("") else { return };
    let (one, mut two) = (server.bus(""), server.bus(""));
    two.subscribe("a.*".to_owned()).unwrap();
    two.subscribe("b".to_owned()).unwrap();
    two.subscribe("b".to_owned()).unwrap();
    one.publish("a.1".to_owned(), b"first".to_vec());
    one.publish("c".to_owned(), b"for others".to_vec());
    one.publish("b".to_owned(), vec![]);
    one.publish("a.2".to_owned(), vec![7; 900_000]);
    assert_eq!(receive(&mut two), message("a.1", b"first"));
    let mut others = [receive(&mut two), receive(&mut two)];
    others.sort_by_key(|message| message.payload.len());
    assert_eq!(others, [message("b", b""), message("a.2", &[7; 900_000])]);
    two.unsubscribe("b");
    two.flush(LONG);
    one.publish("b".to_owned(), vec![]);
    one.publish("a.3".to_owned(), vec![]);
    assert_eq!(receive(&mut two), message("a.3", b""));
    two.subscribe("b".to_owned()).unwrap();
    one.publish("b".to_owned(), vec![1]);
    assert_eq!(receive(&mut two), message("b", &[1]));
    assert_eq!((two.last_error(), two.send_queue.used(), two.receive_queue.used()), (None, 0, 0));
}

#[test]
fn a_bus_serves_an_asynchronous_owner() {
    let Some(server) = Server::start("") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (one, mut two) = (server.bus(""), server.bus(""));
        two.subscribe("a".to_owned()).unwrap();
        let pause = Duration::from_millis(20);
        assert!(tokio::time::timeout(pause, two.next()).await.is_err());
        one.publish("a".to_owned(), b"x".to_vec());
        assert_eq!(tokio::time::timeout(LONG, two.next()).await.unwrap(), message("a", b"x"));
    });
}

#[test]
fn what_was_published_leaves_before_the_end() {
    let Some(server) = Server::start("") else { return };
    let (one, mut two) = (server.bus(""), server.bus(""));
    two.subscribe("a".to_owned()).unwrap();
    for number in 0..200 {
        one.publish("a".to_owned(), vec![number; 10_000]);
    }
    drop(one);
    for number in 0..200 {
        assert_eq!(receive(&mut two).payload, [number; 10_000]);
    }
}

#[test]
fn a_restart_of_the_server_is_survived() {
    let Some(mut server) = Server::start("") else { return };
    let (one, mut two) = (server.bus(""), server.bus(""));
    two.subscribe("a".to_owned()).unwrap();
    server.stop();
    wait_until("both notice", || !one.is_connected() && !two.is_connected());
    one.publish("a".to_owned(), b"while it was down".to_vec());
    let start = Instant::now();
    let refused = two.subscribe("b".to_owned()).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(6));
    assert!(refused.to_string().contains("did not answer within 5 s about the subject b"));
    assert!(two.last_error().is_some());
    server.start_again();
    wait_until("messages flow again", || {
        one.publish("a".to_owned(), b"again".to_vec());
        two.try_next().is_some_and(|message| message.payload == b"again")
    });
    two.subscribe("b".to_owned()).unwrap();
    assert!(one.is_connected() && two.is_connected());
    // The end of a bus without a server is quick.
    server.stop();
    wait_until("one notices", || !one.is_connected());
    let start = Instant::now();
    drop(one);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn what_waits_for_the_server_is_limited() {
    let Some(mut server) = Server::start("") else { return };
    let bus = server.bus("");
    server.stop();
    wait_until("the bus notices", || !bus.is_connected());
    for _ in 0..200 {
        bus.publish("a".to_owned(), vec![0; 1 << 20]);
    }
    assert!(bus.send_queue.used() <= super::SEND_QUEUE_BYTES);
    assert!(bus.last_error().is_some());
}

#[test]
fn a_message_larger_than_the_server_allows_is_reported() {
    let Some(server) = Server::start("max_payload: 1000") else { return };
    let bus = server.bus("");
    bus.publish("a".to_owned(), vec![0; 1001]);
    bus.flush(LONG);
    let error = bus.last_error().unwrap();
    assert!(error.contains("payload"), "{error}");
}

const USERS: &str = r#"authorization { users = [
    { user: "all", password: "right" }
    { user: "some", password: "right", permissions: { subscribe: ["ok.>", "_INBOX_test.>"] } }
    { user: "few", password: "right", permissions: { subscribe: ["ok.>"], publish: ["ok.>"] } }
] }"#;

#[test]
fn a_wrong_login_is_refused() {
    let Some(server) = Server::start(USERS) else { return };
    server.bus("all:right@");
    for login in ["all:wrong@", "wrong@", ""] {
        let error = refusal(&server.broker(login));
        assert!(matches!(error, BusError::Unauthorized { .. }), "{error:?}");
        let text = format!("{error} {:?}", server.broker(login));
        assert!(text.contains(&format!("127.0.0.1:{} refuses the login", server.port)), "{text}");
        assert!(!text.contains("wrong"), "{text}");
    }
}

#[test]
fn a_token_is_a_login() {
    let Some(server) = Server::start("authorization { token: \"a b\" }") else { return };
    server.bus("a%20b@");
}

#[test]
fn a_forbidden_subscription_is_refused() {
    let Some(server) = Server::start(USERS) else { return };
    for login in ["some:right@", "few:right@"] {
        let mut bus = server.bus(login);
        for _ in 0..20 {
            let error = bus.subscribe("secret.1".to_owned()).unwrap_err();
            assert!(matches!(error, BusError::SubscriptionRefused { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("refuses the subscription to secret.1: Permissions"), "{text}");
            bus.subscribe("ok.1".to_owned()).unwrap();
            bus.unsubscribe("ok.1");
        }
        bus.subscribe("ok.1".to_owned()).unwrap();
        bus.publish("ok.1".to_owned(), b"x".to_vec());
        assert_eq!(receive(&mut bus), message("ok.1", b"x"));
        let start = Instant::now();
        bus.flush(LONG);
        assert!(start.elapsed() < LONG);
        assert!(bus.last_error().unwrap().starts_with("Permissions Violation"));
    }
}

#[test]
fn no_server_answers() {
    let port = free_port();
    let error = refusal(&broker(&format!("nats://u:secret@127.0.0.1:{port}")));
    let expected = format!(
        "no NATS server answers at nats://127.0.0.1:{port}: Connection refused (os error 111). Check that the \
         server runs, and that this machine can reach it"
    );
    assert_eq!(error.to_string(), expected);
    let error = refusal(&broker("nats://name.invalid:4222"));
    assert!(matches!(error, BusError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("lookup"), "{error}");
}

/// A program listens, but says nothing. Another server is tried, too.
#[test]
fn a_silent_server_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let start = Instant::now();
    let error = refusal(&broker(&format!("nats://127.0.0.1:{port}")));
    assert!(error.to_string().contains("no answer within 5 s"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(6));
    let Some(server) = Server::start("") else { return };
    let urls = format!("nats://127.0.0.1:{port},nats://127.0.0.1:{}", server.port);
    assert!(Bus::connect(&broker(&urls), "test").unwrap().is_connected());
}

#[test]
fn an_old_server_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let info = r#"{"server_id":"I","server_name":"old one","version":"2.12.2","go":"","host":"h",
            "port":1,"max_payload":1000,"proto":1,"client_id":1,"headers":true}"#;
        let info = format!("INFO {}\r\nPONG\r\n", info.replace('\n', ""));
        connection.write_all(info.as_bytes()).unwrap();
        // Reads until the bus ends.
        let _ = std::io::copy(&mut connection, &mut std::io::sink());
    });
    let error = refusal(&broker(&format!("nats://127.0.0.1:{port}")));
    let expected = format!(
        "the NATS server old one at nats://127.0.0.1:{port} has version 2.12.2, which is too old. Update it to \
         version 2.12.3 or later"
    );
    assert_eq!(error.to_string(), expected);
    server.join().unwrap();
}

#[test]
fn unusable_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no credentials").unwrap();
    for (path, reason) in [(&file, "cannot parse"), (&folder.path().join("x"), "No such file")] {
        let broker = Broker { credentials: Some(path.clone()), ..broker("nats://127.0.0.1") };
        let error = refusal(&broker).to_string();
        assert!(error.starts_with("the broker's credentials file /"), "{error}");
        assert!(error.contains(reason), "{error}");
    }
    let broker = Broker { root_certificate: Some(file), ..broker("nats://127.0.0.1") };
    let error = refusal(&broker).to_string();
    assert!(error.contains("it contains no certificate in PEM format"), "{error}");
}

/// Makes a key and a certificate for 127.0.0.1 that no authority has signed.
fn certificate(folder: &Path) -> Option<PathBuf> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    if made.is_ok_and(|status| status.success()) {
        return Some(folder.join("certificate.pem"));
    }
    writeln!(std::io::stderr(), "skipped: there is no openssl").unwrap();
    None
}

#[test]
fn a_certificate_must_be_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(certificate) = certificate(folder.path()) else { return };
    let tls = r#"tls { cert_file: "FOLDER/certificate.pem", key_file: "FOLDER/key.pem" }"#;
    let Some(server) = Server::start_in(folder, tls) else { return };
    let with_root = |broker| Broker { root_certificate: Some(certificate.clone()), ..broker };
    for scheme in ["nats", "tls"] {
        let broker = broker(&format!("{scheme}://127.0.0.1:{}", server.port));
        let error = refusal(&broker);
        assert!(matches!(error, BusError::Tls { .. }), "{error:?}");
        assert!(error.to_string().contains("failed: invalid peer certificate"), "{error}");
        assert!(Bus::connect(&with_root(broker), "test").unwrap().is_connected());
    }
    // A server without TLS.
    let Some(plain) = Server::start("") else { return };
    let error = refusal(&with_root(plain.broker("")));
    assert!(matches!(error, BusError::Tls { .. }), "{error:?}");
}

#[test]
fn a_link_carries_large_messages_over_the_bus() {
    let Some(server) = Server::start("") else { return };
    let start = Instant::now();
    let mut ends = ["0", "1"].map(|subject| {
        let bus = server.bus("");
        bus.subscribe(subject.to_owned()).unwrap();
        (bus, Link::new(start.elapsed()))
    });
    let content = vec![9; 20 << 20];
    ends[0].1.send(content.clone());
    let mut received = vec![];
    wait_until("the message arrives", || {
        for (end, other) in [(0, "1"), (1, "0")] {
            let (bus, link) = &mut ends[end];
            while let Some(message) = bus.try_next() {
                let frame: Frame = postcard::from_bytes(&message.payload).unwrap();
                received.extend(link.receive(frame, start.elapsed()).unwrap());
            }
            for frame in link.poll(start.elapsed()) {
                bus.publish(other.to_owned(), postcard::to_stdvec(&frame).unwrap());
            }
        }
        ends.iter().all(|(_, link)| link.is_idle())
    });
    assert!(received == [content]);
}

#[test]
fn a_bus_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Bus>();
}
