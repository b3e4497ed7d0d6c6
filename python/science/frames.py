"""Converts Arrow IPC streams to pandas DataFrames, and back: numbers as whole buffers, other types as Python
values."""

import numpy
import pandas
from sandmill import _arrow
from sandmill._flat import text

_UNITS = ["s", "ms", "us", "ns"]
_FLOATS = ["f2", "f4", "f8"]
# The numpy type of the first buffer that `_arrow.column` returns, by the number of the Arrow type.
_FORMS = {2: "i8", 3: "f8", 4: "i4", 5: "i4", 6: "u1", 7: "u1", 8: "i4", 9: "i8", 10: "i8", 18: "i8"}


def plain(result):
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
    """Reads a DataFrame from an Arrow IPC stream, with the types that pyarrow's `to_pandas` gives.

    Raises a TypeError that names the column if its type cannot be read.
    """
    columns = []
    for kind, header, body in _arrow.messages(memoryview(stream)):
        if kind == 1:
            columns = [_Column(field) for field in header.tables(1)]
        elif kind == 2:
            number, is_delta = header.number(0, "q"), header.number(2, "?", False)
            for column in columns:
                if column.dictionary == number:
                    (values,) = _arrow.batch([column.field], header.table(1), body, None)
                    column.add_categories(values, is_delta)
        elif kind == 3:
            _add(columns, header, body)
    arrays = {number: column.array() for number, column in enumerate(columns)}
    frame = pandas.DataFrame(arrays)
    frame.columns = [column.name for column in columns]
    return frame


def _add(columns, header, body):
    """Adds the columns of a record batch."""
    nodes, buffers = header.pairs(1), iter(header.pairs(2))
    for column, (count, nulls) in zip(columns, nodes):
        parts = []
        for _ in range(column.buffers):
            offset, length = next(buffers)
            parts.append(body[offset : offset + length])
        column.add(parts, count, nulls)


class _Column:
    """A column that is being read: its values and their validity, batch by batch."""

    def __init__(self, field):
        self.field = _arrow.Field(field)
        self.name, self.dictionary = self.field.name, self.field.dictionary
        self._kind, self._type = field.number(2, "B"), field.table(3)
        self._form = self._number_form()
        self.buffers = self.field.buffers
        if self.dictionary is not None:
            encoding = field.table(4)
            index = encoding.table(1)
            is_signed = index.number(1, "?") if index else True
            self._form = f"{'i' if is_signed else 'u'}{(index.number(0, 'i') if index else 32) // 8}"
            self._is_ordered = encoding.number(2, "?", False)
            self.buffers = 2
            # The values of all dictionaries, one after the other. The last dictionary begins at `_base`.
            self._categories, self._base = [], 0
        self._values, self._valid = [], []

    def _number_form(self):
        """The numpy type of the column's buffer of numbers. None if its values are not numbers."""
        match self._kind:
            case 2:
                is_signed = self._type.number(1, "?", False)
                return f"{'i' if is_signed else 'u'}{self._type.number(0, 'i') // 8}"
            case 3:
                return _FLOATS[self._type.number(0, "h")]
            case 10:
                return f"M8[{_UNITS[self._type.number(0, 'h')]}]"
            case 18:
                return f"m8[{_UNITS[self._type.number(0, 'h', 1)]}]"
        return None

    def add_categories(self, values, is_delta):
        """Adds a dictionary for the batches that follow, or with `is_delta` more values of the last
        dictionary."""
        if not is_delta:
            self._base = len(self._categories)
        self._categories += values

    def add(self, parts, count, nulls):
        valid = _bits(parts[0], count) if nulls and parts and len(parts[0]) else None
        if self._form:
            values = numpy.frombuffer(parts[1], self._form, count)
            if self.dictionary is not None:
                values = values.astype("i8") + self._base
        elif self._kind == 6:
            values = _bits(parts[1], count)
        else:
            values = self.field.read(parts, count)
            if valid is not None:
                values = [value if there else None for value, there in zip(values, valid)]
        self._values.append(values)
        self._valid.append(valid)

    def array(self):
        """All values, as `to_pandas` gives them."""
        valid = self._all_valid()
        if self.dictionary is not None:
            return self._category_array(valid)
        if self._kind in (5, 20):
            return pandas.array([value for part in self._values for value in part], dtype="str")
        if self._form is None and self._kind != 6:
            return _objects([value for part in self._values for value in part])
        values = numpy.concatenate(self._values) if self._values else numpy.empty(0, self._form or "?")
        if self._kind in (10, 18):
            return self._moments(values, valid)
        if valid is None:
            return values
        if self._kind == 6:
            return _objects([value if there else None for value, there in zip(values.tolist(), valid)])
        # Integers with nulls become floats, as in pyarrow.
        values = values.astype("f8") if self._kind == 2 else values.copy()
        values[~valid] = numpy.nan
        return values

    def _all_valid(self):
        """Which values are valid. None if all are."""
        if all(valid is None for valid in self._valid):
            return None
        parts = zip(self._values, self._valid)
        return numpy.concatenate([numpy.ones(len(part), "?") if valid is None else valid for part, valid in parts])

    def _category_array(self, valid):
        codes = numpy.concatenate(self._values) if self._values else numpy.empty(0, "i8")
        if valid is not None:
            codes[~valid] = len(self._categories)
        # A dictionary may have a value twice, or a null, but categories may not. The last code is that of
        # nulls.
        values = pandas.Index(self._categories, dtype="str" if self._kind in (5, 20) else None)
        unique, categories = pandas.factorize(values)
        codes = numpy.append(unique, -1)[codes]
        return pandas.Categorical.from_codes(codes, categories, ordered=self._is_ordered)

    def _moments(self, values, valid):
        if valid is not None:
            values = values.copy()
            values[~valid] = "NaT"
        zone = self._type.text(1) if self._kind == 10 else None
        return pandas.DatetimeIndex(values).tz_localize("UTC").tz_convert(zone) if zone else values


