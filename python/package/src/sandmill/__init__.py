"""Sandmill from Python: run jobs, read their results, and score tables with an entry script in Sandmill's
sandbox.

- `run` and `start` run a job file;
- `udf` makes a function from an entry script, for Ray, Spark and pyarrow;
- `sandmill.parallel_run` has Azure's `ParallelRunConfig` and `ParallelRunStep`;
- `python -m sandmill.test score.py FILE...` runs a Python script once, in this Python process;
- an entry script can import `Failed`, `Table`, `models` and `read`.
"""

from ._binary import SandmillError, SandmillNotFound, program
from ._job import Job, JobFailed, run, start
from ._shared import Failed, Table, _door, models, read
from ._udf import ScriptFailed, Udf, udf

__all__ = [
    "Failed",
    "Job",
    "JobFailed",
    "SandmillError",
    "SandmillNotFound",
    "ScriptFailed",
    "Table",
    "Udf",
    "models",
    "program",
    "read",
    "run",
    "start",
    "udf",
]
