//! Descriptors of mini-batches. They are small, and can be sent to any worker.

use super::{GUEST_INPUTS, MiniBatchId, Names, StoredSpill};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The work of one call of `run`. It names the data and never contains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiniBatch {
    /// The mini-batch's number within the job.
    pub id: MiniBatchId,
    /// Index into the job's [`Source`]s. 0 for [`MiniBatchWork::Void`].
    pub source: u32,
    /// The data.
    pub work: MiniBatchWork,
    /// The partition keys and their values, in the order of the job file. Empty without keys.
    pub partition: Vec<(String, String)>,
    /// A hash of the descriptor and, for tables, of what the planner knows about their files. See
    /// [`AttemptReport::stamp`](super::AttemptReport::stamp).
    pub stamp: u64,
    /// The files that could not be fetched from their store: for each, the index in [`MiniBatch::reads`], in
    /// ascending order, and the reason. [`MiniBatch::spill`] comes after these files. Only the leader sets this.
    pub unfetched: Vec<(u32, String)>,
    /// Where the job's store has what the mini-batch reads of the planner's files. `None` if it reads none, or if
    /// workers read these files themselves. Only the leader sets this.
    pub spill: Option<Box<StoredSpill>>,
}

/// The number of reasons whose text a descriptor keeps. A descriptor must fit into a message.
const MAX_REASONS: usize = 200;
/// The longest reason that a descriptor keeps, in bytes.
const MAX_REASON_BYTES: usize = 1000;

impl MiniBatch {
    /// A mini-batch without keys or stamp.
    pub fn new(id: MiniBatchId, source: u32, work: MiniBatchWork) -> Self {
        Self {
            id,
            source,
            work,
            partition: Vec::new(),
            stamp: 0,
            unfetched: Vec::new(),
            spill: None,
        }
    }

    /// Records which files could not be fetched, and why. The files must be in ascending order.
    pub fn set_unfetched(&mut self, mut unfetched: Vec<(u32, String)>) {
        for (index, (_, reason)) in unfetched.iter_mut().enumerate() {
            let most = if index < MAX_REASONS { MAX_REASON_BYTES } else { 0 };
            reason.truncate(reason.floor_char_boundary(most));
            if reason.is_empty() {
                "it could not be fetched".clone_into(reason);
            }
        }
        self.unfetched = unfetched;
    }

    /// The reason why a file could not be fetched. `file` is its index in [`MiniBatch::reads`]. `None` if the
    /// file was fetched.
    pub fn why_unfetched(&self, file: u32) -> Option<&str> {
        let found = self.unfetched.binary_search_by_key(&file, |(file, _)| *file).ok()?;
        self.unfetched.get(found).map(|(_, reason)| reason.as_str())
    }

    /// Whether the mini-batch reads objects of a store, and cannot be run without those that could not be fetched:
    /// none of its files was fetched, or a part of its table is missing.
    pub fn is_unfetched(&self) -> bool {
        if self.unfetched.is_empty() {
            return false;
        }
        let needs_all =
            matches!(self.work, MiniBatchWork::TextGroup(_) | MiniBatchWork::TableGroup(_));
        needs_all || self.unfetched.len() >= self.reads().len()
    }

    /// How many items the plan expects: files, or records that the planner counted.
    pub fn planned_items(&self) -> u64 {
        match &self.work {
            MiniBatchWork::Files(files) => files.len() as u64,
            MiniBatchWork::FileGroup(parts) => {
                parts.iter().map(|(_, files)| files.len() as u64).sum()
            }
            MiniBatchWork::Text(slice) => slice.rows,
            MiniBatchWork::TextGroup(slices) => {
                slices.iter().fold(0, |sum, (_, slice)| sum.saturating_add(slice.rows))
            }
            MiniBatchWork::Rows(rows) => rows.text.rows,
            MiniBatchWork::Table(slice) => slice.rows,
            MiniBatchWork::TableGroup(slices) => {
                slices.iter().fold(0, |sum, (_, slice)| sum.saturating_add(slice.rows))
            }
            MiniBatchWork::Unreadable(_) => 1,
            MiniBatchWork::Void => 0,
        }
    }

    /// The files of a mini-batch of whole files: for each, the index of its source, and its path below that
    /// source. Empty for other work.
    pub fn files(&self) -> impl Iterator<Item = (u32, &str)> {
        let (files, parts): (Option<&Names>, &[(u32, Names)]) = match &self.work {
            MiniBatchWork::Files(files) => (Some(files), &[]),
            MiniBatchWork::FileGroup(parts) => (None, parts),
            MiniBatchWork::Text(_)
            | MiniBatchWork::TextGroup(_)
            | MiniBatchWork::Rows(_)
            | MiniBatchWork::Table(_)
            | MiniBatchWork::TableGroup(_)
            | MiniBatchWork::Unreadable(_)
            | MiniBatchWork::Void => (None, &[]),
        };
        let files = files.into_iter().map(|files| (self.source, files));
        let by_source = files.chain(parts.iter().map(|(source, files)| (*source, files)));
        by_source.flat_map(|(source, files)| files.iter().map(move |file| (source, file)))
    }

