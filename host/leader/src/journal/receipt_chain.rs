//! The hash chain over a job's receipts. The hash of a receipt is the SHA-256 of the hash of the receipt before it and of
//! the receipt's JSON, without spaces and with its fields in the order of [`Receipt`]. So a process that changes, adds or
//! removes a receipt must change all hashes after it, and the last one is in the job's result.

use super::{JobIdentity, ReceiptBatch};
use crate::model::{
    AttemptReceipt, AttemptUsage, MiniBatchId, NodeId, NotBillable, Receipt, ReceiptEnd,
    ReceiptOutcome, ReceiptRun, ReceiptTotals, WorkerId, hex,
};
use rusqlite::{OptionalExtension, Row, Transaction, params};
use sha2::{Digest, Sha256};

/// A hash of the chain.
pub(super) type ReceiptHash = [u8; 32];

/// The text before the job's id, of which the hash before the first receipt is made.
const FIRST: &str = "sandmill receipts 1 ";

/// The key of the job's sums.
pub(super) const TOTALS_KEY: &str = "receipts";

/// Creates the tables of receipts.
pub(super) const CREATE: &str = "
    CREATE TABLE receipt_run (
        number INTEGER PRIMARY KEY,
        run TEXT NOT NULL,
        tenant TEXT NOT NULL,
        component TEXT NOT NULL,
        engine TEXT NOT NULL
    ) STRICT;
    CREATE TABLE receipt (
        number INTEGER PRIMARY KEY,
        run INTEGER NOT NULL,
        mini_batch INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        worker INTEGER NOT NULL,
        node INTEGER NOT NULL,
        started_us INTEGER NOT NULL,
        ended_us INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        not_billable TEXT,
        wall_us INTEGER NOT NULL,
        cpu_us INTEGER NOT NULL,
        memory_byte_ms INTEGER NOT NULL,
        peak_memory INTEGER NOT NULL,
        fuel INTEGER,
        bytes_read INTEGER NOT NULL,
        bytes_written INTEGER NOT NULL,
        bytes_fetched INTEGER NOT NULL,
        model_calls INTEGER NOT NULL,
        model_us INTEGER NOT NULL,
        gpu_us INTEGER NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
";

const INSERT: &str = "
    INSERT INTO receipt VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
";

/// The end of the chain, and the sums of its receipts.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiptChain {
    /// The job's id and name.
    job: (String, String),
    head: ReceiptHash,
    pub(super) totals: ReceiptTotals,
    /// The run of the last receipt, and its number in the journal. `None` if it is unknown.
    run: Option<(ReceiptRun, i64)>,
}

/// Why receipts could not be added.
#[derive(Debug)]
pub(super) enum ChainError {
    Sqlite(rusqlite::Error),
    /// The receipts of the commit log do not continue the chain of the journal.
    OtherChain,
}

impl From<rusqlite::Error> for ChainError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl ReceiptChain {
    /// The chain of a job without receipts.
    pub(super) fn new(job: &JobIdentity) -> Self {
        let head = first_hash(&job.id);
        let job = (job.id.clone(), job.name.clone());
        Self { job, head, totals: ReceiptTotals::default(), run: None }
    }

    /// The chain of a job with these sums. `None` if they are malformed.
    pub(super) fn continued(job: &JobIdentity, totals: &str) -> Option<Self> {
        let totals: ReceiptTotals = serde_json::from_str(totals).ok()?;
        let mut chain = Self::new(job);
        if !totals.head.is_empty() {
            ::hex::decode_to_slice(&totals.head, &mut chain.head).ok()?;
        }
        chain.totals = totals;
        Some(chain)
    }

    /// Writes receipts, and the job's sums. Returns the receipts with their hashes.
    pub(super) fn add(
        &mut self,
        transaction: &Transaction<'_>,
        batches: &[ReceiptBatch],
    ) -> Result<Vec<ReceiptBatch>, ChainError> {
        let mut added = Vec::with_capacity(batches.len());
        let mut insert = transaction.prepare_cached(INSERT)?;
        let mut json = Vec::new();
        for batch in batches {
            let run = self.number_of(transaction, &batch.run)?;
            for receipt in &batch.receipts {
                let number = self.totals.receipts() + 1;
                let job = (self.job.0.as_str(), self.job.1.as_str());
                let sealed = Receipt::new(number, job, &batch.run, receipt);
                self.head = next_hash(&self.head, &sealed, &mut json);
                self.totals.add(receipt.end, &receipt.usage);
                write(&mut insert, (number, run), receipt, &self.head)?;
            }
            let head = hex(self.head);
            if !batch.head.is_empty() && batch.head != head {
                return Err(ChainError::OtherChain);
            }
            added.push(ReceiptBatch { head: head.clone(), ..batch.clone() });
            self.totals.head = head;
        }
        // Plain data always serialises.
        let totals = serde_json::to_string(&self.totals).unwrap_or_default();
        let sql = "INSERT OR REPLACE INTO job VALUES (?1, ?2)";
        transaction.execute(sql, [TOTALS_KEY, &totals])?;
        Ok(added)
    }

