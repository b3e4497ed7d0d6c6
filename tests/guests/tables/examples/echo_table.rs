//! Ordinary: returns its table unchanged. With `--rows`, it returns a row of text per row instead: the values
//! joined by commas, `-` for null. With `--types`, each row of text has the types of the columns. With
//! `--fail TEXT`, it returns an outcome per row, and rows that contain the text fail.

use sandmill_guest::arrow_array::cast::AsArray;
use sandmill_guest::arrow_array::types::{Float64Type, Int64Type};
use sandmill_guest::arrow_array::{Array, ArrayRef, RecordBatch};
use sandmill_guest::arrow_schema::DataType;
use sandmill_guest::{EntryScript, Job, MiniBatchContext, Result, Results, Table};

struct Guest {
    rows: bool,
    types: bool,
    fail: Option<String>,
}

impl EntryScript for Guest {
    type Input = Table;

    fn init(job: &Job) -> Result<Self> {
        let fail = job.argument("--fail").map(str::to_owned);
        Ok(Guest { rows: job.flag("--rows"), types: job.flag("--types"), fail })
    }

    fn run(&mut self, table: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
        if self.types {
            let schema = table.schema();
            let types =
                schema.fields().iter().map(|f| format!("{:?} {}", f.data_type(), f.is_nullable()));
            let types = types.collect::<Vec<_>>().join("; ");
            return Ok(vec![types; table.num_rows()].into());
        }
        if !self.rows && self.fail.is_none() {
            return Ok(table.into());
        }
        let row = |row| {
            let values: Result<Vec<String>> =
                table.columns().iter().map(|column| value(column, row)).collect();
            Ok(values?.join(","))
        };
        if let Some(fail) = &self.fail {
            return Ok(Results::each(0..table.num_rows(), |number| match row(number)? {
                bad if bad.contains(fail) => Err(format!("{bad:?} is not wanted").into()),
                good => Ok(good),
            }));
        }
        let rows: Result<Vec<String>> = (0..table.num_rows()).map(row).collect();
        Ok(rows?.into())
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
        // Values of other types, such as dates, are shown as the name of their type.
        other => format!("<{other}>"),
    })
}

sandmill_guest::export!(Guest);
