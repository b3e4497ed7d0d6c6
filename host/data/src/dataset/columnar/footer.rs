//! Parses the parts of a Parquet footer that we need to read rows, and serializes them again. Skips
//! unknown fields and fields of an unexpected type, as Thrift's own readers do. The field numbers
//! are those of parquet.thrift: a footer is a `FileMetaData`.

use super::thrift::{BINARY, I32, I64, LIST, STRUCT, StructWriter, ThriftScan};

/// The field `row_groups` of `FileMetaData`: its number and type.
const ROW_GROUPS: (i64, u8) = (4, LIST);
/// The field `columns` of `RowGroup`.
const COLUMNS: (i64, u8) = (1, LIST);
/// The field `crypto_metadata` of `ColumnChunk`.
const CRYPTO_METADATA: (i64, u8) = (8, STRUCT);
/// The field `encrypted_column_metadata` of `ColumnChunk`.
const ENCRYPTED_METADATA: (i64, u8) = (9, BINARY);

/// A footer (`FileMetaData`). It borrows texts and statistics from the bytes that it was read from.
#[derive(Clone, Debug, Default)]
pub(super) struct Footer<'a> {
    version: Option<i64>,
    /// The tree of columns: each node comes before the nodes below it.
    pub(super) elements: Vec<SchemaNode<'a>>,
    /// The number of rows in the file.
    pub(super) rows: Option<i64>,
    pub(super) groups: Vec<RowGroup<'a>>,
    pairs: Vec<MetadataPair<'a>>,
    /// The program that wrote the file.
    pub(super) created_by: Option<&'a [u8]>,
}

/// A node of the tree of columns (`SchemaElement`).
#[derive(Clone, Debug, Default)]
pub(super) struct SchemaNode<'a> {
    /// The physical type: how values are stored. `None` for a group.
    pub(super) physical: Option<i64>,
    /// The bytes of each value, if all have the same length.
    pub(super) length: Option<i64>,
    /// Whether the value is required, optional or repeated.
    pub(super) repetition: Option<i64>,
    name: Option<&'a [u8]>,
    /// The number of nodes directly below it.
    pub(super) children: Option<i64>,
    /// The converted type: the meaning of values, in the form that old writers use.
    pub(super) converted: Option<i64>,
    scale: Option<i64>,
    precision: Option<i64>,
    id: Option<i64>,
    /// The logical type: the meaning of values.
    pub(super) logical: Option<&'a [u8]>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RowGroup<'a> {
    /// The columns, in the order of the tree.
    pub(super) chunks: Vec<ChunkMetadata<'a>>,
    bytes: Option<i64>,
    pub(super) rows: Option<i64>,
}

/// A column of a row group (`ColumnChunk`), with its `ColumnMetaData`.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkMetadata<'a> {
    file: Option<&'a [u8]>,
    offset: Option<i64>,
    /// Where the page indexes are: the fields 4 to 7 of `ColumnChunk`, offsets and lengths.
    indexes: [Option<i64>; 4],
    pub(super) is_encrypted: bool,
    /// Whether it has a `ColumnMetaData`.
    has_metadata: bool,
    physical: Option<i64>,
    encodings: Vec<i64>,
    /// How its pages are compressed.
    pub(super) codec: Option<i64>,
    /// The number of values in its pages.
    pub(super) values: Option<i64>,
    uncompressed_bytes: Option<i64>,
    /// The bytes of its pages in the file.
    pub(super) compressed_bytes: Option<i64>,
    /// The offset of the first page with values.
    pub(super) data_page: Option<i64>,
    /// The offset of the dictionary.
    pub(super) dictionary: Option<i64>,
    statistics: Option<&'a [u8]>,
    size_statistics: Option<&'a [u8]>,
}

