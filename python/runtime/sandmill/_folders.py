"""The folders of a script."""

import os
import sys

# The path of the job's source folder in the sandbox. If the job has no source folder, the script and its modules
# are copied to this path. None outside of the sandbox.
_SOURCE = "/source" if sys.platform == "wasi" else None


def source_folder(script):
    """The folder that is the current folder of the script at this path: the job's source folder. In a test without
    a job, the script's own folder."""
    return _SOURCE if _SOURCE and script.startswith(_SOURCE + "/") else os.path.dirname(script)


def import_folders(script):
    """The folders from which the script at this path imports its own modules: its own folder, then the source
    folder."""
    return list(dict.fromkeys([os.path.dirname(script), source_folder(script)]))
