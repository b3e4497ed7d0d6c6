//! Determines the columns of an input (its table), and how the columns of one file become those of
//! the table.

use super::schema::to_message;
use crate::dataset::{DatasetError, err};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The columns of an input, learned from its files.
#[derive(Clone, Debug, Default)]
pub struct InputColumns {
    /// The columns that the guest receives, in that order. `None` for all.
    wanted: Option<Vec<String>>,
    fields: Vec<Field>,
    /// The names of all columns, including those that are not wanted.
    names: Vec<String>,
    /// The first file that the columns were learned from. Messages name it.
    origin: Option<String>,
}

impl InputColumns {
    /// Starts without any columns. `wanted` are the columns that the guest receives (`None`: all).
    pub fn new(wanted: Option<&[String]>) -> Self {
        Self { wanted: wanted.map(<[String]>::to_vec), ..Self::default() }
    }

    /// Starts with the columns of `schema`, which were learned from `origin` before.
    pub fn from_schema(schema: &Schema, wanted: Option<&[String]>, origin: &str) -> Self {
        let fields = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let names = names(schema).into_iter().map(str::to_owned).collect();
        Self { fields, names, origin: Some(origin.to_owned()), ..Self::new(wanted) }
    }

    /// Whether the columns of any file have been learned.
    pub fn are_known(&self) -> bool {
        self.origin.is_some()
    }

    /// Adds the columns of a file after the known columns. A wider type replaces a narrower one.
    /// Fails and adds nothing if neither type holds all values of the other, if the file has no
    /// columns or two with the same name, or if the guest cannot receive so many columns.
    pub fn learn(&mut self, schema: &Schema, origin: &str) -> Result<(), DatasetError> {
        check_names(schema)?;
        if self.wanted.is_none() && schema.fields().is_empty() {
            return err!("has no columns");
        }
        let mut fields = self.fields.clone();
        let mut known: HashMap<String, usize> =
            fields.iter().enumerate().map(|(index, field)| (field.name().clone(), index)).collect();
        let file_names = names(schema);
        for field in &mut fields {
            let nullable = field.is_nullable() || !file_names.contains(field.name().as_str());
            *field = field.clone().with_nullable(nullable);
        }
        let wanted: Option<HashSet<&String>> = self.wanted.as_ref().map(|w| w.iter().collect());
        for field in schema.fields() {
            if wanted.as_ref().is_some_and(|wanted| !wanted.contains(field.name())) {
                continue;
            }
            match known.get(field.name()) {
                Some(&index) => fields[index] = self.wider(&fields[index], field)?,
                None => {
                    known.insert(field.name().clone(), fields.len());
                    let nullable = field.is_nullable() || self.are_known();
                    fields.push(field.as_ref().clone().with_nullable(nullable));
                }
            }
        }
        to_message(&Schema::new(fields.clone()))?;
        self.fields = fields;
        let known: HashSet<&String> = self.names.iter().collect();
        let added = schema.fields().iter().map(|field| field.name());
        let added: Vec<_> = added.filter(|name| !known.contains(name)).cloned().collect();
        self.names.extend(added);
        self.origin.get_or_insert_with(|| origin.to_owned());
        Ok(())
    }

    /// The field that holds all values of both fields. Fails if neither type holds all values of the other.
    fn wider(&self, known: &Field, field: &Field) -> Result<Field, DatasetError> {
        let known_type = known.data_type();
        let new_type = field.data_type();
        let wider = known.clone().with_nullable(known.is_nullable() || field.is_nullable());
        if widens(new_type, known_type) {
            Ok(wider)
        } else if widens(known_type, new_type) {
            Ok(wider.with_data_type(new_type.clone()))
        } else {
            err!(
                "column '{}' is {new_type}, but {known_type} in {}, and neither type holds all values of \
                 the other; write the files with one type, or leave the column out with the key `columns`",
                field.name(),
                self.origin(),
            )
        }
    }

    fn origin(&self) -> &str {
        self.origin.as_deref().unwrap_or("the first file")
    }

    /// The names of all columns that were seen.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The columns that the guest receives, as far as they are known.
    pub fn schema(&self) -> Schema {
        let Some(wanted) = &self.wanted else { return Schema::new(self.fields.clone()) };
        let field = |name: &String| self.fields.iter().find(|field| field.name() == name).cloned();
        Schema::new(wanted.iter().filter_map(field).collect::<Vec<_>>())
    }
}

