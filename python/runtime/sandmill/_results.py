"""Converts what `run` returned to the host's results: lists by the rules of ParallelRunStep, and
`sandmill.Table`."""

import inspect

from ._table import Table


class Failed:
    """An element of the list that `run` returns. It says that the item at this position failed, and why."""

    __slots__ = ("reason",)

    def __init__(self, reason):
        self.reason = valid(str(reason))

    def __repr__(self):
        return f"Failed({self.reason!r})"


class BadResult(TypeError):
    """`run` returned something that cannot become rows."""


def rows_of(result):
    """The rows of a list or a tuple: the `str` of each element. A `Failed` stays unchanged."""
    if isinstance(result, (list, tuple)):
        rows = [element if isinstance(element, (str, Failed)) else str(element) for element in result]
        _refuse_invalid(rows)
        return rows
    raise BadResult(f"run returned {_described(result)}; it must return a list or a tuple with one row for each item, or a table")


def table_of(result):
    """The columns, if `run` returned a `sandmill.Table`, and None otherwise."""
    return result.columns if isinstance(result, Table) else None


def valid(text):
    """The text, with escapes for invalid Unicode (lone surrogates)."""
    return text.encode("utf-8", "backslashreplace").decode()


def _refuse_invalid(rows):
    try:
        "".join(row for row in rows if isinstance(row, str)).encode()
    except UnicodeEncodeError:
        for number, row in enumerate(rows):
            if isinstance(row, str) and valid(row) != row:
                raise BadResult(
                    f"row {number} that run returned is not valid Unicode: {valid(row)[:100]!r}; "
                    'decode file names and bytes with errors="replace"'
                ) from None


def _described(result):
    if result is None:
        return "None (is there a return statement?)"
    if inspect.isgenerator(result):
        return "a generator (collect what it yields: return list(...))"
    if inspect.iscoroutine(result):
        result.close()
        return "a coroutine (write `def run`, without async)"
    name = type(result).__name__
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name}"
