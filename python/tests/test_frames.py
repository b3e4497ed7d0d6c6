"""Compares the DataFrames of the science runtime with pyarrow's. Run by `make test`."""

import datetime
import io
from decimal import Decimal
import sys
import unittest
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from test_arrow import READ, stream

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "science"))

import frames  # noqa: E402
import parquet  # noqa: E402
from sandmill import _arrow  # noqa: E402


def back(data):
    return pa.ipc.open_stream(data).read_all()


class Reading(unittest.TestCase):
    def test_each_type_is_read_as_pyarrow_reads_it(self):
        for name, column in READ.items():
            for nulls in (True, False):
                values = column if nulls else column.drop_null()
                table = pa.table({name: values})
                cuts = [(), (1,)] if len(values) else [()]
                for cut in cuts:
                    with self.subTest(name, nulls=nulls, cut=cut):
                        expected = table.to_pandas()
                        pd.testing.assert_frame_equal(frames.read(stream(table, *cut)), expected)

    def test_a_table_without_rows_keeps_its_types(self):
        for name, column in READ.items():
            if name == "category":
                # pyarrow writes no categories if there are no rows.
                continue
            table = pa.table({name: column.slice(0, 0)})
            with self.subTest(name):
                pd.testing.assert_frame_equal(frames.read(stream(table)), table.to_pandas())

    def test_dictionaries_may_change_repeat_values_and_hold_nulls(self):
        parts = [
            pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None]), pa.array(["a", "b", "a", None])),
            pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["c", "b"])),
        ]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema({"x": parts[0].type})) as writer:
            for part in parts:
                writer.write_batch(pa.record_batch({"x": part}))
        data = sink.getvalue().to_pybytes()
        column = frames.read(data)["x"]
        self.assertEqual(column.cat.categories.tolist(), ["a", "b", "c"])
        values = ["a", "b", "a", None, None, "c", "b"]
        self.assertEqual([None if value != value else value for value in column.tolist()], values)
        self.assertEqual(_arrow.read(data), {"x": values})

    def test_columns_of_one_name_are_all_read(self):
        table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
        frame = frames.read(stream(table))
        self.assertEqual(frame.columns.tolist(), ["a", "a"])
        self.assertEqual(frame.iloc[0].tolist(), [1, "x"])

    def test_a_frame_that_was_read_can_be_changed(self):
        frame = frames.read(stream(pa.table({"a": [1, 2], "s": ["x", "y"]})))
        frame.loc[0, "a"] = 7
        frame["a"] += 1
        self.assertEqual(frame["a"].tolist(), [8, 3])


WRITTEN = {
    "int8": pd.array([1, -1], "int8"),
    "uint64": pd.array([1, 2**64 - 1], "uint64"),
    "Int64": pd.array([1, None], "Int64"),
    "float32": pd.array([1.5, np.nan], "float32"),
    "float64": pd.array([1.5, np.nan], "float64"),
    "Float64": pd.array([1.5, None], "Float64"),
    "bool": np.array([True, False]),
    "boolean": pd.array([True, None], "boolean"),
    "text": pd.array(["a", None], "str"),
    "unicode": pd.array(["é", "日本"], "str"),
    "seconds": np.array(["2020-01-01", "NaT"], "M8[s]"),
    "nanoseconds": np.array(["2020-01-01T00:00:00.000000001", "NaT"], "M8[ns]"),
    "zoned": pd.DatetimeIndex(["2020-01-01", None]).tz_localize("Europe/Berlin"),
    "utc": pd.DatetimeIndex(["2020-01-01", None]).tz_localize("UTC"),
    "an offset": pd.DatetimeIndex(["2020-01-01", None]).tz_localize("-03:30"),
    "objects of decimals": np.array([Decimal("1.50"), None], "O"),
    "objects of times": np.array([datetime.time(1, 2), None], "O"),
    "objects of numpy's numbers": np.array([np.int64(3), None], "O"),
    "objects of timestamps": np.array([pd.Timestamp("2020-01-01T00:00:00.000001"), None], "O"),
    "duration": np.array([1, "NaT"], "m8[us]"),
    "objects of text": np.array(["a", None], "O"),
    "objects of bytes": np.array([b"a", None], "O"),
    "objects of dates": np.array([datetime.date(2020, 1, 1), None], "O"),
}


