//! A cgroup for each process behind the wall that may need one, with limits of its own.

use super::cgroup::{Delegated, delegated, read};
use super::error::{Built, LayerError, WallLayer};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::Arc;
use std::time::Duration;

/// All that Sandmill makes begins with this, followed by the number of the process that made it.
const PREFIX: &str = "sandmill-";
/// Tells a process which cgroup is its own. Only the leader sets it.
const VARIABLE: &str = "SANDMILL_CGROUP";
/// Has the kernel take the process that writes.
const MYSELF: &str = "0";
/// What a limit says where there is none.
const NO_LIMIT: &str = "max";

/// How often, and how long apart, it is tried to remove what processes that were killed a moment ago
/// are still in.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);
/// The same for what somebody else holds, who does not need it for longer than a moment.
const MOMENT: Duration = Duration::from_millis(1);

/// How much the processes in a leaf may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of memory; none where only their number is limited.
    pub memory: Option<u64>,
    /// Threads.
    pub threads: u32,
}

/// The place for leaves below the cgroup of this process. Dropping it takes everything back.
#[derive(Debug)]
pub struct Leaves {
    delegated: Delegated,
    prefix: String,
    /// Where this process has gone, to make room.
    own: Option<(PathBuf, File)>,
}

/// The cgroup of one process. Dropping it removes it, once the process is gone.
#[derive(Debug)]
pub struct Leaf {
    path: PathBuf,
    _hold: File,
    /// Stay as long as this one does.
    _leaves: Arc<Leaves>,
}

impl Leaves {
    /// Makes ready the cgroup of this process, if it may be used; or says why not. Where this process is
    /// alone in it, it goes into one below; no other process is ever moved. Removes what a leader that
    /// was killed has left there.
    ///
    /// Must be called while this process has no children.
    pub fn prepare() -> Result<Arc<Self>, LayerError> {
        Self::at(delegated()?, process::id()).map(Arc::new)
    }

    fn at(delegated: Delegated, id: u32) -> Result<Self, LayerError> {
        let folder = &delegated.folder;
        remove(folder, |_| true);
        let own = None;
        let prefix = format!("{PREFIX}{id}-");
        let control = folder.join("cgroup.subtree_control");
        let mut leaves = Self { delegated, prefix, own };
        if !leaves.delegated.is_root {
            let own = leaves.path("leader");
            let hold = claim(&own).map_err(|e| LayerError::path(&own, e))?;
            // From here on, dropping undoes it.
            let (own, _) = leaves.own.insert((own, hold));
            put(&own.join("cgroup.procs"), MYSELF)?;
        }
        put(&control, &switch(&leaves.delegated.controllers, '+'))?;
        Ok(leaves)
    }

    /// Where leaves are made.
    pub fn folder(&self) -> &Path {
        &self.delegated.folder
    }

    /// Makes one with these limits, as far as there are such. The name must be no other's.
    pub fn leaf(self: &Arc<Self>, name: &str, quota: &Quota) -> Result<Leaf, LayerError> {
        let path = self.path(name);
        let hold = claim(&path).map_err(|e| LayerError::path(&path, e))?;
        let leaf = Leaf { path, _hold: hold, _leaves: self.clone() };
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
            let left = remove(folder, |leader| self.prefix == format!("{PREFIX}{leader}-"));
            // This process is in one.
            if left <= usize::from(self.own.is_some()) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        // In the root others may need the controllers by now.
        if let Some((own, _)) = &self.own {
            // What does not work is left to the next leader, or to whoever made the cgroup.
            let control = folder.join("cgroup.subtree_control");
            let _ = put(&control, &switch(&self.delegated.controllers, '-'));
            let _ = put(&folder.join("cgroup.procs"), MYSELF);
            let _ = fs::remove_dir(own);
        }
    }
}

impl Leaf {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the process that is to be started that this cgroup is its own: it goes there when it builds
    /// its wall.
    pub fn admit(&self, command: &mut Command) {
        command.env(VARIABLE, &self.path);
    }

    /// Whether the kernel ended its process because of this cgroup's own limit.
    pub fn was_out_of_memory(&self) -> bool {
        let events = read(self.path.join("memory.events")).unwrap_or_default();
        // A process in it is also killed, and counted, when the whole machine runs out of memory.
        count(&events, "oom") > 0 && count(&events, "oom_kill") > 0
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // If its process has not ended yet, it is tried again at the end of all.
        let _ = fs::remove_dir(&self.path);
    }
}

impl Quota {
    fn apply(&self, leaf: &Path) -> Result<(), LayerError> {
        // Which controllers there are shows by their files.
        let set = |name: &str, value: &str| {
            let path = leaf.join(name);
            if path.exists() { put(&path, value) } else { Ok(()) }
        };
        if let Some(memory) = self.memory {
            set("memory.max", &memory.to_string())?;
            // Else it would only become slow.
            set("memory.swap.max", "0")?;
            set("memory.oom.group", "1")?;
        }
        set("pids.max", &self.threads.to_string())
    }
}

