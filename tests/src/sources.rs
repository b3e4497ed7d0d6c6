//! Parses this repository's Rust sources, for tests that check rules about the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// A word, `::` or a single punctuation character, with its line number.
pub type Token = (usize, String);

/// A path that the code of a file names, from the root of its crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceImport {
    /// The line on which the path ends.
    pub line: usize,
    /// The segments of the path. The last segment may be `*`.
    pub path: Vec<String>,
    /// The name in the importing file: the last segment, or the name after `as`.
    pub name: String,
}

/// A file's text. Panics if the file cannot be read, because a test without sources would prove nothing.
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
    let is_mod_file = |last: &String| last == "mod";
    let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
    if is_root || module.last().is_some_and(is_mod_file) {
        module.pop();
    }
    module
}

/// The paths of this crate that a module's code names: all paths that begin with `crate::`, `super::` or
/// `self::`.
pub fn imports(tokens: &[Token], module: &[String]) -> Vec<SourceImport> {
    let mut imports = Vec::new();
    let mut braces = 0_usize;
    // The inline modules that contain the current token: the nesting depth of each one's braces,
    // and its name.
    let mut inline_modules: Vec<(usize, String)> = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        match text(tokens, index) {
            "{" => {
                braces += 1;
                if index >= 2 && text(tokens, index - 2) == "mod" {
                    inline_modules.push((braces, text(tokens, index - 1).to_owned()));
                }
            }
            "}" => {
                inline_modules.pop_if(|(brace, _)| *brace == braces);
                braces = braces.saturating_sub(1);
            }
            "crate" | "super" | "self"
                if index == 0 || !matches!(text(tokens, index - 1), "$" | "::") =>
            {
                let inline = inline_modules.iter().map(|(_, name)| name.clone());
                let current: Vec<String> = module.iter().cloned().chain(inline).collect();
                if let Some((base, after)) = base(tokens, index, current) {
                    read_path(tokens, after, &base, &mut imports);
                    // The next token may be a brace, which must be counted.
                    index = after;
                    continue;
                }
            }
            _ => {}
        }
        index += 1;
    }
    imports
}

/// The paths of a module's `use` declarations. A path without `crate::`, `self::` or `super::` counts as
/// relative to the module.
pub fn uses(tokens: &[Token], module: &[String]) -> Vec<SourceImport> {
    let mut uses = Vec::new();
    for index in (0..tokens.len()).filter(|index| text(tokens, *index) == "use") {
        let (base, after) = base(tokens, index + 1, module.to_vec())
            .unwrap_or_else(|| (module.to_vec(), index + 1));
        read_path(tokens, after, &base, &mut uses);
    }
    uses
}

/// The module that the path prefix at `index` (`crate::`, `self::`, or one or more `super::`) names, and the
/// position after the prefix. `None` if the path has no such prefix. `current` is the module that contains
/// the code.
fn base(
    tokens: &[Token],
    mut index: usize,
    mut current: Vec<String>,
) -> Option<(Vec<String>, usize)> {
    let begin = index;
    while text(tokens, index + 1) == "::" {
        match text(tokens, index) {
            "crate" => current.clear(),
            "super" => {
                current.pop();
            }
            "self" => {}
            _ => break,
        }
        index += 2;
    }
    (index > begin).then_some((current, index))
}

/// Reads the path or the tree of paths at `index`, and adds each path to `found`. Returns the position after
/// them.
fn read_path(
    tokens: &[Token],
    mut index: usize,
    base: &[String],
    found: &mut Vec<SourceImport>,
) -> usize {
    let mut path = base.to_vec();
    loop {
        match text(tokens, index) {
            "{" => {
                index += 1;
                while !matches!(text(tokens, index), "}" | "") {
                    let after = read_path(tokens, index, &path, found);
                    // If the token at `index` does not belong to a path, skip it. Otherwise, the loop would
                    // never end.
                    index = after.max(index + 1) + usize::from(text(tokens, after) == ",");
                }
                return index + 1;
            }
            segment if segment == "*" || is_word(segment) => {
                if segment != "self" {
                    path.push(segment.to_owned());
                }
                index += 1;
            }
            _ => return index,
        }
        if text(tokens, index) != "::" {
            break;
        }
        index += 1;
    }
    let line = tokens.get(index - 1).map_or(0, |token| token.0);
    let mut name = path.last().cloned().unwrap_or_default();
    if text(tokens, index) == "as" {
        text(tokens, index + 1).clone_into(&mut name);
        index += 2;
    }
    found.push(SourceImport { line, path, name });
    index
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn text(tokens: &[Token], index: usize) -> &str {
    tokens.get(index).map_or("", |token| token.1.as_str())
}

/// The tokens that are compiled into the product: all except items under `#[cfg(test)]`.
pub fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        if let Some(end) = attribute(tokens, index) {
            let words = &tokens[index..end];
            let has = |word: &str| words.iter().any(|token| token.1 == word);
            if has("cfg") && has("test") && !has("not") {
                index = end_of_item(tokens, end);
            } else {
                kept.extend_from_slice(words);
                index = end;
            }
        } else {
            kept.push(tokens[index].clone());
            index += 1;
        }
    }
    kept
}

