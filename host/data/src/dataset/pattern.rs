//! Matches paths below a source's root with globs: `*` and `?` within a folder, `**` across
//! folders, `[..]` for one of several characters, `{a,b}` for one of several texts. A path without
//! wildcards, or `{..}` around several such paths, is a list: each of its paths must exist.

use super::{DatasetError, err};
use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Which files of a folder belong to an input.
#[derive(Debug)]
pub enum Pattern {
    /// All files.
    Everything,
    /// The files with these paths, sorted.
    List(Vec<String>),
    /// The files that match.
    Glob {
        /// Matches whole paths.
        files: GlobMatcher,
        /// For each depth, matches the names of folders that may contain matching files.
        folders: Vec<GlobMatcher>,
        /// Whether folders at greater depths may contain matching files.
        deeper: bool,
    },
}

impl Pattern {
    /// Parses the pattern of a source. Fails if the glob is malformed.
    pub fn new(pattern: Option<&str>) -> Result<Self, DatasetError> {
        let Some(text) = pattern else { return Ok(Self::Everything) };
        if let Some(paths) = list(text) {
            return Ok(Self::List(paths.into_iter().collect()));
        }
        let parts: Vec<_> = text.split('/').collect();
        // After the first part that may match several levels of folders, any folder may contain matches.
        let one_level = parts.iter().take_while(|part| stays_in_folder(part)).count();
        let folders = &parts[..one_level.min(parts.len() - 1)];
        Ok(Self::Glob {
            files: compile(text)?,
            folders: folders.iter().map(|part| compile(part)).collect::<Result<_, _>>()?,
            deeper: one_level < parts.len(),
        })
    }

    /// Whether the file belongs to the input.
    pub fn takes(&self, path: &[u8]) -> bool {
        match self {
            Self::Everything => true,
            Self::List(paths) => {
                paths.binary_search_by(|listed| listed.as_bytes().cmp(path)).is_ok()
            }
            Self::Glob { files, .. } => files.is_match(as_path(path)),
        }
    }

    /// Whether the folder `name` may contain files of the input. `depth` is the number of folders
    /// between `name` and the root. The caller has already found that each of these folders may
    /// contain files of the input.
    pub fn enters(&self, name: &[u8], depth: usize) -> bool {
        match self {
            Self::Everything => true,
            Self::List(_) => false,
            Self::Glob { folders, deeper, .. } => match folders.get(depth) {
                Some(folder) => folder.is_match(as_path(name)),
                None => *deeper,
            },
        }
    }
}

/// Whether the text has characters with a special meaning in globs.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// The glob that matches exactly these names.
pub(super) fn of_names(names: &BTreeSet<String>) -> String {
    let names: Vec<_> =
        names.iter().map(|name| globset::escape(name).replace(',', "[,]")).collect();
    match names.as_slice() {
        [name] => name.clone(),
        names => format!("{{{}}}", names.join(",")),
    }
}

/// The paths that the glob lists. `None` if the glob may match other paths.
fn list(glob: &str) -> Option<BTreeSet<String>> {
    let Some(inside) = glob.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return literal(glob).map(|path| BTreeSet::from([path]));
    };
    let mut paths = BTreeSet::new();
    let mut start = 0;
    for (end, _) in inside.match_indices(',').chain([(inside.len(), "")]) {
        let is_escaped = inside[..end].ends_with('[') && inside[end..].starts_with(",]");
        if !is_escaped {
            let path = literal(&inside[start..end]).filter(|path| !path.is_empty())?;
            paths.insert(path);
            start = end + 1;
        }
    }
    Some(paths)
}

