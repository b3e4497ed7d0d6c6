"""Starts jobs, follows them, and reads their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Optional, Union

from ._binary import SandmillError, program
from ._results import as_arrow, text_rows

PathLike = Union[str, "os.PathLike[str]"]

# We keep this many of the last lines that Sandmill printed, because an error shows them.
_KEPT_MESSAGES = 200


class JobFailed(SandmillError):
    """A job did not complete. The text is Sandmill's message.

    `job`: the job. It has a `job_dir` if it began. `exit_code`: 2 if nothing was run, 42 if the job failed,
    130 if the job was cancelled.
    """

    def __init__(self, text: str, job: "Job", exit_code: int) -> None:
        super().__init__(text)
        self.job = job
        self.exit_code = exit_code

    def __reduce__(self) -> "tuple[object, ...]":
        # A job cannot be pickled, so in another process the error has only its text.
        return SandmillError, (str(self),)


class Job:
    """A started job. `run` and `start` return one."""

    def __init__(self, command: List[str], cwd: Optional[PathLike], env: Optional[Mapping[str, str]], quiet: bool) -> None:
        self._summary: Optional[dict] = None
        self._messages: "deque[str]" = deque(maxlen=_KEPT_MESSAGES)
        self._quiet = quiet
        self._folder = Path(cwd) if cwd is not None else Path.cwd()
        environment = None if env is None else {**os.environ, **env}
        self._process: Any = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # With its own session, so that Ctrl-C reaches only Python. Python then asks the job to end.
            start_new_session=True,
        )
        self._message_thread = threading.Thread(target=self._copy_messages, name="sandmill", daemon=True)
        self._message_thread.start()

    def _copy_messages(self) -> None:
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace").rstrip("\n")
            self._messages.append(text)
            if not self._quiet:
                print(text, file=sys.stderr, flush=True)

    def _read_events(self) -> Iterator[dict]:
        """Yields the events as they arrive. Keeps the last line of the output, which is the summary."""
        for line in self._process.stdout:
            value = json.loads(line)
            if "kind" in value:
                yield value
            else:
                self._summary = value

    def events(self) -> Iterator[dict]:
        """The job's events, each a dict as in `logs/sys/events.jsonl`.

        While the job runs, each event arrives when it happens, and only once. Read all events or call `wait`:
        otherwise the job blocks when the pipe is full. After the job's end, each call reads the events from the
        job's folder.
        """
        if self._process.stdout.closed or self._summary is not None:
            yield from self._stored_events()
            return
        yield from self._read_events()

    def _stored_events(self) -> Iterator[dict]:
        path = self.job_dir / "logs" / "sys" / "events.jsonl"
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    def wait(self) -> "Job":
        """Waits for the end of the job. Returns the job.

        Raises JobFailed if the job did not complete.
        """
        if not self._process.stdout.closed:
            for _ in self._read_events():
                pass
            self._process.stdout.close()
        code = self._process.wait()
        self._message_thread.join()
        self._process.stderr.close()
        if code != 0:
            raise JobFailed(self._error_text(code), self, code)
        return self

    def _error_text(self, code: int) -> str:
        lines = [line for line in self._messages if line.strip()]
        errors = [index for index, line in enumerate(lines) if line.startswith("error: ")]
        if errors:
            lines = lines[errors[0] :]
        text = "\n".join(lines[-40:])
        return text or f"sandmill ended with exit code {code}, and printed no message"

    def cancel(self) -> None:
        """Asks the job to end. It finishes the running mini-batches and keeps committed results. `wait` then
        raises JobFailed."""
        if self._process.poll() is None:
            self._process.terminate()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.cancel()
            try:
                self.wait()
            except JobFailed:
                pass

    @property
    def _ended_summary(self) -> dict:
        if self._summary is None:
            raise SandmillError("the job has not ended, or it never began; call wait() first")
        return self._summary

    @property
    def name(self) -> str:
        """The job's name."""
        return self._ended_summary["job"]

    @property
    def job_dir(self) -> Path:
        """The job's folder, with its output and its logs."""
        return self._folder / self._ended_summary["job_dir"]

    @property
    def output(self) -> Path:
        """The output file. If the job writes several files, the output folder."""
        return self._folder / self._ended_summary["output"]

    @property
    def state(self) -> str:
        """`running`, `completed`, `failed` or `cancelled`; `refused` if the job never began."""
        if self._process.poll() is None:
            return "running"
        return self._summary["result"]["status"] if self._summary is not None else "refused"

    @property
    def result(self) -> dict:
        """The object `result` that `sandmill run --json` prints: counts of items, mini-batches and rows, and
        seconds."""
        return self._ended_summary["result"]

    @property
    def was_reused(self) -> bool:
        """Whether the job did not run: nothing has changed since an earlier run, so that run's result is used."""
        return bool(self._ended_summary["reused"])

    def results(self) -> Iterator[str]:
        """Iterates over the rows of a text output, as lines. For other outputs see `to_arrow`."""
        return text_rows(self.output)

    def rows(self) -> List[str]:
        """All rows of a text output, as a list of lines."""
        return list(self.results())

    def to_arrow(self, **options: Any) -> Any:
        """The output as a `pyarrow.Table`. Needs pyarrow.

        Parquet and Arrow are recognized by the first bytes, CSV and JSON lines by the file's name. Other text
        becomes one column, `value`. `options` are passed to pyarrow's reader of CSV or JSON.
        """
        return as_arrow(self.output, **options)

    def to_pandas(self, **options: Any) -> Any:
        """The output as a `pandas.DataFrame`. Needs pyarrow and pandas. `options`: as for `to_arrow`."""
        return self.to_arrow(**options).to_pandas()

    def __repr__(self) -> str:
        return f"<sandmill.Job {self.state}>"