/// The position after the attribute that begins at `index`; `None` if no attribute begins there.
fn attribute(tokens: &[Token], index: usize) -> Option<usize> {
    let opens = text(tokens, index) == "#" && text(tokens, index + 1) == "[";
    opens.then(|| end_of_group(tokens, index + 1, "[", "]"))
}

/// The position after the item that begins at `index`. An item ends with the first `;` outside of braces, or
/// with its closing brace.
fn end_of_item(tokens: &[Token], mut index: usize) -> usize {
    while let Some(end) = attribute(tokens, index) {
        index = end;
    }
    while index < tokens.len() {
        match text(tokens, index) {
            ";" => return index + 1,
            "{" => return end_of_group(tokens, index, "{", "}"),
            _ => index += 1,
        }
    }
    index
}

/// The position after the closing token of the group that opens at `from`.
fn end_of_group(tokens: &[Token], from: usize, open: &str, close: &str) -> usize {
    let mut nesting = 0_usize;
    for index in from..tokens.len() {
        let token = text(tokens, index);
        nesting += usize::from(token == open);
        nesting -= usize::from(token == close);
        if nesting == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// The source's words, `::` and single punctuation characters, each with its line. Leaves out comments,
/// strings and character literals.
pub fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let starts = |index: usize, prefix: &str| {
        prefix.chars().enumerate().all(|(i, c)| chars.get(index + i) == Some(&c))
    };
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut index = 0;
    while index < chars.len() {
        let from = index;
        if starts(index, "//") {
            index = (index..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len());
        } else if starts(index, "/*") {
            index = (index..chars.len()).find(|i| starts(*i, "*/")).map_or(chars.len(), |i| i + 2);
        } else if let Some((body, hashes)) = raw_string(&chars, index) {
            let end: String = std::iter::once('"').chain("#".repeat(hashes).chars()).collect();
            index = (body..chars.len())
                .find(|i| starts(*i, &end))
                .map_or(chars.len(), |i| i + end.len());
        } else if chars[index] == '"' {
            index += 1;
            while index < chars.len() && chars[index] != '"' {
                index += if chars[index] == '\\' { 2 } else { 1 };
            }
            index += 1;
        } else if chars[index] == '\'' {
            // A character literal has a closing quote after one character or one escape. A lifetime does not.
            let end = if chars.get(index + 1) == Some(&'\\') {
                (index + 3..chars.len()).find(|i| chars[*i] == '\'')
            } else {
                Some(index + 2).filter(|i| chars.get(*i) == Some(&'\''))
            };
            index = end.unwrap_or(index) + 1;
        } else if chars[index].is_alphanumeric() || chars[index] == '_' {
            while index < chars.len() && (chars[index].is_alphanumeric() || chars[index] == '_') {
                index += 1;
            }
            tokens.push((line, chars[from..index].iter().collect()));
        } else if starts(index, "::") {
            tokens.push((line, "::".to_owned()));
            index += 2;
        } else {
            if !chars[index].is_whitespace() {
                tokens.push((line, chars[index].to_string()));
            }
            index += 1;
        }
        index = index.min(chars.len());
        line += chars[from..index].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

/// If a raw string starts at `index`: where its body begins, and its number of hashes.
fn raw_string(chars: &[char], index: usize) -> Option<(usize, usize)> {
    let r = index + usize::from(chars[index] == 'b');
    if chars.get(r) != Some(&'r') {
        return None;
    }
    let hashes = chars[r + 1..].iter().take_while(|c| **c == '#').count();
    let quote = r + 1 + hashes;
    (chars.get(quote) == Some(&'"')).then_some((quote + 1, hashes))
}
