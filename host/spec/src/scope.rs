//! Reads a map of the tree key by key, as the table of keys describes it. A wrong value is an error in the
//! report, and counts as missing.

use super::error::{ErrorReport, SettingOrigin};
use super::keys::{self, Key, KeyKind};
use super::tree::{MapEntry, YamlNode, YamlValue, join};
use crate::model::{ByteSize, Setting, nearest};

/// A setting and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) origin: SettingOrigin,
    /// The key's path.
    pub(super) key: String,
}

impl<T> Located<T> {
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: f(self.value), origin: self.origin, key: self.key }
    }

    /// Reports that this setting is wrong.
    pub(super) fn blame(&self, report: &ErrorReport, message: impl Into<String>) {
        report.error(&self.origin, &self.key, message);
    }
}

/// Pairs of a name and a scalar, in the order of the file.
pub(super) type Variables = Vec<(String, Located<String>)>;

/// Pairs of a name and a map that is still to be read, in the order of the file.
pub(super) type NameGroups<'r> = Vec<(Located<String>, UnreadNames<'r>)>;

/// A map that is being read. It holds the entries that were not read yet.
pub(super) struct UnreadNames<'r> {
    pub(super) path: String,
    pub(super) origin: SettingOrigin,
    keys: &'static [Key],
    entries: Vec<MapEntry>,
    report: &'r ErrorReport,
    /// Whether this is the top level of a job file. There, the keys of Azure and of similar systems
    /// get messages of their own.
    is_job: bool,
}

impl<'r> UnreadNames<'r> {
    pub(super) fn new(
        path: String,
        origin: SettingOrigin,
        entries: Vec<MapEntry>,
        keys: &'static [Key],
        report: &'r ErrorReport,
    ) -> Self {
        let is_job = path.is_empty();
        Self { path, origin, keys, entries, report, is_job }
    }

    /// The top level of the operator's policy file.
    pub(super) fn of_policy(entries: Vec<MapEntry>, report: &'r ErrorReport) -> Self {
        let path = String::new();
        let origin = SettingOrigin::File;
        Self { path, origin, keys: keys::policy(), entries, report, is_job: false }
    }

    /// The top level of a file of datastores.
    pub(super) fn of_datastores(entries: Vec<MapEntry>, report: &'r ErrorReport) -> Self {
        Self { keys: keys::DATASTORES, ..Self::of_policy(entries, report) }
    }

    /// The top level of the user's config file.
    pub(super) fn of_user_config(entries: Vec<MapEntry>, report: &'r ErrorReport) -> Self {
        Self { keys: keys::USER_CONFIG, ..Self::of_policy(entries, report) }
    }

    /// Removes a key, and returns its value. A null value is an error, because its meaning would be unclear.
    fn remove(&mut self, name: &str) -> Option<(&'static Key, Located<YamlValue>)> {
        let key = self.keys.iter().find(|key| key.name == name)?;
        let index = self.entries.iter().position(|entry| entry.key == name)?;
        let node = self.entries.remove(index).node;
        let path = join(&self.path, name);
        if node.value == YamlValue::Null {
            let message = format!("found nothing; expected {}, or leave the key out", key.expected);
            self.report.error(&node.origin, &path, message);
            return None;
        }
        Some((key, Located { value: node.value, origin: node.origin, key: path }))
    }

    fn report_mismatch(&self, key: &Key, found: Located<YamlValue>) {
        let Located { value, origin, key: path } = found;
        let node = YamlNode { origin, value };
        let is_size = |text: &str| text.parse::<ByteSize>().is_ok();
        let units = match (key.kind, &node.value) {
            (KeyKind::Size { .. }, YamlValue::Scalar { text, .. }) if !is_size(text) => {
                format!("; {}", ByteSize::UNITS)
            }
            _ => String::new(),
        };
        let message = format!("found {node}; expected {}{units}", key.expected);
        self.report.error(&node.origin, &path, message);
    }

    /// Reads a scalar, unchanged.
    pub(super) fn text(&mut self, name: &str) -> Option<Located<String>> {
        self.parsed_by(name, |_, text| Some(text.to_owned()))
    }

    /// Reads `true` or `false`, in upper or lower case.
    pub(super) fn bool(&mut self, name: &str) -> Option<Located<bool>> {
        self.setting(name)
    }

