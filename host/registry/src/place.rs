//! Where the registry's file is, and who may write to it.

use super::RegistryError;
use super::settings::REGISTRY_VARIABLE;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The registry's file: `$SANDMILL_REGISTRY`, otherwise `sandmill/registry.db` in the user's data folder.
/// `None` if no environment variable says where this folder is.
pub fn default_file() -> Option<PathBuf> {
    file_from(|name| std::env::var_os(name))
}

fn file_from(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = || {
        let home = || set("HOME").map(|home| home.join(".local/share"));
        Some(set("XDG_DATA_HOME").or_else(home)?.join("sandmill/registry.db"))
    };
    set(REGISTRY_VARIABLE).or_else(data)
}

/// Makes the registry's folder. Only the owner of the folder may use it.
pub(super) fn make_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The path of the file with links resolved, and whether the file exists. A link whose target is missing is
/// an error, so that another user cannot choose where the registry is made.
pub(super) fn resolve(file: &Path) -> io::Result<(PathBuf, bool)> {
    match file.canonicalize() {
        Ok(real) => Ok((real, true)),
        Err(error) if error.kind() == ErrorKind::NotFound && file.symlink_metadata().is_err() => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
            let name = file.file_name().ok_or(ErrorKind::InvalidInput)?;
            Ok((folder.join(name), false))
        }
        // Another process may have made the file in the meantime.
        Err(error) => match file.symlink_metadata() {
            Ok(found) if !found.is_symlink() => Ok((file.canonicalize()?, true)),
            _ => Err(error),
        },
    }
}

/// Refuses a file or folder that other users could write to, because they could decide what jobs read.
pub(super) fn check_private(path: &Path) -> Result<(), RegistryError> {
    let failed = |source| RegistryError::Io { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(failed)?;
    let user = rustix::process::geteuid().as_raw();
    // SQLite would block on a fifo, or accept a device as a database.
    let why = if !metadata.is_file() && !metadata.is_dir() {
        "is not a regular file".to_owned()
    } else if metadata.uid() != user && metadata.uid() != 0 {
        format!("belongs to user {}, neither to you (user {user}) nor to root", metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        format!("can be written by other users (mode {:03o})", metadata.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(RegistryError::Open { path: path.to_owned(), why })
}

/// The login name of the user, or the user id if it has no name. The registry records this name with
/// each version.
pub(super) fn user() -> String {
    let user = rustix::process::geteuid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(user, &users).unwrap_or_else(|| user.to_string())
}

fn name_of(user: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number = fields.nth(1)?;
        (number.parse() == Ok(user)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_where_the_registry_is() {
        let from = |set: &[(&str, &str)]| {
            file_from(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        assert_eq!(from(&[]), None);
        let home = ("HOME", "/h");
        assert_eq!(from(&[home]), Some("/h/.local/share/sandmill/registry.db".into()));
        let data = ("XDG_DATA_HOME", "/x");
        assert_eq!(from(&[home, data]), Some("/x/sandmill/registry.db".into()));
        assert_eq!(from(&[home, data, (REGISTRY_VARIABLE, "/r.db")]), Some("/r.db".into()));
        assert_eq!(from(&[home, ("XDG_DATA_HOME", ""), (REGISTRY_VARIABLE, "")]), from(&[home]));
    }

    #[test]
    fn the_name_of_a_user_is_found() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nbroken\nada:x:1000:1000::/home/ada:\n";
        assert_eq!(name_of(1000, users).as_deref(), Some("ada"));
        assert_eq!(name_of(7, users), None);
    }
}
