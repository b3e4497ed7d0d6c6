//! The headers of all answers of the portal, and the hosts for which `sandmill portal` answers.

use super::page_problem::PageProblem;
use crate::problem::Problem;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;

/// What a page may load and do: what comes from the server itself, and nothing that is written in the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The headers that all answers have.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Adds the headers that protect the pages.
pub(super) async fn protected(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Answers only if the browser asks for this machine itself. Otherwise a page of another site, whose name that site lets
/// point to this machine, could read the answers.
pub(super) async fn only_this_machine(
    State(address): State<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    match host.is_some_and(|host| is_this_machine(host, address)) {
        true => next.run(request).await,
        false => {
            let detail = format!("the portal of a job answers only at http://{address}");
            PageProblem::Problem(Problem::bad_request(detail)).into_response()
        }
    }
}

fn is_this_machine(host: &str, address: SocketAddr) -> bool {
    host == address.to_string()
        || host.eq_ignore_ascii_case(&format!("localhost:{}", address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_this_machine_are_answered() {
        let address: SocketAddr = "127.0.0.1:8123".parse().unwrap();
        assert!(
            is_this_machine("127.0.0.1:8123", address)
                && is_this_machine("LocalHost:8123", address)
        );
        for host in [
            "",
            "evil.example:8123",
            "127.0.0.1",
            "127.0.0.1:8124",
            "127.0.0.1:8123.evil.example",
            "localhost",
        ] {
            assert!(!is_this_machine(host, address), "{host}");
        }
        assert!(is_this_machine("[::1]:99", "[::1]:99".parse().unwrap()));
    }
}
