//! An index over the events of a job, in a file of SQLite: what happened to each mini-batch and attempt. With it, one page of
//! a million mini-batches is read as fast as one of ten. It is made from the events alone, so it may be removed at any time.

use super::heat::HeatMap;
use super::mini_batch_state::MiniBatchState;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use sandmill_model::event::{Event, EventKind};
use sandmill_model::{AttemptReport, MiniBatchId};
use serde::Serialize;
use std::path::Path;
use utoipa::ToSchema;

/// Incremented when the tables change. An index of another format is made again.
const FORMAT: i64 = 2;
/// The longest text of a failure in the index.
const MOST_MESSAGE: usize = 2000;

const TABLES: &str = "
    CREATE TABLE mini_batch (
        id INTEGER PRIMARY KEY, state TEXT NOT NULL, attempts INTEGER NOT NULL, location TEXT NOT NULL, worker TEXT NOT NULL,
        items INTEGER NOT NULL, items_failed INTEGER NOT NULL, rows INTEGER NOT NULL, seconds REAL NOT NULL, kind TEXT,
        message TEXT
    ) STRICT;
    CREATE INDEX mini_batch_by_state ON mini_batch (state, id);
    CREATE INDEX mini_batch_by_kind ON mini_batch (kind, id) WHERE kind IS NOT NULL;
    CREATE INDEX mini_batch_failed ON mini_batch (kind, id) WHERE state = 'failed';
    CREATE TABLE tile (tile INTEGER NOT NULL, state TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (tile, state))
    STRICT, WITHOUT ROWID;
    CREATE TRIGGER tile_begun AFTER INSERT ON mini_batch BEGIN
        INSERT INTO tile VALUES (new.id >> 8, new.state, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER tile_changed AFTER UPDATE OF state ON mini_batch WHEN old.state <> new.state BEGIN
        UPDATE tile SET count = count - 1 WHERE tile = old.id >> 8 AND state = old.state;
        INSERT INTO tile VALUES (new.id >> 8, new.state, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TABLE attempt (
        mini_batch INTEGER NOT NULL, attempt INTEGER NOT NULL, worker TEXT NOT NULL, state TEXT NOT NULL,
        started INTEGER NOT NULL, ended INTEGER, seconds REAL, run_seconds REAL, cpu_seconds REAL, kind TEXT, message TEXT,
        PRIMARY KEY (mini_batch, attempt, worker)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX running_attempt ON attempt (worker) WHERE state = 'running';
";

/// Why the index could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the index over a job's events: {0}")]
pub(crate) struct IndexError(#[from] rusqlite::Error);

/// A mini-batch that a worker has begun.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct MiniBatchRow {
    /// The number, from 0.
    pub(crate) id: u64,
    /// Its state.
    pub(crate) state: MiniBatchState,
    /// How often a worker began it.
    pub(crate) attempts: u32,
    /// Where its data is, for people.
    pub(crate) location: String,
    /// The worker of the last attempt.
    pub(crate) worker: String,
    /// Its items. 0 until an attempt has ended.
    pub(crate) items: u64,
    /// The items that failed.
    pub(crate) items_failed: u64,
    /// The rows that it added to the output.
    pub(crate) rows: u64,
    /// The seconds of the last attempt that ended.
    pub(crate) seconds: f64,
    /// The kind of the last failure. Absent if the last attempt did not fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_kind: Option<String>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_message: Option<String>,
}

/// An attempt at a mini-batch.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct AttemptRow {
    /// The number, from 1. Two attempts with one number are twins.
    pub(crate) attempt: u32,
    /// The worker.
    pub(crate) worker: String,
    /// `running`, `succeeded`, `failed`, `cancelled`, or `lost` if its worker ended without a report.
    pub(crate) state: String,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) started: Timestamp,
    /// When it ended. Absent while it runs.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Timestamp>,
    /// Its seconds. Absent until its worker has reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
    /// Its seconds inside `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_seconds: Option<f64>,
    /// The CPU seconds of its worker meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_seconds: Option<f64>,
    /// The kind of its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_kind: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_message: Option<String>,
}

/// Mini-batches that failed in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FailureGroupRow {
    /// The kind of the failure.
    pub(crate) failure_kind: String,
    /// How many mini-batches it concerns.
    pub(crate) mini_batches: u64,
    /// The first of them.
    pub(crate) first: u64,
    /// Why the first one failed.
    pub(crate) message: String,
}

