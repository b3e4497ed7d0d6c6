//! Tests of the valid and invalid values of single settings.

use super::{LEAST, SpecFixture, describe, errors, job, job_with};
use crate::model::ErrorThreshold;
use std::time::Duration;

fn accepts(setting: &str) -> bool {
    match SpecFixture::new().load(format!("{LEAST}{setting}\n"), &[]) {
        Ok(_) => true,
        Err(errors) => {
            assert_eq!(errors.lines().count(), 1, "one error for one setting: {errors}");
            false
        }
    }
}

/// The ranges of settings: rules A1 to A4, C5, C6, C7, C9, C10, C11, C13, C15, C16, C17, C20, C24 and C25 in
/// docs/parallel-run-step.md.
#[test]
fn values_at_the_ends_of_their_ranges() {
    for (key, good, bad) in [
        (
            "error_threshold",
            vec!["-1", "0", "\"3\"", "9223372036854775807"],
            vec!["-2", "1.5", "x"],
        ),
        ("run_max_try", vec!["1", "4294967295"], vec!["0", "-1", "4294967296", "1e3", "true"]),
        (
            "run_invocation_timeout",
            vec!["0.1", "259200"],
            vec!["0", "-1", "259200.5", ".nan", ".inf", "1 min", "1e-30"],
        ),
        ("process_count_per_node", vec!["1", "1000"], vec!["0", "1001", "all"]),
        ("node_count", vec!["1"], vec!["0", "2", "1001"]),
        ("mini_batch_size", vec!["1", "\"10\""], vec!["0", "-1", "10KB", "1.5", "[1]", "10 rows"]),
        ("rank_mini_batch_count", vec!["-5", "0"], vec!["1.5", "4294967296"]),
        (
            "limits",
            vec!["{}", "{memory: 64 KB}", "{memory: 65536}", "{fuel: 1}", "{read: 1}"],
            vec!["{memory: 65535}", "{fuel: 0}", "{results: 0}", "{read: -1}", "5", "[]"],
        ),
        ("allowed_failed_count", vec!["-1", "0", "7"], vec!["-2", "1.5", "all"]),
        ("allowed_failed_percent", vec!["0", "12.5", "100"], vec!["-1", "100.1", "5%", "[]"]),
        ("strict_cardinality", vec!["true", "False"], vec!["yes", "1"]),
        ("task_overhead_timeout", vec!["0.5", "259200"], vec!["0", "259201", "x"]),
        ("progress_update_timeout", vec!["61", "259200"], vec!["0", "259201", "{}"]),
        ("first_task_creation_timeout", vec!["1", "259200"], vec!["0", "259201", "-5"]),
        (
            "resource_monitor_interval",
            vec!["0", "0.5", "2147483647"],
            vec!["-1", "2147483648", "off"],
        ),
        ("profiling_module", vec!["cProfile", "profile", "GUEST"], vec!["perf", "true"]),
        ("gpus", vec!["0", "8"], vec!["-1", "1001", "all"]),
        ("output_files", vec!["error", "Append", "overwrite"], vec!["keep"]),
        ("ordered", vec!["true"], vec!["input"]),
        ("allow_reuse", vec!["false"], vec!["no"]),
        ("pass_settings", vec!["true"], vec!["x"]),
        ("parent", vec!["jobs/up", "data"], vec!["script.wasm", "''"]),
        ("metrics_name_prefix", vec!["a_", "''"], vec!["[]"]),
        (
            "output_format",
            vec![
                "{type: CSV, delimiter: tab}",
                "{quoting: None, null_value: NA}",
                "{header: true}",
                "Csv",
            ],
            vec!["xml", "{type: xml}", "{delimiter: ab}", "{quoting: 1}", "{null: x}"],
        ),
        (
            "name",
            vec!["a", "0-_", "1", "abc", "a-2-c", &"n".repeat(32), &"n".repeat(64)],
            vec!["A", "-a", "_a", "a b", "\"\"", "{}", &"n".repeat(65)],
        ),
        ("tenant", vec!["a"], vec!["A", "a.b"]),
        ("logging_level", vec!["INFO", "warning"], vec!["ERROR", "1"]),
        ("output_action", vec!["APPEND_ROW"], vec!["append", "{}"]),
        (
            "entry_script_digest",
            vec![&"a".repeat(64)],
            vec![&"a".repeat(63), &"g".repeat(64), &"sha512:a"],
        ),
        (
            "arguments",
            vec!["[]", "[-x]", "[-1]"],
            vec!["[x]", "x", "[1]", "[--output, x]", "[--run_max_try=3]"],
        ),
        ("environment_variables", vec!["{}", "{A: ''}", "{1: 2}"], vec!["[]", "{A: }", "{A=: 1}"]),
    ] {
        for value in good {
            assert!(accepts(&format!("{key}: {value}")), "{key}: {value} is good");
        }
        for value in bad {
            assert!(!accepts(&format!("{key}: {value}")), "{key}: {value} is bad");
        }
    }
}

