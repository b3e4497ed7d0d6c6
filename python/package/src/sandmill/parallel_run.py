"""Builds jobs with the classes of Azure's ParallelRunStep, and runs them on this machine.

Names, defaults and rules are those of `azureml.pipeline.steps`, if they apply to one machine: see
`docs/parallel-run-step.md`. The constructors check their parameters. A step writes a job file and runs it.
Sandmill then checks everything that the constructors did not check.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ._job import Job, run as _run

_STEP_NAME_PATTERN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SIZE_PATTERN = re.compile(r"\d+([kKmMgG][bB])?")
_ACTIONS = ("append_row", "summary_only")
_LEVELS = ("WARNING", "INFO", "DEBUG")


class PipelineParameter:
    """A value that can be different in each run: `step.run(pipeline_parameters={name: value})`."""

    def __init__(self, name: str, default_value: Any) -> None:
        self.name = name
        self.default_value = default_value

    def __repr__(self) -> str:
        return f"PipelineParameter({self.name!r}, {self.default_value!r})"


class Dataset:
    """Data on this machine or in a store. `Dataset.File` and `Dataset.Tabular` make it.

    `as_named_input` sets the name that the entry script sees. `as_mount` and `as_download` change nothing but the
    path of a side input, because Sandmill reads the data in place.
    """

    def __init__(self, settings: Mapping[str, Any], name: Optional[str] = None) -> None:
        self._settings = dict(settings)
        self.name = name

    @property
    def is_tabular(self) -> bool:
        """Whether the data are tables."""
        return "format" in self._settings

    def as_named_input(self, name: str) -> "Dataset":
        """The same data, with a name."""
        return Dataset(self._settings, name)

    def as_mount(self, path_on_compute: Optional[str] = None) -> "Dataset":
        """The same data. `path_on_compute`: the absolute path at which the entry script sees a side input."""
        if path_on_compute is None:
            return self
        return Dataset({**self._settings, "mount_path": path_on_compute}, self.name)

    as_download = as_mount

    def as_direct(self) -> "Dataset":
        """The same data."""
        return self

    class File:
        """Makes Datasets of files."""

        @staticmethod
        def from_files(path: "str | os.PathLike[str] | Sequence[str]", partition_format: Optional[str] = None) -> "Dataset":
            """Files. `path`: a folder, a file or a pattern, or a list of them. `partition_format`: a template for
            the files' paths."""
            return _dataset({"path": _paths(path)}, partition_format)

    class Tabular:
        """Makes Datasets of tables."""

        @staticmethod
        def from_delimited_files(
            path: "str | os.PathLike[str] | Sequence[str]", separator: str = ",", partition_format: Optional[str] = None
        ) -> "Dataset":
            """A table of delimited text."""
            settings: Dict[str, Any] = {"path": _paths(path), "format": "csv"}
            if separator != ",":
                settings["delimiter"] = separator
            return _dataset(settings, partition_format)

        @staticmethod
        def from_parquet_files(
            path: "str | os.PathLike[str] | Sequence[str]", partition_format: Optional[str] = None
        ) -> "Dataset":
            """A table of Parquet files."""
            return _dataset({"path": _paths(path), "format": "parquet"}, partition_format)

        @staticmethod
        def from_json_lines_files(
            path: "str | os.PathLike[str] | Sequence[str]", partition_format: Optional[str] = None
        ) -> "Dataset":
            """A table of JSON lines."""
            return _dataset({"path": _paths(path), "format": "jsonl"}, partition_format)


def _dataset(settings: Dict[str, Any], partition_format: Optional[str]) -> Dataset:
    if partition_format is not None:
        settings["partition_format"] = partition_format
    return Dataset(settings)


def _paths(path: "str | os.PathLike[str] | Sequence[str]") -> "str | List[str]":
    if isinstance(path, (str, os.PathLike)):
        return _absolute(path)
    return [_absolute(item) for item in path]


def _absolute(path: "str | os.PathLike[str]") -> str:
    text = os.fspath(path)
    # A store's address, or a registered name.
    if "://" in text or text.startswith("azureml:"):
        return text
    return os.path.abspath(text)


