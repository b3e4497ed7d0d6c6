//! An ordinary guest (not a hostile one): writes each of its tables as an Arrow stream into the output
//! folder, at `DATASET/ID.arrow`, and returns the text `row` for each row of the table.

use arrow_ipc::writer::StreamWriter;
use sandmill_guest::arrow_array::RecordBatch;
use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Table};
use std::fs::{self, File};

struct Guest(Job);

impl EntryScript for Guest {
    type Input = Table;

    fn init(job: &Job) -> Result<Self> {
        Ok(Guest(job.clone()))
    }

    fn run(&mut self, table: RecordBatch, context: &MiniBatchContext) -> Result<Results> {
        let folder = self.0.output_dir().join(&context.dataset);
        fs::create_dir_all(&folder)?;
        let file = File::create(folder.join(format!("{:06}.arrow", context.id)))?;
        let mut writer =
            StreamWriter::try_new_buffered(file, &table.schema()).context("begin a stream")?;
        writer.write(&table).context("write a table")?;
        writer.finish().context("end a stream")?;
        Ok(vec!["row".to_owned(); table.num_rows()].into())
    }
}

sandmill_guest::export!(Guest);
