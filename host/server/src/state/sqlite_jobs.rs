//! The table of jobs.

use super::job::{JobFilter, JobPhase, JobRecord, JobWish};
use super::sqlite_values::{
    from_json, millis, optional_time, parsed, rows, signed, time, to_json, unsigned,
};
use super::{RequestKey, StateError, Submitted};
use crate::names::JobId;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, params_from_iter};

/// The condition of the indexes of jobs that have not ended.
const IS_UNFINISHED: &str = "phase IN ('queued', 'running', 'paused')";

/// Adds a job, unless it was added before or the tenant has too many.
pub(super) fn submit(
    change: &Transaction<'_>,
    job: &JobRecord,
    key: Option<&RequestKey>,
    most_unfinished: Option<u32>,
) -> Result<Submitted, StateError> {
    let tenant = job.tenant.as_str();
    if let Some(key) = key {
        let text = "SELECT digest, job FROM request WHERE tenant = ? AND key = ?";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let earlier: Option<([u8; 32], String)> =
            change.query_row(text, params![tenant, key.key], read).optional()?;
        if let Some((digest, id)) = earlier {
            let earlier = self::job(change, &parsed(id)?)?;
            return Ok(match earlier {
                Some(job) if digest == key.digest => Submitted::Earlier(Box::new(job)),
                _ => Submitted::OtherRequest,
            });
        }
    }
    if let Some(most) = most_unfinished {
        let unfinished = unfinished_of(change, tenant)?;
        if unfinished >= most {
            return Ok(Submitted::TooMany { unfinished });
        }
    }
    replace(change, job)?;
    if let Some(RequestKey { key, digest }) = key {
        let values = params![tenant, key, digest, job.id.as_str()];
        change.execute("INSERT INTO request VALUES (?, ?, ?, ?)", values)?;
    }
    Ok(Submitted::New)
}

/// Writes all columns of a job.
pub(super) fn replace(change: &Transaction<'_>, job: &JobRecord) -> Result<(), StateError> {
    let text = "
        INSERT INTO job VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, wish = excluded.wish, priority = excluded.priority,
            labels = excluded.labels, began = excluded.began, ended = excluded.ended, reason = excluded.reason,
            starts = excluded.starts, losses = excluded.losses, earlier_run = excluded.earlier_run,
            counts = excluded.counts, version = excluded.version
    ";
    change.prepare_cached(text)?.execute(params![
        job.id.as_str(),
        job.tenant.as_str(),
        job.name,
        job.phase.name(),
        job.wish.name(),
        job.priority,
        to_json(&job.labels)?,
        job.script.as_ref().map(|digest| digest.as_str()),
        to_json(&job.needs)?,
        job.submitted_by,
        millis(job.submitted),
        job.began.map(millis),
        job.ended.map(millis),
        job.reason,
        job.starts,
        job.losses,
        job.earlier_run,
        to_json(&job.counts)?,
        signed(job.version),
    ])?;
    Ok(())
}

fn job_of(row: &Row<'_>) -> Result<JobRecord, StateError> {
    let script: Option<String> = row.get("script")?;
    Ok(JobRecord {
        id: parsed(row.get("id")?)?,
        tenant: parsed(row.get("tenant")?)?,
        name: row.get("name")?,
        phase: named(&JobPhase::NAMED, &row.get::<_, String>("phase")?)?,
        wish: named(&JobWish::NAMED, &row.get::<_, String>("wish")?)?,
        priority: row.get("priority")?,
        labels: from_json(&row.get::<_, String>("labels")?)?,
        script: script.map(parsed).transpose()?,
        needs: from_json(&row.get::<_, String>("needs")?)?,
        submitted_by: row.get("submitted_by")?,
        submitted: time(row.get("submitted")?)?,
        began: optional_time(row.get("began")?)?,
        ended: optional_time(row.get("ended")?)?,
        reason: row.get("reason")?,
        starts: row.get("starts")?,
        losses: row.get("losses")?,
        earlier_run: row.get("earlier_run")?,
        counts: from_json(&row.get::<_, String>("counts")?)?,
        version: unsigned(row.get("version")?),
    })
}

fn named<T: Copy>(named: &[(&'static str, T)], name: &str) -> Result<T, StateError> {
    let found = named.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| StateError::Damaged(name.to_owned()))
}

/// The job with this id.
pub(super) fn job(connection: &Connection, id: &JobId) -> Result<Option<JobRecord>, StateError> {
    Ok(rows(connection, "SELECT * FROM job WHERE id = ?", [id.as_str()], job_of)?.pop())
}

/// How many jobs of a tenant have not ended.
pub(super) fn unfinished_of(connection: &Connection, tenant: &str) -> Result<u32, StateError> {
    let text = format!("SELECT count(*) FROM job WHERE tenant = ? AND {IS_UNFINISHED}");
    Ok(connection.query_row(&text, [tenant], |row| row.get(0))?)
}

/// All jobs that have not ended.
pub(super) fn unfinished(connection: &Connection) -> Result<Vec<JobRecord>, StateError> {
    let text = format!("SELECT * FROM job WHERE {IS_UNFINISHED} ORDER BY id");
    rows(connection, &text, [], job_of)
}

/// The next jobs that match a filter.
pub(super) fn matching(
    connection: &Connection,
    filter: &JobFilter,
    before: Option<&JobId>,
    limit: u32,
) -> Result<Vec<JobRecord>, StateError> {
    let mut conditions = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    if let Some(tenant) = &filter.tenant {
        conditions.push("tenant = ?".to_owned());
        values.push(tenant.as_str().to_owned().into());
    }
    if let Some(before) = before {
        conditions.push("id < ?".to_owned());
        values.push(before.as_str().to_owned().into());
    }
    if !filter.phases.is_empty() {
        let marks = vec!["?"; filter.phases.len()].join(", ");
        conditions.push(format!("phase IN ({marks})"));
        values.extend(filter.phases.iter().map(|phase| phase.name().to_owned().into()));
    }
    if let Some(name) = &filter.name {
        conditions.push("instr(name, ?) > 0".to_owned());
        values.push(name.clone().into());
    }
    if let Some((key, value)) = &filter.label {
        conditions.push(
            "EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ? AND value = ?)".to_owned(),
        );
        values.extend([key.clone().into(), value.clone().into()]);
    }
    let condition =
        if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    values.push(i64::from(limit).into());
    let text = format!("SELECT * FROM job WHERE {condition} ORDER BY id DESC LIMIT ?");
    rows(connection, &text, params_from_iter(values), job_of)
}
