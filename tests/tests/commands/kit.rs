//! Runs the conformance kit (`sandmill check --kit`) on its script in each language, and on scripts that it
//! must refuse.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{TestJob, assert_kit_as_documented, guest, kit_results, root};
use std::fs;
use std::path::Path;

fn results(script: &Path, code: i32) -> Vec<(String, String, String)> {
    kit_results(TestJob::with_compilers(), script, &[], code)
}

#[track_caller]
fn assert_as_documented(language: &str, script: &Path) {
    assert_kit_as_documented(language, &results(script, 0));
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

/// A copy of `tests/kit/c`. The build writes into the script's folder.
fn c_folder() -> std::path::PathBuf {
    let folder = root().join("target/guests/kit-c");
    fs::create_dir_all(&folder).unwrap();
    for name in ["kit.c", "compile_flags.txt"] {
        fs::copy(root().join("tests/kit/c").join(name), folder.join(name)).unwrap();
    }
    folder
}

/// Each fault fails its own check and no unrelated check.
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
    let found = results(&job.path("kit.py"), 42);
    let mut failed: Vec<&str> = found
        .iter()
        .filter(|(_, result, _)| result == "failed")
        .map(|(name, ..)| &**name)
        .collect();
    let mut expected: Vec<&str> = faults.iter().map(|(.., check)| *check).collect();
    // The fault of `read` skips a file's first byte, so the check of an empty file passes. The
    // fault of `table` also fails the other checks of tables, because the script returns a row
    // instead of a table.
    expected.extend(["table-empty", "table-integers", "table-wide"]);
    failed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(failed, expected, "{found:#?}");
}

#[test]
fn other_components_are_checked_without_being_run() {
    let found = results(&guest("echo_files"), 0);
    let (imports_and_exports, rest) = found.split_at(2);
    assert!(imports_and_exports.iter().all(|(_, result, _)| result == "passed"), "{found:?}");
    let is_skipped = |(_, result, words): &(String, String, String)| {
        result == "skipped" && words == "needs the kit's script"
    };
    assert!(rest.len() > 20 && rest.iter().all(is_skipped), "{found:?}");
    let refused = results(&guest("unknown_import"), 42);
    assert_eq!(refused[0].1, "failed", "{refused:?}");
    assert!(refused[2..].iter().all(|(_, result, _)| result == "skipped"), "{refused:?}");
}
