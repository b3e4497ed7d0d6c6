"""Compares the Arrow reader and writer with pyarrow. Run by `make test`."""

import datetime
import decimal
import random
import sys
import unittest
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from sandmill import _arrow  # noqa: E402

DAY, LATER = datetime.date(2020, 1, 31), datetime.date(1959, 12, 31)
MOMENT = datetime.datetime(2020, 1, 1, 1, 2, 3, 4)
EARLY = datetime.datetime(1950, 6, 1, 23, 59, 59, 999_999)

# One column of each type that can be read; the second value is a null.
READ = {
    "int8": pa.array([-1, None, 127], pa.int8()),
    "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "int64": pa.array([-(2**63), None, 3]),
    "float32": pa.array([1.5, None, -2.0], pa.float32()),
    "float64": pa.array([1.5, None, float("inf")]),
    "text": pa.array(["a", None, ""]),
    "unicode": pa.array(["é", None, "日本 x"]),
    "large text": pa.array(["x", None, "zz"], pa.large_string()),
    "bool": pa.array([True, None, False]),
    "date": pa.array([DAY, None, LATER]),
    "date64": pa.array([DAY, None, LATER], pa.date64()),
    "timestamp": pa.array([MOMENT, None, EARLY], pa.timestamp("us")),
    "zoned": pa.array([MOMENT, None, EARLY], pa.timestamp("ms", tz="UTC")),
    "nanoseconds": pa.array([MOMENT, None, EARLY], pa.timestamp("ns")),
    "time": pa.array([datetime.time(1, 2, 3), None, datetime.time(0)], pa.time32("s")),
    "duration": pa.array([datetime.timedelta(1), None, datetime.timedelta(0)], pa.duration("us")),
    "decimal": pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-3.45")], pa.decimal128(10, 2)),
    "category": pa.array(["x", None, "x"]).dictionary_encode(),
    "bytes": pa.array([b"a", None, b""]),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "nothing": pa.nulls(3),
}


def stream(table, *cuts):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for start, end in zip((0, *cuts), (*cuts, len(table))):
            writer.write_table(table.slice(start, end - start))
    return sink.getvalue().to_pybytes()


class Reading(unittest.TestCase):
    def test_each_type_is_read_as_pyarrow_reads_it(self):
        for name, column in READ.items():
            table = pa.table({name: column})
            for cuts in [(), (1,), (1, 1, 2)]:
                with self.subTest(name, cuts=cuts):
                    self.assertEqual(_arrow.read(stream(table, *cuts)), table.to_pydict())

    def test_columns_are_read_together(self):
        table = pa.table(READ)
        self.assertEqual(_arrow.read(stream(table, 2)), table.to_pydict())

    def test_tables_without_rows_have_their_columns(self):
        self.assertEqual(_arrow.read(stream(pa.table(READ).slice(0, 0))), {name: [] for name in READ})

    def test_long_columns_cross_each_byte_of_the_bits_of_nulls(self):
        chance = random.Random(7)
        for count in [7, 8, 9, 63, 64, 65, 1000]:
            values = [chance.choice([None, chance.random()]) for _ in range(count)]
            self.assertEqual(_arrow.read(stream(pa.table({"a": values})))["a"], values)

    def test_unreadable_columns_are_named(self):
        table = pa.table({"id": [1], "tags": [["a"]]})
        with self.assertRaisesRegex(TypeError, "column 'tags' is a list"):
            _arrow.read(stream(table))


class Writing(unittest.TestCase):
    def back(self, columns):
        table = pa.ipc.open_stream(_arrow.write(columns)).read_all()
        table.validate(full=True)
        return table

    def test_pyarrow_reads_what_is_written(self):
        zoned = MOMENT.replace(tzinfo=datetime.timezone.utc)
        columns = {
            "int": [1, None, -(2**63)],
            "float": [1.5, None, 2],
            "bool": [True, None, False],
            "text": ["a", None, "日本"],
            "bytes": [b"x", None, b""],
            "date": [DAY, None, LATER],
            "timestamp": [MOMENT, None, EARLY],
            "zoned": [zoned, None, zoned],
            "time": [datetime.time(1, 2, 3, 4), None, datetime.time(0)],
            "duration": [datetime.timedelta(-1, 5), None, datetime.timedelta(0)],
            "decimal": [decimal.Decimal("1.20"), None, decimal.Decimal("-345")],
            "wide decimal": [decimal.Decimal("1e40"), None, decimal.Decimal("-1e-30")],
            "nulls": [None, None, None],
        }
        table = self.back(columns)
        self.assertEqual(table.to_pydict(), columns)
        types = {name: str(table.schema.field(name).type) for name in columns}
        self.assertEqual(
            types,
            {
                "int": "int64", "float": "double", "bool": "bool", "text": "string", "bytes": "binary",
                "date": "date32[day]", "timestamp": "timestamp[us]", "zoned": "timestamp[us, tz=+00:00]",
                "time": "time64[us]", "duration": "duration[us]", "decimal": "decimal128(5, 2)",
                "wide decimal": "decimal256(71, 30)", "nulls": "string",
            },
        )  # fmt: skip

    def test_no_rows(self):
        table = self.back({"a": [], "b": []})
        self.assertEqual((table.num_rows, table.column_names), (0, ["a", "b"]))

    def test_columns_that_were_read_can_be_written(self):
        for name in ["int64", "float64", "unicode", "bool", "date", "timestamp", "zoned", "bytes", "time", "duration", "decimal"]:
            columns = _arrow.read(stream(pa.table({name: READ[name]})))
            with self.subTest(name):
                self.assertEqual(self.back(columns).to_pydict(), columns)

    def test_unwritable_columns_are_named(self):
        for columns, words in [
            ({}, "no columns"),
            ({"a": [1], "b": [1, 2]}, "column 'b' has 2 values, and the first column has 1"),
            ({"a": [1, "x"]}, "column 'a' has values of type int, str"),
            ({"a": [{}]}, "column 'a' has values of type dict"),
            ({"a": [2**63]}, "column 'a' has a value that is too large"),
            ({"a": [MOMENT, MOMENT.replace(tzinfo=datetime.timezone.utc)]}, "column 'a' has datetimes of two kinds: some have"),
            ({"a": [decimal.Decimal("NaN")]}, "column 'a' has a value that is too large: NaN"),
            ({"a": [decimal.Decimal("1e80")]}, "it needs 81 digits"),
            ({"a": ["\ud800"]}, "column 'a' has a text that is not valid Unicode"),
        ]:
            with self.subTest(words), self.assertRaisesRegex((TypeError, ValueError), words):
                _arrow.write(columns)


if __name__ == "__main__":
    unittest.main()
