//! Finds the columns of an input of JSON lines that does not say them.

use super::lines::Lines;
use crate::dataset::csv::{Cutter, read_slice};
use crate::dataset::{DatasetError, Listing, MayLook, Unpacker};
use crate::model::{SliceSize, Source};
use arrow::datatypes::{DataType, Field, Schema};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

/// How much of an input decides the columns.
const SAMPLE: u64 = 1 << 20;
/// At most so many files with rows, since each takes time to open before the first mini-batch.
const SAMPLE_FILES: u32 = 100;
/// Columns and their parts, at most: every worker is told of them.
const FIELDS: usize = 10_000;
/// Levels of lists and objects, at most: what reads Arrow data bounds them too.
const LEVELS: usize = 16;
/// Doubts that are told.
const DOUBTS: usize = 10;

/// What the lines of an input say of its columns.
#[derive(Debug)]
pub struct InferredJson {
    /// The columns, in the order in which they came.
    pub schema: Schema,
    /// What may not be meant: `column 'a' holds a list here and a number before: b.jsonl, line 7`.
    pub doubts: Vec<String>,
}

/// The columns of one input, given its sources. They come from the first megabyte of lines, in at most
/// 100 files, or with `full` from all files. A column without values is text, and so is one of numbers,
/// truth values and texts; whole numbers and others are floats; where objects or lists meet something
/// else, what came first stays. What cannot be read teaches nothing. `may_open` is asked before each file. Fails
/// if a folder cannot be listed, or as `may_open` does.
pub fn infer_json<E: From<DatasetError>>(
    sources: &[Source],
    full: bool,
    unpacker: &Unpacker,
    may_open: &mut MayLook<'_, E>,
) -> Result<InferredJson, E> {
    let mut learned = Learned { fields: Fields::default(), notes: Notes::default() };
    let (mut left, mut files) = (SAMPLE, 0);
    'sources: for (index, source) in (0..).zip(sources) {
        let mut listing = Listing::of_rows(source)?;
        while let Some(file) = listing.next_file()? {
            if !may_open(index, &file, &mut listing)? {
                continue;
            }
            let most = if full { u64::MAX } else { left };
            // A file that cannot be read is told when it is cut.
            let taken = learned.take_file(source, &file, unpacker, most).unwrap_or_default();
            left = left.saturating_sub(taken);
            files += u32::from(taken > 0);
            if !full && (left == 0 || files == SAMPLE_FILES) {
                break 'sources;
            }
        }
    }
    Ok(InferredJson { schema: Schema::new(learned.fields.arrow()), doubts: learned.notes.doubts })
}

struct Learned {
    fields: Fields,
    notes: Notes,
}

impl Learned {
    /// Learns from a file, or from about its first `most` bytes; returns from how many.
    fn take_file(
        &mut self,
        source: &Source,
        file: &str,
        unpacker: &Unpacker,
        most: u64,
    ) -> Result<u64, DatasetError> {
        let mut cutter = Cutter::of_lines(SliceSize::Bytes(most.min(SAMPLE)));
        let mut cut = unpacker.open(&mut cutter, &source.root, file.to_owned())?;
        let (mut buffer, mut taken) = (Vec::new(), 0);
        while let Some(slice) = cut.next_slice()?
            && taken < most
        {
            taken += slice.length;
            let text = read_slice(unpacker.root_of(&slice, &source.root), &slice, &mut buffer)?;
            for ((_, line), number) in Lines::new(text).zip(slice.first_line..) {
                // About the line: there may be blank ones between.
                self.notes.place = (file.to_owned(), number);
                self.take_line(line);
            }
        }
        Ok(taken)
    }

    /// Learns from a line, if it is an object.
    fn take_line(&mut self, line: &[u8]) {
        let is_object = line.trim_ascii_start().starts_with(b"{");
        if is_object && serde_json::from_slice::<IgnoredAny>(line).is_ok() {
            let mut deserializer = serde_json::Deserializer::from_slice(line);
            let learn = Members { fields: &mut self.fields, notes: &mut self.notes, level: 0 };
            // It was read a moment ago.
            let _ = deserializer.deserialize_map(learn);
        }
    }
}

/// What is noted on the way.
#[derive(Default)]
struct Notes {
    /// The line that is being read.
    place: (String, u64),
    /// The column that is being read.
    column: String,
    /// Columns and parts of them.
    count: usize,
    doubts: Vec<String>,
}

impl Notes {
    fn doubt(&mut self, what: &str) {
        let column = format!("column '{}' ", self.column);
        // Each column once.
        if self.doubts.len() < DOUBTS && !self.doubts.iter().any(|known| known.starts_with(&column))
        {
            let (file, line) = &self.place;
            self.doubts.push(format!("{column}{what}: {file}, about line {line}"));
        }
    }
}

