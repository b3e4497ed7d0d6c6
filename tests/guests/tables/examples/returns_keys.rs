//! An ordinary guest (not a hostile one): returns a text for each row of its table: the mini-batch's id, its
//! partition keys, and the row's values joined by commas, with `-` for null.

use sandmill_guest::arrow_array::cast::AsArray;
use sandmill_guest::arrow_array::types::Int64Type;
use sandmill_guest::arrow_array::{Array, ArrayRef, RecordBatch};
use sandmill_guest::arrow_schema::DataType;
use sandmill_guest::{EntryScript, Job, MiniBatchContext, Result, Results, Table};

struct Guest;

impl EntryScript for Guest {
    type Input = Table;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Guest)
    }

    fn run(&mut self, table: RecordBatch, context: &MiniBatchContext) -> Result<Results> {
        let row_text = |row| {
            let values: Vec<String> =
                table.columns().iter().map(|column| value(column, row)).collect();
            let keys = &context.partition_key_value;
            format!("{} {keys:?} {}", context.id, values.join(","))
        };
        Ok((0..table.num_rows()).map(row_text).collect::<Vec<_>>().into())
    }
}

fn value(column: &ArrayRef, row: usize) -> String {
    match column.data_type() {
        _ if column.is_null(row) => "-".to_owned(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        other => format!("<{other}>"),
    }
}

sandmill_guest::export!(Guest);
