//! `sandmill usage`: what jobs have used, by the receipts of their attempts.

use super::exit::{Exit, Problem};
use super::jobs::aligned;
use super::jobs_found::{RootArgument, job_dirs_below};
use super::say;
use super::terminal::{print, print_json};
use super::usage_export::Export;
use super::which::is_job_dir;
use crate::engine::{JobState, each_receipt};
use crate::journal::{BrokenReceipt, JournalError, ReceiptReader, SealedReceipt};
use crate::model::{JobDir, ReceiptTotals, count};
use crate::report::{UsageBy, UsageGroup, UsageTable, decimal_seconds, gigabyte_hours};
use anyhow::{Context, anyhow};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct UsageArguments {
    /// Job directories, and folders that are searched for job directories, four levels deep [default: --root].
    #[arg(value_name = "DIR")]
    dirs: Vec<PathBuf>,
    #[command(flatten)]
    root: RootArgument,
    /// What to sum by: job, tenant, month or component.
    #[arg(long, value_name = "KEY", default_value = "job", value_parser = by)]
    pub(super) by: UsageBy,
    #[command(flatten)]
    pub(super) selection: UsageSelection,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Checks the hash chain of each job's receipts, and names the first broken receipt. Exits with 42 if there is
    /// one.
    #[arg(long, conflicts_with_all = ["by", "tenant", "from", "to", "export"])]
    pub(super) verify: bool,
    /// Writes a row for each attempt to this file, with the columns of FOCUS: CSV, or Parquet if the name ends with
    /// .parquet.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "json"])]
    pub(super) export: Option<PathBuf>,
}

/// Which receipts count.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct UsageSelection {
    /// Only jobs of this tenant.
    #[arg(long, value_name = "NAME")]
    pub(super) tenant: Option<String>,
    /// Only attempts that ended at this time or later: a date (2026-11-01, in UTC) or a time (2026-11-01T12:00:00Z).
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) from: Option<Timestamp>,
    /// Only attempts that ended before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) to: Option<Timestamp>,
}

impl UsageSelection {
    fn selects(&self, SealedReceipt { receipt, .. }: &SealedReceipt) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == receipt.tenant)
            && self.from.is_none_or(|from| receipt.ended >= from)
            && self.to.is_none_or(|to| receipt.ended < to)
    }
}

fn by(text: &str) -> Result<UsageBy, String> {
    let found = UsageBy::NAMED.iter().find(|(name, _)| *name == text);
    found.map(|(_, by)| *by).ok_or_else(|| "expected job, tenant, month or component".to_owned())
}

fn time(text: &str) -> Result<Timestamp, String> {
    let wrong = || "expected a date such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z";
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let date: Date = text.parse().map_err(|_| wrong().to_owned())?;
    let midnight = date.to_zoned(TimeZone::UTC).map_err(|_| wrong().to_owned())?;
    Ok(midnight.timestamp())
}

pub(super) fn usage(arguments: &UsageArguments) -> Result<Exit, Problem> {
    let dirs = arguments.job_dirs()?;
    if arguments.verify {
        return verify(&dirs, arguments.json);
    }
    let journals: Vec<PathBuf> = dirs.iter().map(|dir| JobDir::new(dir).journal()).collect();
    match &arguments.export {
        Some(file) => export(file, &journals, &arguments.selection),
        None => sum(arguments, &journals),
    }
}

impl UsageArguments {
    /// Whether it may be about the jobs of a server.
    #[cfg(feature = "server")]
    pub(super) fn names_no_files(&self) -> bool {
        self.dirs.is_empty() && self.root.root.is_none() && !self.verify && self.export.is_none()
    }

    fn job_dirs(&self) -> Result<Vec<PathBuf>, Problem> {
        let given = match &self.dirs[..] {
            [] => vec![self.root.folder()?],
            given => given.to_vec(),
        };
        let mut dirs = Vec::new();
        for folder in given {
            if is_job_dir(&folder) {
                dirs.push(folder);
                continue;
            }
            let found = job_dirs_below(&folder);
            let cannot = || format!("the jobs below {} cannot be listed", folder.display());
            let (found, troubles) = found.with_context(cannot).map_err(Problem::usage)?;
            troubles.iter().for_each(|trouble| say(&format!("warning: skipped: {trouble}")));
            if found.is_empty() {
                say(&format!("no job below {}", folder.display()));
            }
            dirs.extend(found);
        }
        Ok(dirs)
    }
}

/// Visits the selected receipts. A journal that cannot be read is skipped with a warning. Returns how many journals were read,
/// and how the command exits: with an error if a journal was skipped that exists.
fn visit(
    journals: &[PathBuf],
    selection: &UsageSelection,
    visit: &mut dyn FnMut(&SealedReceipt),
) -> (u64, Exit) {
    let mut exit = Exit::Completed;
    let mut visit = |sealed: &SealedReceipt| {
        if selection.selects(sealed) {
            visit(sealed);
        }
    };
    let mut skip = |error: JournalError| {
        say(&format!("warning: skipped: {error}"));
        if !matches!(error, JournalError::Missing(_)) {
            exit = Exit::Failed;
        }
    };
    let read = each_receipt(journals, &mut visit, &mut skip);
    (read, exit)
}

