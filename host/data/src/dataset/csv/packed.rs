//! Texts that are packed with gzip or zstd. The planner unpacks each of them once, into a file from which
//! slices can be read at any offset.

use super::{CutFile, Cutter, open_file};
use crate::dataset::{DatasetError, err};
use crate::model::{ByteSize, TextSlice};
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Texts up to this size may be packed at any ratio.
const SMALL_TEXT_BYTES: u64 = 256 << 20;
/// The maximum ratio of a larger text to its packed size. The ratio of usual text is 3 to 30, and
/// that of a single repeated line about 1000 with gzip. A large file with such a ratio may be meant to fill
/// the disk.
const MAX_RATIO: u64 = 200;
/// How many bytes are unpacked at once.
const BLOCK_BYTES: usize = 256 << 10;
/// The folder of unpacked texts in the spill folder.
const FOLDER: &str = "unpacked";

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    const ALL: [Self; 2] = [Self::Gzip, Self::Zstd];

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }

    /// The first bytes of files that are packed in this way.
    fn magic(self) -> &'static [u8] {
        match self {
            Self::Gzip => b"\x1F\x8B",
            Self::Zstd => b"\x28\xB5\x2F\xFD",
        }
    }
}

/// Why a text cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file itself is at fault.
    #[error(transparent)]
    File(#[from] DatasetError),
    /// The unpacked text cannot be written: for example, because there is no room.
    #[error("cannot write {}, where texts are unpacked: {error}; free space there", path.display())]
    Room {
        /// The unpacked text.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl From<OpenError> for DatasetError {
    fn from(error: OpenError) -> Self {
        Self(error.to_string())
    }
}

/// Opens texts, packed or not.
#[derive(Debug)]
pub struct Unpacker {
    spill: PathBuf,
    /// The paths in `spill` of the texts that are already unpacked.
    unpacked: RefCell<HashSet<String>>,
}

impl Unpacker {
    /// Unpacks into a folder in `spill`. If no file is packed, `spill` need not exist.
    pub fn new(spill: &Path) -> Self {
        Self { spill: spill.to_owned(), unpacked: RefCell::default() }
    }

    /// Opens the file `file` below `root` to cut it. Unpacks a packed file first, unless that was done
    /// before. Fails if the file cannot be read or unpacked, or would fill the disk.
    pub fn open<'c>(
        &self,
        cutter: &'c mut Cutter,
        root: &Path,
        file: String,
    ) -> Result<CutFile<'c>, OpenError> {
        let path = root.join(&file);
        let Some((packed, packing)) = detect_packing(&path, &file)? else {
            return Ok(cutter.open(root, file)?);
        };
        let name = self.unpack(packed, packing, &path)?;
        let text = open_file(&self.spill.join(&name))?;
        Ok(cutter.open_text(text, path, file, Some(name))?)
    }

    /// The folder to read the slice from: the spill folder for an unpacked text, or else `root`, the folder
    /// of the input.
    pub fn root_of<'r>(&'r self, slice: &TextSlice, root: &'r Path) -> &'r Path {
        if slice.unpacked.is_some() { &self.spill } else { root }
    }

    /// Unpacks a text, and returns its path in the spill folder.
    fn unpack(&self, packed: File, packing: Packing, path: &Path) -> Result<String, OpenError> {
        let digest = Sha256::digest(path.as_os_str().as_bytes());
        let name = format!("{FOLDER}/{}", crate::model::hex(&digest[..12]));
        let target = self.spill.join(&name);
        if self.unpacked.borrow().contains(&name) {
            return Ok(name);
        }
        let no_room = |error| OpenError::Room { path: target.clone(), error };
        fs::create_dir_all(self.spill.join(FOLDER)).map_err(no_room)?;
        let mut out = File::create(&target).map_err(no_room)?;
        let unpacked = unpack_into(packed, packing, path, &mut out, &target);
        if unpacked.is_err() {
            // Delete the partial text: it is useless, and it fills the disk.
            let _ = out.set_len(0).and_then(|()| fs::remove_file(&target));
        }
        unpacked?;
        self.unpacked.borrow_mut().insert(name.clone());
        Ok(name)
    }
}