/// Fails if a file with the columns `file` cannot become a table with `columns`, the columns of `origin`.
/// With `refuse_more`, also fails if the file has other columns.
pub fn check(
    file: &Schema,
    columns: &Schema,
    refuse_more: bool,
    origin: &str,
) -> Result<(), DatasetError> {
    check_names(file)?;
    if file.fields().is_empty() {
        return err!("has no columns");
    }
    ColumnFit::new(file, columns, origin)?;
    let known = names(columns);
    let mut fields = file.fields().iter();
    match fields.find(|field| refuse_more && !known.contains(field.name().as_str())) {
        None => Ok(()),
        Some(added) => err!(
            "has a column '{}' ({}), which {origin} does not have; set schema_inference: full, which takes \
             the columns of all files, or list the wanted columns with the key `columns`",
            added.name(),
            added.data_type(),
        ),
    }
}

fn names(schema: &Schema) -> HashSet<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

/// Fails if two columns have the same name.
fn check_names(schema: &Schema) -> Result<(), DatasetError> {
    let mut seen = HashSet::with_capacity(schema.fields().len());
    match schema.fields().iter().find(|field| !seen.insert(field.name())) {
        Some(twice) => err!("has two columns '{}'; give them different names", twice.name()),
        None => Ok(()),
    }
}

/// How the columns of one file become those of the table.
#[derive(Clone, Debug)]
pub(super) struct ColumnFit {
    /// For each column of the table, the index of the file's column. `None` if the file lacks the column.
    pub(super) indexes: Vec<Option<usize>>,
    /// The indexes of the file's columns that the table needs, ascending.
    pub(super) needed: Vec<usize>,
}

impl ColumnFit {
    /// Matches the columns by name. Fails if the table's type cannot hold the values of a column, or if a
    /// required column is missing. `origin` is the table's name in messages.
    pub(super) fn new(file: &Schema, table: &Schema, origin: &str) -> Result<Self, DatasetError> {
        let known: HashMap<&str, usize> = file
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| (field.name().as_str(), index))
            .collect();
        let mut indexes = Vec::with_capacity(table.fields().len());
        for field in table.fields() {
            let index = known.get(field.name().as_str()).copied();
            match index {
                None if field.is_nullable() => {}
                None => {
                    return err!(
                        "has no column '{}', which {origin} has without nulls; set \
                         schema_inference: full to allow nulls",
                        field.name(),
                    );
                }
                Some(index) => {
                    let found = file.field(index).data_type();
                    if !widens(found, field.data_type()) {
                        return err!(
                            "column '{}' is {found}, but {} in {origin}; set schema_inference: full, \
                             which takes the wider type, or write the files with one type",
                            field.name(),
                            field.data_type(),
                        );
                    }
                }
            }
            indexes.push(index);
        }
        let mut needed: Vec<usize> = indexes.iter().flatten().copied().collect();
        needed.sort_unstable();
        Ok(Self { indexes, needed })
    }
}

/// Whether the type `to` holds each value of the type `from`, and Arrow can cast between them.
fn widens(from: &DataType, to: &DataType) -> bool {
    from == to || (holds_all(from, to) && can_cast_types(from, to))
}

/// Whether the type `to` holds each value of the type `from`.
fn holds_all(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if let (Some((from_signed, from_bits)), Some((to_signed, to_bits))) =
        (integer(from), integer(to))
    {
        return if from_signed == to_signed {
            from_bits <= to_bits
        } else {
            to_signed && from_bits < to_bits
        };
    }
    match (from, to) {
        (Null, _) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (_, Float32) => integer(from).is_some_and(|(_, bits)| bits <= 16),
        (_, Float64) => integer(from).is_some_and(|(_, bits)| bits <= 32),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Dictionary(_, one), Dictionary(_, other)) => holds_all(one, other) || one == other,
        (Dictionary(_, value), other) | (other, Dictionary(_, value)) => {
            value.as_ref() == other || holds_all(value, other) && holds_all(other, value)
        }
        (Timestamp(one, from_zone), Timestamp(other, to_zone)) => {
            let is_same_zone = from_zone == to_zone || is_utc(from_zone) && is_utc(to_zone);
            is_same_zone && fineness(*one) <= fineness(*other)
        }
        (List(one) | LargeList(one), List(other) | LargeList(other)) => field_widens(one, other),
        (FixedSizeList(one, from_length), FixedSizeList(other, to_length)) => {
            from_length == to_length && field_widens(one, other)
        }
        (Struct(one), Struct(other)) => {
            let widens = |(one, other): (&Arc<Field>, &Arc<Field>)| {
                one.name() == other.name() && field_widens(one, other)
            };
            one.len() == other.len() && one.iter().zip(other).all(widens)
        }
        (Map(..), Map(..)) => from.equals_datatype(to),
        _ => decimal(from).zip(decimal(to)).is_some_and(|(from, to)| {
            let whole_digits =
                |(precision, scale): (u8, i8)| i16::from(precision) - i16::from(scale);
            from.1 <= to.1 && whole_digits(from) <= whole_digits(to)
        }),
    }
}

