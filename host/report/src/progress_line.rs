//! The progress line of a job. It leaves out fields to fit the width of a terminal.

use super::counters::{JobCounters, Speed};
use super::phrases::{clock, count, short_count, short_rate};
use crate::model::whole;
use console::Style;

/// What the items of a job are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Rows of tables.
    Rows,
    /// Whole files.
    Files,
    /// Items of a job without inputs.
    #[default]
    Items,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Files => "files",
            Self::Items => "items",
        }
    }
}

/// The smallest and the largest width of the bar, without its brackets.
const MIN_BAR_COLUMNS: usize = 10;
const MAX_BAR_COLUMNS: usize = 30;
/// The number of columns between two fields of a line with a bar.
const GAP_COLUMNS: usize = 2;

/// The state of a job, `elapsed` seconds after its start.
pub(super) struct ProgressLine<'a> {
    pub(super) counters: &'a JobCounters,
    pub(super) speed: &'a Speed,
    pub(super) unit: Unit,
    pub(super) elapsed: f64,
}

/// A part of the line. It is shown as a whole, or not at all.
struct Field {
    text: String,
    /// Fields with a large number are left out first.
    rank: u8,
    is_failure: bool,
}

impl ProgressLine<'_> {
    /// All fields, without a bar and without colours: for files and pipes.
    pub(super) fn plain(&self) -> String {
        let fields: Vec<_> = self.fields().into_iter().map(|field| field.text).collect();
        fields.join(", ")
    }

    /// The fields that fit into `width` columns, with a bar if there is room. The line has colours if
    /// standard error shows colours.
    pub(super) fn fitted(&self, width: usize) -> String {
        let mut fields = self.fields();
        let fraction = self.counters.fraction();
        // The bar takes room from the last fields, but not from the main numbers.
        let bar_rank = 6;
        let mut shown: Vec<bool> = vec![false; fields.len()];
        let mut used_columns = 0_usize;
        let mut bar = None;
        let mut order: Vec<_> = (0..fields.len()).collect();
        order.sort_by_key(|&index| fields[index].rank);
        let mut add = |columns: usize| {
            let needed = used_columns + columns + if used_columns > 0 { GAP_COLUMNS } else { 0 };
            let fits = needed <= width;
            if fits {
                used_columns = needed;
            }
            fits
        };
        let mut try_bar = |add: &mut dyn FnMut(usize) -> bool| {
            if let Some(fraction) = fraction.filter(|_| add(MIN_BAR_COLUMNS + 2)) {
                bar = Some(fraction);
            }
        };
        let mut was_bar_tried = false;
        for index in order {
            if fields[index].rank > bar_rank && !std::mem::replace(&mut was_bar_tried, true) {
                try_bar(&mut add);
            }
            shown[index] = add(fields[index].text.len());
        }
        if !was_bar_tried {
            try_bar(&mut add);
        }
        let room = width.saturating_sub(used_columns);
        let mut parts: Vec<String> = Vec::new();
        parts.extend(
            bar.map(|fraction| bar_text(fraction, (MIN_BAR_COLUMNS + room).min(MAX_BAR_COLUMNS))),
        );
        let kept = fields.drain(..).zip(shown).filter(|(_, shown)| *shown);
        parts.extend(kept.map(|(field, _)| match field.is_failure {
            true => Style::new().for_stderr().red().apply_to(field.text).to_string(),
            false => field.text,
        }));
        parts.join(&" ".repeat(GAP_COLUMNS))
    }

    /// The fields, in the order in which they are shown.
    fn fields(&self) -> Vec<Field> {
        let Self { counters, speed, unit, elapsed } = self;
        let unit = unit.name();
        let is_planning = !counters.planning_finished;
        let field = |rank, text: String| Field { text, rank, is_failure: false };
        let mut fields = Vec::new();
        if let Some(fraction) = counters.fraction() {
            let about = if is_planning { "~" } else { "" };
            fields.push(field(0, format!("{about}{}%", whole((fraction * 100.0).floor()))));
        }
        fields.push(field(1, self.amount()));
        if counters.failed_items_now() > 0 {
            let text = format!("{} failed", short_count(counters.failed_items_now()));
            fields.push(Field { text, rank: 2, is_failure: true });
        }
        if counters.done > counters.restored_mini_batches() {
            fields.push(field(4, format!("{} {unit}/s", short_rate(speed.items))));
        }
        let left = counters.estimated_left(speed).filter(|left| *left > 0.0);
        fields.push(field(
            3,
            match left {
                Some(left) if is_planning => {
                    format!("{}, ~{} left", clock(*elapsed), clock(left.ceil()))
                }
                Some(left) => format!("{}, {} left", clock(*elapsed), clock(left.ceil())),
                None => clock(*elapsed),
            },
        ));
        if is_planning {
            fields.push(field(5, "planning".to_owned()));
        }
        let known = count(counters.planned.max(counters.done));
        let more = if is_planning { "+" } else { "" };
        fields.push(field(7, format!("{}/{known}{more} mini-batches", count(counters.done))));
        if let Some(percent) = counters.gpu_percent {
            fields.push(field(8, format!("GPUs {percent} % busy")));
        }
        fields
    }

    /// `12.4M/16.0M rows`.
    fn amount(&self) -> String {
        let Self { counters, unit, .. } = self;
        let done = short_count(counters.items.total);
        let unit = unit.name();
        match (counters.expected_items(), counters.planning_finished) {
            (Some(all), true) => format!("{done}/{} {unit}", short_count(all)),
            (Some(all), false) => format!("{done}/~{} {unit}", short_count(all)),
            (None, false) if counters.planned_items > 0 => {
                let planned = counters.planned_items.max(counters.items.total);
                format!("{done}/{}+ {unit}", short_count(planned))
            }
            (None, _) => format!("{done} {unit}"),
        }
    }
}

