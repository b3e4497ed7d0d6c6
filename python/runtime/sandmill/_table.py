"""A table without pandas: columns of Python values."""


class Table:
    """Columns of Python values, all of the same length, with None for nulls.

    In the light runtime, `run` of a job over tables receives a `Table`, and may return one:

        table["age"]                    # a list
        for row in table:               # each row is a dict
            row["age"]
        table.with_columns(score=[...]) # a new table
    """

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns):
        """`columns`: a dict of names to sequences of the same length."""
        self._columns = {str(name): _values(name, values) for name, values in dict(columns).items()}
        self._rows = len(next(iter(self._columns.values()), ()))
        for name, values in self._columns.items():
            if len(values) != self._rows:
                raise ValueError(
                    f"column {name!r} has {len(values)} values, and the first column has {self._rows}"
                )

    @property
    def names(self):
        """The names of the columns, in their order."""
        return list(self._columns)

    @property
    def columns(self):
        """The columns: a dict of names to lists."""
        return dict(self._columns)

    def __getitem__(self, name):
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"there is no column {name!r}; there is: {', '.join(self._columns)}") from None

    def __contains__(self, name):
        return name in self._columns

    def __len__(self):
        """The number of rows."""
        return self._rows

    def __iter__(self):
        """The rows, each a dict of names to values."""
        names = self.names
        for row in self.tuples():
            yield dict(zip(names, row))

    def tuples(self):
        """The rows, each a tuple: faster than dicts."""
        return zip(*self._columns.values())

    def select(self, *names):
        """A table of only these columns."""
        return Table({name: self[name] for name in names})

    def with_columns(self, **columns):
        """A table with these columns added. A new column replaces the column of the same name."""
        return Table({**self._columns, **columns})

    def __repr__(self):
        return f"Table({self._rows} rows: {', '.join(self._columns)})"


def _values(name, values):
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise TypeError(f"column {name!r} is of type {type(values).__name__}; give a list of its values")
    return values if isinstance(values, list) else list(values)
