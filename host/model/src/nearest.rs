//! Finds the known names that a misspelt name may stand for.

/// The most letters of a name that is compared, and the most names that it is compared with.
const LONGEST: usize = 64;
const MOST: usize = 1000;

/// The nearest known name to an unknown one, if one is near enough. Case is ignored, and `-` equals `_`.
pub fn nearest<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    near(unknown, known).into_iter().next()
}

/// All known names near an unknown one, nearest first. Equally near names are sorted by the alphabet.
///
/// Names may come from an untrusted user. A name of more than 64 letters has no near names, and at most 1,000
/// known names are compared.
pub fn near<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let wanted = plain(unknown.trim());
    // A third of the letters may differ: `mini_bach_size`, `intputs`, `outptu_action`.
    let letters = wanted.chars().count();
    if letters > LONGEST {
        return Vec::new();
    }
    let most = (letters / 3).max(1);
    let distance = |name: &'k str| {
        // Do the fast checks first: the lengths, and letters that the other name does not have.
        if name.chars().count().abs_diff(letters) > most {
            return None;
        }
        let other = plain(name);
        if other.chars().filter(|letter| !wanted.contains(*letter)).count() > most {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&wanted, &other);
        // A name of one letter would otherwise match every other letter.
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
    fn suggests_only_near_names() {
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
