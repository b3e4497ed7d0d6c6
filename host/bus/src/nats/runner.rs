//! The thread of the connection.

use super::address::Servers;
use super::error::BusError;
use super::options::is_supported;
use super::{ANSWER_WITHIN, BusMessage, CONNECT_WITHIN, Errors, Quota, cost};
use async_nats::{Client, ConnectOptions, Message, Subscriber};
use bytes::Bytes;
use futures_core::Stream;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc as sync_mpsc};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// A request for an answer is sent again after this time, because it may be lost.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What the owner wants.
#[derive(Debug)]
pub(super) enum Command {
    Subscribe { subject: String, reply: sync_mpsc::Sender<Result<(), BusError>> },
    Unsubscribe { subject: String },
    Publish { subject: String, payload: Vec<u8> },
    TryPublish { subject: String, payload: Vec<u8>, reply: sync_mpsc::Sender<Result<(), BusError>> },
    Flush { within: Duration, reply: sync_mpsc::Sender<()> },
}

/// What the thread shares with the owner.
pub(super) struct Runner {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) send_queue: Arc<Quota>,
    pub(super) received: mpsc::UnboundedSender<BusMessage>,
    pub(super) receive_queue: Arc<Quota>,
    pub(super) errors: Arc<Errors>,
}

/// Runs the connection until it is stopped.
pub(super) fn run(
    runner: Runner,
    options: ConnectOptions,
    servers: &Servers,
    ready: &sync_mpsc::Sender<Result<Client, BusError>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(BusError::Thread(error)));
            return;
        }
    };
    runtime.block_on(async {
        let connected = connect(options, servers).await;
        let client = connected.as_ref().ok().cloned();
        // It fails if the owner waits no longer. Then the connection is stopped, too.
        let _ = ready.send(connected);
        if let Some(client) = client {
            tokio::select! {
                _ = stopped => {}
                () = runner.serve(client) => {}
            }
        }
    });
    // A look-up of a name may still run, and may take long.
    runtime.shutdown_background();
}

async fn connect(options: ConnectOptions, servers: &Servers) -> Result<Client, BusError> {
    // The future is large.
    let connecting = Box::pin(options.connect(servers.addresses.as_slice()));
    let client = match timeout(CONNECT_WITHIN, connecting).await {
        Ok(connected) => {
            connected.map_err(|error| BusError::connecting(servers.shown(), &error))?
        }
        Err(_) => return Err(BusError::too_late(servers.shown())),
    };
    let info = client.server_info();
    if is_supported(&info.version) {
        return Ok(client);
    }
    Err(BusError::TooOld { servers: servers.shown(), name: info.server_name, found: info.version })
}

impl Runner {
    /// Carries out what the owner wants, in order.
    async fn serve(mut self, client: Client) {
        let mut subscriptions: HashMap<String, Task> = HashMap::new();
        while let Some(command) = self.commands.recv().await {
            match command {
                Command::Subscribe { subject, reply } => {
                    if subscriptions.get(&subject).is_some_and(Task::is_subscribed) {
                        let _ = reply.send(Ok(()));
                        continue;
                    }
                    let task = self.subscribe(&client, subject.clone(), reply);
                    subscriptions.insert(subject, task);
                }
                Command::Unsubscribe { subject } => {
                    subscriptions.remove(&subject);
                }
                Command::Publish { subject, payload } => {
                    self.publish(&client, subject, payload).await;
                }
                Command::TryPublish { subject, payload, reply } => {
                    let errors = self.errors.clone();
                    tokio::spawn(try_publish(client.clone(), errors, (subject, payload), reply));
                }
                Command::Flush { within, reply } => {
                    tokio::spawn(flush(client.clone(), self.errors.clone(), within, reply));
                }
            }
        }
    }

    /// Starts the task of a subscription.
    fn subscribe(
        &self,
        client: &Client,
        subject: String,
        reply: sync_mpsc::Sender<Result<(), BusError>>,
    ) -> Task {
        let is_made = Arc::new(AtomicBool::new(false));
        let subscription = Subscription {
            client: client.clone(),
            subject,
            received: self.received.clone(),
            queue: self.receive_queue.clone(),
            errors: self.errors.clone(),
            is_made: is_made.clone(),
        };
        Task { task: tokio::spawn(subscription.run(reply)), is_made }
    }

    /// Waits until the client takes the message. It does not while the connection is broken.
    async fn publish(&self, client: &Client, subject: String, payload: Vec<u8>) {
        let cost = cost(&subject, &payload);
        if let Err(error) = client.publish(subject, Bytes::from(payload)).await {
            self.errors.note(&error.to_string());
        }
        self.send_queue.give(cost);
    }
}

/// The task of a subscription, which ends when this is dropped.
struct Task {
    task: JoinHandle<()>,
    /// Whether the broker has subscribed.
    is_made: Arc<AtomicBool>,
}

