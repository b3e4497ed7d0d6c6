"""Writes Parquet and Arrow files with pyarrow and pandas, and compares them with the tables that a guest received.

columnar.py make FOLDER               writes a file FOLDER/NAME/t.FORMAT for each case, and prints `NAME FORMAT`
columnar.py compare FOLDER DUMPED     compares DUMPED/NAME/*.arrow with the tables that pyarrow reads, and
                                      prints a line for each case. Exits with 1 if a table differs
"""

import datetime
import decimal
import pathlib
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

ROWS = 1000


def with_nulls(values, step=7):
    return [None if i % step == 3 else value for i, value in enumerate(values)]


def common_table():
    """Columns that Parquet files and Arrow files can hold."""
    n = range(ROWS)
    columns = {}
    for bits in (8, 16, 32, 64):
        top = 1 << (bits - 1)
        signed = [(i * 7919 * 104729) % (2 * top) - top for i in n]
        columns[f"int{bits}"] = pa.array(with_nulls(signed), getattr(pa, f"int{bits}")())
        unsigned = [value + top for value in signed]
        columns[f"uint{bits}"] = pa.array(with_nulls(unsigned), getattr(pa, f"uint{bits}")())
    floats = [(i - 500) / 3 for i in n]
    floats[:4] = [float("nan"), float("inf"), float("-inf"), -0.0]
    columns["float16"] = pa.array(floats, pa.float16())
    columns["float32"] = pa.array(with_nulls(floats), pa.float32())
    columns["float64"] = pa.array(with_nulls(floats), pa.float64())
    columns["bool"] = pa.array(with_nulls([i % 3 == 0 for i in n]))
    texts = with_nulls(["", "ä", "line\nend", "quote\"", "a" * 40][i % 5] + str(i % 90) for i in n)
    columns["string"] = pa.array(texts)
    columns["large_string"] = pa.array(texts, pa.large_string())
    columns["string_view"] = pa.array(texts, pa.string_view())
    binary = [None if text is None else text.encode() + b"\xff\0" for text in texts]
    columns["binary"] = pa.array(binary)
    columns["large_binary"] = pa.array(binary, pa.large_binary())
    columns["binary_view"] = pa.array(binary, pa.binary_view())
    columns["fixed"] = pa.array(with_nulls([i.to_bytes(4, "big") for i in n]), pa.binary(4))
    columns["key"] = pa.array([f"k{i % 12}" if i % 5 else None for i in n]).dictionary_encode()
    columns["date32"] = pa.array(with_nulls(range(-500, 500)), pa.date32())
    columns["date64"] = pa.array(with_nulls(i * 86400000 for i in n), pa.date64())
    columns["time32s"] = pa.array(with_nulls(n), pa.time32("s"))
    columns["time32ms"] = pa.array(with_nulls(n), pa.time32("ms"))
    columns["time64us"] = pa.array(with_nulls(n), pa.time64("us"))
    columns["time64ns"] = pa.array(with_nulls(n), pa.time64("ns"))
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Oslo", "+02:00"):
            kind = pa.timestamp(unit, zone)
            # Old formats have no nanoseconds, so all times are whole microseconds.
            step = 86399000 if unit == "ns" else 86399
            values = pa.array(with_nulls((i - 500) * step for i in n), pa.int64())
            columns[f"at_{unit}_{zone}"] = values.cast(kind)
        columns[f"took_{unit}"] = pa.array(with_nulls(n), pa.duration(unit))
    for bits, digits in ((32, 9), (64, 18), (128, 38), (256, 70)):
        kind = getattr(pa, f"decimal{bits}")(digits, 3)
        values = with_nulls(decimal.Decimal(i * 997 - 400000) / 1000 for i in n)
        columns[f"decimal{bits}"] = pa.array(values, kind)
    lists = with_nulls([None if j == 1 else j for j in range(i % 4)] for i in n)
    columns["list"] = pa.array(lists, pa.list_(pa.int64()))
    columns["large_list"] = pa.array(lists, pa.large_list(pa.int32()))
    columns["fixed_list"] = pa.array([[i, i + 1] for i in n], pa.list_(pa.int16(), 2))
    structs = with_nulls({"x": i / 2, "name": str(i) if i % 3 else None} for i in n)
    columns["struct"] = pa.array(structs)
    deep = with_nulls([{"at": i, "tags": [str(j) for j in range(i % 3)]}] * (i % 3) for i in n)
    columns["deep"] = pa.array(deep)
    columns["map"] = pa.array([[(f"k{j}", j) for j in range(i % 4)] for i in n],
                              pa.map_(pa.string(), pa.int32()))
    columns["null"] = pa.nulls(ROWS)
    table = pa.table(columns)
    # A column that is not nullable.
    must = pa.field("must", pa.int64(), nullable=False)
    return table.append_column(must, pa.array(n, pa.int64()))


