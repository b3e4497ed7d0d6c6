"""Makes a function of tables from an entry script. Each Python process has its own `sandmill map` process."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _needs
from ._binary import SandmillError, program

# The seconds that a process has to end after it was asked to.
_ENDING = 10


class ScriptFailed(SandmillError):
    """The entry script failed, or Sandmill refused it. Its text is Sandmill's message."""


class _Process:
    """A running `sandmill map`. It takes record batches one by one, and returns a record batch for each."""

    def __init__(self, command: List[str], schema: Any) -> None:
        pyarrow = _needs.pyarrow()

        self.schema = schema
        self._stderr = tempfile.TemporaryFile()
        self._child: Any = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # In its own session, so that Ctrl-C reaches only Python. When Python ends, the stream ends, and
            # with it the process.
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
        message = self._words()
        code = self._child.returncode
        raise ScriptFailed(message.removeprefix("error: ") if message else f"sandmill map ended with {code}, without a word") from None

    def _words(self) -> str:
        with self._stderr as file:
            file.seek(0)
            return file.read().decode("utf-8", "replace").strip()

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
        self._stderr.close()

    def close(self) -> None:
        """Ends the stream, and so the process, which first calls the script's `shutdown`. Raises ScriptFailed
        if that fails."""
        try:
            self._writer.close()
            self._child.stdin.close()
            # The output ends only after `shutdown`.
            self._child.stdout.read()
        except OSError:
            pass
        self._end()
        if self._child.returncode != 0:
            self._fail()
        self._stderr.close()


class _Processes:
    """The `sandmill map` processes of this Python process, one for each command line."""

    def __init__(self) -> None:
        self._of = 0
        self._all: Dict[Tuple[str, ...], _Process] = {}
        self._lock = threading.Lock()

    def map(self, command: List[str], batch: Any) -> Any:
        with self._lock:
            if self._of != os.getpid():
                # After a fork these are the parent's processes, which this process must not use.
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
                # The process may be in the middle of a table, so it cannot take another one.
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
    """An entry script as a function of tables, made by `udf`. It can be pickled. The process that calls it
    starts `sandmill map`."""

    def __init__(self, script: str, options: Sequence[str]) -> None:
        self.script = script
        self._options = list(options)

    def _command(self) -> List[str]:
        return [program(), "map", self.script, *self._options]

    def __call__(self, table: Any) -> Any:
        """Runs the script on a table. A `pyarrow.Table` returns a `pyarrow.Table`, a `RecordBatch` returns a
        `RecordBatch`, and a pandas `DataFrame` returns a `DataFrame`.

        In Ray: `dataset.map_batches(udf, batch_format="pyarrow")`. Raises ScriptFailed.
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

        # A table in chunks is one mini-batch, too.
        batches = [batch for batch in table.combine_chunks().to_batches() if batch.num_rows > 0]
        if not batches:
            return pyarrow.table({})
        return pyarrow.Table.from_batches([self._batch(batch) for batch in batches])

    def map_in_arrow(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Runs the script on each record batch. In Spark: `DataFrame.mapInArrow(udf.map_in_arrow,
        schema)`."""
        for batch in batches:
            if batch.num_rows > 0:
                yield self._batch(batch)

    def close(self) -> None:
        """Ends the script's process in this Python process, after the script's `shutdown`.

        The next call of the function starts another process. Without `close`, the process ends with this
        Python. Raises ScriptFailed if `shutdown` fails.
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
    """Makes a function of tables from an entry script.

    `script`: a Python script, a component or the folder of a guest crate. Each machine must have it at this
    path. `runtime`: for a Python script. With "science" or "auto", `run` receives a pandas DataFrame; with
    "light", a `sandmill.Table`. `arguments`: the script's command line. `side_inputs`: names to folders,
    which the script sees at /side_inputs/NAME. `models`: names to ONNX models. `environment`: the script's
    environment variables. `timeout`: the most seconds that a call may take. `error_threshold`: the number of
    rows that the script may report as failed during the life of its process; -1 for any number. `options`:
    further options of `sandmill map`.

    Raises FileNotFoundError if the script does not exist.
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
