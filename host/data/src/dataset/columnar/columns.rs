//! Determines the columns of an input, and how the columns of one file become them.

use super::schema::to_message;
use crate::dataset::{DatasetError, fail};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The columns of an input, learned from its files.
#[derive(Clone, Debug, Default)]
pub struct InputColumns {
    /// The wanted columns, in that order. `None` for all.
    wanted: Option<Vec<String>>,
    fields: Vec<Field>,
    /// The names of all columns, including those that are not wanted.
    names: Vec<String>,
    /// The first file that the columns were learned from, as messages name it.
    origin: Option<String>,
}

impl InputColumns {
    /// Starts without any columns. `wanted`: the columns that the guest receives; `None` for all.
    pub fn new(wanted: Option<&[String]>) -> Self {
        Self { wanted: wanted.map(<[String]>::to_vec), ..Self::default() }
    }

    /// Columns that were learned before: those of a table that `origin` has.
    pub fn of(schema: &Schema, wanted: Option<&[String]>, origin: &str) -> Self {
        let fields = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let names = names(schema).into_iter().map(str::to_owned).collect();
        Self { fields, names, origin: Some(origin.to_owned()), ..Self::new(wanted) }
    }

    /// Whether a file has been learned from.
    pub fn are_known(&self) -> bool {
        self.origin.is_some()
    }

