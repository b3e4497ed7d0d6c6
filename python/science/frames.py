"""Converts Arrow IPC streams to pandas DataFrames, and back: copies buffers of numbers, and converts
other types value by value."""

import numpy
import pandas
from sandmill import _arrow
from sandmill._arrow import Type
from sandmill._flat import text

# In the order of Arrow's time units.
_UNITS = ["s", "ms", "us", "ns"]
# In the order of Arrow's precisions.
_FLOAT_DTYPES = ["f2", "f4", "f8"]
# The numpy dtype of the first buffer that `_arrow.column` returns.
_DTYPES = {
    Type.INT: "i8", Type.FLOAT: "f8", Type.BINARY: "i4", Type.TEXT: "i4", Type.BOOL: "u1", Type.DECIMAL: "u1", Type.DATE: "i4",
    Type.TIME: "i8", Type.TIMESTAMP: "i8", Type.DURATION: "i8",
}  # fmt: skip


def list_of_rows(result):
    """Converts a result of numpy or pandas to a list of rows. Returns other results, and DataFrames with
    columns, unchanged."""
    if isinstance(result, pandas.DataFrame) and len(result.columns) == 0:
        return []
    if isinstance(result, (pandas.Series, pandas.Index)):
        return result.tolist()
    if isinstance(result, numpy.ndarray) and result.ndim > 0:
        return list(result)
    return result


def read(stream):
    """Reads a DataFrame from an Arrow IPC stream. Its columns have the dtypes that pyarrow's `to_pandas` gives them.

    Raises a TypeError that names the column if its type cannot be read.
    """
    columns = []
    for kind, header, body in _arrow.messages(memoryview(stream)):
        if kind == _arrow.SCHEMA:
            columns = [_Column(field) for field in header.tables(1)]
        elif kind == _arrow.DICTIONARY_BATCH:
            dictionary_id, is_delta = header.number(0, "q"), header.number(2, "?", False)
            for column in columns:
                if column.dictionary_id == dictionary_id:
                    (values,) = _arrow.batch([column.field], header.table(1), body, None)
                    column.add_categories(values, is_delta)
        elif kind == _arrow.RECORD_BATCH:
            _add_record_batch(columns, header, body)
    arrays = {number: column.array() for number, column in enumerate(columns)}
    frame = pandas.DataFrame(arrays)
    frame.columns = [column.name for column in columns]
    return frame


def _add_record_batch(columns, header, body):
    """Adds the values of a record batch to the columns."""
    nodes, ranges = header.pairs(1), iter(header.pairs(2))
    for column, (count, nulls) in zip(columns, nodes):
        buffers = []
        for _ in range(column.buffer_count):
            offset, length = next(ranges)
            buffers.append(body[offset : offset + length])
        column.add(buffers, count, nulls)


