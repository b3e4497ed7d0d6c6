//! Runs the query and reads its result row by row.

use super::bounds::MAX_SURVEY_TIME;
use super::columns::{StorageClass, describe_value, size};
use super::error_text::describe;
use super::open::Database;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, err};
use crate::model::ByteSize;
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch,
    StringBuilder, new_null_array,
};
use arrow::datatypes::{Field, Schema, SchemaRef};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of SQLite's steps between two checks of the time. One step may take a tenth of a second.
const STEPS_PER_CHECK: i32 = 1000;

/// A summary of a query's result.
#[derive(Clone, Debug)]
pub struct QuerySummary {
    /// The columns.
    pub schema: SchemaRef,
    /// The number of rows.
    pub rows: u64,
    /// About how many bytes the rows take in memory.
    pub bytes: u64,
}

impl Database {
    /// Runs the query, and keeps only a summary of its result. Fails if the query does not finish within a
    /// few minutes, if the result is more than a worker can hold, or if the values of a column are not of one
    /// type.
    pub fn survey(&mut self) -> Result<QuerySummary, DatasetError> {
        self.survey_within(MAX_SURVEY_TIME)
    }

    /// Like [`Self::survey`], with another time limit.
    pub(super) fn survey_within(
        &mut self,
        max_time: Duration,
    ) -> Result<QuerySummary, DatasetError> {
        let began = Instant::now();
        let is_late = move || began.elapsed() >= max_time;
        self.connection
            .progress_handler(STEPS_PER_CHECK, Some(is_late))
            .map_err(|error| describe(&error))?;
        let survey = self.run_survey();
        let ended = self.connection.progress_handler(0, None::<fn() -> bool>);
        ended.map_err(|error| describe(&error))?;
        survey
    }

    fn run_survey(&self) -> Result<QuerySummary, DatasetError> {
        let mut statement = self.statement()?;
        let mut columns = seen_columns(&statement);
        let mut rows = 0;
        let mut bytes = 0_u64;
        each_row(&mut statement, &mut |number, row| {
            rows = number;
            for (index, column) in columns.iter_mut().enumerate() {
                let value = value(row, index)?;
                bytes = bytes.saturating_add(size(value));
                column.learn_from_value(number, value)?;
            }
            check_size(bytes)
        })?;
        let fields: Vec<_> = columns.iter().map(SeenColumn::field).collect();
        Ok(QuerySummary { schema: Arc::new(Schema::new(fields)), rows, bytes })
    }

    /// Runs the query, and turns the result into a table with these columns. The result must have
    /// `rows` rows. A column that the result does not have is null. Fails if the database has
    /// changed since it was surveyed.
    pub fn read(&self, columns: &SchemaRef, rows: u64) -> Result<RecordBatch, DatasetError> {
        let changed = |found: String| {
            DatasetError(format!(
                "has changed since planning, or query gives other rows each time: it gives {found} rows \
                 instead of {rows}; run the job on files that no program writes to"
            ))
        };
        let mut statement = self.statement()?;
        let mut builders = Vec::with_capacity(columns.fields().len());
        for field in columns.fields() {
            let index = statement.column_names().position(|name| name == field.name());
            builders.push((index, ColumnBuilder::new(field)?));
        }
        let mut read = 0;
        let mut bytes = 0_u64;
        each_row(&mut statement, &mut |number, row| {
            read = number;
            if number > rows {
                return Err(changed(format!("more than {rows}")));
            }
            for (index, builder) in &mut builders {
                let Some(index) = index else { continue };
                let value = value(row, *index)?;
                bytes = bytes.saturating_add(size(value));
                builder.add(number, value)?;
            }
            check_size(bytes)
        })?;
        if read < rows {
            return Err(changed(read.to_string()));
        }
        let length = usize::try_from(rows).unwrap_or(usize::MAX);
        let arrays =
            builders.into_iter().zip(columns.fields()).map(
                |((index, builder), field)| match index {
                    Some(_) => builder.finish(),
                    None => new_null_array(field.data_type(), length),
                },
            );
        match RecordBatch::try_new(Arc::clone(columns), arrays.collect()) {
            Ok(batch) => Ok(batch),
            Err(error) => err!("cannot become a table: {error}"),
        }
    }
}

type Take<'t> = dyn FnMut(u64, &Row<'_>) -> Result<(), DatasetError> + 't;

/// Calls `take` for each row, with its number from 1.
fn each_row(statement: &mut Statement<'_>, take: &mut Take<'_>) -> Result<(), DatasetError> {
    let mut rows = statement.query([]).map_err(|error| describe(&error))?;
    let mut number = 0;
    while let Some(row) = rows.next().map_err(|error| describe(&error))? {
        number += 1;
        take(number, row)?;
    }
    Ok(())
}

/// The value in a column of a row.
fn value<'r>(row: &'r Row<'_>, index: usize) -> Result<ValueRef<'r>, DatasetError> {
    row.get_ref(index).map_err(|error| describe(&error))
}

/// Fails if a worker cannot hold this many bytes.
fn check_size(bytes: u64) -> Result<(), DatasetError> {
    if bytes <= MAX_SLICE {
        return Ok(());
    }
    err!(
        "gives more than {}, which is the most that a worker holds, and the result of a database is one \
         mini-batch; select less in query, or divide the rows among several databases",
        ByteSize(MAX_SLICE),
    )
}