    /// Reads a scalar as the type of a setting, within the bounds of the table of keys.
    pub(super) fn setting<T: Setting>(&mut self, name: &str) -> Option<Located<T>> {
        let (key, found) = self.remove(name)?;
        let YamlValue::Scalar { text, .. } = &found.value else {
            self.report_mismatch(key, found);
            return None;
        };
        match (T::read(text), T::complaint(text)) {
            (Some(value), _) if key.kind.accepts(text) => {
                return Some(Located { value, origin: found.origin, key: found.key });
            }
            (_, Some(complaint)) => self.report.error(&found.origin, &found.key, complaint),
            _ => self.report_mismatch(key, found),
        }
        None
    }

    /// Reads a scalar that `parse` accepts. If `parse` returns `None`, an error names the expected form.
    pub(super) fn parsed_by<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Key, &str) -> Option<T>,
    ) -> Option<Located<T>> {
        let (key, found) = self.remove(name)?;
        let parsed = match &found.value {
            YamlValue::Scalar { text, .. } => parse(key, text),
            _ => None,
        };
        match parsed {
            Some(value) => Some(Located { value, origin: found.origin, key: found.key }),
            None => {
                self.report_mismatch(key, found);
                None
            }
        }
    }

    /// Reads a list of scalars, unchanged.
    pub(super) fn scalars(&mut self, name: &str) -> Option<Located<Vec<Located<String>>>> {
        self.list(name, |_| true, "a text or a number")
    }

    /// Reads a list of scalars or a single scalar, unchanged. The flag says whether it is a single scalar.
    pub(super) fn scalars_or_one(&mut self, name: &str) -> Option<Located<(Vec<String>, bool)>> {
        let is_single = |entry: &MapEntry| {
            entry.key == name && matches!(entry.node.value, YamlValue::Scalar { .. })
        };
        if self.entries.iter().any(is_single) {
            return Some(self.text(name)?.map(|text| (vec![text], true)));
        }
        let list = self.scalars(name)?;
        Some(list.map(|list| (list.into_iter().map(|setting| setting.value).collect(), false)))
    }

    /// Reads a list of texts.
    pub(super) fn texts(&mut self, name: &str) -> Option<Located<Vec<Located<String>>>> {
        self.list(name, |is_text| is_text, "a text (a number or a truth value in quotes)")
    }

    fn list(
        &mut self,
        name: &str,
        accepts: impl Fn(bool) -> bool,
        expected: &str,
    ) -> Option<Located<Vec<Located<String>>>> {
        let (key, found) = self.remove(name)?;
        let YamlValue::List(items) = found.value else {
            self.report_mismatch(key, found);
            return None;
        };
        let mut texts = Vec::new();
        for (index, node) in items.into_iter().enumerate() {
            let path = format!("{}[{index}]", found.key);
            match node.value {
                YamlValue::Scalar { text, is_text } if accepts(is_text) => {
                    texts.push(Located { value: text, origin: node.origin, key: path });
                }
                _ => {
                    let message = format!("found {node}; expected {expected}");
                    self.report.error(&node.origin, &path, message);
                }
            }
        }
        Some(Located { value: texts, origin: found.origin, key: found.key })
    }

    /// Reads a map of names to scalars, unchanged.
    pub(super) fn variables(&mut self, name: &str) -> Option<Located<Variables>> {
        let (key, found) = self.remove(name)?;
        let YamlValue::Map(entries) = found.value else {
            self.report_mismatch(key, found);
            return None;
        };
        let mut variables = Vec::new();
        for MapEntry { key, node } in entries {
            let path = join(&found.key, &key);
            match node.value {
                YamlValue::Scalar { text, .. } => {
                    variables.push((key, Located { value: text, origin: node.origin, key: path }));
                }
                _ => {
                    let message = format!("found {node}; expected a text or a number");
                    self.report.error(&node.origin, &path, message);
                }
            }
        }
        Some(Located { value: variables, origin: found.origin, key: found.key })
    }

    /// Reads a group: a map whose keys are in the table of keys.
    pub(super) fn group(&mut self, name: &str) -> Option<UnreadNames<'r>> {
        self.group_or(name, None)
    }

    /// Reads a group, or a scalar that is short for a group with only the key `short`.
    pub(super) fn group_or(&mut self, name: &str, short: Option<&str>) -> Option<UnreadNames<'r>> {
        let (key, mut found) = self.remove(name)?;
        if let (Some(short), YamlValue::Scalar { .. }) = (short, &found.value) {
            let node = YamlNode { origin: found.origin.clone(), value: found.value };
            found.value = YamlValue::Map(vec![MapEntry { key: short.to_owned(), node }]);
        }
        match (key.kind, found.value) {
            (KeyKind::Group(keys), YamlValue::Map(entries)) => {
                Some(UnreadNames::new(found.key, found.origin, entries, keys, self.report))
            }
            (_, value) => {
                self.report_mismatch(key, Located { value, origin: found.origin, key: found.key });
                None
            }
        }
    }

    /// Reads a map of names to groups, or a list of groups with names. A scalar instead of a group is the
    /// group's path.
    pub(super) fn named(&mut self, name: &str) -> Option<Located<NameGroups<'r>>> {
        let (key, found) = self.remove(name)?;
        let KeyKind::Named(keys) = key.kind else { return None };
        let mut groups = Vec::new();
        match found.value {
            YamlValue::Map(entries) => {
                for entry in entries {
                    groups.extend(self.named_entry(entry, &found.key, keys));
                }
            }
            YamlValue::List(items) => {
                for (index, node) in items.into_iter().enumerate() {
                    let path = format!("{}[{index}]", found.key);
                    groups.extend(self.named_item(node, path, keys));
                }
            }
            value => {
                self.report_mismatch(key, Located { value, origin: found.origin, key: found.key });
                return None;
            }
        }
        Some(Located { value: groups, origin: found.origin, key: found.key })
    }

    fn named_entry(
        &self,
        MapEntry { key, node }: MapEntry,
        parent: &str,
        keys: &'static [Key],
    ) -> Option<(Located<String>, UnreadNames<'r>)> {
        let path = join(parent, &key);
        let name = Located { value: key, origin: node.origin.clone(), key: path.clone() };
        let entries = match node.value {
            YamlValue::Map(entries) => entries,
            YamlValue::Scalar { .. } => {
                let key = String::from("path");
                let value = YamlNode { origin: node.origin.clone(), value: node.value };
                vec![MapEntry { key, node: value }]
            }
            _ => {
                let message = format!("found {node}; expected a path, or a map with path");
                self.report.error(&node.origin, &path, message);
                return None;
            }
        };
        if let Some(entry) = entries.iter().find(|entry| entry.key == "name") {
            let message = format!("remove it; the name is already {:?}, the key above", name.value);
            self.report.error(&entry.node.origin, &join(&path, "name"), message);
            return None;
        }
        Some((name, UnreadNames::new(path, node.origin, entries, keys, self.report)))
    }

    fn named_item(
        &self,
        node: YamlNode,
        path: String,
        keys: &'static [Key],
    ) -> Option<(Located<String>, UnreadNames<'r>)> {
        let YamlValue::Map(entries) = node.value else {
            let message = format!("found {node}; expected a map with name and path");
            self.report.error(&node.origin, &path, message);
            return None;
        };
        let mut scope = UnreadNames::new(path, node.origin, entries, keys, self.report);
        if !scope.entries.iter().any(|entry| entry.key == "name") {
            let message = "missing; each item of the list needs a name";
            self.report.error(&scope.origin, &join(&scope.path, "name"), message);
        }
        let name = scope.text("name")?;
        Some((name, scope))
    }

    /// Whether the map has the key, even with a wrong value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    /// Reports every key that was not read.
    pub(super) fn report_unread(self) {
        // List all known keys only once.
        let mut are_known_listed = false;
        for entry in &self.entries {
            if self.report.is_full() {
                return;
            }
            let path = join(&self.path, &entry.key);
            let ignored = keys::IGNORED.iter().find(|(name, _)| *name == entry.key);
            match ignored {
                Some((name, reason)) if self.is_job => {
                    self.report.notice(format!("{name}: ignored, {reason}"));
                }
                _ => {
                    let message = self.unknown_key_message(&entry.key, &mut are_known_listed);
                    self.report.error(&entry.node.origin, &path, message);
                }
            }
        }
    }

    fn unknown_key_message(&self, key: &str, are_known_listed: &mut bool) -> String {
        if self.is_job
            && let Some((_, ours)) = keys::RENAMED.iter().find(|(theirs, _)| *theirs == key)
        {
            return format!("unknown key; use {ours}");
        }
        let known = || self.keys.iter().map(|key| key.name);
        let near = if self.is_job {
            nearest(key, keys::top_level().chain(keys::RENAMED.iter().map(|(theirs, _)| *theirs)))
        } else {
            nearest(key, known())
        };
        match near {
            Some(name) => {
                let ours = keys::RENAMED.iter().find(|(theirs, _)| *theirs == name);
                let ours = ours.filter(|_| self.is_job);
                format!("unknown key; did you mean {}?", ours.map_or(name, |(_, ours)| *ours))
            }
            None if *are_known_listed => String::from("unknown key"),
            None => {
                *are_known_listed = true;
                let names: Vec<&str> = known().collect();
                format!("unknown key; the known keys are {}", names.join(", "))
            }
        }
    }
}
