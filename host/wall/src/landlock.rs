//! Landlock: which files and folders the process may use. It also restricts TCP, and keeps the
//! process from reaching other processes through abstract sockets or signals.

use super::error::{LayerError, LayerResult, WallLayer};
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

/// The oldest version that suffices: it covers all reading, writing, making, renaming and truncating.
const MIN_ABI: ABI = ABI::V3;
/// The number of this version.
pub(super) const MIN_ABI_NUMBER: i32 = 3;

/// What prevents the truncation of files that may only be read: with `O_TRUNC`, opening a file for reading
/// truncates it, too.
///
/// At each open, the kernel searches the rules from the file upwards for one that allows truncation. Without
/// such a rule, it searches up to the root of the file system, which takes a twentieth of the time of a job
/// with many small files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TruncateGuard {
    /// The Landlock rules.
    Ruled,
    /// The syscall filter, which is certain to be installed. A process that may not write a file cannot
    /// truncate it.
    Filtered,
}

impl TruncateGuard {
    /// The rights that every rule gets in addition to its folder's rights.
    fn allowed(self) -> BitFlags<AccessFs> {
        match self {
            Self::Ruled => BitFlags::empty(),
            Self::Filtered => AccessFs::Truncate.into(),
        }
    }
}

/// Confines this process to the folders. `truncation`: what prevents the truncation of files that may only be
/// read.
pub(super) fn confine(
    folders: &[GrantedPath],
    role: WallRole,
    truncation: TruncateGuard,
) -> LayerResult {
    let status = restrict(folders, role, truncation)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(LayerError::NotEnforced);
    }
    match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Ok(Some(name_with_version(kernel_abi.unwrap_or(effective_abi as i32))))
        }
        other => Err(LayerError::Unavailable(other)),
    }
}

/// The layer's name with the version of the Landlock interface.
pub(super) fn name_with_version(abi: i32) -> String {
    format!("{} (ABI {abi})", WallLayer::Landlock.name())
}

fn restrict(
    folders: &[GrantedPath],
    role: WallRole,
    truncation: TruncateGuard,
) -> Result<RestrictionStatus, LayerError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(MIN_ABI))
        // Rights of newer kernels are used if the kernel has them.
        .map(|rules| rules.set_compatibility(CompatLevel::BestEffort))
        .and_then(|rules| rules.handle_access(AccessFs::from_all(ABI::V5)))
        .and_then(|rules| match role {
            // The rules do not cover connecting, so it is allowed: a store may listen at any port.
            WallRole::Fetcher => rules.handle_access(AccessNet::BindTcp),
            _ => rules.handle_access(AccessNet::from_all(ABI::V4)),
        })
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        // A guest must not be able to flood the machine's audit log.
        .and_then(|rules| rules.log_same_exec(false))
        .map_err(LayerError::Rules)?;
    let resolved = folders.iter().filter_map(|folder| resolve(folder).transpose());
    let resolved = resolved.collect::<Result<Vec<_>, _>>()?;
    for folder in without_covered(&resolved) {
        let Some(opened) = open(folder)? else { continue };
        let rights = access_rights(folder.rights) | truncation.allowed();
        let rights =
            rights & usable_rights(&opened).map_err(|e| LayerError::path(&folder.path, e))?;
        rules =
            rules.add_rule(PathBeneath::new(&opened, rights)).map_err(|e| rule_error(folder, e))?;
        // Only processes with these roles open many small files.
        let may_hold_many = folder.rights == FolderRights::Read
            && matches!(role, WallRole::Worker | WallRole::Zygote);
        let inner = (may_hold_many && truncation == TruncateGuard::Filtered)
            .then(|| inner_folders(&opened));
        for inner in inner.into_iter().flatten() {
            rules = rules
                .add_rule(PathBeneath::new(inner, rights))
                .map_err(|e| rule_error(folder, e))?;
        }
    }
    rules.restrict_self().map_err(LayerError::Rules)
}

/// The folders in a folder, as many as one syscall lists, without links and mount points. Rules for the inner
/// folders allow nothing beyond the outer folder's rule, as long as no process moves them out of the outer
/// folder. But such rules save time: from each opened file the kernel goes up until it finds a rule, and each
/// step is expensive, because all workers update the reference count of each folder on the way.
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
    folders.retain(|inner| usable_rights(inner).is_ok_and(|rights| rights.is_all()));
    folders
}

/// Opens a folder in a folder. Fails if the inner folder is on another file system, even if an automounter
/// would mount this file system only now.
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

