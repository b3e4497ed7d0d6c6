//! What a mini-batch is: a small descriptor that can travel to any worker.

use super::{GUEST_INPUTS, MiniBatchId, Names};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What one call of `run` will work on. Says where the data is, never holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiniBatch {
    /// Number within the job.
    pub id: MiniBatchId,
    /// Index into the job's [`Source`]s. 0 for [`Work::Void`].
    pub source: u32,
    /// The data.
    pub work: Work,
    /// The partition keys and their values, in the order of the job file. Empty without keys.
    pub partition: Vec<(String, String)>,
    /// A digest of the descriptor and, for tables, of what the planner knows of their files. See
    /// [`AttemptReport::stamp`](super::AttemptReport::stamp).
    pub stamp: u64,
    /// Those of its files that could not be fetched from their store: the place among [`MiniBatch::reads`], from
    /// the first on, and why, for people. Only the leader knows.
    pub unfetched: Vec<(u32, String)>,
}

/// Reasons that a descriptor has, each with so many bytes at most: it must fit into a message.
const REASONS: usize = 200;
const REASON: usize = 1000;

impl MiniBatch {
    /// A mini-batch without keys or stamp.
    pub fn new(id: MiniBatchId, source: u32, work: Work) -> Self {
        Self { id, source, work, partition: Vec::new(), stamp: 0, unfetched: Vec::new() }
    }

    /// Notes which of its files could not be fetched, in their order, and why.
    pub fn set_unfetched(&mut self, mut unfetched: Vec<(u32, String)>) {
        for (index, (_, reason)) in unfetched.iter_mut().enumerate() {
            let most = if index < REASONS { REASON } else { 0 };
            reason.truncate(reason.floor_char_boundary(most));
            if reason.is_empty() {
                "it could not be fetched".clone_into(reason);
            }
        }
        self.unfetched = unfetched;
    }

    /// Why a file could not be fetched, by its place; none if it is here.
    pub fn why_unfetched(&self, place: u32) -> Option<&str> {
        let at = self.unfetched.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.unfetched.get(at).map(|(_, reason)| reason.as_str())
    }

    /// Whether it reads files, and none of them could be fetched.
    pub fn is_unfetched(&self) -> bool {
        !self.unfetched.is_empty() && self.unfetched.len() >= self.reads().len()
    }

    /// How many items the plan expects: files, or records counted while cutting.
    pub fn planned_items(&self) -> u64 {
        match &self.work {
            Work::Files(files) => files.len() as u64,
            Work::FileGroup(parts) => parts.iter().map(|(_, files)| files.len() as u64).sum(),
            Work::Text(slice) => slice.rows,
            Work::TextGroup(slices) => {
                slices.iter().fold(0, |sum, (_, slice)| sum.saturating_add(slice.rows))
            }
            Work::Rows(rows) => rows.text.rows,
            Work::Table(slice) => slice.rows,
            Work::TableGroup(slices) => {
                slices.iter().fold(0, |sum, (_, slice)| sum.saturating_add(slice.rows))
            }
            Work::Unreadable(_) => 1,
            Work::Void => 0,
        }
    }

    /// Its files, if it is one of files: the index of each one's source, and its path below that.
    pub fn files(&self) -> impl Iterator<Item = (u32, &str)> {
        let (files, parts): (Option<&Names>, &[(u32, Names)]) = match &self.work {
            Work::Files(files) => (Some(files), &[]),
            Work::FileGroup(parts) => (None, parts),
            Work::Text(_)
            | Work::TextGroup(_)
            | Work::Rows(_)
            | Work::Table(_)
            | Work::TableGroup(_)
            | Work::Unreadable(_)
            | Work::Void => (None, &[]),
        };
        let files = files.into_iter().map(|files| (self.source, files));
        let all = files.chain(parts.iter().map(|(source, files)| (*source, files)));
        all.flat_map(|(source, files)| files.iter().map(move |file| (source, file)))
    }

    /// The files that must have come from their store before a worker gets it: the index of each one's source, and
    /// its path below that. What was unpacked lies elsewhere, and rows are grouped when all of them are here.
    pub fn reads(&self) -> Vec<(u32, &str)> {
        match &self.work {
            Work::Files(_) | Work::FileGroup(_) => self.files().collect(),
            Work::Text(slice) if slice.unpacked.is_none() => vec![(self.source, &slice.file)],
            Work::Table(slice) => vec![(self.source, &slice.file)],
            _ => Vec::new(),
        }
    }