impl Task {
    fn is_subscribed(&self) -> bool {
        self.is_made.load(Ordering::Relaxed) && !self.task.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Subscription {
    client: Client,
    subject: String,
    received: mpsc::UnboundedSender<BusMessage>,
    queue: Arc<Quota>,
    errors: Arc<Errors>,
    is_made: Arc<AtomicBool>,
}

impl Subscription {
    /// Subscribes, and hands on messages until the task is ended.
    async fn run(self, reply: sync_mpsc::Sender<Result<(), BusError>>) {
        let error = match timeout(ANSWER_WITHIN, self.subscribe()).await {
            Ok(Ok(subscriber)) => return self.hand_on_all(subscriber, &reply).await,
            Ok(Err(reason)) => {
                BusError::SubscriptionRefused { subject: self.subject.clone(), reason }
            }
            Err(_) => BusError::NoAnswer { subject: self.subject.clone() },
        };
        let _ = reply.send(Err(error));
    }

    async fn hand_on_all(
        &self,
        mut subscriber: Subscriber,
        reply: &sync_mpsc::Sender<Result<(), BusError>>,
    ) {
        if reply.send(Ok(())).is_err() {
            // The owner waits no longer, and regards this as a failure.
            return;
        }
        self.is_made.store(true, Ordering::Relaxed);
        while let Some(message) = next(&mut subscriber).await {
            self.hand_on(message);
        }
    }

    /// Returns when the broker has subscribed.
    async fn subscribe(&self) -> Result<Subscriber, String> {
        let errors = self.errors.of_broker.subscribe();
        let subscriber = self.client.subscribe(self.subject.clone()).await;
        let subscriber = subscriber.map_err(|error| error.to_string())?;
        round_trip(&self.client, errors, |error| is_refusal(error, &self.subject)).await?;
        Ok(subscriber)
    }

    fn hand_on(&self, message: Message) {
        let subject = message.subject.to_string();
        let message = BusMessage { subject, payload: message.payload.into() };
        if !self.queue.take(message.cost()) {
            self.errors.note("messages of the broker were dropped, because too many of them wait");
            return;
        }
        // It fails if the bus is dropped.
        let _ = self.received.send(message);
    }
}

/// Publishes a message, and waits whether the broker refuses it.
async fn try_publish(
    client: Client,
    errors: Arc<Errors>,
    (subject, payload): (String, Vec<u8>),
    reply: sync_mpsc::Sender<Result<(), BusError>>,
) {
    let errors = errors.of_broker.subscribe();
    let publish = async {
        let published = client.publish(subject.clone(), Bytes::from(payload)).await;
        published.map_err(|error| error.to_string())?;
        round_trip(&client, errors, |error| refuses_message(error, &subject)).await
    };
    let result = match timeout(ANSWER_WITHIN, publish).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reason)) => Err(BusError::PublishRefused { subject, reason }),
        Err(_) => Err(BusError::NoAnswer { subject }),
    };
    let _ = reply.send(result);
}

async fn flush(
    client: Client,
    errors: Arc<Errors>,
    within: Duration,
    reply: sync_mpsc::Sender<()>,
) {
    let errors = errors.of_broker.subscribe();
    let _ = timeout(within, round_trip(&client, errors, |_| false)).await;
    let _ = reply.send(());
}

/// Returns when the broker has processed what was sent before. Fails with the error of the broker that is
/// chosen.
///
/// The client's own `flush` does not wait for the broker. So this function sends itself a message. If the
/// broker forbids this, its error is the answer, because the broker keeps the order.
async fn round_trip(
    client: &Client,
    mut errors: broadcast::Receiver<String>,
    is_chosen: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| error.to_string())?;
    loop {
        let asked = client.publish(inbox.clone(), Bytes::new()).await;
        asked.map_err(|error| error.to_string())?;
        let pause = sleep(ASK_AGAIN_AFTER);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                Ok(error) = errors.recv() => match error {
                    error if is_chosen(&error) => return Err(error),
                    error if error.contains(&inbox) => return Ok(()),
                    _ => {}
                },
                _ = next(&mut answers) => {
                    // Errors that the broker sent before the answer are handed on by another task.
                    tokio::task::yield_now().await;
                    return chosen(&mut errors, is_chosen).map_or(Ok(()), Err);
                }
                () = &mut pause => break,
            }
        }
    }
}

/// The chosen one of the errors that have arrived.
fn chosen(
    errors: &mut broadcast::Receiver<String>,
    is_chosen: impl Fn(&str) -> bool,
) -> Option<String> {
    std::iter::from_fn(|| errors.try_recv().ok()).find(|error| is_chosen(error))
}

/// Whether the broker refuses the subscription to the subject.
fn is_refusal(error: &str, subject: &str) -> bool {
    let error = error.to_lowercase();
    let subject = subject.to_lowercase();
    error.starts_with(&format!("permissions violation for subscription to \"{subject}\""))
        || error.starts_with("maximum subscriptions exceeded")
        || error.starts_with("invalid subject")
}

/// Whether the broker refuses a message to the subject.
fn refuses_message(error: &str, subject: &str) -> bool {
    let error = error.to_lowercase();
    let refusal = format!("permissions violation for publish to \"{}\"", subject.to_lowercase());
    error.starts_with(&refusal) || error.starts_with("maximum payload")
}

async fn next(subscriber: &mut Subscriber) -> Option<Message> {
    poll_fn(|context| Pin::new(&mut *subscriber).poll_next(context)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_subscription_refuse_it() {
        let denied = "Permissions Violation for Subscription to \"Jobs.1\"";
        assert!(is_refusal(denied, "Jobs.1"));
        assert!(!is_refusal(denied, "Jobs.12"));
        assert!(!is_refusal("Permissions Violation for Publish to \"Jobs.1\"", "Jobs.1"));
        assert!(is_refusal("maximum subscriptions exceeded", "a"));
        assert!(refuses_message("Permissions Violation for Publish to \"Jobs.1\"", "Jobs.1"));
        assert!(!refuses_message(denied, "Jobs.1"));
    }
}