/// A key and a value that a writer adds: for example, the Arrow schema.
#[derive(Clone, Debug, Default)]
struct MetadataPair<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Footer<'a> {
    /// Reads a footer. `None` if it is cut off or malformed.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut footer = Self::default();
        ThriftScan(bytes).fields(|scan, id, kind| {
            match (id, kind) {
                (1, I32) => footer.version = Some(scan.int()?),
                (2, LIST) => footer.elements = read_structs(scan, SchemaNode::read)?,
                (3, I64) => footer.rows = Some(scan.int()?),
                ROW_GROUPS => footer.groups = read_structs(scan, RowGroup::read)?,
                (5, LIST) => footer.pairs = read_structs(scan, MetadataPair::read)?,
                (6, BINARY) => footer.created_by = Some(scan.binary()?),
                _ => return Some(false),
            }
            Some(true)
        })?;
        Some(footer)
    }

    /// Writes the footer. Leaves out the orders of values (`column_orders` and `sorting_columns`),
    /// because our readers do not use them.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = StructWriter::new(&mut out);
        put.int(1, I32, Some(self.version.unwrap_or(1)));
        let list = put.list(2, STRUCT, self.elements.len());
        self.elements.iter().for_each(|element| element.write(list));
        put.int(3, I64, self.rows);
        let list = put.list(4, STRUCT, self.groups.len());
        self.groups.iter().for_each(|group| group.write(list));
        let pairs = self.pairs.iter().filter(|pair| pair.key.is_some());
        let list = put.list(5, STRUCT, pairs.clone().count());
        pairs.for_each(|pair| pair.write(list));
        put.binary(6, self.created_by);
        put.end();
        out
    }
}

/// Reads a list of structs with `read`. Empty if the list holds other values.
fn read_structs<'a, T>(
    scan: &mut ThriftScan<'a>,
    mut read: impl FnMut(&mut ThriftScan<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let before = *scan;
    let (count, kind) = scan.list()?;
    if kind != STRUCT {
        *scan = before;
        scan.raw(LIST)?;
        return Some(Vec::new());
    }
    let mut structs = Vec::new();
    for _ in 0..count {
        structs.push(read(scan)?);
    }
    Some(structs)
}

impl<'a> SchemaNode<'a> {
    fn read(scan: &mut ThriftScan<'a>) -> Option<Self> {
        let mut element = Self::default();
        scan.fields(|scan, id, kind| {
            match (id, kind) {
                (1, I32) => element.physical = Some(scan.int()?),
                (2, I32) => element.length = Some(scan.int()?),
                (3, I32) => element.repetition = Some(scan.int()?),
                (4, BINARY) => element.name = Some(scan.binary()?),
                (5, I32) => element.children = Some(scan.int()?),
                (6, I32) => element.converted = Some(scan.int()?),
                (7, I32) => element.scale = Some(scan.int()?),
                (8, I32) => element.precision = Some(scan.int()?),
                (9, I32) => element.id = Some(scan.int()?),
                (10, STRUCT) => element.logical = Some(scan.raw(STRUCT)?),
                _ => return Some(false),
            }
            Some(true)
        })?;
        element.name.is_some().then_some(element)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut put = StructWriter::new(out);
        put.int(1, I32, self.physical);
        put.int(2, I32, self.length);
        put.int(3, I32, self.repetition);
        put.binary(4, Some(self.name.unwrap_or_default()));
        put.int(5, I32, self.children);
        put.int(6, I32, self.converted);
        put.int(7, I32, self.scale);
        put.int(8, I32, self.precision);
        put.int(9, I32, self.id);
        put.raw(10, STRUCT, self.logical);
        put.end();
    }
}

impl<'a> RowGroup<'a> {
    fn read(scan: &mut ThriftScan<'a>) -> Option<Self> {
        let mut group = Self::default();
        scan.fields(|scan, id, kind| {
            match (id, kind) {
                COLUMNS => group.chunks = read_structs(scan, ChunkMetadata::read)?,
                (2, I64) => group.bytes = Some(scan.int()?),
                (3, I64) => group.rows = Some(scan.int()?),
                _ => return Some(false),
            }
            Some(true)
        })?;
        group.rows.is_some().then_some(group)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut put = StructWriter::new(out);
        let list = put.list(1, STRUCT, self.chunks.len());
        self.chunks.iter().for_each(|chunk| chunk.write(list));
        put.int(2, I64, Some(self.bytes.unwrap_or(0)));
        put.int(3, I64, self.rows);
        put.end();
    }
}

impl<'a> ChunkMetadata<'a> {
    fn read(scan: &mut ThriftScan<'a>) -> Option<Self> {
        let mut chunk = Self::default();
        scan.fields(|scan, id, kind| {
            match (id, kind) {
                (1, BINARY) => chunk.file = Some(scan.binary()?),
                (2, I64) => chunk.offset = Some(scan.int()?),
                (3, STRUCT) => chunk.read_metadata(scan)?,
                (4, I64) => chunk.indexes[0] = Some(scan.int()?),
                (5, I32) => chunk.indexes[1] = Some(scan.int()?),
                (6, I64) => chunk.indexes[2] = Some(scan.int()?),
                (7, I32) => chunk.indexes[3] = Some(scan.int()?),
                CRYPTO_METADATA | ENCRYPTED_METADATA => {
                    chunk.is_encrypted = true;
                    return Some(false);
                }
                _ => return Some(false),
            }
            Some(true)
        })?;
        // Refuses empty chunks: they are invalid, and each takes more memory than it has bytes in
        // the file.
        let has_pages = chunk.compressed_bytes.is_some() && chunk.start().is_some();
        (has_pages || chunk.is_encrypted).then_some(chunk)
    }

