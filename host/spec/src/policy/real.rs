//! Resolves the links of a path.

use crate::error::PathError;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Resolves the path's links and `..` as the kernel does. The last parts of the path need not exist. Fails if
/// the result is not certain.
pub(super) fn real_path(path: &Path) -> Result<PathBuf, PathError> {
    let absolute = std::path::absolute(path)
        .map_err(|source| PathError::Unfollowed { path: path.to_owned(), source })?;
    for ancestor in absolute.ancestors() {
        match ancestor.canonicalize() {
            Ok(mut real) => {
                let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
                // The kernel cannot go back up from a folder that does not exist.
                if rest.components().any(|part| !matches!(part, Component::Normal(_))) {
                    return Err(PathError::Back { path: path.to_owned() });
                }
                real.extend(rest);
                return Ok(real);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // This link has no target now, but a user who creates the target decides where the link
                // leads later.
                if ancestor.symlink_metadata().is_ok() {
                    return Err(PathError::Dangling { link: ancestor.to_owned() });
                }
            }
            Err(source) => return Err(PathError::Unfollowed { path: ancestor.to_owned(), source }),
        }
    }
    Err(PathError::Lost { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_dots_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        symlink("/etc", base.join("a/link")).unwrap();
        symlink(base.join("gone"), base.join("a/dangling")).unwrap();
        let real = |path: &str| real_path(&base.join(path));
        assert_eq!(real("a/b/../b").unwrap(), base.join("a/b"));
        assert_eq!(real("a/link").unwrap(), Path::new("/etc"));
        assert_eq!(real("a/link/new/x").unwrap(), Path::new("/etc/new/x"));
        assert_eq!(real("a/new/x").unwrap(), base.join("a/new/x"));
        let wrong = |path: &str| real(path).unwrap_err().to_string();
        assert!(wrong("a/new/../../..").contains(".. after a folder"));
        assert!(wrong("a/dangling/x").contains("leads nowhere"));
        std::fs::write(base.join("file"), "").unwrap();
        assert!(wrong("file/x").contains("cannot be found"));
    }
}
