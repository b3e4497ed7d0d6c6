//! The names that messages use for settings. A message uses the name that the job file uses: an
//! Azure file has other names than ours.

use std::borrow::Cow;
use std::cell::RefCell;

/// Our keys and the file's names for them.
#[derive(Debug, Default)]
pub(super) struct KeyNames(RefCell<Vec<(String, String)>>);

impl KeyNames {
    /// Sets the file's name for one of our keys and for all keys below it. The last name for a key wins.
    pub(super) fn record(&self, ours: &str, theirs: &str) {
        self.0.borrow_mut().push((ours.to_owned(), theirs.to_owned()));
    }

    /// The file's name for a key. It is our own name unless another name was recorded.
    pub(super) fn name_for<'k>(&self, key: &'k str) -> Cow<'k, str> {
        let names = self.0.borrow();
        let found = names.iter().filter_map(|(ours, theirs)| {
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
    fn the_longest_key_and_the_last_name_win() {
        let names = KeyNames::default();
        names.record("side_inputs", "inputs");
        names.record("side_inputs.model", "model");
        names.record("node_count", "instance_count");
        names.record("node_count", "resources.instance_count");
        for (ours, theirs) in [
            ("side_inputs.labels.path", "inputs.labels.path"),
            ("side_inputs.model.path", "model.path"),
            ("side_inputs[0]", "inputs[0]"),
            ("side_inputs_of", "side_inputs_of"),
            ("node_count", "resources.instance_count"),
            ("inputs.x", "inputs.x"),
        ] {
            assert_eq!(names.name_for(ours), theirs);
        }
    }
}
