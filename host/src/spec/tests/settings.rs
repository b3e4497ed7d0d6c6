//! Single settings: what they take and what not.

use super::{Fixture, LEAST};

fn accepts(setting: &str) -> bool {
    match Fixture::new().load(format!("{LEAST}{setting}\n"), &[]) {
        Ok(_) => true,
        Err(errors) => {
            assert_eq!(errors.lines().count(), 1, "one error for one setting: {errors}");
            false
        }
    }
}

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
        ("node_count", vec!["1"], vec!["0", "2"]),
        ("mini_batch_size", vec!["1", "\"10\""], vec!["0", "-1", "10KB", "1.5", "[1]"]),
        ("rank_mini_batch_count", vec!["-5", "0"], vec!["1.5", "4294967296"]),
        (
            "limits",
            vec!["{}", "{memory: 64 KB}", "{memory: 65536}", "{fuel: 1}", "{read: 1}"],
            vec!["{memory: 65535}", "{fuel: 0}", "{results: 0}", "{read: -1}", "5", "[]"],
        ),
        ("name", vec!["a", "0-_", "1"], vec!["A", "-a", "_a", "a b", "\"\"", "{}"]),
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

/// Options that only look like the reserved ones are the entry script's own.
#[test]
fn driver_options_are_passed_on_with_a_notice() {
    let text = format!("{LEAST}arguments: [--outputs, x, --profiling_module=cProfile, output]\n");
    let spec = Fixture::new().load(text, &[]).expect("a job");
    assert_eq!(spec.arguments.len(), 4);
    insta::assert_snapshot!(spec.notices.join("\n"), @"arguments: --profiling_module is passed to the entry script and means nothing to Sandmill yet");
}
