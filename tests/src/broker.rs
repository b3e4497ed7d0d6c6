//! The broker of jobs on several machines: one nats-server, or a cluster of them.

#[cfg(target_os = "linux")]
use crate::Network;
use crate::root;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::iter;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to start, and a cluster to elect a leader.
const PATIENCE: Duration = Duration::from_secs(60);

/// The address of most servers.
const LOOPBACK: &str = "127.0.0.1";

/// A nats-server. It listens on 127.0.0.1, unless a test says otherwise. It keeps its streams in a temporary folder. Dropping it kills the server.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    /// The address on which the server listens.
    host: String,
    /// The port on which the server accepts clients. It stays the same when the server starts again.
    pub port: u16,
    ports: Ports,
    /// The configuration, the log and the streams.
    folder: TempDir,
}

impl Broker {
    /// Starts a server that accepts every client.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a server with more lines in its configuration, such as users and their permissions.
    pub fn start_with(config: &str) -> Self {
        Self::start_on(Ports::claim(), LOOPBACK, "", config)
    }

    /// Starts a server that listens on this address of the machine.
    pub fn start_at(host: &str) -> Self {
        Self::start_on(Ports::claim(), host, "", "")
    }

    /// Starts a server, and waits until it accepts clients. `storage` are options of JetStream.
    fn start_on(ports: Ports, host: &str, storage: &str, config: &str) -> Self {
        let Ports { clients: port, health, .. } = ports;
        let folder = tempfile::tempdir().unwrap();
        let streams = folder.path().join("streams");
        let config = format!(
            "server_name: broker-{port}\nlisten: \"{host}:{port}\"\nhttp: \"{host}:{health}\"\n\
             jetstream {{ store_dir: {streams:?}\n{storage}\n}}\n{config}\n"
        );
        fs::write(folder.path().join("server.conf"), config).unwrap();
        let child = spawn(folder.path());
        let mut broker = Self { child, host: host.to_owned(), port, ports, folder };
        broker.wait_until_it_listens();
        broker
    }

