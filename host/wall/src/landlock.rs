//! Landlock: which files and folders the process may use. It also keeps the process from sockets and
//! processes outside.

use super::error::{Built, LayerError, WallLayer};
use super::role::{FolderRights, GrantedPath, WallRole};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, RawDir, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use sandmill_files::opening::at_its_path;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// The version that must be there: it covers all reading, writing, making, renaming and truncating.
const NEEDED: ABI = ABI::V3;
/// Its number.
pub(super) const NEEDED_ABI: i32 = 3;

/// What prevents the truncation of files that may only be read: opening one for reading can truncate it, too
/// (`O_TRUNC`).
///
/// At each open, the kernel asks its rules whether the file may be truncated. If no rule allows it, the
/// kernel goes on up to the root of the file system. For jobs of many small files that takes a twentieth of
/// their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TruncateGuard {
    /// The Landlock rules.
    Ruled,
    /// The syscall filter, which is certain to be installed. A process that may not write a file cannot
    /// truncate it.
    Filtered,
}

impl TruncateGuard {
    /// The rights that every rule gets in addition.
    fn allowed(self) -> BitFlags<AccessFs> {
        match self {
            Self::Ruled => BitFlags::empty(),
            Self::Filtered => AccessFs::Truncate.into(),
        }
    }
}

/// Confines this process to the folders. `truncation`: what prevents truncation by opening a file that can be
/// read.
pub(super) fn confine(
    folders: &[GrantedPath],
    occupant: WallRole,
    truncation: TruncateGuard,
) -> Built {
    let status = restrict(folders, occupant, truncation)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(LayerError::NotEnforced);
    }
    match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Ok(Some(words(kernel_abi.unwrap_or(effective_abi as i32))))
        }
        other => Err(LayerError::Unavailable(other)),
    }
}

/// The layer's name, with the version.
pub(super) fn words(abi: i32) -> String {
    format!("{} (ABI {abi})", WallLayer::Landlock.name())
}

fn restrict(
    folders: &[GrantedPath],
    occupant: WallRole,
    truncation: TruncateGuard,
) -> Result<RestrictionStatus, LayerError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))
        // Rights of newer kernels are used if the kernel has them.
        .map(|rules| rules.set_compatibility(CompatLevel::BestEffort))
        .and_then(|rules| rules.handle_access(AccessFs::from_all(ABI::V5)))
        .and_then(|rules| match occupant {
            // Connecting is not ruled, so it is allowed: a store may listen at any port.
            WallRole::Fetcher => rules.handle_access(AccessNet::BindTcp),
            _ => rules.handle_access(AccessNet::from_all(ABI::V4)),
        })
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        // A guest must not be able to flood the machine's audit log.
        .and_then(|rules| rules.log_same_exec(false))
        .map_err(LayerError::Rules)?;
    let real = folders.iter().filter_map(|folder| real(folder).transpose());
    let real = real.collect::<Result<Vec<_>, _>>()?;
    for folder in merged(&real) {
        let Some(opened) = open(folder)? else { continue };
        let rights = rights(folder.rights) | truncation.allowed();
        let rights = rights & usable(&opened).map_err(|e| LayerError::path(&folder.path, e))?;
        rules =
            rules.add_rule(PathBeneath::new(&opened, rights)).map_err(|e| no_rule(folder, e))?;
        // The other occupants do not open many small files.
        let may_hold_many = folder.rights == FolderRights::Read
            && matches!(occupant, WallRole::Worker | WallRole::Zygote);
        let inner = (may_hold_many && truncation == TruncateGuard::Filtered)
            .then(|| inner_folders(&opened));
        for inner in inner.into_iter().flatten() {
            rules =
                rules.add_rule(PathBeneath::new(inner, rights)).map_err(|e| no_rule(folder, e))?;
        }
    }
    rules.restrict_self().map_err(LayerError::Rules)
}

/// The folders in a folder, as many as one syscall lists, without links and mount points. Rules for them
/// allow nothing beyond the outer folder's rule, as long as no process moves them out of it. But they save
/// time: from each opened file the kernel goes up until it finds a rule, and each step is expensive, because
/// all workers update the reference count of each folder on the way.
fn inner_folders(folder: &OwnedFd) -> Vec<OwnedFd> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = openat(folder, c".", flags, Mode::empty()) else { return Vec::new() };
    let mut entries = RawDir::new(listed, &mut buffer);
    let mut folders = Vec::new();
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name();
        if entry.file_type() == FileType::Directory && name != c"." && name != c".." {
            folders.extend(inner_folder(folder, name));
        }
        if entries.is_buffer_empty() {
            break;
        }
    }
    folders.retain(|inner| usable(inner).is_ok_and(|usable| usable.is_all()));
    folders
}

