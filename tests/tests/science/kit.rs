//! Runs the conformance kit's script in Python in the science runtime.

use crate::{cache, is_installed, text};
use sandmill_tests::{TestJob, assert_kit_as_documented, kit_results, root};

#[test]
fn the_kit_has_the_documented_results() {
    if !is_installed() {
        return;
    }
    let job = TestJob::empty().env("SANDMILL_CACHE_DIR", &text(&cache()));
    let script = root().join("tests/kit/python/kit.py");
    assert_kit_as_documented(
        "Python, science",
        &kit_results(job, &script, &["--runtime", "science"], 0),
    );
}
