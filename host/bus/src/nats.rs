//! A process's connection to the broker, which is a NATS server. Only this module uses the NATS client.
//!
//! The client runs on a thread of its own, so that the owner may be synchronous or asynchronous.

mod address;
mod error;
mod options;
mod runner;
#[cfg(test)]
mod tests;

pub use error::BusError;

use address::Servers;
use async_nats::Client;
use async_nats::connection::State;
use runner::{Command, Runner};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc as sync_mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};

/// The connection must be made within this time.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The broker must answer within this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The oldest version of a server that is supported.
const OLDEST_VERSION: &str = "2.12.3";
/// The thread limits how long it waits for the broker. The owner waits this much longer for the thread.
const GRACE: Duration = Duration::from_millis(500);
/// At the end, what was published must leave within this time.
const END_WITHIN: Duration = Duration::from_secs(1);
/// Messages beyond this size are dropped while they wait to be sent.
const SEND_QUEUE_BYTES: usize = 64 << 20;
/// Messages beyond this size are dropped while they wait for the owner.
const RECEIVE_QUEUE_BYTES: usize = 256 << 20;
/// What a message costs besides its payload and subject.
const MESSAGE_COST: usize = 64;

/// Where the broker is, and how to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Broker {
    /// The addresses of the servers, separated by commas: `nats://host:4222` or `tls://host:4222`. An address
    /// may contain `user:password@` or `token@`.
    pub url: String,
    /// A NATS credentials file, which contains a JWT and an nkey.
    pub credentials: Option<PathBuf>,
    /// The certificates of the authorities that may sign the server's certificate, as PEM. If there is none,
    /// the system's authorities may. If there is one, the connection must use TLS.
    pub root_certificate: Option<PathBuf>,
}

impl fmt::Debug for Broker {
    /// The URL is shown without its password or token.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Broker")
            .field("url", &address::without_login(&self.url))
            .field("credentials", &self.credentials)
            .field("root_certificate", &self.root_certificate)
            .finish()
    }
}

impl Broker {
    /// Each server of the broker, as a broker of its own.
    ///
    /// # Errors
    /// If the URL is wrong.
    pub fn servers(&self) -> Result<Vec<Self>, BusError> {
        let urls = Servers::parse(&self.url)?.urls();
        Ok(urls.into_iter().map(|url| Self { url, ..self.clone() }).collect())
    }

    /// The addresses without the login, to show to people.
    ///
    /// # Errors
    /// If the URL is wrong.
    pub fn shown(&self) -> Result<String, BusError> {
        Servers::parse(&self.url).map(|servers| servers.shown())
    }
}

/// A server of the broker, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerServer {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The most bytes of a message.
    pub max_payload: usize,
    /// Whether each connection to it uses TLS.
    pub requires_tls: bool,
}

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusMessage {
    /// The subject to which it was published.
    pub subject: String,
    /// The content.
    pub payload: Vec<u8>,
}

impl BusMessage {
    fn cost(&self) -> usize {
        cost(&self.subject, &self.payload)
    }
}

fn cost(subject: &str, payload: &[u8]) -> usize {
    subject.len() + payload.len() + MESSAGE_COST
}

/// A connection to the broker. If the connection breaks, the bus makes it again, as often as necessary, and
/// renews the subscriptions. Messages may be lost meanwhile.
#[derive(Debug)]
pub struct Bus {
    client: Client,
    commands: mpsc::UnboundedSender<Command>,
    send_queue: Arc<Quota>,
    received: mpsc::UnboundedReceiver<BusMessage>,
    receive_queue: Arc<Quota>,
    errors: Arc<Errors>,
    /// The thread ends when this is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Bus {
    /// Connects to the broker within five seconds. The name shows in the broker's lists of connections. It is
    /// also a part of the subjects by which the bus tests the connection, which begin with `_INBOX_` and the
    /// name.
    ///
    /// # Errors
    /// If no server answers, or the server refuses the connection or is too old, or the broker's description
    /// is wrong.
    pub fn connect(broker: &Broker, name: &str) -> Result<Self, BusError> {
        let servers = Servers::parse(&broker.url)?;
        let errors = Arc::new(Errors::default());
        let options = options::options(broker, name, &servers, &errors)?;
        let (commands, commands_receiver) = mpsc::unbounded_channel();
        let (received_sender, received) = mpsc::unbounded_channel();
        let (send_queue, receive_queue) =
            (Quota::new(SEND_QUEUE_BYTES), Quota::new(RECEIVE_QUEUE_BYTES));
        let runner = Runner {
            commands: commands_receiver,
            send_queue: send_queue.clone(),
            received: received_sender,
            receive_queue: receive_queue.clone(),
            errors: errors.clone(),
        };
        let (stop, stopped) = oneshot::channel();
        let (ready, client) = sync_mpsc::channel();
        let silent = BusError::too_late(servers.shown());
        let thread = thread::Builder::new()
            .name("sandmill-bus".to_owned())
            .spawn(move || runner::run(runner, options, &servers, &ready, stopped))
            .map_err(BusError::Thread)?;
        // The thread reports a failure before it ends.
        let client = client.recv_timeout(CONNECT_WITHIN + GRACE).map_err(|_| silent)??;
        let stop = Some(stop);
        let thread = Some(thread);
        Ok(Self { client, commands, send_queue, received, receive_queue, errors, stop, thread })
    }

