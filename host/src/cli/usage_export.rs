//! Exports receipts with the columns of FOCUS, the FinOps Open Cost and Usage Specification: a row for each attempt. Sandmill
//! sets no prices, so all costs are 0, and the currency is `XXX`, ISO 4217's code for none. What FOCUS has no column for is in
//! columns whose names begin with `x_`.

use crate::journal::SealedReceipt;
use crate::model::{Receipt, random_name};
use anyhow::Context;
use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::csv::Writer as CsvWriter;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many rows are written at a time.
const BATCH: usize = 8192;
/// The digits of a decimal, and those after the point.
const DECIMAL: (u8, i8) = (38, 6);
/// The time zone of times. Arrow knows no names of zones.
const UTC: &str = "+00:00";

/// A column: its name, and how its values are made.
type Column = (&'static str, Values);

/// The values of a column.
#[derive(Clone, Copy)]
enum Values {
    Text(fn(&SealedReceipt) -> String),
    Time(fn(&Receipt) -> Timestamp),
    /// In millionths.
    Decimal(fn(&Receipt) -> i128),
    Number(fn(&Receipt) -> Option<u64>),
    Flag(fn(&Receipt) -> bool),
    /// Text that Sandmill has for no row.
    Null,
}

/// The columns, in the order of their names in FOCUS. Those of Sandmill come last.
const COLUMNS: &[Column] = &[
    ("BilledCost", Values::Decimal(|_| 0)),
    ("BillingAccountId", Values::Text(|_| "sandmill".to_owned())),
    ("BillingAccountName", Values::Text(|_| "Sandmill".to_owned())),
    ("BillingCurrency", Values::Text(|_| "XXX".to_owned())),
    ("BillingPeriodEnd", Values::Time(|receipt| month(receipt).1)),
    ("BillingPeriodStart", Values::Time(|receipt| month(receipt).0)),
    ("ChargeCategory", Values::Text(|_| "Usage".to_owned())),
    ("ChargeClass", Values::Null),
    ("ChargeDescription", Values::Text(description)),
    ("ChargeFrequency", Values::Text(|_| "Usage-Based".to_owned())),
    ("ChargePeriodEnd", Values::Time(|receipt| receipt.ended)),
    ("ChargePeriodStart", Values::Time(|receipt| receipt.started)),
    ("ConsumedQuantity", Values::Decimal(|receipt| receipt.usage.cpu_us.into())),
    ("ConsumedUnit", Values::Text(|_| "CPU-Seconds".to_owned())),
    ("ContractedCost", Values::Decimal(|_| 0)),
    ("EffectiveCost", Values::Decimal(|_| 0)),
    ("InvoiceIssuerName", Values::Text(|_| "Sandmill".to_owned())),
    ("ListCost", Values::Decimal(|_| 0)),
    ("PricingQuantity", Values::Decimal(|receipt| receipt.usage.cpu_us.into())),
    ("PricingUnit", Values::Text(|_| "CPU-Seconds".to_owned())),
    ("ProviderName", Values::Text(|_| "Sandmill".to_owned())),
    ("PublisherName", Values::Text(|_| "Sandmill".to_owned())),
    ("ResourceId", Values::Text(|sealed| sealed.receipt.job.clone())),
    ("ResourceName", Values::Text(|sealed| sealed.receipt.name.clone())),
    ("ResourceType", Values::Text(|_| "Job".to_owned())),
    ("ServiceCategory", Values::Text(|_| "Compute".to_owned())),
    ("ServiceName", Values::Text(|_| "Sandmill".to_owned())),
    ("SkuId", Values::Text(|_| "attempt".to_owned())),
    ("SubAccountId", Values::Text(|sealed| sealed.receipt.tenant.clone())),
    ("SubAccountName", Values::Text(|sealed| sealed.receipt.tenant.clone())),
    ("x_AttemptId", Values::Text(|sealed| sealed.receipt.attempt_id.clone())),
    ("x_Run", Values::Text(|sealed| sealed.receipt.run.clone())),
    ("x_MiniBatch", Values::Number(|receipt| Some(receipt.mini_batch))),
    ("x_Attempt", Values::Number(|receipt| Some(receipt.attempt.into()))),
    ("x_Worker", Values::Text(|sealed| sealed.receipt.worker.clone())),
    ("x_Node", Values::Number(|receipt| Some(receipt.node.into()))),
    ("x_Component", Values::Text(|sealed| sealed.receipt.component.clone())),
    ("x_Engine", Values::Text(|sealed| sealed.receipt.engine.clone())),
    ("x_Outcome", Values::Text(|sealed| sealed.receipt.outcome.name().to_owned())),
    ("x_Billable", Values::Flag(|receipt| receipt.billable)),
    ("x_NotBillable", Values::Text(why_not)),
    ("x_CpuMicroseconds", Values::Number(|receipt| Some(receipt.usage.cpu_us))),
    ("x_WallMicroseconds", Values::Number(|receipt| Some(receipt.usage.wall_us))),
    ("x_MemoryByteMilliseconds", Values::Number(|receipt| Some(receipt.usage.memory_byte_ms))),
    ("x_PeakMemoryBytes", Values::Number(|receipt| Some(receipt.usage.peak_memory))),
    ("x_Fuel", Values::Number(|receipt| receipt.usage.fuel)),
    ("x_BytesRead", Values::Number(|receipt| Some(receipt.usage.bytes_read))),
    ("x_BytesWritten", Values::Number(|receipt| Some(receipt.usage.bytes_written))),
    ("x_BytesFetched", Values::Number(|receipt| Some(receipt.usage.bytes_fetched))),
    ("x_ModelCalls", Values::Number(|receipt| Some(receipt.usage.model_calls))),
    ("x_ModelMicroseconds", Values::Number(|receipt| Some(receipt.usage.model_us))),
    ("x_GpuMicroseconds", Values::Number(|receipt| Some(receipt.usage.gpu_us))),
    ("x_ReceiptHash", Values::Text(|sealed| sealed.hash.clone())),
];

fn description(sealed: &SealedReceipt) -> String {
    let Receipt { name, mini_batch, attempt, outcome, .. } = &sealed.receipt;
    format!("attempt {attempt} at mini-batch {mini_batch} of job {name}: {outcome}")
}

fn why_not(sealed: &SealedReceipt) -> String {
    sealed.receipt.not_billable.map(|reason| reason.name().to_owned()).unwrap_or_default()
}

/// The month in which an attempt ended, in UTC: its first moment, and that of the next month.
fn month(receipt: &Receipt) -> (Timestamp, Timestamp) {
    let ended = receipt.ended.to_zoned(TimeZone::UTC);
    let begin = |year, month| {
        let first = date(year, month, 1).to_zoned(TimeZone::UTC);
        first.map_or(receipt.ended, |first| first.timestamp())
    };
    let year = ended.year();
    let month = ended.month();
    let next = if month == 12 {
        begin(year.saturating_add(1).min(9999), 1)
    } else {
        begin(year, month + 1)
    };
    (begin(year, month), next)
}

impl Values {
    fn data_type(self) -> DataType {
        match self {
            Self::Text(_) | Self::Null => DataType::Utf8,
            Self::Time(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            Self::Decimal(_) => DataType::Decimal128(DECIMAL.0, DECIMAL.1),
            Self::Number(_) => DataType::Int64,
            Self::Flag(_) => DataType::Boolean,
        }
    }

    fn array(self, rows: &[SealedReceipt]) -> anyhow::Result<ArrayRef> {
        let receipts = rows.iter().map(|sealed| &sealed.receipt);
        Ok(match self {
            Self::Text(value) => {
                Arc::new(rows.iter().map(|row| Some(value(row))).collect::<StringArray>())
            }
            Self::Null => Arc::new(rows.iter().map(|_| None::<&str>).collect::<StringArray>()),
            Self::Time(value) => {
                let times: TimestampMicrosecondArray =
                    receipts.map(|receipt| Some(value(receipt).as_microsecond())).collect();
                Arc::new(times.with_timezone(UTC))
            }
            Self::Decimal(value) => {
                let numbers: Decimal128Array =
                    receipts.map(|receipt| Some(value(receipt))).collect();
                Arc::new(numbers.with_precision_and_scale(DECIMAL.0, DECIMAL.1)?)
            }
            Self::Number(value) => {
                // The numbers of receipts fit: see `AttemptUsage::MAX`.
                let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                Arc::new(receipts.map(|receipt| value(receipt).map(number)).collect::<Int64Array>())
            }
            Self::Flag(value) => {
                Arc::new(receipts.map(|receipt| Some(value(receipt))).collect::<BooleanArray>())
            }
        })
    }
}

/// A file that is being written. It gets its name when it is complete.
pub(super) struct Export {
    target: PathBuf,
    /// The incomplete file. `None` if the target is not a regular file, such as a pipe: then it is written directly.
    temporary: Option<PathBuf>,
    schema: SchemaRef,
    writer: Option<FileWriter>,
    rows: Vec<SealedReceipt>,
    written: u64,
}

enum FileWriter {
    Csv(Box<CsvWriter<File>>),
    Parquet(Box<ArrowWriter<File>>),
}

/// A new name in the folder of this file.
fn beside(target: &Path) -> anyhow::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(target.file_name().context("it is not the name of a file")?);
    name.push(format!(".{}", random_name()));
    Ok(target.with_file_name(name))
}

impl Export {
    /// Begins to write the file, or to replace it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let field = |(name, values): &Column| Field::new(*name, values.data_type(), true);
        let schema: SchemaRef =
            Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()));
        // A link stays, and the file to which it leads is replaced.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_special = target.metadata().is_ok_and(|found| !found.is_file());
        let temporary = (!is_special).then(|| beside(&target)).transpose()?;
        let file = File::create(temporary.as_ref().unwrap_or(&target))?;
        let is_parquet = path.extension().is_some_and(|extension| extension == "parquet");
        let writer = if is_parquet {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
            let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties.build()))?;
            FileWriter::Parquet(Box::new(writer))
        } else {
            FileWriter::Csv(Box::new(CsvWriter::new(file)))
        };
        Ok(Self { target, temporary, schema, writer: Some(writer), rows: Vec::new(), written: 0 })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn add(&mut self, sealed: &SealedReceipt) -> anyhow::Result<()> {
        self.rows.push(sealed.clone());
        if self.rows.len() >= BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let columns = COLUMNS.iter().map(|(_, values)| values.array(&rows));
        let columns = columns.collect::<anyhow::Result<Vec<ArrayRef>>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        match self.writer.as_mut().context("the file is closed")? {
            FileWriter::Csv(writer) => writer.write(&batch)?,
            FileWriter::Parquet(writer) => writer.write(&batch)?,
        }
        self.written += rows.len() as u64;
        Ok(())
    }

    /// Writes the rest. Returns the number of rows.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        // Also without rows: the file then has only the names of the columns.
        self.write()?;
        let file = match self.writer.take().context("the file is closed")? {
            FileWriter::Csv(writer) => (*writer).into_inner(),
            FileWriter::Parquet(writer) => (*writer).into_inner()?,
        };
        // A pipe cannot be synced.
        if let Some(temporary) = &self.temporary {
            file.sync_all()?;
            fs::rename(temporary, &self.target)?;
        }
        self.temporary = None;
        Ok(self.written)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The file is incomplete. The error that is reported says why.
            let _ = fs::remove_file(temporary);
        }
    }
}
