//! Cuts text files into slices.

use super::files::next_file;
use super::input::PlanInput;
use super::mini_batch_digest::MiniBatchDigest;
use super::plan_writer::PlanWriter;
use super::position::{FileTurn, FileVersions};
use super::share;
use super::{PlanError, err};
use crate::dataset::csv::{CutFile, Cutter, check_names};
use crate::dataset::json::{INSPECTED_BYTES, foreign};
use crate::dataset::{DatasetError, OpenError, Unpacker, foreign_file, foreign_start};
use crate::model::{Column, MiniBatchWork, SliceSize, TableFormat, TableKind, TextSlice};
use crate::protocol::{FromPlanner, PlanPlace};
use std::fs::Metadata;

/// A slice of a file.
pub(super) struct FoundSlice<'a> {
    /// The index of the file's source.
    pub(super) source: u32,
    pub(super) slice: TextSlice,
    pub(super) metadata: &'a Metadata,
    /// How many lines of the file come before the end of the slice.
    pub(super) lines: u64,
}

/// Receives each slice.
pub(super) type TakeTextSlice<'t, 's> =
    dyn FnMut(&mut PlanWriter<'s>, FoundSlice<'_>) -> Result<(), PlanError> + 't;

/// Receives each file, with the index of its source, and the place from which it is cut.
pub(super) type TakeFile<'t, 's> =
    dyn FnMut(&mut PlanWriter<'s>, u32, String, Option<PlanPlace>) -> Result<(), PlanError> + 't;

/// Passes all files of an input to `take`, in order, with the index of the source. If the plan continues, leaves out those that an earlier planner has cut. If the first file is in
/// Hive-style folders (`key=value`), a file that is not in folders with these keys becomes a mini-batch that
/// fails. Fails if a folder cannot be read, or if a file's path does not match the template in the job file.
pub(super) fn each_file<'s>(
    input: &PlanInput<'_>,
    writer: &mut PlanWriter<'s>,
    take: &mut TakeFile<'_, 's>,
) -> Result<(), PlanError> {
    let mut files = 0;
    let unreadable_before = writer.unreadable_files();
    for (index, source) in (input.first..).zip(input.sources) {
        if input.rows_left.get() == 0 {
            break;
        }
        // The listing of the first source may already have been begun.
        let begun = input.begun_listing.take();
        let mut listing = begun.map_or_else(|| input.files(source), Ok)?;
        let mut versions = FileVersions::new(source)?;
        while input.rows_left.get() > 0
            && let Some(file) = next_file(&mut listing, index, writer)?
        {
            let path = source.root.join(&file);
            let version = versions.of(source, &file)?;
            let begins_at = match writer.enter_file(index, &file, version)? {
                FileTurn::Cut => None,
                FileTurn::CutFrom(place) => Some(place),
                FileTurn::Skip => {
                    files += 1;
                    input.skip(&path);
                    if let Some(share) = writer.share() {
                        share.pass(share::bytes(&path));
                    }
                    continue;
                }
            };
            if let Some(reason) = input.deadly_reason(index, &file) {
                files += 1;
                writer.add_bad(index, file, reason.to_owned(), MiniBatchDigest::new())?;
                continue;
            }
            let next = input.following(&mut listing);
            if let Some(bad) = input.prepare_to_open(index, &file, next, writer)? {
                writer.add(index, MiniBatchWork::Unreadable(bad), MiniBatchDigest::new())?;
                continue;
            }
            files += 1;
            if let Some(reason) = input.check_format(index, &file)? {
                writer.add_bad(index, file, reason, MiniBatchDigest::new())?;
                continue;
            }
            match &input.path {
                Some(path) if path.folder_values(&file).is_none() && input.is_hive => {
                    let reason = format!(
                        "{} is not in folders like the input's first file, {path}; move it there, \
                         or set hive to false",
                        source.root.join(&file).display(),
                    );
                    writer.add_bad(index, file, reason, MiniBatchDigest::new())?;
                }
                Some(path) if path.folder_values(&file).is_none() => {
                    return err!(
                        "input '{}': the path {file} does not match partition_format '{path}', which \
                         has one folder for each level; move the file away, name the files with a glob \
                         that leaves it out, or change the template",
                        input.name(),
                    );
                }
                _ if writer.is_reread(index, &file) => {
                    writer.begin_reread();
                    take(writer, index, file.clone(), None)?;
                    writer.end_reread(index, file)?;
                }
                _ => take(writer, index, file, begins_at)?,
            }
            if let Some(share) = writer.share() {
                share.pass(share::bytes(&path));
            }
        }
    }
    if files > 0 && writer.unreadable_files() - unreadable_before == files {
        let name = input.name();
        let kind = input.table.kind.name();
        let failed_files = match files {
            1 => "its only file cannot".to_owned(),
            files => format!("none of its {files} files can"),
        };
        writer.send(FromPlanner::Notice(format!(
            "input {name}: {failed_files} be read as {kind}; check its format and its path"
        )))?;
    }
    Ok(())
}

