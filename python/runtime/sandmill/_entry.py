"""The entry script that every runtime runs. Its `init`, `run` and `shutdown` call the user's script."""

import json
import logging

from . import _door, _profile, _results, _scan, _script


class Refused(Exception):
    """An error whose text the host receives instead of a result."""


class Entry:
    """Runs one script, or scans its imports."""

    def __init__(self):
        self._script = None
        self._scan_result = None

    def init(self, path, settings, is_available):
        """Loads the script at `path`, or scans its imports. `settings`: the host's settings for the runtime,
        as JSON.

        `is_available(module, name)`: whether the runtime can import the module, and from it the name, if `name`
        is not None. Raises Refused.
        """
        settings = json.loads(settings)
        if settings.get("scan"):
            try:
                self._scan_result = _scan.scan(path, is_available)
            except BaseException as error:  # an untrusted script may fail the parser in any way
                raise Refused(f"{type(error).__name__}: {error}") from None
            return
        try:
            profile = _profile.Profile() if settings.get("profile") else None
            self._script = _script.Script(path, settings.get("logging_level", "INFO"), profile)
            self._script.init()
        except _script.ScriptError as error:
            raise Refused(str(error)) from None

    def run(self, read, context, convert):
        """Runs the script. `read` returns the mini-batch, and `convert` converts the script's result for the
        host. Raises Refused."""
        if self._scan_result is not None:
            return convert([json.dumps(self._scan_result)])
        try:
            return convert(self._script.run(read(), _script.Context(*context)))
        except (_script.ScriptError, _results.BadResult) as error:
            raise Refused(str(error)) from None
        except (TypeError, ValueError) as error:
            raise Refused(f"{type(error).__name__}: {error}") from None

    def shutdown(self):
        if self._script is not None:
            try:
                self._script.shutdown()
            except _script.ScriptError as error:
                _door.door.log(logging.ERROR, f"shutdown: {error}")
