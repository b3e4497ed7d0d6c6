"""The program `sandmill`, which does the work."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

_VARIABLE = "SANDMILL_BIN"


class SandmillError(Exception):
    """The base of this package's errors. Its text is Sandmill's message, if there is one."""


class SandmillNotFound(SandmillError):
    """The program is not installed."""


def program() -> str:
    """The path of the program: `SANDMILL_BIN`, else the program of this environment, else the first one on
    the PATH.

    Raises SandmillNotFound if there is no such program.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        if os.access(named, os.X_OK) and Path(named).is_file():
            return named
        raise SandmillNotFound(f"{_VARIABLE} names {named}, which is not a program; name the file `sandmill`, or unset it")
    folders = {sysconfig.get_path("scripts"), str(Path(sys.executable).parent)}
    for folder in filter(None, folders):
        found = shutil.which("sandmill", path=folder)
        if found:
            return found
    found = shutil.which("sandmill")
    if found:
        return found
    raise SandmillNotFound(f"the program `sandmill` is neither in this Python's environment nor on the PATH; set {_VARIABLE} to its path")
