//! Code that several test guests share.

pub mod harm;

use sandmill_guest::{Context, Result};
use std::path::Path;

/// The last part of a path, as text.
pub fn name(path: &Path) -> Result<String> {
    Ok(path.file_name().context("a path without a name")?.to_string_lossy().into_owned())
}

/// The size of each file, as a row `NAME: BYTES`. `read` reads a file.
pub fn sizes<E: Into<sandmill_guest::Error>>(
    files: &[std::path::PathBuf],
    read: impl Fn(&Path) -> Result<Vec<u8>, E>,
) -> Result<sandmill_guest::Results> {
    let mut rows = Vec::with_capacity(files.len());
    for file in files {
        let bytes = read(file).map_err(Into::into)?;
        rows.push(format!("{}: {}", name(file)?, bytes.len()));
    }
    Ok(rows.into())
}

/// Creates a symbolic link.
#[cfg(target_os = "wasi")]
pub fn symlink(target: &str, link: &Path) -> std::io::Result<()> {
    // The standard library has no stable function for symbolic links on WASI, so call the C function.
    unsafe extern "C" {
        fn symlink(target: *const std::ffi::c_char, link: *const std::ffi::c_char) -> i32;
    }
    let c = |text: &str| std::ffi::CString::new(text).map_err(std::io::Error::other);
    let target = c(target)?;
    let link = c(&link.to_string_lossy())?;
    // SAFETY: both are texts that end with a zero byte and live until the call returns.
    match unsafe { symlink(target.as_ptr(), link.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Always fails: native builds of these guests are never run.
#[cfg(not(target_os = "wasi"))]
pub fn symlink(_target: &str, _link: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
