//! End-to-end tests that run the built binary, and the harness for them.
//!
//! A test writes a job into its own folder, runs `sandmill` on it as a user would, and checks the exit code,
//! the printed text and the output files:
//!
//! ```no_run
//! use sandmill_tests::{TestJob, guest};
//!
//! let ran = TestJob::new(&guest("echo_files"))
//!     .yaml("inputs: [{ name: texts, path: input }]")
//!     .file("input/a.txt", "two words")
//!     .run(&[]);
//! ran.exits_with(0);
//! assert_eq!(ran.output(), "a.txt: 9\n");
//! ```
//!
//! A failing test prints the command, the files in its folder, stdout and stderr. `make test` builds the
//! binary and the guests. If the binary or a guest is missing or out of date, the test fails with a message
//! that says so. The harness uses `sandmill` only as a user does, and imports nothing from it.
//!
//! A comment such as `Rule C27` at a test names a rule in `docs/parallel-run-step.md` that the test checks. A
//! number such as 1.10 is a section of that page.

#![expect(
    clippy::unwrap_used,
    reason = "if the harness cannot prepare a test, the test fails and shows the place"
)]

mod broker;
mod browser;
mod elsewhere;
mod guests;
mod healthy;
mod job;
mod job_server;
mod kit;
mod models;
#[cfg(target_os = "linux")]
mod network;
mod onnx;
mod proxy;
mod python;
mod ran;
mod random;
mod redact;
mod servers;
pub mod sources;
mod wat;

pub use broker::{Broker, Brokers};
pub use browser::{Browser, FORM_SECRET, Shown};
pub use elsewhere::{Elsewhere, SeenElsewhere};
pub use guests::{example, guest, guests, python_guest};
pub use healthy::{Fate, play, play_with};
pub use job::{Running, TestJob, texts};
pub use job_server::{Answer, JobServer};
pub use kit::{assert_kit_as_documented, kit_results};
pub use models::{computing, models_in};
#[cfg(target_os = "linux")]
pub use network::Network;
pub use onnx::{onnx_model, onnx_model_of};
pub use proxy::{Direction, Proxy};
pub use python::{onnxruntime, python};
pub use ran::Ran;
pub use random::Random;
pub use redact::{cut_denials, redact};
pub use servers::{Server, bytes_here};
pub use wat::{add_world, for_version_0_1, good_row, wat_guest, wat_module};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The root of the repository in which this crate was built. If the tests run from a pack, this is the
/// working folder instead.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| match packed() {
        Some(_) => std::env::current_dir().unwrap(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(),
    })
}

/// The pack: a folder with the built tests, programs and guests, which `scripts/gpu.sh pack` makes for a
/// machine that cannot build them. `None` if the tests do not run from a pack.
pub(crate) fn packed() -> Option<PathBuf> {
    std::env::var_os("SANDMILL_PACKED").map(PathBuf::from)
}

/// The `sandmill` binary. Panics if the binary is missing or older than its sources: cargo does not build it
/// together with these tests, because it belongs to another package.
pub fn sandmill() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match packed() {
        Some(folder) => folder.join("sandmill"),
        None => binary("sandmill"),
    })
}

/// The binary of the workspace with this name. Panics if it is missing or older than its sources.
pub fn binary(name: &str) -> PathBuf {
    up_to_date(name, "cargo build --workspace --all-targets")
}

/// The binary of `tests/without`: Sandmill without optional features. Panics if it is missing or older than
/// its sources.
pub fn sandmill_without() -> PathBuf {
    up_to_date("sandmill-without", "make without")
}

/// A binary that `make test` builds. Panics if it is missing or older than its sources. To run only
/// single tests, it is enough to build the binary with `command`.
fn up_to_date(name: &str, command: &str) -> PathBuf {
    // A test binary is in target/debug/deps; the programs are one folder up.
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().with_file_name(name);
    let Some(built) = modified(&binary) else {
        panic!("{} is missing; `make test` builds it", binary.display());
    };
    // Next to each binary, cargo writes a file that lists the binary's sources.
    let dependencies = fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let sources = dependencies.split_once(": ").map_or("", |(_, sources)| sources);
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
