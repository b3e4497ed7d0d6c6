//! End-to-end tests through the built binary, and the harness that they stand on.
//!
//! A test writes a job into a folder of its own, runs `sandmill` on it as a user would, and looks at
//! the exit code, what was printed and which files came out:
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
//! A failing test prints the command, the files that lie there, stdout and stderr. The binary and the
//! guests are those that `make test` builds; a test that finds them missing or out of date says so.
//! This crate knows `sandmill` as its users do: it imports nothing from it.

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

/// The repository's root: where it was when this was built, or, for what was packed, the working folder.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| match packed() {
        Some(_) => std::env::current_dir().unwrap(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(),
    })
}

/// The folder of what `scripts/gpu.sh pack` has made, for a machine that cannot build anything.
pub(crate) fn packed() -> Option<PathBuf> {
    std::env::var_os("SANDMILL_PACKED").map(PathBuf::from)
}

/// The `sandmill` binary. It belongs to another package, so that cargo does not build it for this
/// one's tests; panics if it is missing or older than its sources.
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

/// The program without its features, of `tests/without`; panics if it is missing or older than its sources.
pub fn sandmill_without() -> PathBuf {
    built("sandmill-without", "make without")
}

/// A binary that `make test` builds, and `command` for single tests.
fn built(name: &str, command: &str) -> PathBuf {
    // A test lies in target/debug/deps, a documentation test elsewhere.
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().with_file_name(name);
    let Some(built) = modified(&binary) else {
        panic!("{} is not there; `make test` builds it", binary.display());
    };
    // Cargo lists what the binary was made of in a file beside it.
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

/// When a file last changed; none if it is not there.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// When anything below a file or folder last changed; none if there is nothing.
fn newest(path: &Path) -> Option<SystemTime> {
    let mut newest = modified(path);
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() != "target" && entry.file_name() != "__pycache__" {
            newest = newest.max(crate::newest(&entry.path()));
        }
    }
    newest
}
