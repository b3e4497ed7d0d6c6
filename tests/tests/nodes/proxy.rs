//! A connection to a broker that a test can cut.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on to a broker, until it is cut.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// The port for clients.
    port: u16,
    /// The ends of all connections. `None` after the cut.
    streams: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Proxy {
    /// Passes connections on to this port of 127.0.0.1.
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let streams = Arc::new(Mutex::new(Some(Vec::new())));
        let shared = streams.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Some(streams) = &mut *shared.lock().unwrap() else { continue };
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    pass_on(from.try_clone().unwrap(), to.try_clone().unwrap());
                }
                streams.extend([client, server]);
            }
        });
        Self { port: own, streams }
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port for clients.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Passes new connections on again, after `cut`.
    pub(crate) fn mend(&self) {
        *self.streams.lock().unwrap() = Some(Vec::new());
    }

    /// Ends all connections, and passes no others on.
    pub(crate) fn cut(&self) {
        let streams = self.streams.lock().unwrap().take();
        for stream in streams.into_iter().flatten() {
            // A connection that has ended needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Copies what arrives, on a thread of its own.
fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}
