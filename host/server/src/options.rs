//! The options of a server.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The address at which it listens.
    pub listen: SocketAddr,
    /// The operator's policy.
    pub policy: PathBuf,
    /// The file with the datastores. `None` if there is none.
    pub datastores: Option<PathBuf>,
    /// The program of Sandmill, which runs the jobs.
    pub program: PathBuf,
    /// The most jobs that run at a time.
    pub most_running: usize,
}
