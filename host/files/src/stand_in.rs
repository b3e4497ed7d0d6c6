//! Stand-ins: files that stand for objects of stores which are not here yet, with the length and the time of
//! these, and nothing in them. What could not be fetched gets a mark in its place.

use sandmill_model::BadFile;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The mode of a stand-in, which nobody gives a file by accident, and with which nobody reads it.
pub const STAND_IN_MODE: u32 = 0o1000;

/// How the target of a link begins that stands for an object of a store which could not be fetched; the
/// reason follows.
pub const UNFETCHED: &str = "/not-fetched: ";

/// How often it is looked whether an object is here.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether a file stands for an object that is not here.
pub fn is_stand_in(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.mode() & 0o7777 == STAND_IN_MODE
}

/// Waits for as long as a stand-in is at a path. Returns what its mark says if the object cannot be had. What
/// is wrong with another file is told by whoever opens it.
pub fn wait_for(path: &Path, file: &str) -> Option<BadFile> {
    loop {
        match fs::symlink_metadata(path) {
            Ok(found) if is_stand_in(&found) => thread::sleep(PAUSE),
            Ok(found) if found.is_symlink() => return unfetched(path, file.as_bytes()),
            _ => return None,
        }
    }
}

/// What a link that leads nowhere says, if it stands for an object.
pub fn unfetched(link: &Path, path: &[u8]) -> Option<BadFile> {
    let target = fs::read_link(link).ok()?;
    let reason = target.to_str()?.strip_prefix(UNFETCHED)?.to_owned();
    Some(BadFile { file: String::from_utf8(path.to_vec()).ok()?, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_stand_in_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("part"), "abc").unwrap();
        for name in ["whole", "bad"] {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(STAND_IN_MODE)).unwrap();
            assert!(is_stand_in(&path(name).metadata().unwrap()));
        }
        let arrives = || {
            thread::sleep(3 * PAUSE);
            fs::rename(path("part"), path("whole")).unwrap();
            symlink(format!("{UNFETCHED}it broke"), path("mark")).unwrap();
            fs::rename(path("mark"), path("bad")).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(arrives);
            assert_eq!(wait_for(&path("whole"), "whole"), None);
            assert_eq!(fs::read(path("whole")).unwrap(), b"abc");
            let bad = BadFile { file: "bad".into(), reason: "it broke".into() };
            assert_eq!(wait_for(&path("bad"), "bad"), Some(bad));
        });
        assert_eq!(wait_for(&path("gone"), "gone"), None);
    }
}
