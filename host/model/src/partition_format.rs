//! Templates that name the parts of paths, such as `{user}/{season}/{genre}.wav`.

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The value in the name of a Hive folder whose rows have no value: `key=__HIVE_DEFAULT_PARTITION__`.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// A template for paths below an input's path. Each level consists of fixed text and of keys in braces. A key
/// matches one or more characters of its level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionFormat {
    text: String,
    levels: Vec<Vec<FormatPart>>,
    /// Whether the template is for folders in the style of Hive (`key=value`), whose values are
    /// percent-encoded.
    is_hive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum FormatPart {
    Text(String),
    Key(String),
}

/// Error: the text is not a template. The caller says which input the message is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path template: {1}; write it as in '{{user}}/{{season}}/{{genre}}.wav'")]
pub struct ParsePartitionFormatError(String, String);

impl PartitionFormat {
    /// Reads a template. Fails if a level is empty, a brace or a name is wrong, a key occurs twice, two keys
    /// have nothing between them, or there is no key at all.
    pub fn parse(text: &str) -> Result<Self, ParsePartitionFormatError> {
        let refuse = |reason: String| ParsePartitionFormatError(text.to_owned(), reason);
        let levels =
            text.split('/').map(parse_level).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
        let format = Self { text: text.to_owned(), levels, is_hive: false };
        let keys: Vec<&str> = format.keys().collect();
        if keys.is_empty() {
            return Err(refuse("it has no key in braces".to_owned()));
        }
        match keys.iter().enumerate().find(|(index, key)| keys[..*index].contains(key)) {
            Some((_, twice)) => Err(refuse(format!("the key '{twice}' occurs twice"))),
            None => Ok(format),
        }
    }

    /// The template for the folders of a file with a path such as `year=2026/month=11/a.parquet`. The
    /// template ends before the first folder that is not named `key=value`. `None` if there are no such
    /// folders, or if a key occurs twice.
    pub fn hive(path: &str) -> Option<Self> {
        let (folders, _) = path.rsplit_once('/')?;
        let key = |folder: &str| {
            let (key, _) = folder.split_once('=')?;
            let is_plain = !key.is_empty() && !key.contains(['{', '}', ':', '*']);
            is_plain.then(|| key.to_owned())
        };
        let keys: Vec<String> = folders.split('/').map_while(key).collect();
        let parts: Vec<_> = keys.iter().map(|key| format!("{key}={{{key}}}")).collect();
        let format = Self::parse(&parts.join("/")).ok()?;
        Some(Self { is_hive: true, ..format })
    }

    /// The keys of the template, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().flatten().filter_map(|part| match part {
            FormatPart::Key(key) => Some(key.as_str()),
            FormatPart::Text(_) => None,
        })
    }

    /// The values of the keys in a file's path. `path` is relative to the input's path, with `/` between its
    /// parts. `None` if the path does not match. If it matches in several ways, the first keys of a level get
    /// the shorter values.
    pub fn values<'a>(&self, path: &'a str) -> Option<Vec<&'a str>> {
        let mut values = Vec::new();
        let mut names = path.split('/');
        for parts in &self.levels {
            level_values(parts, names.next()?, false, &mut values)?;
        }
        names.next().is_none().then_some(values)
    }

    /// Like [`Self::values`], but for tables: the template names folders, and the files below them may have
    /// any name. But a template whose last level has a fixed file name extension, such as
    /// `{region}/{day}.csv`, matches the whole path. Values of folders in the style of Hive are decoded. Null
    /// becomes an empty value.
    pub fn folder_values<'a>(&self, path: &'a str) -> Option<Vec<Cow<'a, str>>> {
        let values = self.plain_folder_values(path)?.into_iter();
        Some(match self.is_hive {
            true => values.map(hive_value).collect(),
            false => values.map(Cow::Borrowed).collect(),
        })
    }

    fn plain_folder_values<'a>(&self, path: &'a str) -> Option<Vec<&'a str>> {
        if let Some([.., FormatPart::Text(ending)]) = self.levels.last().map(Vec::as_slice)
            && ending.contains('.')
        {
            return self.values(path);
        }
        let mut values = Vec::new();
        let mut names = path.split('/');
        for parts in &self.levels {
            level_values(parts, names.next()?, self.is_hive, &mut values)?;
        }
        // At least the file's name must be left. There may be more folders.
        names.next().map(|_| values)
    }
}