/// The opened file, and how it is packed. `None` if it is not packed. Fails if the name is that of a packed
/// file but the contents are not packed.
fn detect_packing(path: &Path, name: &str) -> Result<Option<(File, Packing)>, DatasetError> {
    let file = open_file(path)?;
    let mut start = Vec::new();
    if let Err(error) = (&file).take(4).read_to_end(&mut start) {
        return err!("cannot read {}: {error}", path.display());
    }
    let packing = Packing::ALL.into_iter().find(|packing| start.starts_with(packing.magic()));
    let by_name = Packing::ALL.into_iter().find(|packing| name.ends_with(packing.ending()));
    match (packing, by_name) {
        (None, Some(named)) if !start.is_empty() => err!(
            "{} is not packed with {}, as its name says; give it another name, or pack it again",
            path.display(),
            named.name(),
        ),
        (None, _) => Ok(None),
        (Some(packing), _) => {
            // Unpacking begins at the start of the file.
            match io::Seek::rewind(&mut &file) {
                Ok(()) => Ok(Some((file, packing))),
                Err(error) => err!("cannot read {}: {error}", path.display()),
            }
        }
    }
}

/// Unpacks the file `packed` at `path` into `out`, the file at `target`. Fails if that would fill the disk.
fn unpack_into(
    packed: File,
    packing: Packing,
    path: &Path,
    out: &mut File,
    target: &Path,
) -> Result<(), OpenError> {
    let length = match packed.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) => Err(DatasetError(format!("cannot inspect {}: {error}", path.display())))?,
    };
    let broken = |error: &io::Error| {
        let problem = match error.kind() {
            ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
            _ => error.to_string(),
        };
        let name = packing.name();
        DatasetError(format!("{} cannot be unpacked with {name}: {problem}", path.display()))
    };
    let packed = BufReader::with_capacity(BLOCK_BYTES, packed);
    let mut text: Box<dyn BufRead> = match packing {
        Packing::Gzip => {
            Box::new(BufReader::with_capacity(BLOCK_BYTES, MultiGzDecoder::new(packed)))
        }
        Packing::Zstd => {
            let text = zstd::stream::read::Decoder::with_buffer(packed).map_err(|e| broken(&e))?;
            Box::new(BufReader::with_capacity(BLOCK_BYTES, text))
        }
    };
    let max_bytes = SMALL_TEXT_BYTES.max(length.saturating_mul(MAX_RATIO));
    let mut total = 0;
    loop {
        let block = match text.fill_buf() {
            Ok([]) => break,
            Ok(block) => block,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(&error).into()),
        };
        total += block.len() as u64;
        if total > max_bytes {
            Err(DatasetError(format!(
                "{} holds {} and unpacks to more than {}, which is more than {MAX_RATIO} times as much: it \
                 may be meant to fill the disk; unpack it yourself if you trust it",
                path.display(),
                ByteSize(length),
                ByteSize(max_bytes),
            )))?;
        }
        let count = block.len();
        let no_room = |error| OpenError::Room { path: target.to_owned(), error };
        out.write_all(block).map_err(no_room)?;
        text.consume(count);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CsvFormat, SliceSize};
    use flate2::{Compression, write::GzEncoder};

    const TEXT: &str = "a,b\n1,x\n2,\"y\nz\"\n";

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 1).unwrap()
    }

    /// The text with a checksum that does not match it.
    fn with_wrong_checksum(packing: Packing) -> Vec<u8> {
        let mut packed = match packing {
            Packing::Gzip => gzip(TEXT.as_bytes()),
            Packing::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
                encoder.include_checksum(true).unwrap();
                encoder.write_all(TEXT.as_bytes()).unwrap();
                encoder.finish().unwrap()
            }
        };
        // gzip stores the checksum before the length, and both have 4 bytes.
        let from_end = if packing == Packing::Gzip { 5 } else { 1 };
        let at = packed.len() - from_end;
        packed[at] ^= 1;
        packed
    }

    /// Reads the file `name`. Returns "good" if its rows are those of `TEXT`, or else the error.
    fn outcome(name: &str, content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("in");
        let spill = folder.path().join("spill");
        for folder in [&root, &spill] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(root.join(name), content).unwrap();
        let unpacker = Unpacker::new(&spill);
        let mut cutter = Cutter::new(&CsvFormat::default(), SliceSize::Bytes(1));
        // The second time it is already unpacked.
        for _ in 0..2 {
            let mut cut = match unpacker.open(&mut cutter, &root, name.to_owned()) {
                Ok(cut) => cut,
                Err(error) => {
                    let left = fs::read_dir(spill.join(FOLDER)).map_or(0, Iterator::count);
                    assert_eq!(left, 0, "no file is left in the spill folder");
                    return error.to_string().replace(folder.path().to_str().unwrap(), "/d");
                }
            };
            let mut lines = Vec::new();
            while let Some(slice) = cut.next_slice().unwrap() {
                assert_eq!(slice.file, name);
                let root = unpacker.root_of(&slice, &root);
                let mut buffer = Vec::new();
                let text = super::super::read_slice(root, &slice, &mut buffer).unwrap();
                lines.push(format!("{}: {:?}", slice.first_line, str::from_utf8(text).unwrap()));
            }
            assert_eq!(lines, ["2: \"1,x\\n\"", "3: \"2,\\\"y\\nz\\\"\\n\""]);
        }
        "good".to_owned()
    }

    #[test]
    fn packed_texts_are_read() {
        let text = TEXT.as_bytes();
        assert_eq!(outcome("t.csv", text), "good");
        assert_eq!(outcome("t.csv.gz", &gzip(text)), "good");
        assert_eq!(outcome("t.csv.zst", &zstd(text)), "good");
        assert_eq!(outcome("t.csv", &gzip(text)), "good", "by its content");
        let two = |pack: fn(&[u8]) -> Vec<u8>| [pack(&text[..9]), pack(&text[9..])].concat();
        assert_eq!(outcome("t.gz", &two(gzip)), "good", "two packed texts in one file");
        assert_eq!(outcome("t.zst", &two(zstd)), "good", "two packed texts in one file");
    }

    #[test]
    fn broken_packed_files_are_refused() {
        let bomb = zstd(&vec![b'\n'; SMALL_TEXT_BYTES as usize + 1]);
        let length = ByteSize(bomb.len() as u64).to_string();
        let reported = [
            outcome("t.gz", TEXT.as_bytes()),
            outcome("t.gz", &gzip(TEXT.as_bytes())[..20]),
            outcome("t.gz", &[&gzip(TEXT.as_bytes()), &b"more"[..]].concat()),
            outcome("t.zst", &zstd(TEXT.as_bytes())[..20]),
            outcome("t.zst", &[&zstd(TEXT.as_bytes()), &b"more"[..]].concat()),
            outcome("t.gz", &with_wrong_checksum(Packing::Gzip)),
            outcome("t.zst", &with_wrong_checksum(Packing::Zstd)),
            outcome("t.csv", &bomb).replace(&length, "N"),
        ];
        insta::assert_snapshot!(reported.join("\n"), @"
        /d/in/t.gz is not packed with gzip, as its name says; give it another name, or pack it again
        /d/in/t.gz cannot be unpacked with gzip: it ends too early
        /d/in/t.gz cannot be unpacked with gzip: it ends too early
        /d/in/t.zst cannot be unpacked with zstd: it ends too early
        /d/in/t.zst cannot be unpacked with zstd: Unknown frame descriptor
        /d/in/t.gz cannot be unpacked with gzip: corrupt gzip stream does not have a matching checksum
        /d/in/t.zst cannot be unpacked with zstd: Restored data doesn't match checksum
        /d/in/t.csv holds N and unpacks to more than 256 MB, which is more than 200 times as much: it may be meant to fill the disk; unpack it yourself if you trust it
        ");
    }
}
