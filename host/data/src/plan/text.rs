//! Cuts text files into slices.

use super::files::next_file;
use super::input::PlanInput;
use super::mini_batch_digest::MiniBatchDigest;
use super::plan_writer::Sender;
use super::share;
use super::{PlanError, refuse};
use crate::dataset::csv::{CutFile, Cutter, check_names};
use crate::dataset::json::{START, foreign};
use crate::dataset::{DatasetError, OpenError, Unpacker, foreign_file, foreign_start};
use crate::model::{Column, MiniBatchWork, SliceSize, TableFormat, TableKind, TextSlice};
use crate::protocol::FromPlanner;
use std::fs::Metadata;

/// A slice of a file.
pub(super) struct FoundSlice<'a> {
    /// The index of its source.
    pub(super) source: u32,
    /// The slice itself.
    pub(super) slice: TextSlice,
    /// The metadata of its file.
    pub(super) metadata: &'a Metadata,
}

/// Receives each slice.
pub(super) type Take<'t, 's> =
    dyn FnMut(&mut Sender<'s>, FoundSlice<'_>) -> Result<(), PlanError> + 't;

/// Passes all files of an input to `take`, in order, with the index of the source. A file outside of
/// Hive-style folders like the first file's becomes a mini-batch that fails. Fails if a folder cannot be
/// read, or if a file's path does not match the template in the job file.
pub(super) fn each_file<'s>(
    input: &PlanInput<'_>,
    sender: &mut Sender<'s>,
    take: &mut dyn FnMut(&mut Sender<'s>, u32, String) -> Result<(), PlanError>,
) -> Result<(), PlanError> {
    let mut files = 0;
    let bad = sender.bad();
    for (index, source) in (input.first..).zip(input.sources) {
        if input.left.get() == 0 {
            break;
        }
        // The listing of the first source may already have been begun.
        let begun = input.begun.take();
        let mut listing = begun.map_or_else(|| input.files(source), Ok)?;
        while input.left.get() > 0
            && let Some(file) = next_file(&mut listing, index, sender)?
        {
            if let Some(reason) = input.deadly(index, &file) {
                files += 1;
                sender.add_bad(index, file, reason.to_owned(), MiniBatchDigest::new())?;
                continue;
            }
            let path = source.root.join(&file);
            let next = input.following(&mut listing);
            if let Some(bad) = input.open(index, &file, next, sender)? {
                sender.add(index, MiniBatchWork::Unreadable(bad), MiniBatchDigest::new())?;
                continue;
            }
            files += 1;
            if let Some(reason) = input.foreign(index, &file)? {
                sender.add_bad(index, file, reason, MiniBatchDigest::new())?;
                continue;
            }
            match &input.path {
                Some(path) if path.folder_values(&file).is_none() && input.is_hive => {
                    let reason = format!(
                        "{} is not in folders like the input's first file, {path}; move it there, \
                         or set hive to false",
                        source.root.join(&file).display(),
                    );
                    sender.add_bad(index, file, reason, MiniBatchDigest::new())?;
                }
                Some(path) if path.folder_values(&file).is_none() => {
                    return refuse!(
                        "input '{}': the path {file} does not match partition_format '{path}', which \
                         has one folder for each level; move the file away, name the files by a glob \
                         that leaves it out, or change the template",
                        input.name(),
                    );
                }
                _ if sender.is_again(index, &file) => {
                    sender.begin_again();
                    take(sender, index, file.clone())?;
                    sender.end_again(index, file)?;
                }
                _ => take(sender, index, file)?,
            }
            if let Some(share) = sender.share() {
                share.pass(share::bytes(&path));
            }
        }
    }
    if files > 0 && sender.bad() - bad == files {
        let name = input.name();
        let kind = input.table.kind.name();
        let none = match files {
            1 => "its only file cannot".to_owned(),
            files => format!("none of its {files} files can"),
        };
        sender.send(FromPlanner::Notice(format!(
            "input {name}: {none} be read as {kind}; check its format and its path"
        )))?;
    }
    Ok(())
}