/// Like [`widens`], for nested fields.
fn field_widens(from: &Field, to: &Field) -> bool {
    (to.is_nullable() || !from.is_nullable()) && widens(from.data_type(), to.data_type())
}

/// Whether an integer type is signed, and its width in bits. `None` for other types.
fn integer(data_type: &DataType) -> Option<(bool, usize)> {
    let bits = data_type.primitive_width().unwrap_or(0) * 8;
    data_type.is_integer().then(|| (data_type.is_signed_integer(), bits))
}

/// Whether the time zone is UTC, which has several names.
fn is_utc(zone: &Option<Arc<str>>) -> bool {
    const UTC_NAMES: [&str; 6] = ["utc", "z", "etc/utc", "+00:00", "-00:00", "+0000"];
    let name = zone.as_deref().map(str::to_ascii_lowercase);
    name.is_some_and(|name| UTC_NAMES.contains(&name.as_str()))
}

/// The rank of a unit: a higher one is finer.
fn fineness(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// The precision and the scale of a decimal type. `None` for other types.
fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match data_type {
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: &[(&str, DataType)]) -> Schema {
        let field =
            |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
        Schema::new(columns.iter().map(field).collect::<Vec<_>>())
    }

    fn describe(schema: &Schema) -> String {
        let field = |field: &Arc<Field>| format!("{} {}", field.name(), field.data_type());
        schema.fields().iter().map(field).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_wider_type_replaces_a_narrower_one() {
        use DataType::*;
        let list = |data_type| List(Field::new("item", data_type, true).into());
        let named = |data_type| List(Field::new("element", data_type, true).into());
        let key = |data_type: DataType| Dictionary(Int8.into(), data_type.into());
        let utc = |zone: &str| Timestamp(TimeUnit::Microsecond, Some(zone.into()));
        for (narrow, wide) in [
            (Int8, Int64),
            (UInt32, Int64),
            (Int32, Float64),
            (Float32, Float64),
            (Null, Utf8),
            (Decimal128(9, 2), Decimal128(12, 4)),
            (Timestamp(TimeUnit::Second, None), Timestamp(TimeUnit::Nanosecond, None)),
            (utc("UTC"), utc("+00:00")),
            (list(utc("+00:00")), list(utc("Etc/UTC"))),
            (list(Int32), list(Int64)),
            (list(Int32), named(Int32)),
            (key(Utf8), Utf8),
        ] {
            assert!(widens(&narrow, &wide), "{narrow} to {wide}");
            let mut columns = InputColumns::new(None);
            columns.learn(&schema(&[("a", narrow.clone())]), "one").unwrap();
            columns.learn(&schema(&[("a", wide.clone())]), "two").unwrap();
            let joined = columns.schema();
            assert!(widens(&narrow, joined.field(0).data_type()), "{narrow} and {wide}");
        }
        for (one, other) in [
            (Int64, Float64),
            (UInt64, Int64),
            (Int32, Utf8),
            (Utf8, Binary),
            (Decimal128(9, 2), Decimal128(9, 4)),
            (Timestamp(TimeUnit::Second, None), Timestamp(TimeUnit::Second, Some("UTC".into()))),
            (Boolean, Int8),
            (list(Int32), Int32),
            (utc("UTC"), utc("+01:00")),
        ] {
            assert!(!widens(&one, &other) && !widens(&other, &one), "{one} and {other}");
        }
        assert!(!widens(&Int64, &Int32) && !widens(&Float64, &Float32));
    }

    #[test]
    fn a_table_has_the_columns_of_all_files() {
        use DataType::*;
        let mut columns = InputColumns::new(None);
        columns.learn(&schema(&[("a", Int32), ("b", Utf8)]), "one.parquet").unwrap();
        columns.learn(&schema(&[("c", Boolean), ("a", Int64)]), "two.parquet").unwrap();
        assert_eq!(describe(&columns.schema()), "a Int64, b Utf8, c Boolean");
        let error = columns.learn(&schema(&[("d", Int32), ("b", Int32)]), "three").unwrap_err();
        insta::assert_snapshot!(error, @"column 'b' is Int32, but Utf8 in one.parquet, and neither type holds all values of the other; write the files with one type, or leave the column out with the key `columns`");
        assert_eq!(columns.schema().fields().len(), 3, "no column of the file was added");
        let twice = Schema::new(vec![Field::new("a", Int32, true), Field::new("a", Int32, true)]);
        let error = columns.learn(&twice, "four").unwrap_err();
        insta::assert_snapshot!(error, @"has two columns 'a'; give them different names");
    }

    #[test]
    fn a_missing_column_is_null() {
        let required = Schema::new(vec![Field::new("a", DataType::Int32, false)]);
        let mut columns = InputColumns::new(None);
        columns.learn(&required, "one").unwrap();
        let first = columns.schema();
        assert!(!first.field(0).is_nullable());
        let other = schema(&[("b", DataType::Int32)]);
        let error = check(&other, &first, true, "one").unwrap_err();
        insta::assert_snapshot!(error, @"has no column 'a', which one has without nulls; set schema_inference: full to allow nulls");
        columns.learn(&other, "two").unwrap();
        let both = columns.schema();
        assert!(both.fields().iter().all(|field| field.is_nullable()));
        check(&required, &both, true, "one").unwrap();
        check(&other, &both, true, "one").unwrap();
        assert_eq!(ColumnFit::new(&other, &both, "one").unwrap().indexes, [None, Some(0)]);
    }

    #[test]
    fn files_that_do_not_fit_are_refused_with_a_reason() {
        use DataType::*;
        let mut columns = InputColumns::new(None);
        columns.learn(&schema(&[("a", Int32)]), "one.parquet").unwrap();
        let first = columns.schema();
        let refusal = |file: &[(&str, DataType)]| {
            check(&schema(file), &first, true, "one.parquet").unwrap_err()
        };
        insta::assert_snapshot!(refusal(&[("a", Int64)]), @"column 'a' is Int64, but Int32 in one.parquet; set schema_inference: full, which takes the wider type, or write the files with one type");
        insta::assert_snapshot!(refusal(&[("a", Int8), ("x", Utf8)]), @"has a column 'x' (Utf8), which one.parquet does not have; set schema_inference: full, which takes the columns of all files, or list the wanted columns with the key `columns`");
        insta::assert_snapshot!(refusal(&[]), @"has no columns");
        check(&schema(&[("a", Int16)]), &first, true, "one").unwrap();
    }

    #[test]
    fn only_wanted_columns_count() {
        use DataType::*;
        let wanted = ["b", "a"].map(str::to_owned);
        let mut columns = InputColumns::new(Some(&wanted));
        assert_eq!(columns.schema().fields().len(), 0, "no file could be read");
        columns.learn(&schema(&[("a", Int32), ("b", Utf8), ("x", Int8)]), "one").unwrap();
        columns.learn(&schema(&[("a", Int32), ("x", Utf8)]), "two").unwrap();
        assert_eq!(describe(&columns.schema()), "b Utf8, a Int32");
        assert_eq!(columns.names().collect::<Vec<_>>(), ["a", "b", "x"]);
    }

    #[test]
    fn no_schema_is_larger_than_a_message() {
        let many: Vec<_> = (0..100_000).map(|n| (format!("column {n}"), DataType::Int8)).collect();
        let many: Vec<_> = many.iter().map(|(name, kind)| (name.as_str(), kind.clone())).collect();
        let error = InputColumns::new(None).learn(&schema(&many), "one").unwrap_err();
        assert!(error.to_string().starts_with("has 100000 columns, whose names"), "{error}");
        let mut two = InputColumns::new(Some(&["column 7".to_owned()]));
        two.learn(&schema(&many), "one").unwrap();
        assert_eq!(two.schema().fields().len(), 1);
    }
}