def _objects(values):
    array = numpy.empty(len(values), "O")
    array[:] = values
    return array


def _bits(part, count):
    return numpy.unpackbits(numpy.frombuffer(part, "u1"), count=count, bitorder="little").astype("?")


def write(frame):
    """Writes a DataFrame's columns, without its index, as an Arrow IPC stream with one record batch.

    NaN, NaT and NA become nulls. Categories are written as their values. Objects are written with the common
    type of their values; without a common type, as their `str`.
    """
    body, nodes, buffers, fields = [], [], [], []
    at = 0
    for number, name in enumerate(frame.columns):
        name = _column_name(name)
        kind, type_, valid, parts = column(frame.iloc[:, number])
        fields.append(_arrow.field(name, kind, type_))
        missing = 0 if valid is None else int(len(frame) - valid.sum())
        nodes.append((len(frame), missing))
        for part in (_packed(valid) if missing else b"", *parts):
            part = memoryview(part).cast("B") if len(part) else b""
            buffers.append((at, len(part)))
            padding = bytes(-len(part) % 8)
            body += (part, padding)
            at += len(part) + len(padding)
    return _arrow.stream(len(frame), fields, nodes, buffers, b"".join(body))


def column(series):
    """The number of a column's Arrow type, the fields of the type, which values are valid, and the buffers
    after that of the nulls.

    Numbers and offsets are arrays.
    """
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        return _category_values(series)
    if isinstance(dtype, pandas.SparseDtype):
        return column(series.sparse.to_dense())
    if isinstance(dtype, pandas.StringDtype):
        return _texts(series)
    is_there = series.notna().to_numpy()
    valid = None if is_there.all() else is_there
    if isinstance(dtype, pandas.DatetimeTZDtype):
        type_ = {0: ("h", _UNITS.index(dtype.unit)), 1: (None, text(_zone(series)))}
        moments = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return 10, type_, valid, [moments.astype("<i8")]
    kind = getattr(dtype, "kind", "O")
    if kind in "iufb" and not isinstance(dtype, numpy.dtype):
        # A nullable type of pandas.
        series = series.fillna(False if kind == "b" else 0).astype(dtype.numpy_dtype)
        dtype = series.dtype
    if kind in "iu":
        return 2, {0: ("i", dtype.itemsize * 8), 1: ("?", kind == "i")}, valid, [_whole(series, f"<{kind}{dtype.itemsize}")]
    if kind == "f":
        # Half floats become floats, and types longer than a double become doubles.
        size = 4 if dtype.itemsize <= 4 else 8
        return 3, {0: ("h", 1 if size == 4 else 2)}, valid, [_whole(series, f"<f{size}")]
    if kind == "b":
        return 6, {}, valid, [_packed(series.to_numpy())]
    if kind in "mM" and isinstance(dtype, numpy.dtype):
        unit = _UNITS.index(numpy.datetime_data(dtype)[0])
        return 10 if kind == "M" else 18, {0: ("h", unit)}, valid, [series.to_numpy().astype("<i8")]
    return _values(series, is_there)


