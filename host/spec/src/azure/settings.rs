//! Version 2: converts the settings that parallel jobs and deployments share into keys of our own.

use super::nodes::{entry, entry_of, scalar, take, text};
use crate::error::ErrorReport;
use crate::job_file_location::{JobFileLocation, fit_name};
use crate::keys::{self, NO_ENVIRONMENT};
use crate::tree::{MapEntry, YamlNode, YamlValue, join};
use std::collections::HashSet;

/// Keys with another name here: the file's name, then ours.
const RENAMED: [(&str, &str); 3] = [
    ("max_concurrency_per_instance", "process_count_per_node"),
    ("mini_batch_error_threshold", "allowed_failed_count"),
    ("is_deterministic", "allow_reuse"),
];

/// Settings that have no meaning on this machine and are not keys of ours either.
const IGNORED: [(&str, &str); 5] = [
    ("experiment_name", "for display in Azure only"),
    ("identity", "the job runs as you"),
    ("queue_settings", "the job runs on this machine"),
    ("services", "there are none on this machine"),
    ("version", "for Azure's registry only"),
];

/// The same, below `resources`.
const IGNORED_RESOURCES: [(&str, &str); 6] = [
    ("instance_type", "the job runs on this machine"),
    ("docker_args", "there are no containers here; limits bound an entry script"),
    ("shm_size", "there are no containers here; limits.memory bounds an entry script"),
    ("locations", "the job runs on this machine"),
    ("max_instance_count", "the job runs on this machine"),
    ("properties", "for Azure's machines only"),
];

/// Takes a map out of the entries, without the null values in it.
pub(super) fn group(
    entries: &mut Vec<MapEntry>,
    key: &str,
    report: &ErrorReport,
) -> Option<Vec<MapEntry>> {
    let node = take(entries, key)?;
    match node.value {
        YamlValue::Map(mut inner) => {
            inner.retain(|entry| entry.node.value != YamlValue::Null);
            Some(inner)
        }
        _ => {
            report.error(&node.origin, key, format!("found {node}; expected a map"));
            None
        }
    }
}

/// Reports an unknown key in a group.
pub(super) fn unknown(group: &str, found: &MapEntry, known: &str, report: &ErrorReport) {
    let message = format!("unknown key; the known ones are {known}");
    report.error(&found.node.origin, &join(group, &found.key), message);
}

/// Whether the file asks for more than one node (-1 asks for all nodes of a cluster). The job then runs on
/// this machine alone, and a notice says so. Returns false for any other value, which the check of our own
/// key covers.
pub(super) fn are_more_nodes(key: &str, node: &YamlNode, report: &ErrorReport) -> bool {
    let count = text(node).and_then(|text| text.trim().parse::<i64>().ok());
    let Some(count) = count.filter(|count| *count > 1 || *count == -1) else { return false };
    let asked = match count {
        -1 => String::from("all nodes of a cluster"),
        _ => format!("{count} nodes"),
    };
    let workers = report.word("process_count_per_node");
    report.notice(format!(
        "{key}: the file asks for {asked}; the job runs on this one, with {workers} workers in all"
    ));
    true
}

/// Keys of our own, as converted so far.
pub(super) struct AzureSettings<'r> {
    /// The keys.
    pub(super) ours: Vec<MapEntry>,
    /// The key below which the file has its settings. Empty for the top level.
    below: &'static str,
    report: &'r ErrorReport,
}

impl<'r> AzureSettings<'r> {
    pub(super) fn new(ours: Vec<MapEntry>, below: &'static str, report: &'r ErrorReport) -> Self {
        Self { ours, below, report }
    }

    /// Adds a setting that has another name in the file.
    pub(super) fn rename(&mut self, theirs: &str, ours: &str, node: YamlNode) {
        self.report.conversion(format!("{theirs} is read as {ours}"));
        self.report.call(ours, theirs);
        self.ours.push(entry(ours, node));
    }

    /// Reads an environment. Its conda file lists the versions for which a Python script was written.
    pub(super) fn environment(&mut self, key: &str, node: &YamlNode, place: &JobFileLocation) {
        let file = match &node.value {
            YamlValue::Map(entries) => entry_of(entries, "conda_file"),
            _ => None,
        };
        let file =
            file.filter(|it| text(&it.node).is_some_and(|path| place.resolve(path).is_file()));
        match file {
            Some(file) => {
                let requirements = vec![entry("requirements", file.node.clone())];
                let origin = file.node.origin.clone();
                let group = YamlNode { origin, value: YamlValue::Map(requirements) };
                self.report.conversion(format!(
                    "{key}: ignored except for conda_file, which is read as python.requirements"
                ));
                self.ours.push(entry("python", group));
            }
            None => self.report.conversion(format!("{key}: ignored, {NO_ENVIRONMENT}")),
        }
    }

