"""Reads the output of a job."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Iterator, List

from . import _needs
from ._binary import SandmillError

# The formats that are recognized by the first bytes of a file.
_FORMATS = {b"PAR1": "parquet", b"ARRO": "arrow", b"\xff\xff\xff\xff": "Arrow stream"}


def _files(output: Path) -> List[Path]:
    if not output.is_dir():
        return [output]
    return sorted(path for path in output.rglob("*") if path.is_file())


def _first_bytes(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)


def text_rows(output: Path) -> Iterator[str]:
    """The lines of the output file, or of the files of an output folder."""
    for path in _files(output):
        kind = _FORMATS.get(_first_bytes(path))
        if kind is not None:
            raise SandmillError(f"{path} is a {kind} file, which has no lines: use to_arrow() or to_pandas()")
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line[:-1] if line.endswith("\n") else line


def as_arrow(output: Path, **options: Any) -> Any:
    """A `pyarrow.Table` of the output file, or of the files of an output folder."""
    pyarrow = _needs.pyarrow()

    tables = [_table(path, options) for path in _files(output)]
    if not tables:
        return pyarrow.table({})
    return tables[0] if len(tables) == 1 else pyarrow.concat_tables(tables, promote_options="default")


def _table(path: Path, options: dict) -> Any:
    pyarrow = _needs.pyarrow()

    kind = _FORMATS.get(_first_bytes(path))
    suffixes = path.suffixes
    if kind == "parquet":
        from pyarrow import parquet as reader

        return reader.read_table(path)
    if kind == "arrow":
        with pyarrow.memory_map(str(path)) as source:
            return pyarrow.ipc.open_file(source).read_all()
    if kind == "Arrow stream":
        with pyarrow.memory_map(str(path)) as source:
            return pyarrow.ipc.open_stream(source).read_all()
    if ".csv" in suffixes:
        from pyarrow import csv as reader

        return reader.read_csv(path, **options)
    if ".jsonl" in suffixes or ".json" in suffixes:
        from pyarrow import json as reader

        return reader.read_json(path, **options)
    return pyarrow.table({"value": pyarrow.array(list(text_rows(path)), pyarrow.string())})