    /// The files that must be fetched from their store before a worker gets the mini-batch: for each, the
    /// index of its source, and its path below that source. Unpacked texts and grouped rows need no object of
    /// a store, because the planner has copied them to other files. The files of a group are in the order of
    /// [`item_locations`](Self::item_locations), with unpacked ones unless all are.
    pub fn reads(&self) -> Vec<(u32, &str)> {
        match &self.work {
            MiniBatchWork::Files(_) | MiniBatchWork::FileGroup(_) => self.files().collect(),
            MiniBatchWork::Text(slice) if slice.unpacked.is_none() => {
                vec![(self.source, &slice.file)]
            }
            MiniBatchWork::Table(slice) => vec![(self.source, &slice.file)],
            MiniBatchWork::TextGroup(slices)
                if slices.iter().any(|(_, slice)| slice.unpacked.is_none()) =>
            {
                slices.iter().map(|(source, slice)| (*source, slice.file.as_str())).collect()
            }
            MiniBatchWork::TableGroup(slices) => {
                slices.iter().map(|(source, slice)| (*source, slice.file.as_str())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the mini-batch reads a file that the planner has made, such as an unpacked text.
    pub fn reads_spill(&self) -> bool {
        let is_unpacked = |slice: &TextSlice| slice.unpacked.is_some();
        match &self.work {
            MiniBatchWork::Text(slice) => is_unpacked(slice),
            MiniBatchWork::TextGroup(slices) => slices.iter().any(|(_, slice)| is_unpacked(slice)),
            MiniBatchWork::Rows(_) => true,
            _ => false,
        }
    }

    /// Where the mini-batch's items are: for files, each file; for rows, each file with the position of the
    /// first row. Empty if unknown.
    pub fn item_locations(&self) -> Vec<ItemLocation<'_>> {
        let whole_file = |(source, file)| ItemLocation { source, file, line: None, row: None };
        match &self.work {
            MiniBatchWork::Files(_) | MiniBatchWork::FileGroup(_) => {
                self.files().map(whole_file).collect()
            }
            MiniBatchWork::Text(slice) => vec![slice.start_location(self.source)],
            MiniBatchWork::TextGroup(slices) => {
                slices.iter().map(|(source, slice)| slice.start_location(*source)).collect()
            }
            MiniBatchWork::Table(slice) => vec![slice.start_location(self.source)],
            MiniBatchWork::TableGroup(slices) => {
                slices.iter().map(|(source, slice)| slice.start_location(*source)).collect()
            }
            MiniBatchWork::Unreadable(bad) => vec![whole_file((self.source, &bad.file))],
            MiniBatchWork::Rows(_) | MiniBatchWork::Void => Vec::new(),
        }
    }

    /// The partition keys with their values, as text for the user: `region=n, store=4`.
    pub fn keys(&self) -> String {
        let keys: Vec<_> =
            self.partition.iter().map(|(key, value)| format!("{key}={value}")).collect();
        keys.join(", ")
    }

    /// The approximate memory of the descriptor, in bytes.
    pub fn size(&self) -> usize {
        let names: usize = match &self.work {
            MiniBatchWork::Files(files) => files.size(),
            MiniBatchWork::FileGroup(parts) => parts.iter().map(|(_, files)| files.size()).sum(),
            MiniBatchWork::Text(slice) => slice.file.len(),
            MiniBatchWork::TextGroup(slices) => slices
                .iter()
                .map(|(_, slice)| slice.file.len() + size_of::<(u32, TextSlice)>())
                .sum(),
            MiniBatchWork::Table(slice) => slice.file.len(),
            MiniBatchWork::TableGroup(slices) => slices
                .iter()
                .map(|(_, slice)| slice.file.len() + size_of::<(u32, TableSlice)>())
                .sum(),
            MiniBatchWork::Unreadable(bad) => bad.file.len() + bad.reason.len(),
            MiniBatchWork::Rows(rows) => {
                rows.text.file.len() + rows.origins.len() + rows.names.len()
            }
            MiniBatchWork::Void => 0,
        };
        let keys = self.partition.iter();
        let keys: usize =
            keys.map(|(key, value)| key.len() + value.len() + 2 * size_of::<String>()).sum();
        let spill = if self.spill.is_some() { size_of::<StoredSpill>() } else { 0 };
        size_of::<Self>() + names + keys + spill
    }

    /// Where the data is, as text for the user, with the guest's paths: `/inputs/images/a.png and 9 more`,
    /// `/inputs/iris/iris.csv, 20 records from line 2`, `/inputs/sales with region=n, store=4: 20 records`.
    pub fn location(&self, sources: &[Source]) -> String {
        let folder = sources.get(self.source as usize).map_or("", |source| source.guest.as_str());
        if !self.partition.is_empty() {
            let items = self.planned_items();
            let keys = self.keys();
            let noun = match &self.work {
                MiniBatchWork::Files(_) | MiniBatchWork::FileGroup(_) => "file",
                _ => "record",
            };
            let plural = if items == 1 { "" } else { "s" };
            return format!("{folder} with {keys}: {items} {noun}{plural}");
        }
        match &self.work {
            MiniBatchWork::Files(files) => match (files.first(), files.len()) {
                (None, _) => folder.to_owned(),
                (Some(only), 1) => format!("{folder}/{only}"),
                (Some(first), count) => format!("{folder}/{first} and {} more", count - 1),
            },
            MiniBatchWork::Text(slice) => format!(
                "{folder}/{}, {} records from line {}",
                slice.file, slice.rows, slice.first_line
            ),
            MiniBatchWork::Table(slice) => format!(
                "{folder}/{}, {} rows from row {}",
                slice.file,
                slice.rows,
                slice.first_row.saturating_add(1)
            ),
            MiniBatchWork::Unreadable(bad) => format!("{folder}/{}", bad.file),
            MiniBatchWork::FileGroup(_)
            | MiniBatchWork::TextGroup(_)
            | MiniBatchWork::TableGroup(_)
            | MiniBatchWork::Rows(_) => folder.to_owned(),
            MiniBatchWork::Void => "no input".to_owned(),
        }
    }
}

/// Where items of a mini-batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemLocation<'a> {
    /// The index of the source.
    pub source: u32,
    /// The file, as a path below the source's root.
    pub file: &'a str,
    /// For rows of a text: the line on which they begin, from 1.
    pub line: Option<u64>,
    /// For rows of other tables: the first row in the file, from 1.
    pub row: Option<u64>,
}

/// The data of a mini-batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MiniBatchWork {
    /// Files, as paths below the source's root, with `/` between the parts.
    Files(Names),
    /// The files of one group by partition keys, if they are below several sources of one input: the index of
    /// each source, with its files as in [`MiniBatchWork::Files`].
    FileGroup(Vec<(u32, Names)>),
    /// A part of one text file: CSV or JSON lines.
    Text(TextSlice),
    /// One or more text files of one group by partition keys: for each, the index of its source, and the
    /// slice.
    TextGroup(Vec<(u32, TextSlice)>),
    /// Rows of one group by partition keys, gathered from many files.
    Rows(SpilledRows),
    /// No data.
    Void,
    /// Rows of one Parquet or Arrow file.
    Table(TableSlice),
    /// The rows of Parquet or Arrow files of one group by partition keys: for each, the index of its source,
    /// and the slice.
    TableGroup(Vec<(u32, TableSlice)>),
    /// A file that the planner could not read. It becomes a mini-batch of one item, which fails.
    Unreadable(BadFile),
}

/// A byte range of one text file that starts and ends at record boundaries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSlice {
    /// The file, as a path below the source's root.
    pub file: String,
    /// The first byte, after the BOM and the header line.
    pub offset: u64,
    /// The number of bytes. Never zero.
    pub length: u64,
    /// The line number of the first byte in the file, counted from 1.
    pub first_line: u64,
    /// Records in the slice.
    pub rows: u64,
    /// For a compressed file: the path of its unpacked text below [`JobDir::spill`](super::JobDir::spill).
    /// `offset` and `length` refer to that text.
    pub unpacked: Option<String>,
}

