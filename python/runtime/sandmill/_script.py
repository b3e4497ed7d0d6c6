"""Loads the user's script from its source folder, and calls it as ParallelRunStep does."""

import contextlib
import importlib.util
import inspect
import logging
import os
import random
import sys
import traceback

from ._results import valid

# Stack frames of files in this folder are the runtime's own.
_OWN = os.path.dirname(os.path.abspath(__file__))
_FORMAT = "%(asctime)s|%(levelname)s|%(name)s|%(message)s"


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
    """An error of the script, as the host receives it: the reason on the first line, then the traceback."""


class Script:
    """A loaded script."""

    def __init__(self, path, logging_level, profile=None):
        self.path = path
        self._profile = profile
        self._prepare(logging_level)
        self._module = self._guarded(self._load)
        self._run = self._guarded(self._find_run)
        self._takes_context = _takes_two(self._run)

    def _prepare(self, logging_level):
        # The runtime is a snapshot, so without a seed all workers would get the same numbers.
        random.seed()
        for stream in (sys.stdout, sys.stderr):
            # Each line is written at once, because the process may be killed.
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        logging.basicConfig(stream=sys.stdout, level=logging_level, format=_FORMAT, force=True)
        logging.captureWarnings(True)
        folder = os.path.dirname(self.path)
        sys.path.insert(0, folder)
        # The packages of `sandmill python vendor`. They are last, so that the runtime's own packages come
        # first.
        sys.path.append(os.path.join(folder, "python_packages"))
        os.chdir(folder)

    def _load(self):
        name = os.path.splitext(os.path.basename(self.path))[0]
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
            what = "a class" if inspect.isclass(run) else f"of type {type(run).__name__}"
            raise ScriptError(f"`run` of {name} is {what}; write `def run(mini_batch):`")
        if inspect.iscoroutinefunction(run):
            raise ScriptError(f"`run` of {name} is async; write `def run(mini_batch):` without async")
        return run

    def init(self):
        function = getattr(self._module, "init", None)
        if function is not None:
            self._guarded(function)

    def run(self, data, context):
        if self._takes_context:
            return self._guarded(lambda: self._run(data, context))
        return self._guarded(lambda: self._run(data))

    def shutdown(self):
        function = getattr(self._module, "shutdown", None)
        if function is not None:
            self._guarded(function)
        if self._profile is not None:
            self._profile.write()

    def _guarded(self, function):
        """Calls a function of the script. Raises ScriptError for every exception."""
        try:
            with self._profile or contextlib.nullcontext():
                return function()
        except ScriptError:
            raise
        except BaseException as error:  # includes SystemExit: a script must not end its worker
            raise ScriptError(described(error, os.path.dirname(self.path))) from None
        finally:
            _flush()


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            # The script closed or replaced the stream.
            pass


def _takes_two(run):
    """Whether `run` declares a second positional parameter, for the context."""
    try:
        parameters = inspect.signature(run).parameters.values()
    except (TypeError, ValueError):
        return False
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in positional for parameter in parameters) >= 2


def described(error, folder):
    """An exception for the host: the error and its line in the script on the first line, then the
    traceback."""
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{_short(error.filename, folder)}, line {error.lineno}"
        text = error.msg
    else:
        place = _place(error, folder)
    if isinstance(error, SystemExit):
        text = f"the script ended itself with sys.exit({error.code!r}); return, or raise an error"
    first = f"{type(error).__name__}: {text}" if text else type(error).__name__
    first = first.replace("\n", " ")
    if place:
        first += f" ({place})"
    return valid(first + "\n" + _own_frames_removed(error))


def _place(error, folder):
    """The innermost line of the user's own files."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.startswith(folder + "/"):
            return f"{_short(frame.filename, folder)}, line {frame.lineno}, in {frame.name}"
    return None


def _short(path, folder):
    return path.removeprefix(folder + "/")


def _own_frames_removed(error):
    shown = traceback.TracebackException.from_exception(error)
    _strip(shown, set())
    return "".join(shown.format()).rstrip()


def _strip(shown, seen):
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    shown.stack = traceback.StackSummary.from_list([
        frame
        for frame in shown.stack
        if not frame.filename.startswith((_OWN, "<frozen importlib"))
    ])
    _strip(shown.__cause__, seen)
    _strip(shown.__context__, seen)
