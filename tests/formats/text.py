"""Writes text files with pandas and pyarrow into a folder, with a subfolder for each case. Also prints a line
of JSON for each case, with the columns, types and rows that pyarrow reads from the files.
"""

import gzip
import json
import pathlib
import sys

import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json

ROOT = pathlib.Path(sys.argv[1])
# The names of types: arrow-rs's name for each name in pyarrow.
TYPE_NAMES = {
    "int64": "Int64",
    "double": "Float64",
    "string": "Utf8",
    "large_string": "Utf8",
    "bool": "Boolean",
    "date32[day]": "Date32",
}


def file_path(case, name):
    """The path of a file to write. Makes its folder."""
    path = ROOT / case / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def print_expected(case, table):
    def for_json(value):
        return value.isoformat() if hasattr(value, "isoformat") else value

    rows = [{key: for_json(value) for key, value in row.items()} for row in table.to_pylist()]
    types = [[field.name, TYPE_NAMES.get(str(field.type), str(field.type))] for field in table.schema]
    print(json.dumps({"case": case, "types": types, "rows": rows}, allow_nan=False))


def pandas_frame(count):
    words = ["plain", "two words", "a,b;c\td", 'say "hi"', "two\nlines", "é 漢 😀", " edge ", "NULL", None]
    return pandas.DataFrame(
        {
            "id": range(count),
            "x": [None if i % 7 == 3 else i / 3 - 10 for i in range(count)],
            "on": [i % 3 == 0 for i in range(count)],
            "day": [f"2026-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(count)],
            "text": [words[i % len(words)] for i in range(count)],
            "big": [9223372036854775807 - i for i in range(count)],
        }
    )


def read_csv(data, delimiter=","):
    return pyarrow.csv.read_csv(
        pa.BufferReader(data),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
    )


def csv_cases():
    plain = pandas_frame(500).to_csv(index=False).encode()
    cases = {
        "csv": plain,
        "csv-crlf": pandas_frame(500).drop(columns="text").to_csv(index=False, lineterminator="\r\n").encode(),
        "csv-cr": pandas_frame(500).drop(columns="text").to_csv(index=False, lineterminator="\r").encode(),
        "csv-bom": b"\xef\xbb\xbf" + plain,
        "csv-no-end": plain.rstrip(b"\n"),
        "csv-huge-field": b'id,text\n1,"' + b"x\n" * 100_000 + b'"\n2,b\n',
    }
    for case, data in cases.items():
        file_path(case, "a.csv").write_bytes(data)
        print_expected(case, read_csv(data))
    data = pandas_frame(500).to_csv(index=False, sep="\t").encode()
    file_path("tsv", "a.tsv").write_bytes(data)
    print_expected("tsv", read_csv(data, "\t"))
    half = len(plain) // 2
    file_path("csv-gz", "a.csv.gz").write_bytes(gzip.compress(plain[:half]) + gzip.compress(plain[half:]))
    print_expected("csv-gz", read_csv(plain))
    with pa.CompressedOutputStream(str(file_path("csv-zst", "a.csv.zst")), "zstd") as out:
        out.write(plain)
    print_expected("csv-zst", read_csv(plain))


def json_cases():
    table = pandas_frame(500)
    table["tags"] = [["a", None, "é"][: i % 4] for i in range(500)]
    table["at"] = [{"lat": i / 2, "names": [str(i)]} if i % 5 else None for i in range(500)]
    rows = json.loads(table.to_json(orient="records"))
    lines = [json.dumps(row, ensure_ascii=index % 2 == 0) for index, row in enumerate(rows)]
    # Some lines lack a key.
    lines += ['{"id": 500, "text": "\\u0041\\/\\b\\f"}', '{"x": 1e3, "id": -0}', '{ "id" : 7 }']
    cases = {
        "jsonl": "\n".join(lines) + "\n",
        "jsonl-crlf": "\r\n".join(lines),
        "jsonl-blank": "\n\n".join(lines) + "\n\n",
    }
    for case, text in cases.items():
        file_path(case, "a.jsonl").write_text(text, newline="")
        options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([("day", pa.string())]), unexpected_field_behavior="infer"
        )
        print_expected(case, pyarrow.json.read_json(pa.BufferReader(text.encode()), parse_options=options))
    data = cases["jsonl"].encode()
    file_path("jsonl-gz", "a.jsonl.gz").write_bytes(gzip.compress(data))
    print_expected("jsonl-gz", pyarrow.json.read_json(pa.BufferReader(data), parse_options=options))


def hive_case():
    table = pandas_frame(40).drop(columns=["text"])
    table["city"] = [["São Paulo", "a/b", "x=y"][i % 3] for i in range(40)]
    table = pa.Table.from_pandas(table, preserve_index=False)
    folder = ROOT / "hive"
    pa.dataset.write_dataset(
        table, folder, format="csv", partitioning=["city"], partitioning_flavor="hive"
    )
    city = pa.schema([("city", pa.string())])
    day = table.schema.get_field_index("day")
    known = pa.dataset.dataset(
        folder,
        format="csv",
        schema=table.schema.set(day, pa.field("day", pa.date32())),
        partitioning=pa.dataset.partitioning(city, flavor="hive"),
    )
    print_expected("hive", known.to_table().sort_by("id"))


csv_cases()
json_cases()
hive_case()
