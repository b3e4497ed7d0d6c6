//! How deeply a Parquet footer nests its columns. What reads footers calls itself for each level, and a
//! few megabytes name a million levels: more than a stack holds. The footer is Thrift's compact protocol.

use crate::dataset::{DatasetError, fail};

/// The most levels of columns.
const MAX_LEVELS: usize = 64;
/// The most levels of structures in a footer.
const MAX_DEPTH: u8 = 32;

/// Types of values.
const I32: u8 = 5;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Fails if a footer nests its columns too deeply, or is none.
pub(super) fn check_nesting(footer: &[u8]) -> Result<(), DatasetError> {
    let mut deepest = 0;
    match levels(footer, &mut deepest) {
        _ if deepest > MAX_LEVELS => {
            fail!("nests its columns in more than {MAX_LEVELS} levels, which cannot be read")
        }
        Some(()) => Ok(()),
        None => fail!("has a footer that cannot be read"),
    }
}

/// Counts the levels of the footer's columns. None if that ends early: it is no footer, or there are more
/// than are allowed.
fn levels(footer: &[u8], deepest: &mut usize) -> Option<()> {
    let mut scan = Scan(footer);
    let mut id = 0;
    while let Some(kind) = scan.field(&mut id)? {
        if (id, kind) != (2, LIST) {
            scan.skip(kind, MAX_DEPTH)?;
            continue;
        }
        let (count, STRUCT) = scan.list()? else { return None };
        // How many columns are to come on each level.
        let mut open: Vec<u64> = vec![1];
        for _ in 0..count {
            let children = scan.column()?;
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

/// What is left to look at.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The type of a structure's next field, whose number follows on the last one's; none at its end.
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        let kind = head & 0xf;
        if kind == 0 {
            return Some(None);
        }
        *id = match head >> 4 {
            0 => {
                let number = self.varint()?;
                (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
            }
            step => *id + i64::from(step),
        };
        Some(Some(kind))
    }

    /// How many values a list has, and their type.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((count, head & 0xf))
    }

    /// How many columns are below the next one.
    fn column(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                // Zigzag: an odd number is below zero, and as good as none.
                (5, I32) => {
                    children = Some(self.varint()?).filter(|it| it % 2 == 0).unwrap_or(0) / 2;
                }
                _ => self.skip(kind, MAX_DEPTH)?,
            }
        }
        Some(children)
    }

    /// Passes a value.
    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // In a field, its type says which.
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.varint().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.varint()?;
                self.pass(length)
            }
            LIST | 10 => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_item(kind, depth))
            }
            11 => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_item(kinds >> 4, depth)?;
                    self.skip_item(kinds & 0xf, depth)
                })
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            16 => self.pass(16),
            _ => None,
        }
    }

    /// Passes a value of a list or a map.
    fn skip_item(&mut self, kind: u8, depth: u8) -> Option<()> {
        if matches!(kind, 1 | 2) { self.pass(1) } else { self.skip(kind, depth) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A footer with so many columns, each below the one before it.
    fn nested(levels: u32) -> Vec<u8> {
        let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
        let mut count = levels;
        while count >= 0x80 {
            footer.push(count as u8 | 0x80);
            count >>= 7;
        }
        footer.push(count as u8);
        for level in 0..levels {
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
        // Lists within lists, and a length that nobody has.
        let mut lists = vec![0x39];
        lists.resize(1000, 0x19);
        assert!(check_nesting(&lists).is_err());
        assert!(check_nesting(&[0x38, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check_nesting(&bytes);
        }
    }
}