    /// Reads `resources`, or `instance_count` if there is none.
    pub(super) fn resources(&mut self, entries: &mut Vec<MapEntry>) {
        let alone = take(entries, "instance_count");
        let has_resources = entries.iter().any(|entry| entry.key == "resources");
        let resources = group(entries, "resources", self.report).unwrap_or_default();
        if let Some(alone) = alone {
            if has_resources {
                let message = "given together with resources; write resources.instance_count alone";
                self.report.error(&alone.origin, "instance_count", message);
            } else {
                self.nodes("instance_count", alone);
            }
        }
        for resource in resources {
            let ignored = IGNORED_RESOURCES.iter().find(|(name, _)| *name == resource.key);
            if resource.key == "instance_count" {
                self.nodes("resources.instance_count", resource.node);
            } else if let Some((name, reason)) = ignored {
                self.report.conversion(format!("resources.{name}: ignored, {reason}"));
            } else {
                let known = "instance_count, instance_type, docker_args, shm_size, locations, \
                             max_instance_count, properties";
                unknown("resources", &resource, known, self.report);
            }
        }
    }

    fn nodes(&mut self, key: &str, node: YamlNode) {
        if !are_more_nodes(key, &node, self.report) {
            self.report.call("node_count", key);
            self.ours.push(entry("node_count", node));
        }
    }

    /// Reads `retry_settings`.
    pub(super) fn retries(&mut self, entries: &mut Vec<MapEntry>) {
        let group_key = join(self.below, "retry_settings");
        for setting in group(entries, "retry_settings", self.report).unwrap_or_default() {
            match setting.key.as_str() {
                "timeout" => {
                    let key = join(&group_key, "timeout");
                    self.rename(&key, "run_invocation_timeout", setting.node);
                }
                "max_retries" => self.tries(&join(&group_key, "max_retries"), &setting.node),
                _ => unknown(&group_key, &setting, "max_retries, timeout", self.report),
            }
        }
    }

    fn tries(&mut self, key: &str, node: &YamlNode) {
        let retries = text(node).and_then(|text| text.trim().parse::<u32>().ok());
        let Some(tries) = retries.and_then(|retries| retries.checked_add(1)) else {
            let message = format!(
                "found {node}; expected a whole number of retries from 0 up, after the first attempt"
            );
            self.report.error(&node.origin, key, message);
            return;
        };
        self.report.conversion(format!(
            "{key} {} is run_max_try {tries}: the first attempt counts, too",
            tries - 1
        ));
        self.ours.push(entry("run_max_try", scalar(tries.to_string(), &node.origin)));
    }

    /// Adds any other setting.
    pub(super) fn add(&mut self, setting: MapEntry) {
        let MapEntry { key, mut node } = setting;
        let written = join(self.below, &key);
        let ignored = IGNORED.iter().chain(keys::IGNORED).find(|(name, _)| *name == key);
        if let Some((name, reason)) = ignored {
            self.report.conversion(format!("{name}: ignored, {reason}"));
            return;
        }
        if let Some((_, name)) = RENAMED.iter().find(|(theirs, _)| *theirs == key) {
            self.rename(&written, name, node);
            return;
        }
        match key.as_str() {
            "name" => {
                if let Some(name) = text(&node) {
                    let fitted = fit_name(name);
                    if fitted != name {
                        self.report.conversion(format!("name {name:?} is {fitted} here"));
                    }
                    node = scalar(fitted, &node.origin);
                }
            }
            "partition_keys" => node = key_list(node, self.report),
            _ => {}
        }
        // The file may use our own name.
        self.report.call(&key, &written);
        self.ours.push(MapEntry { key, node });
    }

    /// Returns the keys. A file may use Azure's name or ours for a setting, but not both.
    pub(super) fn finish(self) -> Vec<MapEntry> {
        let Self { mut ours, report, .. } = self;
        let mut seen = HashSet::new();
        ours.retain(|entry| {
            let is_new = seen.insert(entry.key.clone());
            if !is_new {
                let message = "given twice, the other time by Azure's name for it; remove one";
                report.error(&entry.node.origin, &entry.key, message);
            }
            is_new
        });
        ours
    }
}

/// Reads the keys in a JSON text, the form in which a pipeline's input gives them
/// (docs/parallel-run-step.md C8).
fn key_list(node: YamlNode, report: &ErrorReport) -> YamlNode {
    let Some(text) = text(&node) else { return node };
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(keys) => {
            let items = keys.into_iter().map(|key| scalar(key, &node.origin)).collect();
            YamlNode { origin: node.origin.clone(), value: YamlValue::List(items) }
        }
        Err(_) => {
            let message = format!(
                "found {node}; expected a list of texts, or a JSON text of one, as in \
                 '[\"store\", \"brand\"]'"
            );
            report.error(&node.origin, "partition_keys", message);
            // The error is in the report already; keeping the text would add a second one.
            YamlNode { origin: node.origin.clone(), value: YamlValue::List(Vec::new()) }
        }
    }
}