/// Makes a cgroup this process's own, as [`Leaf::admit`] does for one that is started. There must be no
/// other thread.
pub(super) fn assign(leaf: &Path) {
    // SAFETY: nobody else looks at the environment meanwhile.
    unsafe { std::env::set_var(VARIABLE, leaf) };
}

/// Puts this process into its own cgroup, if there is one for it. Returns what is limited there.
///
/// The kernel may let the one who moves a process wait for ten milliseconds: so it is not the leader.
pub(super) fn join() -> Option<Built> {
    let leaf = PathBuf::from(std::env::var_os(VARIABLE)?);
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let joined = if is_in(&leaf, &own) { Ok(()) } else { put(&leaf.join("cgroup.procs"), MYSELF) };
    Some(joined.map(|()| Some(words(&leaf))))
}

/// Whether a process is there, by the text of `/proc/PID/cgroup`.
fn is_in(leaf: &Path, own: &str) -> bool {
    let paths = own.lines().filter_map(|line| line.strip_prefix("0::"));
    paths.map(Path::new).any(|path| path.file_name() == leaf.file_name())
}

/// `cgroup (memory, pids)`, by what is limited.
fn words(leaf: &Path) -> String {
    let limited = |name: &&str| {
        read(leaf.join(format!("{name}.max"))).is_ok_and(|limit| limit.trim() != NO_LIMIT)
    };
    let limits: Vec<_> = ["memory", "pids"].into_iter().filter(limited).collect();
    format!("{} ({})", WallLayer::Cgroup.name(), limits.join(", "))
}

/// Makes a cgroup and holds it for as long as the file is open. Whether a leader lives shows by that and not
/// by its number, which says nothing in another name space.
fn claim(path: &Path) -> io::Result<File> {
    let mut held = take(path);
    for _ in 0..TRIES {
        if !held.as_ref().is_err_and(is_passing) {
            break;
        }
        std::thread::sleep(MOMENT);
        held = take(path);
    }
    held
}

/// Whether a claim failed as another leader took the cgroup for one that was left, and looked at it or removed it in the
/// moment before it was held.
fn is_passing(error: &io::Error) -> bool {
    use ErrorKind::{AlreadyExists, NotFound, WouldBlock};
    matches!(error.kind(), WouldBlock | NotFound | AlreadyExists)
}

fn take(path: &Path) -> io::Result<File> {
    // Others who could open it could hold its lock.
    let make = |path| DirBuilder::new().mode(0o700).create(path);
    match make(path) {
        // Its process took longer to end than anybody waits.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            take_away(path)?;
            make(path)?;
        }
        made => made?,
    }
    hold(path)
}

/// Fails with "would block" where somebody else has it, and with "not found" where it is gone.
fn hold(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            return Err(io::Error::new(ErrorKind::WouldBlock, "another leader has it"));
        }
        held => held?,
    }
    // Who has it alone may remove it. So from here on it stays the one that is there.
    let own = folder.metadata()?;
    let there = fs::metadata(path)?;
    if (own.dev(), own.ino()) == (there.dev(), there.ino()) {
        Ok(folder)
    } else {
        Err(io::Error::new(ErrorKind::NotFound, "another leader has removed it"))
    }
}

/// Removes a cgroup that nobody holds and nobody is in.
fn take_away(path: &Path) -> io::Result<()> {
    let _hold = hold(path)?;
    fs::remove_dir(path)
}

/// Removes what leaders with such numbers have made and do not need any more. Returns how much is left,
/// because somebody is in it or holds it.
fn remove(folder: &Path, is_meant: impl Fn(u32) -> bool) -> usize {
    let leader = |name: &str| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let meant =
        entries.filter(|entry| entry.file_name().to_str().and_then(leader).is_some_and(&is_meant));
    meant.filter(|entry| take_away(&entry.path()).is_err()).count()
}

/// `+memory +pids`.
fn switch(controllers: &[&str], sign: char) -> String {
    let words: Vec<_> = controllers.iter().map(|name| format!("{sign}{name}")).collect();
    words.join(" ")
}

/// The number behind a word, on a line of its own; 0 if there is none.
fn count(text: &str, word: &str) -> u64 {
    let number = |line: &str| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(number).unwrap_or(0)
}

