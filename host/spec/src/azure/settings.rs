//! Converts the settings that parallel jobs and deployments of version 2 share into keys of our own.

use super::nodes::{entry, entry_of, remove_key, scalar, text};
use crate::error::{AskedNodes, ErrorReport};
use crate::job_file_location::{JobFileLocation, fit_name};
use crate::keys::{self, NO_ENVIRONMENT};
use crate::tree::{MapEntry, YamlNode, YamlValue, join};
use std::collections::HashSet;

/// Keys that have another name here: Azure's name, then ours.
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
    ("services", "there are no services on this machine"),
    ("version", "for Azure's registry only"),
];

/// Settings below `resources` that have no meaning on this machine.
const IGNORED_RESOURCES: [(&str, &str); 6] = [
    ("instance_type", "the job runs on this machine"),
    ("docker_args", "there are no containers here; limits bound an entry script"),
    ("shm_size", "there are no containers here; limits.memory bounds an entry script"),
    ("locations", "the job runs on this machine"),
    ("max_instance_count", "the job runs on this machine"),
    ("properties", "for Azure's machines only"),
];

/// Removes the group `key` from the entries, and drops its null values. `None` if the group is
/// missing or, with an error, if it is not a map.
pub(super) fn remove_group(
    entries: &mut Vec<MapEntry>,
    key: &str,
    report: &ErrorReport,
) -> Option<Vec<MapEntry>> {
    let node = remove_key(entries, key)?;
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
pub(super) fn report_unknown(group: &str, found: &MapEntry, known: &str, report: &ErrorReport) {
    let message = format!("unknown key; the known keys are {known}");
    report.error(&found.node.origin, &join(group, &found.key), message);
}

/// Whether the file asks for more than one node (-1 asks for all nodes of a cluster). If so, records the number
/// for [`nodes::count`](crate::nodes::count), because it depends on the machine what the number means. If not,
/// the value is checked later, as our own key `node_count`.
pub(super) fn asks_for_more_nodes(key: &str, node: &YamlNode, report: &ErrorReport) -> bool {
    let count = text(node).and_then(|text| text.trim().parse::<i64>().ok());
    let Some(count) = count.filter(|count| *count > 1 || *count == -1) else { return false };
    let count = u64::try_from(count).ok();
    report.record_asked_nodes(AskedNodes {
        count,
        origin: node.origin.clone(),
        key: key.to_owned(),
    });
    true
}

/// Converts settings, and collects the keys of our own that result.
pub(super) struct AzureSettings<'r> {
    /// The keys converted so far.
    pub(super) ours: Vec<MapEntry>,
    /// The key below which the file has its settings. Empty for the top level.
    parent_key: &'static str,
    report: &'r ErrorReport,
}

impl<'r> AzureSettings<'r> {
    pub(super) fn new(
        ours: Vec<MapEntry>,
        parent_key: &'static str,
        report: &'r ErrorReport,
    ) -> Self {
        Self { ours, parent_key, report }
    }

    /// Adds a setting whose key has another name in Azure.
    pub(super) fn add_renamed(&mut self, theirs: &str, ours: &str, node: YamlNode) {
        self.report.conversion(format!("{theirs} is read as {ours}"));
        self.report.record_name(ours, theirs);
        self.ours.push(entry(ours, node));
    }

