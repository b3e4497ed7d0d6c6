//! The first rows of a file with results.

use super::table::table;
use super::text::{name, shortened};
use csv::ReaderBuilder;
use maud::{Markup, html};
use std::io::{self, Read};

/// The most rows.
pub(super) const ROWS: usize = 100;
/// The most bytes of the file that are read.
const MOST_BYTES: u64 = 1 << 20;
/// The longest row or cell that is shown, in characters.
const MOST_ROW: usize = 500;
const MOST_CELL: usize = 100;
/// The most columns of a table.
const MOST_COLUMNS: usize = 30;
/// The most characters of all rows: the page stays small.
const MOST_CHARS: usize = 40_000;

/// The first rows of a file: as a table if its name says that it has columns.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn preview(path: &str, file: impl Read) -> io::Result<Markup> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(html! { p { "The file is empty." } });
    }
    if bytes.contains(&0)
        || std::str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_some())
    {
        return Ok(html! { p { "The file is not text: download it." } });
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(match path.rsplit('.').next() {
        Some("csv") => columns(&text, b','),
        Some("tsv") => columns(&text, b'\t'),
        _ => lines(&text),
    })
}

fn lines(text: &str) -> Markup {
    let mut room = MOST_CHARS;
    let rows = text.lines().take(ROWS).map(|row| shortened(&name(row), MOST_ROW));
    let rows = rows.take_while(|row| has_room(&mut room, row));
    html! { ol.rows { @for row in rows { li { code { (row) } } } } }
}

fn has_room(room: &mut usize, text: &str) -> bool {
    let has = *room > 0;
    *room = room.saturating_sub(text.len());
    has
}

fn columns(text: &str, delimiter: u8) -> Markup {
    let mut reader = ReaderBuilder::new()
        .flexible(true)
        .has_headers(false)
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let cells = |row: csv::StringRecord| {
        row.iter()
            .take(MOST_COLUMNS)
            .map(|cell| shortened(&name(cell), MOST_CELL))
            .collect::<Vec<_>>()
    };
    let mut room = MOST_CHARS;
    let rows: Vec<Vec<String>> = reader
        .records()
        .map_while(Result::ok)
        .take(ROWS + 1)
        .map(cells)
        .take_while(|row| has_room(&mut room, &row.concat()))
        .collect();
    let Some((head, rows)) = rows.split_first() else { return html! {} };
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    table(
        "Rows",
        &head,
        &html! {
            @for row in rows { tr { @for cell in row { td { (cell) } } } }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, text: &[u8]) -> String {
        preview(path, text).unwrap().into_string()
    }

    #[test]
    fn rows_are_shown_by_the_kind_of_the_file() {
        let table = shown("a.csv", b"name,score\n\"x,y\",1\n<b>,2\n");
        assert!(table.contains("<th scope=\"col\">score</th>"), "{table}");
        assert!(
            table.contains("<td>x,y</td><td>1</td>") && table.contains("<td>&lt;b&gt;</td>"),
            "{table}"
        );
        let lines = shown("a.txt", "one\n<script>\n\u{202e}".as_bytes());
        assert!(lines.contains("<li><code>&lt;script&gt;</code></li>"), "{lines}");
        assert!(lines.contains("\\u{202e}"), "{lines}");
        assert!(shown("a.parquet", b"PAR1\0\0").contains("not text"));
        assert!(shown("a.txt", b"").contains("empty"));
    }

    #[test]
    fn a_preview_is_bounded() {
        let many = "row\n".repeat(1000);
        assert_eq!(shown("a.txt", many.as_bytes()).matches("<li>").count(), ROWS);
        let wide = format!("{}\n", "x,".repeat(10_000)).repeat(200);
        for path in ["a.csv", "a.txt"] {
            assert!(shown(path, wide.as_bytes()).len() < 90_000, "{path}");
        }
        // The last row that was read may be cut inside a character.
        assert!(!shown("a.txt", &"é".repeat(600_000).into_bytes()[..]).contains("not text"));
    }
}
