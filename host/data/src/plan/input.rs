//! An input of tables: its files, and which of their columns the job uses.

use super::groups::format_of;
use super::plan_writer::PlanWriter;
use super::{PlanError, columns, err};
use crate::dataset::columnar::TypedTableFile;
use crate::dataset::{OpenRoot, SourceListing, foreign_file};
use crate::model::{BadFile, CsvFormat, PartitionFormat, Source, TableInput, count_u32};
use crate::protocol::{ObjectsToAsk, PlanRequest};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

/// The most files that the planner names in advance: as many as are fetched at the same time.
const MAX_FILES_AHEAD: usize = 16;

/// How many files at most are checked for their format. The checks end at the first file with the right
/// format. If all checked files have another format, the input is refused.
const CHECKED_FILES: u32 = 2;

/// The endings of files that hold uncommitted changes of a database.
const UNCOMMITTED_SUFFIXES: [&str; 2] = ["-wal", "-journal"];

/// One input: the index of its first source, its sources, and what the job file says about its tables.
pub(super) struct PlanInput<'a> {
    pub(super) first: u32,
    pub(super) sources: &'a [Source],
    pub(super) table: &'a TableInput,
    pub(super) request: &'a PlanRequest,
    /// Whether the columns are inferred from all files, or only from the beginning of the input.
    pub(super) infers_from_all: bool,
    /// The template that makes the last columns from the files' paths.
    pub(super) path: Option<PartitionFormat>,
    /// How many more rows of the input the plan may use.
    pub(super) rows_left: Cell<u64>,
    /// Whether `path` comes from Hive-style folders (`key=value`) and not from the job file.
    pub(super) is_hive: bool,
    /// The first source's listing, if it was begun to find Hive-style folders.
    pub(super) begun_listing: RefCell<Option<SourceListing>>,
    /// The most recently inspected source of a store.
    pub(super) last_root: RefCell<Option<(u32, OpenRoot)>>,
    /// The file that the columns were learned from, if it is still open. Usually this file is cut next.
    pub(super) learned_file: RefCell<Option<(PathBuf, TypedTableFile)>>,
    /// The first file that an earlier planner has cut, if the plan continues.
    pub(super) first_skipped: RefCell<Option<String>>,
    /// How many files were checked for their format.
    format_checks: Cell<u32>,
    /// Why the first checked file has another format.
    first_foreign: RefCell<Option<String>>,
}