/// What is known of a column of the result.
#[derive(Debug)]
struct SeenColumn {
    name: String,
    /// The type that the column's table declares, as written there. `None` if the values decide.
    declared: Option<String>,
    /// The class that holds all values so far.
    kind: Option<StorageClass>,
}

/// The columns, before the first row is read.
fn seen_columns(statement: &Statement<'_>) -> Vec<SeenColumn> {
    let columns = statement.columns().map(|column| {
        let kind = column.decl_type().and_then(StorageClass::declared);
        let declared = kind.and(column.decl_type()).map(str::to_owned);
        SeenColumn { name: column.name().to_owned(), declared, kind }
    });
    columns.collect()
}

impl SeenColumn {
    fn field(&self) -> Field {
        // A column without values is text, as in CSV.
        let kind = self.kind.unwrap_or(StorageClass::String);
        Field::new(&self.name, kind.arrow(), true)
    }

    /// Learns from a value. Fails if it does not fit the column.
    fn learn_from_value(&mut self, row: u64, value: ValueRef<'_>) -> Result<(), DatasetError> {
        let Some(kind) = StorageClass::from_value(value) else { return Ok(()) };
        match (self.kind, &self.declared) {
            (None, _) => self.kind = Some(kind),
            (Some(known), None) => self.kind = Some(known.join(kind).unwrap_or(known)),
            (Some(_), Some(_)) => {}
        }
        let Some(known) = self.kind.filter(|known| !known.holds(value)) else { return Ok(()) };
        let expected = match &self.declared {
            Some(declared) => format!("where its table declares {declared}"),
            None => format!("where rows before have {known}"),
        };
        misfit(&self.name, row, value, &expected)
    }
}

/// Fails with a message about a value that does not fit its column. `expected` is the part of the message
/// that says which values fit.
fn misfit(column: &str, row: u64, value: ValueRef<'_>, expected: &str) -> Result<(), DatasetError> {
    let found = describe_value(value);
    match value {
        ValueRef::Text(text) if std::str::from_utf8(text).is_err() => err!(
            "has {found} in column '{column}' of row {row}; read its bytes with cast(\"{column}\" as blob) \
             in query"
        ),
        _ => err!(
            "has {found} in column '{column}' of row {row}, {expected}; convert it in query, as with \
             cast(\"{column}\" as text), or leave the row out"
        ),
    }
}

#[derive(Debug)]
struct ColumnBuilder {
    name: String,
    kind: StorageClass,
    values: SqliteValues,
}

#[derive(Debug)]
enum SqliteValues {
    Boolean(BooleanBuilder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    String(StringBuilder),
    Binary(BinaryBuilder),
}

impl ColumnBuilder {
    fn new(field: &Field) -> Result<Self, DatasetError> {
        let Some(kind) = StorageClass::from_arrow(field.data_type()) else {
            return err!("cannot give a column '{}' of {}", field.name(), field.data_type());
        };
        let values = match kind {
            StorageClass::Boolean => SqliteValues::Boolean(BooleanBuilder::new()),
            StorageClass::Int64 => SqliteValues::Int64(Int64Builder::new()),
            StorageClass::Float64 => SqliteValues::Float64(Float64Builder::new()),
            StorageClass::String => SqliteValues::String(StringBuilder::new()),
            StorageClass::Binary => SqliteValues::Binary(BinaryBuilder::new()),
        };
        Ok(Self { name: field.name().clone(), kind, values })
    }

    fn add(&mut self, row: u64, value: ValueRef<'_>) -> Result<(), DatasetError> {
        if !self.kind.holds(value) {
            let expected = format!("but the table has {}", self.kind);
            return misfit(&self.name, row, value, &expected);
        }
        match (&mut self.values, value) {
            (SqliteValues::Boolean(values), ValueRef::Integer(number)) => {
                values.append_value(number == 1);
            }
            (SqliteValues::Boolean(values), _) => values.append_null(),
            (SqliteValues::Int64(values), ValueRef::Integer(number)) => values.append_value(number),
            (SqliteValues::Int64(values), _) => values.append_null(),
            (SqliteValues::Float64(values), ValueRef::Real(number)) => values.append_value(number),
            (SqliteValues::Float64(values), ValueRef::Integer(number)) => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "`StorageClass::holds` accepts only numbers that floats hold exactly"
                )]
                values.append_value(number as f64);
            }
            (SqliteValues::Float64(values), _) => values.append_null(),
            (SqliteValues::String(values), ValueRef::Text(text)) => {
                values.append_option(std::str::from_utf8(text).ok());
            }
            (SqliteValues::String(values), _) => values.append_null(),
            (SqliteValues::Binary(values), ValueRef::Blob(bytes)) => values.append_value(bytes),
            (SqliteValues::Binary(values), _) => values.append_null(),
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self.values {
            SqliteValues::Boolean(mut values) => Arc::new(values.finish()),
            SqliteValues::Int64(mut values) => Arc::new(values.finish()),
            SqliteValues::Float64(mut values) => Arc::new(values.finish()),
            SqliteValues::String(mut values) => Arc::new(values.finish()),
            SqliteValues::Binary(mut values) => Arc::new(values.finish()),
        }
    }
}
