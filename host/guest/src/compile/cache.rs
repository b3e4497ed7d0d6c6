//! Compiled code on disk.
//!
//! A user who can write to the folder can make Sandmill run any code, so only the folder's owner may have
//! access. The folder is opened once, and all names are relative to the open folder.
//!
//! An entry consists of the compiled code, a byte for the kind of mini-batch that the entry script takes, and
//! a trailer. The trailer has one checksum over the code, the byte and the entry's name, to detect damage by
//! the disk.
//!
//! The cache writes an entry to a temporary file and renames it. A reader therefore never sees an incomplete
//! entry, even if a process is killed or several processes compile the same script. A process locks the
//! temporary file that it writes. A temporary file without a lock is left over from a killed process.

use super::hash::each_block;
use super::{AcceptedKind, CompileError, Compiler, EntryFile, Instrumentation, engine};
use crate::features::HAS_INFERENCE;
use crate::model::hex;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, TryLockError};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The magic bytes at the start of the trailer. They contain the trailer's version.
const MAGIC: &[u8; 8] = b"SMCODE04";
/// The trailer: the magic bytes and the checksum.
const TRAILER_BYTES: usize = MAGIC.len() + 16;
pub(super) const TEMPORARY_PREFIX: &str = "tmp-";
/// On a file system without locks, a temporary file is removed after this time.
const STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Compiled components, in a folder that only its owner can use.
#[derive(Debug)]
pub struct Cache {
    dir: Dir,
    path: PathBuf,
    compiler: Compiler,
}

/// Compiled code that has been checked.
#[derive(Debug)]
pub struct Compiled {
    /// The open file. Map this file, and do not open its path again.
    pub file: File,
    /// SHA-256 of the entry script's file, in hex.
    pub digest: String,
    /// The kind of mini-batch that the entry script takes; `None` if it does not declare a kind.
    pub takes: Option<AcceptedKind>,
    /// Whether the cache already had the code.
    pub cached: bool,
}

impl Cache {
    /// The cache's default folder. `None` if the environment does not name one.
    pub fn default_folder() -> Option<PathBuf> {
        default_dir(|name| std::env::var_os(name))
    }

    /// Opens or creates the cache: `dir`, else `$SANDMILL_CACHE_DIR`, else a folder in the user's cache
    /// folder (`$XDG_CACHE_HOME/sandmill` or `~/.cache/sandmill`). `compiler` compiles what the cache does
    /// not have.
    ///
    /// # Errors
    /// If the folder cannot be created, or other users have access to it.
    pub fn open(dir: Option<&Path>, compiler: &Compiler) -> Result<Self, CompileError> {
        let path = match dir {
            Some(dir) => dir.to_owned(),
            None => Self::default_folder().ok_or_else(|| {
                CompileError::new(
                    "there is no folder for the cache of compiled code: none of SANDMILL_CACHE_DIR, \
                     XDG_CACHE_HOME and HOME is set. Set SANDMILL_CACHE_DIR to one of your folders",
                )
            })?,
        };
        let fail = |error: io::Error| {
            CompileError::new(format!(
                "the cache of compiled code {} cannot be used: {error}. Name another folder in \
                 SANDMILL_CACHE_DIR",
                path.display()
            ))
        };
        make_folder(&path).map_err(fail)?;
        let opened = Dir::open_ambient_dir(&path, ambient_authority()).map_err(fail)?;
        check_private(&opened.dir_metadata().map_err(fail)?, &path)?;
        let cache = Self { dir: opened, path, compiler: compiler.clone() };
        cache.remove_stale();
        Ok(cache)
    }

