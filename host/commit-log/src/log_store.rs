//! What a commit log needs of a store.

use std::fmt::Debug;
use std::io;

/// The error of an object that is longer than `most` bytes.
pub fn too_long(name: &str, most: u64) -> io::Error {
    let text =
        format!("{name} is longer than {most} bytes, which no process of the job has written");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A store of small objects that several machines can reach. The names of objects consist of parts that are
/// separated by `/`. No object is ever overwritten.
pub trait LogStore: Debug + Send + Sync {
    /// Makes a folder, so that objects can be created in it. Does nothing if it exists, or if the store has no
    /// folders.
    ///
    /// # Errors
    /// If the store fails.
    fn make_folder(&self, folder: &str) -> io::Result<()>;

    /// Creates an object, unless one of this name exists. In a store with folders, this fails
    /// if the folder was removed: a leader that was replaced must not begin the log of a removed job again. Returns whether it was created. When this returns
    /// true, the object is durable, and every machine sees all of it or nothing.
    ///
    /// # Errors
    /// If the store fails. The object may exist nevertheless: only the reply may have been lost.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;

    /// As [`create`](Self::create), but faster if the store allows it: after a crash of the store, the object may be
    /// missing or damaged.
    ///
    /// # Errors
    /// If the store fails.
    fn create_unsynced(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.create(name, bytes)
    }

    /// Makes an object durable, if `create` failed after the object had got its name.
    ///
    /// # Errors
    /// If the store fails.
    fn make_durable(&self, name: &str) -> io::Result<()>;

    /// Removes an object, such as an old snapshot. Records of a log are never removed while their job may run. A
    /// missing object is not an error.
    ///
    /// # Errors
    /// If the store fails.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Reads an object. `None` if there is none of this name.
    ///
    /// # Errors
    /// If the store fails.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Reads a range of an object: less than asked for if the object is shorter. `None` if there is no object of this
    /// name.
    ///
    /// # Errors
    /// If the store fails.
    fn read_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let range = |bytes: Vec<u8>| {
            let from = bytes.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX));
            from.take(usize::try_from(length).unwrap_or(usize::MAX)).copied().collect()
        };
        Ok(self.read(name)?.map(range))
    }

    /// As [`read`](Self::read), but fails for an object that is longer than `most` bytes, without reading all of it.
    ///
    /// # Errors
    /// If the store fails, or the object is longer.
    fn read_at_most(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let found = self.read(name)?;
        let is_too_long = found.as_ref().is_some_and(|bytes| bytes.len() as u64 > most);
        if is_too_long { Err(too_long(name, most)) } else { Ok(found) }
    }

    /// The last parts of the names of all objects whose names consist of this folder, `/`, and one more part.
    /// In no particular order. In a store that is a folder, also the names of folders.
    ///
    /// # Errors
    /// If the store fails.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// The names of all folders that are directly in this folder, in no particular order.
    ///
    /// # Errors
    /// If the store fails.
    fn folders(&self, folder: &str) -> io::Result<Vec<String>>;
}
