//! Infers the columns of a JSON lines input whose job file does not name them.

use super::document::{START, foreign};
use super::kinds::{ObjectFields, ValueKind};
use super::lines::FilledLines;
use super::walk::{ObjectMembers, ValueShape, shape};
use crate::dataset::csv::{Cutter, read_slice};
use crate::dataset::{DatasetError, MayLook, SourceListing, Unpacker};
use crate::model::{SliceSize, Source};
use arrow::datatypes::Schema;
use serde::de::IgnoredAny;

/// How many bytes of an input are sampled.
const SAMPLE: u64 = 1 << 20;
/// The maximum number of sampled files that have rows. Each takes time to open before the first mini-batch.
const SAMPLE_FILES: u32 = 100;
/// The maximum number of columns and nested fields, because every worker receives the schema.
const FIELDS: usize = 10_000;
/// The maximum depth of lists and objects. Readers of Arrow data limit it too.
const LEVELS: usize = 16;
/// How many doubts are reported.
const DOUBTS: usize = 10;

/// What was inferred from the lines of an input.
#[derive(Debug)]
pub struct InferredJson {
    /// The columns, in order of appearance.
    pub schema: Schema,
    /// What the user may not expect: `column 'a' is json, as it holds a list here, and something else before:
    /// b.jsonl, about line 7`.
    pub doubts: Vec<String>,
}

/// Infers the columns of one input, given its sources. Samples the first megabyte of lines, in at most 100
/// files; with `full` it reads all files. Skips what cannot be read. Calls `may_open` before each file.
///
/// - A column without values is text, and so is one that mixes numbers, booleans and texts.
/// - A column of whole numbers and fractions is float, or text if a float would round one of the numbers.
/// - A column that mixes objects or lists with other values is JSON, and so is one whose objects are all
///   empty.
///
/// # Errors
///
/// If a folder cannot be listed, or if `may_open` fails.
pub fn infer_json<E: From<DatasetError>>(
    sources: &[Source],
    full: bool,
    unpacker: &Unpacker,
    may_open: &mut MayLook<'_, E>,
) -> Result<InferredJson, E> {
    let mut learned = Learned { fields: ObjectFields::default(), notes: InferenceNotes::default() };
    let mut left = SAMPLE;
    let mut files = 0;
    'sources: for (index, source) in (0..).zip(sources) {
        let mut listing = SourceListing::of_rows(source)?;
        while let Some(file) = listing.next_file()? {
            if !may_open(index, &file, &mut listing)? {
                continue;
            }
            let most = if full { u64::MAX } else { left };
            // An unreadable file is reported later, when it is cut into slices.
            let taken = learned.take_file(source, &file, unpacker, most).unwrap_or_default();
            left = left.saturating_sub(taken);
            files += u32::from(taken > 0);
            if !full && (left == 0 || files == SAMPLE_FILES) {
                break 'sources;
            }
        }
    }
    let doubts = learned.notes.doubts.iter().map(Doubted::describe).collect();
    Ok(InferredJson { schema: Schema::new(learned.fields.arrow()), doubts })
}

struct Learned {
    fields: ObjectFields,
    notes: InferenceNotes,
}

impl Learned {
    /// Learns from a file, or from about its first `most` bytes. Returns how many bytes it used.
    fn take_file(
        &mut self,
        source: &Source,
        file: &str,
        unpacker: &Unpacker,
        most: u64,
    ) -> Result<u64, DatasetError> {
        let mut cutter = Cutter::of_lines(SliceSize::Bytes(most.min(SAMPLE)));
        let mut cut = unpacker.open(&mut cutter, &source.root, file.to_owned())?;
        if foreign(cut.start(START)).is_some() {
            return Ok(0);
        }
        let mut buffer = Vec::new();
        let mut taken = 0;
        while let Some(slice) = cut.next_slice()?
            && taken < most
        {
            taken += slice.length;
            let text = read_slice(unpacker.root_of(&slice, &source.root), &slice, &mut buffer)?;
            for ((_, line), number) in FilledLines::new(text).zip(slice.first_line..) {
                // Approximate: blank lines are not counted.
                self.notes.place = (file.to_owned(), number);
                self.take_line(line);
            }
        }
        Ok(taken)
    }

    /// Learns from a line. Ignores lines that are not objects.
    fn take_line(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        if let ValueShape::Object(members) = shape(line)
            && serde_json::from_str::<IgnoredAny>(line).is_ok()
        {
            self.notes.take_members(&mut self.fields, members, 0);
        }
    }
}

/// The state of one inference, apart from the columns themselves.
#[derive(Default)]
struct InferenceNotes {
    /// The file and line that is being read.
    place: (String, u64),
    /// The top-level column that is being read.
    column: String,
    /// The number of columns and nested fields so far.
    count: usize,
    /// At most one for each column.
    doubts: Vec<Doubted>,
}

/// What the user may not expect of a column, and where that was seen.
struct Doubted {
    column: String,
    what: &'static str,
    place: (String, u64),
}

impl Doubted {
    fn describe(&self) -> String {
        let (file, line) = &self.place;
        format!("column '{}' {}: {file}, about line {line}", self.column, self.what)
    }
}

impl InferenceNotes {
    fn doubt(&mut self, what: &'static str) {
        let is_json = |what: &str| what.starts_with("is json");
        match self.doubts.iter().position(|known| known.column == self.column) {
            Some(at) => {
                let known = &mut self.doubts[at];
                // JSON is the final type of a column, so this doubt replaces an earlier one.
                if is_json(what) && !is_json(known.what) {
                    known.what = what;
                    known.place.clone_from(&self.place);
                }
            }
            None if self.doubts.len() < DOUBTS => {
                let column = self.column.clone();
                let place = self.place.clone();
                self.doubts.push(Doubted { column, what, place });
            }
            None => {}
        }
    }

    /// Learns from the members of an object that is nested in `level` other values.
    fn take_members(
        &mut self,
        fields: &mut ObjectFields,
        members: ObjectMembers<'_>,
        level: usize,
    ) {
        for (name, value) in members {
            if level == 0 {
                self.column.clear();
                self.column.push_str(&name);
            }
            let has_room = self.count < FIELDS;
            let count = &mut self.count;
            let grow = || {
                *count += usize::from(has_room);
                has_room
            };
            match fields.get(&name, grow) {
                Some(kind) => self.take(kind, value, level),
                None => self.doubt("and what comes after it is left out: there are too many"),
            }
        }
    }

    /// Learns from a value of a column or of a nested field.
    fn take(&mut self, kind: &mut ValueKind, value: &str, level: usize) {
        let doubt = match shape(value) {
            ValueShape::Null => None,
            ValueShape::Boolean => kind.take(ValueKind::Boolean),
            ValueShape::Text => kind.take(ValueKind::String),
            ValueShape::Number => kind.take_number(value),
            ValueShape::List(_) | ValueShape::Object(_) if level >= LEVELS => {
                let is_new = !matches!(kind, ValueKind::Json);
                *kind = ValueKind::Json;
                is_new.then_some(
                    "is json, which keeps each value's own text, as it has more than 16 levels",
                )
            }
            ValueShape::List(items) => match kind.take_list() {
                Ok(item) => {
                    items.for_each(|value| self.take(item, value, level + 1));
                    None
                }
                Err(doubt) => doubt,
            },
            ValueShape::Object(members) => match kind.take_object() {
                Ok(fields) => {
                    self.take_members(fields, members, level + 1);
                    None
                }
                Err(doubt) => doubt,
            },
        };
        if let Some(doubt) = doubt {
            self.doubt(doubt);
        }
    }
}
