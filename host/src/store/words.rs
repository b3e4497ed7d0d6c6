//! What went wrong with a store, in words and without secrets.

use super::message::StoreConfig;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as _;

/// Bytes of a store's own words, at most.
const DETAIL: usize = 400;

/// What the library of TLS says of a certificate that does not hold.
const UNTRUSTED: &str = "invalid peer certificate";

/// What became of a request. `what` is for the middle of a sentence, as in "listing s3://b/x".
pub(super) fn failed(error: &Error, what: &str, store: &StoreConfig) -> String {
    let detail = detail(error, store);
    let with = &store.credentials;
    if matches!(error, Error::Precondition { .. }) {
        return format!("{what}: it changed while it was read");
    }
    if detail.contains(UNTRUSTED) {
        return format!(
            "{what} failed: nobody who is trusted says that the server is the one that is meant; check the \
             address, or name a file with the certificate of its authority by SSL_CERT_FILE ({detail})"
        );
    }
    if is_out_of_reach(error) {
        return format!(
            "{what} failed: the store cannot be reached; check the address, and the network ({detail})"
        );
    }
    match detail.get(..3) {
        Some("401" | "403") => format!(
            "{what} was refused, asked for with {with}: see that it may {} there ({detail})",
            if what.starts_with("writing") { "write" } else { "list and read" }
        ),
        Some("404") => format!("{what}: there is no such thing; check the address ({detail})"),
        _ => format!("{what} failed, asked for with {with} ({detail})"),
    }
}

/// Whether nobody answers where the store should be.
pub(super) fn is_out_of_reach(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(http) = inner.downcast_ref::<HttpError>() {
            return http.kind() == HttpErrorKind::Connect;
        }
        source = inner.source();
    }
    false
}

/// How the library begins to tell what a server answered.
const STATUS: &str = "status code: ";

/// What the store said, and what lies below that.
fn detail(error: &Error, store: &StoreConfig) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = inner.source();
    }
    scrub(&brief(&text), store)
}

/// What matters of it: what a server answered, else the last thing that went wrong.
fn brief(text: &str) -> String {
    let Some((_, answer)) = text.split_once(STATUS) else {
        return text.rsplit(" - ").next().unwrap_or(text).to_owned();
    };
    let (status, body) = answer.split_once(": ").unwrap_or((answer, ""));
    let tag = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
    };
    match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => format!("{status}, {code}: {message}"),
        (Some(code), None) => format!("{status}, {code}"),
        _ if body.trim_start().starts_with('<') || body.is_empty() => status.to_owned(),
        _ => format!("{status}: {body}"),
    }
}

/// A text of a store's without secrets, without what could steer a terminal, and not too long.
pub(super) fn scrub(text: &str, store: &StoreConfig) -> String {
    let mut text = text.to_owned();
    for (name, value) in &store.options {
        if is_secret(name) && value.len() > 3 {
            text = text.replace(value, "***");
            // Within a signed address it is written otherwise.
            for part in value.split(['&', '=']).filter(|part| part.len() > 15) {
                text = text.replace(part, "***");
            }
        }
    }
    let mut clean = String::new();
    for word in text.split_whitespace() {
        // What follows in an address may be a signature.
        let (shown, query) = match (word.find("://"), word.find('?')) {
            (Some(_), Some(query)) => (&word[..query], "?..."),
            _ => (word, ""),
        };
        if !clean.is_empty() {
            clean.push(' ');
        }
        clean.extend(shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
        clean.push_str(query);
        if clean.len() > DETAIL {
            clean.truncate(clean.floor_char_boundary(DETAIL));
            clean.push_str(" ...");
            break;
        }
    }
    clean
}

fn is_secret(name: &str) -> bool {
    ["secret", "key", "token", "sas", "password"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StoreKind;

    #[test]
    fn what_a_server_answered_is_what_matters() {
        let answer = "Error performing GET http://h/b in 1.2ms, after 8 retries - Server returned \
                      non-2xx status code: 404 Not Found: <Error><Code>NoSuchBucket</Code>\
                      <Message>It is not there</Message></Error>";
        assert_eq!(brief(answer), "404 Not Found, NoSuchBucket: It is not there");
        assert_eq!(brief("status code: 500 Oh: it broke"), "500 Oh: it broke");
        assert_eq!(brief("status code: 500 Oh: <html>"), "500 Oh");
        assert_eq!(
            brief("Error performing GET x in 3s - HTTP error: no route"),
            "HTTP error: no route"
        );
    }

    #[test]
    fn secrets_are_not_told() {
        let options = [
            ("aws_secret_access_key", "hush/key"),
            ("sas_token", "sv=2024&sig=a-long-signature-of-some-kind%3D"),
            ("account_name", "acc"),
        ];
        let store = StoreConfig {
            kind: StoreKind::S3,
            container: "b".into(),
            options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            credentials: "x".into(),
        };
        let text = "acc hush/key sig=a-long-signature-of-some-kind%3D https://h/x?sig=z and\u{1b}";
        insta::assert_snapshot!(scrub(text, &store), @"acc *** sig=*** https://h/x?... and\u{fffd}");
        assert!(scrub(&"x ".repeat(1000), &store).len() < 500);
    }
}
