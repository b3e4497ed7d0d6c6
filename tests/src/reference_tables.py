"""Makes tables with columns of every type, and checks that an output file of Sandmill has their rows. The check reads
the file with pyarrow and pandas, which are the reference.

    reference_tables.py make FOLDER COUNT [parquet]  makes COUNT files FOLDER/N.txt, each a table as an Arrow IPC
                                                     stream; with parquet, only types that Parquet has
    reference_tables.py check FILE FOLDER            checks that FILE has the rows of all files in FOLDER
"""

import datetime as dt
import decimal
import glob
import os
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ["red", "blue", "gr\u00fcn", "", "two\nlines"]


def table(number, output_format):
    ids = list(range(number * 5, number * 5 + 5))
    with_nulls = lambda values: [None if (i + number) % 3 == 0 else v for i, v in zip(ids, values)]
    day = dt.date(1970, 1, 1)
    moment = dt.datetime(2026, 11, 21, 10, 30, 15, 123456)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "z_first_in_order": pa.array(with_nulls([i % 7 for i in ids]), pa.int8()),
        "uint64": pa.array(with_nulls([2**63 + i for i in ids]), pa.uint64()),
        "half": pa.array(with_nulls([i / 2 for i in ids]), pa.float16()),
        "float": pa.array(with_nulls([i / 3 for i in ids]), pa.float32()),
        "double": pa.array(with_nulls([1e300 / (i + 1) for i in ids]), pa.float64()),
        "bool": pa.array(with_nulls([i % 2 == 0 for i in ids]), pa.bool_()),
        "text": pa.array(with_nulls(WORDS), pa.string()),
        "large": pa.array(with_nulls(WORDS), pa.large_string()),
        "view": pa.array(with_nulls(WORDS), pa.string_view()),
        "bytes": pa.array(with_nulls([bytes([0, 255, i % 256]) for i in ids]), pa.binary()),
        "four": pa.array(with_nulls([i.to_bytes(4, "little") for i in ids]), pa.binary(4)),
        "money": pa.array(with_nulls([decimal.Decimal(i) / 100 for i in ids]), pa.decimal128(20, 4)),
        "big": pa.array(with_nulls([decimal.Decimal(10) ** 40 + i for i in ids]), pa.decimal256(60, 2)),
        "day": pa.array(with_nulls([day + dt.timedelta(i * 1000) for i in ids]), pa.date32()),
        "time": pa.array(with_nulls([dt.time(1, 2, 3, i) for i in ids]), pa.time64("us")),
        "when": pa.array(with_nulls([moment + dt.timedelta(i) for i in ids]), pa.timestamp("us")),
        "zoned": pa.array(
            with_nulls([moment + dt.timedelta(i) for i in ids]), pa.timestamp("ms", "Europe/Berlin")
        ),
        "nanos": pa.array(with_nulls([10**18 + i for i in ids]), pa.timestamp("ns")),
        "word": pa.DictionaryArray.from_arrays(
            pa.array(with_nulls([i % 2 for i in range(5)]), pa.int8()), [WORDS[number % 5], f"w{number}"]
        ),
        "list": pa.array(with_nulls([[1, None, i] for i in ids]), pa.list_(pa.int32())),
        "struct": pa.array(
            with_nulls([{"a": i, "b": None if i % 2 else "x"} for i in ids]),
            pa.struct([("a", pa.int16()), ("b", pa.string())]),
        ),
        "map": pa.array(with_nulls([[("k", i), ("l", None)] for i in ids]), pa.map_(pa.string(), pa.int32())),
        "pair": pa.array(with_nulls([[i, i + 1] for i in ids]), pa.list_(pa.int64(), 2)),
    }
    if output_format != "parquet":
        columns["span"] = pa.array(with_nulls([dt.timedelta(seconds=i) for i in ids]), pa.duration("s"))
    return pa.table(columns)


def make(folder, count, output_format=""):
    for number in range(int(count)):
        contents = table(number, output_format)
        with pa.ipc.new_stream(f"{folder}/{number:03}.txt", contents.schema) as stream:
            stream.write_table(contents)


def expected_rows(folder):
    # In an output, the keys of dictionaries have 32 bits.
    tables = [pa.ipc.open_stream(path).read_all() for path in sorted(glob.glob(f"{folder}/*.txt"))]
    fields = []
    for field in tables[0].schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = pa.dictionary(pa.int32(), kind.value_type)
        fields.append(pa.field(field.name, kind))
    schema = pa.schema(fields)
    return pa.concat_tables([part.cast(schema) for part in tables])


def check(path, folder):
    expected = expected_rows(folder)
    if path.endswith(".parquet"):
        found = pq.read_table(path)
        metadata = pq.ParquetFile(path).metadata
        assert metadata.num_rows == expected.num_rows, metadata
    else:
        found = pa.ipc.open_file(path).read_all()
    found.validate(full=True)
    assert found.schema.names == expected.schema.names, found.schema.names
    for field in expected.schema:
        kind = found.schema.field(field.name).type
        assert kind == field.type, f"{field.name}: {kind}, not {field.type}"
    # Rows may come in any order, and not every type can be sorted, so sort by id.
    ids = found["id"].to_pylist()
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for name in expected.schema.names:
        found_values, expected_values = found[name].to_pylist(), expected[name].to_pylist()
        found_values = [found_values[row] for row in order]
        assert found_values == expected_values, f"{name}: {found_values} is not {expected_values}"
        assert found[name].null_count == expected[name].null_count, name
    frame = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_feather(path)
    assert len(frame) == expected.num_rows
    print(f"{found.num_rows} rows, {found.num_columns} columns")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
    # Threads of pyarrow sometimes outlive the interpreter, which then aborts; exit without waiting for them.
    sys.stdout.flush()
    os._exit(0)
