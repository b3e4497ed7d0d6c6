//! Limits how deeply a Parquet footer nests its columns. The `parquet` crate reads footers
//! recursively, and a footer of a few megabytes can have a million levels: more than a stack holds.

use super::thrift::{I32, LIST, MAX_DEPTH, STRUCT, ThriftScan};
use crate::dataset::{DatasetError, err};

/// The maximum number of levels of columns.
const MAX_LEVELS: usize = 64;
/// The field `schema` of parquet.thrift's `FileMetaData`: its number and type.
const SCHEMA: (i64, u8) = (2, LIST);
/// The field `num_children` of `SchemaElement`.
const NUM_CHILDREN: (i64, u8) = (5, I32);

/// Fails if a footer nests its columns too deeply, or is malformed.
pub(super) fn check_nesting(footer: &[u8]) -> Result<(), DatasetError> {
    let mut deepest = 0;
    match count_levels(footer, &mut deepest) {
        _ if deepest > MAX_LEVELS => {
            err!("nests its columns in more than {MAX_LEVELS} levels, which cannot be read")
        }
        Some(()) => Ok(()),
        None => err!("has a footer that cannot be read"),
    }
}

/// Counts the levels of the footer's columns into `deepest`. `None` if the footer is malformed, or has more
/// levels than allowed.
fn count_levels(footer: &[u8], deepest: &mut usize) -> Option<()> {
    let mut scan = ThriftScan(footer);
    let mut id = 0;
    while let Some(kind) = scan.field(&mut id)? {
        if (id, kind) != SCHEMA {
            scan.skip(kind, MAX_DEPTH)?;
            continue;
        }
        let (count, STRUCT) = scan.list()? else { return None };
        // For each level, how many columns are still to come.
        let mut open: Vec<u64> = vec![1];
        for _ in 0..count {
            let children = read_children(&mut scan)?;
            while open.last() == Some(&0) {
                open.pop();
            }
            *open.last_mut()? -= 1;
            if children > 0 {
                open.push(children);
            }
            *deepest = open.len().max(*deepest);
            if *deepest > MAX_LEVELS {
                return None;
            }
        }
    }
    Some(())
}

/// Reads the next column, and returns the number of columns directly below it.
fn read_children(scan: &mut ThriftScan<'_>) -> Option<u64> {
    let mut id = 0;
    let mut children = 0;
    while let Some(kind) = scan.field(&mut id)? {
        match (id, kind) {
            // The number is in zigzag encoding: an odd varint is negative, and counts as zero.
            NUM_CHILDREN => {
                children = Some(scan.varint()?).filter(|number| number % 2 == 0).unwrap_or(0) / 2;
            }
            _ => scan.skip(kind, MAX_DEPTH)?,
        }
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A footer with this many columns, each below the column before it.
    fn nested(levels: u32) -> Vec<u8> {
        // The version 1, and the head of a list of structs.
        let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
        let mut count = levels;
        while count >= 0x80 {
            footer.push(count as u8 | 0x80);
            count >>= 7;
        }
        footer.push(count as u8);
        for level in 0..levels {
            // The name "a", and one child.
            footer.extend([0x48, 1, b'a']);
            if level + 1 < levels {
                footer.extend([0x15, 0x02]);
            }
            footer.push(0);
        }
        footer.push(0);
        footer
    }

    #[test]
    fn deep_columns_are_refused() {
        check_nesting(&nested(20)).unwrap();
        check_nesting(&nested(64)).unwrap();
        for levels in [65, 200, 1_000_000] {
            let error = check_nesting(&nested(levels)).unwrap_err();
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @"nests its columns in more than 64 levels, which cannot be read");
            }
        }
        insta::assert_snapshot!(check_nesting(b"").unwrap_err(), @"has a footer that cannot be read");
        // Lists within lists, and a text with an impossible length.
        let mut lists = vec![0x39];
        lists.resize(1000, 0x19);
        assert!(check_nesting(&lists).is_err());
        assert!(check_nesting(&[0x38, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_checked_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check_nesting(&bytes);
        }
    }
}
