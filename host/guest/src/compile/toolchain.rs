//! Finds a Rust toolchain on this machine that can build guest crates, and its command line.

use super::CompileError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A toolchain for guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Toolchain {
    /// A rustc with the target `wasm32-wasip2`, whose linker writes components.
    Rustup,
    /// The distribution's rustc, with the standard library's source and wasi-libc. It builds core modules.
    Distribution {
        /// The linker for WebAssembly.
        linker: PathBuf,
    },
}

const WASI_LIBC: &str = "/usr/lib/wasm32-wasi";
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

impl Toolchain {
    /// Finds a toolchain for a crate in `folder` (which may configure its own rustc).
    pub(super) fn find(folder: &Path) -> Result<Self, CompileError> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let sysroot =
            printed_path(Command::new(rustc).current_dir(folder).args(["--print", "sysroot"]));
        if sysroot.as_ref().is_some_and(|root| root.join("lib/rustlib/wasm32-wasip2").is_dir()) {
            return Ok(Self::Rustup);
        }
        Self::distribution(sysroot.as_deref()).ok_or_else(|| {
            CompileError::new(
                "no Rust toolchain here can build an entry script for WebAssembly. With rustup: \
                 `rustup target add wasm32-wasip2`. On Debian and Ubuntu without rustup's \
                 servers: `apt-get install rustc-web rust-web-src wasi-libc lld`",
            )
        })
    }

    fn distribution(sysroot: Option<&Path>) -> Option<Self> {
        let system = printed_path(Command::new(SYSTEM_RUSTC).args(["--print", "sysroot"]))?;
        let source = system.join("lib/rustlib/src/rust/library/std");
        if !source.is_dir() || !Path::new(WASI_LIBC).join("crt1-reactor.o").is_file() {
            return None;
        }
        Some(Self::Distribution { linker: linker(sysroot)? })
    }

    pub(super) fn target(&self) -> &'static str {
        match self {
            Self::Rustup => "wasm32-wasip2",
            Self::Distribution { .. } => "wasm32-wasip1",
        }
    }

    /// `cargo build` for this toolchain, in `folder`.
    pub(super) fn cargo_build(&self, folder: &Path) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .current_dir(folder)
            .args(["build", "--release", "--target", self.target()])
            // These variables are for the machine's own programs, and would override the flags below.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        match self {
            Self::Rustup => {
                command
                    .arg("--config")
                    .arg(r#"target.wasm32-wasip2.rustflags=["-C", "target-feature=+simd128"]"#);
            }
            Self::Distribution { linker } => {
                let flags = format!(
                    r#"target.wasm32-wasip1.rustflags=["-L", "native={WASI_LIBC}", "-C", "link-self-contained=no", "-C", "link-arg={WASI_LIBC}/crt1-reactor.o", "-C", "target-feature=+simd128"]"#
                );
                let linker =
                    format!("target.wasm32-wasip1.linker={:?}", linker.display().to_string());
                command
                    .env("RUSTC", SYSTEM_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1")
                    .args(["-Z", "build-std=std,panic_abort", "--config", &flags])
                    .args(["--config", &linker]);
            }
        }
        command
    }
}

/// Describes how this machine builds guest crates: cargo's version, and the target.
///
/// # Errors
/// If cargo cannot be run, or no toolchain here builds for WebAssembly. The text says what to install.
pub fn describe_toolchain() -> Result<String, CompileError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = printed_path(Command::new(cargo).arg("--version")).ok_or_else(|| {
        CompileError::new("cargo is not found in PATH: install Rust (https://rustup.rs)")
    })?;
    let toolchain = Toolchain::find(Path::new("."))?;
    let version = version.display().to_string();
    let version = version.split_once(" (").map_or(&*version, |(version, _)| version);
    Ok(format!("{version}, for {}", toolchain.target()))
}

fn linker(sysroot: Option<&Path>) -> Option<PathBuf> {
    let mut candidates = vec![PathBuf::from("/usr/bin/rust-lld")];
    if let Some(hosts) = sysroot.map(|root| root.join("lib/rustlib"))
        && let Ok(hosts) = std::fs::read_dir(hosts)
    {
        candidates.extend(hosts.flatten().map(|host| host.path().join("bin/rust-lld")));
    }
    candidates.into_iter().find(|path| path.is_file()).or_else(|| in_path("wasm-ld"))
}

/// The first file with this name in the folders of `PATH`. Relative folders are skipped.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&paths).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The line that a command prints, as a path; `None` if the command fails.
fn printed_path(command: &mut Command) -> Option<PathBuf> {
    let output = command.output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !line.trim().is_empty()).then(|| PathBuf::from(line.trim()))
}