    /// `nats://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("nats://{}:{}", self.host, self.port)
    }

    /// `nats://user:password@127.0.0.1:port`.
    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("nats://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// Kills the server with SIGKILL, as if its machine had failed. It keeps its folder.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again after `kill`, with the same port and the same streams. Waits until it accepts
    /// clients.
    pub fn start_again(&mut self) {
        assert!(!self.is_running(), "the server on port {} still runs", self.port);
        self.child = spawn(self.folder.path());
        self.wait_until_it_listens();
    }

    /// Kills the server, and starts it again.
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Stops the server with SIGSTOP. Its connections stay open, and it answers nothing.
    pub fn pause(&mut self) {
        let pid = self.signal(Signal::STOP);
        // The threads stop one after the other. `NOWAIT` leaves the exit status to `Child`.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).unwrap();
    }

    /// Continues the server after `pause`.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    fn signal(&mut self, signal: Signal) -> Pid {
        // The system may have given the ID of a dead process to another process.
        assert!(self.is_running(), "the server on port {} does not run", self.port);
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        pid
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn wait_until_it_listens(&mut self) {
        // The name shows that this server listens on the port, and not another program.
        let name = format!("broker-{}", self.port);
        self.wait_until("accepts no clients", |broker| {
            broker.info().is_some_and(|info| info["server_name"] == *name)
        });
    }

    /// Waits until the server has loaded its streams. A server of a cluster must also be in contact with the
    /// cluster's leader.
    fn wait_until_it_is_healthy(&mut self) {
        self.wait_until("is not healthy", Self::is_healthy);
    }

    fn wait_until(&mut self, problem: &str, is_done: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_done(self) {
            if !self.is_running() || begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                panic!("nats-server on port {} {problem}:\n{log}", self.port);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The first message that the server sends to a client: its name, its version and its limits. `None` if
    /// it sends no such message within two seconds.
    fn info(&self) -> Option<Value> {
        let mut line = String::new();
        BufReader::new(connect(&self.host, self.port)?).read_line(&mut line).ok()?;
        serde_json::from_str(line.strip_prefix("INFO ")?).ok()
    }

    fn is_healthy(&self) -> bool {
        self.answer("/healthz").is_some_and(|answer| answer.starts_with("HTTP/1.0 200"))
    }

    /// Waits until the server is connected to this many other servers.
    fn wait_for_routes(&self, count: usize) {
        let begun = Instant::now();
        let remote = |answer: String| answer.matches("\"remote_id\"").count() >= count;
        while !self.answer("/routez").is_some_and(remote) {
            assert!(begun.elapsed() < PATIENCE, "nats-server finds no others");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the server answers to this request of a monitor.
    fn answer(&self, path: &str) -> Option<String> {
        let mut stream = connect(&self.host, self.ports.health)?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // A server that has already ended needs no cleanup.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server.
type StartBroker<'a> = Box<dyn FnOnce() -> Broker + Send + 'a>;

/// A cluster of nats-servers on 127.0.0.1, or on the machines of a network. Each server keeps its streams in its own temporary folder, and
/// syncs each write to disk before it confirms the write. Dropping the cluster kills the servers.
#[derive(Debug)]
pub struct Brokers {
    /// The servers, in the order of `urls`.
    pub servers: Vec<Broker>,
}

impl Brokers {
    /// Starts this many servers, and waits until they have elected a leader.
    pub fn cluster(count: usize) -> Self {
        Self::cluster_with(count, "")
    }

    /// Starts a cluster with more lines in the configuration of each server.
    pub fn cluster_with(count: usize, config: &str) -> Self {
        let places = (0..count).map(|_| (LOOPBACK.to_owned(), Ports::claim())).collect();
        let mut brokers = Self::start(places, |_, start| start(), config);
        brokers.wait_until_healthy();
        brokers
    }

    /// Starts one server on each of these machines, and waits until they know each other.
    #[cfg(target_os = "linux")]
    pub fn on(network: &Network, machines: &[u8]) -> Self {
        let claim = |machine: &u8| (network.address(*machine), network.on(*machine, Ports::claim));
        let places = machines.iter().map(claim).collect();
        let start = |number: usize, start: StartBroker<'_>| network.on(machines[number], start);
        let brokers = Self::start(places, start, "");
        for (server, machine) in brokers.servers.iter().zip(machines) {
            network.on(*machine, || server.wait_for_routes(machines.len() - 1));
        }
        brokers
    }

    /// Starts a server at each of these places. `at` calls the function where the server with this number shall run.
    fn start(
        places: Vec<(String, Ports)>,
        at: impl Fn(usize, StartBroker<'_>) -> Broker,
        config: &str,
    ) -> Self {
        let route =
            |(host, ports): &(String, Ports)| format!("\"nats-route://{host}:{}\"", ports.routes);
        let routes = places.iter().map(route).collect::<Vec<_>>().join(", ");
        let mut servers = Vec::new();
        for (number, (host, ports)) in places.into_iter().enumerate() {
            let config = format!(
                "cluster {{ name: brokers\nlisten: \"{host}:{}\"\nroutes: [{routes}] }}\n{config}",
                ports.routes
            );
            let start = || Broker::start_on(ports, &host, "sync_interval: always", &config);
            servers.push(at(number, Box::new(start)));
        }
        Self { servers }
    }

    /// The URLs of all servers, with commas between them.
    pub fn urls(&self) -> String {
        self.servers.iter().map(Broker::url).collect::<Vec<_>>().join(",")
    }

    /// Kills one server with SIGKILL, as if its machine had failed. The first server has the number 0.
    pub fn kill(&mut self, number: usize) {
        self.servers[number].kill();
    }

    /// Starts one server again after `kill`, with the same port and the same streams. Waits until it accepts
    /// clients. It may still lack what the others have written since; see `wait_until_healthy`.
    pub fn start_again(&mut self, number: usize) {
        self.servers[number].start_again();
    }

    /// Waits until each running server is in contact with the leader of the cluster and has all streams. More
    /// than half of the servers must be running, and no server may be paused. Each stream has a leader of its
    /// own. If the stream has lost it, the election can take ten seconds longer.
    pub fn wait_until_healthy(&mut self) {
        for server in &mut self.servers {
            if server.is_running() {
                server.wait_until_it_is_healthy();
            }
        }
    }
}

/// Starts the server whose configuration is in this folder.
fn spawn(folder: &Path) -> Child {
    let program = root().join("target/venv/bin/nats-server");
    assert!(program.exists(), "{} is missing; `make python-env` installs it", program.display());
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(folder.join("server.conf"));
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// Connects to a server. It must answer within two seconds.
fn connect(host: &str, port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect((host, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    Some(stream)
}

/// A free port, and a claim on it. The claim is a UDP socket with the same number: UDP and TCP have separate
/// ports, so a server can use the port. All tests respect the claim, also while the server is dead. The port
/// is lower than the ports that the system gives to clients. Otherwise, a client could take the port of a
/// killed server, and the server could not start again.
fn claim_port() -> (u16, UdpSocket) {
    let claim = |number: u64| {
        let address = ("127.0.0.1", u16::try_from(number).ok()?);
        let claim = UdpSocket::bind(address).ok()?;
        TcpListener::bind(address).ok()?;
        Some((address.1, claim))
    };
    let mut numbers = iter::repeat_with(|| 10_000 + RandomState::new().hash_one(0) % 20_000);
    numbers.find_map(claim).unwrap()
}

/// The ports of a server.
#[derive(Debug)]
struct Ports {
    clients: u16,
    /// For `/healthz`.
    health: u16,
    /// For the other servers of a cluster.
    routes: u16,
    _claims: [UdpSocket; 3],
}

impl Ports {
    fn claim() -> Self {
        let ((clients, first), (health, second), (routes, third)) =
            (claim_port(), claim_port(), claim_port());
        Self { clients, health, routes, _claims: [first, second, third] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_survives_the_death_of_a_server() {
        let mut brokers = Brokers::cluster(3);
        assert_eq!(brokers.urls().matches("nats://127.0.0.1:").count(), 3);
        for server in &brokers.servers {
            let info = server.info().unwrap();
            assert_eq!((&info["version"], &info["jetstream"]), (&"2.15.1".into(), &true.into()));
        }
        brokers.kill(1);
        assert!(brokers.servers[1].info().is_none());
        brokers.wait_until_healthy();
        brokers.start_again(1);
        brokers.wait_until_healthy();
        assert!(brokers.servers[1].info().is_some());
    }

    #[test]
    fn a_server_pauses_and_restarts_on_its_port() {
        let mut broker =
            Broker::start_with("authorization { users: [{ user: ann, password: secret }] }");
        for _ in 0..2 {
            broker.pause();
            assert!(broker.info().is_none(), "a paused server answers nothing");
            broker.resume();
        }
        assert!(broker.info().is_some(), "a resumed server answers");
        broker.restart();
        let info = broker.info().unwrap();
        assert_eq!(info["auth_required"], true, "it has the configuration that it had before");
        let url = format!("nats://ann:secret@127.0.0.1:{}", broker.port);
        assert_eq!(broker.url_for("ann", "secret"), url);
    }
}
