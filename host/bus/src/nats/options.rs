//! The options of the client, and the versions of servers.

use super::address::{Login, Servers};
use super::error::{BusError, broker_text};
use super::{Broker, CONNECT_WITHIN, Errors, OLDEST_VERSION};
use async_nats::{ConnectOptions, Event};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The client tries to reconnect at least this often.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// A server that does not answer to about three of these is regarded as dead.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// The client holds at most this many messages that were not written to the connection.
const CLIENT_QUEUE: usize = 128;

/// The client's options.
pub(super) fn options(
    broker: &Broker,
    name: &str,
    servers: &Servers,
    errors: &Arc<Errors>,
) -> Result<ConnectOptions, BusError> {
    // Fails if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let count = u32::try_from(servers.addresses.len()).unwrap_or(u32::MAX);
    let errors = errors.clone();
    let mut options = ConnectOptions::new()
        .name(name)
        .custom_inbox_prefix(inbox_prefix(name))
        // Each server has its turn.
        .connection_timeout((CONNECT_WITHIN / count).max(Duration::from_secs(1)))
        .max_reconnects(None)
        .reconnect_delay_callback(reconnect_delay)
        .ping_interval(PING_INTERVAL)
        .client_capacity(CLIENT_QUEUE)
        .event_callback(move |event| {
            note_event(&errors, &event);
            std::future::ready(())
        });
    options = match &servers.login {
        None => options,
        Some(Login::Token(token)) => options.token(token.clone()),
        Some(Login::Password { user, password }) => {
            options.user_and_password(user.clone(), password.clone())
        }
    };
    if let Some(path) = &broker.credentials {
        options = with_credentials(options, path)?;
    }
    if let Some(path) = &broker.root_certificate {
        check_certificate(path)?;
        options = options.add_root_certificates(path.clone()).require_tls(true);
    }
    Ok(options)
}

/// The file is read here and not by the client, so that the error can be distinguished from those of the connection.
fn with_credentials(options: ConnectOptions, path: &Path) -> Result<ConnectOptions, BusError> {
    let wrong = |reason| BusError::Credentials { path: path.to_owned(), reason };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    options.credentials(&text).map_err(|error| wrong(error.to_string()))
}

fn check_certificate(path: &Path) -> Result<(), BusError> {
    let wrong = |reason| BusError::RootCertificate { path: path.to_owned(), reason };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    match text.contains("-----BEGIN CERTIFICATE-----") {
        true => Ok(()),
        false => Err(wrong("it contains no certificate in PEM format".to_owned())),
    }
}

/// The subjects of answers begin with this text.
fn inbox_prefix(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    format!("_INBOX_{}", name.replace(|letter| !is_plain(letter), "_"))
}

/// The first attempt is at once, and later ones wait longer each.
fn reconnect_delay(attempt: usize) -> Duration {
    match u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX) {
        0 => Duration::ZERO,
        earlier => RECONNECT_DELAY.min(Duration::from_millis(10) * 2_u32.saturating_pow(earlier)),
    }
}

fn note_event(errors: &Errors, event: &Event) {
    match event {
        Event::ServerError(error) => errors.note_broker(&broker_text(error)),
        Event::ClientError(error) => errors.note(&error.to_string()),
        Event::SlowConsumer(_) => {
            errors.note("messages of the broker were dropped, because too many arrived at once");
        }
        _ => {}
    }
}

/// Whether a server of this version is supported.
pub(super) fn is_supported(version: &str) -> bool {
    match (parsed(version), parsed(OLDEST_VERSION)) {
        (Some(version), Some(oldest)) => version >= oldest,
        _ => false,
    }
}

/// The numbers of a version, and whether it is final. A version that precedes a final one is older.
fn parsed(version: &str) -> Option<([u64; 3], bool)> {
    let version = version.trim_start_matches('v');
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (numbers, is_final) = match version.split_once('-') {
        Some((numbers, _)) => (numbers, false),
        None => (version, true),
    };
    let numbers: Option<Vec<u64>> = numbers.split('.').map(|number| number.parse().ok()).collect();
    Some((numbers?.try_into().ok()?, is_final))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_refused() {
        for version in ["2.12.3", "v2.12.3", "2.12.10", "2.15.1-beta.1", "2.13.0", "3.0.0+build"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["2.9.10", "2.12.2", "2.12.3-RC.1", "1.99.99", "2.12", "", "x.y.z"] {
            assert!(!is_supported(version), "{version}");
        }
    }

    #[test]
    fn attempts_to_reconnect_become_rarer_up_to_a_limit() {
        let delays: Vec<_> = (1..=9).map(|attempt| reconnect_delay(attempt).as_millis()).collect();
        assert_eq!(delays, [0, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(reconnect_delay(usize::MAX), RECONNECT_DELAY);
    }

    #[test]
    fn an_inbox_prefix_is_one_part_of_a_subject() {
        assert_eq!(inbox_prefix("job 1.leader*>é-x"), "_INBOX_job_1_leader___-x");
    }
}
