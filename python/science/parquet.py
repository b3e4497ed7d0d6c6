"""Writes DataFrames to Parquet files without pyarrow, which has no build for this interpreter.

A file has one row group, and one page for each column. Values are PLAIN, and uncompressed or compressed by
gzip. See the format's `parquet.thrift`.
"""

import gzip
import os
import struct

import frames
import numpy
import pandas
from sandmill._arrow import Type

_MAGIC = b"PAR1"
_VERSION = 2
# Physical types.
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED_LENGTH = 0, 1, 2, 4, 5, 6, 7
# Encodings.
_PLAIN, _RLE = 0, 3
# Converted types.
_UTF8, _DECIMAL, _DATE, _TIME_MICROS = 0, 5, 6, 8
_UNSIGNED = {8: 11, 16: 12, 32: 13, 64: 14}
_SIGNED = {8: 15, 16: 16, 32: 17, 64: 18}
# Types of Thrift's compact protocol.
_TRUE, _FALSE, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 5, 6, 8, 9, 12
_EMPTY_STRUCT = b"\0"
_DATA_PAGE = 0
_OPTIONAL = 1
_CODECS = {None: 0, "snappy": 0, "gzip": 2}


def write(frame, path=None, *, compression="snappy", index=None):
    """Writes a DataFrame. `path`: a path, or a file that is open in binary mode. With None, returns the
    bytes.

    `compression`: "gzip" or None. "snappy", the default of pandas, is written uncompressed. `index`: whether
    the index becomes columns. By default, only an index other than a range of numbers does. Raises ValueError.
    """
    if compression not in _CODECS:
        raise ValueError(f"compression {compression!r} is not available in this sandbox; write gzip or None")
    if index or (index is None and not isinstance(frame.index, pandas.RangeIndex)):
        frame = frame.reset_index(names=_index_names(frame))
    names = [str(name) for name in frame.columns]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"column names in a Parquet file must be unique, and these occur more than once: {', '.join(duplicates)}")
    data = _file(frame, compression)
    if path is None:
        return data
    if hasattr(path, "write"):
        path.write(data)
    else:
        with open(os.fspath(path), "wb") as file:
            file.write(data)


def _index_names(frame):
    return [f"__index_level_{level}__" if name is None else name for level, name in enumerate(frame.index.names)]


def _file(frame, compression):
    body, elements, chunks, total_bytes = bytearray(_MAGIC), [_schema_element("schema", children=len(frame.columns))], [], 0
    for number, name in enumerate(frame.columns):
        physical_type, more_fields, valid, values = _column(frame.iloc[:, number])
        elements.append(_schema_element(str(name), physical_type, more_fields))
        page = _definition_levels(valid, len(frame)) + values
        compressed = gzip.compress(page) if compression == "gzip" else page
        data_page_header = _struct((1, _I32, len(frame)), (2, _I32, _PLAIN), (3, _I32, _RLE), (4, _I32, _RLE))
        page_header = _struct(
            (1, _I32, _DATA_PAGE), (2, _I32, len(page)), (3, _I32, len(compressed)), (5, _STRUCT, data_page_header),
        )  # fmt: skip
        offset = len(body)
        body += page_header + compressed
        total_bytes += len(page_header) + len(page)
        chunk = _struct(
            (1, _I32, physical_type), (2, _LIST, _list(_I32, [_PLAIN, _RLE])), (3, _LIST, _list(_BINARY, [str(name)])),
            (4, _I32, _CODECS[compression]), (5, _I64, len(frame)), (6, _I64, len(page_header) + len(page)),
            (7, _I64, len(page_header) + len(compressed)), (9, _I64, offset),
        )  # fmt: skip
        chunks.append(_struct((2, _I64, offset), (3, _STRUCT, chunk)))
    row_group = _struct((1, _LIST, _list(_STRUCT, chunks)), (2, _I64, total_bytes), (3, _I64, len(frame)))
    footer = _struct(
        (1, _I32, _VERSION), (2, _LIST, _list(_STRUCT, elements)), (3, _I64, len(frame)),
        (4, _LIST, _list(_STRUCT, [row_group] if chunks else [])), (6, _BINARY, "sandmill"),
    )  # fmt: skip
    return bytes(body + footer + struct.pack("<I", len(footer)) + _MAGIC)