    /// Checks that [`Cache::open`] could open or create this folder. Creates nothing.
    ///
    /// # Errors
    /// If this user cannot write to the folder, or other users have access to it.
    pub fn check(path: &Path) -> Result<(), CompileError> {
        // A relative path may have no ancestor that exists.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if let Ok(opened) = Dir::open_ambient_dir(&path, ambient_authority())
            && let Ok(metadata) = opened.dir_metadata()
        {
            check_private(&metadata, &path)?;
        }
        let existing = path.ancestors().find(|folder| folder.symlink_metadata().is_ok());
        let existing = existing.unwrap_or(Path::new("/"));
        let is_folder = if existing.is_dir() { Ok(()) } else { Err(rustix::io::Errno::NOTDIR) };
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        is_folder.and_then(|()| rustix::fs::access(existing, access)).map_err(|errno| {
            CompileError::new(format!(
                "this user cannot write to {}: {errno}. Name one of your folders in SANDMILL_CACHE_DIR",
                existing.display()
            ))
        })
    }

    /// Compiles a component, or a core module with WIT metadata, unless the cache has its code. A child
    /// process checks the contract and compiles. `say` receives a line for the user before a compilation,
    /// which may take many seconds.
    ///
    /// # Errors
    /// If the file cannot be read or is not an entry script (the text says why), or the cache cannot be
    /// written.
    pub fn prepare(
        &self,
        entry_script: &Path,
        with: Instrumentation,
        say: &mut dyn FnMut(&str),
    ) -> Result<Compiled, CompileError> {
        self.prepare_file(EntryFile::open(entry_script, &self.compiler)?, with, say)
    }

    /// Does the same as [`Cache::prepare`], for a file that is already open.
    ///
    /// # Errors
    /// As [`Cache::prepare`].
    pub fn prepare_file(
        &self,
        script: EntryFile,
        with: Instrumentation,
        say: &mut dyn FnMut(&str),
    ) -> Result<Compiled, CompileError> {
        if let Some(found) = self.prepared(&script, with)? {
            return Ok(found);
        }
        let path = script.path().display().to_string();
        let rewound = script.rewound();
        let (source, digest) = rewound.map_err(|error| {
            CompileError::new(format!("the entry script {path} cannot be read: {error}"))
        })?;
        let name = entry_name(&digest, with)?;
        say(&format!("compiling {path} (once; the result is kept)"));
        let temporary =
            TemporaryFile::create(&self.dir).map_err(|error| self.write_error(&error))?;
        self.compiler
            .compile(source, &temporary.file, &digest, with)
            .map_err(|error| CompileError(format!("{path}: {error}")))?;
        let file = temporary.publish(&name).map_err(|error| self.write_error(&error))?;
        Ok(Compiled { takes: read_takes(&file), file, digest, cached: false })
    }

    /// Returns the compiled code if the cache has it.
    ///
    /// # Errors
    /// If the machine's processor is not supported.
    pub fn prepared(
        &self,
        script: &EntryFile,
        with: Instrumentation,
    ) -> Result<Option<Compiled>, CompileError> {
        let digest = script.digest().to_owned();
        let file = self.lookup(&entry_name(&digest, with)?);
        Ok(file.map(|file| Compiled { takes: read_takes(&file), file, digest, cached: true }))
    }

    /// Returns the entry with this name. `None` if it does not exist, other users can access it, or it is
    /// damaged.
    fn lookup(&self, name: &str) -> Option<File> {
        let mut file = open(&self.dir, name).ok()?;
        let metadata = cap_std::fs::Metadata::from_file(&file).ok()?;
        if !metadata.is_file() || check_private(&metadata, Path::new(name)).is_err() {
            return None;
        }
        is_whole(&mut file, metadata.len(), name).ok()?.then_some(file)
    }

    fn write_error(&self, error: &io::Error) -> CompileError {
        CompileError::new(format!(
            "compiled code cannot be written to the cache {}: {error}. Free space there, or name \
             another folder in SANDMILL_CACHE_DIR",
            self.path.display()
        ))
    }

    fn remove_stale(&self) {
        let Ok(entries) = self.dir.entries() else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(TEMPORARY_PREFIX)) else {
                continue;
            };
            // Keep the lock (the open `file`) until the file is removed. Otherwise, the process that has just
            // created the file could lock it before the removal, and would write to a removed file.
            if let Ok(file) = open(&self.dir, name)
                && is_left_over(&file)
            {
                // Ignore the error: another process may have removed the file already.
                let _ = self.dir.remove_file(name);
            }
        }
    }
}