impl PlanInput<'_> {
    pub(super) fn name(&self) -> &str {
        &self.sources[0].dataset
    }

    /// Subtracts rows from those that the plan may still use. Does nothing if the plan may use all
    /// rows.
    pub(super) fn subtract_used(&self, rows: u64) {
        let left = self.rows_left.get();
        if left < u64::MAX {
            self.rows_left.set(left.saturating_sub(rows));
        }
    }

    /// Whether the plan may use only some of the input's rows.
    pub(super) fn is_limited(&self) -> bool {
        self.sources[0].take.is_some()
    }

    /// The files of one of the input's sources.
    pub(super) fn files(&self, source: &Source) -> Result<SourceListing, PlanError> {
        listing(source, self.table)
    }

    /// Why the planner must not open a file: the file killed an earlier planner. `None` if the planner may
    /// open the file.
    pub(super) fn deadly_reason(&self, source: u32, file: &str) -> Option<&str> {
        let mut deadly = self.request.deadly.iter();
        let bad = deadly.find(|(index, bad)| *index == source && bad.file == file);
        bad.map(|(_, bad)| bad.reason.as_str())
    }

    /// Whether a file may be opened. If it is an object of a store, waits until it is fetched.
    pub(super) fn may_open(
        &self,
        source: u32,
        file: &str,
        listing: &mut SourceListing,
        writer: &mut PlanWriter<'_>,
    ) -> Result<bool, PlanError> {
        if self.deadly_reason(source, file).is_some() {
            return Ok(false);
        }
        // Without full inference the planner may stop after any file, so it names no following files.
        let next = if self.infers_from_all { self.following(listing) } else { Vec::new() };
        if self.prepare_to_open(source, file, next, writer)?.is_some() {
            return Ok(false);
        }
        Ok(self.check_format(source, file)?.is_none())
    }

    /// Checks the format of a file, if it is one of the first files. Returns the reason if the file has
    /// another format. Fails if all of the first files have another format.
    pub(super) fn check_format(
        &self,
        source: u32,
        file: &str,
    ) -> Result<Option<String>, PlanError> {
        let count = self.format_checks.get();
        if count == CHECKED_FILES {
            return Ok(None);
        }
        let path = self.source(source).root.join(file);
        if path.metadata().is_ok_and(|found| found.len() == 0) {
            return Ok(None);
        }
        let Some(found_format) = foreign_file(&path, self.table.kind) else {
            self.format_checks.set(CHECKED_FILES);
            return Ok(None);
        };
        let reason = self.describe_foreign(&path, &found_format);
        self.format_checks.set(count + 1);
        let first = self.first_foreign.borrow_mut().get_or_insert_with(|| reason.clone()).clone();
        if count + 1 == CHECKED_FILES {
            return err!("input '{}': {first}", self.name());
        }
        Ok(Some(reason))
    }

    /// Leaves out a file that an earlier planner has cut. So the input has the right format.
    pub(super) fn skip(&self, path: &Path) {
        self.format_checks.set(CHECKED_FILES);
        self.first_skipped.borrow_mut().get_or_insert_with(|| path.display().to_string());
    }

    /// Fails if all checked files have another format.
    pub(super) fn refuse_foreign(&self) -> Result<(), PlanError> {
        let first = self.first_foreign.borrow();
        match (&*first, self.format_checks.get()) {
            (Some(first), 1..CHECKED_FILES) => err!("input '{}': {first}", self.name()),
            _ => Ok(()),
        }
    }

    /// The message for a file that has another format than the input. `found_format` is that format, with
    /// advice.
    pub(super) fn describe_foreign(&self, path: &Path, found_format: &str) -> String {
        let format = self.table.kind.name();
        format!(
            "{} is not {format}, but {found_format}; or name the files with a glob that leaves it out",
            path.display()
        )
    }

    /// The next files of a listing; empty if no process fetches them in advance.
    pub(super) fn following(&self, listing: &mut SourceListing) -> Vec<String> {
        if self.request.asks != ObjectsToAsk::Each {
            return Vec::new();
        }
        listing.look_ahead(MAX_FILES_AHEAD);
        listing.ahead().take(MAX_FILES_AHEAD).map(str::to_owned).collect()
    }

    /// Prepares to open a file. If it is an object of a store, waits until it is fetched. Otherwise reports
    /// its name to the leader, if the request says so. Returns the reason if the file cannot be fetched.
    /// `next` are the files that follow.
    pub(super) fn prepare_to_open(
        &self,
        source: u32,
        file: &str,
        next: Vec<String>,
        writer: &mut PlanWriter<'_>,
    ) -> Result<Option<BadFile>, PlanError> {
        if self.table.kind.is_database() {
            // A database must not be read without the changes in the files next to it.
            for beside in UNCOMMITTED_SUFFIXES.map(|suffix| format!("{file}{suffix}")) {
                if self.is_listed(source, &beside)
                    && self.must_ask(source, &beside)
                    && let Some(BadFile { file: _, reason }) =
                        writer.ask_for(source, &beside, Vec::new())?
                {
                    return Ok(Some(BadFile { file: file.to_owned(), reason }));
                }
            }
        }
        if self.must_ask(source, file) {
            return Ok(writer.ask_for(source, file, next)?);
        }
        if self.request.reports_files {
            writer.report_opening(source, file)?;
        }
        Ok(None)
    }

    /// Whether a file is an object of a store that the planner must ask the leader for.
    fn must_ask(&self, source: u32, file: &str) -> bool {
        match self.request.asks {
            ObjectsToAsk::Never => false,
            ObjectsToAsk::Absent => {
                !self.with_root(source, |root| root.is_here(file)).unwrap_or(true)
            }
            ObjectsToAsk::Each => self.source(source).manifest.is_some(),
        }
    }

    fn is_listed(&self, source: u32, file: &str) -> bool {
        self.with_root(source, |root| root.lists(file)).unwrap_or(false)
    }

    /// Inspects a source of a store; `None` for other sources.
    fn with_root<T>(&self, index: u32, inspect: impl FnOnce(&OpenRoot) -> T) -> Option<T> {
        let source = self.source(index);
        source.manifest.as_ref()?;
        let mut last_root = self.last_root.borrow_mut();
        let root = match last_root.take_if(|(known, _)| *known == index) {
            Some((_, root)) => root,
            None => OpenRoot::open_source(source),
        };
        let (_, root) = last_root.insert((index, root));
        Some(inspect(root))
    }

    fn source(&self, index: u32) -> &Source {
        &self.sources[(index - self.first) as usize]
    }

    pub(super) fn csv(&self) -> &CsvFormat {
        &self.table.csv
    }
}

/// The inputs of a request. Consecutive sources of one dataset form one input. Fails if formats are missing
/// or invalid, or if the job file asks for columns from Hive-style folders and there are no such folders.
pub(super) fn inputs_of<'a>(
    request: &'a PlanRequest,
    tables: &'a [TableInput],
    infers_from_all: bool,
) -> Result<Vec<PlanInput<'a>>, PlanError> {
    let sources = &request.sources;
    if tables.len() != sources.len() {
        let tables = tables.len();
        let sources = sources.len();
        return err!("a plan for {sources} sources came with {tables} table formats");
    }
    let mut inputs = Vec::new();
    let mut first = 0;
    for sources in sources.chunk_by(|one, next| one.dataset == next.dataset) {
        let table = &tables[first];
        if let Some((key, other)) = table.csv.conflict() {
            let dataset = &sources[0].dataset;
            return match other {
                Some(other) => err!(
                    "input '{dataset}': its {key} is also its {other}; choose another character"
                ),
                None => err!(
                    "input '{dataset}': its {key} is not valid; use one ASCII character other than a line \
                     end, such as ',', ';' or a tab for a delimiter"
                ),
            };
        }
        let named = format_of(&sources[0])?;
        let (found, begun) = match named {
            None if table.hive != Some(false) => hive_format(&sources[0], table)?,
            _ => (None, None),
        };
        let is_hive = found.is_some();
        let begun_listing = RefCell::new(begun);
        let path = named.or(found);
        let index = count_u32(first);
        inputs.push(PlanInput {
            first: index,
            sources,
            table,
            request,
            infers_from_all,
            path,
            rows_left: Cell::new(sources[0].take.unwrap_or(u64::MAX)),
            is_hive,
            begun_listing,
            last_root: RefCell::default(),
            learned_file: RefCell::default(),
            first_skipped: RefCell::default(),
            format_checks: Cell::default(),
            first_foreign: RefCell::default(),
        });
        first += sources.len();
    }
    Ok(inputs)
}

