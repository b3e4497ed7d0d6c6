//! An ordinary guest (not a hostile one): returns its table unchanged. With `--rows`, it returns a text for
//! each row instead: the values joined by commas, with `-` for null. With `--types`, it returns the types of
//! the columns as a text for each row. With `--fail TEXT`, it returns an outcome for each row, and a row that
//! contains the text fails. With `--groups`, it returns for each row a text of all rows. With
//! `--nap MILLISECONDS`, each call of `run` prints `run` with its mini-batch and its attempt, and sleeps that
//! long.

use sandmill_guest::arrow_array::cast::AsArray;
use sandmill_guest::arrow_array::types::{Float64Type, Int64Type};
use sandmill_guest::arrow_array::{Array, ArrayRef, RecordBatch};
use sandmill_guest::arrow_schema::DataType;
use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Table};
use std::time::Duration;

struct Guest {
    returns_rows: bool,
    returns_types: bool,
    /// Rows that contain this text fail.
    failing_text: Option<String>,
    returns_groups: bool,
    nap: Duration,
}

impl EntryScript for Guest {
    type Input = Table;

    fn init(job: &Job) -> Result<Self> {
        let nap = job.argument("--nap").map_or(Ok(0), str::parse::<u64>).context("--nap")?;
        Ok(Guest {
            returns_rows: job.flag("--rows"),
            returns_types: job.flag("--types"),
            failing_text: job.argument("--fail").map(str::to_owned),
            returns_groups: job.flag("--groups"),
            nap: Duration::from_millis(nap),
        })
    }

    fn run(&mut self, table: RecordBatch, context: &MiniBatchContext) -> Result<Results> {
        if !self.nap.is_zero() {
            println!("run {} attempt {}", context.id, context.attempt);
            std::thread::sleep(self.nap);
        }
        if self.returns_types {
            let schema = table.schema();
            let types =
                schema.fields().iter().map(|f| format!("{:?} {}", f.data_type(), f.is_nullable()));
            let types = types.collect::<Vec<_>>().join("; ");
            return Ok(vec![types; table.num_rows()].into());
        }
        if !self.returns_rows && !self.returns_groups && self.failing_text.is_none() {
            return Ok(table.into());
        }
        let row_text = |row| {
            let values: Result<Vec<String>> =
                table.columns().iter().map(|column| value(column, row)).collect();
            Ok(values?.join(","))
        };
        if let Some(failing_text) = &self.failing_text {
            return Ok(Results::each(0..table.num_rows(), |row| match row_text(row)? {
                bad if bad.contains(failing_text) => Err(format!("{bad:?} is not wanted").into()),
                good => Ok(good),
            }));
        }
        let rows: Result<Vec<String>> = (0..table.num_rows()).map(row_text).collect();
        let rows = rows?;
        Ok(if self.returns_groups { vec![rows.join(" "); rows.len()].into() } else { rows.into() })
    }
}

fn value(column: &ArrayRef, row: usize) -> Result<String> {
    if column.is_null(row) {
        return Ok("-".to_owned());
    }
    Ok(match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).to_owned(),
        DataType::Utf8View => column.as_string_view().value(row).to_owned(),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        // A value of another type, such as a date, is shown as the name of its type.
        other => format!("<{other}>"),
    })
}

sandmill_guest::export!(Guest);