    /// Where its items lie, as far as that is known: each of its files, and of rows each file's with the
    /// place that they begin at.
    pub fn places(&self) -> Vec<Place<'_>> {
        let whole = |(source, file)| Place { source, file, line: None, row: None };
        match &self.work {
            Work::Files(_) | Work::FileGroup(_) => self.files().map(whole).collect(),
            Work::Text(slice) => vec![slice.place(self.source)],
            Work::TextGroup(slices) => slices.iter().map(|(at, slice)| slice.place(*at)).collect(),
            Work::Table(slice) => vec![slice.place(self.source)],
            Work::TableGroup(slices) => slices.iter().map(|(at, slice)| slice.place(*at)).collect(),
            Work::Unreadable(bad) => vec![whole((self.source, &bad.file))],
            Work::Rows(_) | Work::Void => Vec::new(),
        }
    }

    /// The partition keys with their values, in words for people: `region=n, store=4`.
    pub fn keys(&self) -> String {
        let keys: Vec<_> =
            self.partition.iter().map(|(key, value)| format!("{key}={value}")).collect();
        keys.join(", ")
    }

    /// Bytes of memory that the descriptor takes, about.
    pub fn size(&self) -> usize {
        let names: usize = match &self.work {
            Work::Files(files) => files.size(),
            Work::FileGroup(parts) => parts.iter().map(|(_, files)| files.size()).sum(),
            Work::Text(slice) => slice.file.len(),
            Work::TextGroup(slices) => {
                slices.iter().map(|(_, it)| it.file.len() + size_of::<(u32, TextSlice)>()).sum()
            }
            Work::Table(slice) => slice.file.len(),
            Work::TableGroup(slices) => {
                slices.iter().map(|(_, it)| it.file.len() + size_of::<(u32, TableSlice)>()).sum()
            }
            Work::Unreadable(bad) => bad.file.len() + bad.reason.len(),
            Work::Rows(rows) => rows.text.file.len() + rows.origins.len() + rows.names.len(),
            Work::Void => 0,
        };
        let keys = self.partition.iter();
        let keys: usize =
            keys.map(|(key, value)| key.len() + value.len() + 2 * size_of::<String>()).sum();
        size_of::<Self>() + names + keys
    }

    /// Where the data lies, in words for people, as the guest sees it: `/inputs/images/a.png and 9
    /// more`, `/inputs/iris/iris.csv, 20 records from line 2`, `/inputs/sales with region=n, store=4:
    /// 20 records`.
    pub fn location(&self, sources: &[Source]) -> String {
        let folder = sources.get(self.source as usize).map_or("", |source| source.guest.as_str());
        if !self.partition.is_empty() {
            let items = self.planned_items();
            let keys = self.keys();
            let noun = match &self.work {
                Work::Files(_) | Work::FileGroup(_) => "file",
                _ => "record",
            };
            let plural = if items == 1 { "" } else { "s" };
            return format!("{folder} with {keys}: {items} {noun}{plural}");
        }
        match &self.work {
            Work::Files(files) => match (files.first(), files.len()) {
                (None, _) => folder.to_owned(),
                (Some(only), 1) => format!("{folder}/{only}"),
                (Some(first), count) => format!("{folder}/{first} and {} more", count - 1),
            },
            Work::Text(slice) => format!(
                "{folder}/{}, {} records from line {}",
                slice.file, slice.rows, slice.first_line
            ),
            Work::Table(slice) => format!(
                "{folder}/{}, {} rows from row {}",
                slice.file,
                slice.rows,
                slice.first_row.saturating_add(1)
            ),
            Work::Unreadable(bad) => format!("{folder}/{}", bad.file),
            Work::FileGroup(_) | Work::TextGroup(_) | Work::TableGroup(_) | Work::Rows(_) => {
                folder.to_owned()
            }
            Work::Void => "no input".to_owned(),
        }
    }
}

/// Where items of a mini-batch lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The index of the source.
    pub source: u32,
    /// The file, as a path below the source's root.
    pub file: &'a str,
    /// The line that rows of a text begin on, from 1.
    pub line: Option<u64>,
    /// The first row of others in their file, from 1.
    pub row: Option<u64>,
}

/// The data of a mini-batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Files, as paths below the source's root, with `/` between the parts.
    Files(Names),
    /// The files of one group by partition keys that lie below several sources of one input: the
    /// source's index, each once, with files as in [`Work::Files`].
    FileGroup(Vec<(u32, Names)>),
    /// A part of one text file: CSV or JSON lines.
    Text(TextSlice),
    /// The text files of one group by partition keys, one or more: a source of the input, and the
    /// slice.
    TextGroup(Vec<(u32, TextSlice)>),
    /// Rows of one group by partition keys, gathered from many files.
    Rows(SpilledRows),
    /// No data.
    Void,
    /// Rows of one Parquet or Arrow file.
    Table(TableSlice),
    /// The rows of the Parquet or Arrow files of one group by partition keys: a source of the input, and
    /// the slice.
    TableGroup(Vec<(u32, TableSlice)>),
    /// A file that planning could not read: a mini-batch of one item, which fails.
    Unreadable(BadFile),
}