/// The files of a source of tables. Files of tables with a transaction log are refused, unless the job says
/// that plain files are meant.
fn listing(source: &Source, table: &TableInput) -> Result<SourceListing, PlanError> {
    let listing = SourceListing::of_rows(source)?;
    let may_have_log = table.kind.may_have_log() && !table.files;
    Ok(if may_have_log { listing.refusing_tables() } else { listing })
}

/// If the source's first file is in folders named `key=value`, returns their template. Also returns
/// a listing that will return that file first. Fails if there are no such folders and the job file
/// asks for them.
fn hive_format(
    source: &Source,
    table: &TableInput,
) -> Result<(Option<PartitionFormat>, Option<SourceListing>), PlanError> {
    let mut listing = listing(source, table)?;
    let first = listing.peek_file()?.unwrap_or_default();
    let found = PartitionFormat::hive(first);
    if found.is_none() && table.hive == Some(true) && !first.is_empty() {
        return err!(
            "input '{}': hive is true, and its first file, {first}, is not in folders named \
             key=value below {}; name the folder above such folders as the input's path, or remove hive",
            source.dataset,
            source.root.display(),
        );
    }
    Ok((found, Some(listing)))
}

/// Refuses an input whose files have a column with the same name as a column from their paths. `names` are
/// the columns in the files.
pub(super) fn check_keys(input: &PlanInput<'_>, names: &[&str]) -> Result<(), PlanError> {
    let Some(path) = &input.path else { return Ok(()) };
    let Some(duplicate) = path.keys().find(|key| names.contains(key)) else { return Ok(()) };
    if input.is_hive {
        return err!(
            "input '{}': the folders '{path}' make a column '{duplicate}', and the files have a column of \
             that name; set hive to false to use the column in the files",
            input.name(),
        );
    }
    err!(
        "input '{}': partition_format '{path}' makes a column '{duplicate}' of the files' paths, and the \
         files have a column of that name; give the key another name",
        input.name(),
    )
}

/// The indices of the columns that the job file asks for, in the order of the job file. `names` are the
/// columns in the files. `None` if the job file asks for all columns, or if the columns are unknown because
/// no file could be read. Fails if the job file asks for a column that does not exist.
pub(super) fn picked_columns(
    input: &PlanInput<'_>,
    names: &[&str],
) -> Result<Option<Vec<usize>>, PlanError> {
    let wanted = input.table.columns.as_ref().filter(|_| !names.is_empty());
    let Some(wanted) = wanted else { return columns_without_dropped(input, names) };
    let mut picked = Vec::with_capacity(wanted.len());
    for name in wanted {
        if let Some(index) = names.iter().position(|known| known == name) {
            picked.push(index);
            continue;
        }
        if input.path.iter().flat_map(PartitionFormat::keys).any(|key| key == name) {
            return err!(
                "input '{}': columns names '{name}', which comes from the files' paths; such columns \
                 always come after the others: leave it out of the list",
                input.name(),
            );
        }
        return err!(
            "input '{}' has no column '{name}', which columns names; {}",
            input.name(),
            columns::existing_columns(name, names),
        );
    }
    Ok(Some(picked))
}

/// The indices of all columns except those that the job file drops; `None` if the job file drops no columns.
/// Fails if it drops a column that does not exist.
fn columns_without_dropped(
    input: &PlanInput<'_>,
    names: &[&str],
) -> Result<Option<Vec<usize>>, PlanError> {
    let dropped = &input.table.dropped;
    if dropped.is_empty() || names.is_empty() {
        return Ok(None);
    }
    if let Some(unknown) = dropped.iter().find(|name| !names.contains(&name.as_str())) {
        return err!(
            "input '{}' has no column '{unknown}', which drop_columns names; {}",
            input.name(),
            columns::existing_columns(unknown, names),
        );
    }
    let is_kept = |(_, name): &(usize, &&str)| !dropped.iter().any(|dropped| dropped == **name);
    let kept = names.iter().enumerate().filter(is_kept);
    Ok(Some(kept.map(|(index, _)| index).collect()))
}
