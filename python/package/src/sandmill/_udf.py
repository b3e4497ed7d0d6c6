"""An entry script as a function of tables: one `sandmill map` process for each Python process."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _needs
from ._binary import SandmillError, program

# A process that was asked to end has this many seconds to do so.
_ENDING = 10


class ScriptFailed(SandmillError):
    """The entry script failed, or was refused. Its text is Sandmill's own words."""


class _Process:
    """A running `sandmill map`. Record batches go in one by one, and come back one by one."""

    def __init__(self, command: List[str], schema: Any) -> None:
        pyarrow = _needs.pyarrow()

        self.schema = schema
        self._said = tempfile.TemporaryFile()
        self._child: Any = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            # Ctrl-C reaches Python alone. The end of Python ends the stream, and that the process.
            start_new_session=True,
        )
        self._reader: Any = None
        try:
            self._writer = pyarrow.ipc.new_stream(self._child.stdin, schema)
        except OSError:
            self._fail()

    def map(self, batch: Any) -> Any:
        pyarrow = _needs.pyarrow()

        try:
            self._writer.write_batch(batch)
            self._child.stdin.flush()
            if self._reader is None:
                self._reader = pyarrow.ipc.open_stream(self._child.stdout)
            return self._reader.read_next_batch()
        except (OSError, StopIteration, pyarrow.ArrowInvalid):
            self._fail()

    def _fail(self) -> None:
        self._end()
        said = self._words()
        code = self._child.returncode
        raise ScriptFailed(said.removeprefix("error: ") if said else f"sandmill map ended with {code}, without a word") from None

    def _words(self) -> str:
        with self._said as said:
            said.seek(0)
            return said.read().decode("utf-8", "replace").strip()

    def _end(self) -> None:
        for stream in (self._child.stdin, self._child.stdout):
            try:
                stream.close()
            except OSError:
                pass
        try:
            self._child.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def stop(self) -> None:
        """Ends the process at once, if it has not ended."""
        self._child.kill()
        self._end()
        self._said.close()

    def close(self) -> None:
        """Ends the stream, and the process after the script's `shutdown`. Raises ScriptFailed where that fails."""
        try:
            self._writer.close()
            self._child.stdin.close()
            # The mark of the end comes once `shutdown` is done.
            self._child.stdout.read()
        except OSError:
            pass
        self._end()
        if self._child.returncode != 0:
            self._fail()
        self._said.close()


class _Processes:
    """The processes of this Python process, one for each way to start one."""

    def __init__(self) -> None:
        self._of = 0
        self._all: Dict[Tuple[str, ...], _Process] = {}
        self._lock = threading.Lock()

    def map(self, command: List[str], batch: Any) -> Any:
        with self._lock:
            if self._of != os.getpid():
                # A fork has its parent's processes, which are not its own.
                self._all, self._of = {}, os.getpid()
            key = tuple(command)
            found = self._all.get(key)
            if found is not None and not found.schema.equals(batch.schema):
                self._all.pop(key).close()
                found = None
            if found is None:
                found = self._all[key] = _Process(command, batch.schema)
            try:
                return found.map(batch)
            except BaseException:
                # In the middle of a table no other can follow.
                self._all.pop(key).stop()
                raise

    def close(self, command: Optional[List[str]] = None) -> None:
        with self._lock:
            if self._of != os.getpid():
                return
            keys = list(self._all) if command is None else [tuple(command)]
            for key in keys:
                found = self._all.pop(key, None)
                if found is not None:
                    found.close()

    def close_quietly(self) -> None:
        try:
            self.close()
        except SandmillError:
            pass


_processes = _Processes()
atexit.register(_processes.close_quietly)


class Udf:
    """An entry script as a function of tables. Made by `udf`; can be pickled, and starts its process where it is called."""

    def __init__(self, script: str, options: Sequence[str]) -> None:
        self.script = script
        self._options = list(options)

    def _command(self) -> List[str]:
        return [program(), "map", self.script, *self._options]

    def __call__(self, table: Any) -> Any:
        """What the script makes of a table: a `pyarrow.Table` for one, a `RecordBatch` for one, a pandas `DataFrame` for one.

        For Ray: `dataset.map_batches(udf, batch_format="pyarrow")`. Raises ScriptFailed.
        """
        pyarrow = _needs.pyarrow()

        if isinstance(table, pyarrow.RecordBatch):
            return self._batch(table)
        if isinstance(table, pyarrow.Table):
            return self._table(table)
        if hasattr(table, "iloc"):
            return self._table(pyarrow.Table.from_pandas(table, preserve_index=False)).to_pandas()
        raise TypeError(
            f"a table is needed, and this is a {type(table).__name__}: give a pyarrow.Table, a RecordBatch or a DataFrame"
            ' (of Ray: map_batches(..., batch_format="pyarrow"))'
        )

    def _batch(self, batch: Any) -> Any:
        pyarrow = _needs.pyarrow()

        if batch.num_rows == 0:
            return pyarrow.RecordBatch.from_pydict({})
        return _processes.map(self._command(), batch)

    def _table(self, table: Any) -> Any:
        pyarrow = _needs.pyarrow()

        # What comes in chunks is one mini-batch all the same.
        batches = [batch for batch in table.combine_chunks().to_batches() if batch.num_rows > 0]
        if not batches:
            return pyarrow.table({})
        return pyarrow.Table.from_batches([self._batch(batch) for batch in batches])

    def map_in_arrow(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What the script makes of each record batch: for Spark's `DataFrame.mapInArrow(udf.map_in_arrow, schema)`."""
        for batch in batches:
            if batch.num_rows > 0:
                yield self._batch(batch)

    def close(self) -> None:
        """Ends the process that this Python process has for the script, after its `shutdown`.

        The next call starts another. Without it, the process ends when this Python does. Raises ScriptFailed where
        `shutdown` fails.
        """
        _processes.close(self._command())

    def __enter__(self) -> "Udf":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"sandmill.udf({self.script!r})"


def udf(
    script: "str | os.PathLike[str]",
    *,
    runtime: str = "auto",
    arguments: Sequence[str] = (),
    side_inputs: Optional[Mapping[str, Any]] = None,
    models: Optional[Mapping[str, Any]] = None,
    environment: Optional[Mapping[str, str]] = None,
    timeout: int = 60,
    error_threshold: int = 0,
    options: Sequence[str] = (),
) -> Udf:
    """Makes a function of an entry script, for tables.

    `script`: a Python script, a component or a guest crate's folder, which each machine must have at this path.
    `runtime`: of a Python script; "science", or "auto", gives `run` a pandas DataFrame, "light" a `sandmill.Table`.
    `arguments`: its command line. `side_inputs`: names of folders that it sees at /side_inputs/NAME. `models`: names of
    ONNX models. `environment`: its environment variables. `timeout`: the most seconds of a call. `error_threshold`:
    rows that may fail by the script's own word in the life of its process, -1 for any number. `options`: more options of
    `sandmill map`.

    Raises FileNotFoundError where there is no such script.
    """
    path = os.path.abspath(os.fspath(script))
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no entry script {path}")
    given = [f"--runtime={runtime}", f"--timeout={int(timeout)}", f"--error-threshold={int(error_threshold)}"]
    given += [f"--arg={argument}" for argument in arguments]
    given += [f"--side-input={name}={os.path.abspath(folder)}" for name, folder in (side_inputs or {}).items()]
    given += [f"--model={name}={os.path.abspath(model)}" for name, model in (models or {}).items()]
    given += [f"--env={name}={value}" for name, value in (environment or {}).items()]
    return Udf(path, [*given, *options])
