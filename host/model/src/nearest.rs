//! Which of the names that are known may have been meant by one that is not.

/// Letters of a name that may have been meant otherwise, and names that it is compared with.
const LONGEST: usize = 64;
const MOST: usize = 1000;

/// The known name that is nearest to an unknown one, if one is near; capitals, and `-` for `_`, do not count.
pub fn nearest<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    near(unknown, known).into_iter().next()
}

/// All known names that are near to an unknown one, nearest first; those as near as each other by the alphabet.
///
/// Names may be a stranger's: none is near to one of more than 64 letters, and no more than 1,000 known ones are compared.
pub fn near<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let wanted = plain(unknown.trim());
    // A third of the letters may differ: `mini_bach_size`, `intputs`, `outptu_action`.
    let letters = wanted.chars().count();
    if letters > LONGEST {
        return Vec::new();
    }
    let most = (letters / 3).max(1);
    let distance = |name: &'k str| {
        // What needs little time comes first: a letter too many differs, and so does one that the other has not.
        if name.chars().count().abs_diff(letters) > most {
            return None;
        }
        let other = plain(name);
        if other.chars().filter(|letter| !wanted.contains(*letter)).count() > most {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&wanted, &other);
        // Of a name of one letter nothing would be left.
        (distance <= most && distance < letters).then_some((distance, name))
    };
    let mut near: Vec<_> = known.into_iter().take(MOST).filter_map(distance).collect();
    near.sort();
    near.into_iter().map(|(_, name)| name).collect()
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_near() {
        let names = ["inputs", "Outputs", "mini_batch_size", "input-x"];
        assert_eq!(nearest("mini_bach_size", names), Some("mini_batch_size"));
        assert_eq!(nearest("Mini-Batch-Size", names), Some("mini_batch_size"));
        assert_eq!(nearest("intputs", names), Some("inputs"));
        assert_eq!(near("input", names), ["inputs"]);
        assert_eq!(near("intputs", names), ["inputs", "Outputs"]);
        assert_eq!(nearest("n", ["k"]), None);
        assert_eq!(near("input_xs", names), ["input-x", "inputs"]);
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"mini_batch_size".repeat(9), names), None);
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(nearest(&long, [long.as_str()]), None);
    }
}