fn put(path: &Path, text: &str) -> Result<(), LayerError> {
    fs::write(path, text).map_err(|e| LayerError::path(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const QUOTA: Quota = Quota { memory: Some(1 << 20), threads: 9 };

    /// What looks like a cgroup. Its files are ordinary ones.
    fn cgroup(is_root: bool) -> (tempfile::TempDir, Delegated) {
        let dir = tempfile::tempdir().unwrap();
        let controllers = vec!["memory", "pids"];
        let folder = dir.path().to_owned();
        (dir, Delegated { folder, controllers, is_root })
    }

    fn text(path: &Path, name: &str) -> String {
        fs::read_to_string(path.join(name)).unwrap()
    }

    #[test]
    fn limits_are_set_where_there_are_such() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"];
        let fill =
            || files.iter().for_each(|name| fs::write(dir.path().join(name), "max\n").unwrap());
        fill();
        assert_eq!(words(dir.path()), "cgroup ()");
        QUOTA.apply(dir.path()).unwrap();
        assert_eq!(files.map(|name| text(dir.path(), name)), ["1048576", "0", "1", "9"]);
        assert_eq!(words(dir.path()), "cgroup (memory, pids)");
        fill();
        Quota { memory: None, ..QUOTA }.apply(dir.path()).unwrap();
        assert_eq!(files.map(|name| text(dir.path(), name)), ["max\n", "max\n", "max\n", "9"]);
        assert_eq!(words(dir.path()), "cgroup (pids)");
        files[..3].iter().for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
        QUOTA.apply(dir.path()).unwrap();
        assert!(!dir.path().join("memory.max").exists(), "no such controller");
    }

    #[test]
    fn nobody_goes_where_it_is() {
        let leaf = Path::new("/sys/fs/cgroup/a.scope/sandmill-12-process000");
        assert!(is_in(leaf, "5:memory:/b\n0::/a.scope/sandmill-12-process000\n"));
        assert!(!is_in(leaf, "0::/a.scope/sandmill-12-leader\n"));
        assert!(!is_in(leaf, "0::/\n") && !is_in(leaf, ""));
    }

    #[test]
    fn everything_is_taken_back() {
        let (dir, root) = cgroup(true);
        let leaves = Arc::new(Leaves::at(root, 12).unwrap());
        assert_eq!(text(dir.path(), "cgroup.subtree_control"), "+memory +pids");
        let leaf = leaves.leaf("process000", &QUOTA).unwrap();
        let path = dir.path().join("sandmill-12-process000");
        assert!(path.is_dir());
        let error = leaves.leaf("process000", &QUOTA).unwrap_err().to_string();
        assert!(error.ends_with("sandmill-12-process000: another leader has it"), "{error}");
        drop(leaf);
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        assert!(leaves.leaf("process000", &QUOTA).is_ok(), "one that nobody is in is made anew");
        drop(leaves);
        assert_eq!(text(dir.path(), "cgroup.subtree_control"), "+memory +pids", "the root's stay");
    }

    #[test]
    fn the_leader_makes_room_and_comes_back() {
        let (dir, own) = cgroup(false);
        let leaves = Leaves::at(own, 12).unwrap();
        let leader = dir.path().join("sandmill-12-leader");
        assert_eq!(text(&leader, "cgroup.procs"), MYSELF);
        assert_eq!(text(dir.path(), "cgroup.subtree_control"), "+memory +pids");
        // The kernel's files vanish with their folder.
        fs::remove_file(leader.join("cgroup.procs")).unwrap();
        drop(leaves);
        assert_eq!(text(dir.path(), "cgroup.subtree_control"), "-memory -pids");
        assert_eq!(text(dir.path(), "cgroup.procs"), MYSELF);
        assert!(!leader.exists());
    }

    #[test]
    fn what_a_killed_leader_left_is_removed() {
        let (dir, root) = cgroup(true);
        // No process has such a number.
        let [dead, busy] =
            ["process000", "process001"].map(|name| format!("sandmill-4194999-{name}"));
        // Leaders of two name spaces may have the same number.
        let alive = "sandmill-12-process000".to_owned();
        let foreign = ["sandmill-", "sandmill-x-y", "sandmill-7", "user.slice"].map(str::to_owned);
        for name in [&dead, &busy, &alive].into_iter().chain(&foreign) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join(&busy).join("as if somebody were in it"), "").unwrap();
        let _alive = hold(&dir.path().join(&alive)).unwrap();
        let _leaves = Leaves::at(root, 12).unwrap();
        assert!(!dir.path().join(dead).exists());
        for name in [&busy, &alive].into_iter().chain(&foreign) {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }

    /// Where several leaders share a cgroup, each removes what others left, and may look at it at any moment.
    #[test]
    fn what_is_held_is_there_whoever_clears_up() {
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
                        let _ = take_away(&path);
                        // Without a pause no other would have a turn.
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
                    // No leader clears up so often that another loses all its tries; these two may.
                    Err(error) if is_passing(&error) => {}
                    Err(error) => refused.push(error.to_string()),
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!((gone, refused), (0, Vec::new()));
        assert!(held > 2000, "{held}");
    }

    #[test]
    fn the_own_limit_is_told_from_a_machine_without_memory() {
        let (dir, root) = cgroup(true);
        let leaves = Arc::new(Leaves::at(root, 12).unwrap());
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