impl fmt::Display for PartitionFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The decoded value of a folder in the style of Hive. A value that is not valid UTF-8 when decoded is kept
/// unchanged.
fn hive_value(value: &str) -> Cow<'_, str> {
    if value == HIVE_NULL {
        return Cow::Borrowed("");
    }
    percent_decode_str(value).decode_utf8().unwrap_or(Cow::Borrowed(value))
}

/// Reads one level of a template. Fails with the reason.
fn parse_level(text: &str) -> Result<Vec<FormatPart>, String> {
    if text.is_empty() {
        return Err("a level between two '/' is empty".to_owned());
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let brace = rest.find(['{', '}']).unwrap_or(rest.len());
        if brace > 0 {
            parts.push(FormatPart::Text(rest[..brace].to_owned()));
        }
        rest = &rest[brace..];
        let Some(inside) = rest.strip_prefix('{') else {
            if rest.is_empty() {
                break;
            }
            return Err("a '}' has no '{' before it".to_owned());
        };
        let Some((key, after)) = inside.split_once('}') else {
            return Err("a '{' is not closed".to_owned());
        };
        if key.is_empty() || key.contains(['{', ':', '*']) {
            return Err(format!("{{{key}}} is not a key: a key is a plain name"));
        }
        if let Some(FormatPart::Key(before)) = parts.last() {
            return Err(format!(
                "there is nothing between {{{before}}} and {{{key}}}, so it is unclear where \
                 {{{before}}} ends"
            ));
        }
        parts.push(FormatPart::Key(key.to_owned()));
        rest = after;
    }
    Ok(parts)
}

