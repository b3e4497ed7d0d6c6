//! How the program is linked, and which files of the SDK it carries.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Links the program with packed relocations, unless `SANDMILL_PORTABLE` is set.
///
/// Each worker is a separate process, and a fifth of the processor time of its start went into 62,000
/// relocations. In the packed form, they take few bytes. The C library supports this form since version 2.36;
/// with `SANDMILL_PORTABLE`, the program also runs with older versions. A linker that does not know the
/// option ignores it.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    name_commit();
    carry_sdk();
    println!("cargo::rerun-if-env-changed=SANDMILL_PORTABLE");
    let is_portable = env::var_os("SANDMILL_PORTABLE").is_some();
    let is_for_here = !is_portable && env::var("HOST") == env::var("TARGET");
    if is_for_here && knows_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Passes the commit to release builds. With it, a development build would be repeated for each commit.
fn name_commit() {
    println!("cargo::rerun-if-env-changed=SANDMILL_COMMIT");
    if let Ok(commit) = env::var("SANDMILL_COMMIT") {
        println!("cargo::rustc-env=SANDMILL_BUILT_FROM={commit}");
        return;
    }
    if env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    // A folder without git has no commit.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]) {
        println!("cargo::rustc-env=SANDMILL_BUILT_FROM={commit}");
    }
}

/// Writes a list of the SDK's files, for `sandmill new`. The contract is not in it.
fn carry_sdk() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let mut files = Vec::new();
    for (folder, place) in [("guest-sdk/Cargo.toml", "Cargo.toml"), ("guest-sdk/src", "src")] {
        gather(&root.join(folder), place, &mut files);
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (place, path) in files {
        let _ = writeln!(list, "({place:?}, include_str!({:?})),", path.display().to_string());
    }
    list.push(']');
    let target = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("sdk.rs");
    fs::write(target, list).expect("cargo has made the folder");
}

fn gather(path: &Path, place: &str, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(path) else {
        let path = path.canonicalize().expect("the SDK is beside this crate");
        files.push((place.to_owned(), path));
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        gather(&entry.path(), &format!("{place}/{name}"), files);
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn knows_packed_relocations() -> bool {
    let version = libc_version().unwrap_or_default();
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    numbers.is_ok_and(|numbers| numbers >= vec![2, 36])
}

#[cfg(target_env = "gnu")]
fn libc_version() -> Option<&'static str> {
    unsafe extern "C" {
        fn gnu_get_libc_version() -> *const std::ffi::c_char;
    }
    // SAFETY: the function takes no arguments, and returns a static string.
    unsafe { std::ffi::CStr::from_ptr(gnu_get_libc_version()) }.to_str().ok()
}

#[cfg(not(target_env = "gnu"))]
fn libc_version() -> Option<&'static str> {
    None
}
