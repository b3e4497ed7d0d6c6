//! Runs the tests of the Python code, in ordinary CPython.

use sandmill_tests::{root, sandmill};
use std::process::Command;

/// The tests in Python compare Sandmill's Arrow reader and writer with pyarrow, and check how a script's
/// imports are found.
#[test]
fn the_tests_in_python_pass() {
    run_python_tests(&["test_arrow.py", "test_frames.py", "test_scan.py"]);
}

/// Tests the package that users install into their own Python, with the built program. `make python-light`
/// installs the runtime.
#[test]
fn the_package_drives_the_program() {
    run_python_tests(&["test_package.py"]);
}

#[test]
fn jobs_of_azure_are_built_in_python() {
    run_python_tests(&["test_parallel_run.py"]);
}

fn run_python_tests(tests: &[&str]) {
    for test in tests {
        let ran = Command::new(root().join("target/venv/bin/python"))
            .arg(root().join("python/tests").join(test))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SANDMILL_BIN", sandmill())
            .env("SANDMILL_CACHE_DIR", root().join("target/test-cache"))
            .output()
            .expect("`make python-env` makes a Python");
        assert!(ran.status.success(), "{test}:\n{}", String::from_utf8_lossy(&ran.stderr));
    }
}
