//! Parses this repository's Rust sources, for tests of the rules of their layout.

use std::fs;
use std::path::{Path, PathBuf};

/// A word, `::` or a single punctuation character, with its line number.
pub type Token = (usize, String);

/// A path that the code names, from the root of its crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The line on which it ends.
    pub line: usize,
    /// Its segments; the last may be `*`.
    pub path: Vec<String>,
    /// Its name in the importing file: the last segment, or the name after `as`.
    pub name: String,
}

/// A file's text. Panics if it cannot be read: without the sources, the test means nothing.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a folder except build outputs, sorted.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return files };
    for entry in entries {
        let path = entry.expect("a folder of the sources can be read").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The module of a file, given its path below `src`: `plan/mod.rs` is `plan`, and `lib.rs` is the root.
pub fn module_of(inside: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        inside.iter().map(|part| part.to_string_lossy().trim_end_matches(".rs").into()).collect();
    let is_folders_own = |last: &String| last == "mod";
    let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
    if is_root || module.last().is_some_and(is_folders_own) {
        module.pop();
    }
    module
}

/// Every path of this crate that a module's code names: each one that begins with `crate::`, `super::` or
/// `self::`.
pub fn imports(tokens: &[Token], module: &[String]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut braces = 0_usize;
    // Each name with the number of its opening brace.
    let mut inline_modules: Vec<(usize, String)> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match text(tokens, at) {
            "{" => {
                braces += 1;
                if at >= 2 && text(tokens, at - 2) == "mod" {
                    inline_modules.push((braces, text(tokens, at - 1).to_owned()));
                }
            }
            "}" => {
                inline_modules.pop_if(|(brace, _)| *brace == braces);
                braces = braces.saturating_sub(1);
            }
            "crate" | "super" | "self"
                if at == 0 || !matches!(text(tokens, at - 1), "$" | "::") =>
            {
                let inline = inline_modules.iter().map(|(_, name)| name.clone());
                let here: Vec<String> = module.iter().cloned().chain(inline).collect();
                if let Some((base, after)) = base(tokens, at, here) {
                    read_path(tokens, after, &base, &mut imports);
                    // The next token may be a brace, which must be counted.
                    at = after;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    imports
}

/// The paths of a module's `use` declarations. A path without `crate::`, `self::` or `super::` is taken as
/// relative to the module.
pub fn uses(tokens: &[Token], module: &[String]) -> Vec<Import> {
    let mut uses = Vec::new();
    for at in (0..tokens.len()).filter(|at| text(tokens, *at) == "use") {
        let (base, after) =
            base(tokens, at + 1, module.to_vec()).unwrap_or_else(|| (module.to_vec(), at + 1));
        read_path(tokens, after, &base, &mut uses);
    }
    uses
}

/// The module that the prefix at `at` (`crate::`, `self::`, or one or more `super::`) names, and the position
/// after the prefix. `None` without a prefix.
fn base(tokens: &[Token], mut at: usize, mut here: Vec<String>) -> Option<(Vec<String>, usize)> {
    let begin = at;
    while text(tokens, at + 1) == "::" {
        match text(tokens, at) {
            "crate" => here.clear(),
            "super" => {
                here.pop();
            }
            "self" => {}
            _ => break,
        }
        at += 2;
    }
    (at > begin).then_some((here, at))
}

/// Reads the path, or the tree of paths, at `at`. Returns the position after it.
fn read_path(tokens: &[Token], mut at: usize, base: &[String], found: &mut Vec<Import>) -> usize {
    let mut path = base.to_vec();
    loop {
        match text(tokens, at) {
            "{" => {
                at += 1;
                while !matches!(text(tokens, at), "}" | "") {
                    let after = read_path(tokens, at, &path, found);
                    // Skip a token that does not belong to a path; otherwise, the loop would never end.
                    at = after.max(at + 1) + usize::from(text(tokens, after) == ",");
                }
                return at + 1;
            }
            segment if segment == "*" || is_word(segment) => {
                if segment != "self" {
                    path.push(segment.to_owned());
                }
                at += 1;
            }
            _ => return at,
        }
        if text(tokens, at) != "::" {
            break;
        }
        at += 1;
    }
    let line = tokens.get(at - 1).map_or(0, |token| token.0);
    let mut name = path.last().cloned().unwrap_or_default();
    if text(tokens, at) == "as" {
        text(tokens, at + 1).clone_into(&mut name);
        at += 2;
    }
    found.push(Import { line, path, name });
    at
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| token.1.as_str())
}

/// The tokens that are compiled into the product, without items under `#[cfg(test)]`.
pub fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = attribute(tokens, at) {
            let words = &tokens[at..end];
            let has = |word: &str| words.iter().any(|token| token.1 == word);
            if has("cfg") && has("test") && !has("not") {
                at = end_of_item(tokens, end);
            } else {
                kept.extend_from_slice(words);
                at = end;
            }
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The position after the attribute that begins at `at`; `None` if no attribute begins there.
fn attribute(tokens: &[Token], at: usize) -> Option<usize> {
    let opens = text(tokens, at) == "#" && text(tokens, at + 1) == "[";
    opens.then(|| end_of_group(tokens, at + 1, "[", "]"))
}

/// The position after the item that begins at `at`. An item ends with the first `;` outside of braces, or
/// with its closing brace.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    while let Some(end) = attribute(tokens, at) {
        at = end;
    }
    while at < tokens.len() {
        match text(tokens, at) {
            ";" => return at + 1,
            "{" => return end_of_group(tokens, at, "{", "}"),
            _ => at += 1,
        }
    }
    at
}

fn end_of_group(tokens: &[Token], from: usize, open: &str, close: &str) -> usize {
    let mut nesting = 0_usize;
    for at in from..tokens.len() {
        let token = text(tokens, at);
        nesting += usize::from(token == open);
        nesting -= usize::from(token == close);
        if nesting == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The source's words, `::` and single punctuation characters, each with its line. Leaves out comments,
/// strings and character literals.
pub fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let starts = |at: usize, what: &str| {
        what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut at = 0;
    while at < chars.len() {
        let from = at;
        if starts(at, "//") {
            at = (at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len());
        } else if starts(at, "/*") {
            at = (at..chars.len()).find(|i| starts(*i, "*/")).map_or(chars.len(), |i| i + 2);
        } else if let Some((body, hashes)) = raw_string(&chars, at) {
            let end: String = std::iter::once('"').chain("#".repeat(hashes).chars()).collect();
            at = (body..chars.len())
                .find(|i| starts(*i, &end))
                .map_or(chars.len(), |i| i + end.len());
        } else if chars[at] == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if chars[at] == '\'' {
            // A character literal has a closing quote after one character or one escape. A lifetime does not.
            let end = if chars.get(at + 1) == Some(&'\\') {
                (at + 3..chars.len()).find(|i| chars[*i] == '\'')
            } else {
                Some(at + 2).filter(|i| chars.get(*i) == Some(&'\''))
            };
            at = end.unwrap_or(at) + 1;
        } else if chars[at].is_alphanumeric() || chars[at] == '_' {
            while at < chars.len() && (chars[at].is_alphanumeric() || chars[at] == '_') {
                at += 1;
            }
            tokens.push((line, chars[from..at].iter().collect()));
        } else if starts(at, "::") {
            tokens.push((line, "::".to_owned()));
            at += 2;
        } else {
            if !chars[at].is_whitespace() {
                tokens.push((line, chars[at].to_string()));
            }
            at += 1;
        }
        at = at.min(chars.len());
        line += chars[from..at].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

/// If a raw string starts at `at`: where its body begins, and its number of hashes.
fn raw_string(chars: &[char], at: usize) -> Option<(usize, usize)> {
    let r = at + usize::from(chars[at] == 'b');
    if chars.get(r) != Some(&'r') {
        return None;
    }
    let hashes = chars[r + 1..].iter().take_while(|c| **c == '#').count();
    let quote = r + 1 + hashes;
    (chars.get(quote) == Some(&'"')).then_some((quote + 1, hashes))
}
