"""Arrow IPC streams to pandas DataFrames, and back. Numbers are not copied one by one."""

import numpy
import pandas
from sandmill import _arrow

_CODES = {2: None, 3: None}
_UNITS = ["s", "ms", "us", "ns"]


def plain(result):
    """A result of numpy or pandas as a list; anything else as it is."""
    if isinstance(result, pandas.Series):
        return result.tolist()
    if isinstance(result, numpy.ndarray):
        return list(result)
    return result


def read(stream):
    """The DataFrame of an Arrow IPC stream, with the types that pyarrow's `to_pandas` gives.

    Raises TypeError, naming the column, where a type is not read.
    """
    return pandas.DataFrame(_arrow.read(stream))


def write(frame):
    """An Arrow IPC stream, with one record batch, of a DataFrame's columns, without its index."""
    return _arrow.write({str(name): frame[name].tolist() for name in frame.columns})
