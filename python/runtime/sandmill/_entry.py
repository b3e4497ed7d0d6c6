"""The entry script of every runtime: `init`, `run` and `shutdown`, which call the user's script."""

import json
import logging

from . import _door, _profile, _results, _scan, _script


class Refused(Exception):
    """The reason, in words, that the host receives instead of a result."""


class Entry:
    """Runs one script, or scans its imports."""

    def __init__(self):
        self._script = None
        self._scanned = None

    def init(self, path, settings, is_here):
        """Loads the script at `path`, or scans its imports. `settings`: the host's settings for the runtime,
        as JSON.

        `is_here(module, name)`: whether the runtime can import it. Raises Refused.
        """
        settings = json.loads(settings)
        if settings.get("scan"):
            try:
                self._scanned = _scan.scan(path, is_here)
            except BaseException as error:  # an untrusted script may fail the parser in any way
                raise Refused(f"{type(error).__name__}: {error}") from None
            return
        try:
            profile = _profile.Profile() if settings.get("profile") else None
            self._script = _script.Script(path, settings.get("logging_level", "INFO"), profile)
            self._script.init()
        except _script.ScriptError as error:
            raise Refused(str(error)) from None

    def run(self, read, context, answer):
        """Runs the script. `read` makes the mini-batch, and `answer` converts the result. Raises Refused."""
        if self._scanned is not None:
            return answer([json.dumps(self._scanned)])
        try:
            return answer(self._script.run(read(), _script.Context(*context)))
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