class _Column:
    """A column that is being read. Has the values and their validity for each batch."""

    def __init__(self, field):
        self.field = _arrow.Field(field)
        self.name, self.dictionary_id = self.field.name, self.field.dictionary_id
        self._kind, self._type = field.number(2, "B"), field.table(3)
        self._dtype = self._number_dtype()
        self.buffer_count = self.field.buffer_count
        if self.dictionary_id is not None:
            encoding = field.table(4)
            index = encoding.table(1)
            is_signed = index.number(1, "?") if index else True
            self._dtype = f"{'i' if is_signed else 'u'}{(index.number(0, 'i') if index else 32) // 8}"
            self._is_ordered = encoding.number(2, "?", False)
            self.buffer_count = 2
            # The values of all dictionaries, one after the other. The last dictionary begins at `_first_code`.
            self._categories, self._first_code = [], 0
        self._values, self._valid = [], []

    def _number_dtype(self):
        """The numpy dtype of the column's buffer of numbers. `None` if the values are not numbers."""
        match self._kind:
            case Type.INT:
                is_signed = self._type.number(1, "?", False)
                return f"{'i' if is_signed else 'u'}{self._type.number(0, 'i') // 8}"
            case Type.FLOAT:
                return _FLOAT_DTYPES[self._type.number(0, "h")]
            case Type.TIMESTAMP:
                return f"M8[{_UNITS[self._type.number(0, 'h')]}]"
            case Type.DURATION:
                return f"m8[{_UNITS[self._type.number(0, 'h', 1)]}]"
        return None

    def add_categories(self, values, is_delta):
        """Adds a dictionary for the following batches. With `is_delta`, adds values to the last dictionary."""
        if not is_delta:
            self._first_code = len(self._categories)
        self._categories += values

    def add(self, buffers, count, nulls):
        valid = _bits(buffers[0], count) if nulls and buffers and len(buffers[0]) else None
        if self._dtype:
            values = numpy.frombuffer(buffers[1], self._dtype, count)
            if self.dictionary_id is not None:
                values = values.astype("i8") + self._first_code
        elif self._kind == Type.BOOL:
            values = _bits(buffers[1], count)
        else:
            values = self.field.read(buffers, count)
            if valid is not None:
                values = [value if is_valid else None for value, is_valid in zip(values, valid)]
        self._values.append(values)
        self._valid.append(valid)

    def array(self):
        """All values, as in the DataFrame that pyarrow's `to_pandas` returns."""
        valid = self._validity()
        if self.dictionary_id is not None:
            return self._category_array(valid)
        if self._kind in (Type.TEXT, Type.LARGE_TEXT):
            return pandas.array([value for batch in self._values for value in batch], dtype="str")
        if self._dtype is None and self._kind != Type.BOOL:
            return _objects([value for batch in self._values for value in batch])
        values = numpy.concatenate(self._values) if self._values else numpy.empty(0, self._dtype or "?")
        if self._kind in (Type.TIMESTAMP, Type.DURATION):
            return self._datetimes(values, valid)
        if valid is None:
            return values
        if self._kind == Type.BOOL:
            return _objects([value if is_valid else None for value, is_valid in zip(values.tolist(), valid)])
        # Integers with nulls become floats, as in pyarrow.
        values = values.astype("f8") if self._kind == Type.INT else values.copy()
        values[~valid] = numpy.nan
        return values

    def _validity(self):
        """A bool for each value. `None` if all values are valid."""
        if all(valid is None for valid in self._valid):
            return None
        batches = zip(self._values, self._valid)
        return numpy.concatenate([numpy.ones(len(values), "?") if valid is None else valid for values, valid in batches])

    def _category_array(self, valid):
        codes = numpy.concatenate(self._values) if self._values else numpy.empty(0, "i8")
        if valid is not None:
            # The next lines append a -1, the code of a null, at this index.
            codes[~valid] = len(self._categories)
        # A dictionary may contain a value twice, or a null. Categories may not, so the codes are replaced.
        values = pandas.Index(self._categories, dtype="str" if self._kind in (Type.TEXT, Type.LARGE_TEXT) else None)
        new_codes, categories = pandas.factorize(values)
        codes = numpy.append(new_codes, -1)[codes]
        return pandas.Categorical.from_codes(codes, categories, ordered=self._is_ordered)

    def _datetimes(self, values, valid):
        if valid is not None:
            values = values.copy()
            values[~valid] = "NaT"
        zone = self._type.text(1) if self._kind == Type.TIMESTAMP else None
        return pandas.DatetimeIndex(values).tz_localize("UTC").tz_convert(zone) if zone else values


def _objects(values):
    array = numpy.empty(len(values), "O")
    array[:] = values
    return array


def _bits(buffer, count):
    return numpy.unpackbits(numpy.frombuffer(buffer, "u1"), count=count, bitorder="little").astype("?")


def write(frame):
    """Writes a DataFrame's columns, without its index, as an Arrow IPC stream with one record batch.

    NaN, NaT and NA become nulls. Categories are written as their values. Objects are written with the common
    type of their values. If the values have no common type, their `str` is written.
    """
    body, nodes, ranges, fields = [], [], [], []
    offset = 0
    for number, name in enumerate(frame.columns):
        name = _column_name(name)
        kind, type_, valid, buffers = column(frame.iloc[:, number])
        fields.append(_arrow.field(name, kind, type_))
        nulls = 0 if valid is None else int(len(frame) - valid.sum())
        nodes.append((len(frame), nulls))
        for buffer in (_packed_bits(valid) if nulls else b"", *buffers):
            buffer = memoryview(buffer).cast("B") if len(buffer) else b""
            ranges.append((offset, len(buffer)))
            padding = bytes(-len(buffer) % 8)
            body += (buffer, padding)
            offset += len(buffer) + len(padding)
    return _arrow.stream(len(frame), fields, nodes, ranges, b"".join(body))