/// Opens a folder in a folder. Fails if it is on another file system, even one that an automounter would
/// mount now.
fn inner_folder(folder: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stay = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(folder, name, flags, Mode::empty(), stay) {
        // The zygote's wall, which encloses all workers, hides openat2.
        Err(Errno::NOSYS) => {
            let inner = openat(folder, name, flags | OFlags::DIRECTORY, Mode::empty())?;
            let stays = fstat(&inner)?.st_dev == fstat(folder)?.st_dev;
            if stays { Ok(inner) } else { Err(Errno::XDEV.into()) }
        }
        opened => Ok(opened?),
    }
}

/// The folder with its real path. A rule holds for the target of a path, so a path below another one may lead
/// elsewhere. `None` if it does not exist: then there is nothing to allow.
fn real(folder: &GrantedPath) -> Result<Option<GrantedPath>, LayerError> {
    if folder.is_real {
        return Ok(Some(folder.clone()));
    }
    match folder.path.canonicalize() {
        Ok(path) => Ok(Some(GrantedPath::real(path, folder.rights))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LayerError::path(&folder.path, error)),
    }
}

/// Opens the folder at its real path. `None` if it is gone. A link on the way was put there after the path
/// was resolved, and would make the rule allow another folder.
fn open(folder: &GrantedPath) -> Result<Option<OwnedFd>, LayerError> {
    match at_its_path(&folder.path, OFlags::PATH, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LayerError::path(&folder.path, error)),
    }
}

fn no_rule(folder: &GrantedPath, source: RulesetError) -> LayerError {
    LayerError::Rule { path: folder.path.clone(), source }
}

/// The rights that the kernel accepts: it refuses folder rights for a file.
fn usable(opened: impl AsFd) -> io::Result<BitFlags<AccessFs>> {
    let kind = FileType::from_raw_mode(fstat(opened)?.st_mode);
    Ok(if kind == FileType::Directory { BitFlags::all() } else { AccessFs::from_file(ABI::V5) })
}

fn rights(rights: FolderRights) -> BitFlags<AccessFs> {
    use AccessFs::{
        IoctlDev, MakeDir, MakeReg, ReadDir, ReadFile, Refer, RemoveDir, RemoveFile, Truncate,
        WriteFile,
    };
    let read = ReadFile | ReadDir;
    // The kernel refuses a hard link that would give its file more rights than it has in its own folder. So a
    // process that links may not write.
    let arrange = MakeReg | MakeDir | RemoveFile | RemoveDir | Refer;
    match rights {
        FolderRights::Read => read,
        FolderRights::ReadAndLink => read | Refer,
        FolderRights::Stage => read | arrange,
        FolderRights::Files => ReadFile | WriteFile | Truncate | MakeReg | RemoveFile,
        FolderRights::Write => read | arrange | WriteFile | Truncate,
        FolderRights::Device => ReadFile | WriteFile | IoctlDev,
    }
}

