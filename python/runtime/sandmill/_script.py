"""Loads the user's script from its source folder, and calls it as ParallelRunStep does."""

import contextlib
import importlib.util
import inspect
import logging
import os
import random
import sys
import traceback

from ._folders import import_folders, source_folder
from ._parameters import problem_with_parameters
from ._results import valid

# Tracebacks do not show the stack frames of files in this folder.
_RUNTIME_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LOG_FORMAT = "%(asctime)s|%(levelname)s|%(name)s|%(message)s"


class Context:
    """The second argument of `run`, if `run` takes one."""

    def __init__(self, number, dataset, attempt, partition_key_value):
        self.mini_batch_id = number
        self.minibatch_index = number
        self.dataset = dataset
        self.dataset_name = dataset
        self.attempt = attempt
        self.partition_key_value = dict(partition_key_value)

    def __repr__(self):
        return f"MiniBatchContext(mini_batch_id={self.mini_batch_id}, dataset={self.dataset!r})"


class ScriptError(Exception):
    """An error of the script. The text is what the host receives: the reason on the first line, then the
    traceback."""


class Script:
    """A loaded script."""

    def __init__(self, path, logging_level, profile=None):
        self.path = path
        self._profile = profile
        self._prepare(logging_level)
        self._module = self._call(self._load)
        self._run = self._call(self._find_run)
        self._takes_context = _takes_second_argument(self._run)

    def _prepare(self, logging_level):
        # The runtime is a snapshot, so without a seed all workers would get the same numbers.
        random.seed()
        for stream in (sys.stdout, sys.stderr):
            # Write each line immediately, because the process may be killed.
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        logging.basicConfig(stream=sys.stdout, level=logging_level, format=_LOG_FORMAT, force=True)
        logging.captureWarnings(True)
        folders = import_folders(self.path)
        sys.path[:0] = folders
        # The packages of `sandmill python vendor`. They are last, so that the runtime's own packages come
        # first.
        sys.path += [os.path.join(folder, "python_packages") for folder in folders]
        os.chdir(source_folder(self.path))

    def _load(self):
        name = os.path.splitext(os.path.basename(self.path))[0]
        if name == "__main__":
            name = "entry_script"
        spec = importlib.util.spec_from_file_location(name, self.path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def _find_run(self):
        name = os.path.basename(self.path)
        run = getattr(self._module, "run", None)
        if run is None:
            raise ScriptError(f"`run` of {name} is missing; write `def run(mini_batch):`")
        if inspect.isclass(run) or not callable(run):
            kind = "a class" if inspect.isclass(run) else f"of type {type(run).__name__}"
            raise ScriptError(f"`run` of {name} is {kind}; write `def run(mini_batch):`")
        if inspect.iscoroutinefunction(run):
            raise ScriptError(f"`run` of {name} is async; write `def run(mini_batch):` without async")
        problem = _problem_with_parameters(run)
        if problem:
            raise ScriptError(f"`run` of {name} {problem}")
        return run

    def init(self):
        function = getattr(self._module, "init", None)
        if function is not None:
            self._call(function)

    def run(self, data, context):
        if self._takes_context:
            return self._call(lambda: self._run(data, context))
        return self._call(lambda: self._run(data))

    def shutdown(self):
        function = getattr(self._module, "shutdown", None)
        if function is not None:
            self._call(function)
        if self._profile is not None:
            self._profile.write()

    def _call(self, function):
        """Calls a function of the script. Raises ScriptError for every exception."""
        try:
            with self._profile or contextlib.nullcontext():
                return function()
        except ScriptError:
            raise
        except BaseException as error:  # includes SystemExit: a script must not end its worker
            raise ScriptError(described(error, source_folder(self.path))) from None
        finally:
            _flush()


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            # The script closed or replaced the stream.
            pass


def _problem_with_parameters(run):
    """What is wrong with the parameters of `run`, as the end of a sentence. `None` if nothing is, or if they are not
    known."""
    try:
        parameters = inspect.signature(run, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = sum(each.default is each.empty for each in positional)
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    needs_names = any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters)
    return problem_with_parameters(required, None if takes_any else len(positional), needs_names)


def _takes_second_argument(run):
    """Whether `run` declares a second positional parameter, for the context."""
    try:
        parameters = inspect.signature(run, follow_wrapped=False).parameters.values()
        if hasattr(run, "__wrapped__") and any(each.kind is each.VAR_POSITIONAL for each in parameters):
            # A wrapper that passes on its arguments takes what the wrapped function takes.
            parameters = inspect.signature(run).parameters.values()
    except (TypeError, ValueError):
        return False
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return True
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) >= 2


def described(error, folder):
    """Describes an exception to the host: on the first line the error and the line in the script, then the
    traceback."""
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        location = f"{_relative(error.filename, folder)}, line {error.lineno}"
        text = error.msg
    else:
        location = _script_line(error, folder)
    if isinstance(error, SystemExit):
        text = f"the script ended itself with sys.exit({error.code!r}); return, or raise an error"
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("sklearn."):
        text += "; if a pickle needs it, another version of scikit-learn saved this pickle: save the model again, or export it to ONNX"
    first = f"{type(error).__name__}: {text}" if text else type(error).__name__
    first = first.replace("\n", " ")
    if location:
        first += f" ({location})"
    return valid(first + "\n" + _traceback_without_runtime(error))


def _script_line(error, folder):
    """The line of the innermost stack frame in a file of the script's folder. `None` if there is no such frame."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.startswith(folder + "/"):
            return f"{_relative(frame.filename, folder)}, line {frame.lineno}, in {frame.name}"
    return None


def _relative(path, folder):
    return path.removeprefix(folder + "/")


def _traceback_without_runtime(error):
    description = traceback.TracebackException.from_exception(error)
    _remove_runtime_frames(description, set())
    return "".join(description.format()).rstrip()


def _remove_runtime_frames(description, seen):
    """Removes the runtime's stack frames from the description of an exception, and from those of its causes.
    `seen`: the ids of descriptions that are done."""
    if description is None or id(description) in seen:
        return
    seen.add(id(description))
    description.stack = traceback.StackSummary.from_list([
        frame
        for frame in description.stack
        if not frame.filename.startswith((_RUNTIME_FOLDER, "<frozen importlib"))
    ])
    _remove_runtime_frames(description.__cause__, seen)
    _remove_runtime_frames(description.__context__, seen)
