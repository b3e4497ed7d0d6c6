//! What jobs and tenants have used, by the receipts of attempts.

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::jobs::{viewed, visible_job};
use super::paging::{Page, PageAsked};
use super::tenants::visible_tenant;
use crate::app::Server;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{JobFilter, JobPhase, JobRecord, Scope};
use axum::extract::State;
use jiff::Timestamp;
use sandmill_leader::each_receipt;
use sandmill_leader::journal::{JournalError, ReceiptReader, SealedReceipt};
use sandmill_model::{JobDir, ReceiptTotals, UsageSum};
use sandmill_report::{UsageBy, UsageGroup, UsageTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::warn;
use utoipa::{IntoParams, ToSchema};

/// How many jobs of a tenant are read from the state at a time.
const PAGE: u32 = 1000;

/// What attempts have used.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct UsageBody {
    /// How many attempts.
    attempts: u64,
    /// Wall time in microseconds.
    wall_us: u64,
    /// CPU time in microseconds.
    cpu_us: u64,
    /// Reserved memory times wall time, in byte-milliseconds. A decimal number as text, because it may be very large.
    memory_byte_ms: String,
    /// The highest memory of a worker, in bytes.
    peak_memory: u64,
    /// Fuel. Absent if no attempt measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    /// Bytes that workers read.
    bytes_read: u64,
    /// Bytes of rows and files in the output.
    bytes_written: u64,
    /// Bytes of the objects in stores that the attempts need. An object counts for each of them, also if it was fetched once.
    bytes_fetched: u64,
    /// Calls of models.
    model_calls: u64,
    /// The time of these calls, in microseconds.
    model_us: u64,
    /// The time of leased GPUs, in microseconds.
    gpu_us: u64,
}

impl From<UsageSum> for UsageBody {
    fn from(sum: UsageSum) -> Self {
        Self {
            attempts: sum.attempts,
            wall_us: sum.wall_us,
            cpu_us: sum.cpu_us,
            memory_byte_ms: sum.memory_byte_ms.to_string(),
            peak_memory: sum.peak_memory,
            fuel: sum.fuel,
            bytes_read: sum.bytes_read,
            bytes_written: sum.bytes_written,
            bytes_fetched: sum.bytes_fetched,
            model_calls: sum.model_calls,
            model_us: sum.model_us,
            gpu_us: sum.gpu_us,
        }
    }
}

/// The sums of a job's receipts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptBody {
    /// How many receipts the job has.
    receipts: u64,
    /// What billable attempts used.
    billable: UsageBody,
    /// What other attempts used.
    not_billable: UsageBody,
    /// The hash of the last receipt, in hexadecimal. Absent if there is no receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    /// Whether the job has no process now. The sums of a job that runs are some seconds old.
    is_final: bool,
}

impl ReceiptBody {
    fn new(totals: ReceiptTotals, is_final: bool) -> Self {
        let receipts = totals.receipts();
        let ReceiptTotals { billable, not_billable, head } = totals;
        Self {
            receipts,
            billable: billable.into(),
            not_billable: not_billable.into(),
            head: (receipts > 0).then_some(head),
            is_final,
        }
    }
}

/// Whether no process of the job writes receipts.
fn is_final(job: &JobRecord) -> bool {
    job.phase.has_ended() || job.phase == JobPhase::Paused
}

/// The journal of a job. `None` if it has not begun, or had nothing to do.
fn journal_of(server: &Server, job: &JobRecord) -> Option<PathBuf> {
    let journal = JobDir::new(server.folders.job(&job.tenant, &job.id)).journal();
    journal.is_file().then_some(journal)
}

fn failed(error: &JournalError) -> Problem {
    Problem::internal(error)
}

/// Shows the sums of a job's receipts, of all its runs.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/receipt", tag = "usage",
    params(("id" = String, Path, description = "The id of the job.")),
    responses((status = 200, body = ReceiptBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn show_receipt(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ReceiptBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let is_final = is_final(&job);
        let totals = match journal_of(&server, &job) {
            Some(journal) if is_final => {
                let reader = ReceiptReader::open(&journal).map_err(|error| failed(&error))?;
                reader.totals().map_err(|error| failed(&error))?
            }
            Some(_) => viewed(&server, &job, |view| Ok(view.history().receipts.clone()))?
                .map(|totals| *totals)
                .unwrap_or_default(),
            None => ReceiptTotals::default(),
        };
        Ok(Json(ReceiptBody::new(totals, is_final)))
    })
    .await
}

/// A receipt with its hash.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SealedBody {
    /// The receipt: the job, the attempt, how it ended, whether it is billable, and what it used.
    #[schema(value_type = Object)]
    receipt: sandmill_model::Receipt,
    /// The SHA-256, in hexadecimal, of the hash of the receipt before it and this receipt as JSON without spaces.
    hash: String,
}

