//! The Python side, in ordinary CPython: its own tests.

use sandmill_tests::root;
use std::process::Command;

/// The readers and writers of Arrow are held equal to pyarrow.
#[test]
fn the_tests_in_python_pass() {
    for test in ["test_arrow.py", "test_frames.py", "test_scan.py"] {
        let ran = Command::new(root().join("target/venv/bin/python"))
            .arg(root().join("python/tests").join(test))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("`make python-env` makes a Python");
        assert!(ran.status.success(), "{test}:\n{}", String::from_utf8_lossy(&ran.stderr));
    }
}
