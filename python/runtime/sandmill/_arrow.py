"""Converts Arrow IPC streams to columns of Python values, and back. Buffers are never compressed (see the
contract)."""

import struct
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from itertools import pairwise

from ._flat import FlatTable, flatbuffer, pairs, table, tables, text

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}
_FLOATS = {0: "e", 1: "f", 2: "d"}
# The microseconds of one tick of a unit (seconds, milliseconds, microseconds, nanoseconds), as a fraction.
_MICROSECONDS = {0: (1_000_000, 1), 1: (1_000, 1), 2: (1, 1), 3: (1, 1_000)}
_BITS = [[bool(byte >> bit & 1) for bit in range(8)] for byte in range(256)]
_NAMES = {
    11: "an interval", 12: "a list", 13: "a structure", 14: "a union", 16: "a list", 17: "a map",
    21: "a list", 22: "run-end encoded", 25: "a list", 26: "a list",
}  # fmt: skip


def read(stream):
    """The columns of an Arrow IPC stream: names to lists of Python values, None for nulls.

    Raises a TypeError that names the column if its type cannot be read.
    """
    schema, columns, dictionaries = [], {}, {}
    for kind, header, body in messages(memoryview(stream)):
        if kind == 1:
            schema = [Field(field) for field in header.tables(1)]
            columns = {field.name: [] for field in schema}
        elif kind == 2:
            number = header.number(0, "q")
            field = next(field for field in schema if field.dictionary == number)
            (values,) = batch([field], header.table(1), body, None)
            known = dictionaries.get(number, []) if header.number(2, "?", False) else []
            dictionaries[number] = known + values
        elif kind == 3:
            for field, values in zip(schema, batch(schema, header, body, dictionaries)):
                columns[field.name] += values
    return columns


def messages(stream):
    at = 0
    while at + 8 <= len(stream):
        _, count = struct.unpack_from("<Ii", stream, at)
        at += 8
        if count == 0:
            return
        message = FlatTable.root(stream[at : at + count])
        at += count
        body = message.number(3, "q")
        yield message.number(1, "B"), message.table(2), stream[at : at + body]
        at += body


class Field:
    """A column of a schema: its name, the number of its buffers, and the function that makes values from
    them."""

    def __init__(self, field):
        self.name = field.text(0) or ""
        encoding = field.table(4)
        self.dictionary = encoding.number(0, "q") if encoding else None
        kind = field.number(2, "B")
        self.read = _reader(self.name, kind, field.table(3))
        self.buffers = _buffer_count(kind)
        if encoding:
            index = encoding.table(1)
            self.read_index = _integers(index.number(0, "i"), index.number(1, "?")) if index else _integers(32, True)


def batch(schema, header, body, dictionaries):
    """The values of each field of a record batch. Without `dictionaries`, the batch is that of a
    dictionary."""
    nodes, buffers = header.pairs(1), iter(header.pairs(2))
    columns = []
    for field, (count, nulls) in zip(schema, nodes):
        is_index = field.dictionary is not None and dictionaries is not None
        parts = []
        for _ in range(2 if is_index else field.buffers):
            offset, length = next(buffers)
            parts.append(body[offset : offset + length])
        if is_index:
            known = dictionaries.get(field.dictionary, [])
            validity = _bits(parts[0], count) if nulls else None
            indices = field.read_index(parts, count)
            if validity is None:
                values = [known[index] for index in indices]
            else:
                values = [known[index] if valid else None for index, valid in zip(indices, validity)]
        else:
            values = field.read(parts, count)
            if nulls and field.buffers:
                values = [value if valid else None for value, valid in zip(values, _bits(parts[0], count))]
        columns.append(values)
    return columns


def _buffer_count(kind):
    return {1: 0, 4: 3, 5: 3, 19: 3, 20: 3}.get(kind, 2)


