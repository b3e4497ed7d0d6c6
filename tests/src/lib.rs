//! End-to-end tests that run the built binary, and the harness for them.
//!
//! A test writes a job into its own folder, runs `sandmill` on it as a user would, and checks the exit code,
//! the printed text and the output files:
//!
//! ```no_run
//! use sandmill_tests::{Job, guest};
//!
//! let ran = Job::new(&guest("counts"))
//!     .yaml("inputs: [{ name: texts, path: input }]")
//!     .file("input/a.txt", "two words")
//!     .run(&[]);
//! ran.exits_with(0);
//! assert_eq!(ran.output(), "a.txt 2\n");
//! ```
//!
//! A failing test prints the command, the files in its folder, stdout and stderr. `make test` builds the
//! binary and the guests; a test that finds them missing or out of date says so. This crate uses `sandmill`
//! only as a user does: it imports nothing from it.

#![expect(
    clippy::unwrap_used,
    reason = "a harness that cannot set a test up fails it, with the place"
)]

mod guests;
mod healthy;
mod job;
mod models;
mod onnx;
mod python;
mod ran;
mod redact;
mod servers;
pub mod sources;
mod wat;

pub use guests::{example, guest, guests, python_guest};
pub use healthy::{Fate, play, play_with};
pub use job::{Job, Running, texts};
pub use models::{computing, models_in};
pub use onnx::{onnx_model, onnx_model_of};
pub use python::{onnxruntime, python};
pub use ran::Ran;
pub use redact::{cut_denials, redact};
pub use servers::{Server, bytes_here};
pub use wat::{add_world, good_row, wat_guest, wat_module};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The repository's root: the one this crate was built in, or, with a pack, the working folder.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| match packed() {
        Some(_) => std::env::current_dir().unwrap(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(),
    })
}

/// The folder that `scripts/gpu.sh pack` made, for a machine that cannot build anything. `None` without a
/// pack.
pub(crate) fn packed() -> Option<PathBuf> {
    std::env::var_os("SANDMILL_PACKED").map(PathBuf::from)
}

/// The `sandmill` binary. It belongs to another package, so cargo does not build it for the tests of this
/// one. Panics if it is missing or older than its sources.
pub fn sandmill() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match packed() {
        Some(folder) => folder.join("sandmill"),
        None => binary("sandmill"),
    })
}

/// A binary of the workspace, by its name; panics if it is missing or older than its sources.
pub fn binary(name: &str) -> PathBuf {
    built(name, "cargo build --workspace --all-targets")
}

/// The program of `tests/without`, which has no features; panics if it is missing or older than its sources.
pub fn sandmill_without() -> PathBuf {
    built("sandmill-without", "make without")
}

/// A binary that `make test` builds. For single tests, `command` builds it.
fn built(name: &str, command: &str) -> PathBuf {
    // A test binary is in target/debug/deps; the programs are one folder up.
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().with_file_name(name);
    let Some(built) = modified(&binary) else {
        panic!("{} is not there; `make test` builds it", binary.display());
    };
    // Next to each binary, cargo writes a file that lists the binary's sources.
    let made_of = fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let sources = made_of.split_once(": ").map_or("", |(_, sources)| sources);
    for source in sources.split_whitespace() {
        assert!(
            modified(Path::new(source)).is_none_or(|changed| changed <= built),
            "{source} is newer than {}; run `make test`, or `{command}` before single tests",
            binary.display()
        );
    }
    binary
}

/// When a file last changed; `None` if it is missing.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// When a folder or anything below it last changed; `None` if it is missing.
fn newest(path: &Path) -> Option<SystemTime> {
    let mut newest = modified(path);
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() != "target" && entry.file_name() != "__pycache__" {
            newest = newest.max(crate::newest(&entry.path()));
        }
    }
    newest
}
