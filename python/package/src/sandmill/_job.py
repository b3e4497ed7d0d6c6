"""Jobs: started, followed, and their results."""

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

# Lines of what Sandmill says that are kept for an error.
_KEPT = 200


class JobFailed(SandmillError):
    """A job that did not complete. Its text is what Sandmill said of it.

    `job`: the job, with `state` and `job_dir` where it began. `exit_code`: 2 where nothing was run, 42 where the job
    failed, 130 where it was cancelled.
    """

    def __init__(self, text: str, job: "Job", exit_code: int) -> None:
        super().__init__(text)
        self.job = job
        self.exit_code = exit_code

    def __reduce__(self) -> "tuple[object, ...]":
        # In another process there is the text alone: a job cannot be sent there.
        return SandmillError, (str(self),)


class Job:
    """A job that was started. Made by `run` and `start`."""

    def __init__(self, command: List[str], cwd: Optional[PathLike], env: Optional[Mapping[str, str]], quiet: bool) -> None:
        self._summary: Optional[dict] = None
        self._said: "deque[str]" = deque(maxlen=_KEPT)
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
            # Ctrl-C reaches Python alone, which asks the job to end, once.
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, name="sandmill", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace").rstrip("\n")
            self._said.append(text)
            if not self._quiet:
                print(text, file=sys.stderr, flush=True)

    def _lines(self) -> Iterator[dict]:
        """The events that come; the last line of all is kept as the summary."""
        for line in self._process.stdout:
            value = json.loads(line)
            if "kind" in value:
                yield value
            else:
                self._summary = value

    def events(self) -> Iterator[dict]:
        """The job's events, each a dict as in `logs/sys/events.jsonl`.

        While the job runs they come as they happen, once; a job whose events are not read waits for its reader in the
        end, so read them to the end, or call `wait`. Afterwards they are read from the job's folder, each time anew.
        """
        if self._process.stdout.closed or self._summary is not None:
            yield from self._kept_events()
            return
        yield from self._lines()

    def _kept_events(self) -> Iterator[dict]:
        path = self.job_dir / "logs" / "sys" / "events.jsonl"
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    def wait(self) -> "Job":
        """Waits for the end of the job. Returns itself.

        Raises JobFailed where the job did not complete.
        """
        if not self._process.stdout.closed:
            for _ in self._lines():
                pass
            self._process.stdout.close()
        code = self._process.wait()
        self._listener.join()
        self._process.stderr.close()
        if code != 0:
            raise JobFailed(self._words(code), self, code)
        return self

    def _words(self, code: int) -> str:
        said = [line for line in self._said if line.strip()]
        errors = [index for index, line in enumerate(said) if line.startswith("error: ")]
        if errors:
            said = said[errors[0] :]
        text = "\n".join(said[-40:])
        return text or f"sandmill ended with {code}, without a word"

    def cancel(self) -> None:
        """Asks the job to end: what runs is finished, and what is committed is kept. `wait` then raises JobFailed."""
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
    def _known(self) -> dict:
        if self._summary is None:
            raise SandmillError("the job has not ended, or never began; call wait() first")
        return self._summary

    @property
    def name(self) -> str:
        """The job's name."""
        return self._known["job"]

    @property
    def job_dir(self) -> Path:
        """The job's folder, with its output and its logs."""
        return self._folder / self._known["job_dir"]

    @property
    def output(self) -> Path:
        """The output file; the output folder where there is no one file."""
        return self._folder / self._known["output"]

    @property
    def state(self) -> str:
        """`running`, `completed`, `failed` or `cancelled`; `refused` where it never began."""
        if self._process.poll() is None:
            return "running"
        return self._summary["result"]["status"] if self._summary is not None else "refused"

    @property
    def result(self) -> dict:
        """What the job came to, as `sandmill run --json` has it: counts of items, mini-batches and rows, seconds."""
        return self._known["result"]

    @property
    def was_reused(self) -> bool:
        """Whether the result is that of an earlier run, as nothing has changed since."""
        return bool(self._known["reused"])

    def results(self) -> Iterator[str]:
        """The rows of the output, as lines of text. For outputs in text: see `to_arrow` for others."""
        return text_rows(self.output)

    def rows(self) -> List[str]:
        """All rows of the output, as lines of text."""
        return list(self.results())

    def to_arrow(self, **options: Any) -> Any:
        """The output as a `pyarrow.Table`. Needs pyarrow.

        The format follows from the first bytes (Parquet, Arrow) or from the file's name (CSV, JSON lines); text becomes one column,
        `value`. `options` go to pyarrow's reader of CSV or JSON.
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
    """Starts a job, and returns at once. The job goes on if this Python ends; `with sandmill.start(...)` cancels it at the
    block's end.

    `job`: the job file. `job_dir`: the job's folder. `settings`: keys of the job file with other values, as with
    `--set`. `process_count`, `gpus`, `limit`, `overwrite`: the options of `sandmill run`; `reuse`: whether the result of
    an earlier run may be taken. `options`: more options of it. `cwd`: the folder that paths on the command line are
    in. `env`: more environment variables. `quiet`: whether what Sandmill says is left out of standard error.

    Raises SandmillNotFound where the program is not installed.
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

    Ctrl-C finishes the mini-batches that run, a second one stops at once; what is committed is kept, and the same call
    goes on from there.

    Raises JobFailed where the job did not complete, and SandmillNotFound where the program is not installed.
    """
    started = start(job, **options)
    try:
        return started.wait()
    except KeyboardInterrupt:
        # What runs is finished; another Ctrl-C kills it.
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
