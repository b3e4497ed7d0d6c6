//! Describes the state of a job, for `sandmill status`.

use super::history::{History, WorkerActivity};
use super::phrases::{count, counted, failed_and_short, first_line, seconds};
use jiff::Timestamp;
use std::fmt::Write;

/// The state of a job that has not ended, in a few lines. `now` is the current time. A job that was cut off
/// has no workers to show.
pub fn job_status_text(history: &History, is_running: bool, now: Timestamp) -> String {
    let mut text = String::new();
    let since = |then: Timestamp| seconds(now.duration_since(then).as_secs_f64());
    // Writing to a string cannot fail.
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    if let Some(began) = history.began {
        let times = match history.times_resumed {
            0 => String::new(),
            times => format!(", resumed {}", counted(times, "time")),
        };
        line("began", &format!("{began:.0}, {} ago{times}", since(began)));
    }
    line("mini-batches", &mini_batches(history));
    line(
        "items",
        &format!("{}, {} failed", count(history.items.total), count(history.items.failed)),
    );
    line("rows", &count(history.rows));
    if is_running {
        let working = history.workers.len();
        // With several nodes, only the number of workers of each one is known.
        let wanted = Some(history.wanted).filter(|wanted| working <= *wanted as usize);
        let wanted = wanted.map(|wanted| format!(" of {wanted}")).unwrap_or_default();
        line("workers", &format!("{working}{wanted}"));
    }
    for (name, worker) in history.workers.iter().filter(|_| is_running) {
        let gpu = worker.gpu_index.map(|index| format!(", GPU {index}")).unwrap_or_default();
        let doing = match worker.doing {
            WorkerActivity::Starting => "starting (loading, or inside init)".to_owned(),
            WorkerActivity::Waiting => "between two mini-batches".to_owned(),
            WorkerActivity::Running(id, attempt) => format!("mini-batch {id}, attempt {attempt}"),
        };
        line("", &format!("{name}: {doing}, for {}{gpu}", since(worker.since)));
    }
    for (node, backends) in &history.mixed_backends {
        let backends = first_line(backends);
        line("mixed", &format!("node {node} computes models by {backends} (allow_mixed_backends)"));
    }
    if let Some(reason) = &history.winding_down {
        line("winding down", &first_line(reason));
    }
    if let Some(last) = history.last {
        line("last event", &format!("{} ago", since(last)));
    }
    text
}

/// `120 of 180, of which 2 failed; 1 waits for another try`.
fn mini_batches(history: &History) -> String {
    let more = if history.plan_finished { "" } else { " or more" };
    let done = history.succeeded + history.failed;
    let mut text = format!("{} of {}{more}", count(done), count(history.planned.max(done)));
    text.push_str(&failed_and_short(history.failed, history.short));
    match history.waiting.len() as u64 {
        0 => {}
        1 => text.push_str("; 1 waits for another try"),
        many => {
            let _ = write!(text, "; {} wait for another try", count(many));
        }
    }
    text
}