/// Passes all slices of an input to `take`, in the order of the files. Each slice has the given size. A file
/// that cannot be read, or has another header than the input, becomes a mini-batch that fails. If a file
/// cannot be read to its end, its rest becomes such a mini-batch. Fails as [`each_file`] does, and if the
/// disk has no room to unpack texts.
pub(super) fn each_slice<'s>(
    input: &PlanInput<'_>,
    format: &TableFormat,
    size: SliceSize,
    unpacker: &Unpacker,
    writer: &mut PlanWriter<'s>,
    take: &mut TakeTextSlice<'_, 's>,
) -> Result<(), PlanError> {
    let mut cutter = match input.table.kind {
        TableKind::Csv => Cutter::new(input.csv(), size),
        _ => Cutter::of_lines(size),
    };
    let mut headers = Headers::new(input, format);
    each_file(input, writer, &mut |writer, index, file, begins_at| {
        headers.skip_to(input.first_skipped.borrow().as_ref());
        let root = &input.sources[(index - input.first) as usize].root;
        let opened = unpacker.open(&mut cutter, root, file.clone());
        let opened = opened.and_then(|cut| Ok((headers.check(&cut)?, cut.metadata()?, cut)));
        let (has_header, metadata, mut cut) = match opened {
            Ok(opened) => opened,
            Err(OpenError::File(error)) => {
                let path = root.join(&file);
                let foreign = foreign_file(&path, input.table.kind);
                let reason = foreign.map_or(error.0, |what| input.describe_foreign(&path, &what));
                return writer.add_bad(index, file, reason, MiniBatchDigest::new());
            }
            Err(error @ OpenError::Room { .. }) => return Err(DatasetError::from(error).into()),
        };
        if let Some(reason) = foreign_text(input, &cut) {
            let mut stamp = MiniBatchDigest::new();
            stamp.add_file((&metadata).into());
            return writer.add_bad(index, file, reason, stamp);
        }
        if cut.has_stray_header() {
            writer.notice(format!(
                "{}: a quote in the header is stray; the names are taken to be {}",
                cut.path().display(),
                cut.names().unwrap_or_default().join(", "),
            ))?;
        }
        if cut.is_unpacked() && !input.request.stores_spill {
            // Mini-batches of the next planner could not be read before it has unpacked the file again.
            writer.end_positions();
        }
        cut.look_for_joined(headers.columns.len());
        if !has_header {
            writer.notice(format!("{} is empty and gives no mini-batch", cut.path().display()))?;
            return Ok(());
        }
        let mut rows = 0;
        if let Some(PlanPlace::Text { offset, lines }) = begins_at {
            cut.continue_from(offset, lines)?;
            rows = 1;
        }
        loop {
            if input.is_limited() {
                cut.set_max_records(input.rows_left.get());
            }
            match cut.next_slice() {
                Ok(Some(slice)) => {
                    // For a compressed file, the position in the compressed data is unknown.
                    if let Some(share) = writer.share().filter(|_| !cut.is_unpacked()) {
                        share.reach(slice.offset.saturating_add(slice.length));
                    }
                    rows += slice.rows;
                    input.subtract_used(slice.rows);
                    let lines = cut.lines();
                    take(writer, FoundSlice { source: index, slice, metadata: &metadata, lines })?;
                }
                Ok(None) => {
                    return notice_end(&cut, rows, headers.has_headers, writer);
                }
                Err(error) => {
                    let mut stamp = MiniBatchDigest::new();
                    stamp.add_file((&metadata).into());
                    return writer.add_bad(index, file, error.0, stamp);
                }
            }
        }
    })
}