class Writing(unittest.TestCase):
    def test_each_type_is_written_as_pyarrow_writes_it(self):
        for name, values in WRITTEN.items():
            frame = pd.DataFrame({name: values})
            with self.subTest(name):
                expected = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
                written = back(frames.write(frame))
                if pa.types.is_large_string(expected.schema.field(0).type):
                    expected = expected.cast(pa.schema({name: pa.string()}))
                self.assertEqual(written.to_pydict(), expected.to_pydict())
                self.assertEqual(written.schema, expected.schema)

    def test_numbers_of_other_forms_are_written_right(self):
        forms = {">i2": [1, -2], ">u8": [1, 2**63], ">f4": [1.5, -2.0], ">f8": [1.5, np.nan], "g": [1.5, np.nan], "e": [1.5, -2.0]}
        for form, values in forms.items():
            frame = pd.DataFrame({"a": np.array(values, form)})
            expected = [None if value != value else value for value in values]
            with self.subTest(form):
                self.assertEqual(back(frames.write(frame)).to_pydict(), {"a": expected})
                self.assertEqual(parquet_of(frame).to_pydict(), {"a": expected})

    def test_categories_are_written_as_their_values(self):
        frame = pd.DataFrame({"a": pd.Categorical(["x", None, "x"]), "b": pd.Categorical([3, 1, 3])})
        self.assertEqual(back(frames.write(frame)).to_pydict(), {"a": ["x", None, "x"], "b": [3, 1, 3]})

    def test_sparse_columns_are_written_as_others(self):
        frame = pd.DataFrame({"a": pd.arrays.SparseArray([1.5, np.nan]), "b": pd.arrays.SparseArray([0, 7])})
        self.assertEqual(back(frames.write(frame)).to_pydict(), {"a": [1.5, None], "b": [0, 7]})

    def test_categories_of_numbers_may_have_nulls(self):
        frame = pd.DataFrame({
            "a": pd.Categorical([3, None, 1]), "b": pd.Categorical([None] * 3), "c": pd.Categorical([1.5, None, np.inf]),
            "d": pd.Categorical(pd.to_datetime(["2020-01-01", None, "2021-01-01"])),
        })  # fmt: skip
        expected = {
            "a": [3, None, 1], "b": [None] * 3, "c": [1.5, None, np.inf],
            "d": [datetime.datetime(2020, 1, 1), None, datetime.datetime(2021, 1, 1)],
        }  # fmt: skip
        self.assertEqual(back(frames.write(frame)).to_pydict(), expected)
        self.assertEqual(parquet_of(frame).to_pydict(), expected)

    def test_zones_of_each_library_are_named(self):
        import dateutil.tz

        zones = {"Europe/Berlin": dateutil.tz.gettz("Europe/Berlin"), "UTC": datetime.timezone.utc}
        for name, zone in zones.items():
            frame = pd.DataFrame({"a": pd.DatetimeIndex(["2020-01-01"]).tz_localize(zone)})
            with self.subTest(name):
                data = frames.write(frame)
                self.assertEqual(back(data).schema.field(0).type.tz, name)
                self.assertEqual(frames.read(data)["a"].tolist(), frame["a"].tolist())

    def test_mixed_objects_are_written_as_text(self):
        frame = pd.DataFrame({"a": ["x", 1, None, 2.5, [1]]})
        self.assertEqual(back(frames.write(frame)).to_pydict(), {"a": ["x", "1", None, "2.5", "[1]"]})

    def test_the_index_is_left_out_and_names_become_text(self):
        frame = pd.DataFrame({"a": [1, 2, 3]}, index=[5, 6, 7])[::2]
        self.assertEqual(back(frames.write(frame)).to_pydict(), {"a": [1, 3]})
        numbered = pd.DataFrame([[1, 2]])
        self.assertEqual(back(frames.write(numbered)).column_names, ["0", "1"])
        levels = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))
        self.assertEqual(back(frames.write(levels)).column_names, ["('a', 'b')"])

    def test_columns_of_one_name_are_all_written(self):
        frame = pd.DataFrame([[1, "x"]], columns=["a", "a"])
        self.assertEqual([column.to_pylist() for column in back(frames.write(frame)).columns], [[1], ["x"]])

    def test_no_rows(self):
        frame = pd.DataFrame({"a": np.array([], "i8"), "s": pd.array([], "str"), "o": np.array([], "O")})
        self.assertEqual(back(frames.write(frame)).num_rows, 0)

    def test_text_that_is_not_unicode_is_refused(self):
        with self.assertRaisesRegex(ValueError, "column 'a' has a text that is not valid Unicode"):
            frames.write(pd.DataFrame({"a": pd.Series(["\ud800"], dtype="O")}))
        with self.assertRaisesRegex(ValueError, "column 'a' has a text that is not valid Unicode"):
            frames.write(pd.DataFrame({"a": pd.Series(["\ud800", 1], dtype="O")}))
        with self.assertRaisesRegex(ValueError, r"the name of column '\\ud800' is not valid Unicode"):
            frames.write(pd.DataFrame([[1]], columns=pd.Index(["\ud800"], dtype="O")))


