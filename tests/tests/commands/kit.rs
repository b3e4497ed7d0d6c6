//! Runs the conformance kit (`sandmill check --kit`) on its script in each language, and on scripts that it
//! must refuse.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{TestJob, guest, root};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The results of `check --kit`: for each check, its name, its result and its message.
fn kit_results(script: &Path, code: i32) -> Vec<(String, String, String)> {
    let ran =
        TestJob::with_compilers().command(&["check", "--kit", script.to_str().unwrap(), "--json"]);
    ran.exits_with(code);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    checks
        .map(|check| (text(&check["name"]), text(&check["result"]), text(&check["words"])))
        .collect()
}

/// The column of a language in the table of tests/kit/README.md: the checks with their results.
fn documented(language: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("tests/kit/README.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| check |"));
    let head = cells(lines.next().expect("the table of checks"));
    let column = head.iter().position(|cell| cell == language).expect("the language's column");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|row| (row[0].trim_matches('`').to_owned(), row[column].clone())).collect()
}

#[track_caller]
fn assert_as_documented(language: &str, script: &Path) {
    let found = kit_results(script, 0);
    let expected = documented(language);
    let results: Vec<_> =
        found.iter().map(|(name, result, _)| (name.clone(), result.clone())).collect();
    assert!(results == expected, "the column of {language} should be\n{results:#?}\n{found:#?}");
}

#[test]
fn the_script_in_rust() {
    assert_as_documented("Rust", &guest("kit"));
}

#[test]
fn the_script_in_c() {
    assert_as_documented("C", &c_folder());
}

#[test]
fn the_script_in_python() {
    assert_as_documented("Python", &root().join("tests/kit/python/kit.py"));
}

#[test]
fn the_script_in_javascript() {
    assert_as_documented("JavaScript", &root().join("tests/kit/javascript/kit.js"));
}

/// A copy of the folder, because the build writes into it.
fn c_folder() -> std::path::PathBuf {
    let folder = root().join("target/guests/kit-c");
    fs::create_dir_all(&folder).unwrap();
    for name in ["kit.c", "compile_flags.txt"] {
        fs::copy(root().join("tests/kit/c").join(name), folder.join(name)).unwrap();
    }
    folder
}

/// Each fault fails its own check and no other check.
#[test]
fn faults_are_found() {
    let faults = [
        ("[str(context.mini_batch_id)", "[str(float(context.mini_batch_id))", "context"),
        ("return [length_and_sum(read(path))]", "return [length_and_sum(read(path)[1:])]", "read"),
        ("file.write(\"shutdown\")", "file.write(\"bye\")", "shutdown"),
        ("random.getrandbits(128)", "7", "random"),
        ("raise RuntimeError(sys.argv[2])", "pass", "init-error"),
        ("Failed(part[1:])", "Failed(\"no\")", "outcomes"),
        ("    return batch\n", "    return [\"no table\"]\n", "table"),
        ("str(int(time.time()))", "str(int(time.time()) - 3600)", "clock"),
        ("lambda: sys.stderr", "lambda: sys.stdout", "complain"),
    ];
    let mut script = fs::read_to_string(root().join("tests/kit/python/kit.py")).unwrap();
    for (right, wrong, check) in faults {
        assert!(script.contains(right), "the script has no place for the fault of {check}");
        script = script.replacen(right, wrong, 1);
    }
    let job = TestJob::empty().file("kit.py", script);
    let found = kit_results(&job.path("kit.py"), 42);
    let mut failed: Vec<&str> = found
        .iter()
        .filter(|(_, result, _)| result == "failed")
        .map(|(name, ..)| &**name)
        .collect();
    let mut expected: Vec<&str> = faults.iter().map(|(.., check)| *check).collect();
    // The fault of `read` skips a file's first byte, so the check of an empty file passes. The other checks
    // of tables fail as well, because the script returns a row instead of a table.
    expected.extend(["table-empty", "table-wide"]);
    failed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(failed, expected, "{found:#?}");
}

#[test]
fn other_components_are_checked_without_being_run() {
    let found = kit_results(&guest("echo_files"), 0);
    let (imports_and_exports, rest) = found.split_at(2);
    assert!(imports_and_exports.iter().all(|(_, result, _)| result == "passed"), "{found:?}");
    let is_skipped = |(_, result, words): &(String, String, String)| {
        result == "skipped" && words == "needs the kit's script"
    };
    assert!(rest.len() > 20 && rest.iter().all(is_skipped), "{found:?}");
    let refused = kit_results(&guest("unknown_import"), 42);
    assert_eq!(refused[0].1, "failed", "{refused:?}");
    assert!(refused[2..].iter().all(|(_, result, _)| result == "skipped"), "{refused:?}");
}
