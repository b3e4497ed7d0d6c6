"""Runs an entry script once in this Python process, without a sandbox: `python -m sandmill.test score.py FILE...`.

The files are one mini-batch. `run` receives their paths or, with `--table`, their rows as one table (CSV,
Parquet or Arrow). The command prints
the rows that Sandmill would write. What the script logs and prints goes to standard error. You can use a
debugger. The script can import all packages of this Python, but the sandbox may not have them: `sandmill check
score.py` shows which imports are missing there.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, List, Optional, Sequence

from . import _needs
from ._shared import _door, _results, _script
from ._shared._table import Table

# The modules of Azure's SDK, for scripts that import them. While a script runs, the folder is at the end of
# `sys.path`, so that installed packages come first.
_SCRIPT_SIDE = str(Path(__file__).resolve().parent / "_script_side")


class _NativeDoor(_door.Door):
    """Replaces the host in a test. Has its own folders, and writes the log to standard error."""

    def __init__(self, source: Path, folder: Path) -> None:
        self._source = source
        self._folder = folder
        for name in ("logs", "output"):
            (folder / name).mkdir(exist_ok=True)

    def agent_name(self) -> str:
        return "process000"

    def node_id(self) -> str:
        return "0"

    def log_dir(self) -> str:
        return str(self._folder / "logs")

    def output_dir(self) -> str:
        return str(self._folder / "output")

    def source_dir(self) -> str:
        return str(self._source)

    def log(self, level: int, text: str) -> None:
        print(f"{logging.getLevelName(level)} {text}", file=sys.stderr, flush=True)

    def read(self, path: Any) -> bytes:
        return Path(os.fspath(path)).read_bytes()

    def model_names(self) -> List[str]:
        return []

    def load_model(self, name: str) -> Any:
        from ._shared.models import ModelError

        raise ModelError(f"there is no model {name}: only Sandmill runs models; try the script with sandmill check --run --model")


def _arguments(given: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandmill.test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", help="the entry script")
    parser.add_argument("files", nargs="*", metavar="FILE", help="the mini-batch")
    parser.add_argument("--table", action="store_true", help="pass the rows of the files to run, as a table")
    parser.add_argument(
        "--as",
        dest="kind",
        choices=["sandmill", "pandas"],
        default="sandmill",
        help="the type of the table: a sandmill.Table, as in the light runtime, or a pandas DataFrame",
    )
    parser.add_argument("--arg", action="append", default=[], metavar="ARG", help="an argument of the entry script; may be given many times")
    return parser.parse_args(given)


def _read(path: str) -> Any:
    """Reads a file as a `pyarrow.Table`."""
    from ._results import as_arrow

    return as_arrow(Path(path))


def _mini_batch(files: List[str], is_table: bool, kind: str) -> Any:
    if not is_table:
        return files or None
    pyarrow = _needs.pyarrow()

    table = pyarrow.concat_tables([_read(path) for path in files], promote_options="default")
    if kind == "pandas":
        return table.to_pandas()
    return Table({name: column.to_pylist() for name, column in zip(table.column_names, table.columns)})


def _rows(result: Any) -> List[str]:
    """The rows that Sandmill would write as text."""
    columns = _results.table_of(result)
    if columns is None and hasattr(result, "itertuples"):
        columns = {str(name): result[name].tolist() for name in result.columns}
    if columns is not None:
        return [" ".join(_field(value) for value in row) for row in zip(*columns.values())]
    rows = _results.rows_of(result)
    for number, row in enumerate(rows):
        if isinstance(row, _results.Failed):
            print(f"item {number} failed: {row.reason}", file=sys.stderr)
    good = [row for row in rows if not isinstance(row, _results.Failed)]
    for number, row in enumerate(good):
        if any(end in row.removesuffix("\n").removesuffix("\r") for end in "\r\n"):
            print(
                f"row {number} (counted from 0) holds a line break; a job accepts it only if its output is Parquet or Arrow",
                file=sys.stderr,
            )
            break
    return good


def _field(value: Any) -> str:
    if value is None:
        return ""
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    if any(character in text for character in ' "\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def try_script(script: str, files: Sequence[str], *, table: bool = False, kind: str = "sandmill", arguments: Sequence[str] = ()) -> List[str]:
    """Runs `init`, `run` on one mini-batch, and `shutdown`. Returns the rows that Sandmill would write.

    `table`: whether `run` receives the rows of the files. `kind`: the type of that table, `sandmill` or
    `pandas`. The results must follow Sandmill's rules. The script is loaded into this Python process. While
    it runs, its folder is the current folder.

    Raises sandmill.ScriptFailed with the script's traceback.
    """
    from ._udf import ScriptFailed

    path = Path(script).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no entry script {script}")
    batch = _mini_batch([os.path.abspath(file) for file in files], table, kind)
    before = (os.getcwd(), sys.argv, sys.path[:], _door.door)
    with tempfile.TemporaryDirectory(prefix="sandmill-test-") as folder:
        _door.door = _NativeDoor(path.parent, Path(folder))
        sys.argv = [str(path), *arguments]
        sys.path.append(_SCRIPT_SIDE)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                loaded = _script.Script(str(path), "INFO")
                loaded.init()
                result = loaded.run(batch, _script.Context(0, "test", 1, []))
                rows = _rows(result)
                loaded.shutdown()
            return rows
        except (_script.ScriptError, _results.BadResult) as error:
            raise ScriptFailed(str(error)) from None
        finally:
            folder_before, sys.argv, sys.path[:], _door.door = before
            os.chdir(folder_before)


def main(given: Optional[Sequence[str]] = None) -> int:
    """Runs the command line. Returns the exit status."""
    arguments = _arguments(given)
    from ._binary import SandmillError

    try:
        rows = try_script(arguments.script, arguments.files, table=arguments.table, kind=arguments.kind, arguments=arguments.arg)
    except (SandmillError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 42 if isinstance(error, SandmillError) else 2
    for row in rows:
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
