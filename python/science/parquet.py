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

_MAGIC = b"PAR1"
# Physical types.
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = 0, 1, 2, 4, 5, 6, 7
_PLAIN, _RLE = 0, 3
_CODECS = {None: 0, "snappy": 0, "gzip": 2}


def write(frame, path=None, *, compression="snappy", index=None):
    """Writes a DataFrame. `path`: a path, or a file that is open for bytes. With None, returns the bytes.

    `compression`: "gzip" or None. "snappy", the default of pandas, is written uncompressed. `index`: whether
    the index becomes columns. By default, it does unless it is a range of numbers. Raises ValueError.
    """
    if compression not in _CODECS:
        raise ValueError(f"compression {compression!r} is not available in this sandbox; write gzip or None")
    if index or (index is None and not isinstance(frame.index, pandas.RangeIndex)):
        frame = frame.reset_index(names=_index_names(frame))
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"a Parquet file has one column of each name; these are there more than once: {', '.join(twice)}")
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
    body, elements, chunks, total = bytearray(_MAGIC), [_element("schema", children=len(frame.columns))], [], 0
    for number, name in enumerate(frame.columns):
        physical, more, valid, values = _column(frame.iloc[:, number])
        elements.append(_element(str(name), physical, more))
        page = _levels(valid, len(frame)) + values
        packed = gzip.compress(page) if compression == "gzip" else page
        sizes = (5, len(frame)), (5, _PLAIN), (5, _RLE), (5, _RLE)
        head = _struct((1, 5, 0), (2, 5, len(page)), (3, 5, len(packed)), (5, 12, _numbered(sizes)))
        at = len(body)
        body += head + packed
        total += len(head) + len(page)
        chunk = _struct(
            (1, 5, physical), (2, 9, _list(5, [_PLAIN, _RLE])), (3, 9, _list(8, [str(name)])),
            (4, 5, _CODECS[compression]), (5, 6, len(frame)), (6, 6, len(head) + len(page)),
            (7, 6, len(head) + len(packed)), (9, 6, at),
        )  # fmt: skip
        chunks.append(_struct((2, 6, at), (3, 12, chunk)))
    group = _struct((1, 9, _list(12, chunks)), (2, 6, total), (3, 6, len(frame)))
    footer = _struct(
        (1, 5, 2), (2, 9, _list(12, elements)), (3, 6, len(frame)), (4, 9, _list(12, [group] if chunks else [])),
        (6, 8, "sandmill"),
    )  # fmt: skip
    return bytes(body + footer + struct.pack("<I", len(footer)) + _MAGIC)


def _column(series):
    """The physical type of a column, further fields of its schema element, which values are valid, and the
    valid values."""
    kind, type_, valid, parts = frames.column(series)
    there = slice(None) if valid is None else valid
    if kind == 2:
        bits, is_signed = type_[0][1], type_[1][1]
        logical = {8: 15, 16: 16, 32: 17, 64: 18}[bits] if is_signed else {8: 11, 16: 12, 32: 13, 64: 14}[bits]
        wide = bits == 64
        form = ("i" if is_signed else "u") + ("8" if wide else "4")
        return _INT64 if wide else _INT32, [(6, 5, logical)], valid, parts[0].astype(form)[there].tobytes()
    if kind == 3:
        return (_FLOAT if parts[0].itemsize == 4 else _DOUBLE), [], valid, parts[0][there].tobytes()
    if kind == 6:
        bits = numpy.unpackbits(parts[0], count=len(series), bitorder="little")
        return _BOOLEAN, [], valid, numpy.packbits(bits[there], bitorder="little").tobytes()
    if kind == 8:
        return _INT32, [(6, 5, 6)], valid, parts[0][there].tobytes()
    if kind == 7:
        return _exact(type_, valid, there, parts[0])
    if kind == 9:
        return _INT64, [(6, 5, 8)], valid, parts[0][there].tobytes()
    if kind == 10:
        return _moments(type_, valid, there, parts)
    if kind == 18:
        return _INT64, [(6, 5, 18)], valid, parts[0][there].tobytes()
    is_text = kind in (5, 20)
    return _BYTE_ARRAY, [(6, 5, 0), (10, 12, _struct((1, 12, b"\0")))] if is_text else [], valid, _slices(parts, valid)