/// Which mini-batches to list.
#[derive(Clone, Debug, Default)]
pub(crate) struct MiniBatchesAsked {
    /// Only those in this state.
    pub(crate) state: Option<MiniBatchState>,
    /// Only those whose last attempt failed in this way.
    pub(crate) failure_kind: Option<String>,
    /// Only those after this one.
    pub(crate) after: Option<u64>,
    /// The most rows.
    pub(crate) limit: u32,
}

/// The mini-batches of a tile, of which the index counts the states.
const TILE: u64 = 256;
/// Up to so many mini-batches, the states are counted when they are asked for.
const COUNTED_AT_ONCE: u64 = 16_384;

/// The index of one job.
#[derive(Debug)]
pub(super) struct Index(Connection);

impl Index {
    /// Makes an empty index in a temporary file without a name.
    pub(super) fn temporary() -> Result<Self, IndexError> {
        Self::make(Connection::open("")?)
    }

    /// Makes an empty index at this path. Replaces a file that is there.
    pub(super) fn create(path: &Path) -> Result<Self, IndexError> {
        for ending in ["", "-wal", "-shm", "-journal"] {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            // If there is such a file and it stays, SQLite reports it.
            let _ = std::fs::remove_file(name);
        }
        Self::make(Connection::open(path)?)
    }

    fn make(connection: Connection) -> Result<Self, IndexError> {
        // The index can be made again, so it need not survive a crash.
        connection.pragma_update(None, "journal_mode", "off")?;
        connection.pragma_update(None, "synchronous", "off")?;
        connection.execute_batch(TABLES)?;
        connection.pragma_update(None, "user_version", FORMAT)?;
        Ok(Self(connection))
    }

    /// Adds events, all of them or none.
    pub(super) fn add(&mut self, events: &[Event]) -> Result<(), IndexError> {
        let change = self.0.transaction()?;
        for event in events {
            add(&change, event)?;
        }
        change.commit()?;
        Ok(())
    }