def _column_name(name):
    name = str(name)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name of column {name!r} is not valid Unicode: {error}") from None
    return name


def _zone(series):
    """The name of a column's time zone in Arrow: the name of a region, or an offset."""
    zone = series.dtype.tz
    # zoneinfo has `key`, and pytz has `zone`. dateutil has only the path of a file: see below.
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
        f"column {series.name!r} has a time zone that Arrow has no name for, {zone!r}; "
        "convert it first: frame[NAME].dt.tz_convert('UTC')"
    )


def _category_values(series):
    """A column of categories, as a column of their values."""
    codes, categories = series.cat.codes.to_numpy(), series.cat.categories
    if len(categories) == 0:
        return column(pandas.Series([None] * len(series), dtype="str", name=series.name))
    is_there = codes >= 0
    # A row without a category is null, so any value will do.
    kind, type_, valid, parts = column(pandas.Series(categories.take(numpy.maximum(codes, 0)), name=series.name))
    if valid is not None:
        is_there = is_there & valid
    return kind, type_, is_there, parts


def _whole(series, form):
    """The numbers as this numpy type, in its byte order."""
    return numpy.ascontiguousarray(series.to_numpy(), form)


def _packed(bits):
    return numpy.packbits(bits, bitorder="little")


def _texts(series):
    is_there = series.notna().to_numpy()
    values = series.astype("O").to_numpy().copy()
    values[~is_there] = ""
    values = values.tolist()
    lengths = numpy.fromiter(map(len, values), "i8", len(values))
    data = "".join(values)
    if data.isascii():
        data = data.encode()
    else:
        parts = [value.encode("utf-8", "surrogatepass") for value in values]
        lengths = numpy.fromiter(map(len, parts), "i8", len(parts))
        data = _valid_unicode(series.name, b"".join(parts))
    offsets = numpy.zeros(len(values) + 1, "i8")
    numpy.cumsum(lengths, out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        return 20, {}, is_there, [offsets, data]
    return 5, {}, is_there, [offsets.astype("i4"), data]


def _valid_unicode(name, data):
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"column {name!r} has a text that is not valid Unicode: {error}") from None
    return data


def _values(series, is_there):
    """A column of Python values."""
    values = [_plain_value(value) if there else None for value, there in zip(series.tolist(), is_there)]
    try:
        kind, type_, parts = _arrow.column(str(series.name), values)
    except TypeError:
        texts = pandas.Series([None if value is None else str(value) for value in values], dtype="O", name=series.name)
        return _texts(texts)
    return kind, type_, is_there, [numpy.frombuffer(parts[0], _FORMS[kind]), *parts[1:]]


def _plain_value(value):
    """Converts a value of numpy or pandas to a Python value."""
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, pandas.Timestamp):
        return value.to_pydatetime(warn=False)
    return value
