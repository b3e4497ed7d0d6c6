//! The SDK, which is embedded in this program. `sandmill new` writes it next to the new entry script, so that
//! the script builds on any machine.

use crate::compile::WIT;
use std::fs;
use std::io;
use std::path::Path;

/// The SDK's folder, within the entry script's folder.
pub(super) const SDK_FOLDER: &str = "sandmill-guest";

/// The files of the SDK's folder: paths and texts.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// The line with which the last part of the SDK's manifest begins. Only this repository needs this part.
const REPOSITORY_PART: &str = "\n[dev-dependencies]";

/// Writes the SDK to a new folder.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    // `FILES` lacks the contract: in this repository, the SDK's folder `wit` is a link.
    let contract = WIT.iter().map(|(name, text)| (format!("wit/{name}"), *text));
    let files = FILES.iter().map(|(name, text)| ((*name).to_owned(), *text));
    for (name, text) in files.chain(contract) {
        let path = folder.join(&name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        let text = if name == "Cargo.toml" { manifest(text) } else { text };
        fs::write(path, text)?;
    }
    Ok(())
}

/// The manifest without the workspace, and without the settings for the SDK's own tests.
fn manifest(text: &str) -> &str {
    text.split_once(REPOSITORY_PART).map_or(text, |(kept, _)| kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_sdk_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let manifest = fs::read_to_string(dir.path().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("name = \"sandmill-guest\""), "{manifest}");
        for own in ["workspace", "dev-dependencies", "path ="] {
            assert!(!manifest.contains(own), "{manifest}");
        }
        for file in ["src/lib.rs", "src/columns.rs", "wit/entry.wit", "wit/deps/nn.wit"] {
            assert!(dir.path().join(file).is_file(), "{file}");
        }
    }
}
