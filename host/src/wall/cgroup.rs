//! Whether this process may make cgroups (version 2) that limit memory and processes.

use rustix::fs::{Access, access};
use std::fs;
use std::path::{Path, PathBuf};

/// What must be there to limit a worker.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The cgroup of this process, below which it may make others; or why it may not.
pub fn probe_cgroup() -> Result<PathBuf, String> {
    let own = read("/proc/self/cgroup")?;
    let mounts = read("/proc/self/mountinfo")?;
    let folder = folder(&own, &mounts)?;
    let offered = read(folder.join("cgroup.controllers"))?;
    for controller in CONTROLLERS {
        if !offered.split_whitespace().any(|offered| offered == controller) {
            let at = folder.display();
            return Err(format!("the version 2 hierarchy at {at} has no {controller} controller"));
        }
    }
    let writable = ["", "cgroup.procs", "cgroup.subtree_control"]
        .iter()
        .all(|name| access(folder.join(name), Access::WRITE_OK).is_ok());
    if !writable {
        return Err(format!("{} may not be written to: it is not delegated", folder.display()));
    }
    Ok(folder)
}

fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where the cgroup lies, from the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn folder(own: &str, mounts: &str) -> Result<PathBuf, String> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or("the kernel has no version 2 hierarchy")?;
    let mount = mounts.lines().find_map(|line| {
        // Number, parent, device, root, mount point, options, more; then a dash and the type.
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        (after.split(' ').next() == Some("cgroup2")).then_some((fields.next()?, fields.next()?))
    });
    let (root, mounted) = mount.ok_or("the version 2 hierarchy is not mounted")?;
    let below = Path::new(path).strip_prefix(root);
    let below = below.map_err(|_| format!("{path} is outside of what is mounted at {mounted}"))?;
    Ok(Path::new(mounted).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_found() {
        let mounts = "24 1 0:22 / /proc rw - proc proc rw\n\
                      30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let own = "0::/user.slice/a.scope\n";
        assert_eq!(folder(own, mounts), Ok(PathBuf::from("/sys/fs/cgroup/user.slice/a.scope")));
        assert_eq!(folder("0::/\n", mounts), Ok(PathBuf::from("/sys/fs/cgroup/")));
        assert!(folder("5:memory:/a\n", mounts).unwrap_err().contains("no version 2"));
        assert!(folder(own, "").unwrap_err().contains("not mounted"));
        let inside = mounts.replace("0:26 / ", "0:26 /docker/x ");
        assert!(folder(own, &inside).unwrap_err().contains("outside"));
        assert_eq!(folder("0::/docker/x/y\n", &inside), Ok(PathBuf::from("/sys/fs/cgroup/y")));
    }

    #[test]
    fn it_is_there_or_a_reason() {
        match probe_cgroup() {
            Ok(folder) => assert!(folder.is_absolute()),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}
