"""An entry script in Python: one row `NAME: BYTES` for each file.

`--prefix TEXT` puts a text before every row. `--fail NAME` makes the file of that name raise an exception.
"""

import os
import sys

from componentize_py_types import Err, Ok
from wit_world import exports
from wit_world.imports import host
from wit_world.imports.host import LogLevel
from wit_world.imports.types import MiniBatch_Files, Results_Outcomes


class Entry(exports.Entry):
    prefix = None
    fail = None

    def init(self):
        arguments = sys.argv[1:]
        Entry.prefix = ""
        if "--prefix" in arguments:
            Entry.prefix = arguments[arguments.index("--prefix") + 1]
        if "--fail" in arguments:
            Entry.fail = arguments[arguments.index("--fail") + 1]
        host.log(LogLevel.INFO, f"init of {host.agent_name()} with {arguments}")

    def run(self, batch, context):
        if Entry.prefix is None:
            raise Err("run was called before init")
        if not isinstance(batch, MiniBatch_Files):
            raise Err(f"this entry script takes files, but the mini-batch is {type(batch).__name__}")
        return Results_Outcomes([self.outcome(path) for path in batch.value])

    def outcome(self, path):
        name = os.path.basename(path)
        if name == Entry.fail:
            raises_as_asked(name)
        try:
            host_size = len(host.read(path))
            with open(path, "rb") as file:
                wasi_size = len(file.read())
        except (Err, OSError) as error:
            return Err(f"{name}: {getattr(error, 'value', error)}")
        if host_size != wasi_size:
            return Err(f"{name}: {host_size} bytes by the host, {wasi_size} through WASI")
        return Ok(f"{Entry.prefix}{name}: {host_size}")

    def shutdown(self):
        host.log(LogLevel.INFO, "shutdown")


def raises_as_asked(name):
    raise ValueError(f"{name} is not wanted")
