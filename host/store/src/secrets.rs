//! Removes secrets from what stores and the fetcher process report.

use crate::protocol::store::StoreConfig;

/// At most this many bytes of a store's message are kept.
const MAX_MESSAGE_BYTES: usize = 400;

/// Removes secrets and control characters from a message of a store, and shortens it.
pub(super) fn scrub(text: &str, store: &StoreConfig) -> String {
    let mut text = text.to_owned();
    for (name, value) in &store.options {
        if is_secret(name) && value.len() > 3 {
            text = text.replace(value, "***");
            // If the value is the query of a signed URL, a message may have its parts in another
            // form.
            for part in value.split(['&', '=']).filter(|part| part.len() > 15) {
                text = text.replace(part, "***");
            }
        }
    }
    let mut clean = String::new();
    for word in text.split_whitespace() {
        // The query of a URL may hold a signature.
        let (shown, query) = match (word.find("://"), word.find('?')) {
            (Some(_), Some(query)) => (&word[..query], "?..."),
            _ => (word, ""),
        };
        if !clean.is_empty() {
            clean.push(' ');
        }
        clean.extend(shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
        clean.push_str(query);
        if clean.len() > MAX_MESSAGE_BYTES {
            clean.truncate(clean.floor_char_boundary(MAX_MESSAGE_BYTES));
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

    #[test]
    fn secrets_are_removed_from_messages() {
        let options = [
            ("aws_secret_access_key", "hush/key"),
            ("sas_token", "sv=2024&sig=a-long-signature-of-some-kind%3D"),
            ("account_name", "acc"),
        ];
        let store = StoreConfig {
            options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            ..StoreConfig::sample()
        };
        let text = "acc hush/key sig=a-long-signature-of-some-kind%3D https://h/x?sig=z and\u{1b}";
        insta::assert_snapshot!(scrub(text, &store), @"acc *** sig=*** https://h/x?... and\u{fffd}");
        assert!(scrub(&"x ".repeat(1000), &store).len() < 500);
    }
}