/// Lists the receipts of a job in order. A job that runs has to end first.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/receipts", tag = "usage",
    params(("id" = String, Path, description = "The id of the job."), PageAsked),
    responses(
        (status = 200, body = Page<SealedBody>),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "The job runs."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list_receipts(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(asked): Query<PageAsked>,
) -> Result<Json<Page<SealedBody>>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    let limit = asked.limit()?;
    let after = asked.after_number()?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let Some(journal) = journal_of(&server, &job) else {
            return Ok(Json(Page { items: Vec::new(), next: None }));
        };
        if !is_final(&job) {
            return Err(Problem::conflict(
                "the job runs: its receipts are listed once it has ended or is paused, and its sums are at /receipt",
            ));
        }
        let found = ReceiptReader::open(&journal)
            .and_then(|reader| reader.page(after.unwrap_or_default(), limit.into()))
            .map_err(|error| failed(&error))?;
        let page = Page::new(found, limit, |sealed| sealed.receipt.number.to_string());
        let body = |SealedReceipt { receipt, hash }| SealedBody { receipt, hash };
        Ok(Json(Page { items: page.items.into_iter().map(body).collect(), next: page.next }))
    })
    .await
}

/// Which receipts of a tenant are summed, and by what.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Only attempts that ended at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// Only attempts that ended before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
    /// What the receipts are summed by.
    by: Option<UsageKey>,
}

/// What receipts are summed by.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsageKey {
    /// The job.
    Job,
    /// The month in which an attempt ended, in UTC.
    Month,
    /// The SHA-256 of the entry script.
    Component,
}

/// The sums of one job, month or component.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct UsageGroupBody {
    /// The id of the job's first run, the month as in `2026-11`, or the SHA-256.
    key: String,
    /// The job's name. Absent if the sums are not by job.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// What billable attempts used.
    billable: UsageBody,
    /// What other attempts used.
    not_billable: UsageBody,
    /// How many attempts are not billable, by reason.
    reasons: BTreeMap<String, u64>,
}

impl UsageGroupBody {
    fn new(key: String, group: UsageGroup) -> Self {
        let UsageGroup { name, billable, not_billable, reasons } = group;
        Self {
            key,
            name,
            billable: billable.into(),
            not_billable: not_billable.into(),
            reasons: reasons.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        }
    }
}

/// What a tenant has used.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TenantUsageBody {
    /// The tenant.
    tenant: String,
    /// The sums by job, month or component.
    items: Vec<UsageGroupBody>,
    /// All of them together.
    total: UsageGroupBody,
    /// How many jobs have receipts in these sums, or none.
    jobs: u64,
    /// How many jobs run now. They are not in the sums before they end or are paused.
    running: u64,
    /// How many jobs are not in the sums, because their receipts cannot be read.
    unreadable: u64,
}

/// Sums what a tenant has used.
#[utoipa::path(
    get, path = "/v1/tenants/{name}/usage", tag = "usage",
    params(("name" = String, Path, description = "The name of the tenant."), UsageQuery),
    responses((status = 200, body = TenantUsageBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn show_usage(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(name): Path<String>,
    Query(asked): Query<UsageQuery>,
) -> Result<Json<TenantUsageBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let tenant = visible_tenant(&server, &caller, name)?;
        let filter = JobFilter { tenant: Some(tenant.name.clone()), ..JobFilter::default() };
        let (journals, running) = journals(&server, &filter, &asked)?;
        let by = match asked.by {
            None | Some(UsageKey::Job) => UsageBy::Job,
            Some(UsageKey::Month) => UsageBy::Month,
            Some(UsageKey::Component) => UsageBy::Component,
        };
        let mut table = UsageTable::new(by);
        let mut unreadable = 0;
        let mut visit = |SealedReceipt { receipt, .. }: &SealedReceipt| {
            let is_late_enough = asked.from.is_none_or(|from| receipt.ended >= from);
            if is_late_enough && asked.to.is_none_or(|to| receipt.ended < to) {
                table.add(receipt);
            }
        };
        let jobs = each_receipt(&journals, &mut visit, &mut |error| {
            unreadable += 1;
            warn!("receipts are missing in the sums of a tenant: {error}");
        });
        let UsageTable { groups, total, .. } = table;
        let items = groups.into_iter().map(|(key, group)| UsageGroupBody::new(key, group));
        Ok(Json(TenantUsageBody {
            tenant: tenant.name.to_string(),
            items: items.collect(),
            total: UsageGroupBody::new("all".to_owned(), total),
            jobs,
            running,
            unreadable,
        }))
    })
    .await
}

/// The journals of the jobs that may have receipts of this time, and how many jobs run.
fn journals(
    server: &Server,
    filter: &JobFilter,
    asked: &UsageQuery,
) -> Result<(Vec<PathBuf>, u64), Problem> {
    let mut journals = Vec::new();
    let mut running = 0;
    let mut before = None;
    loop {
        let jobs = server.state.jobs(filter, before.as_ref(), PAGE)?;
        let Some(last) = jobs.last() else { return Ok((journals, running)) };
        before = Some(last.id.clone());
        for job in &jobs {
            if !is_final(job) {
                running += u64::from(job.began.is_some());
                continue;
            }
            let is_too_late = asked.to.is_some_and(|to| job.submitted >= to);
            let is_too_early =
                asked.from.is_some_and(|from| job.ended.is_some_and(|ended| ended < from));
            if !is_too_late && !is_too_early {
                journals.extend(journal_of(server, job));
            }
        }
    }
}
