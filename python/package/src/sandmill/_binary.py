"""Finds the program `sandmill`, which runs the jobs."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

_VARIABLE = "SANDMILL_BIN"


class SandmillError(Exception):
    """The base class of this package's errors. The text is the message of the program `sandmill`, if it printed
    one."""


class SandmillNotFound(SandmillError):
    """The program is not installed."""


def program() -> str:
    """The path of the program: the one that `SANDMILL_BIN` names, otherwise the one in this Python environment, otherwise
    the first one on the PATH.

    Raises SandmillNotFound if there is no such program.
    """
    configured = os.environ.get(_VARIABLE)
    if configured:
        if os.access(configured, os.X_OK) and Path(configured).is_file():
            return configured
        raise SandmillNotFound(f"{_VARIABLE} names {configured}, which is not a program; set it to the path of the file `sandmill`, or unset it")
    folders = {sysconfig.get_path("scripts"), str(Path(sys.executable).parent)}
    for folder in filter(None, folders):
        found = shutil.which("sandmill", path=folder)
        if found:
            return found
    found = shutil.which("sandmill")
    if found:
        return found
    raise SandmillNotFound(f"the program `sandmill` is neither in this Python's environment nor on the PATH; set {_VARIABLE} to its path")