    fn read_metadata(&mut self, scan: &mut ThriftScan<'a>) -> Option<()> {
        self.has_metadata = true;
        scan.fields(|scan, id, kind| {
            match (id, kind) {
                (1, I32) => self.physical = Some(scan.int()?),
                (2, LIST) => self.encodings = read_encodings(scan)?,
                (4, I32) => self.codec = Some(scan.int()?),
                (5, I64) => self.values = Some(scan.int()?),
                (6, I64) => self.uncompressed_bytes = Some(scan.int()?),
                (7, I64) => self.compressed_bytes = Some(scan.int()?),
                (9, I64) => self.data_page = Some(scan.int()?),
                (11, I64) => self.dictionary = Some(scan.int()?),
                (12, STRUCT) => self.statistics = Some(scan.raw(STRUCT)?),
                (16, STRUCT) => self.size_statistics = Some(scan.raw(STRUCT)?),
                _ => return Some(false),
            }
            Some(true)
        })
    }

    /// The offset of its first page.
    pub(super) fn start(&self) -> Option<i64> {
        self.dictionary.or(self.data_page)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut put = StructWriter::new(out);
        put.binary(1, self.file);
        put.int(2, I64, Some(self.offset.unwrap_or(0)));
        if self.has_metadata {
            self.write_metadata(put.field(3, STRUCT));
        }
        for ((id, kind), number) in
            [(4, I64), (5, I32), (6, I64), (7, I32)].into_iter().zip(self.indexes)
        {
            put.int(id, kind, number);
        }
        put.end();
    }

    fn write_metadata(&self, out: &mut Vec<u8>) {
        let mut put = StructWriter::new(out);
        put.int(1, I32, self.physical);
        let list = put.list(2, I32, self.encodings.len());
        self.encodings.iter().for_each(|encoding| super::thrift::int(list, *encoding));
        put.int(4, I32, self.codec);
        put.int(5, I64, self.values);
        put.int(6, I64, self.uncompressed_bytes);
        put.int(7, I64, self.compressed_bytes);
        put.int(9, I64, self.data_page);
        put.int(11, I64, self.dictionary);
        put.raw(12, STRUCT, self.statistics);
        put.raw(16, STRUCT, self.size_statistics);
        put.end();
    }
}

/// Reads a list of encodings. Empty if the list holds other values.
fn read_encodings(scan: &mut ThriftScan<'_>) -> Option<Vec<i64>> {
    let before = *scan;
    let (count, I32) = scan.list()? else {
        *scan = before;
        scan.raw(LIST)?;
        return Some(Vec::new());
    };
    (0..count).map(|_| scan.int()).collect()
}

impl<'a> MetadataPair<'a> {
    fn read(scan: &mut ThriftScan<'a>) -> Option<Self> {
        let mut pair = Self::default();
        scan.fields(|scan, id, kind| {
            match (id, kind) {
                (1, BINARY) => pair.key = Some(scan.binary()?),
                (2, BINARY) => pair.value = Some(scan.binary()?),
                _ => return Some(false),
            }
            Some(true)
        })?;
        Some(pair)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut put = StructWriter::new(out);
        put.binary(1, self.key);
        put.binary(2, self.value);
        put.end();
    }
}

/// The indexes of the leaf columns that are encrypted in any row group. `None` if the bytes are not a footer.
pub(super) fn encrypted_leaves(bytes: &[u8]) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    ThriftScan(bytes).fields(|scan, id, kind| {
        if (id, kind) != ROW_GROUPS {
            return Some(false);
        }
        read_structs(scan, |scan| {
            scan.fields(|scan, id, kind| {
                if (id, kind) != COLUMNS {
                    return Some(false);
                }
                let mut leaf = 0;
                read_structs(scan, |scan| {
                    scan.fields(|_, id, kind| {
                        if matches!((id, kind), CRYPTO_METADATA | ENCRYPTED_METADATA) {
                            found.push(leaf);
                        }
                        Some(false)
                    })?;
                    leaf += 1;
                    Some(())
                })?;
                Some(true)
            })
        })?;
        Some(true)
    })?;
    found.sort_unstable();
    found.dedup();
    Some(found)
}
