//! What stores and the process that fetches say, without secrets.

use crate::protocol::store::StoreConfig;

/// Bytes of a store's own words, at most.
const DETAIL: usize = 400;

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

    #[test]
    fn secrets_are_not_told() {
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