/// The name of an entry script's compiled code.
fn entry_name(digest: &str, with: Instrumentation) -> Result<String, CompileError> {
    Ok(format!("{digest}-{}", engine_key(with)?))
}

/// Opens a file of the cache for reading. Refuses a symbolic link, and does not block on a FIFO.
pub(super) fn open(dir: &Dir, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    dir.open_with(name, &options).map(cap_std::fs::File::into_std)
}

/// Whether a temporary file is left over: no process is writing to it. If it is, this call has locked it
/// through `file` (except on a file system without locks).
pub(super) fn is_left_over(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => {
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            let age_since = |time| SystemTime::now().duration_since(time).ok();
            modified.ok().and_then(age_since).is_some_and(|age| age > STALE_AFTER)
        }
    }
}

/// A file that is deleted on drop unless it is published.
struct TemporaryFile<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
}

impl<'a> TemporaryFile<'a> {
    fn create(dir: &'a Dir) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY_PREFIX}{}-{count}", std::process::id());
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            match dir.open_with(&name, &options) {
                Ok(file) => {
                    let file = file.into_std();
                    // The compiler process inherits the open file, and so the lock: the file stays locked
                    // until both processes have closed it. On a file system without locks, the file's age
                    // decides whether it is left over.
                    let _ = file.lock();
                    if file.metadata()?.nlink() > 0 {
                        return Ok(Self { dir, name, file });
                    }
                    // Another process removed the file as a leftover before we locked it.
                }
                // The file is left over from a process with the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends the trailer, syncs the file to disk, and renames it.
    fn publish(self, name: &str) -> io::Result<File> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let checksum = checksum(name, &mut file)?;
        file.write_all(MAGIC)?;
        file.write_all(&checksum)?;
        file.sync_all()?;
        // Open the file again, read-only: a worker must not be able to change the code that it
        // maps. Open it before the rename, because `sandmill cache clear` may remove the file once
        // it has its final name.
        let published = open(self.dir, &self.name)?;
        self.dir.rename(&self.name, self.dir, name)?;
        Ok(published)
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        // This fails after publishing, because the temporary name no longer exists.
        let _ = self.dir.remove_file(&self.name);
    }
}

/// Creates the cache's folder, accessible to its owner only, if it does not exist.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn default_dir(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SANDMILL_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("sandmill")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/sandmill")))
}

fn check_private(metadata: &cap_std::fs::Metadata, path: &Path) -> Result<(), CompileError> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(CompileError::new(format!(
            "the cache of compiled code {} does not belong to you (user {user}) but to user {}, \
             who could put any code into it. Name one of your folders in SANDMILL_CACHE_DIR",
            path.display(),
            metadata.uid()
        )));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CompileError::new(format!(
            "the cache of compiled code {} is open to others (mode {mode:03o}), who could put any \
             code into it. Close it with `chmod 700`, or name another folder in SANDMILL_CACHE_DIR",
            path.display()
        )));
    }
    Ok(())
}

/// Reads the byte before the trailer: the kind of mini-batch that the entry script takes.
fn read_takes(file: &File) -> Option<AcceptedKind> {
    let at = file.metadata().ok()?.len().checked_sub(TRAILER_BYTES as u64 + 1)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).ok()?;
    AcceptedKind::of_byte(byte[0])
}

/// Whether a file's trailer matches its name and content. Leaves the file position at the end.
fn is_whole(file: &mut impl Read, length: u64, name: &str) -> io::Result<bool> {
    let Some(code) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(false) };
    let expected = [&MAGIC[..], &checksum(name, &mut Read::by_ref(file).take(code))?].concat();
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact(&mut trailer)?;
    Ok(trailer[..] == expected)
}