class Parquet(unittest.TestCase):
    def test_pyarrow_reads_each_written_type(self):
        for name, values in WRITTEN.items():
            if name == "duration":
                # Parquet has no durations: they are integers.
                continue
            for rows in (2, 0):
                frame = pd.DataFrame({"first": np.arange(rows), name: values[:rows]})
                for compression in ("snappy", "gzip"):
                    with self.subTest(name, rows=rows, compression=compression):
                        read = parquet_of(frame, compression=compression)
                        expected = back(frames.write(frame))
                        self.assertEqual(read.to_pydict(), expected.to_pydict())
                        self.assertEqual(read.schema.names, expected.schema.names)

    def test_types_are_kept(self):
        # Parquet has no durations, no seconds, and no time zone but UTC.
        names = WRITTEN.keys() - {"duration", "seconds", "zoned", "an offset"}
        frame = pd.DataFrame({name: WRITTEN[name] for name in WRITTEN if name in names})
        self.assertEqual(parquet_of(frame).schema, back(frames.write(frame)).schema)

    def test_many_rows_and_columns(self):
        values = np.arange(1000.0)
        values[::7] = np.nan
        frame = pd.DataFrame({f"c{number}": values * number for number in range(40)})
        frame["text"] = pd.Series([None if number % 3 else "x" * number for number in range(1000)], dtype="str")
        pd.testing.assert_frame_equal(parquet_of(frame).to_pandas(), frame)

    def test_an_index_other_than_a_range_becomes_a_column(self):
        frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
        self.assertEqual(parquet_of(frame).to_pydict(), {"key": ["x", "y"], "a": [1, 2]})
        self.assertEqual(parquet_of(frame, index=False).to_pydict(), {"a": [1, 2]})

    def test_unsupported_files_are_refused(self):
        with self.assertRaisesRegex(ValueError, "compression 'zstd' is not available"):
            parquet.write(pd.DataFrame({"a": [1]}), compression="zstd")
        with self.assertRaisesRegex(ValueError, "must be unique, and these occur more than once: a"):
            parquet.write(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def parquet_of(frame, **options):
    return pq.read_table(io.BytesIO(parquet.write(frame, **options)))


class Rows(unittest.TestCase):
    def test_arrays_and_series_are_lists(self):
        self.assertEqual(frames.list_of_rows(np.array([1, 2])), [1, 2])
        self.assertEqual(frames.list_of_rows(pd.Series(["a"])), ["a"])
        self.assertEqual(frames.list_of_rows(pd.DataFrame(index=[1, 2])), [])
        self.assertEqual([str(row) for row in frames.list_of_rows(np.array([[1.5, 2.0]]))], ["[1.5 2. ]"])


if __name__ == "__main__":
    unittest.main()