def _column(series):
    """The physical type of a column, further fields of its schema element, which values are valid, and the
    valid values."""
    kind, type_, valid, buffers = frames.column(series)
    # Selects the valid values of an array.
    selected = slice(None) if valid is None else valid
    if kind == Type.INT:
        bits, is_signed = type_[0][1], type_[1][1]
        converted_type = _SIGNED[bits] if is_signed else _UNSIGNED[bits]
        is_wide = bits == 64
        dtype = ("i" if is_signed else "u") + ("8" if is_wide else "4")
        values = buffers[0].astype(dtype)[selected].tobytes()
        return _INT64 if is_wide else _INT32, [(6, _I32, converted_type)], valid, values
    if kind == Type.FLOAT:
        return (_FLOAT if buffers[0].itemsize == 4 else _DOUBLE), [], valid, buffers[0][selected].tobytes()
    if kind == Type.BOOL:
        bits = numpy.unpackbits(buffers[0], count=len(series), bitorder="little")
        return _BOOLEAN, [], valid, numpy.packbits(bits[selected], bitorder="little").tobytes()
    if kind == Type.DATE:
        return _INT32, [(6, _I32, _DATE)], valid, buffers[0][selected].tobytes()
    if kind == Type.DECIMAL:
        return _decimal_column(type_, valid, selected, buffers[0])
    if kind == Type.TIME:
        return _INT64, [(6, _I32, _TIME_MICROS)], valid, buffers[0][selected].tobytes()
    if kind == Type.TIMESTAMP:
        return _timestamp_column(type_, valid, selected, buffers)
    if kind == Type.DURATION:
        return _INT64, [(6, _I32, _SIGNED[64])], valid, buffers[0][selected].tobytes()
    is_text = kind in (Type.TEXT, Type.LARGE_TEXT)
    # The logical type is field 10, a union. Its field 1 is STRING.
    fields = [(6, _I32, _UTF8), (10, _STRUCT, _struct((1, _STRUCT, _EMPTY_STRUCT)))] if is_text else []
    return _BYTE_ARRAY, fields, valid, _byte_arrays(buffers, valid)


def _decimal_column(type_, valid, selected, data):
    """Decimals are integers as in Arrow, but the most significant byte comes first."""
    precision, scale, bits = (type_[number][1] for number in range(3))
    values = data.reshape(-1, bits // 8)[selected, ::-1].tobytes()
    fields = [(2, _I32, bits // 8), (6, _I32, _DECIMAL), (7, _I32, scale), (8, _I32, precision)]
    return _FIXED_LENGTH, fields, valid, values


def _timestamp_column(type_, valid, selected, buffers):
    unit = type_[0][1]
    values = buffers[0][selected]
    if unit == 0:
        # Parquet has no seconds, so write milliseconds.
        values, unit = values * 1000, 1
    # Arrow's numbers of the other units are also the fields of Parquet's union of units.
    has_zone = 1 in type_
    timestamp = _struct((1, _TRUE if has_zone else _FALSE, None), (2, _STRUCT, _struct((unit, _STRUCT, _EMPTY_STRUCT))))
    # The logical type is field 10, a union. Its field 8 is TIMESTAMP.
    return _INT64, [(10, _STRUCT, _struct((8, _STRUCT, timestamp)))], valid, values.tobytes()


def _byte_arrays(buffers, valid):
    offsets, data = buffers[0].tolist(), bytes(buffers[1])
    indices = range(len(offsets) - 1) if valid is None else numpy.flatnonzero(valid).tolist()
    values = (data[offsets[index] : offsets[index + 1]] for index in indices)
    return b"".join(part for value in values for part in (struct.pack("<I", len(value)), value))


def _definition_levels(valid, rows):
    """The definition levels, which say what values are valid: one run of ones, or a bit for each value."""
    if valid is None or valid.all():
        runs = _varint(rows << 1) + b"\1" if rows else b""
    else:
        groups = -(-rows // 8)
        runs = _varint(groups << 1 | 1) + numpy.packbits(valid, bitorder="little").tobytes()
    return struct.pack("<I", len(runs)) + runs


def _schema_element(name, physical_type=None, more_fields=(), children=None):
    """A column of the schema. With `children`, the root of the schema."""
    if children is not None:
        return _struct((4, _BINARY, name), (5, _I32, children))
    fields = [(1, _I32, physical_type), (3, _I32, _OPTIONAL), (4, _BINARY, name), *more_fields]
    return _struct(*sorted(fields, key=lambda field: field[0]))


# Thrift's compact protocol.


def _struct(*fields):
    """A struct. Each field is a tuple of its number, type and value, and the fields are in the order of their
    numbers."""
    out, previous = bytearray(), 0
    for number, kind, value in fields:
        out.append((number - previous) << 4 | kind)
        out += _value(kind, value)
        previous = number
    out.append(0)
    return bytes(out)


def _value(kind, value):
    if kind in (_TRUE, _FALSE):
        # The type is the value.
        return b""
    if kind in (_I32, _I64):
        return _varint(value << 1 if value >= 0 else ~(value << 1))
    if kind == _BINARY:
        data = value.encode()
        return _varint(len(data)) + data
    return value


def _list(kind, values):
    header = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + _varint(len(values))
    return header + b"".join(_value(kind, value) for value in values)


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _to_parquet(self, path=None, *, engine="auto", compression="snappy", index=None, partition_cols=None, **kwargs):
    """See `write`."""
    unsupported = [name for name, value in kwargs.items() if value is not None]
    if partition_cols is not None or unsupported:
        raise ValueError(f"to_parquet does not support {', '.join(unsupported or ['partition_cols'])} in this sandbox, which has no pyarrow")
    return write(self, path, compression=compression, index=index)


def _read_parquet(*_, **__):
    raise ImportError(
        "this sandbox has no pyarrow to read Parquet with; let the job read the files and pass DataFrames to run: "
        "inputs: {NAME: {path: PATH, format: parquet}}"
    )


def install():
    """Replaces the functions of pandas that need pyarrow."""
    pandas.DataFrame.to_parquet = _to_parquet
    pandas.read_parquet = _read_parquet
