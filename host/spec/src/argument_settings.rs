//! Changes the job file's tree before other modules read it: gives our names to keys that have another name,
//! and turns options among the arguments into keys. ParallelRunStep has both such names and such options
//! (docs/parallel-run-step.md, Driver options).

use super::dialect::JobFileDialect;
use super::error::{ErrorReport, SettingOrigin};
use super::keys::{self, PrsNames};
use super::tree::{MapEntry, YamlNode, YamlValue};

/// The options of ParallelRunStep's driver, the program that runs a job (rules A1 to A9 and C26 in
/// docs/parallel-run-step.md). Each option is also a key.
fn driver_options() -> impl Iterator<Item = &'static str> {
    keys::JOB.iter().filter(|key| matches!(key.prs, PrsNames::Option)).map(|key| key.name)
}

/// Settings that files of version 2 may also give as options (A10).
pub(super) const THRESHOLDS: [&str; 3] =
    ["error_threshold", "allowed_failed_count", "allowed_failed_percent"];

/// The number of workers, which files of version 2 may also give as an option. The option overrides the key,
/// because ParallelRunStep's driver gets the key's value first and then this argument.
pub(super) const WORKER_COUNT: &str = "process_count_per_node";

/// Replaces other names of keys by our names, with a notice.
pub(super) fn rename_aliases(root: &mut YamlNode, report: &ErrorReport) {
    let YamlValue::Map(entries) = &mut root.value else { return };
    for (alias, name) in keys::ALIASES {
        let Some(index) = entries.iter().position(|entry| entry.key == *alias) else { continue };
        if entries.iter().any(|entry| entry.key == *name) {
            let message =
                format!("is another name for {name}, which is also given; remove one of them");
            report.error(&entries[index].node.origin, alias, message);
            entries.remove(index);
        } else {
            report.conversion(format!("{alias} is read as {name}"));
            (*name).clone_into(&mut entries[index].key);
        }
    }
}

/// Turns options among the arguments into keys. The entry script still gets them as arguments.
pub(super) fn lift_options(root: &mut YamlNode, dialect: JobFileDialect, report: &ErrorReport) {
    let YamlValue::Map(entries) = &mut root.value else { return };
    let Some(arguments) = entries.iter().find(|entry| entry.key == "arguments") else { return };
    let YamlValue::List(items) = &arguments.node.value else { return };
    let mut lifted: Vec<MapEntry> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some((name, written, value)) = find_option(item, items.get(index + 1), dialect) else {
            continue;
        };
        let key = format!("arguments[{index}]");
        let Some(value) = value else {
            let message = format!("--{written} has no value; write one after it");
            report.error(&item.origin, &key, message);
            continue;
        };
        if name != written {
            report.conversion(format!("arguments: --{written} is read as --{name}"));
        }
        if lifted.iter().any(|entry| entry.key == name) {
            let message = format!("--{name} is given twice; remove one of them");
            report.error(&item.origin, &key, message);
        } else if name == WORKER_COUNT && is_overridden(entries, name) {
            report.conversion(format!(
                "{}: --{name} {value} is overridden by the command line",
                report.name_in_file("arguments")
            ));
        } else if name != WORKER_COUNT && entries.iter().any(|entry| entry.key == name) {
            let message = format!(
                "given twice: --{name} here, and the key {} in the job file; remove one of them",
                report.name_in_file(name)
            );
            report.error(&item.origin, &key, message);
        } else {
            report.conversion(format!(
                "{}: --{name} sets {name} to {value}; the entry script gets it too",
                report.name_in_file("arguments")
            ));
            let value = YamlValue::Scalar { text: value.to_owned(), is_text: true };
            let node = YamlNode { origin: item.origin.clone(), value };
            lifted.push(MapEntry { key: name.to_owned(), node });
        }
    }
    entries.retain(|entry| lifted.iter().all(|lifted| lifted.key != entry.key));
    entries.extend(lifted);
}

/// Whether the command line sets a key.
fn is_overridden(entries: &[MapEntry], key: &str) -> bool {
    let set = entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.origin);
    matches!(set, Some(SettingOrigin::Set(_)))
}

/// Returns the setting that an argument sets, its spelling in the argument, and its value, if the argument
/// has one.
fn find_option<'n>(
    item: &'n YamlNode,
    next: Option<&'n YamlNode>,
    dialect: JobFileDialect,
) -> Option<(&'static str, &'n str, Option<&'n str>)> {
    let text = scalar(item)?.strip_prefix("--")?;
    let (written, value) = match text.split_once('=') {
        Some((written, value)) => (written, Some(value)),
        None => (text, next.and_then(scalar).filter(|value| !value.starts_with("--"))),
    };
    let version_2_options =
        THRESHOLDS.into_iter().chain([WORKER_COUNT]).filter(|_| dialect.is_version_2());
    let exact = driver_options().chain(version_2_options).find(|name| *name == written);
    let name = exact.or_else(|| driver_options().find(|name| is_abbreviation(written, name)))?;
    Some((name, written, value))
}

/// Whether `text` is `name`, or an abbreviation that ends within the last word of `name`. A shorter
/// text is more likely an option of the entry script.
fn is_abbreviation(text: &str, name: &str) -> bool {
    let last_word = name.rfind('_').map_or(0, |index| index + 1);
    text.len() > last_word && name.starts_with(text)
}

fn scalar(node: &YamlNode) -> Option<&str> {
    match &node.value {
        YamlValue::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A4: options may be abbreviated within their last word. Every abbreviation has only one
    /// meaning.
    #[test]
    fn abbreviations_are_unambiguous() {
        for text in ["resource_monitor_interva", "copy_logs_to_p", "profiling_modul"] {
            assert_eq!(
                driver_options().filter(|name| is_abbreviation(text, name)).count(),
                1,
                "{text}"
            );
        }
        for text in ["resource_monitor_", "task", "profiling", "profile", "copy_logs_to_parents"] {
            assert!(!driver_options().any(|name| is_abbreviation(text, name)), "{text}");
        }
        assert_eq!(driver_options().count(), 10);
        for name in THRESHOLDS {
            assert!(keys::JOB.iter().any(|key| key.name == name), "{name} is a key");
        }
    }
}
