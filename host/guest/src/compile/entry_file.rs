//! An entry script's file, opened and read once.

use super::task::SCRIPT_BYTES;
use super::{CompileError, Compiler, hash_until};
use crate::model::{ByteSize, hex};
use crate::opening;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Seek};
use std::path::{Path, PathBuf};

/// An open entry script, with the digest of its content. Replacing the file at its path has no effect on the
/// open file.
#[derive(Debug)]
pub struct EntryFile {
    file: File,
    path: PathBuf,
    digest: String,
}

impl EntryFile {
    /// Opens the file and computes its digest. Fails early if the caller stops `compiler`.
    ///
    /// # Errors
    /// If the file cannot be read, is not a regular file, or is too large for an entry script.
    pub fn open(path: &Path, compiler: &Compiler) -> Result<Self, CompileError> {
        Self::open_with(path, |file, _| digest_of(file, compiler))
    }

    /// Like [`EntryFile::open`], but calls `digest` for the SHA-256 of the file, in hex.
    ///
    /// # Errors
    /// As [`EntryFile::open`], or if `digest` fails.
    pub(crate) fn open_with(
        path: &Path,
        digest: impl FnOnce(&mut File, &Metadata) -> io::Result<String>,
    ) -> Result<Self, CompileError> {
        Self::read(path, opening::regular(path), digest)
    }

    /// Like [`EntryFile::open`], for a path in which the caller has resolved the symbolic links.
    ///
    /// # Errors
    /// As [`EntryFile::open`], or if the path now contains a link.
    pub fn open_at_its_path(path: &Path, compiler: &Compiler) -> Result<Self, CompileError> {
        Self::read(path, opening::regular_at_its_path(path), |file, _| digest_of(file, compiler))
    }

    fn read(
        path: &Path,
        opened: io::Result<(File, Metadata)>,
        digest: impl FnOnce(&mut File, &Metadata) -> io::Result<String>,
    ) -> Result<Self, CompileError> {
        let with_path =
            |text: String| CompileError(format!("the entry script {} {text}", path.display()));
        let (mut file, metadata) = opened.map_err(|error| with_path(describe_failure(&error)))?;
        if metadata.len() > SCRIPT_BYTES {
            let found = ByteSize(metadata.len()).rounded();
            let most = ByteSize(SCRIPT_BYTES);
            return Err(with_path(format!(
                "has {found}, but an entry script may have at most {most}; check the path"
            )));
        }
        let digest = digest(&mut file, &metadata)
            .map_err(|error| with_path(format!("cannot be read: {error}")))?;
        Ok(Self { file, path: path.to_owned(), digest })
    }

    /// The path at which the file was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The SHA-256 of the file, in hex. A job file can pin it with `entry_script_digest`.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The file, rewound to its start, and its digest.
    ///
    /// # Errors
    /// If the file cannot be rewound.
    pub(super) fn rewound(mut self) -> io::Result<(File, String)> {
        self.file.rewind()?;
        Ok((self.file, self.digest))
    }
}

fn digest_of(file: &mut File, compiler: &Compiler) -> io::Result<String> {
    hash_until(file, &|| compiler.is_stopped()).map(hex)
}

fn describe_failure(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::IsADirectory | ErrorKind::Other => format!(
            "cannot be used: {error}; name a component (.wasm), a core module (.wasm) or the folder of a guest crate or of C sources"
        ),
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OsSandbox;
    use std::time::{Duration, Instant};

    fn describe(path: &Path, compiler: &Compiler) -> String {
        EntryFile::open(path, compiler).unwrap_err().to_string()
    }

    fn compiler() -> Compiler {
        Compiler::new(Path::new("/nonexistent"), OsSandbox::Off)
    }

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let large = dir.path().join("large");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RUSR, 0).unwrap();
        File::create(&large).unwrap().set_len(8 << 40).unwrap();
        let began = Instant::now();
        let all = [fifo.as_path(), &large, dir.path(), Path::new("/dev/zero")];
        let all: String = all.iter().map(|path| describe(path, &compiler()) + "\n").collect();
        insta::assert_snapshot!(all.replace(dir.path().to_str().unwrap(), "/d"), @"
        the entry script /d/fifo cannot be used: it is not a regular file but a named pipe; name a component (.wasm), a core module (.wasm) or the folder of a guest crate or of C sources
        the entry script /d/large has 8192 GB, but an entry script may have at most 1 GB; check the path
        the entry script /d cannot be used: it is not a regular file but a folder; name a component (.wasm), a core module (.wasm) or the folder of a guest crate or of C sources
        the entry script /dev/zero cannot be used: it is not a regular file but a device; name a component (.wasm), a core module (.wasm) or the folder of a guest crate or of C sources
        ");
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn reading_a_large_file_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        File::create(&path).unwrap().set_len(SCRIPT_BYTES).unwrap();
        let began = Instant::now();
        let stop = move || began.elapsed() > Duration::from_millis(50);
        let error = describe(&path, &compiler().stopping(stop));
        assert!(error.ends_with("reading was stopped, as requested"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[test]
    fn replacing_a_file_does_not_change_the_open_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("script");
        std::fs::write(&path, "first").unwrap();
        let opened = EntryFile::open_at_its_path(&path, &compiler()).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let error = EntryFile::open_at_its_path(&path, &compiler()).unwrap_err().to_string();
        assert!(error.contains(" now has a link, and had none when"), "{error}");
        let (mut file, digest) = opened.rewound().unwrap();
        assert_eq!(io::read_to_string(&mut file).unwrap(), "first");
        assert_eq!(digest, super::super::hash::digest("first".as_bytes()));
    }
}
