//! Repairs what old or odd writers left in a Parquet footer, so that the library reads it: the library is
//! stricter than the readers that most files are made for. It does not guess: each change gives the bytes the
//! meaning that those other readers give them.

use super::footer::{ChunkMetadata, Footer, SchemaNode};
use std::ops::Range;

/// Numbers of physical types in footers.
const INT96: i64 = 3;
const FIXED: i64 = 7;
/// Numbers of converted types, by which old writers state the meaning of values.
const INTERVAL: i64 = 21;
const KNOWN: Range<i64> = 0..22;
/// A few old versions wrote this for a column of nulls. It is not part of the format.
const ALL_NULL: i64 = 24;
/// The same as a logical type, which is the form of today.
const UNKNOWN: &[u8] = &[0xbc, 0, 0];
/// The bytes of a value of `INT96` or of `INTERVAL`.
const WIDTH: i64 = 12;
/// The maximum length of a header that some writers did not count in sizes, in bytes.
const MAX_HEADER: i64 = 100;

/// Repairs a footer that begins at byte `end` of its file. With `as_stored`, 96-bit times and intervals stay
/// bytes, because the library may convert them to other values.
pub(super) fn repair(footer: &mut Footer<'_>, end: u64, as_stored: bool) {
    let is_old = footer.created_by.is_some_and(leaves_out_headers);
    footer.elements = with_leaves(&footer.elements);
    for element in footer.elements.iter_mut().skip(1) {
        repair_element(element);
        if as_stored {
            store(element);
        }
    }
    if footer.rows.unwrap_or(0) == 0 {
        let rows = footer.groups.iter().map(|group| group.rows.unwrap_or(0));
        footer.rows = Some(rows.fold(0, i64::saturating_add));
    }
    for chunk in footer.groups.iter_mut().flat_map(|group| &mut group.chunks) {
        let is_wrong =
            |at: &i64| is_impossible_dictionary(*at, chunk.data_page.unwrap_or(i64::MAX));
        if chunk.dictionary.as_ref().is_some_and(is_wrong) {
            chunk.dictionary = None;
        }
    }
    if is_old {
        lengthen(footer, i64::try_from(end).unwrap_or(i64::MAX));
    }
}

/// Whether a dictionary cannot be at the offset that the footer states for it. `data_page` is where values
/// begin.
pub(super) fn is_impossible_dictionary(at: i64, data_page: i64) -> bool {
    at == 0 || at > data_page
}

fn repair_element(element: &mut SchemaNode<'_>) {
    // Required, as for readers that do not check whether the field is set.
    element.repetition.get_or_insert(0);
    match element.converted {
        Some(ALL_NULL) => {
            element.converted = None;
            element.logical.get_or_insert(UNKNOWN);
        }
        Some(other) if !KNOWN.contains(&other) => element.converted = None,
        _ => {}
    }
}

/// Turns 12-byte types that the library would convert wrongly into plain bytes.
fn store(element: &mut SchemaNode<'_>) {
    let is_interval = element.physical == Some(FIXED)
        && element.length == Some(WIDTH)
        && element.converted == Some(INTERVAL);
    if is_interval && element.logical.is_none() {
        element.converted = None;
    }
    if element.physical == Some(INT96) && element.logical != Some(UNKNOWN) {
        element.physical = Some(FIXED);
        element.length = Some(WIDTH);
        element.converted = None;
        element.logical = None;
    }
}

/// The tree without the groups that have no column below them. They have no values, and the library counts
/// them in one place and leaves them out in another.
fn with_leaves<'a>(elements: &[SchemaNode<'a>]) -> Vec<SchemaNode<'a>> {
    let mut kept: Vec<SchemaNode<'a>> = Vec::with_capacity(elements.len());
    // For each open group: its index in `kept`, how many nodes are to come below it, and how many are kept.
    let mut open: Vec<(usize, i64, i64)> = Vec::new();
    for element in elements {
        let children = element.children.unwrap_or(0);
        kept.push(element.clone());
        if children > 0 {
            open.push((kept.len() - 1, children, 0));
            continue;
        }
        let mut stays = element.physical.is_some() || kept.len() == 1;
        if !stays {
            kept.pop();
        }
        while let Some((at, left, here)) = open.last_mut() {
            *left -= 1;
            *here += i64::from(stays);
            if *left > 0 {
                break;
            }
            let at = *at;
            let here = *here;
            open.pop();
            stays = here > 0 || at == 0;
            kept[at].children = Some(here);
            if !stays {
                kept.truncate(at);
            }
        }
    }
    kept
}

/// Whether a program did not count the header of the dictionary in the sizes of columns.
pub(super) fn leaves_out_headers(created_by: &[u8]) -> bool {
    version_of(created_by, b"parquet-mr").is_some_and(|version| version < (1, 2, 9))
}

/// The version of the program that wrote a file. `None` if it is another program; zeros if it states no
/// version.
pub(super) fn version_of(created_by: &[u8], program: &[u8]) -> Option<(u32, u32, u32)> {
    let rest = String::from_utf8_lossy(created_by.strip_prefix(program)?);
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let Some((_, version)) = rest.split_once("version ") else { return Some((0, 0, 0)) };
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .take(3)
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    Some((next(), next(), next()))
}

/// Extends columns up to the next one, if the gap is not longer than a header.
fn lengthen(footer: &mut Footer<'_>, end: i64) {
    let chunks = footer.groups.iter().flat_map(|group| &group.chunks);
    let mut starts: Vec<i64> = chunks.filter_map(ChunkMetadata::start).chain([end]).collect();
    starts.sort_unstable();
    for chunk in footer.groups.iter_mut().flat_map(|group| &mut group.chunks) {
        let (Some(start), Some(packed)) = (chunk.start(), chunk.packed) else { continue };
        let last = start.saturating_add(packed);
        let next = starts.get(starts.partition_point(|&other| other < last.max(start + 1)));
        if let Some(gap) = next.map(|next| next - last)
            && (1..=MAX_HEADER).contains(&gap)
        {
            chunk.packed = Some(packed + gap);
        }
    }
}
