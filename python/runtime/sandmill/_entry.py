"""The entry script as each runtime keeps it: its parts `init`, `run` and `shutdown`, with the user's script."""

import json
import logging

from . import _door, _profile, _results, _scan, _script


class Refused(Exception):
    """What the host gets instead of a result, in words."""


class Entry:
    """One script, or what a script imports."""

    def __init__(self):
        self._script = None
        self._scanned = None

    def init(self, path, settings, is_here):
        """Loads the script at `path`, or looks at its imports. `settings`: the host's own word to the runtime, JSON.

        `is_here(module, name)`: whether the runtime can import it. Raises Refused.
        """
        settings = json.loads(settings)
        if settings.get("scan"):
            try:
                self._scanned = _scan.scan(path, is_here)
            except BaseException as error:  # whatever a stranger's script does to a parser
                raise Refused(f"{type(error).__name__}: {error}") from None
            return
        try:
            profile = _profile.Profile() if settings.get("profile") else None
            self._script = _script.Script(path, settings.get("logging_level", "INFO"), profile)
            self._script.init()
        except _script.ScriptError as error:
            raise Refused(str(error)) from None

    def run(self, read, context, answer):
        """What `answer` makes of the script's result. `read`: makes the mini-batch. Raises Refused."""
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