impl TextSlice {
    /// The location of the first row.
    fn start_location(&self, source: u32) -> ItemLocation<'_> {
        ItemLocation { source, file: &self.file, line: Some(self.first_line), row: None }
    }
}

/// Consecutive rows of one Parquet or Arrow file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSlice {
    /// The file, as a path below the source's root.
    pub file: String,
    /// The part of the file in which the slice begins: the number of a row group (Parquet), or the index of a
    /// record batch (Arrow).
    pub part: u64,
    /// The number of rows of that part before the slice.
    pub skip: u64,
    /// The number of the slice's first row in the file, from 0.
    pub first_row: u64,
    /// The number of rows.
    pub rows: u64,
    /// The approximate memory of the rows, in bytes.
    pub bytes: u64,
}

impl TableSlice {
    /// The location of the first row.
    fn start_location(&self, source: u32) -> ItemLocation<'_> {
        let row = Some(self.first_row.saturating_add(1));
        ItemLocation { source, file: &self.file, line: None, row }
    }
}

/// A file of an input that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadFile {
    /// The file, as a path below the source's root.
    pub file: String,
    /// The reason and the position in the file, as text for the user.
    pub reason: String,
}

/// Rows that were gathered from many files into files below
/// [`JobDir::spill`](super::JobDir::spill).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpilledRows {
    /// The rows as CSV text without a header. Columns that come from the files' paths are last.
    pub text: TextSlice,
    /// The file with the origin of each row: the number of an input file, and a line in it.
    pub origins: String,
    /// The position in `origins` at which the origins of these rows begin, in bytes.
    pub origins_offset: u64,
    /// The length of the origins of these rows, in bytes.
    pub origins_length: u64,
    /// The file that lists the names of the input files by number.
    pub names: String,
}

