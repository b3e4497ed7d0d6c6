//! Shows a job to people and programs: its progress, its log tree, its result. Every reporter receives the
//! same events and nothing else.
//!
//! This crate uses `model` and `files`, never `leader` or `node`. Only `sandmill` uses it.
//!
//! A reporter is a [`Reporter`]. [`Reporters`] hands each event to all of them; if one fails (because of a
//! full disk, say), the others still receive events. [`log_tree`] and [`terminal`] make the reporters of
//! `sandmill run`. Reporters run on the leader's thread, so an event must cost them about a microsecond: they
//! count and buffer, and draw or flush at a tick, on a thread of [`Reporters`]. That thread also handles the
//! first event, at which reporters create their files, and the events that arrive while the thread is busy.

mod advice;
mod appended;
mod budget;
mod columns;
mod continued;
mod counters;
mod disk_reserve;
mod errors;
mod event_tail;
mod events;
mod explain;
mod explain_json;
mod failed_items;
mod follow;
mod guest_logs;
mod header;
mod history;
mod lines;
mod log_file;
mod log_folders;
mod logs;
mod master_role;
mod metrics;
mod mini_batches;
mod node;
mod node_folders;
mod notes;
mod overview;
mod parent;
mod per_worker;
mod phrases;
mod progress;
mod progress_file;
mod progress_line;
mod report_paths;
mod reporters;
mod result;
mod resume;
#[cfg(test)]
mod samples;
mod standing;
mod summary;
mod system_errors;
mod times;
#[cfg(test)]
mod two_nodes_tests;
mod usage;
mod usage_text;

use sandmill_files::opening;
use sandmill_model::{self as model, event};

pub use budget::ReportBudget;
pub use columns::earlier_columns;
pub use event_tail::EventTail;
pub use explain::{advice_lines, explain_text};
pub use explain_json::explain_json;
pub use follow::Follower;
pub use history::{History, WorkerActivity};
pub use log_folders::LogFolders;
pub use logs::{LOG_FOLDERS, LogFilter, logged_lines, logs_json, print_logs};
pub use progress_line::Unit;
pub use report_paths::{ParentFolder, ReportPaths};
pub use reporters::{Reporter, Reporters};
pub use result::{result_text, reused_text};
pub use resume::Resume;
pub use standing::job_status_text;
pub use usage::{UsageBy, UsageGroup, UsageTable};
pub use usage_text::{decimal_seconds, gigabyte_hours, usage_text};

use crate::model::JobDir;
use std::io::Write;

/// The reporters that write the log tree of a job directory, and its copy in the parent's folder.
pub fn log_tree(paths: &ReportPaths) -> Vec<Box<dyn Reporter>> {
    let dir: &JobDir = &paths.job_dir;
    let budget = &paths.reports;
    let pid = std::process::id();
    let mut reporters: Vec<Box<dyn Reporter>> = vec![
        // The reporters of the files that users read first come first: at the end of the job, the disk may
        // have room for only a few files.
        Box::new(disk_reserve::DiskReserveRelease::new(dir)),
        Box::new(errors::Errors::new(dir, budget)),
        Box::new(system_errors::SystemErrors::new(dir, budget)),
        Box::new(result::ResultFile::new(paths.clone())),
        Box::new(overview::Overview::new(paths.clone())),
        Box::new(summary::Summaries::new(dir)),
        Box::new(progress_file::ProgressFile::new(dir)),
        Box::new(metrics::Metrics::new(paths.clone())),
        Box::new(failed_items::FailedItems::new(dir, budget)),
        Box::new(mini_batches::MiniBatches::new(dir, budget)),
        Box::new(master_role::MasterRole::new(dir, pid)),
        Box::new(guest_logs::GuestLogs::new(dir, budget)),
        Box::new(node::NodeMain::new(dir, pid)),
        Box::new(node::WorkerLogs::new(dir)),
        Box::new(columns::ColumnsFile::new(dir)),
        Box::new(events::EventWriter::new(dir, budget)),
    ];
    if let Some(ParentFolder { folder, copy_logs: true, .. }) = &paths.parent {
        reporters.push(Box::new(parent::ParentCopy::new(dir, folder)));
    }
    reporters
}

/// What is shown of a job on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusDisplay {
    /// A bar, for a terminal, and the result.
    Bar,
    /// Lines now and then, and the result.
    Lines,
    /// Only the result, and only if the job is not completed.
    Failures,
}

/// The reporters for standard error. `new_writer` returns a writer to standard error, which must escape
/// control sequences.
pub fn terminal(
    paths: &ReportPaths,
    display: StatusDisplay,
    new_writer: impl Fn() -> Box<dyn Write + Send>,
) -> Vec<Box<dyn Reporter>> {
    let result =
        result::ResultLines::new(paths.clone(), display != StatusDisplay::Failures, new_writer());
    let mut reporters: Vec<Box<dyn Reporter>> = match display {
        StatusDisplay::Bar => vec![Box::new(progress::TerminalBar::new(paths, new_writer()))],
        StatusDisplay::Lines => vec![Box::new(progress::ProgressLines::new(paths, new_writer()))],
        StatusDisplay::Failures => Vec::new(),
    };
    reporters.push(Box::new(result));
    reporters
}
