//! Why a server could not run.

use crate::state::StateError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not run. The text is a complete message for users.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The state's folder cannot be used.
    #[error("{}: {error}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another server uses the state.
    #[error("another server uses {}: end it, or give another --state", .0.display())]
    InUse(PathBuf),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The address cannot be used.
    #[error(
        "cannot listen at {address}: {error}; give another --listen, or end the program that uses it"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Other machines could reach the portal of a job, which asks for no token.
    #[error(
        "cannot listen at {0}: the portal of a job has no sign-in, so only this machine may reach it; give a loopback address, as \
         in --listen 127.0.0.1:8471"
    )]
    NotLoopback(SocketAddr),
    /// The server failed.
    #[error("the server stops: {0}")]
    Failed(io::Error),
}
