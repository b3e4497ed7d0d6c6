"""Converts Arrow IPC streams to columns of Python values, and back. Buffers are never compressed (see
wit/entry.wit)."""

import struct
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from itertools import pairwise

from ._flat import FlatTable, flatbuffer, pairs, table, tables, text

# Field numbers, and the numbers of types, headers and units, are those of Arrow's Schema.fbs and Message.fbs.

# The kinds of a message's header.
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3


class Type:
    """The numbers of Arrow's types."""

    NULL, INT, FLOAT, BINARY, TEXT, BOOL, DECIMAL, DATE, TIME, TIMESTAMP = range(1, 11)
    INTERVAL, LIST, STRUCT, UNION, FIXED_SIZE_BINARY, FIXED_SIZE_LIST, MAP, DURATION = range(11, 19)
    LARGE_BINARY, LARGE_TEXT, LARGE_LIST, RUN_END_ENCODED, BINARY_VIEW, TEXT_VIEW, LIST_VIEW, LARGE_LIST_VIEW = range(19, 27)


_DAYS, _MICROSECONDS, _DOUBLE, _METADATA_V5 = 0, 2, 2, 4
_CONTINUATION_MARKER = 0xFFFFFFFF
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
# `struct` codes by the number of bits.
_INTEGER_CODES = {8: "b", 16: "h", 32: "i", 64: "q"}
# `struct` codes by Arrow's precision.
_FLOAT_CODES = {0: "e", 1: "f", 2: "d"}
# By Arrow's time unit (seconds, milliseconds, microseconds, nanoseconds): numerator and denominator.
_MICROSECONDS_PER_TICK = {0: (1_000_000, 1), 1: (1_000, 1), 2: (1, 1), 3: (1, 1_000)}
_BITS_OF_BYTE = [[bool(byte >> bit & 1) for bit in range(8)] for byte in range(256)]
# For error messages.
_UNREADABLE_TYPES = {
    Type.INTERVAL: "an interval", Type.LIST: "a list", Type.STRUCT: "a structure", Type.UNION: "a union",
    Type.FIXED_SIZE_LIST: "a list", Type.MAP: "a map", Type.LARGE_LIST: "a list", Type.RUN_END_ENCODED: "run-end encoded",
    Type.LIST_VIEW: "a list", Type.LARGE_LIST_VIEW: "a list",
}  # fmt: skip


def read(stream):
    """Reads the columns of an Arrow IPC stream: a dict of names to lists of Python values. Nulls are None.

    Raises a TypeError that names the column if its type cannot be read.
    """
    schema, columns, dictionaries = [], {}, {}
    for kind, header, body in messages(memoryview(stream)):
        if kind == SCHEMA:
            schema = [Field(field) for field in header.tables(1)]
            columns = {field.name: [] for field in schema}
        elif kind == DICTIONARY_BATCH:
            dictionary_id, is_delta = header.number(0, "q"), header.number(2, "?", False)
            field = next(field for field in schema if field.dictionary_id == dictionary_id)
            (values,) = batch([field], header.table(1), body, None)
            earlier = dictionaries.get(dictionary_id, []) if is_delta else []
            dictionaries[dictionary_id] = earlier + values
        elif kind == RECORD_BATCH:
            for field, values in zip(schema, batch(schema, header, body, dictionaries)):
                columns[field.name] += values
    return columns


def messages(stream):
    """The messages of an Arrow IPC stream: the kind of the header, the header, and the body."""
    position = 0
    while position + 8 <= len(stream):
        _, metadata_bytes = struct.unpack_from("<Ii", stream, position)
        position += 8
        if metadata_bytes == 0:
            return
        message = FlatTable.root(stream[position : position + metadata_bytes])
        position += metadata_bytes
        body_bytes = message.number(3, "q")
        yield message.number(1, "B"), message.table(2), stream[position : position + body_bytes]
        position += body_bytes


class Field:
    """A column of a schema: its name, the number of its buffers, and the function that converts its buffers
    to values. `dictionary_id` is `None` if the column is not dictionary-encoded."""

    def __init__(self, field):
        self.name = field.text(0) or ""
        encoding = field.table(4)
        self.dictionary_id = encoding.number(0, "q") if encoding else None
        kind = field.number(2, "B")
        self.read = _reader(self.name, kind, field.table(3))
        self.buffer_count = _buffer_count(kind)
        if encoding:
            index = encoding.table(1)
            self.read_index = _integer_reader(index.number(0, "i"), index.number(1, "?")) if index else _integer_reader(32, True)


