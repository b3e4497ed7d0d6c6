"""Profiles the script with `cProfile`, for `pstats`."""

import cProfile
import os
import time

from . import _door

# The profile is written regularly, because the worker may be killed at any time.
_WRITE_INTERVAL = 5


class Profile:
    """Measures the functions of a script while they run."""

    def __init__(self):
        self._profile = cProfile.Profile()
        self._written_at = time.monotonic()

    def __enter__(self):
        self._profile.enable()

    def __exit__(self, *_):
        self._profile.disable()
        if time.monotonic() - self._written_at >= _WRITE_INTERVAL:
            self.write()

    def write(self):
        """Writes the profile into the log folder, as `process000.profile` for the worker `process000`."""
        self._written_at = time.monotonic()
        path = os.path.join(_door.door.log_dir(), f"{_door.door.agent_name()}.profile")
        # Write a new file and rename it, so that a reader always sees a complete profile.
        self._profile.dump_stats(path + ".part")
        os.replace(path + ".part", path)
