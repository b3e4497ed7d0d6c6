//! Infers the columns of a JSON lines input whose job file does not name them.

use super::document::{INSPECTED_BYTES, foreign};
use super::kinds::{ObjectFields, ValueKind};
use super::lines::FilledLines;
use super::walk::{ObjectMembers, ValueShape, shape};
use crate::dataset::csv::{Cutter, read_slice};
use crate::dataset::{AskToOpen, DatasetError, SourceListing, Unpacker};
use crate::model::{SliceSize, Source};
use arrow::datatypes::Schema;
use serde::de::IgnoredAny;

/// How many bytes of an input are sampled.
const SAMPLE_BYTES: u64 = 1 << 20;
/// The maximum number of sampled files that have rows. Opening each file takes time before the
/// first mini-batch.
const MAX_SAMPLE_FILES: u32 = 100;
/// The maximum number of columns and nested fields, because every worker receives the schema.
const MAX_FIELDS: usize = 10_000;
/// The maximum depth of lists and objects. Readers of Arrow data have such a limit too.
const MAX_LEVELS: usize = 16;
/// How many doubts are reported.
const MAX_DOUBTS: usize = 10;

/// What was inferred from the lines of an input.
#[derive(Debug)]
pub struct InferredJson {
    /// The columns, in order of appearance.
    pub schema: Schema,
    /// Messages about types that the user may not expect: `column 'a' is string, because it mixes texts,
    /// numbers or truth values: b.jsonl, about line 7`.
    pub doubts: Vec<String>,
}

/// Infers the columns of one input, given its sources. Samples the first megabyte of lines, in at most 100
/// files; with `full` it reads all files. Skips files that cannot be read. Calls `may_open` before each file.
///
/// - A column is text if it has no values, or if it mixes numbers, booleans and texts.
/// - A column of whole numbers and fractions is float64, or text if float64 would round one of the numbers.
/// - A column is JSON if it mixes objects or lists with other values, or if its objects are all empty.
///
/// # Errors
///
/// If a folder cannot be listed, or if `may_open` fails.
pub fn infer_json<E: From<DatasetError>>(
    sources: &[Source],
    full: bool,
    unpacker: &Unpacker,
    may_open: &mut AskToOpen<'_, E>,
) -> Result<InferredJson, E> {
    let mut learned = Learned { fields: ObjectFields::default(), notes: InferenceNotes::default() };
    let mut bytes_left = SAMPLE_BYTES;
    let mut files = 0;
    'sources: for (index, source) in (0..).zip(sources) {
        let mut listing = SourceListing::of_rows(source)?;
        while let Some(file) = listing.next_file()? {
            if !may_open(index, &file, &mut listing)? {
                continue;
            }
            let max_bytes = if full { u64::MAX } else { bytes_left };
            // An unreadable file is reported later, when it is cut into slices.
            let taken =
                learned.learn_from_file(source, &file, unpacker, max_bytes).unwrap_or_default();
            bytes_left = bytes_left.saturating_sub(taken);
            files += u32::from(taken > 0);
            if !full && (bytes_left == 0 || files == MAX_SAMPLE_FILES) {
                break 'sources;
            }
        }
    }
    let doubts = learned.notes.doubts.iter().map(Doubted::describe).collect();
    Ok(InferredJson { schema: Schema::new(learned.fields.arrow_fields()), doubts })
}

/// What the lines so far have shown.
struct Learned {
    fields: ObjectFields,
    notes: InferenceNotes,
}

impl Learned {
    /// Learns from a file, or from about its first `max_bytes` bytes. Returns how many bytes it used.
    fn learn_from_file(
        &mut self,
        source: &Source,
        file: &str,
        unpacker: &Unpacker,
        max_bytes: u64,
    ) -> Result<u64, DatasetError> {
        let mut cutter = Cutter::of_lines(SliceSize::Bytes(max_bytes.min(SAMPLE_BYTES)));
        let mut cut = unpacker.open(&mut cutter, &source.root, file.to_owned())?;
        if foreign(cut.start(INSPECTED_BYTES)).is_some() {
            return Ok(0);
        }
        let mut buffer = Vec::new();
        let mut taken = 0;
        while let Some(slice) = cut.next_slice()?
            && taken < max_bytes
        {
            taken += slice.length;
            let text = read_slice(unpacker.root_of(&slice, &source.root), &slice, &mut buffer)?;
            for ((_, line), number) in FilledLines::new(text).zip(slice.first_line..) {
                // Approximate: blank lines are not counted.
                self.notes.place = (file.to_owned(), number);
                self.learn_from_line(line);
            }
        }
        Ok(taken)
    }

    /// Learns from a line. Ignores lines that are not objects.
    fn learn_from_line(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        if let ValueShape::Object(members) = shape(line)
            && serde_json::from_str::<IgnoredAny>(line).is_ok()
        {
            self.notes.learn_from_members(&mut self.fields, members, 0);
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
    /// The doubts so far, at most one for each column.
    doubts: Vec<Doubted>,
}

/// A column with a type that the user may not expect.
struct Doubted {
    column: String,
    /// The type and its reason.
    doubt: &'static str,
    /// The file and the line of the value that changed the type.
    place: (String, u64),
}

impl Doubted {
    fn describe(&self) -> String {
        let (file, line) = &self.place;
        format!("column '{}' {}: {file}, about line {line}", self.column, self.doubt)
    }
}

impl InferenceNotes {
    /// Adds a doubt about the current column.
    fn doubt(&mut self, doubt: &'static str) {
        let is_json = |doubt: &str| doubt.starts_with("is json");
        match self.doubts.iter().position(|known| known.column == self.column) {
            Some(at) => {
                let known = &mut self.doubts[at];
                // JSON is the final type of a column, so this doubt replaces an earlier one.
                if is_json(doubt) && !is_json(known.doubt) {
                    known.doubt = doubt;
                    known.place.clone_from(&self.place);
                }
            }
            None if self.doubts.len() < MAX_DOUBTS => {
                let column = self.column.clone();
                let place = self.place.clone();
                self.doubts.push(Doubted { column, doubt, place });
            }
            None => {}
        }
    }

    /// Learns from the members of an object that is nested in `level` other values.
    fn learn_from_members(
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
            let has_room = self.count < MAX_FIELDS;
            let count = &mut self.count;
            let may_grow = || {
                *count += usize::from(has_room);
                has_room
            };
            match fields.get(&name, may_grow) {
                Some(kind) => self.learn_from_value(kind, value, level),
                None => self.doubt("and the columns after it are left out: there are too many"),
            }
        }
    }

    /// Learns from a value of a column or of a nested field.
    fn learn_from_value(&mut self, kind: &mut ValueKind, value: &str, level: usize) {
        let doubt = match shape(value) {
            ValueShape::Null => None,
            ValueShape::Boolean => kind.add(ValueKind::Boolean),
            ValueShape::Text => kind.add(ValueKind::String),
            ValueShape::Number => kind.add_number(value),
            ValueShape::List(_) | ValueShape::Object(_) if level >= MAX_LEVELS => {
                let is_new = !matches!(kind, ValueKind::Json);
                *kind = ValueKind::Json;
                is_new.then_some(
                    "is json (the text of each value is kept): it has more than 16 levels",
                )
            }
            ValueShape::List(items) => match kind.add_list() {
                Ok(item) => {
                    items.for_each(|value| self.learn_from_value(item, value, level + 1));
                    None
                }
                Err(doubt) => doubt,
            },
            ValueShape::Object(members) => match kind.add_object() {
                Ok(fields) => {
                    self.learn_from_members(fields, members, level + 1);
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
