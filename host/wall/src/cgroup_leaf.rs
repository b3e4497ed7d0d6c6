//! Leaves: cgroups with limits, each for one process behind the wall.

use super::cgroup::{DelegatedCgroup, delegated, read};
use super::error::{LayerError, LayerResult, WallLayer};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::Arc;
use std::time::Duration;

/// The name of every cgroup that Sandmill makes begins with this. The process id of the leader follows.
const NAME_PREFIX: &str = "sandmill-";
/// The environment variable with the path of a process's cgroup. Only the leader sets it.
const CGROUP_VARIABLE: &str = "SANDMILL_CGROUP";
/// The text that a process writes to a cgroup's `cgroup.procs` to move there.
const THIS_PROCESS: &str = "0";
/// The text of a limit that is not set.
const NO_LIMIT: &str = "max";

/// How many times we try to remove or claim a cgroup.
const TRIES: u32 = 100;
/// The pause between attempts to remove cgroups that hold processes killed a moment ago.
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);
/// The pause between attempts to claim a cgroup that another leader holds. A leader that tidies up holds it
/// only for a moment.
const CLAIM_PAUSE: Duration = Duration::from_millis(1);

/// How much the processes in a leaf may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafQuota {
    /// Bytes of memory. `None` if only the number of threads is limited.
    pub memory: Option<u64>,
    /// Threads.
    pub threads: u32,
}

/// Makes leaves below the cgroup of this process. Dropping this value removes everything that it made.
#[derive(Debug)]
pub struct Leaves {
    delegated: DelegatedCgroup,
    prefix: String,
    /// The cgroup that this process has moved to, to make room for leaves.
    own: Option<(PathBuf, File)>,
}

/// The cgroup of one process. Dropping this value removes the cgroup, if the process has ended.
#[derive(Debug)]
pub struct ProcessCgroup {
    path: PathBuf,
    _lock: File,
    /// Keeps the parent cgroup as long as this leaf exists.
    _leaves: Arc<Leaves>,
}

impl Leaves {
    /// Prepares the cgroup of this process for leaves. An error says why the cgroup cannot be used. This
    /// process must be alone in its cgroup, and moves to a new cgroup below it. Also removes the cgroups that
    /// a killed leader left there.
    ///
    /// Must be called while this process has no children.
    pub fn prepare() -> Result<Arc<Self>, LayerError> {
        Self::prepare_at(delegated()?, process::id()).map(Arc::new)
    }

    fn prepare_at(delegated: DelegatedCgroup, id: u32) -> Result<Self, LayerError> {
        let folder = &delegated.folder;
        remove_abandoned(folder, |_| true);
        let own = None;
        let prefix = format!("{NAME_PREFIX}{id}-");
        let control = folder.join("cgroup.subtree_control");
        let mut leaves = Self { delegated, prefix, own };
        if !leaves.delegated.is_root {
            let own = leaves.path("leader");
            let lock = claim(&own).map_err(|e| LayerError::path(&own, e))?;
            // From here on, dropping `leaves` removes the new cgroup.
            let (own, _) = leaves.own.insert((own, lock));
            write_file(&own.join("cgroup.procs"), THIS_PROCESS)?;
        }
        write_file(&control, &controller_changes(&leaves.delegated.controllers, '+'))?;
        Ok(leaves)
    }

    /// The folder in which leaves are made.
    pub fn folder(&self) -> &Path {
        &self.delegated.folder
    }

