//! Parts that several pages have.

use super::link::Link;
use maud::{Markup, html};

/// The link to the next page of a list. Nothing on the last page.
pub(super) fn next_page(filtered: &Link, next: Option<&String>) -> Markup {
    html! {
        @if let Some(next) = next {
            p.next { a rel="next" href=(filtered.with("cursor", Some(next)).address()) { "Next page" } }
        }
    }
}

/// A table that can be scrolled sideways on a narrow screen.
pub(super) fn table(caption: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption.hidden { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// The choices of a filter, with the chosen one.
pub(super) fn choices(known: &[&str], chosen: Option<&str>, all: &str) -> Markup {
    html! {
        option value="" selected[chosen.is_none_or(str::is_empty)] { (all) }
        @for name in known {
            option value=(name) selected[chosen == Some(*name)] { (name) }
        }
    }
}

/// Facts: names with values. Empty values are left out.
pub(super) fn facts(facts: &[(&str, Option<Markup>)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                @if let Some(value) = value {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}