class OutputFileDatasetConfig:
    """The place of the results. `destination`: a folder. The default is the job's folder."""

    def __init__(self, name: Optional[str] = None, destination: Any = None, source: Any = None, partition_format: Optional[str] = None) -> None:
        # In Azure, a destination is a tuple of a datastore and a path in this datastore.
        if isinstance(destination, tuple):
            destination = destination[-1]
        self.name = name
        self.destination = None if destination is None else _absolute(destination)
        self.source = source
        self.partition_format = partition_format

    def as_upload(self, overwrite: bool = False, source_globs: Any = None) -> "OutputFileDatasetConfig":
        """The same output, because results are written directly to their destination."""
        return self

    as_mount = as_upload


class ParallelRunConfig:
    """The settings of an entry script. Azure documents the parameters, defaults and rules.

    `environment` and `compute_target` have no effect, and are not written to the job file. Even with a
    `node_count` above 1, the job runs on this machine. As in Azure, these may be a PipelineParameter: `mini_batch_size`,
    `node_count`, `process_count_per_node`, `partition_keys`, `logging_level`, `run_invocation_timeout` and
    `run_max_try`.

    Raises ValueError. The text has the parameter's name, and the values that are allowed.
    """

    def __init__(
        self,
        environment: Any = None,
        entry_script: Optional[str] = None,
        error_threshold: Optional[int] = None,
        output_action: Optional[str] = None,
        compute_target: Any = None,
        node_count: "int | PipelineParameter" = 1,
        process_count_per_node: "int | PipelineParameter | None" = None,
        mini_batch_size: "int | str | PipelineParameter | None" = None,
        source_directory: Optional[str] = None,
        description: Optional[str] = None,
        logging_level: "str | PipelineParameter" = "INFO",
        run_invocation_timeout: "int | PipelineParameter" = 60,
        run_max_try: "int | PipelineParameter" = 3,
        append_row_file_name: Optional[str] = None,
        allowed_failed_count: Optional[int] = None,
        allowed_failed_percent: Optional[float] = None,
        partition_keys: "List[str] | PipelineParameter | None" = None,
        environment_variables: Optional[Mapping[str, str]] = None,
    ) -> None:
        _require(isinstance(entry_script, str) and entry_script.strip(), "entry_script", entry_script, "the path of a script")
        _require(_is_whole(error_threshold, -1), "error_threshold", error_threshold, "a whole number of at least -1; -1 ignores all failures")
        action = output_action.lower() if isinstance(output_action, str) else output_action
        _require(action in _ACTIONS, "output_action", output_action, "append_row or summary_only")
        _require(_value_satisfies(node_count, lambda value: _is_whole(value, 1)), "node_count", node_count, "a whole number of at least 1")
        workers = process_count_per_node
        _require(workers is None or _value_satisfies(workers, lambda value: _is_whole(value, 1)), "process_count_per_node", workers, "a whole number of at least 1")
        _require(mini_batch_size is None or _value_satisfies(mini_batch_size, _is_size), "mini_batch_size", mini_batch_size, "a number of files such as 10, or a size such as 64KB or 1MB")
        _require(_value_satisfies(logging_level, lambda value: str(value).upper() in _LEVELS), "logging_level", logging_level, "WARNING, INFO or DEBUG")
        _require(_value_satisfies(run_invocation_timeout, lambda value: _is_whole(value, 1)), "run_invocation_timeout", run_invocation_timeout, "a whole number of seconds above 0")
        _require(_value_satisfies(run_max_try, lambda value: _is_whole(value, 1)), "run_max_try", run_max_try, "a whole number of at least 1")
        _require(allowed_failed_count is None or _is_whole(allowed_failed_count, -1), "allowed_failed_count", allowed_failed_count, "a whole number of at least -1")
        percent = allowed_failed_percent
        _require(percent is None or isinstance(percent, (int, float)) and 0 <= percent <= 100, "allowed_failed_percent", percent, "a number from 0 to 100")
        _require(partition_keys is None or _value_satisfies(partition_keys, _is_keys), "partition_keys", partition_keys, "a list of texts")
        if partition_keys is not None and mini_batch_size is not None:
            raise ValueError("partition_keys and mini_batch_size are both given: choose one")
        self.environment = environment
        self.compute_target = compute_target
        self.source_directory = source_directory
        self.settings: Dict[str, Any] = {
            "entry_script": str(entry_script).strip(),
            "error_threshold": error_threshold,
            "output_action": action,
            "node_count": node_count,
            "process_count_per_node": process_count_per_node,
            "mini_batch_size": mini_batch_size,
            "source_directory": source_directory,
            "description": description,
            "logging_level": logging_level,
            "run_invocation_timeout": run_invocation_timeout,
            "run_max_try": run_max_try,
            "append_row_file_name": append_row_file_name,
            "allowed_failed_count": allowed_failed_count,
            "allowed_failed_percent": allowed_failed_percent,
            "partition_keys": partition_keys,
            "environment_variables": dict(environment_variables) if environment_variables else None,
        }

    def save_to_yaml(self, path: "str | os.PathLike[str]") -> None:
        """Writes the configuration to a file that `sandmill run` can read after you have added inputs to it."""
        text = json.dumps({"parallel_run_config": self._section({})}, indent=2)
        Path(path).write_text(text + "\n", encoding="utf-8")

    def _section(self, parameters: Mapping[str, Any]) -> Dict[str, Any]:
        section = {key: _resolved(value, parameters) for key, value in self.settings.items() if value is not None}
        if self.source_directory is None:
            section["entry_script"] = os.path.abspath(section["entry_script"])
        else:
            section["source_directory"] = os.path.abspath(self.source_directory)
        if "mini_batch_size" in section:
            section["mini_batch_size"] = str(section["mini_batch_size"])
        return section