/// Passes all slices of an input to `take`, each of that `size`, in the order of the files. A file that
/// cannot be read, or has another header than the input, becomes a mini-batch that fails; so does the rest of
/// a file that cannot be read to its end. Fails as [`each_file`] does, and if there is no room to unpack
/// texts.
pub(super) fn each_slice<'s>(
    input: &PlanInput<'_>,
    format: &TableFormat,
    size: SliceSize,
    unpacker: &Unpacker,
    sender: &mut Sender<'s>,
    take: &mut Take<'_, 's>,
) -> Result<(), PlanError> {
    let mut cutter = match input.table.kind {
        TableKind::Csv => Cutter::new(input.csv(), size),
        _ => Cutter::of_lines(size),
    };
    let mut headers = Headers::new(input, format);
    each_file(input, sender, &mut |sender, index, file| {
        let root = &input.sources[(index - input.first) as usize].root;
        let opened = unpacker.open(&mut cutter, root, file.clone());
        let opened = opened.and_then(|cut| Ok((headers.check(&cut)?, cut.metadata()?, cut)));
        let (has_header, metadata, mut cut) = match opened {
            Ok(opened) => opened,
            Err(OpenError::File(error)) => {
                let path = root.join(&file);
                let what = foreign_file(&path, input.table.kind);
                let reason = what.map_or(error.0, |what| input.describe_foreign(&path, &what));
                return sender.add_bad(index, file, reason, MiniBatchDigest::new());
            }
            Err(error @ OpenError::Room { .. }) => return Err(DatasetError::from(error).into()),
        };
        if let Some(reason) = foreign_text(input, &cut) {
            let mut stamp = MiniBatchDigest::new();
            stamp.add_file((&metadata).into());
            return sender.add_bad(index, file, reason, stamp);
        }
        if cut.has_stray_header() {
            sender.notice(format!(
                "{}: a quote in the header is stray; the names are taken to be {}",
                cut.path().display(),
                cut.names().unwrap_or_default().join(", "),
            ))?;
        }
        cut.look_for_joined(headers.columns.len());
        if !has_header {
            sender.notice(format!("{} is empty and gives no mini-batch", cut.path().display()))?;
            return Ok(());
        }
        let mut rows = 0;
        loop {
            if input.is_cut_short() {
                cut.take_at_most(input.left.get());
            }
            match cut.next_slice() {
                Ok(Some(slice)) => {
                    // For a compressed file, the position in the compressed data is unknown.
                    if let Some(share) = sender.share().filter(|_| !cut.is_unpacked()) {
                        share.reach(slice.offset.saturating_add(slice.length));
                    }
                    rows += slice.rows;
                    input.took(slice.rows);
                    take(sender, FoundSlice { source: index, slice, metadata: &metadata })?;
                }
                Ok(None) => {
                    return notice_end(&cut, rows, headers.header, sender);
                }
                Err(error) => {
                    let mut stamp = MiniBatchDigest::new();
                    stamp.add_file((&metadata).into());
                    return sender.add_bad(index, file, error.0, stamp);
                }
            }
        }
    })
}

/// Why a text is not of the input's format: it may be other JSON than JSON lines, or not a text. `None` if it
/// is of the format.
fn foreign_text(input: &PlanInput<'_>, cut: &CutFile<'_>) -> Option<String> {
    let kind = input.table.kind;
    let (start, is_all) = cut.start(START);
    if kind == TableKind::Jsonl
        && let Some(foreign) = foreign((start, is_all))
    {
        return Some(foreign.describe(cut.path(), cut.is_unpacked()));
    }
    // A file whose header matches that of other files is of the format.
    let what = cut.header().is_empty().then(|| foreign_start(start, kind)).flatten()?;
    Some(input.describe_foreign(cut.path(), &what))
}

/// Sends notices about what is odd in a file with this number of rows.
fn notice_end(
    cut: &CutFile<'_>,
    rows: u64,
    header: bool,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    let path = cut.path().display();
    if rows == 0 {
        let what = if header { "holds a header and no rows" } else { "is empty" };
        sender.notice(format!("{path} {what} and gives no mini-batch"))?;
    }
    notice_joined(cut, sender)
}

/// Sends a notice if quoted fields may be records that two stray quotes hold together.
fn notice_joined(cut: &CutFile<'_>, sender: &mut Sender<'_>) -> Result<(), PlanError> {
    let (named, count) = cut.joined();
    if count == 0 {
        return Ok(());
    }
    let lines: Vec<_> = named.iter().map(|(first, last)| format!("{first} to {last}")).collect();
    let (fields, more) = match count - lines.len() as u64 {
        _ if count == 1 => ("a quoted field".to_owned(), String::new()),
        0 => (format!("{count} quoted fields"), String::new()),
        more => (format!("{count} quoted fields"), format!(" and {more} more")),
    };
    sender.notice(format!(
        "{}: lines that look like records are inside {fields}: lines {}{more}; if a quote is stray there, \
         set quoted_newlines to false, which makes each line a record",
        cut.path().display(),
        lines.join(", "),
    ))?;
    Ok(())
}

/// Checks the headers of an input's files against its columns.
struct Headers<'a> {
    header: bool,
    /// The columns in the files.
    columns: &'a [Column],
    /// The bytes of the last valid header: most files have the same.
    good: Option<Vec<u8>>,
    /// Where the columns come from: the job file if it names them, otherwise the first file's path.
    origin: Option<String>,
}

impl<'a> Headers<'a> {
    fn new(input: &PlanInput<'_>, format: &'a TableFormat) -> Self {
        let given = "the schema in the job file".to_owned();
        let origin = input.table.schema.is_some().then_some(given);
        let keys = input.path.as_ref().map_or(0, |path| path.keys().count());
        let columns = &format.columns[..format.columns.len().saturating_sub(keys)];
        let header = input.table.kind == TableKind::Csv && input.csv().header;
        Self { header, columns, good: None, origin }
    }

    /// Returns whether the file has a header; always true if the format has none. Fails if the header differs
    /// from the input's.
    fn check(&mut self, cut: &CutFile<'_>) -> Result<bool, DatasetError> {
        if !self.header || self.good.as_deref().is_some_and(|good| good == cut.header()) {
            return Ok(true);
        }
        let names = cut.names()?;
        if names.is_empty() {
            return Ok(false);
        }
        let origin = self.origin.get_or_insert_with(|| cut.path().display().to_string());
        let expected = self.columns.iter().map(|column| column.name.as_str());
        check_names(cut.path(), &names, expected, origin)?;
        self.good = Some(cut.header().to_vec());
        Ok(true)
    }
}