/// Follows the links in a folder's path, because a rule holds for the target of the path. Even if a path is
/// below another one, its target may be elsewhere. `None` if the folder does not exist: then there is
/// nothing to allow.
fn resolve(folder: &GrantedPath) -> Result<Option<GrantedPath>, LayerError> {
    if folder.is_real {
        return Ok(Some(folder.clone()));
    }
    match folder.path.canonicalize() {
        Ok(path) => Ok(Some(GrantedPath::real(path, folder.rights))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LayerError::path(&folder.path, error)),
    }
}

/// Opens the folder at its resolved path. `None` if the folder no longer exists. Fails if a part of the path
/// has become a link since: the rule would allow another folder.
fn open(folder: &GrantedPath) -> Result<Option<OwnedFd>, LayerError> {
    match at_its_path(&folder.path, OFlags::PATH, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LayerError::path(&folder.path, error)),
    }
}

fn rule_error(folder: &GrantedPath, source: RulesetError) -> LayerError {
    LayerError::Rule { path: folder.path.clone(), source }
}

/// The rights that the kernel accepts: it refuses folder rights for a file.
fn usable_rights(opened: impl AsFd) -> io::Result<BitFlags<AccessFs>> {
    let kind = FileType::from_raw_mode(fstat(opened)?.st_mode);
    Ok(if kind == FileType::Directory { BitFlags::all() } else { AccessFs::from_file(ABI::V5) })
}

fn access_rights(rights: FolderRights) -> BitFlags<AccessFs> {
    use AccessFs::{
        IoctlDev, MakeDir, MakeReg, ReadDir, ReadFile, Refer, RemoveDir, RemoveFile, Truncate,
        WriteFile,
    };
    let read = ReadFile | ReadDir;
    // The kernel refuses a hard link through which a process would gain rights to the file. So a process
    // may not write in the folder in which it links files that it may only read.
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

/// Leaves out the folders whose rights follow from the rule of another folder. Rights add up along a path,
/// and each rule takes a few microseconds.
fn without_covered(folders: &[GrantedPath]) -> Vec<&GrantedPath> {
    let covers = |other: &GrantedPath, folder: &GrantedPath| {
        folder.path.starts_with(&other.path)
            && access_rights(other.rights).contains(access_rights(folder.rights))
    };
    let mut sorted: Vec<&GrantedPath> = folders.iter().collect();
    // Outer folders come first; for the same path, the rule with more rights comes first.
    sorted.sort_by_key(|folder| {
        (&folder.path, std::cmp::Reverse(access_rights(folder.rights).bits().count_ones()))
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
        let folders = [
            folder("/a/b", FolderRights::Read),
            folder("/a", FolderRights::Read),
            folder("/a", FolderRights::Read),
            folder("/a/out", FolderRights::Write),
            folder("/a/out/deep", FolderRights::Files),
            folder("/ab", FolderRights::Read),
            folder("/c", FolderRights::Read),
            folder("/c", FolderRights::ReadAndLink),
        ];
        let kept: Vec<_> = without_covered(&folders)
            .iter()
            .map(|f| (f.path.to_str().unwrap(), f.rights))
            .collect();
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
        let resolved: Vec<_> =
            folders.iter().filter_map(|folder| resolve(folder).unwrap()).collect();
        let kept: Vec<_> =
            without_covered(&resolved).iter().map(|folder| folder.path.clone()).collect();
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
        assert!(open(&resolve(&folder).unwrap().unwrap()).unwrap().is_some());
        std::fs::rename(base.join("data"), base.join("moved")).unwrap();
        assert!(open(&folder).unwrap().is_none());
        std::os::unix::fs::symlink("/", base.join("data")).unwrap();
        std::fs::create_dir_all(base.join("secret/deep")).unwrap();
        for target in ["moved", "secret"] {
            std::fs::remove_file(base.join("data")).unwrap();
            std::os::unix::fs::symlink(target, base.join("data")).unwrap();
            let error = open(&resolve(&folder).unwrap().unwrap()).unwrap_err().to_string();
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
            let granted = access_rights(allowed);
            let forbidden = Execute | MakeBlock | MakeChar | MakeFifo | MakeSock | MakeSym;
            assert!(!granted.intersects(forbidden), "{allowed:?}");
        }
        let stage = access_rights(FolderRights::Stage);
        assert!(!stage.intersects(AccessFs::WriteFile | AccessFs::Truncate), "{stage:?}");
    }
}