/// The rules that add something. Rights add up along a path, and each rule takes a few microseconds.
fn merged(folders: &[GrantedPath]) -> Vec<&GrantedPath> {
    let covers = |other: &GrantedPath, folder: &GrantedPath| {
        folder.path.starts_with(&other.path) && rights(other.rights).contains(rights(folder.rights))
    };
    let mut sorted: Vec<&GrantedPath> = folders.iter().collect();
    // Outer folders come first; of the same path, the rule with more rights.
    sorted.sort_by_key(|folder| {
        (&folder.path, std::cmp::Reverse(rights(folder.rights).bits().count_ones()))
    });
    let mut kept: Vec<&GrantedPath> = Vec::with_capacity(sorted.len());
    for folder in sorted {
        if !kept.iter().any(|other| covers(other, folder)) {
            kept.push(folder);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_add_nothing_are_left_out() {
        let folder = |path: &str, rights| GrantedPath::real(path, rights);
        let all = [
            folder("/a/b", FolderRights::Read),
            folder("/a", FolderRights::Read),
            folder("/a", FolderRights::Read),
            folder("/a/out", FolderRights::Write),
            folder("/a/out/deep", FolderRights::Files),
            folder("/ab", FolderRights::Read),
            folder("/c", FolderRights::Read),
            folder("/c", FolderRights::ReadAndLink),
        ];
        let kept: Vec<_> =
            merged(&all).iter().map(|f| (f.path.to_str().unwrap(), f.rights)).collect();
        let expected = [
            ("/a", FolderRights::Read),
            ("/a/out", FolderRights::Write),
            ("/ab", FolderRights::Read),
            ("/c", FolderRights::ReadAndLink),
        ];
        assert_eq!(kept, expected);
    }

    #[test]
    fn a_rule_covers_the_target_of_its_path() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in ["data", "elsewhere", "shared"] {
            std::fs::create_dir(path(folder)).unwrap();
        }
        std::os::unix::fs::symlink(path("elsewhere"), path("data/model")).unwrap();
        let names = ["data", "data/model", "data/../shared", "missing"];
        let folders = names.map(|name| GrantedPath::new(path(name), FolderRights::Read));
        let real: Vec<_> = folders.iter().filter_map(|folder| real(folder).unwrap()).collect();
        let kept: Vec<_> = merged(&real).iter().map(|folder| folder.path.clone()).collect();
        let root = root.path().canonicalize().unwrap();
        assert_eq!(kept, ["data", "elsewhere", "shared"].map(|name| root.join(name)));
    }

    /// A rule for the link would allow its target.
    #[test]
    fn a_path_that_becomes_a_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("data/deep")).unwrap();
        let folder = GrantedPath::real(base.join("data/deep"), FolderRights::Read);
        assert!(open(&real(&folder).unwrap().unwrap()).unwrap().is_some());
        std::fs::rename(base.join("data"), base.join("moved")).unwrap();
        assert!(open(&folder).unwrap().is_none());
        std::os::unix::fs::symlink("/", base.join("data")).unwrap();
        std::fs::create_dir_all(base.join("secret/deep")).unwrap();
        for target in ["moved", "secret"] {
            std::fs::remove_file(base.join("data")).unwrap();
            std::os::unix::fs::symlink(target, base.join("data")).unwrap();
            let error = open(&real(&folder).unwrap().unwrap()).unwrap_err().to_string();
            assert!(error.contains(" now has a link, and had none when"), "{error}");
        }
    }

    #[test]
    fn inner_folders_are_found_without_links() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in ["a/deep", "b"] {
            std::fs::create_dir_all(path(folder)).unwrap();
        }
        std::fs::write(path("file"), "").unwrap();
        std::os::unix::fs::symlink("/", path("link")).unwrap();
        let opened = |path| open(&GrantedPath::new(path, FolderRights::Read)).unwrap().unwrap();
        let found = || inner_folders(&opened(root.path().canonicalize().unwrap()));
        let inodes = |found: Vec<OwnedFd>| {
            let mut inodes: Vec<_> = found.iter().map(|fd| fstat(fd).unwrap().st_ino).collect();
            inodes.sort_unstable();
            inodes
        };
        let mut expected = ["a", "b"].map(|name| fstat(opened(path(name))).unwrap().st_ino);
        expected.sort_unstable();
        assert_eq!(inodes(found()), expected);
        (0..500).for_each(|number| std::fs::create_dir(path(&format!("n{number}"))).unwrap());
        assert!((1..300).contains(&found().len()), "{}", found().len());
        assert!(inner_folders(&opened(path("file"))).is_empty());
    }

    #[test]
    fn no_right_allows_running_files_or_making_devices() {
        use AccessFs::{Execute, MakeBlock, MakeChar, MakeFifo, MakeSock, MakeSym};
        use FolderRights::{Device, Files, Read, ReadAndLink, Stage, Write};
        for allowed in [Read, ReadAndLink, Stage, Files, Write, Device] {
            let made = rights(allowed);
            let forbidden = Execute | MakeBlock | MakeChar | MakeFifo | MakeSock | MakeSym;
            assert!(!made.intersects(forbidden), "{allowed:?}");
        }
        let stage = rights(FolderRights::Stage);
        assert!(!stage.intersects(AccessFs::WriteFile | AccessFs::Truncate), "{stage:?}");
    }
}
