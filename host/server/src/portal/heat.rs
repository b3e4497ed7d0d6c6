//! Shows the states of all mini-batches of a job as cells with colours. Each cell is a link to its mini-batches.

use super::link::Link;
use crate::jobs::{HeatCell, HeatMap};
use maud::{Markup, html};
use sandmill_model::count;

/// The most cells of a page. A page has room for them on a telephone, too.
pub(super) const MOST_CELLS: u64 = 240;

/// The cells. `list`: the list of mini-batches with its filters.
pub(super) fn heat(map: &HeatMap, list: &Link) -> Markup {
    let size = map.cell_size;
    html! {
        @if !map.cells().is_empty() {
            details.heat open {
                summary {
                    "All mini-batches"
                    @if size > 1 { ": each cell has " (count(size)) }
                }
                ul.cells {
                    @for cell in map.cells() {
                        li { (shown(cell, list)) }
                    }
                }
                p.legend {
                    span.c0 { "·" } " not begun " span.c1 { "▸" } " running " span.c2 { "↻" } " waits for another attempt "
                    span.c3 { "✓" } " succeeded " span.c5 { "1" } " failed: how many"
                }
            }
        }
    }
}

fn shown(cell: &HeatCell, list: &Link) -> Markup {
    let (class, sign) = look(cell);
    let names = match cell.first == cell.last {
        true => cell.first.to_string(),
        false => format!("{}–{}", cell.first, cell.last),
    };
    let parts = [
        (cell.failed, "failed"),
        (cell.running, "running"),
        (cell.waiting, "waiting"),
        (cell.succeeded, "succeeded"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let said = parts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ");
    let said = if said.is_empty() { "not begun" } else { &said };
    let address = list.with("from", Some(cell.first)).with("cursor", None::<u8>).address();
    // The address without its path is relative to the page.
    let address = address.find('?').map_or("", |at| &address[at..]);
    html! { a class=(class) href=(address) aria-label={ (names) ": " (said) } title={ (names) ": " (said) } { (sign) } }
}

/// The class and the text of a cell: what is worst in it counts.
fn look(cell: &HeatCell) -> (&'static str, String) {
    let percent = cell.failed * 100 / cell.size().max(1);
    match percent {
        _ if cell.failed == 0 => {}
        0..10 => return ("c4", short(cell.failed)),
        10..50 => return ("c5", short(cell.failed)),
        _ => return ("c6", short(cell.failed)),
    }
    match (cell.waiting, cell.running, cell.succeeded) {
        (0, 0, 0) => ("c0", "·".to_owned()),
        (0, 0, done) if done >= cell.size() => ("c3", "✓".to_owned()),
        (0, ..) => ("c1", "▸".to_owned()),
        _ => ("c2", "↻".to_owned()),
    }
}

fn short(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{}M", number / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(failed: u64, waiting: u64, running: u64, succeeded: u64) -> HeatCell {
        HeatCell { first: 100, last: 199, running, waiting, succeeded, failed }
    }

    #[test]
    fn the_worst_in_a_cell_is_seen() {
        let looks = [
            (cell(0, 0, 0, 0), ("c0", "·")),
            (cell(0, 0, 0, 99), ("c1", "▸")),
            (cell(0, 0, 0, 100), ("c3", "✓")),
            (cell(0, 0, 1, 50), ("c1", "▸")),
            (cell(0, 1, 1, 50), ("c2", "↻")),
            (cell(1, 1, 1, 50), ("c4", "1")),
            (cell(10, 0, 0, 90), ("c5", "10")),
            (cell(100, 0, 0, 0), ("c6", "100")),
        ];
        for (cell, (class, sign)) in looks {
            assert_eq!(look(&cell), (class, sign.to_owned()), "{cell:?}");
        }
        assert_eq!((short(1999), short(2_000_000)), ("1k".to_owned(), "2M".to_owned()));
    }

    /// A cell leads to its first mini-batch, with the filters of the page.
    #[test]
    fn cells_keep_the_filters() {
        let list = Link::new("/portal/jobs/x/mini-batches")
            .with("state", Some("failed"))
            .with("cursor", Some("old"));
        let text = shown(&cell(2, 0, 0, 98), &list).into_string();
        assert!(text.contains("href=\"?state=failed&amp;from=100\""), "{text}");
        assert!(text.contains("100–199: 2 failed, 98 succeeded"), "{text}");
    }
}
