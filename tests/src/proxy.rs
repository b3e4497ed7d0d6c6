//! A connection to a server that a test can cut, delay or hold up.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Passes connections on to a server.
#[derive(Debug)]
pub struct Proxy {
    /// The port for clients.
    port: u16,
    shared: Arc<Shared>,
}

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    ToServer,
    /// From the server to clients.
    ToClients,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The ends of all connections.
    streams: Vec<TcpStream>,
    /// Whether no connection is accepted.
    is_cut: bool,
    /// How late bytes arrive.
    delay: Duration,
    /// The direction in which bytes wait.
    held: Option<Direction>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }
}

impl Proxy {
    /// Passes connections on to this port of 127.0.0.1.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let passes = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut state = passes.state();
                // The server may be dead.
                let server = TcpStream::connect(("127.0.0.1", port)).ok();
                let Some(server) = server.filter(|_| !state.is_cut) else { continue };
                for (from, to, direction) in [
                    (&client, &server, Direction::ToServer),
                    (&server, &client, Direction::ToClients),
                ] {
                    let from = from.try_clone().unwrap();
                    let to = to.try_clone().unwrap();
                    let shared = passes.clone();
                    thread::spawn(move || {
                        let _ = pass_on(&from, &to, direction, &shared);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                state.streams.extend([client, server]);
            }
        });
        Self { port: own, shared }
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections. Clients may connect again.
    pub fn drop_connections(&self) {
        let streams = std::mem::take(&mut self.shared.state().streams);
        for stream in streams {
            // A connection that has ended needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends all connections, and passes no others on.
    pub fn cut(&self) {
        self.shared.change(|state| state.is_cut = true);
        self.drop_connections();
    }

    /// Passes new connections on again, after [`cut`](Self::cut).
    pub fn mend(&self) {
        self.shared.change(|state| state.is_cut = false);
    }

    /// From now on, bytes arrive this much later.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|state| state.delay = delay);
    }

    /// Holds back what goes in this direction, until another call. The connections stay.
    pub fn hold(&self, direction: Option<Direction>) {
        self.shared.change(|state| state.held = direction);
    }
}

/// Copies what arrives.
fn pass_on(
    mut from: &TcpStream,
    mut to: &TcpStream,
    direction: Direction,
    shared: &Shared,
) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let state = shared.state();
        let waiting = |state: &mut State| state.held == Some(direction);
        let delay = shared.changed.wait_while(state, waiting).unwrap().delay;
        thread::sleep(delay);
        to.write_all(&buffer[..count])?;
    }
}
