//! Names of settings in the file at hand, for messages: an Azure file has other names than ours.

use std::borrow::Cow;
use std::cell::RefCell;

/// Our keys and the file's names for them.
#[derive(Debug, Default)]
pub(super) struct KeyWords(RefCell<Vec<(String, String)>>);

impl KeyWords {
    /// Sets the file's name for one of our keys and for all keys below it. The last call for a key wins.
    pub(super) fn call(&self, ours: &str, theirs: &str) {
        self.0.borrow_mut().push((ours.to_owned(), theirs.to_owned()));
    }

    /// The file's name for a key. It is our own name unless another one was set.
    pub(super) fn of<'k>(&self, key: &'k str) -> Cow<'k, str> {
        let words = self.0.borrow();
        let found = words.iter().filter_map(|(ours, theirs)| {
            let rest = key.strip_prefix(ours.as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((ours.len(), theirs, rest))
        });
        // The longest matching key is the most specific. Of several, the last one wins.
        match found.max_by_key(|(length, ..)| *length) {
            Some((_, theirs, rest)) => Cow::Owned(format!("{theirs}{rest}")),
            None => Cow::Borrowed(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_key_and_the_last_word_win() {
        let words = KeyWords::default();
        words.call("side_inputs", "inputs");
        words.call("side_inputs.model", "model");
        words.call("node_count", "instance_count");
        words.call("node_count", "resources.instance_count");
        for (ours, theirs) in [
            ("side_inputs.labels.path", "inputs.labels.path"),
            ("side_inputs.model.path", "model.path"),
            ("side_inputs[0]", "inputs[0]"),
            ("side_inputs_of", "side_inputs_of"),
            ("node_count", "resources.instance_count"),
            ("inputs.x", "inputs.x"),
        ] {
            assert_eq!(words.of(ours), theirs);
        }
    }
}