fn sum(arguments: &UsageArguments, journals: &[PathBuf]) -> Result<Exit, Problem> {
    let mut table = UsageTable::new(arguments.by);
    let mut add = |sealed: &SealedReceipt| table.add(&sealed.receipt);
    let (jobs, exit) = visit(journals, &arguments.selection, &mut add);
    if arguments.json {
        let groups: Vec<Value> = table.groups.iter().map(group_json).collect();
        let value = json!({
            "version": VERSION, "by": arguments.by.name(), "jobs": jobs, "groups": groups, "total": table.total,
        });
        print_json(&format!("{value:#}\n"))?;
    } else {
        print(&table_text(&table, arguments.by))?;
    }
    Ok(exit)
}

fn group_json((key, group): (&String, &UsageGroup)) -> Value {
    let mut value = json!(group);
    if let Value::Object(all) = &mut value {
        all.insert("key".to_owned(), json!(key));
    }
    value
}

/// One line for each group, and one for all of them. Only what is billable is summed.
pub(super) fn table_text(table: &UsageTable, by: UsageBy) -> String {
    let head = [
        by.name(),
        "attempts",
        "not billable",
        "CPU s",
        "wall s",
        "memory GB h",
        "GPU s",
        "model calls",
        "fuel",
        "read B",
        "written B",
        "fetched B",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let line = |key: String, UsageGroup { billable, not_billable, .. }: &UsageGroup| {
        [
            key,
            count(billable.attempts),
            count(not_billable.attempts),
            decimal_seconds(billable.cpu_us),
            decimal_seconds(billable.wall_us),
            gigabyte_hours(billable.memory_byte_ms),
            decimal_seconds(billable.gpu_us),
            count(billable.model_calls),
            billable.fuel.map_or_else(|| "-".to_owned(), count),
            count(billable.bytes_read),
            count(billable.bytes_written),
            count(billable.bytes_fetched),
        ]
    };
    for (key, group) in &table.groups {
        let key = match group.name.as_str() {
            "" => key.clone(),
            name => format!("{name} ({key})"),
        };
        rows.push(line(key, group));
    }
    rows.push(line("all".to_owned(), &table.total));
    aligned(&rows)
}

fn export(file: &Path, journals: &[PathBuf], selection: &UsageSelection) -> Result<Exit, Problem> {
    let failed = |error: anyhow::Error| {
        Problem::failed(error.context(format!("{} cannot be written", file.display())))
    };
    let mut export = Export::create(file).map_err(failed)?;
    let mut result = Ok(());
    let (_, exit) = visit(journals, selection, &mut |sealed| {
        if result.is_ok() {
            result = export.add(sealed);
        }
    });
    let rows = result.and_then(|()| export.finish()).map_err(failed)?;
    say(&format!("{} rows are in {}", count(rows), file.display()));
    Ok(exit)
}

/// Checks the chain of one job. A job without a journal has an empty chain if its result has no receipts, either.
fn chain(dir: &Path) -> Result<Result<ReceiptTotals, BrokenReceipt>, JournalError> {
    let job_dir = JobDir::new(dir);
    let state = JobState::read(&job_dir);
    let is_unreadable = state.is_err();
    let known = state.ok().flatten().and_then(|state| state.result?.receipts);
    let known = known.as_ref().map(|totals| (totals.receipts(), totals.head.as_str()));
    let has_receipts = is_unreadable || known.is_some_and(|(receipts, _)| receipts > 0);
    let checked = ReceiptReader::open(&job_dir.journal()).and_then(|reader| reader.verify(known));
    match checked {
        Err(JournalError::Missing(_)) if !has_receipts => Ok(Ok(ReceiptTotals::default())),
        checked => checked,
    }
}

/// Checks the chain of each job. One that cannot be checked does not keep the others from being checked.
fn verify(dirs: &[PathBuf], as_json: bool) -> Result<Exit, Problem> {
    if dirs.is_empty() {
        return Err(Problem::usage(anyhow!("there is no job directory to check")));
    }
    let mut exit = Exit::Completed;
    let mut lines = String::new();
    let mut values = Vec::new();
    for dir in dirs {
        let shown = dir.display();
        match chain(dir) {
            Ok(Ok(totals)) => {
                let receipts = count(totals.receipts());
                let head = if totals.head.is_empty() { "none" } else { &totals.head };
                lines +=
                    &format!("{shown}: {receipts} receipts, intact; the last hash is {head}\n");
                values.push(json!({"job_dir": dir, "receipts": totals.receipts(), "head": totals.head, "broken": null}));
            }
            Ok(Err(broken)) => {
                exit = Exit::Failed;
                lines += &format!("{shown}: {broken}\n");
                let number = broken.number;
                values.push(
                    json!({"job_dir": dir, "broken": {"number": number, "what": broken.what}}),
                );
            }
            Err(error) => {
                exit = Exit::Failed;
                lines += &format!("{shown}: not checked: {error}\n");
                let what = error.to_string();
                values.push(json!({"job_dir": dir, "broken": {"number": null, "what": what}}));
            }
        }
    }
    match as_json {
        true => print_json(&format!("{:#}\n", json!({"version": VERSION, "jobs": values})))?,
        false => print(&lines)?,
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_points_in_time() {
        let at = |text: &str| time(text).map(|at| at.to_string());
        assert_eq!(at("2026-11-01").unwrap(), "2026-11-01T00:00:00Z");
        assert_eq!(at("2026-11-01T12:00:00+01:00").unwrap(), "2026-11-01T11:00:00Z");
        assert!(at("november").unwrap_err().contains("2026-11-01"));
        assert_eq!(by("month").unwrap(), UsageBy::Month);
        assert!(by("year").is_err());
    }
}
