//! A path without links.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The path as the kernel would walk it, without links and `..`, also where its last parts are not
/// there yet. An error, in words, if that cannot be said of it.
pub(super) fn real_path(path: &Path) -> Result<PathBuf, String> {
    let absolute = std::path::absolute(path)
        .map_err(|error| format!("{} cannot be found: {error}", path.display()))?;
    for there in absolute.ancestors() {
        match there.canonicalize() {
            Ok(mut real) => {
                let rest = absolute.strip_prefix(there).unwrap_or(Path::new(""));
                // What is not there has no folder above it to go back to.
                if rest.components().any(|part| !matches!(part, Component::Normal(_))) {
                    return Err(format!(
                        "{} has .. behind a folder that is not there",
                        path.display()
                    ));
                }
                real.extend(rest);
                return Ok(real);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Something is there that does not lead anywhere, until somebody makes its target.
                if there.symlink_metadata().is_ok() {
                    return Err(format!("{} is a link that leads nowhere", there.display()));
                }
            }
            Err(error) => return Err(format!("{} cannot be found: {error}", there.display())),
        }
    }
    Err(format!("{} cannot be found", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_dots_are_followed_to_where_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        symlink("/etc", base.join("a/link")).unwrap();
        symlink(base.join("gone"), base.join("a/dangling")).unwrap();
        let real = |path: &str| real_path(&base.join(path));
        assert_eq!(real("a/b/../b"), Ok(base.join("a/b")));
        assert_eq!(real("a/link"), Ok(PathBuf::from("/etc")));
        assert_eq!(real("a/link/new/x"), Ok(PathBuf::from("/etc/new/x")));
        assert_eq!(real("a/new/x"), Ok(base.join("a/new/x")));
        assert!(real("a/new/../../..").unwrap_err().contains(".. behind a folder"));
        assert!(real("a/dangling/x").unwrap_err().contains("leads nowhere"));
        std::fs::write(base.join("file"), "").unwrap();
        assert!(real("file/x").unwrap_err().contains("cannot be found"));
    }
}