def column(series):
    """Converts a column. Returns the number of its Arrow type, the fields of the type's table, the validity of
    the values (`None` if all are valid), and all buffers except the validity bits.

    Buffers of numbers and offsets are numpy arrays.
    """
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        return _category_values(series)
    if isinstance(dtype, pandas.SparseDtype):
        return column(series.sparse.to_dense())
    if isinstance(dtype, pandas.StringDtype):
        return _texts(series)
    is_valid = series.notna().to_numpy()
    valid = None if is_valid.all() else is_valid
    if isinstance(dtype, pandas.DatetimeTZDtype):
        type_ = {0: ("h", _UNITS.index(dtype.unit)), 1: (None, text(_zone_name(series)))}
        datetimes = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return Type.TIMESTAMP, type_, valid, [datetimes.astype("<i8")]
    kind = getattr(dtype, "kind", "O")
    if kind in "iufb" and not isinstance(dtype, numpy.dtype):
        # A dtype of pandas that allows nulls, such as Int64.
        series = series.fillna(False if kind == "b" else 0).astype(dtype.numpy_dtype)
        dtype = series.dtype
    if kind in "iu":
        type_ = {0: ("i", dtype.itemsize * 8), 1: ("?", kind == "i")}
        return Type.INT, type_, valid, [_numbers(series, f"<{kind}{dtype.itemsize}")]
    if kind == "f":
        # 16-bit floats become 32-bit floats, and floats with more than 64 bits become 64-bit floats.
        size = 4 if dtype.itemsize <= 4 else 8
        return Type.FLOAT, {0: ("h", _FLOAT_DTYPES.index(f"f{size}"))}, valid, [_numbers(series, f"<f{size}")]
    if kind == "b":
        return Type.BOOL, {}, valid, [_packed_bits(series.to_numpy())]
    if kind in "mM" and isinstance(dtype, numpy.dtype):
        unit = _UNITS.index(numpy.datetime_data(dtype)[0])
        return Type.TIMESTAMP if kind == "M" else Type.DURATION, {0: ("h", unit)}, valid, [series.to_numpy().astype("<i8")]
    return _objects_column(series, is_valid)


def _column_name(name):
    name = str(name)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name of column {name!r} is not valid Unicode: {error}") from None
    return name


def _zone_name(series):
    """The name that a column's time zone has in Arrow: a region such as Europe/Berlin, or an offset."""
    zone = series.dtype.tz
    # Zones of zoneinfo have `key`, and those of pytz have `zone`. Those of dateutil have only the path of a file:
    # see below.
    for name in (getattr(zone, "key", None), getattr(zone, "zone", None)):
        if name:
            return name
    offset = zone.utcoffset(None)
    if offset is not None:
        sign, minutes = ("-" if offset.total_seconds() < 0 else "+"), int(abs(offset.total_seconds())) // 60
        return f"{sign}{minutes // 60:02}:{minutes % 60:02}" if minutes else "UTC"
    _, found, name = str(getattr(zone, "_filename", "")).partition("zoneinfo/")
    if found:
        return name
    raise ValueError(
        f"column {series.name!r} has the time zone {zone!r}, for which Arrow has no name; "
        "convert it first: frame[NAME].dt.tz_convert('UTC')"
    )


def _category_values(series):
    """A column of categories, as a column of their values."""
    codes, categories = series.cat.codes.to_numpy(), series.cat.categories
    if len(categories) == 0:
        return column(pandas.Series([None] * len(series), dtype="str", name=series.name))
    is_valid = codes >= 0
    # A row without a category has the code -1. The row is null, so it may have any value.
    kind, type_, valid, buffers = column(pandas.Series(categories.take(numpy.maximum(codes, 0)), name=series.name))
    if valid is not None:
        is_valid = is_valid & valid
    return kind, type_, is_valid, buffers


def _numbers(series, dtype):
    """The numbers as an array of this numpy dtype, which includes a byte order."""
    return numpy.ascontiguousarray(series.to_numpy(), dtype)


def _packed_bits(bits):
    return numpy.packbits(bits, bitorder="little")


def _texts(series):
    is_valid = series.notna().to_numpy()
    values = series.astype("O").to_numpy().copy()
    values[~is_valid] = ""
    values = values.tolist()
    lengths = numpy.fromiter(map(len, values), "i8", len(values))
    data = "".join(values)
    if data.isascii():
        data = data.encode()
    else:
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        lengths = numpy.fromiter(map(len, encoded), "i8", len(encoded))
        data = b"".join(encoded)
        _check_unicode(series.name, data)
    offsets = numpy.zeros(len(values) + 1, "i8")
    numpy.cumsum(lengths, out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        return Type.LARGE_TEXT, {}, is_valid, [offsets, data]
    return Type.TEXT, {}, is_valid, [offsets.astype("i4"), data]


def _check_unicode(name, data):
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"column {name!r} has a text that is not valid Unicode: {error}") from None


def _objects_column(series, is_valid):
    """A column of Python objects."""
    values = [_python_value(value) if valid else None for value, valid in zip(series.tolist(), is_valid)]
    try:
        kind, type_, buffers = _arrow.column(str(series.name), values)
    except TypeError:
        texts = pandas.Series([None if value is None else str(value) for value in values], dtype="O", name=series.name)
        return _texts(texts)
    return kind, type_, is_valid, [numpy.frombuffer(buffers[0], _DTYPES[kind]), *buffers[1:]]


def _python_value(value):
    """Converts a value of numpy or pandas to a Python value."""
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, pandas.Timestamp):
        return value.to_pydatetime(warn=False)
    return value
