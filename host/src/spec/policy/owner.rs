//! Who may change a policy file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Refuses a policy file that others own or may write to: they would decide what jobs may do. A file
/// that is not there is left to the one who reads it.
///
/// # Errors
/// What is wrong, in words that follow the file's name.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let Ok(real) = path.canonicalize() else { return Ok(()) };
    let user = rustix::process::geteuid().as_raw();
    // What leads to the file counts as well: who may write there puts another one in its place.
    for at in [Some(real.as_path()), real.parent()].into_iter().flatten() {
        let Ok(metadata) = fs::metadata(at) else { continue };
        let is_folder = at != real;
        let (what, mode) = (if is_folder { "its folder" } else { "it" }, metadata.mode());
        let shown = at.display();
        if ![user, 0].contains(&metadata.uid()) {
            return Err(format!(
                "is not used, as {what} belongs to user {}, neither to you (user {user}) nor to root, \
                 and who owns it decides what jobs may do: chown {user} {shown}",
                metadata.uid()
            ));
        }
        // In a folder with the sticky bit, others cannot replace what is not theirs.
        let is_sticky = is_folder && mode & 0o1000 != 0;
        if mode & 0o022 != 0 && !is_sticky {
            return Err(format!(
                "is not used, as others can write to {what} (mode {:03o}) and so decide what jobs may \
                 do: chmod go-w {shown}",
                mode & 0o777
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_others_can_write_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap().join("etc");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("policy.yaml");
        assert_eq!(check(&file), Ok(()), "is not there");
        fs::write(&file, "gpus: 0").unwrap();
        let told = |file_mode, folder_mode| {
            fs::set_permissions(&file, Permissions::from_mode(file_mode)).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(folder_mode)).unwrap();
            let told = check(&file).err().unwrap_or_default();
            told.replace(folder.to_str().unwrap(), "/etc")
        };
        for (file_mode, folder_mode) in [(0o644, 0o755), (0o400, 0o700), (0o644, 0o1777)] {
            assert_eq!(told(file_mode, folder_mode), "");
        }
        insta::assert_snapshot!(told(0o666, 0o755), @"is not used, as others can write to it (mode 666) and so decide what jobs may do: chmod go-w /etc/policy.yaml");
        insta::assert_snapshot!(told(0o660, 0o755), @"is not used, as others can write to it (mode 660) and so decide what jobs may do: chmod go-w /etc/policy.yaml");
        insta::assert_snapshot!(told(0o644, 0o777), @"is not used, as others can write to its folder (mode 777) and so decide what jobs may do: chmod go-w /etc");
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            assert!(told(0o644, 0o755).contains("it belongs to user 65534, neither to you"));
        }
    }
}