    /// Subscribes to a subject, and returns when the broker has done so. A second subscription to the same
    /// subject has no effect.
    ///
    /// # Errors
    /// If the broker forbids it, or does not answer within five seconds.
    pub fn subscribe(&self, subject: String) -> Result<(), BusError> {
        let (reply, answer) = sync_mpsc::channel();
        let silent = BusError::NoAnswer { subject: subject.clone() };
        self.command(Command::Subscribe { subject, reply });
        answer.recv_timeout(ANSWER_WITHIN + GRACE).unwrap_or(Err(silent))
    }

    /// Ends the subscription to a subject. Messages of it that wait for the owner are still returned.
    pub fn unsubscribe(&self, subject: &str) {
        self.command(Command::Unsubscribe { subject: subject.to_owned() });
    }

    /// Queues a message for all subscribers of a subject. If 64 MiB wait, because the connection is broken or
    /// slow, the message is dropped.
    pub fn publish(&self, subject: String, payload: Vec<u8>) {
        if self.send_queue.take(cost(&subject, &payload)) {
            self.command(Command::Publish { subject, payload });
        } else {
            self.errors.note("messages to the broker were dropped, because too many of them wait");
        }
    }

    /// Publishes a message, and returns when the broker has processed it.
    ///
    /// # Errors
    /// If the broker forbids it, or does not answer within five seconds.
    pub fn try_publish(&self, subject: String, payload: Vec<u8>) -> Result<(), BusError> {
        let (reply, answer) = sync_mpsc::channel();
        let silent = BusError::NoAnswer { subject: subject.clone() };
        self.command(Command::TryPublish { subject, payload, reply });
        answer.recv_timeout(ANSWER_WITHIN + GRACE).unwrap_or(Err(silent))
    }

    /// The server to which the connection is, or was last.
    pub fn server(&self) -> BrokerServer {
        let info = self.client.server_info();
        BrokerServer {
            name: info.server_name,
            version: info.version,
            max_payload: info.max_payload,
            requires_tls: info.tls_required,
        }
    }

    fn command(&self, command: Command) {
        // The thread ends only if the bus is dropped. If it failed, the broker is silent, which all callers
        // notice.
        let _ = self.commands.send(command);
    }

    /// Waits for the next message of any subscription. No message is lost if the future is dropped.
    pub async fn next(&mut self) -> BusMessage {
        match self.received.recv().await {
            Some(message) => self.taken(message),
            // The thread failed.
            None => std::future::pending().await,
        }
    }

    /// The next message, if one was received.
    pub fn try_next(&mut self) -> Option<BusMessage> {
        let message = self.received.try_recv().ok()?;
        Some(self.taken(message))
    }

    fn taken(&self, message: BusMessage) -> BusMessage {
        self.receive_queue.give(message.cost());
        message
    }

    /// Whether the connection exists now, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits until the broker has received what was published before, but at most for this time.
    pub fn flush(&self, within: Duration) {
        let (reply, answer) = sync_mpsc::channel();
        self.command(Command::Flush { within, reply });
        let _ = answer.recv_timeout(within);
    }

    /// The last error of the broker or of the connection, even if the connection works again.
    pub fn last_error(&self) -> Option<String> {
        self.errors.last()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        if self.is_connected() {
            self.flush(END_WITHIN);
        }
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A failure of the thread has been reported by its panic.
            let _ = thread.join();
        }
    }
}

/// Limits the size of a queue.
#[derive(Debug)]
struct Quota {
    used: AtomicUsize,
    limit: usize,
}

impl Quota {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit })
    }

    /// Takes so many bytes, unless too few are left.
    fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives back bytes that were taken.
    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// What the broker and the client reported.
#[derive(Debug)]
struct Errors {
    last: Mutex<Option<String>>,
    /// The errors of the broker, for requests that wait for an answer.
    of_broker: broadcast::Sender<String>,
}

impl Default for Errors {
    fn default() -> Self {
        Self { last: Mutex::default(), of_broker: broadcast::Sender::new(64) }
    }
}

impl Errors {
    fn note(&self, error: &str) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    fn note_broker(&self, error: &str) {
        self.note(error);
        // It fails if no request waits.
        let _ = self.of_broker.send(error.to_owned());
    }

    fn last(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
