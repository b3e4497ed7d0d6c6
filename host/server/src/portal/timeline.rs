//! Shows the attempts at a mini-batch as bars over time: how long each one loaded its data, and how long it ran.

use super::text::seconds;
use crate::jobs::AttemptRow;
use jiff::Timestamp;
use maud::{Markup, html};

/// The width of the picture, in its own units.
const WIDTH: f64 = 1000.0;
/// The height of an attempt and of its bar.
const ROW: usize = 22;
const BAR: usize = 16;
/// The most attempts.
const MOST: usize = 50;

/// The bars. Nothing if there is at most one attempt: a single bar would say nothing.
pub(super) fn timeline(attempts: &[AttemptRow], now: Timestamp) -> Markup {
    let shown = &attempts[..attempts.len().min(MOST)];
    let end_of = |attempt: &AttemptRow| attempt.ended.unwrap_or(now).max(attempt.started);
    let (Some(from), Some(to)) =
        (shown.iter().map(|one| one.started).min(), shown.iter().map(end_of).max())
    else {
        return html! {};
    };
    if shown.len() < 2 {
        return html! {};
    }
    let span = to.duration_since(from).as_secs_f64().max(0.001);
    let x = |at: Timestamp| at.duration_since(from).as_secs_f64() / span * WIDTH;
    html! {
        h2 { "Over " (seconds(span)) }
        svg.timeline viewBox=(format!("0 0 {WIDTH} {}", shown.len() * ROW)) role="img"
            aria-label="The attempts over time. The sections below have the same times as text." {
            @for (row, attempt) in shown.iter().enumerate() {
                @let (begin, end) = (x(attempt.started), x(end_of(attempt)));
                // The run is the last part of an attempt.
                @let run = attempt.run_seconds.map_or(0.0, |run| run / span * WIDTH).min(end - begin);
                g class={ "bar-" (attempt.state) } {
                    title { "Attempt " (attempt.attempt) ": " (attempt.state) }
                    (bar("load", (begin, end), row))
                    (bar("run", (end - run, end), row))
                }
            }
        }
        p.legend { "Light: it loads its data. Dark: it is inside " code { "run" } ". Red: it failed." }
    }
}

/// A bar between two places. A very short one can be seen, too.
fn bar(class: &str, (from, to): (f64, f64), row: usize) -> Markup {
    let width = (to - from).max(2.0);
    html! {
        rect class=(class) x=(format!("{:.1}", from.min(WIDTH - width))) y=(row * ROW) width=(format!("{width:.1}")) height=(BAR) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(number: u32, started: &str, ended: Option<&str>, run: Option<f64>) -> AttemptRow {
        AttemptRow {
            attempt: number,
            worker: "process000".to_owned(),
            state: if run.is_some() { "failed" } else { "running" }.to_owned(),
            started: started.parse().unwrap(),
            ended: ended.map(|at| at.parse().unwrap()),
            seconds: None,
            run_seconds: run,
            cpu_seconds: None,
            failure_kind: None,
            failure_message: None,
        }
    }

    #[test]
    fn attempts_are_bars_in_their_order() {
        let now: Timestamp = "2026-11-01T00:00:10Z".parse().unwrap();
        let first = attempt(1, "2026-11-01T00:00:00Z", Some("2026-11-01T00:00:04Z"), Some(1.0));
        let second = attempt(2, "2026-11-01T00:00:05Z", None, None);
        let text = timeline(&[first.clone(), second], now).into_string();
        assert!(text.contains("<rect class=\"load\" x=\"0.0\" y=\"0\" width=\"400.0\""), "{text}");
        assert!(text.contains("<rect class=\"run\" x=\"300.0\" y=\"0\" width=\"100.0\""), "{text}");
        assert!(
            text.contains("<rect class=\"load\" x=\"500.0\" y=\"22\" width=\"500.0\""),
            "{text}"
        );
        // A clock that went back breaks nothing.
        let odd = attempt(2, "2026-11-01T00:00:05Z", Some("2026-11-01T00:00:01Z"), Some(9.0));
        assert!(!timeline(&[first.clone(), odd], now).into_string().contains("NaN"));
        assert_eq!(timeline(&[first], now).into_string() + &timeline(&[], now).into_string(), "");
    }
}