    /// Adds an environment's conda file, which lists the package versions for which a Python script was
    /// written.
    pub(super) fn add_environment(
        &mut self,
        key: &str,
        node: &YamlNode,
        location: &JobFileLocation,
    ) {
        let file = match &node.value {
            YamlValue::Map(entries) => entry_of(entries, "conda_file"),
            _ => None,
        };
        let file =
            file.filter(|it| text(&it.node).is_some_and(|path| location.resolve(path).is_file()));
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

    /// Adds `resources`, or `instance_count` if there is no `resources`.
    pub(super) fn add_resources(&mut self, entries: &mut Vec<MapEntry>) {
        let top_level_count = remove_key(entries, "instance_count");
        let has_resources = entries.iter().any(|entry| entry.key == "resources");
        let resources = remove_group(entries, "resources", self.report).unwrap_or_default();
        if let Some(node) = top_level_count {
            if has_resources {
                let message = "given together with resources; write only resources.instance_count";
                self.report.error(&node.origin, "instance_count", message);
            } else {
                self.add_node_count("instance_count", node);
            }
        }
        for resource in resources {
            let ignored = IGNORED_RESOURCES.iter().find(|(name, _)| *name == resource.key);
            if resource.key == "instance_count" {
                self.add_node_count("resources.instance_count", resource.node);
            } else if let Some((name, reason)) = ignored {
                self.report.conversion(format!("resources.{name}: ignored, {reason}"));
            } else {
                let known = "instance_count, instance_type, docker_args, shm_size, locations, \
                             max_instance_count, properties";
                report_unknown("resources", &resource, known, self.report);
            }
        }
    }

    fn add_node_count(&mut self, key: &str, node: YamlNode) {
        self.report.record_name("node_count", key);
        if !asks_for_more_nodes(key, &node, self.report) {
            self.ours.push(entry("node_count", node));
        }
    }

    /// Adds `retry_settings`.
    pub(super) fn add_retries(&mut self, entries: &mut Vec<MapEntry>) {
        let group_key = join(self.parent_key, "retry_settings");
        for setting in remove_group(entries, "retry_settings", self.report).unwrap_or_default() {
            match setting.key.as_str() {
                "timeout" => {
                    let key = join(&group_key, "timeout");
                    self.add_renamed(&key, "run_invocation_timeout", setting.node);
                }
                "max_retries" => self.add_max_try(&join(&group_key, "max_retries"), &setting.node),
                _ => report_unknown(&group_key, &setting, "max_retries, timeout", self.report),
            }
        }
    }

    /// Adds Azure's number of retries as our number of attempts.
    fn add_max_try(&mut self, key: &str, node: &YamlNode) {
        let retries = text(node).and_then(|text| text.trim().parse::<u32>().ok());
        let Some(tries) = retries.and_then(|retries| retries.checked_add(1)) else {
            let message = format!(
                "found {node}; expected a whole number of retries from 0 up, after the first attempt"
            );
            self.report.error(&node.origin, key, message);
            return;
        };
        self.report.conversion(format!(
            "{key} {} is run_max_try {tries}: the first attempt also counts",
            tries - 1
        ));
        self.ours.push(entry("run_max_try", scalar(tries.to_string(), &node.origin)));
    }

    /// Adds any other setting.
    pub(super) fn add(&mut self, setting: MapEntry) {
        let MapEntry { key, mut node } = setting;
        let written = join(self.parent_key, &key);
        let ignored = IGNORED.iter().chain(keys::IGNORED).find(|(name, _)| *name == key);
        if let Some((name, reason)) = ignored {
            self.report.conversion(format!("{name}: ignored, {reason}"));
            return;
        }
        if let Some((_, name)) = RENAMED.iter().find(|(theirs, _)| *theirs == key) {
            self.add_renamed(&written, name, node);
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
        // Record the name even if the file uses our key: in a deployment, the key is below
        // `settings`.
        self.report.record_name(&key, &written);
        self.ours.push(MapEntry { key, node });
    }

    /// Returns the keys. A file may use Azure's name or ours for a setting, but not both.
    pub(super) fn into_keys(self) -> Vec<MapEntry> {
        let Self { mut ours, report, .. } = self;
        let mut seen = HashSet::new();
        ours.retain(|entry| {
            let is_new = seen.insert(entry.key.clone());
            if !is_new {
                let message = "also given by Azure's name for it; remove one of them";
                report.error(&entry.node.origin, &entry.key, message);
            }
            is_new
        });
        ours
    }
}

/// Converts a list of keys from JSON text, the form in which a pipeline's input passes a list
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
                "found {node}; expected a list of texts, or the list as JSON text, as in \
                 '[\"store\", \"brand\"]'"
            );
            report.error(&node.origin, "partition_keys", message);
            // The error is in the report already; keeping the text would add a second one.
            YamlNode { origin: node.origin.clone(), value: YamlValue::List(Vec::new()) }
        }
    }
}
