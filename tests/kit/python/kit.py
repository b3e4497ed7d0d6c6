"""The conformance kit's script in Python: see ../README.md."""

import logging
import os
import random
import sys
import time

from azureml_user.parallel_run import EntryScript
from sandmill import Failed, Table, read

inits = 0
runs = 0


def init():
    global inits
    inits += 1
    if sys.argv[1:2] == ["fail-init"]:
        raise RuntimeError(sys.argv[2])


def run(mini_batch, context):
    global runs
    runs += 1
    if isinstance(mini_batch, list):
        with open(mini_batch[0], encoding="utf-8", newline="") as file:
            text = file.read()
    else:
        text = sys.argv[1]
    command, *parts = text.split("\x1f")
    return COMMANDS[command](mini_batch, context, *parts)


def shutdown():
    if sys.argv[1:2] == ["shutdown"]:
        with open(os.path.join(EntryScript().output_dir, "kit.txt"), "a", encoding="utf-8") as file:
            file.write("shutdown")


def context_of(batch, context):
    keys = [f"{key}={value}" for key, value in context.partition_key_value.items()]
    return [str(context.mini_batch_id), context.dataset, str(context.attempt), *keys]


def host(batch, context):
    script = EntryScript()
    return [script.agent_name, script.log_dir, script.output_dir]


def read_by_host(batch, context, path):
    return [length_and_sum(read(path))]


def read_by_wasi(batch, context, path):
    with open(path, "rb") as file:
        return [length_and_sum(file.read())]


def length_and_sum(content):
    return f"{len(content)} {sum(content)}"


def write(batch, context, path, text):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return ["done"]


def outcomes(batch, context, *parts):
    return [part[1:] if part[0] == "+" else Failed(part[1:]) for part in parts]


def table(batch, context):
    if not isinstance(batch, Table):
        batch = with_integers(batch)
    return batch


def with_integers(frame):
    """Converts columns of whole numbers to integers. In a DataFrame, integers with nulls are floats."""
    for name, column in frame.items():
        if column.dtype != "float64" or (column.dropna() % 1 != 0).any():
            continue
        if (column.abs() > 2**53).any():
            raise RuntimeError("not in this language: integers above 2**53 with nulls, because pandas makes them floats")
        frame[name] = column.astype("Int64")
    return frame


def error(batch, context, text):
    raise RuntimeError(text)


def loop(batch, context):
    while True:
        pass


def allocate(batch, context):
    held = []
    while True:
        held.append(bytearray(1 << 20))


def log(batch, context, level, text):
    levels = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}
    EntryScript().logger.log(levels[level], text)
    return ["done"]


def print_to(stream):
    def command(batch, context, text):
        stream().write(text)
        return ["done"]

    return command


COMMANDS = {
    "kit": lambda batch, context: ["sandmill kit 1"],
    "count": lambda batch, context: [f"{inits} {runs}"],
    "arguments": lambda batch, context: sys.argv[1:],
    "environment": lambda batch, context: sorted(f"{name}={value}" for name, value in os.environ.items()),
    "host": host,
    "items": lambda batch, context: list(batch),
    "context": context_of,
    "read": read_by_host,
    "open": read_by_wasi,
    "write": write,
    "rows": lambda batch, context, *rows: list(rows),
    "outcomes": outcomes,
    "table": table,
    "error": error,
    "trap": lambda batch, context: os.abort(),
    "exit": lambda batch, context, code: sys.exit(int(code)),
    "loop": loop,
    "allocate": allocate,
    "log": log,
    "print": print_to(lambda: sys.stdout),
    "complain": print_to(lambda: sys.stderr),
    "random": lambda batch, context: [f"{random.getrandbits(128):032x}"],
    "logging-level": lambda batch, context: [logging.getLevelName(logging.getLogger().level).lower()],
    "clock": lambda batch, context: [str(int(time.time()))],
}