/// A byte range of one text file that starts and ends at record boundaries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSlice {
    /// The file, as a path below the source's root.
    pub file: String,
    /// First byte; past the BOM and the header line.
    pub offset: u64,
    /// Bytes. Never zero.
    pub length: u64,
    /// The line number of the first byte in the file, counted from 1.
    pub first_line: u64,
    /// Records in the slice.
    pub rows: u64,
    /// For a compressed file: its text, as a path below [`JobDir::spill`](super::JobDir::spill), that
    /// the range belongs to.
    pub unpacked: Option<String>,
}

impl TextSlice {
    fn place(&self, source: u32) -> Place<'_> {
        Place { source, file: &self.file, line: Some(self.first_line), row: None }
    }
}

/// Rows of one Parquet or Arrow file, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSlice {
    /// The file, as a path below the source's root.
    pub file: String,
    /// Where its first rows are: the number of a row group, or the place of a record batch.
    pub part: u64,
    /// Rows of that part that come before it.
    pub skip: u64,
    /// The number of its first row in the file, from 0.
    pub first_row: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes that they take in memory, about.
    pub bytes: u64,
}

impl TableSlice {
    fn place(&self, source: u32) -> Place<'_> {
        let row = Some(self.first_row.saturating_add(1));
        Place { source, file: &self.file, line: None, row }
    }
}

/// A file of an input that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadFile {
    /// The file, as a path below the source's root.
    pub file: String,
    /// Why, and where in it, for people.
    pub reason: String,
}

/// Rows that were gathered from many files, in files below [`JobDir::spill`](super::JobDir::spill).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpilledRows {
    /// The rows as CSV text without a header; the columns of the path come last.
    pub text: TextSlice,
    /// The file that says where each row comes from: for each, the number of a file and a line.
    pub origins: String,
    /// Where the rows' origins begin in it, in bytes.
    pub origins_offset: u64,
    /// And how many bytes they take.
    pub origins_length: u64,
    /// The file that gives those numbers names.
    pub names: String,
}

/// One path of an input, resolved: a folder, with all or some of the files below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The input's name.
    pub dataset: String,
    /// The folder on the host. Absolute, without links.
    pub root: PathBuf,
    /// Where the guest sees the folder, e.g. `/inputs/images`.
    pub guest: String,
    /// Which files below `root` belong to the input, as a glob over the relative path (`*.csv`,
    /// `a/**/*.png`, a single file's name, or several as in `{a.csv,b.csv}`); none means all. With
    /// a pattern, the folder's other files must stay invisible to the guest.
    pub pattern: Option<String>,
    /// [`Input::partition_format`](super::Input::partition_format).
    pub partition_format: Option<String>,
    /// [`Input::take`](super::Input::take): of all sources of the input together.
    #[serde(default)]
    pub take: Option<u64>,
    /// Where the list of the files below `root` is, if these are objects of a store. They need not be here yet.
    pub manifest: Option<PathBuf>,
}

impl Source {
    /// All files of a folder, where the guest sees those of an input with one path.
    pub fn new(dataset: &str, root: PathBuf) -> Self {
        Self {
            dataset: dataset.to_owned(),
            root,
            guest: format!("{GUEST_INPUTS}/{dataset}"),
            pattern: None,
            partition_format: None,
            take: None,
            manifest: None,
        }
    }
}

/// A folder of the host that a guest may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The folder on the host. Absolute.
    pub host: PathBuf,
    /// The guest's path for it. Absolute.
    pub guest: String,
    /// Whether the guest may write there.
    pub writable: bool,
}

/// Whether a path below a folder is seen at a glance to lead down only, as nearly all of millions are: it has no two dots
/// in a row. Of another one its parts tell.
pub fn is_plainly_below(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.first() != Some(&b'/') && !bytes.contains(&0) && !bytes.windows(2).any(|two| two == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_unpacked_needs_its_object_no_more() {
        let slice = TextSlice { file: "a.csv".to_owned(), ..TextSlice::sample() };
        let of = |work| MiniBatch::new(MiniBatchId(0), 7, work);
        let mut batch = of(Work::Text(slice.clone()));
        assert_eq!((batch.reads(), batch.is_unfetched()), (vec![(7, "a.csv")], false));
        batch.set_unfetched(vec![(0, "gone".to_owned())]);
        assert!(batch.is_unfetched());
        let unpacked = Some("0".to_owned());
        assert!(of(Work::Text(TextSlice { unpacked, ..slice })).reads().is_empty());
        let files = of(Work::Files(["a", "b"].into()));
        assert_eq!(files.reads(), files.files().collect::<Vec<_>>());
    }
}