class ParallelRunStep:
    """A step of a pipeline, which Sandmill runs as a job. Azure documents the parameters.

    `inputs`: Datasets of one kind (files or tables), or paths of folders. `side_inputs`: Datasets that each
    worker sees as a whole. In `arguments`, a side input is replaced by its path. `output`: an
    OutputFileDatasetConfig, or a path. `settings`: further keys of Sandmill's job file, such as `{"models":
    {"churn": "churn.onnx"}}`.

    Raises ValueError. The text has the parameter's name, and the values that are allowed.
    """

    def __init__(
        self,
        name: str,
        parallel_run_config: ParallelRunConfig,
        inputs: "Sequence[Dataset | str]",
        output: "OutputFileDatasetConfig | str | None" = None,
        side_inputs: "Optional[Sequence[Dataset]]" = None,
        arguments: Optional[Sequence[Any]] = None,
        allow_reuse: bool = True,
        settings: Optional[Mapping[str, Any]] = None,
    ) -> None:
        is_name = isinstance(name, str) and 3 <= len(name) <= 32 and _STEP_NAME_PATTERN.fullmatch(name)
        _require(is_name, "name", name, "3 to 32 of a-z, 0-9 and -, beginning with a letter and not ending with -")
        if not isinstance(parallel_run_config, ParallelRunConfig):
            raise ValueError("parallel_run_config: expected a ParallelRunConfig")
        if isinstance(inputs, (str, Dataset)):
            raise ValueError("inputs: expected a list; put the input into brackets")
        given = [data if isinstance(data, Dataset) else Dataset.File.from_files(data) for data in inputs]
        if not given:
            raise ValueError("inputs: expected at least one")
        if len({dataset.is_tabular for dataset in given}) > 1:
            raise ValueError("inputs: expected only files, or only tables")
        self.name = name
        self.parallel_run_config = parallel_run_config
        self.inputs = _with_names(given, "input")
        self.side_inputs = _with_names(list(side_inputs or []), "side_input")
        for dataset in self.side_inputs:
            if dataset.is_tabular:
                raise ValueError(f"side_inputs: {dataset.name} is a table; expected files (Dataset.File.from_files)")
        self.output = OutputFileDatasetConfig(destination=output) if isinstance(output, (str, os.PathLike)) else output
        self.arguments = list(arguments or [])
        self.allow_reuse = allow_reuse
        self.settings = dict(settings or {})

    def job(self, pipeline_parameters: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        """The job file, as a dict. `pipeline_parameters`: values that replace the defaults of
        PipelineParameters, by name.

        Raises ValueError if the step has no parameter of this name.
        """
        parameters = dict(pipeline_parameters or {})
        values = [*self.parallel_run_config.settings.values(), *self.arguments]
        known = {value.name for value in values if isinstance(value, PipelineParameter)}
        for name in parameters:
            if name not in known:
                shown = ", ".join(sorted(known)) or "none"
                raise ValueError(f"pipeline_parameters: {name} is not a parameter of the step {self.name}; it has: {shown}")
        job: Dict[str, Any] = {
            "name": self.name,
            "parallel_run_config": self.parallel_run_config._section(parameters),
            "inputs": {dataset.name: dataset._settings for dataset in self.inputs},
            "allow_reuse": self.allow_reuse,
        }
        if self.side_inputs:
            job["side_inputs"] = {dataset.name: dataset._settings for dataset in self.side_inputs}
        if self.output is not None and self.output.destination is not None:
            job["output"] = self.output.destination
        if self.arguments:
            job["arguments"] = [self._argument(argument, parameters) for argument in self.arguments]
        script = self.parallel_run_config.settings["entry_script"]
        if script.endswith(".py") and self.inputs[0].is_tabular and "python" not in self.settings:
            job["python"] = {"runtime": "light"}
        return {**job, **self.settings}

    def _argument(self, argument: Any, parameters: Mapping[str, Any]) -> Any:
        if isinstance(argument, Dataset):
            # `as_named_input` makes another object for the same data, so also compare names.
            for group, datasets in (("side_inputs", self.side_inputs), ("inputs", self.inputs)):
                for dataset in datasets:
                    if dataset is argument or (argument.name is not None and dataset.name == argument.name):
                        return f"${{{{{group}.{dataset.name}}}}}"
            raise ValueError(f"arguments: the data {argument.name or ''!r} is neither an input nor a side input of the step")
        if isinstance(argument, OutputFileDatasetConfig):
            return "${{output}}"
        return _resolved(argument, parameters)

    def write(self, path: "str | os.PathLike[str]", pipeline_parameters: Optional[Mapping[str, Any]] = None) -> Path:
        """Writes the job file, for `sandmill run`. Returns its path."""
        target = Path(path)
        target.write_text(json.dumps(self.job(pipeline_parameters), indent=2) + "\n", encoding="utf-8")
        return target

    def run(self, pipeline_parameters: Optional[Mapping[str, Any]] = None, **options: Any) -> Job:
        """Runs the job to its end. Writes the job file `jobs/NAME.yaml` below `cwd`, which is by default the
        current folder. `options`: those of `sandmill.start`.

        Raises JobFailed if the job did not complete.
        """
        folder = Path(options.get("cwd") or ".") / "jobs"
        folder.mkdir(parents=True, exist_ok=True)
        path = self.write(folder / f"{self.name}.yaml", pipeline_parameters)
        return _run(path.absolute(), **options)


def _with_names(datasets: List[Dataset], prefix: str) -> List[Dataset]:
    names = set()
    for number, dataset in enumerate(datasets):
        if dataset.name is None:
            dataset.name = f"{prefix}_{number}"
        if dataset.name in names:
            raise ValueError(f"{prefix}s: two are called {dataset.name}; give them different names (as_named_input)")
        names.add(dataset.name)
    return datasets


def _resolved(value: Any, parameters: Mapping[str, Any]) -> Any:
    if not isinstance(value, PipelineParameter):
        return value
    return parameters.get(value.name, value.default_value)


def _value_satisfies(value: Any, rule: Any) -> bool:
    return bool(rule(value.default_value if isinstance(value, PipelineParameter) else value))


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_size(value: Any) -> bool:
    return _is_whole(value, 1) or isinstance(value, str) and _SIZE_PATTERN.fullmatch(value) is not None


def _is_keys(value: Any) -> bool:
    if isinstance(value, str):
        # The value of a pipeline parameter is the list as JSON text.
        try:
            value = json.loads(value)
        except ValueError:
            return False
    return isinstance(value, list) and bool(value) and all(isinstance(key, str) for key in value)


def _require(is_right: Any, name: str, found: Any, expected: str) -> None:
    if not is_right:
        raise ValueError(f"{name}: expected {expected}; found {found!r}")
