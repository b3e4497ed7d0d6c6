//! Reads and writes Thrift's compact protocol, the format of Parquet footers.

/// The maximum number of levels of structs in a footer.
pub(super) const MAX_DEPTH: u8 = 32;

/// Types of values in the compact protocol. In a field, the type of a boolean says its value.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I16: u8 = 4;
pub(super) const I32: u8 = 5;
pub(super) const I64: u8 = 6;
const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
/// Only newer versions of Thrift have this type.
const UUID: u8 = 16;

/// Reads values. Holds the bytes that are still to be read. The methods return `None` if the bytes are cut
/// off or malformed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThriftScan<'a>(pub(super) &'a [u8]);

impl<'a> ThriftScan<'a> {
    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    pub(super) fn skip_bytes(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    /// Reads a varint: a number that has seven bits in each byte, the lowest first.
    pub(super) fn varint(&mut self) -> Option<u64> {
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

    /// Reads the head of the next field of a struct. Returns its type, or `Some(None)` at the end of the
    /// struct. `id` is the number of the field before, and becomes the number of this field.
    pub(super) fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        let kind = head & 0xf;
        if kind == 0 {
            return Some(None);
        }
        *id = match head >> 4 {
            0 => self.int()?,
            step => id.saturating_add(i64::from(step)),
        };
        Some(Some(kind))
    }

    /// Reads the head of a list: how many values it has, and their type.
    pub(super) fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((count, head & 0xf))
    }

    /// Reads an integer of any width.
    pub(super) fn int(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// Reads text or bytes.
    pub(super) fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The encoded bytes of the next value.
    pub(super) fn raw(&mut self, kind: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.skip(kind, MAX_DEPTH)?;
        before.get(..before.len() - self.0.len())
    }

    /// Calls `read` with the number and the type of each field of a struct. `read` returns whether it has
    /// read the value. If not, the value is skipped.
    pub(super) fn fields(
        &mut self,
        mut read: impl FnMut(&mut Self, i64, u8) -> Option<bool>,
    ) -> Option<()> {
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            if !read(self, id, kind)? {
                self.skip(kind, MAX_DEPTH)?;
            }
        }
        Some(())
    }

    /// Skips a value with at most `depth` levels.
    pub(super) fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE => Some(()),
            I8 => self.skip_bytes(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.skip_bytes(8),
            BINARY => {
                let length = self.varint()?;
                self.skip_bytes(length)
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_item(kind, depth))
            }
            MAP => {
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
            UUID => self.skip_bytes(16),
            _ => None,
        }
    }

    /// Skips a value of a list or a map.
    pub(super) fn skip_item(&mut self, kind: u8, depth: u8) -> Option<()> {
        // In a list or a map, a boolean takes a byte.
        if matches!(kind, TRUE | FALSE) { self.skip_bytes(1) } else { self.skip(kind, depth) }
    }
}

/// Writes the fields of a struct.
#[derive(Debug)]
pub(super) struct StructWriter<'a> {
    out: &'a mut Vec<u8>,
    /// The number of the last field.
    last_id: i64,
}

impl<'a> StructWriter<'a> {
    /// Begins a struct in `out`. The numbers of its fields must ascend.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last_id: 0 }
    }

    /// Writes the number and the type of the next field. The caller writes the value.
    pub(super) fn field(&mut self, id: u8, kind: u8) -> &mut Vec<u8> {
        let id = i64::from(id);
        match u8::try_from(id - self.last_id) {
            Ok(step @ 1..=15) => self.out.push(step << 4 | kind),
            _ => {
                self.out.push(kind);
                varint(self.out, (id << 1).cast_unsigned());
            }
        }
        self.last_id = id;
        self.out
    }

    /// Writes an integer, if there is one.
    pub(super) fn int(&mut self, id: u8, kind: u8, number: Option<i64>) {
        if let Some(number) = number {
            int(self.field(id, kind), number);
        }
    }

    /// Writes text or bytes, if there are any.
    pub(super) fn binary(&mut self, id: u8, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            let out = self.field(id, BINARY);
            varint(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
    }

    /// Writes an encoded value, if there is one.
    pub(super) fn raw(&mut self, id: u8, kind: u8, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            self.field(id, kind).extend_from_slice(bytes);
        }
    }

    /// Begins a list of `count` values of the type `kind`. The caller writes the values.
    pub(super) fn list(&mut self, id: u8, kind: u8, count: usize) -> &mut Vec<u8> {
        let out = self.field(id, LIST);
        match u8::try_from(count) {
            Ok(count @ 0..=14) => out.push(count << 4 | kind),
            _ => {
                out.push(0xf0 | kind);
                varint(out, count as u64);
            }
        }
        out
    }

    pub(super) fn end(self) {
        self.out.push(0);
    }
}

/// Writes a varint: a number with seven bits in each byte, the lowest first.
fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Writes an integer as a zigzag varint: the sign is in the lowest bit.
pub(super) fn int(out: &mut Vec<u8>, number: i64) {
    varint(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}
