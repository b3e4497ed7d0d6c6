//! Python entry scripts in the science runtime. `make python-science` installs it. Without it, these tests
//! are skipped. If `SANDMILL_SCIENCE=required` is set, they fail instead.

mod equal;
mod kit;
mod rules;
mod wrong_scripts;

use sandmill::runtimes::{Runtime, find};
use sandmill_tests::{TestJob, python, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The cache with both runtimes.
fn cache() -> PathBuf {
    root().join("target/science-cache")
}

/// Whether the science runtime of this version is installed. If it is not, prints a message.
fn is_installed() -> bool {
    let Err(error) = find(Runtime::Science, Path::new("sandmill"), Some(&cache())) else {
        return true;
    };
    let is_required = std::env::var_os("SANDMILL_SCIENCE").is_some_and(|value| value == "required");
    assert!(!is_required, "{error}");
    println!("skipped: the science runtime is not installed; `make python-science` installs it");
    false
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A job for one worker over the files in the folder `in`. The script can also read the files in `source`.
fn files(script: &str) -> TestJob {
    TestJob::new(Path::new("score.py"))
        .yaml("source_directory: source\ninputs: {items: in}\nmini_batch_size: 2\nprocess_count_per_node: 1")
        .file("source/score.py", script)
        .env("SANDMILL_CACHE_DIR", &text(&cache()))
}

/// A job for two workers over `t.csv`, with 7 rows per mini-batch.
fn table(script: &str, csv: &str) -> TestJob {
    TestJob::new(Path::new("source/score.py"))
        .yaml("inputs: {t: {path: t.csv, format: csv}}\nmini_batch_size: 7 rows\nprocess_count_per_node: 2\nordered: true")
        .file("source/score.py", script)
        .file("t.csv", csv)
        .env("SANDMILL_CACHE_DIR", &text(&cache()))
}

/// Runs a job's script in ordinary CPython, and returns the output. `tests/src/native.py` describes `kind`,
/// `paths` and `size`.
fn native(folder: &Path, kind: &str, paths: &[&str], size: Option<&str>) -> String {
    let ran = Command::new(python())
        .arg(root().join("tests/src/native.py"))
        .arg(folder.join("source/score.py"))
        .arg(kind)
        .args(paths.iter().map(|path| folder.join(path)))
        .args(size)
        .output()
        .expect("`make python-env` makes a Python");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("UTF-8")
}

/// Runs a Python program in the job's folder, to create files.
fn make(job: &TestJob, program: &str) {
    let ran = Command::new(python())
        .args(["-c", program])
        .current_dir(job.dir())
        .output()
        .expect("`make python-env` makes a Python");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