def arrow_only_table():
    """Columns that only Arrow files can hold."""
    n = range(ROWS)
    runs = pa.array([i // 40 for i in n], pa.int32())
    month = pa.array([(i, i, i) for i in n], pa.month_day_nano_interval())
    kinds = pa.array([i % 2 for i in n], pa.int8())
    union = pa.UnionArray.from_sparse(kinds, [pa.array(n, pa.int32()), pa.array([str(i) for i in n])])
    views = pa.array([list(range(i % 4)) for i in n], pa.list_view(pa.int64()))
    return pa.table({
        "runs": pa.compute.run_end_encode(runs),
        "month": month,
        "union": union,
        "views": views,
    })


def pandas_frame():
    """A typical pandas data frame."""
    times = pd.date_range("2026-01-01", periods=ROWS, freq="h", tz="Europe/Oslo")
    return pd.DataFrame({
        "x": [i / 3 for i in range(ROWS)],
        "n": pd.array(with_nulls(range(ROWS)), dtype="Int64"),
        "text": [f"text {i}" for i in range(ROWS)],
        "category": pd.Categorical([f"c{i % 5}" for i in range(ROWS)]),
    }, index=times)


def write_batches(sink, table, size):
    with sink as writer:
        for batch in table.to_batches(max_chunksize=size):
            writer.write_batch(batch)


def make(folder):
    names = []

    def case(name, kind):
        """Makes the folder of a case. Returns the path of the file to write."""
        names.append((name, kind))
        path = folder / name
        path.mkdir(parents=True)
        return str(path / f"t.{kind}")

    table = common_table()
    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        for page in ("1.0", "2.0"):
            name = f"codec_{codec}_{page[0]}"
            pq.write_table(table, case(name, "parquet"), compression=codec, row_group_size=300,
                           data_page_version=page, data_page_size=2000)
    for version in ("1.0", "2.4", "2.6"):
        # The oldest version lacks some units and types.
        old = table.drop([name for name in table.column_names if version == "1.0" and name == "uint32"])
        pq.write_table(old, case(f"version_{version[0]}{version[2]}", "parquet"), version=version,
                       row_group_size=250)
    pq.write_table(table, case("one_group", "parquet"), data_page_size=500, write_batch_size=10)
    pq.write_table(table, case("with_index", "parquet"), write_page_index=True, data_page_size=500)
    pq.write_table(table, case("small_groups", "parquet"), row_group_size=7)
    pq.write_table(table, case("no_dictionary", "parquet"), use_dictionary=False)
    pq.write_table(table, case("no_arrow_schema", "parquet"), store_schema=False)
    pq.write_table(table, case("no_statistics", "parquet"), write_statistics=False)
    some = table.select(["int32", "int64", "string", "binary", "float64", "fixed"])
    encodings = {
        "int32": "DELTA_BINARY_PACKED", "int64": "BYTE_STREAM_SPLIT", "string": "DELTA_BYTE_ARRAY",
        "binary": "DELTA_LENGTH_BYTE_ARRAY", "float64": "BYTE_STREAM_SPLIT", "fixed": "BYTE_STREAM_SPLIT",
    }
    pq.write_table(some, case("encodings", "parquet"), use_dictionary=False, column_encoding=encodings)
    times = table.select([name for name in table.column_names if name.startswith("at_")])
    pq.write_table(times, case("int96", "parquet"), use_deprecated_int96_timestamps=True,
                   store_schema=False)
    pandas_frame().to_parquet(case("pandas", "parquet"))
    pandas_frame().reset_index().to_feather(case("pandas_feather", "arrow"))

    for codec in (None, "lz4", "zstd"):
        options = ipc.IpcWriteOptions(compression=codec)
        codec = codec or "none"
        path = case(f"file_{codec}", "arrow")
        write_batches(ipc.new_file(path, table.schema, options=options), table, 300)
        path = case(f"stream_{codec}", "arrow")
        write_batches(ipc.new_stream(path, table.schema, options=options), table, 300)
    write_batches(ipc.new_file(case("odd", "arrow"), arrow_only_table().schema), arrow_only_table(), 300)
    # Dictionaries that grow, and dictionaries that are replaced, within a stream.
    growing = [pa.array(["a", "b"] * 50).dictionary_encode(), pa.array(["c", "a"] * 50).dictionary_encode()]
    growing = pa.table({"key": pa.chunked_array(growing), "n": range(200)})
    for deltas in (True, False):
        options = ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
        path = case("dictionaries_grow" if deltas else "dictionaries_change", "arrow")
        write_batches(ipc.new_stream(path, growing.schema, options=options), growing, None)
    feather.write_feather(table.select(["int32", "string"]), case("feather", "arrow"))
    for name, kind in names:
        print(name, kind)


def with_times_in_utc(table):
    """If a file stores times in another unit than the table had, arrow-rs reads them in UTC, and pyarrow in the
    table's time zone. The times are the same, so convert pyarrow's to UTC."""
    for index, field in enumerate(table.schema):
        unit = field.name.split("_")[1] if field.name.startswith("at_") else None
        if unit and field.type.tz and field.type.unit != unit:
            utc = pa.timestamp(field.type.unit, "UTC")
            table = table.set_column(index, field.name, table[field.name].cast(utc))
    return table


def read(path, kind):
    if kind == "parquet":
        return with_times_in_utc(pq.read_table(path))
    source = pa.memory_map(str(path))
    try:
        return ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        return ipc.open_stream(source).read_all()


def as_read_from_parquet(kind):
    """From Parquet, pyarrow reads the large strings of a dictionary as strings, and dates in milliseconds as
    dates in days, even if the file has the original schema."""
    if kind == pa.date64():
        return pa.date32()
    if pa.types.is_dictionary(kind) and pa.types.is_large_string(kind.value_type):
        return pa.dictionary(kind.index_type, pa.string(), kind.ordered)
    return kind


def difference(expected, tables):
    """Describes the first difference. `None` if the tables are equal."""
    if not tables:
        return "no tables"
    found = pa.concat_tables(tables).unify_dictionaries()
    if found.num_rows != expected.num_rows:
        return f"{found.num_rows} rows instead of {expected.num_rows}"
    if found.column_names != expected.column_names:
        return f"columns {found.column_names} instead of {expected.column_names}"
    for name in expected.column_names:
        one, other = expected.schema.field(name), found.schema.field(name)
        if as_read_from_parquet(one.type) != as_read_from_parquet(other.type) or one.nullable != other.nullable:
            return f"column {name} is {other} instead of {one}"
        # Compare the values as text, because nan does not equal itself.
        if repr(expected[name].to_pylist()) != repr(found[name].to_pylist()):
            return f"column {name} has other values"
        if expected[name].null_count != found[name].null_count:
            return f"column {name} has {found[name].null_count} nulls"
    return None


def compare(folder, dumped):
    differences = 0
    for path in sorted(folder.glob("*/t.*")):
        name, kind = path.parent.name, path.suffix[1:]
        files = sorted((dumped / name).glob("*.arrow"))
        tables = [ipc.open_stream(str(file)).read_all() for file in files]
        expected = read(path, kind)
        wrong = difference(expected, tables)
        differences += wrong is not None
        columns = f"{expected.num_columns} columns"
        print(f"{name}: {wrong or f'{expected.num_rows} rows, {columns}, {len(files)} mini-batches: same'}")
    return differences


def main():
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "make":
        make(folder)
    else:
        sys.exit(1 if compare(folder, pathlib.Path(sys.argv[3])) else 0)


if __name__ == "__main__":
    main()