    /// Makes a leaf with these limits; a limit is skipped if its controller is missing. The name must be
    /// unique.
    pub fn leaf(
        self: &Arc<Self>,
        name: &str,
        quota: &LeafQuota,
    ) -> Result<ProcessCgroup, LayerError> {
        let path = self.path(name);
        let lock = claim(&path).map_err(|e| LayerError::path(&path, e))?;
        let leaf = ProcessCgroup { path, _lock: lock, _leaves: self.clone() };
        quota.apply(&leaf.path)?;
        Ok(leaf)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.delegated.folder.join(format!("{}{name}", self.prefix))
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let folder = &self.delegated.folder;
        for _ in 0..TRIES {
            let left =
                remove_abandoned(folder, |leader| self.prefix == format!("{NAME_PREFIX}{leader}-"));
            // The cgroup that this process has moved to cannot be removed yet.
            if left <= usize::from(self.own.is_some()) {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
        // If this process did not move, its cgroup is the root, where other programs may use the
        // controllers by now.
        if let Some((own, _)) = &self.own {
            // A step that fails is left to the next leader, or to the owner of the cgroup.
            let control = folder.join("cgroup.subtree_control");
            let _ = write_file(&control, &controller_changes(&self.delegated.controllers, '-'));
            let _ = write_file(&folder.join("cgroup.procs"), THIS_PROCESS);
            let _ = fs::remove_dir(own);
        }
    }
}

impl ProcessCgroup {
    /// The folder of the cgroup.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Passes this cgroup to the process that the command will start. That process moves there by itself
    /// (`join`).
    pub fn admit(&self, command: &mut Command) {
        command.env(CGROUP_VARIABLE, &self.path);
    }

    /// Whether the kernel killed the process because of this cgroup's memory limit.
    pub fn was_out_of_memory(&self) -> bool {
        let events = read(self.path.join("memory.events")).unwrap_or_default();
        // `oom_kill` also counts processes that the kernel kills because the whole machine is out
        // of memory.
        event_count(&events, "oom") > 0 && event_count(&events, "oom_kill") > 0
    }
}

impl Drop for ProcessCgroup {
    fn drop(&mut self) {
        // If the process has not ended yet, dropping [`Leaves`] tries again.
        let _ = fs::remove_dir(&self.path);
    }
}

impl LeafQuota {
    fn apply(&self, leaf: &Path) -> Result<(), LayerError> {
        // A controller's files exist only if the controller does.
        let set = |name: &str, value: &str| {
            let path = leaf.join(name);
            if path.exists() { write_file(&path, value) } else { Ok(()) }
        };
        if let Some(memory) = self.memory {
            set("memory.max", &memory.to_string())?;
            // With swap, the process would become slow instead of being killed.
            set("memory.swap.max", "0")?;
            set("memory.oom.group", "1")?;
        }
        set("pids.max", &self.threads.to_string())
    }
}

/// Sets the cgroup of this forked process, as [`ProcessCgroup::admit`] does for a process that is started.
/// There must be no other thread.
pub(super) fn assign(leaf: &Path) {
    // SAFETY: no other thread exists that could read the environment.
    unsafe { std::env::set_var(CGROUP_VARIABLE, leaf) };
}

/// Moves this process into its cgroup. Returns the limits there. `None` if this process has no cgroup.
///
/// The process moves itself, because a move can block its caller for ten milliseconds. The leader
/// must not wait that long.
pub(super) fn join() -> Option<LayerResult> {
    let leaf = PathBuf::from(std::env::var_os(CGROUP_VARIABLE)?);
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let joined = if is_in(&leaf, &own) {
        Ok(())
    } else {
        write_file(&leaf.join("cgroup.procs"), THIS_PROCESS)
    };
    Some(joined.map(|()| Some(description(&leaf))))
}

/// Whether a process is in this leaf, by its `/proc/PID/cgroup`.
fn is_in(leaf: &Path, own: &str) -> bool {
    let paths = own.lines().filter_map(|line| line.strip_prefix("0::"));
    paths.map(Path::new).any(|path| path.file_name() == leaf.file_name())
}

/// `cgroup (memory, pids)`: the layer's name and the controllers whose limits are set.
fn description(leaf: &Path) -> String {
    let limited = |name: &&str| {
        read(leaf.join(format!("{name}.max"))).is_ok_and(|limit| limit.trim() != NO_LIMIT)
    };
    let limits: Vec<_> = ["memory", "pids"].into_iter().filter(limited).collect();
    format!("{} ({})", WallLayer::Cgroup.name(), limits.join(", "))
}

/// Makes a cgroup and locks it. The lock lasts as long as the returned file is open. It shows other
/// leaders that this leader lives; a process id means nothing in another PID namespace. Tries again
/// if another leader interferes.
fn claim(path: &Path) -> io::Result<File> {
    let mut claimed = try_claim(path);
    for _ in 0..TRIES {
        if !claimed.as_ref().is_err_and(is_temporary) {
            break;
        }
        std::thread::sleep(CLAIM_PAUSE);
        claimed = try_claim(path);
    }
    claimed
}

/// Whether a claim failed only because another leader believed that the cgroup was abandoned, and locked or
/// removed it just before we could lock it.
fn is_temporary(error: &io::Error) -> bool {
    use ErrorKind::{AlreadyExists, NotFound, WouldBlock};
    matches!(error.kind(), WouldBlock | NotFound | AlreadyExists)
}

/// Makes a cgroup and locks it, once.
fn try_claim(path: &Path) -> io::Result<File> {
    // With more permissions, other users could open the cgroup and lock it.
    let make = |path| DirBuilder::new().mode(0o700).create(path);
    match make(path) {
        // An earlier leader left this leaf because the process in it took too long to end.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            remove_if_abandoned(path)?;
            make(path)?;
        }
        made => made?,
    }
    lock(path)
}

/// Locks a cgroup. Fails with `WouldBlock` if another leader holds the lock, and with `NotFound` if the
/// cgroup is gone.
fn lock(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            return Err(io::Error::new(ErrorKind::WouldBlock, "another leader holds its lock"));
        }
        locked => locked?,
    }
    // Only the holder of the lock may remove the cgroup. We hold the lock now, so if the cgroup still exists,
    // it stays.
    let opened = folder.metadata()?;
    let current = fs::metadata(path)?;
    if (opened.dev(), opened.ino()) == (current.dev(), current.ino()) {
        Ok(folder)
    } else {
        Err(io::Error::new(ErrorKind::NotFound, "another leader has removed it"))
    }
}