    /// Adds the columns of a file, after those that are known. A wider type replaces a narrower one. Fails,
    /// and adds nothing, if neither type holds all values of the other, if the file has no columns or two
    /// with the same name, or if the columns are too many for the guest.
    pub fn learn(&mut self, schema: &Schema, origin: &str) -> Result<(), DatasetError> {
        single(schema)?;
        if self.wanted.is_none() && schema.fields().is_empty() {
            return fail!("has no columns");
        }
        let mut fields = self.fields.clone();
        let mut known: HashMap<String, usize> =
            fields.iter().enumerate().map(|(at, field)| (field.name().clone(), at)).collect();
        let here = names(schema);
        for field in &mut fields {
            let nullable = field.is_nullable() || !here.contains(field.name().as_str());
            *field = field.clone().with_nullable(nullable);
        }
        let wanted: Option<HashSet<&String>> = self.wanted.as_ref().map(|w| w.iter().collect());
        for field in schema.fields() {
            if wanted.as_ref().is_some_and(|wanted| !wanted.contains(field.name())) {
                continue;
            }
            match known.get(field.name()) {
                Some(&at) => fields[at] = self.joined(&fields[at], field)?,
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
        let more = schema.fields().iter().map(|field| field.name());
        let more: Vec<_> = more.filter(|name| !known.contains(name)).cloned().collect();
        self.names.extend(more);
        self.origin.get_or_insert_with(|| origin.to_owned());
        Ok(())
    }

    fn joined(&self, known: &Field, field: &Field) -> Result<Field, DatasetError> {
        let one = known.data_type();
        let other = field.data_type();
        let joined = known.clone().with_nullable(known.is_nullable() || field.is_nullable());
        if widens(other, one) {
            Ok(joined)
        } else if widens(one, other) {
            Ok(joined.with_data_type(other.clone()))
        } else {
            fail!(
                "column '{}' is {other}, and {one} in {}, and neither type holds all values of the \
                 other; write the files with one type, or leave the column out with columns",
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

    /// The columns that the guest receives: the wanted ones that are known.
    pub fn schema(&self) -> Schema {
        let Some(wanted) = &self.wanted else { return Schema::new(self.fields.clone()) };
        let field = |name: &String| self.fields.iter().find(|field| field.name() == name).cloned();
        Schema::new(wanted.iter().filter_map(field).collect::<Vec<_>>())
    }
}

/// Fails, with an explanation, if a file with these columns cannot become a table with `columns`, which
/// `origin` has. `all`: whether the file must not have other columns.
pub fn check(file: &Schema, columns: &Schema, all: bool, origin: &str) -> Result<(), DatasetError> {
    single(file)?;
    if file.fields().is_empty() {
        return fail!("has no columns");
    }
    ColumnFit::new(file, columns, origin)?;
    let known = names(columns);
    let mut fields = file.fields().iter();
    match fields.find(|field| all && !known.contains(field.name().as_str())) {
        None => Ok(()),
        Some(more) => fail!(
            "has a column '{}' ({}), which {origin} does not have; set schema_inference: full, which takes \
             the columns of all files, or name those that are wanted with columns",
            more.name(),
            more.data_type(),
        ),
    }
}

fn names(schema: &Schema) -> HashSet<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

/// Fails if two columns have the same name.
fn single(schema: &Schema) -> Result<(), DatasetError> {
    let mut seen = HashSet::with_capacity(schema.fields().len());
    match schema.fields().iter().find(|field| !seen.insert(field.name())) {
        Some(twice) => fail!("has two columns '{}'; give them different names", twice.name()),
        None => Ok(()),
    }
}

/// How the columns of one file become those of the table.
#[derive(Clone, Debug)]
pub(super) struct ColumnFit {
    /// The index of the file's column for each column of the table. `None` if the file lacks it.
    pub(super) places: Vec<Option<usize>>,
    /// The indexes of the file's columns that are needed, ascending.
    pub(super) needed: Vec<usize>,
}

impl ColumnFit {
    /// Fails if the table's type cannot hold the values of a column, or if a required column is missing.
    pub(super) fn new(file: &Schema, table: &Schema, origin: &str) -> Result<Self, DatasetError> {
        let at: HashMap<&str, usize> = file
            .fields()
            .iter()
            .enumerate()
            .map(|(at, field)| (field.name().as_str(), at))
            .collect();
        let mut places = Vec::with_capacity(table.fields().len());
        for field in table.fields() {
            let place = at.get(field.name().as_str()).copied();
            match place {
                None if field.is_nullable() => {}
                None => {
                    return fail!(
                        "has no column '{}', which {origin} has without nulls; set \
                         schema_inference: full to have nulls there",
                        field.name(),
                    );
                }
                Some(at) => {
                    let found = file.field(at).data_type();
                    if !widens(found, field.data_type()) {
                        return fail!(
                            "column '{}' is {found}, and {} in {origin}; set schema_inference: full, \
                             which takes the wider type, or write the files with one type",
                            field.name(),
                            field.data_type(),
                        );
                    }
                }
            }
            places.push(place);
        }
        let mut needed: Vec<usize> = places.iter().flatten().copied().collect();
        needed.sort_unstable();
        Ok(Self { places, needed })
    }
}

/// Whether each value of `from` is also one of `to`, and Arrow can cast it.
fn widens(from: &DataType, to: &DataType) -> bool {
    from == to || (is_wider(from, to) && can_cast_types(from, to))
}

fn is_wider(from: &DataType, to: &DataType) -> bool {
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
        (Dictionary(_, one), Dictionary(_, other)) => is_wider(one, other) || one == other,
        (Dictionary(_, value), other) | (other, Dictionary(_, value)) => {
            value.as_ref() == other || is_wider(value, other) && is_wider(other, value)
        }
        (Timestamp(one, from_zone), Timestamp(other, to_zone)) => {
            let same = from_zone == to_zone || is_utc(from_zone) && is_utc(to_zone);
            same && fineness(*one) <= fineness(*other)
        }
        (List(one) | LargeList(one), List(other) | LargeList(other)) => holds(one, other),
        (FixedSizeList(one, from_length), FixedSizeList(other, to_length)) => {
            from_length == to_length && holds(one, other)
        }
        (Struct(one), Struct(other)) => {
            let same = |(one, other): (&Arc<Field>, &Arc<Field>)| {
                one.name() == other.name() && holds(one, other)
            };
            one.len() == other.len() && one.iter().zip(other).all(same)
        }
        (Map(..), Map(..)) => from.equals_datatype(to),
        _ => decimal(from).zip(decimal(to)).is_some_and(|((precision, scale), wide)| {
            let whole = i16::from(precision) - i16::from(scale);
            scale <= wide.1 && whole <= i16::from(wide.0) - i16::from(wide.1)
        }),
    }
}

fn holds(one: &Field, other: &Field) -> bool {
    (other.is_nullable() || !one.is_nullable()) && widens(one.data_type(), other.data_type())
}

/// Whether an integer type is signed, and its width in bits. `None` for other types.
fn integer(data_type: &DataType) -> Option<(bool, usize)> {
    let bits = data_type.primitive_width().unwrap_or(0) * 8;
    data_type.is_integer().then(|| (data_type.is_signed_integer(), bits))
}

/// Whether the zone is UTC, which has several names.
fn is_utc(zone: &Option<Arc<str>>) -> bool {
    const NAMES: [&str; 6] = ["utc", "z", "etc/utc", "+00:00", "-00:00", "+0000"];
    let name = zone.as_deref().map(str::to_ascii_lowercase);
    name.is_some_and(|name| NAMES.contains(&name.as_str()))
}

fn fineness(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

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

    fn shown(schema: &Schema) -> String {
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
        assert_eq!(shown(&columns.schema()), "a Int64, b Utf8, c Boolean");
        let error = columns.learn(&schema(&[("d", Int32), ("b", Int32)]), "three").unwrap_err();
        insta::assert_snapshot!(error, @"column 'b' is Int32, and Utf8 in one.parquet, and neither type holds all values of the other; write the files with one type, or leave the column out with columns");
        assert_eq!(columns.schema().fields().len(), 3, "nothing of it was learned");
        let twice = Schema::new(vec![Field::new("a", Int32, true), Field::new("a", Int32, true)]);
        let error = columns.learn(&twice, "four").unwrap_err();
        insta::assert_snapshot!(error, @"has two columns 'a'; give them different names");
    }

    #[test]
    fn a_missing_column_is_null() {
        let must = Schema::new(vec![Field::new("a", DataType::Int32, false)]);
        let mut columns = InputColumns::new(None);
        columns.learn(&must, "one").unwrap();
        let first = columns.schema();
        assert!(!first.field(0).is_nullable());
        let other = schema(&[("b", DataType::Int32)]);
        let error = check(&other, &first, true, "one").unwrap_err();
        insta::assert_snapshot!(error, @"has no column 'a', which one has without nulls; set schema_inference: full to have nulls there");
        columns.learn(&other, "two").unwrap();
        let both = columns.schema();
        assert!(both.fields().iter().all(|field| field.is_nullable()));
        check(&must, &both, true, "one").unwrap();
        check(&other, &both, true, "one").unwrap();
        assert_eq!(ColumnFit::new(&other, &both, "one").unwrap().places, [None, Some(0)]);
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
        insta::assert_snapshot!(refusal(&[("a", Int64)]), @"column 'a' is Int64, and Int32 in one.parquet; set schema_inference: full, which takes the wider type, or write the files with one type");
        insta::assert_snapshot!(refusal(&[("a", Int8), ("x", Utf8)]), @"has a column 'x' (Utf8), which one.parquet does not have; set schema_inference: full, which takes the columns of all files, or name those that are wanted with columns");
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
        assert_eq!(shown(&columns.schema()), "b Utf8, a Int32");
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
