//! A folder as a store. It may be on a file system that several machines share.

use super::files::opening::{at_its_path, folder_at_its_path};
use super::log_store::{LogStore, too_long};
use rustix::fs::{
    AtFlags, Mode, OFlags, RawDir, RenameFlags, linkat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use sandmill_model::random_name;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// Objects that are being written have names with this prefix.
const UNFINISHED: char = '.';

/// A folder as a store: each object is a file.
#[derive(Debug)]
pub struct FolderStore {
    /// An absolute path without links.
    root: PathBuf,
}

impl FolderStore {
    /// The folder at an absolute path without links. It need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder of an object, and the object's name in it.
    fn split<'a>(&self, name: &'a str) -> (PathBuf, &'a str) {
        match name.rsplit_once('/') {
            Some((folder, file)) => (self.root.join(folder), file),
            None => (self.root.clone(), name),
        }
    }
}

impl FolderStore {
    /// The names in a folder whose paths are `wanted`.
    fn names(&self, folder: &str, wanted: impl Fn(&Path) -> bool) -> io::Result<Vec<String>> {
        let path = self.root.join(folder);
        let Some(folder) = found(open_folder(&path))? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(folder, &mut buffer);
        while let Some(entry) = entries.next() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with(UNFINISHED) && wanted(&path.join(&name)) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Opens an object for reading. `None` if there is none of this name.
    fn open(&self, name: &str) -> io::Result<Option<File>> {
        let (path, name) = self.split(name);
        let Some(folder) = found(open_folder(&path))? else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = found(openat(&folder, name, flags, Mode::empty()).map_err(io::Error::from))?;
        Ok(file.map(File::from))
    }

    /// Syncs a folder and its parents, which may be new, too: the root's own name is in the folder around it.
    fn sync_folders(&self, folder: &Path) -> io::Result<()> {
        let outermost = self.root.parent().unwrap_or(&self.root);
        let within = folder.ancestors().take_while(|folder| folder.starts_with(outermost));
        within.map(open_folder).try_for_each(|folder| folder?.sync_all())
    }

    /// Creates a file, unless one of this name exists. `sync` makes its content durable before it gets its name.
    fn create_file(
        &self,
        name: &str,
        bytes: &[u8],
        sync: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<bool> {
        let (path, name) = self.split(name);
        let folder = open_folder(&path)?;
        let temporary = format!("{UNFINISHED}{}", random_name());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &*temporary, flags, Mode::RUSR | Mode::WUSR)?);
        let created = file
            .write_all(bytes)
            .and_then(|()| sync(&file))
            .and_then(|()| name_once(&folder, &temporary, name));
        let _ = unlinkat(&folder, &*temporary, AtFlags::empty());
        created
    }
}

impl LogStore for FolderStore {
    fn make_folder(&self, folder: &str) -> io::Result<()> {
        folder_at_its_path(&self.root.join(folder), Mode::RWXU).map(drop)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let created = self.create_file(name, bytes, File::sync_all)?;
        self.sync_folders(&self.split(name).0)?;
        Ok(created)
    }

    fn create_unsynced(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.create_file(name, bytes, |_| Ok(()))
    }

    fn make_durable(&self, name: &str) -> io::Result<()> {
        // The content was synced before the object got its name.
        self.sync_folders(&self.split(name).0)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (path, name) = self.split(name);
        let folder = open_folder(&path)?;
        found(unlinkat(folder, name, AtFlags::empty()).map_err(io::Error::from)).map(drop)
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.read_at_most(name, u64::MAX)
    }

    fn read_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open(name)? else { return Ok(None) };
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn read_at_most(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(too_long(name, most)) } else { Ok(Some(bytes)) }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.names(folder, |_| true)
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.names(folder, |path| path.symlink_metadata().is_ok_and(|found| found.is_dir()))
    }
}

fn open_folder(path: &Path) -> io::Result<File> {
    Ok(at_its_path(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?.into())
}

/// `None` if nothing was found.
fn found<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives a complete file its name, unless another file has it. Returns whether it got the name.
fn name_once(folder: &File, temporary: &str, name: &str) -> io::Result<bool> {
    let named = match linkat(folder, temporary, folder, name, AtFlags::empty()) {
        // File systems without hard links.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
            renameat_with(folder, temporary, folder, name, RenameFlags::NOREPLACE)
        }
        named => named,
    };
    match named {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "its file system can neither link a file nor rename it without replacing another one",
        )),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn store() -> (tempfile::TempDir, FolderStore) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("deep/er");
        (dir, FolderStore::new(root))
    }

    #[test]
    fn an_object_is_created_once() {
        let (_dir, store) = store();
        assert_eq!(store.read("a/b/1").unwrap(), None);
        assert_eq!(store.list("a/b").unwrap(), Vec::<String>::new());
        assert!(store.create("a/b/1", b"one").is_err());
        store.make_folder("a/b").unwrap();
        store.make_folder("a/b").unwrap();
        assert!(store.create("a/b/1", b"one").unwrap());
        assert!(!store.create("a/b/1", b"two").unwrap());
        assert!(store.create_unsynced("a/b/2", b"").unwrap());
        assert!(!store.create_unsynced("a/b/1", b"two").unwrap());
        assert_eq!(store.read("a/b/1").unwrap().unwrap(), b"one");
        let range = |offset, length| store.read_range("a/b/1", offset, length).unwrap().unwrap();
        assert_eq!((range(1, 1), range(1, 9), range(7, 1)), (vec![b'n'], b"ne".to_vec(), vec![]));
        assert_eq!(store.read_range("a/b/3", 0, 1).unwrap(), None);
        assert_eq!(store.read_at_most("a/b/1", 3).unwrap().unwrap(), b"one");
        assert_eq!(store.read_at_most("a/b/1", 2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(store.read_at_most("a/b/3", 2).unwrap(), None);
        let mut names = store.list("a/b").unwrap();
        names.sort();
        assert_eq!(names, ["1", "2"]);
        assert_eq!(store.folders("a").unwrap(), ["b"]);
        assert_eq!(store.folders("a/b").unwrap(), [""; 0]);
        let left = std::fs::read_dir(store.root.join("a/b")).unwrap().count();
        assert_eq!(left, 2, "no temporary file stays");
    }

    /// Of several threads, exactly one creates each object, and all read what it wrote.
    #[test]
    fn of_several_writers_one_wins() {
        let (_dir, store) = store();
        store.make_folder("log").unwrap();
        let (store, barrier) = (&store, &Barrier::new(4));
        let wins: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer: usize| {
                    scope.spawn(move || {
                        let won = |object: &usize| {
                            barrier.wait();
                            store.create(&format!("log/{object}"), &[writer as u8]).unwrap()
                        };
                        (0..20).filter(won).collect()
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let winner = |object: usize| {
            let mut winners = (0..4).filter(|writer| wins[*writer].contains(&object));
            (winners.next().unwrap(), winners.next())
        };
        for object in 0..20 {
            let (winner, other) = winner(object);
            assert_eq!(other, None);
            assert_eq!(store.read(&format!("log/{object}")).unwrap().unwrap(), [winner as u8]);
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let (dir, store) = store();
        store.make_folder("log").unwrap();
        store.create("log/1", b"one").unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "secret").unwrap();
        std::os::unix::fs::symlink(&outside, store.root.join("log/2")).unwrap();
        assert!(store.read("log/2").is_err());
        assert!(!store.create("log/2", b"two").unwrap());
        assert_eq!(std::fs::read(&outside).unwrap(), b"secret");
    }
}