/// One resolved path of an input: a folder, with all or some of the files below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The input's name.
    pub dataset: String,
    /// The folder on the host. Absolute, without links.
    pub root: PathBuf,
    /// The guest's path of the folder, such as `/inputs/images`.
    pub guest: String,
    /// Which files below `root` belong to the input, as a glob over the relative path (`*.csv`, `a/**/*.png`,
    /// a single file's name, or several as in `{a.csv,b.csv}`). `None` means all files. If there is a
    /// pattern, the guest must not see the folder's other files.
    pub pattern: Option<String>,
    /// [`JobInput::partition_format`](super::JobInput::partition_format).
    pub partition_format: Option<String>,
    /// [`JobInput::take`](super::JobInput::take). It applies to all sources of the input together.
    #[serde(default)]
    pub take: Option<u64>,
    /// The manifest of the files below `root`, if these are objects of a store. The files may not have been
    /// fetched yet.
    pub manifest: Option<PathBuf>,
}

impl Source {
    /// A source of all files in a folder. The guest path is that of an input with a single path.
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
    /// The path under which the guest sees the folder. Absolute.
    pub guest: String,
    /// Whether the guest may write to the folder.
    pub writable: bool,
}

/// Whether a relative path certainly does not lead out of its folder, because it has no two dots in a row.
/// This check is fast, because there may be millions of paths, and nearly all of them pass it. If it returns
/// false, the caller must check the path's parts.
pub fn is_plainly_below(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.first() != Some(&b'/') && !bytes.contains(&0) && !bytes.windows(2).any(|two| two == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_text_needs_no_object() {
        let slice = TextSlice { file: "a.csv".to_owned(), ..TextSlice::sample() };
        let batch_of = |work| MiniBatch::new(MiniBatchId(0), 7, work);
        let mut batch = batch_of(MiniBatchWork::Text(slice.clone()));
        assert_eq!((batch.reads(), batch.is_unfetched()), (vec![(7, "a.csv")], false));
        batch.set_unfetched(vec![(0, "gone".to_owned())]);
        assert!(batch.is_unfetched());
        let unpacked = Some("0".to_owned());
        assert!(batch_of(MiniBatchWork::Text(TextSlice { unpacked, ..slice })).reads().is_empty());
        let files = batch_of(MiniBatchWork::Files(["a", "b"].into()));
        assert_eq!(files.reads(), files.files().collect::<Vec<_>>());
    }

    /// A table lacks rows if one of its files is missing. Of whole files, the others are processed.
    #[test]
    fn a_group_needs_all_of_its_objects() {
        let batch_of = |work| MiniBatch::new(MiniBatchId(0), 0, work);
        let slice = |file: &str| TextSlice { file: file.to_owned(), ..TextSlice::sample() };
        let unpacked = TextSlice { unpacked: Some("0".to_owned()), ..slice("b.csv.gz") };
        let group = MiniBatchWork::TextGroup(vec![(1, slice("a.csv")), (2, unpacked.clone())]);
        let mut group = batch_of(group);
        assert_eq!(group.reads(), [(1, "a.csv"), (2, "b.csv.gz")]);
        assert_eq!(group.reads().len(), group.item_locations().len());
        let mut files = batch_of(MiniBatchWork::Files(["a", "b"].into()));
        for batch in [&mut group, &mut files] {
            assert!(!batch.is_unfetched());
            batch.set_unfetched(vec![(0, "gone".to_owned())]);
        }
        assert!(group.is_unfetched());
        assert!(!files.is_unfetched());
        assert!(batch_of(MiniBatchWork::TextGroup(vec![(2, unpacked)])).reads().is_empty());
    }
}