/// What the values of a column have in common.
#[derive(Debug, Default, PartialEq)]
enum Kind {
    /// Nothing yet.
    #[default]
    Unknown,
    Boolean,
    Int64,
    Float64,
    String,
    List(Box<Kind>),
    Struct(Fields),
    /// Lists in lists without end; left out.
    TooDeep,
}

impl Kind {
    /// Learns from a value that is neither list nor object.
    fn take(&mut self, kind: Self, notes: &mut Notes) {
        match (&*self, &kind) {
            (Self::Unknown, _) => *self = kind,
            (Self::Float64, Self::Int64) => {}
            (Self::Int64, Self::Float64) => *self = Self::Float64,
            (Self::List(_) | Self::Struct(_), _) => {
                notes.doubt("holds a plain value here, and a list or an object before");
            }
            (Self::TooDeep, _) => {}
            (known, new) if *known == *new => {}
            _ => *self = Self::String,
        }
    }

    fn arrow(&self) -> Option<DataType> {
        Some(match self {
            Self::Boolean => DataType::Boolean,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Unknown | Self::String => DataType::Utf8,
            Self::List(kind) => DataType::new_list(kind.arrow()?, true),
            Self::Struct(fields) => {
                let fields = fields.arrow();
                (!fields.is_empty()).then(|| DataType::Struct(fields.into()))?
            }
            Self::TooDeep => return None,
        })
    }
}

/// The columns of a table, or the parts of an object, in the order in which they came.
#[derive(Debug, Default, PartialEq)]
struct Fields {
    fields: Vec<(String, Kind)>,
    places: HashMap<String, usize>,
}

impl Fields {
    fn arrow(&self) -> Vec<Field> {
        let field = |(name, kind): &(String, Kind)| Some(Field::new(name, kind.arrow()?, true));
        self.fields.iter().filter_map(field).collect()
    }

    /// The kind of a field, which may be new. None if there are too many.
    fn get(&mut self, name: &str, notes: &mut Notes) -> Option<&mut Kind> {
        let place = match self.places.get(name) {
            Some(&place) => place,
            None if notes.count == FIELDS => {
                notes.doubt("and what comes after it is left out: there are too many");
                return None;
            }
            None => {
                notes.count += 1;
                self.places.insert(name.to_owned(), self.fields.len());
                self.fields.push((name.to_owned(), Kind::Unknown));
                self.fields.len() - 1
            }
        };
        self.fields.get_mut(place).map(|(_, kind)| kind)
    }
}

/// Learns from the members of an object.
struct Members<'a> {
    fields: &'a mut Fields,
    notes: &'a mut Notes,
    level: usize,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { fields, notes, level } = self;
        while let Some(name) = map.next_key::<String>()? {
            if level == 0 {
                notes.column.clone_from(&name);
            }
            match fields.get(&name, notes) {
                Some(kind) => map.next_value_seed(Learn { kind, notes, level })?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }
}

/// Learns from one value.
struct Learn<'a> {
    kind: &'a mut Kind,
    notes: &'a mut Notes,
    level: usize,
}

impl<'de> DeserializeSeed<'de> for Learn<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Learn<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.kind.take(Kind::Boolean, self.notes);
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.kind.take(Kind::Int64, self.notes);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        let fits = i64::try_from(number).is_ok();
        self.kind.take(if fits { Kind::Int64 } else { Kind::Float64 }, self.notes);
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // `-0` comes as a float.
        let is_whole = number == 0.0 && number.is_sign_negative();
        self.kind.take(if is_whole { Kind::Int64 } else { Kind::Float64 }, self.notes);
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.kind.take(Kind::String, self.notes);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { kind, notes, level } = self;
        if *kind == Kind::Unknown {
            *kind = if level < LEVELS { Kind::List(Box::default()) } else { Kind::TooDeep };
        }
        match kind {
            Kind::List(item) => {
                let level = level + 1;
                while items
                    .next_element_seed(Learn { kind: &mut *item, notes: &mut *notes, level })?
                    .is_some()
                {}
            }
            _ => {
                notes.doubt("holds a list here, and something else before, or too many levels");
                while items.next_element::<IgnoredAny>()?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { kind, notes, level } = self;
        if *kind == Kind::Unknown {
            *kind = if level < LEVELS { Kind::Struct(Fields::default()) } else { Kind::TooDeep };
        }
        match kind {
            Kind::Struct(fields) => Members { fields, notes, level: level + 1 }.visit_map(map),
            _ => {
                notes.doubt("holds an object here, and something else before, or too many levels");
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(())
            }
        }
    }
}