/// Appends the values of one level's keys. Returns `None` if the name does not match.
fn level_values<'a>(
    parts: &[FormatPart],
    name: &'a str,
    may_be_empty: bool,
    values: &mut Vec<&'a str>,
) -> Option<()> {
    let mut rest = name;
    for (index, part) in parts.iter().enumerate() {
        if let FormatPart::Text(text) = part {
            rest = rest.strip_prefix(text.as_str())?;
            continue;
        }
        let end = match parts.get(index + 1) {
            // The level ends with this text, so the key's value ends right before it.
            Some(FormatPart::Text(text)) if index + 2 == parts.len() => {
                rest.len().checked_sub(text.len())?
            }
            Some(FormatPart::Text(text)) => {
                let first = rest.chars().next()?.len_utf8();
                first + rest[first..].find(text.as_str())?
            }
            _ => rest.len(),
        };
        values.push(rest.get(..end).filter(|value| may_be_empty || !value.is_empty())?);
        rest = &rest[end..];
    }
    rest.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(format: &str, path: &str) -> Option<Vec<String>> {
        let format = PartitionFormat::parse(format).unwrap();
        Some(format.values(path)?.into_iter().map(str::to_owned).collect())
    }

    fn some(values: &[&str]) -> Option<Vec<String>> {
        Some(values.iter().map(|&value| value.to_owned()).collect())
    }

    /// Rule M4 in docs/parallel-run-step.md.
    #[test]
    fn keys_come_from_paths() {
        let format = "{user}/{season}/{genre}.wav";
        assert_eq!(values(format, "ann/winter/pop.wav"), some(&["ann", "winter", "pop"]));
        assert_eq!(values(format, "é/a b/x.y.wav"), some(&["é", "a b", "x.y"]));
        for other in ["ann/winter/pop.mp3", "ann/pop.wav", "a/b/c/d.wav", "a//c.wav", "a/b/.wav"] {
            assert_eq!(values(format, other), None, "{other}");
        }
        assert_eq!(values("r={r}/{y}-{m}.csv", "r=n/2026-11-x.csv"), some(&["n", "2026", "11-x"]));
        assert_eq!(values("{a}_{b}_", "x_y_z_"), some(&["x", "y_z"]));
        assert_eq!(values("{a}_{b}_", "_x_y_"), some(&["_x", "y"]));
        assert_eq!(values("{a}_{b}", "x_y_z"), some(&["x", "y_z"]));
        assert_eq!(values("x/{a}", "x/1"), some(&["1"]));
        assert_eq!(values("x/{a}", "y/1"), None);
    }

    /// Rule M5.
    #[test]
    fn tables_take_folders() {
        let format = PartitionFormat::parse("{region}/{store}").unwrap();
        let values = |format: &PartitionFormat, path| {
            let values = format.folder_values(path)?;
            Some(values.into_iter().map(Cow::into_owned).collect::<Vec<_>>())
        };
        assert_eq!(values(&format, "n/4/a.csv"), some(&["n", "4"]));
        assert_eq!(values(&format, "n/4/2026/a.csv"), some(&["n", "4"]));
        assert_eq!(format.folder_values("n/a.csv"), None);
        let whole = PartitionFormat::parse("{region}/{day}.csv").unwrap();
        assert_eq!(values(&whole, "n/mon.csv"), some(&["n", "mon"]));
        assert_eq!(whole.folder_values("n/mon.csv/x"), None);
        assert_eq!(whole.keys().collect::<Vec<_>>(), ["region", "day"]);
    }

    #[test]
    fn folders_in_the_style_of_hive_have_keys() {
        let values = |first: &str, path: &str| {
            let values = PartitionFormat::hive(first)?.folder_values(path)?;
            Some(values.into_iter().map(Cow::into_owned).collect::<Vec<_>>())
        };
        let first = "year=2026/city=a/x.csv";
        assert_eq!(PartitionFormat::hive(first).unwrap().to_string(), "year={year}/city={city}");
        assert_eq!(values(first, first), some(&["2026", "a"]));
        assert_eq!(
            values(first, "year=1/city=S%C3%A3o%20P%2Faulo%/b"),
            some(&["1", "São P/aulo%"])
        );
        assert_eq!(values(first, "year=__HIVE_DEFAULT_PARTITION__/city=%FF/b"), some(&["", "%FF"]));
        assert_eq!(values(first, "year=1/city=%4/more/b"), some(&["1", "%4"]));
        assert_eq!(values(first, "year=/city=a/x.csv"), some(&["", "a"]), "null, too");
        assert_eq!(values("k=/x", "k=/x"), some(&[""]));
        for other in ["x.csv", "year=1/x.csv", "city=a/year=2/x.csv"] {
            assert_eq!(values(first, other), None, "{other}");
        }
        for none in ["x.csv", "a/k=v/x.csv", "=v/x", "k=1/k=2/x", "{a}=1/x", "k=v"] {
            assert_eq!(PartitionFormat::hive(none), None, "{none}");
        }
        assert_eq!(PartitionFormat::hive("k=v/b/x").unwrap().to_string(), "k={k}");
    }

    #[test]
    fn invalid_templates_are_refused() {
        let errors = ["", "a/b", "{a}//{b}", "{a", "a}", "{}", "{d:yyyy}", "{a}{b}", "{a}/{a}"]
            .map(|text| PartitionFormat::parse(text).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @r#"
        "" is not a path template: a level between two '/' is empty; write it as in '{user}/{season}/{genre}.wav'
        "a/b" is not a path template: it has no key in braces; write it as in '{user}/{season}/{genre}.wav'
        "{a}//{b}" is not a path template: a level between two '/' is empty; write it as in '{user}/{season}/{genre}.wav'
        "{a" is not a path template: a '{' is not closed; write it as in '{user}/{season}/{genre}.wav'
        "a}" is not a path template: a '}' has no '{' before it; write it as in '{user}/{season}/{genre}.wav'
        "{}" is not a path template: {} is not a key: a key is a plain name; write it as in '{user}/{season}/{genre}.wav'
        "{d:yyyy}" is not a path template: {d:yyyy} is not a key: a key is a plain name; write it as in '{user}/{season}/{genre}.wav'
        "{a}{b}" is not a path template: there is nothing between {a} and {b}, so it is unclear where {a} ends; write it as in '{user}/{season}/{genre}.wav'
        "{a}/{a}" is not a path template: the key 'a' occurs twice; write it as in '{user}/{season}/{genre}.wav'
        "#);
    }

    proptest! {
        #[test]
        fn nothing_panics(format in "[{}/ab.é]{0,12}", path in "[/ab.é]{0,12}") {
            if let Ok(format) = PartitionFormat::parse(&format) {
                let count = format.keys().count();
                let values = [format.values(&path), format.plain_folder_values(&path)];
                for values in values.into_iter().flatten() {
                    prop_assert_eq!(values.len(), count);
                    prop_assert!(values.iter().all(|value| !value.is_empty()));
                }
            }
        }
    }
}