def batch(schema, header, body, dictionaries):
    """The values of each field of a record batch. `dictionaries`: lists of values by dictionary ID. `None` if
    the batch itself holds the values of a dictionary."""
    nodes, ranges = header.pairs(1), iter(header.pairs(2))
    columns = []
    for field, (count, nulls) in zip(schema, nodes):
        has_indices = field.dictionary_id is not None and dictionaries is not None
        buffers = []
        for _ in range(2 if has_indices else field.buffer_count):
            offset, length = next(ranges)
            buffers.append(body[offset : offset + length])
        if has_indices:
            dictionary = dictionaries.get(field.dictionary_id, [])
            validity = _bits(buffers[0], count) if nulls else None
            indices = field.read_index(buffers, count)
            if validity is None:
                values = [dictionary[index] for index in indices]
            else:
                values = [dictionary[index] if is_valid else None for index, is_valid in zip(indices, validity)]
        else:
            values = field.read(buffers, count)
            if nulls and field.buffer_count:
                validity = _bits(buffers[0], count)
                values = [value if is_valid else None for value, is_valid in zip(values, validity)]
        columns.append(values)
    return columns


def _buffer_count(kind):
    if kind == Type.NULL:
        return 0
    return 3 if kind in (Type.BINARY, Type.TEXT, Type.LARGE_BINARY, Type.LARGE_TEXT) else 2