/// C11: a text and a number outside of the range have different messages.
#[test]
fn percentages_have_two_messages() {
    let error = |value: &str| errors(&format!("{LEAST}allowed_failed_percent: {value}\n"));
    insta::assert_snapshot!(error("some"), @r#"job.yaml:3: allowed_failed_percent: "some" is not a number: write a number from 0 to 100"#);
    insta::assert_snapshot!(error("101"), @"job.yaml:3: allowed_failed_percent: 101 is outside 0 to 100");
    insta::assert_snapshot!(error("[5]"), @"job.yaml:3: allowed_failed_percent: found a list; expected a number from 0 to 100");
}

/// C9: the message of a wrong threshold.
#[test]
fn errors_of_thresholds_list_the_values() {
    insta::assert_snapshot!(errors(&format!("{LEAST}error_threshold: few\nallowed_failed_count: -7\n")), @r#"
    job.yaml:3: error_threshold: found "few"; expected a whole number of items from 0 up, or -1 to ignore all failures
    job.yaml:4: allowed_failed_count: found -7; expected a whole number of mini-batches from 0 up, or -1 to ignore all failures
    "#);
}

/// C10, C25: names of version 2 with the same meaning are accepted, with a line for the user.
#[test]
fn other_names_are_accepted() {
    let spec = job(&format!("{LEAST}mini_batch_error_threshold: 3\nis_deterministic: false\n"));
    assert_eq!(spec.settings.allowed_failed_count, ErrorThreshold::AtMost(3));
    assert!(!spec.settings.allow_reuse);
    insta::assert_snapshot!(describe(&spec), @"
    mini_batch_error_threshold is read as allowed_failed_count
    is_deterministic is read as allow_reuse
    ");
    insta::assert_snapshot!(errors(&format!("{LEAST}allow_reuse: true\nis_deterministic: false\n")), @"job.yaml:4: is_deterministic: is another name for allow_reuse, which is also given; remove one of them");
}

/// A2, 1.12: the progress time-out is computed from other settings, unless it is given.
#[test]
fn the_progress_time_out_is_computed() {
    let seconds = |set: &[(&str, &str)]| job_with(LEAST, set).progress_update_timeout.as_secs();
    assert_eq!(seconds(&[]), 3 * (600 + 60) + 60);
    assert_eq!(seconds(&[("run_max_try", "1"), ("task_overhead_timeout", "10")]), 600);
    assert_eq!(seconds(&[("run_invocation_timeout", "1000")]), 3 * 1600 + 60);
    assert_eq!(seconds(&[("progress_update_timeout", "70")]), 70);
    let short = job_with(LEAST, &[("progress_update_timeout", "30")]);
    insta::assert_snapshot!(short.notices.join("\n"), @"progress_update_timeout (30 seconds) is below run_invocation_timeout (60 seconds): one slow call of run can end the job");
}

/// A4: 0 turns the monitor off.
#[test]
fn the_monitor_can_be_off() {
    let interval = |value| {
        job_with(LEAST, &[("resource_monitor_interval", value)]).settings.resource_monitor_interval
    };
    assert_eq!(interval("0"), None);
    assert_eq!(interval("0.25"), Some(Duration::from_millis(250)));
}

/// A6, A8: logs and metrics go to a parent only if one is named.
#[test]
fn parents_are_named() {
    insta::assert_snapshot!(errors(&format!("{LEAST}copy_logs_to_parent: true\npush_metrics_to_parent: true\n")), @"
    job.yaml:3: copy_logs_to_parent: needs the folder of the parent job: set parent to the folder's path, or remove this setting
    job.yaml:4: push_metrics_to_parent: needs the folder of the parent job: set parent to the folder's path, or remove this setting
    ");
    assert_eq!(job(&format!("{LEAST}copy_logs_to_parent: false\n")).parent, None);
    let idle = SpecFixture::new().load(format!("{LEAST}parent: up\n"), &[]).expect("a job");
    assert_eq!(idle.parent, None);
    insta::assert_snapshot!(idle.notices.join("\n"), @"parent has no effect: neither copy_logs_to_parent nor push_metrics_to_parent is true");
    let text = format!("{LEAST}parent: up\npush_metrics_to_parent: true\n");
    let parent = SpecFixture::new().load(text, &[]).expect("a job").parent.expect("a parent");
    assert!(parent.folder.is_absolute() && parent.folder.ends_with("up"));
    assert!(parent.push_metrics && !parent.copy_logs);
}