/// Removes a cgroup that no leader holds and that has no processes.
fn remove_if_abandoned(path: &Path) -> io::Result<()> {
    let _lock = lock(path)?;
    fs::remove_dir(path)
}

/// Removes the cgroups of leaders whose ids satisfy `is_selected`. Returns how many are left because they
/// have processes or are locked.
fn remove_abandoned(folder: &Path, is_selected: impl Fn(u32) -> bool) -> usize {
    let leader = |name: &str| name.strip_prefix(NAME_PREFIX)?.split_once('-')?.0.parse().ok();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let selected = entries
        .filter(|entry| entry.file_name().to_str().and_then(leader).is_some_and(&is_selected));
    selected.filter(|entry| remove_if_abandoned(&entry.path()).is_err()).count()
}

/// The text for `cgroup.subtree_control` that turns controllers on or off: `+memory +pids`.
fn controller_changes(controllers: &[&str], sign: char) -> String {
    let changes: Vec<_> = controllers.iter().map(|name| format!("{sign}{name}")).collect();
    changes.join(" ")
}

/// The number in the line that begins with this word; 0 if there is no such line.
fn event_count(text: &str, word: &str) -> u64 {
    let number = |line: &str| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(number).unwrap_or(0)
}

fn write_file(path: &Path, text: &str) -> Result<(), LayerError> {
    fs::write(path, text).map_err(|e| LayerError::path(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const QUOTA: LeafQuota = LeafQuota { memory: Some(1 << 20), threads: 9 };

    /// A folder that looks like a cgroup, with ordinary files.
    fn cgroup(is_root: bool) -> (tempfile::TempDir, DelegatedCgroup) {
        let dir = tempfile::tempdir().unwrap();
        let controllers = vec!["memory", "pids"];
        let folder = dir.path().to_owned();
        (dir, DelegatedCgroup { folder, controllers, is_root })
    }

    fn text(path: &Path, name: &str) -> String {
        fs::read_to_string(path.join(name)).unwrap()
    }

    #[test]
    fn limits_are_set_for_existing_controllers() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"];
        let fill =
            || files.iter().for_each(|name| fs::write(dir.path().join(name), "max\n").unwrap());
        fill();
        assert_eq!(description(dir.path()), "cgroup ()");
        QUOTA.apply(dir.path()).unwrap();
        assert_eq!(files.map(|name| text(dir.path(), name)), ["1048576", "0", "1", "9"]);
        assert_eq!(description(dir.path()), "cgroup (memory, pids)");
        fill();
        LeafQuota { memory: None, ..QUOTA }.apply(dir.path()).unwrap();
        assert_eq!(files.map(|name| text(dir.path(), name)), ["max\n", "max\n", "max\n", "9"]);
        assert_eq!(description(dir.path()), "cgroup (pids)");
        files[..3].iter().for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
        QUOTA.apply(dir.path()).unwrap();
        assert!(!dir.path().join("memory.max").exists(), "no such controller");
    }

    #[test]
    fn membership_is_read_from_the_process_cgroup_file() {
        let leaf = Path::new("/sys/fs/cgroup/a.scope/sandmill-12-process000");
        assert!(is_in(leaf, "5:memory:/b\n0::/a.scope/sandmill-12-process000\n"));
        assert!(!is_in(leaf, "0::/a.scope/sandmill-12-leader\n"));
        assert!(!is_in(leaf, "0::/\n") && !is_in(leaf, ""));
    }

    #[test]
    fn leaves_and_controllers_are_removed_on_drop() {
        let (dir, root) = cgroup(true);
        let leaves = Arc::new(Leaves::prepare_at(root, 12).unwrap());
        assert_eq!(text(dir.path(), "cgroup.subtree_control"), "+memory +pids");
        let leaf = leaves.leaf("process000", &QUOTA).unwrap();
        let path = dir.path().join("sandmill-12-process000");
        assert!(path.is_dir());
        let error = leaves.leaf("process000", &QUOTA).unwrap_err().to_string();
        assert!(
            error.ends_with("sandmill-12-process000: another leader holds its lock"),
            "{error}"
        );
        drop(leaf);
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        assert!(leaves.leaf("process000", &QUOTA).is_ok(), "an empty cgroup is replaced");
        drop(leaves);
        assert_eq!(
            text(dir.path(), "cgroup.subtree_control"),
            "+memory +pids",
            "the root's controllers stay"
        );
    }

    #[test]
    fn the_leader_moves_to_a_leaf_and_back() {
        let (dir, own) = cgroup(false);
        let leaves = Leaves::prepare_at(own, 12).unwrap();
        let leader = dir.path().join("sandmill-12-leader");
        assert_eq!(text(&leader, "cgroup.procs"), THIS_PROCESS);
        assert_eq!(text(dir.path(), "cgroup.subtree_control"), "+memory +pids");
        // In a real cgroup, the kernel's files vanish with their folder.
        fs::remove_file(leader.join("cgroup.procs")).unwrap();
        drop(leaves);
        assert_eq!(text(dir.path(), "cgroup.subtree_control"), "-memory -pids");
        assert_eq!(text(dir.path(), "cgroup.procs"), THIS_PROCESS);
        assert!(!leader.exists());
    }

    #[test]
    fn leaves_of_a_killed_leader_are_removed() {
        let (dir, root) = cgroup(true);
        // No process has such an id.
        let [dead, busy] =
            ["process000", "process001"].map(|name| format!("sandmill-4194999-{name}"));
        // Leaders in two PID namespaces may have the same id.
        let alive = "sandmill-12-process000".to_owned();
        let foreign = ["sandmill-", "sandmill-x-y", "sandmill-7", "user.slice"].map(str::to_owned);
        for name in [&dead, &busy, &alive].into_iter().chain(&foreign) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join(&busy).join("as if a process were in it"), "").unwrap();
        let _alive = lock(&dir.path().join(&alive)).unwrap();
        let _leaves = Leaves::prepare_at(root, 12).unwrap();
        assert!(!dir.path().join(dead).exists());
        for name in [&busy, &alive].into_iter().chain(&foreign) {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }

    /// If several leaders share a cgroup, each removes the leaves of the others, and may lock them at any
    /// moment.
    #[test]
    fn a_held_leaf_is_never_removed_by_others() {
        let (dir, _) = cgroup(true);
        let path = dir.path().join("sandmill-12-leader");
        let done = AtomicBool::new(false);
        let mut held = 0;
        let mut gone = 0;
        let mut refused = Vec::new();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let _ = remove_if_abandoned(&path);
                        // Without a pause the other threads would never get the lock.
                        std::thread::sleep(Duration::from_micros(20));
                    }
                });
            }
            for _ in 0..3000 {
                match claim(&path) {
                    Ok(_held) => {
                        held += 1;
                        gone += usize::from(!path.is_dir());
                    }
                    // Real leaders clear up so rarely that one of a claim's attempts succeeds. With
                    // these two threads, all attempts may fail.
                    Err(error) if is_temporary(&error) => {}
                    Err(error) => refused.push(error.to_string()),
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!((gone, refused), (0, Vec::new()));
        assert!(held > 2000, "{held}");
    }

    #[test]
    fn the_leafs_limit_differs_from_machine_wide_oom() {
        let (dir, root) = cgroup(true);
        let leaves = Arc::new(Leaves::prepare_at(root, 12).unwrap());
        let leaf = leaves.leaf("process000", &QUOTA).unwrap();
        assert!(!leaf.was_out_of_memory(), "nothing is known");
        let events = dir.path().join("sandmill-12-process000/memory.events");
        for (oom, kills, is_own) in [(0, 0, false), (0, 1, false), (3, 0, false), (1, 1, true)] {
            let text =
                format!("low 0\nhigh 0\nmax 9\noom {oom}\noom_kill {kills}\noom_group_kill 1\n");
            fs::write(&events, text).unwrap();
            assert_eq!(leaf.was_out_of_memory(), is_own, "{oom} {kills}");
        }
        fs::remove_file(events).unwrap();
    }
}