def start(
    job: PathLike,
    *,
    job_dir: Optional[PathLike] = None,
    settings: Optional[Mapping[str, Any]] = None,
    process_count: Optional[int] = None,
    gpus: Optional[int] = None,
    limit: Optional[int] = None,
    overwrite: bool = False,
    reuse: bool = True,
    options: Optional[List[str]] = None,
    cwd: Optional[PathLike] = None,
    env: Optional[Mapping[str, str]] = None,
    quiet: bool = False,
) -> Job:
    """Starts a job, and does not wait for it. The job continues if this Python process ends. `with sandmill.start(...)`
    cancels the job at the end of the block.

    `job`: the job file. `job_dir`: the job's folder. `settings`: values that replace those of keys in the job
    file, as with `--set`. `process_count`, `gpus`, `limit`, `overwrite`: as the options of `sandmill run`.
    `reuse`: whether the job may use the result of an earlier run. `options`: further options of `sandmill
    run`. `cwd`: the folder to which relative paths on the command line refer. `env`: additional environment
    variables. `quiet`: do not copy Sandmill's messages to standard error.

    Raises SandmillNotFound if the program is not installed.
    """
    command = [program(), "run", os.fspath(job), "--events", "-", "--json"]
    if job_dir is not None:
        command += ["--job-dir", os.fspath(job_dir)]
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    numbers = {"--process-count": process_count, "--gpus": gpus, "--limit": limit}
    for option, number in numbers.items():
        if number is not None:
            command += [option, str(number)]
    command += ["--overwrite"] * overwrite + ["--no-reuse"] * (not reuse)
    command += [str(option) for option in options or []]
    return Job(command, cwd, env, quiet)


def run(job: PathLike, **options: Any) -> Job:
    """Runs a job to its end. `options` are those of `start`.

    After Ctrl-C, the job finishes the running mini-batches. After a second Ctrl-C, it stops immediately.
    Committed results are kept, and the same call resumes the job.

    Raises JobFailed if the job did not complete, and SandmillNotFound if the program is not installed.
    """
    started = start(job, **options)
    try:
        return started.wait()
    except KeyboardInterrupt:
        # The first `cancel` lets the running mini-batches finish. After another Ctrl-C, the second `cancel`
        # stops them.
        for _ in range(2):
            started.cancel()
            try:
                started.wait()
                break
            except JobFailed:
                break
            except KeyboardInterrupt:
                continue
        raise