/// The XXH3 hash of an entry's name and the rest of `reader`. The name is included so that a
/// renamed file is not a valid entry.
fn checksum(name: &str, reader: &mut impl Read) -> io::Result<[u8; 16]> {
    let mut hasher = twox_hash::xxhash3_128::Hasher::new();
    hasher.write(&[name.as_bytes(), &[0]].concat());
    each_block(reader, |block| {
        hasher.write(block);
        Ok(())
    })?;
    Ok(hasher.finish_128().to_le_bytes())
}

/// A hash of everything that compiled code depends on: the engine's version and settings, and the processor.
fn engine_key(with: Instrumentation) -> Result<String, CompileError> {
    struct HashInput(Sha256);
    impl Hasher for HashInput {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let engine = engine(with)
        .map_err(|error| CompileError::new(format!("the engine cannot start: {error:#}")))?;
    let mut input = HashInput(Sha256::new());
    MAGIC.hash(&mut input);
    engine.precompile_compatibility_hash().hash(&mut input);
    // Do not share entries with a build with inference, which accepts imports that this build
    // refuses.
    if !HAS_INFERENCE {
        "without inference".hash(&mut input);
    }
    Ok(hex(&input.0.finalize()[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;
    use crate::model::OsSandbox;
    use std::os::unix::fs::PermissionsExt;

    const NONE: Instrumentation =
        Instrumentation { fuel: false, profile: false, deterministic: false };

    fn missing_compiler() -> Compiler {
        Compiler::new(Path::new("/nonexistent"), OsSandbox::Off)
    }

    fn temporary_cache() -> (tempfile::TempDir, Cache) {
        let root = tempfile::tempdir().expect("temporary folder");
        let cache = Cache::open(Some(&root.path().join("cache")), &missing_compiler());
        (root, cache.expect("opens"))
    }

    #[test]
    fn the_folder_is_private() {
        let (root, cache) = temporary_cache();
        let path = root.path().join("cache");
        let mode = std::fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(cache);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).expect("chmod");
        let error = Cache::open(Some(&path), &missing_compiler()).expect_err("refused");
        assert!(error.to_string().contains("open to others (mode 777)"), "{error}");
        assert_eq!(Cache::check(&path), Err(error));
    }

    #[test]
    fn checking_a_folder_does_not_create_it() {
        let root = tempfile::tempdir().expect("temporary folder");
        let path = root.path().join("a/cache");
        assert_eq!(Cache::check(&path), Ok(()));
        assert!(!root.path().join("a").exists());
        std::fs::write(root.path().join("a"), "").expect("writes");
        let error = Cache::check(&path).expect_err("refused").to_string();
        assert!(error.contains("a: Not a directory"), "{error}");
    }

    #[test]
    fn only_whole_entries_are_used() {
        let (root, cache) = temporary_cache();
        let temporary = TemporaryFile::create(&cache.dir).expect("creates");
        (&temporary.file).write_all(b"compiled code").expect("writes");
        temporary.publish("entry").expect("publishes");
        assert!(cache.lookup("entry").is_some());
        assert!(cache.lookup("other").is_none());
        let path = root.path().join("cache/entry");
        let whole = std::fs::read(&path).expect("reads");
        for (damage, bytes) in [
            ("half written", whole[..whole.len() / 2].to_vec()),
            ("empty", Vec::new()),
            ("changed", [b"C", &whole[1..]].concat()),
        ] {
            std::fs::write(&path, bytes).expect("writes");
            assert!(cache.lookup("entry").is_none(), "{damage}");
        }
        std::fs::write(&path, &whole).expect("writes");
        assert!(cache.lookup("entry").is_some());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o622)).expect("chmod");
        assert!(cache.lookup("entry").is_none(), "others could have written it");
    }

    #[test]
    fn entries_belong_to_this_user_and_keep_their_name() {
        let (root, cache) = temporary_cache();
        let make = |name: &str| {
            let temporary = TemporaryFile::create(&cache.dir).expect("creates");
            (&temporary.file).write_all(b"compiled code").expect("writes");
            temporary.publish(name).expect("publishes");
            root.path().join("cache").join(name)
        };
        let path = make("entry");
        std::fs::copy(&path, path.with_file_name("copy")).expect("copies");
        assert!(cache.lookup("copy").is_none(), "the code of another script");
        std::os::unix::fs::symlink("entry", path.with_file_name("link")).expect("links");
        assert!(cache.lookup("link").is_none(), "a link");
        std::fs::create_dir(path.with_file_name("folder")).expect("makes");
        assert!(cache.lookup("folder").is_none(), "a folder");
        assert!(cache.lookup("entry").is_some());
        match std::os::unix::fs::chown(&path, Some(65534), None) {
            Ok(()) => assert!(cache.lookup("entry").is_none(), "another user's"),
            Err(error) => eprintln!("not tried: another user's entry ({error})"),
        }
    }

    #[test]
    fn leftover_temporary_files_are_removed() {
        let (root, cache) = temporary_cache();
        let path = root.path().join("cache");
        let count = || std::fs::read_dir(&path).expect("lists").count();
        let in_use = TemporaryFile::create(&cache.dir).expect("creates");
        std::fs::write(path.join("tmp-1-0"), b"half").expect("writes");
        std::fs::write(path.join("tmp-1-1"), b"").expect("writes");
        assert_eq!(count(), 3);
        let other = Cache::open(Some(&path), &missing_compiler()).expect("opens");
        assert_eq!(count(), 1);
        (&in_use.file).write_all(b"compiled code").expect("writes");
        in_use.publish("entry").expect("is still there");
        assert!(other.lookup("entry").is_some());
    }

    #[test]
    fn concurrent_compilations_make_one_entry() {
        let (root, _) = temporary_cache();
        let path = root.path().join("cache");
        let script = root.path().join("script.wasm");
        let component = testing::component("run-only", testing::RUN_EMPTY);
        std::fs::write(&script, component).expect("writes");
        std::thread::scope(|scope| {
            let prepare = || {
                let cache = Cache::open(Some(&path), &Compiler::here()).expect("opens");
                cache.prepare(&script, NONE, &mut |_| ()).expect("compiles");
            };
            (0..4).for_each(|_| drop(scope.spawn(prepare)));
        });
        assert_eq!(std::fs::read_dir(&path).expect("lists").count(), 1);
        let cache = Cache::open(Some(&path), &missing_compiler()).expect("opens");
        assert!(cache.prepare(&script, NONE, &mut |_| ()).expect("is there").cached);
    }

    #[test]
    fn no_files_remain_if_compiling_fails() {
        let (root, cache) = temporary_cache();
        let script = root.path().join("script.wasm");
        std::fs::write(&script, b"\0asm").expect("writes");
        let error =
            cache.prepare(&script, NONE, &mut |_| ()).expect_err("there is no such program");
        assert!(error.to_string().contains("/nonexistent"), "{error}");
        assert_eq!(std::fs::read_dir(root.path().join("cache")).expect("lists").count(), 0);
        let error =
            cache.prepare(root.path(), NONE, &mut |_| ()).expect_err("a folder").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn each_instrumentation_has_its_own_entries() {
        let all = std::array::from_fn::<_, 8, _>(|bits| {
            let [fuel, profile, deterministic] = [1, 2, 4].map(|bit| bits & bit != 0);
            engine_key(Instrumentation { fuel, profile, deterministic }).expect("a key")
        });
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), 8);
        assert_eq!(engine_key(NONE).expect("a key"), all[0]);
    }

    #[test]
    fn the_environment_names_the_folder() {
        let from = |pairs: &'static [(&str, &str)]| {
            default_dir(move |name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            })
        };
        assert_eq!(from(&[]), None);
        assert_eq!(from(&[("HOME", "/h")]), Some("/h/.cache/sandmill".into()));
        assert_eq!(from(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/sandmill".into()));
        let all = from(&[("HOME", "/h"), ("XDG_CACHE_HOME", ""), ("SANDMILL_CACHE_DIR", "/s")]);
        assert_eq!(all, Some("/s".into()));
    }
}