/// The only text that matches the glob. `None` if the glob may match several texts.
fn literal(glob: &str) -> Option<String> {
    let mut text = String::with_capacity(glob.len());
    let mut rest = glob;
    while let Some(first) = rest.chars().next() {
        match first {
            '*' | '?' | '{' | '}' => return None,
            '[' => {
                // A class of one character, in the form that `globset::escape` writes.
                let mut class = rest.chars().skip(1);
                let character = class.next()?;
                let end = class.next()?;
                if character == '!' || character == '^' || end != ']' {
                    return None;
                }
                text.push(character);
                rest = &rest[2 + character.len_utf8()..];
            }
            _ => {
                text.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Some(text)
}

/// Whether a part of a glob (the text between two `/`) matches only one level of folders. A part
/// with half of a `{..}` or `[..]` may match more levels, because the other half is in another
/// part.
fn stays_in_folder(part: &str) -> bool {
    part != "**" && !part.contains('{') && part.matches('[').count() <= part.matches(']').count()
}

fn compile(glob: &str) -> Result<GlobMatcher, DatasetError> {
    match GlobBuilder::new(glob).literal_separator(true).backslash_escape(false).build() {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => err!("{glob:?} is not a glob: {}", error.kind()),
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_within_their_folders() {
        for (glob, path, takes) in [
            ("*.csv", "a.csv", true),
            ("*.csv", ".csv", true),
            ("*.csv", "a/b.csv", false),
            ("**/*.csv", "a.csv", true),
            ("**/*.csv", "a/b/c.csv", true),
            ("a?/[bc].csv", "ax/b.csv", true),
            ("a?/[bc].csv", "ax/d.csv", false),
            ("{a,b}.csv", "b.csv", true),
            ("x[*].csv", "x*.csv", true),
            ("x[*].csv", "xy.csv", false),
            ("a\\b*", "a\\bc", true),
        ] {
            let pattern = Pattern::new(Some(glob)).unwrap();
            assert_eq!(pattern.takes(path.as_bytes()), takes, "{glob} {path}");
        }
    }

    #[test]
    fn folders_that_cannot_match_are_not_entered() {
        for (glob, name, depth, enters) in [
            ("*.csv", "a", 0, false),
            ("2026-*/*.csv", "2026-01", 0, true),
            ("2026-*/*.csv", "2025-01", 0, false),
            ("2026-*/*.csv", "x", 1, false),
            ("a*/**/*.csv", "a", 0, true),
            ("a*/**/*.csv", "b", 0, false),
            ("a*/**/*.csv", "b", 1, true),
            ("a*/**/*.csv", "b", 7, true),
            ("{a/b,c}/*.csv", "x", 1, true),
        ] {
            let pattern = Pattern::new(Some(glob)).unwrap();
            assert_eq!(pattern.enters(name.as_bytes(), depth), enters, "{glob} {name} {depth}");
        }
    }

    #[test]
    fn escaped_names_are_literal() {
        for name in ["a.csv", "x*y?.csv", "[1]{2}.csv", "ü[.csv", "a\\b"] {
            assert_eq!(literal(&globset::escape(name)).as_deref(), Some(name));
        }
        for glob in ["*", "a?", "[ab]", "[!a]", "{a}"] {
            assert_eq!(literal(glob), None, "{glob}");
        }
    }

    #[test]
    fn names_are_listed() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let all: BTreeSet<String> = names(&["a,b", "a", "[", "]", "[,]", "{x}", "*,", ",", "é"]);
        assert_eq!(list(&of_names(&all)), Some(all.clone()));
        let Ok(Pattern::List(listed)) = Pattern::new(Some(&of_names(&all))) else { panic!() };
        assert!(listed.is_sorted());
        let pattern = Pattern::new(Some("{b,a}")).unwrap();
        assert!(pattern.takes(b"a") && pattern.takes(b"b") && !pattern.takes(b"c"));
        assert!(!pattern.enters(b"a", 0));
        for one in &all {
            let one = BTreeSet::from([one.clone()]);
            assert_eq!(list(&of_names(&one)), Some(one));
        }
        assert_eq!(list("{a/b,c,c}"), Some(names(&["a/b", "c"])));
        for glob in ["{a,*}", "{a,}", "{}", "{a,b}.csv", "{a,b}/{c,d}", "{a,{b,c}}", "{[a,b],c}"] {
            assert_eq!(list(glob), None, "{glob}");
        }
    }

    #[test]
    fn a_broken_glob_is_refused() {
        let error = Pattern::new(Some("a[b*")).unwrap_err();
        insta::assert_snapshot!(error, @r#""a[b*" is not a glob: unclosed character class; missing ']'"#);
    }
}
