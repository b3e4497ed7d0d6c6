//! Where this process may make cgroups (version 2).

use super::error::{LayerError, WallLayer};
use super::hidden::unless_hidden;
use rustix::fs::{Access, access};
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread::sleep;
use std::time::Duration;

/// How many times, and at what interval, we check whether a child that is about to end has ended.
const CHILD_CHECKS: u32 = 20;
const CHILD_CHECK_PAUSE: Duration = Duration::from_millis(10);

/// The controllers that we use.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The cgroup of this process, below which the process may make cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DelegatedCgroup {
    pub(super) folder: PathBuf,
    /// The [`CONTROLLERS`] that it has, at least one.
    pub(super) controllers: Vec<&'static str>,
    /// Whether this is the machine's root cgroup. Only the root may hold both processes and cgroups with
    /// limits.
    pub(super) is_root: bool,
}

/// Says where workers would get their cgroups. The error says why they would not. Both are shown to users.
pub fn probe_cgroup() -> Result<String, LayerError> {
    let DelegatedCgroup { folder, controllers, .. } = delegated()?;
    let limits = controllers.join(", ");
    let name = WallLayer::Cgroup.name();
    Ok(format!("{name} v2: each worker gets one below {}, with {limits}", folder.display()))
}

/// The cgroup of this process, or why it cannot be used.
pub(super) fn delegated() -> Result<DelegatedCgroup, LayerError> {
    unless_hidden(WallLayer::Cgroup)?;
    let folder = cgroup_folder(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)?;
    DelegatedCgroup::at(folder, process::id())
}

impl DelegatedCgroup {
    /// Checks that this process, which has the id `own`, may make cgroups with limits below `folder`.
    pub(super) fn at(folder: PathBuf, own: u32) -> Result<Self, LayerError> {
        let offered = read(folder.join("cgroup.controllers"))?;
        let is_there = |name: &&str| offered.split_whitespace().any(|offered| offered == *name);
        let controllers: Vec<_> = CONTROLLERS.into_iter().filter(is_there).collect();
        if controllers.is_empty() {
            return Err(LayerError::NoControllers { folder, wanted: CONTROLLERS });
        }
        let writable = ["", "cgroup.procs", "cgroup.subtree_control"]
            .iter()
            .all(|name| access(folder.join(name), Access::WRITE_OK).is_ok());
        if !writable {
            return Err(LayerError::NotDelegated(folder));
        }
        // Only the root cgroup has no file `cgroup.type`.
        let is_root = !folder.join("cgroup.type").exists();
        if !is_root {
            check_alone(&folder, own)?;
        }
        Ok(Self { folder, controllers, is_root })
    }
}

/// Fails if other processes are in the cgroup. The kernel would limit cgroups below it only after these
/// processes have left, and we do not move processes of other programs.
fn check_alone(folder: &Path, own: u32) -> Result<(), LayerError> {
    let own = own.to_string();
    for _ in 0..CHILD_CHECKS {
        let processes = read(folder.join("cgroup.procs"))?;
        let mut others = processes.lines().filter(|&process| process != own).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        // A child may be an earlier planner that is about to end. We wait for its end.
        if !others.all(|process| is_child_or_gone(process, &own)) {
            break;
        }
        sleep(CHILD_CHECK_PAUSE);
    }
    Err(LayerError::Shared(folder.to_owned()))
}

fn is_child_or_gone(process: &str, parent: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The text is `PID (PROGRAM) STATE PARENT ...`, and PROGRAM may contain any characters.
    let parent_of = |stat: &str| Some(stat.rsplit_once(") ")?.1.split(' ').nth(1)? == parent);
    parent_of(&stat).unwrap_or(true) // The process is gone.
}

pub(super) fn read(path: impl AsRef<Path>) -> Result<String, LayerError> {
    fs::read_to_string(&path).map_err(|error| LayerError::path(&path, error))
}

/// The folder of the cgroup, from the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn cgroup_folder(own: &str, mounts: &str) -> Result<PathBuf, LayerError> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or(LayerError::NoHierarchy)?;
    let mount = mounts.lines().find_map(|line| {
        // A line is `NUMBER PARENT DEVICE ROOT MOUNT_POINT OPTIONS ... - TYPE ...`.
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        (after.split(' ').next() == Some("cgroup2")).then_some((fields.next()?, fields.next()?))
    });
    let (root, mounted) = mount.ok_or(LayerError::NotMounted)?;
    match Path::new(path).strip_prefix(root) {
        Ok(below) => Ok(Path::new(mounted).join(below)),
        Err(_) => Err(LayerError::Outside { own: path.to_owned(), mounted: mounted.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_this_process_is_found() {
        let mounts = "24 1 0:22 / /proc rw - proc proc rw\n\
                      30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let own = "0::/user.slice/a.scope\n";
        let found = |own: &str, mounts: &str| cgroup_folder(own, mounts).unwrap();
        let refused = |own: &str, mounts: &str| cgroup_folder(own, mounts).unwrap_err().to_string();
        assert_eq!(found(own, mounts), Path::new("/sys/fs/cgroup/user.slice/a.scope"));
        assert_eq!(found("0::/\n", mounts), Path::new("/sys/fs/cgroup/"));
        assert!(refused("5:memory:/a\n", mounts).contains("no version 2 cgroups"));
        assert!(refused(own, "").contains("not mounted"));
        let inside = mounts.replace("0:26 / ", "0:26 /docker/x ");
        assert!(refused(own, &inside).contains("outside"));
        assert_eq!(found("0::/docker/x/y\n", &inside), Path::new("/sys/fs/cgroup/y"));
    }

    #[test]
    fn the_probe_finds_a_cgroup_or_a_reason() {
        match probe_cgroup() {
            Ok(words) => assert!(words.starts_with("cgroup v2: "), "{words}"),
            Err(reason) => assert!(!reason.to_string().is_empty()),
        }
    }

    #[test]
    fn child_processes_are_recognized() {
        let mut child = process::Command::new("sleep").arg("100").spawn().unwrap();
        let [own, id] = [process::id(), child.id()].map(|id| id.to_string());
        assert!(
            is_child_or_gone(&id, &own)
                && !is_child_or_gone(&id, "1")
                && !is_child_or_gone(&own, &id)
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_child_or_gone(&id, "1"), "it is gone");
    }

    #[test]
    fn a_cgroup_with_other_processes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = || DelegatedCgroup::at(dir.path().to_owned(), 12);
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        for name in ["cgroup.procs", "cgroup.subtree_control"] {
            write(name, "");
        }
        write("cgroup.controllers", "cpu hugetlb\n");
        assert!(at().unwrap_err().to_string().contains("no memory and no pids controller"));
        write("cgroup.controllers", "cpu pids\n");
        assert_eq!(at().unwrap().controllers, ["pids"]);
        write("cgroup.controllers", "cpu memory pids\n");
        assert_eq!(at().unwrap().controllers, ["memory", "pids"]);
        write("cgroup.procs", "1\n12\n77\n");
        assert!(at().unwrap().is_root, "the root may hold any process");
        write("cgroup.type", "domain\n");
        assert!(at().unwrap_err().to_string().contains("other processes than this one are in"));
        write("cgroup.procs", "12\n");
        assert!(!at().unwrap().is_root);
        fs::remove_file(dir.path().join("cgroup.procs")).unwrap();
        assert!(at().unwrap_err().to_string().contains("not delegated"));
    }
}
