//! Sends requests to a server.

use super::super::exit::Problem;
use anyhow::anyhow;
use sandmill_server::ProblemBody;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Read;
use std::time::Duration;
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest answer that is read as a whole.
const MOST_BYTES: u64 = 64 << 20;

/// A server and the token for it.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ServerClient {
    url: String,
    token: String,
    agent: Agent,
}

/// What a server answers if it does not fail: the status and the body.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) bytes: Vec<u8>,
}

impl ServerClient {
    /// A server at this address.
    pub(super) fn new(url: &str, token: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .tls_config(tls());
        let agent = config.build().new_agent();
        Self { url: url.trim_end_matches('/').to_owned(), token: token.to_owned(), agent }
    }

    /// The server's address.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Asks for JSON.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub(super) fn get(&self, path: &str) -> Result<Value, Problem> {
        json(self.send("GET", path, &[], &[])?)
    }

    /// Sends JSON.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, Problem> {
        let headers = [("content-type", "application/json")];
        json(self.send("POST", path, &headers, body.to_string().as_bytes())?)
    }

    /// Sends a request. An answer is a success, or one of a range that a file does not have.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, Problem> {
        let url = format!("{}{path}", self.url);
        let mut request = Request::builder().method(method).uri(&url);
        request = request.header("authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let failed = |error: &dyn std::fmt::Display| {
            Problem::usage(anyhow!("the server {} cannot be reached: {error}", self.url))
        };
        let request = request.body(body).map_err(|error| failed(&error))?;
        let mut answer: Response<Body> = self.agent.run(request).map_err(|error| failed(&error))?;
        let status = answer.status().as_u16();
        let mut bytes = Vec::new();
        let read = answer.body_mut().as_reader().take(MOST_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| failed(&error))?;
        match status {
            200..=299 | 416 => Ok(Answer { status, bytes }),
            _ => Err(refused(status, &bytes)),
        }
    }
}

/// Trusts the certificates that the system trusts. Uses the cryptography that the rest of Sandmill uses.
fn tls() -> ureq::tls::TlsConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    ureq::tls::TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(ureq::tls::RootCerts::PlatformVerifier)
        .build()
}

#[expect(clippy::needless_pass_by_value, reason = "for the callers")]
fn json(answer: Answer) -> Result<Value, Problem> {
    serde_json::from_slice(&answer.bytes)
        .map_err(|error| Problem::usage(anyhow!("the server's answer is not JSON: {error}")))
}

/// The message for a problem that a server answers.
fn refused(status: u16, bytes: &[u8]) -> Problem {
    let Ok(problem) = serde_json::from_slice::<ProblemBody>(bytes) else {
        return Problem::usage(anyhow!("the server answers with status {status}"));
    };
    if problem.errors.is_empty() {
        return Problem::usage(anyhow!("{}", problem.detail));
    }
    let line = |error: &sandmill_server::JobFileError| {
        let mut text = error.file.clone().unwrap_or_else(|| "--set".to_owned());
        // Writing to a string cannot fail.
        let _ = error.line.map(|line| write!(text, ":{line}"));
        let key = if error.key.is_empty() { String::new() } else { format!("{}: ", error.key) };
        format!("{text}: {key}{}", error.message)
    };
    Problem::each_line(&problem.errors.iter().map(line).collect::<Vec<_>>().join("\n"))
}