def _reader(name, kind, type_):
    """Returns a function that converts the buffers of an Arrow type to values. The first buffer has the
    validity bits, which the function ignores."""
    match kind:
        case Type.NULL:
            return lambda buffers, count: [None] * count
        case Type.INT:
            return _integer_reader(type_.number(0, "i"), type_.number(1, "?", False))
        case Type.FLOAT:
            return _number_reader(_FLOAT_CODES[type_.number(0, "h")])
        case Type.BINARY | Type.LARGE_BINARY:
            return _slice_reader("i" if kind == Type.BINARY else "q", bytes)
        case Type.TEXT | Type.LARGE_TEXT:
            return _text_reader("i" if kind == Type.TEXT else "q")
        case Type.BOOL:
            return lambda buffers, count: _bits(buffers[1], count)
        case Type.DECIMAL:
            return _decimal_reader(type_.number(1, "i"), type_.number(2, "i", 128) // 8)
        case Type.DATE:
            return _date_reader(is_days=type_.number(0, "h", 1) == _DAYS)
        case Type.TIME:
            return _time_reader(type_.number(0, "h", 1), type_.number(1, "i", 32))
        case Type.TIMESTAMP:
            return _timestamp_reader(type_.number(0, "h"), type_.text(1))
        case Type.FIXED_SIZE_BINARY:
            return _fixed_size_reader(type_.number(0, "i"))
        case Type.DURATION:
            return _duration_reader(type_.number(0, "h", 1))
    description = _UNREADABLE_TYPES.get(kind, f"of Arrow's type {kind}")
    raise TypeError(
        f"column {name!r} is {description}, which this runtime does not read; leave it out with `columns:` of the input"
    )


def _number_reader(code):
    def read_numbers(buffers, count):
        return _cast(buffers[1], code, count).tolist()

    return read_numbers


def _cast(buffer, code, count):
    size = struct.calcsize(code)
    return buffer[: count * size].cast("B").cast(code) if count else memoryview(b"").cast(code)


def _integer_reader(bits, is_signed):
    code = _INTEGER_CODES[bits]
    return _number_reader(code if is_signed else code.upper())


def _slice_reader(offset_code, convert):
    def read_slices(buffers, count):
        offsets = _cast(buffers[1], offset_code, count + 1) if count else []
        data = bytes(buffers[2])
        return [convert(data[start:end]) for start, end in pairwise(offsets)]

    return read_slices


def _text_reader(offset_code):
    read_slices = _slice_reader(offset_code, bytes.decode)

    def read_texts(buffers, count):
        data = bytes(buffers[2])
        if not data.isascii():
            return read_slices(buffers, count)
        # In ASCII, offsets of bytes are offsets of characters, so one call decodes all texts.
        text = data.decode("ascii")
        offsets = _cast(buffers[1], offset_code, count + 1) if count else []
        return [text[start:end] for start, end in pairwise(offsets)]

    return read_texts


def _fixed_size_reader(width):
    def read_fixed(buffers, count):
        data = bytes(buffers[1])
        return [data[index * width : (index + 1) * width] for index in range(count)]

    return read_fixed


def _decimal_reader(scale, width):
    # 256 bits need 77 digits.
    context = Context(prec=80)

    def read_decimals(buffers, count):
        data = buffers[1]
        encoded = (data[start : start + width] for start in range(0, count * width, width))
        numbers = (int.from_bytes(number, "little", signed=True) for number in encoded)
        return [Decimal(number).scaleb(-scale, context) for number in numbers]

    return read_decimals


def _date_reader(is_days):
    def read_dates(buffers, count):
        if is_days:
            days = _cast(buffers[1], "i", count)
        else:
            days = (value // 86_400_000 for value in _cast(buffers[1], "q", count))
        return [_or_none(lambda: date.fromordinal(_EPOCH_DAY + day)) for day in days]

    return read_dates


def _time_reader(unit, bits):
    def read_times(buffers, count):
        values = _cast(buffers[1], _INTEGER_CODES[bits], count)
        return [_or_none(lambda: (datetime.min + _timedelta(value, unit)).time()) for value in values]

    return read_times


def _duration_reader(unit):
    def read_durations(buffers, count):
        return [_or_none(lambda: _timedelta(value, unit)) for value in _cast(buffers[1], "q", count)]

    return read_durations


def _timestamp_reader(unit, zone):
    epoch = _EPOCH if zone else _EPOCH.replace(tzinfo=None)

    def read_timestamps(buffers, count):
        return [_or_none(lambda: epoch + _timedelta(value, unit)) for value in _cast(buffers[1], "q", count)]

    return read_timestamps


def _timedelta(ticks, unit):
    factor, divisor = _MICROSECONDS_PER_TICK[unit]
    return timedelta(microseconds=ticks * factor // divisor)


def _or_none(convert):
    """The value that `convert` returns. `None` if its year is outside the range of `datetime`."""
    try:
        return convert()
    except (OverflowError, ValueError):
        return None


def _bits(buffer, count):
    values = []
    for byte in buffer[: (count + 7) // 8]:
        values += _BITS_OF_BYTE[byte]
    del values[count:]
    return values


def write(columns):
    """Writes columns (names to sequences of one length) as an Arrow IPC stream with one record batch.

    The type follows from the column's values: bool, int (64 bits), float (also mixed with int), str, bytes,
    date, datetime (microseconds, in UTC if it has a time zone), time, timedelta (microseconds), Decimal. None
    is a null. Raises a TypeError or ValueError that names the column for other values.
    """
    if not columns:
        raise ValueError("the table has no columns; a result has at least one")
    counts = {name: len(values) for name, values in columns.items()}
    rows = next(iter(counts.values()))
    for name, count in counts.items():
        if count != rows:
            raise ValueError(f"column {name!r} has {count} values, and the first column has {rows}")
    body, nodes, ranges, fields = bytearray(), [], [], []
    for name, values in columns.items():
        kind, type_, buffers = column(name, values)
        fields.append(field(name, kind, type_))
        nulls = sum(value is None for value in values)
        nodes.append((rows, nulls))
        for buffer in (_validity_buffer(values) if nulls else b"", *buffers):
            ranges.append((len(body), len(buffer)))
            body += buffer
            body += bytes(-len(body) % 8)
    return stream(rows, fields, nodes, ranges, bytes(body))


def stream(rows, fields, nodes, ranges, body):
    """An Arrow IPC stream with one record batch. `fields`: see `field`. `nodes`: the number of rows and of
    nulls of each field. `ranges`: the offset and length of each buffer in `body`."""
    records = table({0: ("q", rows), 1: (None, pairs(nodes)), 2: (None, pairs(ranges))})
    schema = table({0: ("h", 0), 1: (None, tables(fields))})
    end_of_stream = struct.pack("<Ii", _CONTINUATION_MARKER, 0)
    return _message(SCHEMA, schema, b"") + _message(RECORD_BATCH, records, body) + end_of_stream


def _message(kind, header, body):
    fields = {0: ("h", _METADATA_V5), 1: ("B", kind), 2: (None, header), 3: ("q", len(body))}
    metadata = flatbuffer(table(fields))
    metadata += bytes(-len(metadata) % 8)
    return struct.pack("<Ii", _CONTINUATION_MARKER, len(metadata)) + metadata + body


def field(name, kind, type_):
    """A column of a schema. `kind`: the number of its Arrow type. `type_`: the fields of the type's table."""
    return table({
        0: (None, text(name)), 1: ("?", True), 2: ("B", kind), 3: (None, table(type_)), 5: (None, tables([])),
    })  # fmt: skip


def column(name, values):
    """Converts a column. Returns the number of its Arrow type, the fields of the type's table, and all
    buffers except the validity bits."""
    kinds = {type(value) for value in values} - {type(None)}
    try:
        if kinds <= {bool}:
            if not kinds:
                # A column of only nulls is text, which every format supports.
                return Type.TEXT, {}, _offsets_and_data(values)
            return Type.BOOL, {}, [_packed_bits(map(bool, values))]
        if kinds <= {int, bool}:
            return Type.INT, {0: ("i", 64), 1: ("?", True)}, [_number_buffer("q", values, 0)]
        if kinds <= {float, int, bool}:
            return Type.FLOAT, {0: ("h", _DOUBLE)}, [_number_buffer("d", values, 0.0)]
        if kinds <= {str}:
            return Type.TEXT, {}, _offsets_and_data(values)
        if kinds <= {bytes, bytearray}:
            return Type.BINARY, {}, _offsets_and_data(values)
        if kinds <= {date}:
            days = [None if day is None else day.toordinal() - _EPOCH_DAY for day in values]
            return Type.DATE, {0: ("h", _DAYS)}, [_number_buffer("i", days, 0)]
        if kinds <= {datetime}:
            return _datetime_column(values)
        if kinds <= {time} and all(value is None or value.tzinfo is None for value in values):
            timedeltas = (None if value is None else datetime.combine(date.min, value) - datetime.min for value in values)
            return Type.TIME, {0: ("h", _MICROSECONDS), 1: ("i", 64)}, [_microsecond_buffer(timedeltas)]
        if kinds <= {timedelta}:
            return Type.DURATION, {0: ("h", _MICROSECONDS)}, [_microsecond_buffer(values)]
        if kinds <= {Decimal}:
            return _decimal_column(values)
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


def _number_buffer(code, values, zero):
    return struct.pack(f"<{len(values)}{code}", *(zero if value is None else value for value in values))


def _datetime_column(values):
    has_zone = {value.tzinfo is not None for value in values if value is not None}
    if len(has_zone) > 1:
        raise _ZoneError("some have a time zone and others have not")
    epoch = _EPOCH if True in has_zone else _EPOCH.replace(tzinfo=None)
    type_ = {0: ("h", _MICROSECONDS)}
    if True in has_zone:
        type_[1] = (None, text("+00:00"))
    return Type.TIMESTAMP, type_, [_microsecond_buffer(None if value is None else value - epoch for value in values)]


def _microsecond_buffer(timedeltas):
    """The buffer of a column of timedeltas, in microseconds."""
    microsecond = timedelta(microseconds=1)
    return _number_buffer("q", [None if value is None else value // microsecond for value in timedeltas], 0)


def _decimal_column(values):
    """A column of Decimals. Its precision and scale are the smallest that hold all values."""
    tuples = [value.as_tuple() for value in values if value is not None]
    if not all(isinstance(exponent, int) for _, _, exponent in tuples):
        raise OverflowError("NaN and infinity cannot be Arrow decimals")
    scale = max((-exponent for _, _, exponent in tuples if exponent < 0), default=0)
    precision = max([scale, 1, *(len(digits) + exponent + scale for _, digits, exponent in tuples)])
    if precision > 76:
        raise OverflowError(f"it needs {precision} digits, and at most 76 are allowed")
    width = 16 if precision <= 38 else 32
    context = Context(prec=80)
    numbers = (0 if value is None else int(value.scaleb(scale, context)) for value in values)
    data = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    return Type.DECIMAL, {0: ("i", precision), 1: ("i", scale), 2: ("i", width * 8)}, [data]


def _offsets_and_data(values):
    """The buffers of a column of texts or bytes: 32-bit offsets, and the data."""
    data = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
    offsets, total = [0], 0
    for value in data:
        total += len(value)
        offsets.append(total)
    return [struct.pack(f"<{len(offsets)}i", *offsets), b"".join(data)]


def _validity_buffer(values):
    return _packed_bits(value is not None for value in values)


def _packed_bits(bits):
    bits = list(bits)
    packed = bytearray((len(bits) + 7) // 8)
    for index, bit in enumerate(bits):
        if bit:
            packed[index >> 3] |= 1 << (index & 7)
    return bytes(packed)
