//! Remembers the digest of a runtime's component, because hashing 120 MB takes longer than starting the
//! interpreter.
//!
//! The digest is stored in the folder of installed runtimes, which only the folder's owner can use.
//! The digest is valid as long as the component's stamp is the same: the device, inode, length,
//! modification time and change time of its file. An installation renames the finished component to
//! its name, so a new component has a new inode. The stamp does not show a change through a shared
//! memory map that stays open; only the owner could make such a change.

use crate::compile::hash_until;
use crate::model::hex;
use sha2::{Digest, Sha256};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The digest of a component that changed more recently is not stored. The next change may get the
/// same times, because a file system's clock is coarse.
const MIN_AGE: Duration = Duration::from_secs(2);

/// The file with the known digest of one component.
pub(super) struct KnownDigest(PathBuf);

impl KnownDigest {
    /// The known digest of the component with this name. `runtimes` is the folder of installed runtimes.
    pub(super) fn for_component(component: &str, mut runtimes: PathBuf) -> Self {
        runtimes.push(format!("{component}.digest"));
        Self(runtimes)
    }

    /// The SHA-256 of the open component, in hex. Reads the component if its digest is not known, and
    /// remembers the digest. Calls `stop` while it reads.
    ///
    /// # Errors
    /// If the component cannot be read, or `stop` returns true.
    pub(super) fn digest(
        &self,
        component: &mut File,
        metadata: &Metadata,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.digest_at(now, component, metadata, stop)
    }

    /// [`KnownDigest::digest`] at the time `now`, counted from 1970.
    fn digest_at(
        &self,
        now: Duration,
        component: &mut File,
        metadata: &Metadata,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<String> {
        let stamp = stamp(metadata);
        if let Some(known) = self.read(&stamp) {
            return Ok(known);
        }
        let digest = hex(hash_until(component, stop)?);
        let changed = Duration::from_secs(metadata.ctime().try_into().unwrap_or(u64::MAX));
        if changed.saturating_add(MIN_AGE) < now && stamp == self::stamp(&component.metadata()?) {
            // Without the file, the next job reads the component again.
            let _ = self.write(&stamp, &digest);
        }
        Ok(digest)
    }

    /// The digest in the file, if the file is whole and has this stamp.
    fn read(&self, stamp: &str) -> Option<String> {
        let text = std::fs::read_to_string(&self.0).ok()?;
        let digest = text.strip_prefix(stamp)?.get(1..65)?;
        (text == line(stamp, digest)).then(|| digest.to_owned())
    }

    fn write(&self, stamp: &str, digest: &str) -> io::Result<()> {
        // A release has its runtimes next to the program, so the folder may not exist.
        self.0.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&self.0, line(stamp, digest))
    }
}

/// The content of the file. Its last word is a checksum, so that a partly written file is not used.
fn line(stamp: &str, digest: &str) -> String {
    let text = format!("{stamp} {digest}");
    format!("{text} {}\n", hex(Sha256::digest(&text)))
}

fn stamp(metadata: &Metadata) -> String {
    format!(
        "{}:{}:{}:{}.{:09}:{}.{:09}",
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::path::Path;

    /// The digest this many seconds after the last change, and the number of blocks of the component that
    /// were read.
    fn digest(known: &KnownDigest, component: &Path, seconds: u64) -> (String, u32) {
        let blocks = Cell::new(0);
        let stop = || {
            blocks.set(blocks.get() + 1);
            false
        };
        let mut file = File::open(component).unwrap();
        let metadata = file.metadata().unwrap();
        let now = Duration::from_secs(metadata.ctime().cast_unsigned() + seconds);
        (known.digest_at(now, &mut file, &metadata, &stop).unwrap(), blocks.get())
    }

    #[test]
    fn a_component_is_read_once_for_each_change() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("runtime.wasm");
        let known = KnownDigest::for_component("runtime.wasm", dir.path().join("runtimes"));
        let expected = |content: &str| hex(Sha256::digest(content));
        std::fs::write(&component, "first").unwrap();
        assert_eq!(digest(&known, &component, 2), (expected("first"), 1));
        assert!(!known.0.exists(), "the component was changed a moment ago");
        assert_eq!(digest(&known, &component, 3), (expected("first"), 1));
        assert_eq!(digest(&known, &component, 3), (expected("first"), 0));

        let text = std::fs::read_to_string(&known.0).unwrap();
        let other = text.replace(&expected("first"), &expected("other"));
        for damaged in ["", &text[..text.len() / 2], &other, "\u{fc}"] {
            std::fs::write(&known.0, damaged).unwrap();
            assert_eq!(digest(&known, &component, 3), (expected("first"), 1), "{damaged:?}");
            assert_eq!(digest(&known, &component, 3), (expected("first"), 0));
        }

        let times = component.metadata().unwrap();
        // Some kernels change the times only every 4 ms.
        std::thread::sleep(Duration::from_millis(20));
        std::fs::write(&component, "other").unwrap();
        let file = File::options().write(true).open(&component).unwrap();
        file.set_modified(times.modified().unwrap()).unwrap();
        assert_eq!(digest(&known, &component, 3), (expected("other"), 1), "same length and time");
    }
}