    /// The number of a run in the journal.
    fn number_of(
        &mut self,
        transaction: &Transaction<'_>,
        run: &ReceiptRun,
    ) -> rusqlite::Result<i64> {
        if let Some((known, number)) = &self.run
            && known == run
        {
            return Ok(*number);
        }
        let values = params![run.run, run.tenant, run.component, run.engine];
        let sql = "SELECT number FROM receipt_run
            WHERE run = ?1 AND tenant = ?2 AND component = ?3 AND engine = ?4";
        let found = transaction.query_row(sql, values, |row| row.get(0)).optional()?;
        let number = match found {
            Some(number) => number,
            None => {
                let sql = "INSERT INTO receipt_run (run, tenant, component, engine)
                    VALUES (?1, ?2, ?3, ?4)";
                transaction.execute(sql, values)?;
                transaction.last_insert_rowid()
            }
        };
        self.run = Some((run.clone(), number));
        Ok(number)
    }
}

fn write(
    insert: &mut rusqlite::Statement<'_>,
    (number, run): (u64, i64),
    receipt: &AttemptReceipt,
    hash: &ReceiptHash,
) -> rusqlite::Result<()> {
    let AttemptReceipt { mini_batch, attempt, worker, node, end, .. } = *receipt;
    let usage = receipt.usage.capped();
    insert.execute(params![
        number.cast_signed(),
        run,
        mini_batch.0.cast_signed(),
        attempt,
        worker.0,
        node.0,
        receipt.started_us,
        receipt.ended_us,
        end.outcome.name(),
        end.not_billable.map(|reason| reason.name()),
        usage.wall_us.cast_signed(),
        usage.cpu_us.cast_signed(),
        usage.memory_byte_ms.cast_signed(),
        usage.peak_memory.cast_signed(),
        usage.fuel.map(u64::cast_signed),
        usage.bytes_read.cast_signed(),
        usage.bytes_written.cast_signed(),
        usage.bytes_fetched.cast_signed(),
        usage.model_calls.cast_signed(),
        usage.model_us.cast_signed(),
        usage.gpu_us.cast_signed(),
        hash,
    ])?;
    Ok(())
}

/// The hash before the first receipt of a job.
pub(super) fn first_hash(job: &str) -> ReceiptHash {
    Sha256::digest(format!("{FIRST}{job}")).into()
}

/// The hash of the next receipt. `json` is a buffer.
pub(super) fn next_hash(
    before: &ReceiptHash,
    receipt: &Receipt,
    json: &mut Vec<u8>,
) -> ReceiptHash {
    json.clear();
    // Plain data always serialises.
    let _ = serde_json::to_writer(&mut *json, receipt);
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(json);
    hash.finalize().into()
}

/// Selects receipts with their runs, after a number, up to a count.
pub(super) const SELECT: &str = "
    SELECT receipt.number, receipt_run.run, receipt_run.tenant, receipt_run.component, receipt_run.engine,
        mini_batch, attempt, worker, node, started_us, ended_us, outcome, not_billable, wall_us, cpu_us,
        memory_byte_ms, peak_memory, fuel, bytes_read, bytes_written, bytes_fetched, model_calls, model_us, gpu_us,
        hash
    FROM receipt LEFT JOIN receipt_run ON receipt_run.number = receipt.run
    WHERE receipt.number > ?1 ORDER BY receipt.number LIMIT ?2
";

/// A row of [`SELECT`].
#[derive(Debug)]
pub(super) struct ReceiptRow {
    pub(super) number: u64,
    pub(super) run: ReceiptRun,
    pub(super) receipt: AttemptReceipt,
    pub(super) hash: Vec<u8>,
}

/// Reads a row of [`SELECT`]. Fails if a value is not one that [`write()`] writes.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<ReceiptRow> {
    let unsigned = |index: usize| -> rusqlite::Result<u64> {
        let value: i64 = row.get(index)?;
        u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
    };
    let wrong = |index: usize| {
        let name = "an unknown name".to_owned();
        rusqlite::Error::InvalidColumnType(index, name, rusqlite::types::Type::Text)
    };
    let run = ReceiptRun {
        run: row.get(1)?,
        tenant: row.get(2)?,
        component: row.get(3)?,
        engine: row.get(4)?,
    };
    let outcome: String = row.get(11)?;
    let not_billable: Option<String> = row.get(12)?;
    let not_billable =
        not_billable.map(|name| NotBillable::named(&name).ok_or_else(|| wrong(12))).transpose()?;
    let fuel = row.get::<_, Option<i64>>(17)?.map(|_| unsigned(17)).transpose()?;
    let usage = AttemptUsage {
        wall_us: unsigned(13)?,
        cpu_us: unsigned(14)?,
        memory_byte_ms: unsigned(15)?,
        peak_memory: unsigned(16)?,
        fuel,
        bytes_read: unsigned(18)?,
        bytes_written: unsigned(19)?,
        bytes_fetched: unsigned(20)?,
        model_calls: unsigned(21)?,
        model_us: unsigned(22)?,
        gpu_us: unsigned(23)?,
    };
    let receipt = AttemptReceipt {
        mini_batch: MiniBatchId(row.get::<_, i64>(5)?.cast_unsigned()),
        attempt: row.get(6)?,
        worker: WorkerId(row.get(7)?),
        node: NodeId(row.get(8)?),
        started_us: row.get(9)?,
        ended_us: row.get(10)?,
        end: ReceiptEnd {
            outcome: ReceiptOutcome::named(&outcome).ok_or_else(|| wrong(11))?,
            not_billable,
        },
        usage,
    };
    Ok(ReceiptRow { number: unsigned(0)?, run, receipt, hash: row.get(24)? })
}
