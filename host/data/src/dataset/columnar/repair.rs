//! Repairs Parquet footers of old or odd writers, so that the `parquet` crate reads them. The crate
//! is stricter than other readers. A repair does not guess: it gives the bytes the meaning that the
//! other readers give them.

use super::footer::{ChunkMetadata, Footer, SchemaNode};
use std::ops::Range;

/// Physical types, as numbers of parquet.thrift's `Type`.
const INT96: i64 = 3;
const FIXED_LEN_BYTE_ARRAY: i64 = 7;
/// Repetition types, as numbers of `FieldRepetitionType`.
const REQUIRED: i64 = 0;
/// Converted types, as numbers of `ConvertedType`: old writers state the meaning of values by them.
const INTERVAL: i64 = 21;
const KNOWN_CONVERTED: Range<i64> = 0..22;
/// A few old versions wrote this converted type for a column of nulls. It is not part of the format.
const ALL_NULL: i64 = 24;
/// The logical type for a column of nulls, `UNKNOWN`, in Thrift's compact protocol: the field 11, an empty
/// struct.
const LOGICAL_UNKNOWN: &[u8] = &[0xbc, 0, 0];
/// The bytes of a value of `INT96` or of `INTERVAL`.
const VALUE_BYTES: i64 = 12;
/// The maximum length of a page header that some writers did not count in sizes.
const MAX_HEADER_BYTES: i64 = 100;

/// Repairs a footer that begins at offset `start` of its file. With `as_stored`, 96-bit times and
/// intervals become plain bytes, because the `parquet` crate would convert them wrongly.
pub(super) fn repair(footer: &mut Footer<'_>, start: u64, as_stored: bool) {
    let sizes_are_short = footer.created_by.is_some_and(leaves_out_headers);
    footer.elements = without_empty_groups(&footer.elements);
    for element in footer.elements.iter_mut().skip(1) {
        repair_element(element);
        if as_stored {
            make_plain_bytes(element);
        }
    }
    if footer.rows.unwrap_or(0) == 0 {
        let rows = footer.groups.iter().map(|group| group.rows.unwrap_or(0));
        footer.rows = Some(rows.fold(0, i64::saturating_add));
    }
    for chunk in footer.groups.iter_mut().flat_map(|group| &mut group.chunks) {
        let is_wrong =
            |offset: &i64| is_impossible_dictionary(*offset, chunk.data_page.unwrap_or(i64::MAX));
        if chunk.dictionary.as_ref().is_some_and(is_wrong) {
            chunk.dictionary = None;
        }
    }
    if sizes_are_short {
        lengthen_chunks(footer, i64::try_from(start).unwrap_or(i64::MAX));
    }
}

/// Whether the offset that the footer states for a dictionary is impossible. `data_page` is the offset of the
/// first page with values.
pub(super) fn is_impossible_dictionary(offset: i64, data_page: i64) -> bool {
    offset == 0 || offset > data_page
}

fn repair_element(element: &mut SchemaNode<'_>) {
    // Other readers do not check whether the field is set. They see its default, 0.
    element.repetition.get_or_insert(REQUIRED);
    match element.converted {
        Some(ALL_NULL) => {
            element.converted = None;
            element.logical.get_or_insert(LOGICAL_UNKNOWN);
        }
        Some(other) if !KNOWN_CONVERTED.contains(&other) => element.converted = None,
        _ => {}
    }
}

/// Turns 96-bit times and intervals into plain bytes, because the `parquet` crate would convert
/// them wrongly.
fn make_plain_bytes(element: &mut SchemaNode<'_>) {
    let is_interval = element.physical == Some(FIXED_LEN_BYTE_ARRAY)
        && element.length == Some(VALUE_BYTES)
        && element.converted == Some(INTERVAL);
    if is_interval && element.logical.is_none() {
        element.converted = None;
    }
    if element.physical == Some(INT96) && element.logical != Some(LOGICAL_UNKNOWN) {
        element.physical = Some(FIXED_LEN_BYTE_ARRAY);
        element.length = Some(VALUE_BYTES);
        element.converted = None;
        element.logical = None;
    }
}

/// The tree without the groups that have no column below them. These groups have no values, and the
/// `parquet` crate is not consistent: it counts them in one place and leaves them out in another.
fn without_empty_groups<'a>(elements: &[SchemaNode<'a>]) -> Vec<SchemaNode<'a>> {
    let mut kept: Vec<SchemaNode<'a>> = Vec::with_capacity(elements.len());
    // For each open group: its index in `kept`, how many nodes directly below it are still to come,
    // and how many nodes directly below it are kept so far.
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
        while let Some((group, left, kept_children)) = open.last_mut() {
            *left -= 1;
            *kept_children += i64::from(stays);
            if *left > 0 {
                break;
            }
            let group = *group;
            let kept_children = *kept_children;
            open.pop();
            stays = kept_children > 0 || group == 0;
            kept[group].children = Some(kept_children);
            if !stays {
                kept.truncate(group);
            }
        }
    }
    kept
}

/// Whether the program that wrote a file did not count the header of the dictionary in the sizes of columns.
pub(super) fn leaves_out_headers(created_by: &[u8]) -> bool {
    version_of(created_by, b"parquet-mr").is_some_and(|version| version < (1, 2, 9))
}

/// The version of `program`, if it wrote the file. `None` if another program did. Zeros if no version is
/// stated.
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

/// Extends each column up to the next column, or to the start of the footer, if the gap is not
/// longer than a header. Such a gap belongs to the column, whose stated size does not count the
/// header.
fn lengthen_chunks(footer: &mut Footer<'_>, footer_start: i64) {
    let chunks = footer.groups.iter().flat_map(|group| &group.chunks);
    let mut starts: Vec<i64> =
        chunks.filter_map(ChunkMetadata::start).chain([footer_start]).collect();
    starts.sort_unstable();
    for chunk in footer.groups.iter_mut().flat_map(|group| &mut group.chunks) {
        let (Some(start), Some(bytes)) = (chunk.start(), chunk.compressed_bytes) else { continue };
        let end = start.saturating_add(bytes);
        let next = starts.get(starts.partition_point(|&other| other < end.max(start + 1)));
        if let Some(gap) = next.map(|next| next - end)
            && (1..=MAX_HEADER_BYTES).contains(&gap)
        {
            chunk.compressed_bytes = Some(bytes + gap);
        }
    }
}