def _reader(name, kind, type_):
    """The function that makes values of an Arrow type from its buffers, the first of which has the nulls."""
    match kind:
        case 1:
            return lambda parts, count: [None] * count
        case 2:
            return _integers(type_.number(0, "i"), type_.number(1, "?", False))
        case 3:
            return _plain(_FLOATS[type_.number(0, "h")])
        case 4 | 19:
            return _slices("i" if kind == 4 else "q", bytes)
        case 5 | 20:
            return _texts("i" if kind == 5 else "q")
        case 6:
            return lambda parts, count: _bits(parts[1], count)
        case 7:
            return _decimals(type_.number(1, "i"), type_.number(2, "i", 128) // 8)
        case 8:
            return _dates(is_days=type_.number(0, "h", 1) == 0)
        case 9:
            return _times(type_.number(0, "h", 1), type_.number(1, "i", 32))
        case 10:
            return _timestamps(type_.number(0, "h"), type_.text(1))
        case 15:
            return _fixed(type_.number(0, "i"))
        case 18:
            return _durations(type_.number(0, "h", 1))
    what = _NAMES.get(kind, f"of Arrow's type {kind}")
    raise TypeError(
        f"column {name!r} is {what}, which this runtime does not read; leave it out with `columns:` of the input"
    )


def _plain(code):
    def read_plain(parts, count):
        return _cast(parts[1], code, count).tolist()

    return read_plain


def _cast(part, code, count):
    size = struct.calcsize(code)
    return part[: count * size].cast("B").cast(code) if count else memoryview(b"").cast(code)


def _integers(bits, is_signed):
    code = _INTEGERS[bits]
    return _plain(code if is_signed else code.upper())


def _slices(offset, make):
    def read_slices(parts, count):
        offsets = _cast(parts[1], offset, count + 1) if count else []
        data = bytes(parts[2])
        return [make(data[start:end]) for start, end in pairwise(offsets)]

    return read_slices


def _texts(offset):
    slices = _slices(offset, bytes.decode)

    def read_texts(parts, count):
        data = bytes(parts[2])
        if not data.isascii():
            return slices(parts, count)
        # In ASCII, offsets of bytes are offsets of characters, so all texts are decoded at once.
        whole = data.decode("ascii")
        offsets = _cast(parts[1], offset, count + 1) if count else []
        return [whole[start:end] for start, end in pairwise(offsets)]

    return read_texts


def _fixed(width):
    def read_fixed(parts, count):
        data = bytes(parts[1])
        return [data[index * width : (index + 1) * width] for index in range(count)]

    return read_fixed


def _decimals(scale, width):
    # 256 bits need 77 digits.
    context = Context(prec=80)

    def read_decimals(parts, count):
        data = parts[1]
        numbers = (int.from_bytes(data[at : at + width], "little", signed=True) for at in range(0, count * width, width))
        return [Decimal(number).scaleb(-scale, context) for number in numbers]

    return read_decimals


def _dates(is_days):
    def read_dates(parts, count):
        if is_days:
            days = _cast(parts[1], "i", count)
        else:
            days = (value // 86_400_000 for value in _cast(parts[1], "q", count))
        return [_within(lambda: date.fromordinal(_EPOCH_DAY + day)) for day in days]

    return read_dates


def _times(unit, bits):
    def read_times(parts, count):
        values = _cast(parts[1], _INTEGERS[bits], count)
        return [_within(lambda: (datetime.min + _span(value, unit)).time()) for value in values]

    return read_times


def _durations(unit):
    def read_durations(parts, count):
        return [_within(lambda: _span(value, unit)) for value in _cast(parts[1], "q", count)]

    return read_durations


def _timestamps(unit, zone):
    epoch = _EPOCH if zone else _EPOCH.replace(tzinfo=None)

    def read_timestamps(parts, count):
        return [_within(lambda: epoch + _span(value, unit)) for value in _cast(parts[1], "q", count)]

    return read_timestamps


def _span(ticks, unit):
    factor, divisor = _MICROSECONDS[unit]
    return timedelta(microseconds=ticks * factor // divisor)


def _within(make):
    """A value of `datetime`, or None if `datetime` does not have its year."""
    try:
        return make()
    except (OverflowError, ValueError):
        return None


def _bits(part, count):
    values = []
    for byte in part[: (count + 7) // 8]:
        values += _BITS[byte]
    del values[count:]
    return values


def write(columns):
    """Writes columns (names to sequences of one length) as an Arrow IPC stream with one record batch.

    The type follows from the column's values: bool, int (64 bits), float (also mixed with int), str, bytes,
    date, datetime (microseconds, in UTC if it has a time zone), time, timedelta (microseconds), Decimal. None
    is a null. Raises a TypeError or ValueError that names the column for other values.
    """
    if not columns:
        raise ValueError("the table has no columns; a result has one at least")
    counts = {name: len(values) for name, values in columns.items()}
    rows = next(iter(counts.values()))
    for name, count in counts.items():
        if count != rows:
            raise ValueError(f"column {name!r} has {count} values, and the first column has {rows}")
    body, nodes, buffers, fields = bytearray(), [], [], []
    for name, values in columns.items():
        kind, type_, parts = column(name, values)
        fields.append(field(name, kind, type_))
        nulls = sum(value is None for value in values)
        nodes.append((rows, nulls))
        for part in (_validity(values) if nulls else b"", *parts):
            buffers.append((len(body), len(part)))
            body += part
            body += bytes(-len(body) % 8)
    return stream(rows, fields, nodes, buffers, bytes(body))


def stream(rows, fields, nodes, buffers, body):
    """An Arrow IPC stream with one record batch. `fields`: see `field`. `nodes`: the number of rows and of
    nulls of each field. `buffers`: the offset and length of each buffer in `body`."""
    records = table({0: ("q", rows), 1: (None, pairs(nodes)), 2: (None, pairs(buffers))})
    schema = table({0: ("h", 0), 1: (None, tables(fields))})
    return _message(1, schema, b"") + _message(3, records, body) + b"\xff\xff\xff\xff\0\0\0\0"


def _message(kind, header, body):
    # Arrow calls version 4 V5.
    fields = {0: ("h", 4), 1: ("B", kind), 2: (None, header), 3: ("q", len(body))}
    metadata = flatbuffer(table(fields))
    metadata += bytes(-len(metadata) % 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(metadata)) + metadata + body


def field(name, kind, type_):
    """A column of a schema. `kind`: the number of its Arrow type. `type_`: the fields of that type."""
    return table({
        0: (None, text(name)), 1: ("?", True), 2: ("B", kind), 3: (None, table(type_)), 5: (None, tables([])),
    })  # fmt: skip


def column(name, values):
    """The number of a column's Arrow type, the fields of the type, and the buffers after that of the
    nulls."""
    kinds = {type(value) for value in values} - {type(None)}
    try:
        if kinds <= {bool}:
            # A column of only nulls is text, which every format supports.
            return (6, {}, [_packed(map(bool, values))]) if kinds else (5, {}, _joined(values))
        if kinds <= {int, bool}:
            return 2, {0: ("i", 64), 1: ("?", True)}, [_numbers("q", values, 0)]
        if kinds <= {float, int, bool}:
            return 3, {0: ("h", 2)}, [_numbers("d", values, 0.0)]
        if kinds <= {str}:
            return 5, {}, _joined(values)
        if kinds <= {bytes, bytearray}:
            return 4, {}, _joined(values)
        if kinds <= {date}:
            days = [None if day is None else day.toordinal() - _EPOCH_DAY for day in values]
            return 8, {0: ("h", 0)}, [_numbers("i", days, 0)]
        if kinds <= {datetime}:
            return _moments(values)
        if kinds <= {time} and all(value is None or value.tzinfo is None for value in values):
            spans = (None if value is None else datetime.combine(date.min, value) - datetime.min for value in values)
            return 9, {0: ("h", 2), 1: ("i", 64)}, [_ticks(spans)]
        if kinds <= {timedelta}:
            return 18, {0: ("h", 2)}, [_ticks(values)]
        if kinds <= {Decimal}:
            return _exact(values)
    except _ZoneError as error:
        raise ValueError(f"column {name!r} has datetimes of two kinds: {error}") from None
    except (OverflowError, struct.error) as error:
        raise ValueError(f"column {name!r} has a value that is too large: {error}") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"column {name!r} has a text that is not valid Unicode: {error}") from None
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(
        f"column {name!r} has values of type {found}; one of bool, int, float, str, bytes, date, datetime, time, "
        "timedelta and Decimal can be written, int and float together as float"
    )


class _ZoneError(ValueError):
    """A column has datetimes with a time zone, and others without one."""


def _numbers(code, values, zero):
    return struct.pack(f"<{len(values)}{code}", *(zero if value is None else value for value in values))


def _moments(values):
    zones = {value.tzinfo is not None for value in values if value is not None}
    if len(zones) > 1:
        raise _ZoneError("some have a time zone and others have not")
    epoch = _EPOCH if True in zones else _EPOCH.replace(tzinfo=None)
    type_ = {0: ("h", 2)}
    if True in zones:
        type_[1] = (None, text("+00:00"))
    return 10, type_, [_ticks(None if value is None else value - epoch for value in values)]


def _ticks(spans):
    """The buffer of spans of time, in microseconds."""
    microsecond = timedelta(microseconds=1)
    return _numbers("q", [None if span is None else span // microsecond for span in spans], 0)


def _exact(values):
    """A column of Decimals, with as many digits as the values need."""
    parts = [value.as_tuple() for value in values if value is not None]
    if not all(isinstance(exponent, int) for _, _, exponent in parts):
        raise OverflowError("NaN and infinity cannot be decimals of Arrow")
    scale = max((-exponent for _, _, exponent in parts if exponent < 0), default=0)
    precision = max([scale, 1, *(len(digits) + exponent + scale for _, digits, exponent in parts)])
    if precision > 76:
        raise OverflowError(f"it needs {precision} digits, and 76 are the most")
    width = 16 if precision <= 38 else 32
    context = Context(prec=80)
    numbers = (0 if value is None else int(value.scaleb(scale, context)) for value in values)
    data = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    return 7, {0: ("i", precision), 1: ("i", scale), 2: ("i", width * 8)}, [data]


def _joined(values):
    """Offsets and data of texts or bytes."""
    data = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
    offsets, total = [0], 0
    for value in data:
        total += len(value)
        offsets.append(total)
    return [struct.pack(f"<{len(offsets)}i", *offsets), b"".join(data)]


def _validity(values):
    return _packed(value is not None for value in values)


def _packed(bits):
    bits = list(bits)
    packed = bytearray((len(bits) + 7) // 8)
    for index, bit in enumerate(bits):
        if bit:
            packed[index >> 3] |= 1 << (index & 7)
    return bytes(packed)
