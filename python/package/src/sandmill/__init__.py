"""Sandmill from Python: run jobs, read their results, and score tables with an entry script behind Sandmill's
walls.

- `run` and `start` run a job file;
- `udf` makes a function from an entry script, for Ray, Spark and pyarrow;
- `sandmill.parallel_run` has Azure's `ParallelRunConfig` and `ParallelRunStep`;
- `python -m sandmill.test score.py FILE...` tries a Python script in this Python;
- `Failed`, `Table`, `models` and `read` are what an entry script imports.
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
