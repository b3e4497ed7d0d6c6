//! Errors of the bus. The texts are shown to users.

use super::{ANSWER_WITHIN, CONNECT_WITHIN, OLDEST_VERSION};
use async_nats::{ConnectError, ConnectErrorKind, ServerError};
use std::error::Error;
use std::io;
use std::path::PathBuf;

/// A broker that cannot be used. No text contains a password or a token.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The broker's URL is not one.
    #[error(
        "the broker's URL is wrong: {url}: {reason}. Write it as nats://HOST:PORT or tls://HOST:PORT, and \
         separate several addresses by commas"
    )]
    BadUrl {
        /// The URL without its login.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The credentials file cannot be read, or is not one.
    #[error("the broker's credentials file {} cannot be used: {reason}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The file of root certificates cannot be read, or has none.
    #[error("the broker's root certificate {} cannot be used: {reason}", path.display())]
    RootCertificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is no server, or the server is not a broker.
    #[error(
        "no NATS server answers at {servers}: {reason}. Check that the server runs, and that this machine can \
         reach it"
    )]
    Unreachable {
        /// The addresses.
        servers: String,
        /// The last error.
        reason: String,
    },
    /// The server does not accept the login.
    #[error(
        "the NATS server at {servers} refuses the login. Check the user name and the password, the token, or \
         the credentials file"
    )]
    Unauthorized {
        /// The addresses.
        servers: String,
    },
    /// The server refuses the connection for another reason.
    #[error("the NATS server at {servers} refuses the connection: {reason}")]
    Refused {
        /// The addresses.
        servers: String,
        /// What the server says.
        reason: String,
    },
    /// The server's certificate is not trusted, or one side does not use TLS.
    #[error(
        "the TLS connection to the NATS server at {servers} failed: {reason}. If the server has a certificate \
         of your own authority, name the authority's certificate as the root certificate. If the server does \
         not use TLS, write nats:// and name no root certificate"
    )]
    Tls {
        /// The addresses.
        servers: String,
        /// What failed.
        reason: String,
    },
    /// The server's version is too old.
    #[error(
        "the NATS server {name} at {servers} has version {found}, which is too old. Update it to version \
         {OLDEST_VERSION} or later"
    )]
    TooOld {
        /// The addresses.
        servers: String,
        /// The server's name.
        name: String,
        /// The server's version.
        found: String,
    },
    /// The broker forbids a subscription.
    #[error(
        "the broker refuses the subscription to {subject}: {reason}. Check the permissions of the user at the \
         broker"
    )]
    SubscriptionRefused {
        /// The subject.
        subject: String,
        /// What the broker says.
        reason: String,
    },
    /// The broker forbids a message.
    #[error(
        "the broker refuses messages to {subject}: {reason}. Check the permissions of the user at the broker"
    )]
    PublishRefused {
        /// The subject.
        subject: String,
        /// What the broker says.
        reason: String,
    },
    /// The broker did not answer in time.
    #[error(
        "the broker did not answer within {} s about the subject {subject}. Check that the server runs, and \
         that this machine can reach it",
        ANSWER_WITHIN.as_secs()
    )]
    NoAnswer {
        /// The subject.
        subject: String,
    },
    /// The thread of the connection could not be started.
    #[error("the thread of the connection to the broker cannot be started: {0}")]
    Thread(#[source] io::Error),
}

impl BusError {
    /// The servers, as they are shown to people, did not answer in time.
    pub(super) fn too_late(servers: String) -> Self {
        let reason = format!("no answer within {} s", CONNECT_WITHIN.as_secs());
        Self::Unreachable { servers, reason }
    }

    /// A failure of the client to connect to the servers, as they are shown to people.
    pub(super) fn connecting(servers: String, error: &ConnectError) -> Self {
        let reason = innermost(error).to_string();
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                Self::Unauthorized { servers }
            }
            ConnectErrorKind::Tls => Self::Tls { servers, reason },
            ConnectErrorKind::TimedOut => Self::too_late(servers),
            _ if innermost(error).is::<rustls::Error>() => Self::Tls { servers, reason },
            _ => match innermost(error).downcast_ref::<ServerError>() {
                Some(refusal) => Self::Refused { servers, reason: broker_text(refusal) },
                None => Self::Unreachable { servers, reason },
            },
        }
    }
}

/// The error at the end of the chain.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    // An I/O error reports the source of the error that it contains, so it would skip that error.
    let inner = match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    };
    match inner {
        Some(inner) => innermost(inner),
        None => error,
    }
}

/// What the broker says, as it says it.
pub(super) fn broker_text(error: &ServerError) -> String {
    match error {
        ServerError::Other(text) => text.clone(),
        other => other.to_string(),
    }
}