/// Why a file does not have the input's format: it may be JSON but not JSON lines, or not text. `None` if the
/// file has the format.
fn foreign_text(input: &PlanInput<'_>, cut: &CutFile<'_>) -> Option<String> {
    let kind = input.table.kind;
    let (start, is_all) = cut.start(INSPECTED_BYTES);
    if kind == TableKind::Jsonl
        && let Some(foreign) = foreign((start, is_all))
    {
        return Some(foreign.describe(cut.path(), cut.is_unpacked()));
    }
    // A file whose header matches the header of other files has the format.
    let foreign = cut.header().is_empty().then(|| foreign_start(start, kind)).flatten()?;
    Some(input.describe_foreign(cut.path(), &foreign))
}

/// Sends notices after a file was cut: if it has no rows, and if it has stray quotes.
fn notice_end(
    cut: &CutFile<'_>,
    rows: u64,
    has_header: bool,
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    let path = cut.path().display();
    if rows == 0 {
        let content = if has_header { "holds a header and no rows" } else { "is empty" };
        writer.notice(format!("{path} {content} and gives no mini-batch"))?;
    }
    notice_joined(cut, writer)
}

/// Sends a notice if lines inside quoted fields look like records. Two stray quotes may have joined them.
fn notice_joined(cut: &CutFile<'_>, writer: &mut PlanWriter<'_>) -> Result<(), PlanError> {
    let (named_lines, count) = cut.joined();
    if count == 0 {
        return Ok(());
    }
    let lines: Vec<_> =
        named_lines.iter().map(|(first, last)| format!("{first} to {last}")).collect();
    let (fields, more) = match count - lines.len() as u64 {
        _ if count == 1 => ("a quoted field".to_owned(), String::new()),
        0 => (format!("{count} quoted fields"), String::new()),
        more => (format!("{count} quoted fields"), format!(" and {more} more")),
    };
    writer.notice(format!(
        "{}: lines that look like records are inside {fields}: lines {}{more}; if a quote is stray there, \
         set quoted_newlines to false, which makes each line a record",
        cut.path().display(),
        lines.join(", "),
    ))?;
    Ok(())
}

/// Checks the headers of an input's files against its columns.
struct Headers<'a> {
    /// Whether the format has headers.
    has_headers: bool,
    /// The columns in the files.
    columns: &'a [Column],
    /// The bytes of the last valid header. Most files have the same header.
    last_valid: Option<Vec<u8>>,
    /// Where the columns come from, for messages: the job file or the path of the first file.
    origin: Option<String>,
}

impl<'a> Headers<'a> {
    fn new(input: &PlanInput<'_>, format: &'a TableFormat) -> Self {
        let given = "the schema in the job file".to_owned();
        let origin = input.table.schema.is_some().then_some(given);
        let keys = input.path.as_ref().map_or(0, |path| path.keys().count());
        let columns = &format.columns[..format.columns.len().saturating_sub(keys)];
        let has_headers = input.table.kind == TableKind::Csv && input.csv().header;
        Self { has_headers, columns, last_valid: None, origin }
    }

    /// Notes the first file that an earlier planner has cut, if there is one.
    fn skip_to(&mut self, first: Option<&String>) {
        self.origin = self.origin.take().or_else(|| first.cloned());
    }

    /// Returns whether the file has a header. Always true if the format has no headers. Fails if the header
    /// differs from the input's columns.
    fn check(&mut self, cut: &CutFile<'_>) -> Result<bool, DatasetError> {
        if !self.has_headers || self.last_valid.as_deref().is_some_and(|last| last == cut.header())
        {
            return Ok(true);
        }
        let names = cut.names()?;
        if names.is_empty() {
            return Ok(false);
        }
        let origin = self.origin.get_or_insert_with(|| cut.path().display().to_string());
        let expected = self.columns.iter().map(|column| column.name.as_str());
        check_names(cut.path(), &names, expected, origin)?;
        self.last_valid = Some(cut.header().to_vec());
        Ok(true)
    }
}