    /// Lists mini-batches in the order of their numbers.
    pub(super) fn mini_batches(
        &self,
        asked: &MiniBatchesAsked,
    ) -> Result<Vec<MiniBatchRow>, IndexError> {
        let after = asked.after.map_or(-1, signed);
        let (state, kind) = (asked.state.map(MiniBatchState::name), &asked.failure_kind);
        let condition = match (state, kind) {
            (Some("failed"), Some(_)) => {
                "id > ?1 AND ?2 = 'failed' AND state = 'failed' AND kind = ?3"
            }
            (Some(_), _) => "id > ?1 AND state = ?2 AND (?3 IS NULL OR kind = ?3)",
            (None, Some(_)) => "id > ?1 AND ?2 IS NULL AND kind = ?3",
            (None, None) => "id > ?1 AND ?2 IS NULL AND ?3 IS NULL",
        };
        let text = format!("SELECT * FROM mini_batch WHERE {condition} ORDER BY id LIMIT ?4");
        let mut query = self.0.prepare_cached(&text)?;
        let rows = query.query_map(params![after, state, kind, asked.limit], mini_batch_of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The mini-batch with this number and its attempts. `None` if no worker has begun it.
    pub(super) fn mini_batch(
        &self,
        id: u64,
    ) -> Result<Option<(MiniBatchRow, Vec<AttemptRow>)>, IndexError> {
        let text = "SELECT * FROM mini_batch WHERE id = ?";
        let Some(found) = self.0.query_row(text, [signed(id)], mini_batch_of).optional()? else {
            return Ok(None);
        };
        let text = "SELECT * FROM attempt WHERE mini_batch = ? ORDER BY attempt, started";
        let mut query = self.0.prepare_cached(text)?;
        let attempts = query.query_map([signed(id)], attempt_of)?;
        Ok(Some((found, attempts.collect::<Result<_, _>>()?)))
    }

    /// The states of all mini-batches, of which so many are known, in at most so many cells.
    pub(super) fn heat(&self, planned: u64, most: u64) -> Result<HeatMap, IndexError> {
        let text = "SELECT coalesce(max(id) + 1, 0) FROM mini_batch";
        let begun = unsigned(self.0.query_row(text, [], |row| row.get(0))?);
        let all = planned.max(begun);
        let is_small = all <= COUNTED_AT_ONCE;
        let mut map = HeatMap::new(all, most, if is_small { 1 } else { TILE });
        let text = match is_small {
            true => "SELECT id / ?1, state, count(*) FROM mini_batch GROUP BY 1, 2",
            false => "SELECT (tile << 8) / ?1, state, sum(count) FROM tile GROUP BY 1, 2",
        };
        let mut query = self.0.prepare_cached(text)?;
        let mut rows = query.query([signed(map.cell_size)])?;
        while let Some(row) = rows.next()? {
            let state = MiniBatchState::named(&row.get::<_, String>(1)?);
            map.add(unsigned(row.get(0)?), state, unsigned(row.get(2)?));
        }
        Ok(map)
    }

    /// The mini-batches that failed for good, by the kind of their last failure.
    pub(super) fn failure_groups(&self) -> Result<Vec<FailureGroupRow>, IndexError> {
        let text = "
            SELECT grouped.kind, grouped.count, grouped.first, mini_batch.message FROM
                (SELECT kind, count(*) AS count, min(id) AS first FROM mini_batch INDEXED BY mini_batch_failed
                WHERE state = 'failed' GROUP BY kind)
                AS grouped JOIN mini_batch ON mini_batch.id = grouped.first ORDER BY grouped.count DESC, grouped.first
        ";
        let mut query = self.0.prepare_cached(text)?;
        let rows = query.query_map([], |row| {
            Ok(FailureGroupRow {
                failure_kind: row.get(0)?,
                mini_batches: unsigned(row.get(1)?),
                first: unsigned(row.get(2)?),
                message: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or_default()
}

fn mini_batch_of(row: &Row<'_>) -> rusqlite::Result<MiniBatchRow> {
    let state: String = row.get("state")?;
    Ok(MiniBatchRow {
        id: unsigned(row.get("id")?),
        state: MiniBatchState::named(&state),
        attempts: row.get("attempts")?,
        location: row.get("location")?,
        worker: row.get("worker")?,
        items: unsigned(row.get("items")?),
        items_failed: unsigned(row.get("items_failed")?),
        rows: unsigned(row.get("rows")?),
        seconds: row.get("seconds")?,
        failure_kind: row.get("kind")?,
        failure_message: row.get("message")?,
    })
}

fn attempt_of(row: &Row<'_>) -> rusqlite::Result<AttemptRow> {
    Ok(AttemptRow {
        attempt: row.get("attempt")?,
        worker: row.get("worker")?,
        state: row.get("state")?,
        started: time(row.get("started")?),
        ended: row.get::<_, Option<i64>>("ended")?.map(time),
        seconds: row.get("seconds")?,
        run_seconds: row.get("run_seconds")?,
        cpu_seconds: row.get("cpu_seconds")?,
        failure_kind: row.get("kind")?,
        failure_message: row.get("message")?,
    })
}

fn add(change: &Transaction<'_>, event: &Event) -> rusqlite::Result<()> {
    let at = event.at.as_millisecond();
    match &event.kind {
        EventKind::JobStarted { .. } => end_lost_attempts(change, None, at),
        EventKind::AttemptStarted { worker, id, attempt } => {
            begin(change, (*id, *attempt), worker, at)
        }
        EventKind::AttemptFinished { worker, report, location, started, will_retry } => {
            let started = started.as_millisecond();
            finish(change, worker, report, (location, *will_retry), (started, at))
        }
        EventKind::AttemptCancelled { worker, id, attempt, .. } => {
            end_attempt(change, (*id, *attempt), worker, "cancelled", at)
        }
        EventKind::WorkerExited { worker, .. } => end_lost_attempts(change, Some(worker), at),
        EventKind::MiniBatchReturned { id } => {
            let text = "UPDATE mini_batch SET state = 'waiting' WHERE id = ? AND state = 'running'";
            change.prepare_cached(text)?.execute([signed(id.0)])?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn begin(
    change: &Transaction<'_>,
    (id, attempt): (MiniBatchId, u32),
    worker: &str,
    at: i64,
) -> rusqlite::Result<()> {
    let id = signed(id.0);
    let text = "
        INSERT INTO attempt (mini_batch, attempt, worker, state, started) VALUES (?, ?, ?, 'running', ?)
        ON CONFLICT DO UPDATE SET state = 'running', started = excluded.started, ended = NULL, kind = NULL, message = NULL
    ";
    change.prepare_cached(text)?.execute(params![id, attempt, worker, at])?;
    let text = "
        INSERT INTO mini_batch VALUES (?1, 'running', 1, '', ?2, 0, 0, 0, 0, NULL, NULL)
        ON CONFLICT DO UPDATE SET state = iif(state = 'succeeded', state, 'running'), attempts = attempts + 1, worker = ?2
    ";
    change.prepare_cached(text)?.execute(params![id, worker])?;
    Ok(())
}

fn finish(
    change: &Transaction<'_>,
    worker: &str,
    report: &AttemptReport,
    (location, will_retry): (&str, bool),
    (started, ended): (i64, i64),
) -> rusqlite::Result<()> {
    let failure = report.outcome.as_ref().err();
    let kind = failure.map(|failure| failure.kind.to_string());
    let message = failure.map(|failure| shortened(&failure.message));
    let rows = report.outcome.as_ref().map_or(0, |segment| segment.rows);
    let attempt_state = if failure.is_some() { "failed" } else { "succeeded" };
    let state = match (failure.is_some(), will_retry) {
        (false, _) => "succeeded",
        (true, true) => "waiting",
        (true, false) => "failed",
    };
    let id = signed(report.id.0);
    let text = "
        INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET state = excluded.state, ended = excluded.ended, seconds = excluded.seconds,
            run_seconds = excluded.run_seconds, cpu_seconds = excluded.cpu_seconds, kind = excluded.kind, message = excluded.message
    ";
    change.prepare_cached(text)?.execute(params![
        id,
        report.attempt,
        worker,
        attempt_state,
        started,
        ended,
        report.elapsed_seconds,
        report.run.seconds,
        report.process_seconds,
        kind,
        message,
    ])?;
    let text = "
        INSERT INTO mini_batch VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET state = excluded.state, location = excluded.location, worker = excluded.worker,
            items = excluded.items, items_failed = excluded.items_failed, rows = excluded.rows, seconds = excluded.seconds,
            kind = excluded.kind, message = excluded.message
    ";
    change.prepare_cached(text)?.execute(params![
        id,
        state,
        location,
        worker,
        signed(report.items.total),
        signed(report.items.failed),
        signed(rows),
        report.elapsed_seconds,
        kind,
        message,
    ])?;
    Ok(())
}

fn end_attempt(
    change: &Transaction<'_>,
    (id, attempt): (MiniBatchId, u32),
    worker: &str,
    state: &str,
    at: i64,
) -> rusqlite::Result<()> {
    let text = "UPDATE attempt SET state = ?, ended = ? WHERE mini_batch = ? AND attempt = ? AND worker = ?";
    change.prepare_cached(text)?.execute(params![state, at, signed(id.0), attempt, worker])?;
    Ok(())
}

/// The attempts of a worker that has ended, or of all workers, are lost if they run. Their mini-batches wait.
fn end_lost_attempts(
    change: &Transaction<'_>,
    worker: Option<&String>,
    at: i64,
) -> rusqlite::Result<()> {
    let text = "
        UPDATE mini_batch SET state = 'waiting' WHERE state = 'running' AND id IN
            (SELECT mini_batch FROM attempt WHERE state = 'running' AND (?1 IS NULL OR worker = ?1))
    ";
    change.prepare_cached(text)?.execute([worker])?;
    let text = "
        UPDATE attempt SET state = 'lost', ended = ?2 WHERE state = 'running' AND (?1 IS NULL OR worker = ?1)
    ";
    change.prepare_cached(text)?.execute(params![worker, at])?;
    Ok(())
}

fn shortened(message: &str) -> &str {
    let end = message.char_indices().nth(MOST_MESSAGE).map_or(message.len(), |(at, _)| at);
    &message[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(second: i64, kind: &Value) -> Event {
        let at = Timestamp::from_second(second).unwrap();
        let event = json!({"version": 1, "run": "r", "seq": second, "at": at, "kind": kind});
        serde_json::from_value(event).unwrap()
    }

    fn started(second: i64, worker: &str, id: u64, attempt: u32) -> Event {
        let kind =
            json!({"event": "attempt_started", "worker": worker, "id": id, "attempt": attempt});
        event(second, &kind)
    }

    /// The end of an attempt at a mini-batch with two items.
    fn finished(second: i64, worker: &str, id: u64, outcome: &Value, will_retry: bool) -> Event {
        let failed = if outcome.get("Err").is_some() { 2 } else { 0 };
        let report = json!({
            "id": id, "attempt": 1, "items": {"total": 2, "succeeded": 2 - failed, "failed": failed}, "outcome": outcome,
            "failed_items": [], "is_short": false, "surplus_rows": 0, "header": null, "has_files": false,
            "elapsed_seconds": 1.5, "process_seconds": 0.5, "run": {"seconds": 1.0, "fuel": null}, "inference": null,
        });
        let kind = json!({
            "event": "attempt_finished", "worker": worker, "report": report, "location": "a.csv", "will_retry": will_retry,
            "started": Timestamp::from_second(second - 1).unwrap(),
        });
        event(second, &kind)
    }

    fn success() -> Value {
        json!({"Ok": {"offset": 0, "length": 4, "rows": 2, "checksum": 0}})
    }

    fn failure(message: &str) -> Value {
        json!({"Err": {"kind": "script_error", "message": message, "detail": ""}})
    }

    fn index(events: &[Event]) -> (tempfile::TempDir, Index) {
        let folder = tempfile::tempdir().unwrap();
        let mut index = Index::create(&folder.path().join("index.db")).unwrap();
        index.add(events).unwrap();
        (folder, index)
    }

    fn states(index: &Index, asked: &MiniBatchesAsked) -> Vec<(u64, MiniBatchState)> {
        let found = index.mini_batches(asked).unwrap();
        found.iter().map(|row| (row.id, row.state)).collect()
    }

    #[test]
    fn mini_batches_are_listed_by_state_and_page() {
        let (_folder, index) = index(&[
            started(1, "process000", 0, 1),
            started(1, "process001", 1, 1),
            finished(2, "process000", 0, &success(), false),
            finished(2, "process001", 1, &failure("no"), true),
            started(3, "process000", 2, 1),
            started(4, "process001", 3, 1),
            finished(5, "process001", 3, &failure("never"), false),
        ]);
        let all = MiniBatchesAsked { limit: 10, ..MiniBatchesAsked::default() };
        let expected = [
            (0, MiniBatchState::Succeeded),
            (1, MiniBatchState::Waiting),
            (2, MiniBatchState::Running),
            (3, MiniBatchState::Failed),
        ];
        assert_eq!(states(&index, &all), expected);
        let page = MiniBatchesAsked { after: Some(0), limit: 2, ..all.clone() };
        assert_eq!(states(&index, &page), expected[1..3]);
        let failed = MiniBatchesAsked { state: Some(MiniBatchState::Failed), ..all.clone() };
        assert_eq!(states(&index, &failed), expected[3..]);
        let kind = MiniBatchesAsked { failure_kind: Some("script_error".to_owned()), ..all };
        assert_eq!(states(&index, &kind), [expected[1], expected[3]]);
        let groups = index.failure_groups().unwrap();
        assert_eq!((groups.len(), groups[0].first, &*groups[0].message), (1, 3, "never"));
        let (found, attempts) = index.mini_batch(0).unwrap().unwrap();
        assert_eq!((found.rows, found.items, found.location.as_str()), (2, 2, "a.csv"));
        assert_eq!((attempts.len(), attempts[0].state.as_str()), (1, "succeeded"));
        assert!(index.mini_batch(9).unwrap().is_none());
    }

    /// The counts of tiles follow each change of a state, also for mini-batches that are lost and begun again.
    #[test]
    fn the_states_of_many_mini_batches_are_counted_in_cells() {
        let exited = json!({"event": "worker_exited", "worker": "process000", "how": "exited", "expected": false});
        let (_folder, index) = index(&[
            started(1, "process000", 0, 1),
            started(1, "process001", 300, 1),
            finished(2, "process001", 300, &failure("no"), false),
            event(3, &exited),
            started(4, "process001", 0, 2),
            finished(5, "process001", 0, &success(), false),
            started(6, "process001", 20_000, 1),
        ]);
        for planned in [20_001, 1_000_000] {
            let map = index.heat(planned, 100).unwrap();
            let cells = map.cells();
            assert!(cells.len() <= 100, "{}", cells.len());
            assert_eq!(map.cell_size % TILE, 0);
            assert_eq!((cells[0].succeeded, cells.iter().map(|cell| cell.failed).sum()), (1, 1u64));
            let of = |id: u64| &cells[usize::try_from(id / map.cell_size).unwrap()];
            assert_eq!((of(300).failed, of(20_000).running, of(0).waiting), (1, 1, 0));
            assert_eq!(cells.last().unwrap().last, planned - 1);
        }
        let (_folder, few) = self::index(&[started(1, "process000", 5, 1)]);
        let map = few.heat(10, 100).unwrap();
        assert_eq!((map.cell_size, map.cells().len(), map.cells()[5].running), (1, 10, 1));
        assert!(self::index(&[]).1.heat(0, 100).unwrap().cells().is_empty());
    }

    #[test]
    fn attempts_of_a_lost_worker_or_leader_do_not_run() {
        let exited = json!({"event": "worker_exited", "worker": "process000", "how": "exited", "expected": false});
        let resumed = json!({"event": "job_started", "job": "a", "tenant": "t", "workers": 1, "resumed": null});
        let (_folder, mut index) = index(&[
            started(1, "process000", 0, 1),
            started(1, "process001", 1, 1),
            event(2, &exited),
        ]);
        let all = MiniBatchesAsked { limit: 10, ..MiniBatchesAsked::default() };
        let expected = [(0, MiniBatchState::Waiting), (1, MiniBatchState::Running)];
        assert_eq!(states(&index, &all), expected);
        index.add(&[event(3, &resumed)]).unwrap();
        assert_eq!(states(&index, &all)[1], (1, MiniBatchState::Waiting));
        let (_, attempts) = index.mini_batch(1).unwrap().unwrap();
        assert_eq!(attempts[0].state, "lost");
    }
}
