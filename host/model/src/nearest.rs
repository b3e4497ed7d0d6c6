//! Finds the known names that a misspelt name may mean.

/// The longest name that is compared, in letters.
const MAX_LETTERS: usize = 64;
/// The most known names that a name is compared with.
const MAX_KNOWN: usize = 1000;

/// The known name nearest to an unknown name. `None` if no known name is near. Case is ignored, and `-`
/// equals `_`.
pub fn nearest<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    near(unknown, known).into_iter().next()
}

/// All known names near an unknown name, the nearest first. Equally near names are in alphabetical order.
///
/// Names may come from an untrusted user. A name of more than 64 letters has no near names, and at most 1,000
/// known names are compared.
pub fn near<'k>(unknown: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let wanted = normalized(unknown.trim());
    // A third of the letters may differ: `mini_bach_size`, `intputs`, `outptu_action`.
    let letters = wanted.chars().count();
    if letters > MAX_LETTERS {
        return Vec::new();
    }
    let max_distance = (letters / 3).max(1);
    let distance = |name: &'k str| {
        // Do the fast checks first: compare the lengths, and count the letters that the unknown name does not
        // have.
        if name.chars().count().abs_diff(letters) > max_distance {
            return None;
        }
        let other = normalized(name);
        if other.chars().filter(|letter| !wanted.contains(*letter)).count() > max_distance {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&wanted, &other);
        // A name of one letter would otherwise match every other letter.
        (distance <= max_distance && distance < letters).then_some((distance, name))
    };
    let mut near: Vec<_> = known.into_iter().take(MAX_KNOWN).filter_map(distance).collect();
    near.sort();
    near.into_iter().map(|(_, name)| name).collect()
}

fn normalized(name: &str) -> String {
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
        let long = "x".repeat(MAX_LETTERS + 1);
        assert_eq!(nearest(&long, [long.as_str()]), None);
    }
}