def _exact(type_, valid, there, data):
    """Decimals: Arrow's integers, with the most significant byte first."""
    precision, scale, bits = (type_[at][1] for at in range(3))
    values = data.reshape(-1, bits // 8)[there, ::-1].tobytes()
    # In the schema element the length comes before the name, and the other fields after it.
    return _FIXED, [(2, 5, bits // 8), (6, 5, 5), (7, 5, scale), (8, 5, precision)], valid, values


def _moments(type_, valid, there, parts):
    unit = type_[0][1]
    values = parts[0][there]
    if unit == 0:
        # Parquet has no seconds.
        values, unit = values * 1000, 1
    kind = _struct((1, 1 if 1 in type_ else 2, None), (2, 12, _struct((unit, 12, b"\0"))))
    return _INT64, [(10, 12, _struct((8, 12, kind)))], valid, values.tobytes()


def _slices(parts, valid):
    offsets, data = parts[0].tolist(), bytes(parts[1])
    there = range(len(offsets) - 1) if valid is None else numpy.flatnonzero(valid).tolist()
    values = (data[offsets[at] : offsets[at + 1]] for at in there)
    return b"".join(part for value in values for part in (struct.pack("<I", len(value)), value))


def _levels(valid, rows):
    """Which values are valid, as definition levels: a run of ones, or bits."""
    if valid is None or valid.all():
        runs = _varint(rows << 1) + b"\1" if rows else b""
    else:
        groups = -(-rows // 8)
        runs = _varint(groups << 1 | 1) + numpy.packbits(valid, bitorder="little").tobytes()
    return struct.pack("<I", len(runs)) + runs


def _element(name, physical=None, more=(), children=None):
    """A column of the schema. With `children`, the root of the schema."""
    if children is not None:
        return _struct((4, 8, name), (5, 5, children))
    return _struct(*sorted([(1, 5, physical), (3, 5, 1), (4, 8, name), *more], key=lambda field: field[0]))


# Thrift's compact protocol.


def _numbered(fields):
    return _struct(*((number, kind, value) for number, (kind, value) in enumerate(fields, 1)))


def _struct(*fields):
    """A structure of fields: number, type, value."""
    out, last = bytearray(), 0
    for number, kind, value in fields:
        out.append((number - last) << 4 | kind)
        out += _value(kind, value)
        last = number
    out.append(0)
    return bytes(out)


def _value(kind, value):
    if kind in (1, 2):
        return b""
    if kind in (5, 6):
        return _varint(value << 1 if value >= 0 else ~(value << 1))
    if kind == 8:
        data = value.encode()
        return _varint(len(data)) + data
    return value


def _list(kind, values):
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + _varint(len(values))
    return head + b"".join(_value(kind, value) for value in values)


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _to_parquet(self, path=None, *, engine="auto", compression="snappy", index=None, partition_cols=None, **kwargs):
    """See `write`."""
    others = [name for name, value in kwargs.items() if value is not None]
    if partition_cols is not None or others:
        raise ValueError(f"to_parquet takes no {', '.join(others or ['partition_cols'])} in this sandbox, which has no pyarrow")
    return write(self, path, compression=compression, index=index)


def _read_parquet(*_, **__):
    raise ImportError(
        "this sandbox has no pyarrow to read Parquet with; let the job read it, and hand over DataFrames: "
        "inputs: {NAME: {path: PATH, format: parquet}}"
    )


def install():
    """Replaces the functions of pandas that need pyarrow."""
    pandas.DataFrame.to_parquet = _to_parquet
    pandas.read_parquet = _read_parquet