/// `[====>     ]`, this many columns between the brackets.
fn bar_text(fraction: f64, cells: usize) -> String {
    let full = whole((fraction * crate::model::to_f64(cells as u64)).floor());
    let full = usize::try_from(full).unwrap_or(cells).min(cells);
    let head = if full < cells { ">" } else { "" };
    let done = format!("{}{head}", "=".repeat(full));
    let bar = Style::new().for_stderr().cyan().apply_to(done);
    format!("[{bar}{}]", " ".repeat(cells - full - head.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::model::ItemCounts;

    fn counters(done: u64, items: u64, failed: u64) -> JobCounters {
        let mut counters = JobCounters::default();
        let planned = (3252, 33_500_000);
        counters.update(&EventKind::Planned {
            mini_batches: planned.0,
            items: planned.1,
            finished: true,
            share: None,
        });
        counters.done = done;
        counters.items = ItemCounts { total: items, succeeded: items - failed, failed };
        counters
    }

    fn speed() -> Speed {
        let mut speed = Speed::default();
        (speed.items, speed.mini_batches) = (2_134_000.0, 200.0);
        speed
    }

    fn fitted(counters: &JobCounters, unit: Unit) -> String {
        let speed = speed();
        let line = ProgressLine { counters, speed: &speed, unit, elapsed: 4.4 };
        let at = |width: usize| {
            let text = line.fitted(width);
            assert!(text.len() <= width, "{width}: {text}");
            format!("{width:3} {text}")
        };
        let lines: Vec<_> = [5, 25, 40, 50, 70, 80, 120].into_iter().map(at).collect();
        format!("{}\n    {}", lines.join("\n"), line.plain())
    }

    #[test]
    fn it_fits_the_width_by_leaving_fields_out() {
        let mut counters = counters(1203, 12_396_000, 0);
        insta::assert_snapshot!(fitted(&counters, Unit::Rows), @"
          5 37%
         25 37%  12.4M/33.5M rows
         40 37%  12.4M/33.5M rows  0:04, 0:11 left
         50 37%  12.4M/33.5M rows  0:04, 0:11 left
         70 [=====>        ]  37%  12.4M/33.5M rows  2.13M rows/s  0:04, 0:11 left
         80 [========>               ]  37%  12.4M/33.5M rows  2.13M rows/s  0:04, 0:11 left
        120 [===========>                  ]  37%  12.4M/33.5M rows  2.13M rows/s  0:04, 0:11 left  1,203/3,252 mini-batches
            37%, 12.4M/33.5M rows, 2.13M rows/s, 0:04, 0:11 left, 1,203/3,252 mini-batches
        ");
        counters.update(&EventKind::GpuUse { percent: 93 });
        counters.items.failed = 12;
        insta::assert_snapshot!(fitted(&counters, Unit::Files), @"
          5 37%
         25 37%  12.4M/33.5M files
         40 37%  12.4M/33.5M files  12 failed
         50 37%  12.4M/33.5M files  12 failed  0:04, 0:11 left
         70 37%  12.4M/33.5M files  12 failed  2.13M files/s  0:04, 0:11 left
         80 [====>      ]  37%  12.4M/33.5M files  12 failed  2.13M files/s  0:04, 0:11 left
        120 [=========>               ]  37%  12.4M/33.5M files  12 failed  2.13M files/s  0:04, 0:11 left  1,203/3,252 mini-batches
            37%, 12.4M/33.5M files, 12 failed, 2.13M files/s, 0:04, 0:11 left, 1,203/3,252 mini-batches, GPUs 93 % busy
        ");
    }

    #[test]
    fn nothing_is_cut_at_any_width() {
        let mut counters = counters(1203, 12_396_000, 1234);
        counters.update(&EventKind::GpuUse { percent: 93 });
        let speed = speed();
        let line =
            ProgressLine { counters: &counters, speed: &speed, unit: Unit::Rows, elapsed: 4.4 };
        let whole: Vec<_> = line.fields().into_iter().map(|field| field.text).collect();
        for width in 0..200 {
            let text = line.fitted(width);
            assert!(text.len() <= width, "{width}: {text}");
            for part in text.split("  ").map(str::trim).filter(|part| part.len() > 1) {
                let is_bar = part.contains(['[', ']']) || part.chars().all(|c| "=>".contains(c));
                assert!(is_bar || whole.iter().any(|field| field == part), "{width}: {text}");
            }
        }
    }

    #[test]
    fn it_shows_that_planning_continues() {
        let mut counters = counters(1203, 12_396_000, 0);
        counters.planning_finished = false;
        counters.update(&EventKind::Planned {
            mini_batches: 1500,
            items: 15_400_000,
            finished: false,
            share: Some(460),
        });
        insta::assert_snapshot!(fitted(&counters, Unit::Rows), @"
          5 ~37%
         25 ~37%  12.4M/~33.5M rows
         40 ~37%  12.4M/~33.5M rows  2.13M rows/s
         50 ~37%  12.4M/~33.5M rows  0:04, ~0:10 left
         70 ~37%  12.4M/~33.5M rows  2.13M rows/s  0:04, ~0:10 left  planning
         80 [====>      ]  ~37%  12.4M/~33.5M rows  2.13M rows/s  0:04, ~0:10 left  planning
        120 [========>               ]  ~37%  12.4M/~33.5M rows  2.13M rows/s  0:04, ~0:10 left  planning  1,203/1,500+ mini-batches
            ~37%, 12.4M/~33.5M rows, 2.13M rows/s, 0:04, ~0:10 left, planning, 1,203/1,500+ mini-batches
        ");
        counters.update(&EventKind::Planned {
            mini_batches: 3252,
            items: 33_500_000,
            finished: false,
            share: None,
        });
        insta::assert_snapshot!(fitted(&counters, Unit::Rows), @"
          5 0:04
         25 12.4M/33.5M+ rows  0:04
         40 12.4M/33.5M+ rows  2.13M rows/s  0:04
         50 12.4M/33.5M+ rows  2.13M rows/s  0:04  planning
         70 12.4M/33.5M+ rows  2.13M rows/s  0:04  planning
         80 12.4M/33.5M+ rows  2.13M rows/s  0:04  planning  1,203/3,252+ mini-batches
        120 12.4M/33.5M+ rows  2.13M rows/s  0:04  planning  1,203/3,252+ mini-batches
            12.4M/33.5M+ rows, 2.13M rows/s, 0:04, planning, 1,203/3,252+ mini-batches
        ");
    }
}
