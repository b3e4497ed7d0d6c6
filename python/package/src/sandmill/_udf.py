"""Makes a function from an entry script. The function takes and returns tables. It calls a `sandmill map`
process, which each Python process starts for itself."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _needs
from ._binary import SandmillError, program

# A process that was asked to end is killed after this many seconds.
_END_TIMEOUT = 10


class ScriptFailed(SandmillError):
    """The entry script failed, or Sandmill refused it. The text is Sandmill's message."""


class _Process:
    """A running `sandmill map`. Returns a record batch for each record batch."""

    def __init__(self, command: List[str], schema: Any) -> None:
        pyarrow = _needs.pyarrow()

        self.schema = schema
        self._stderr = tempfile.TemporaryFile()
        self._child: Any = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # With its own session, so that Ctrl-C reaches only Python. When Python ends, the child's input
            # ends, and then the child ends.
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
        message = self._stderr_text()
        code = self._child.returncode
        raise ScriptFailed(message.removeprefix("error: ") if message else f"sandmill map ended with exit code {code}, and printed no message") from None

    def _stderr_text(self) -> str:
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
            self._child.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def stop(self) -> None:
        """Kills the process, if it has not ended."""
        self._child.kill()
        self._end()
        self._stderr.close()

    def close(self) -> None:
        """Ends the input stream. The process then calls the script's `shutdown`, and ends. Raises ScriptFailed
        if `shutdown` fails."""
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
        # The ID of the Python process that started the processes.
        self._owner = 0
        self._by_command: Dict[Tuple[str, ...], _Process] = {}
        self._lock = threading.Lock()

    def map(self, command: List[str], batch: Any) -> Any:
        with self._lock:
            if self._owner != os.getpid():
                # After a fork, the processes belong to the parent. Do not use them.
                self._by_command, self._owner = {}, os.getpid()
            key = tuple(command)
            process = self._by_command.get(key)
            if process is not None and not process.schema.equals(batch.schema):
                self._by_command.pop(key).close()
                process = None
            if process is None:
                process = self._by_command[key] = _Process(command, batch.schema)
            try:
                return process.map(batch)
            except BaseException:
                # The process may have read only a part of the table, so it cannot be used again.
                self._by_command.pop(key).stop()
                raise

    def close(self, command: Optional[List[str]] = None) -> None:
        with self._lock:
            if self._owner != os.getpid():
                return
            keys = list(self._by_command) if command is None else [tuple(command)]
            for key in keys:
                process = self._by_command.pop(key, None)
                if process is not None:
                    process.close()

    def close_quietly(self) -> None:
        try:
            self.close()
        except SandmillError:
            pass


_processes = _Processes()
atexit.register(_processes.close_quietly)


class Udf:
    """A function that runs an entry script on tables. `udf` makes it. It can be pickled: a process
    that calls the function starts its own `sandmill map`."""

    def __init__(self, script: str, options: Sequence[str]) -> None:
        self.script = script
        self._options = list(options)

    def _command(self) -> List[str]:
        return [program(), "map", self.script, *self._options]

    def __call__(self, table: Any) -> Any:
        """Runs the script on a table: a `pyarrow.Table`, a `RecordBatch` or a pandas `DataFrame`. Returns a table
        of the same type.

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
            f"expected a pyarrow.Table, a RecordBatch or a DataFrame; found a {type(table).__name__}"
            ' (in Ray, use map_batches(..., batch_format="pyarrow"))'
        )

    def _batch(self, batch: Any) -> Any:
        pyarrow = _needs.pyarrow()

        if batch.num_rows == 0:
            return pyarrow.RecordBatch.from_pydict({})
        return _processes.map(self._command(), batch)

    def _table(self, table: Any) -> Any:
        pyarrow = _needs.pyarrow()

        # The chunks of a table become one mini-batch.
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
        """Calls the script's `shutdown`, and ends the `sandmill map` process that this Python process started.

        The next call of the function starts another process. Without `close`, the process ends when this Python
        process ends. Raises ScriptFailed if `shutdown` fails.
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
    """Makes a function from an entry script. The function takes and returns tables.

    `script`: a Python script, a component or the folder of a guest crate. Each machine must have it at this
    path. `runtime`: only for a Python script. With "science" or "auto", `run` receives a pandas DataFrame; with
    "light", a `sandmill.Table`. `arguments`: the script's command line. `side_inputs`: a dict of names to
    folders, which the script sees at /side_inputs/NAME. `models`: a dict of names to ONNX models. `environment`: the script's
    environment variables. `timeout`: the maximum seconds for one call. `error_threshold`: the number of rows
    that the script may report as failed before its process ends, or -1 for any number. `options`:
    further options of `sandmill map`.

    Raises FileNotFoundError if the script does not exist.
    """
    path = os.path.abspath(os.fspath(script))
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no entry script {path}")
    command_options = [f"--runtime={runtime}", f"--timeout={int(timeout)}", f"--error-threshold={int(error_threshold)}"]
    command_options += [f"--arg={argument}" for argument in arguments]
    command_options += [f"--side-input={name}={os.path.abspath(folder)}" for name, folder in (side_inputs or {}).items()]
    command_options += [f"--model={name}={os.path.abspath(model)}" for name, model in (models or {}).items()]
    command_options += [f"--env={name}={value}" for name, value in (environment or {}).items()]
    return Udf(path, [*command_options, *options])
