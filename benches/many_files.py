#!/usr/bin/env python3
"""Plans a job over a million files, and prints the time and the peak memory that this takes. It measures the
memory of the process that prints the plan, which reads it as the leader does, and of the planner that this
process starts.

The files are empty, and are in folders of 1,000. They are made once, below target/bench. With --objects they
are objects of a store. A server of the tests lists them, a thousand at a time, in every round. By default the
release binary is measured.

    benches/many_files.py [--files N] [--objects] [--program PATH] [--rounds N] [--mini-batch-size N]
"""

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import run

FOLDER = 1_000
# The goals of the issue about a million files.
MOST_SECONDS, MOST_MEGABYTES = 10, 60
# The caches with what Sandmill knows of objects.
CACHE = run.WORK / "many-cache"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=1_000_000)
    options.add_argument("--objects", action="store_true")
    options.add_argument("--program", type=Path, default=run.SANDMILL)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--mini-batch-size", type=int, default=100)
    options = options.parse_args()
    with listed(options.files) if options.objects else contextlib.nullcontext():
        place = "s3://many/in/" if options.objects else made(options.files)
        job = job_file(place, options.mini_batch_size)
        command = [options.program, "plan", job]
        taken = [measure(command, round) for round in range(options.rounds)]
        watched = measure(command, options.rounds, watch_memory=True)
    summary = (run.WORK / "last-run.txt").read_text(errors="replace").splitlines()[-1]
    what = "objects" if options.objects else "files"
    print(f"{options.files} {what} in folders of {FOLDER}: {summary}")
    wall = statistics.median(one.wall for one in taken)
    cpu = statistics.median(one.cpu for one in taken)
    print(f"planned in {wall:.2f} s (at most {MOST_SECONDS}), {cpu:.2f} s of CPU")
    print(f"peak memory: leader {watched.peak:.0f} MB (at most {MOST_MEGABYTES}), planner {watched.children:.0f} MB")


def measure(command, round, **watch):
    """Measures with an empty cache. The caches of earlier rounds stay until the end, because ext4 is slow to
    create files after many were removed."""
    os.environ["SANDMILL_CACHE_DIR"] = str(CACHE / str(round))
    return run.measure(command, **watch)


@contextlib.contextmanager
def listed(count):
    """Starts a server that lists `count` objects, and points the environment to it."""
    script = run.ROOT / "tests/servers/objects.py"
    with subprocess.Popen([sys.executable, script, str(count)], stdout=subprocess.PIPE, text=True) as server:
        os.environ |= {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        yield
        server.kill()
    shutil.rmtree(CACHE)


def made(count):
    """The folder with `count` files. Makes it if it does not exist."""
    folder = run.WORK / f"many-{count}"
    mark = folder.with_suffix(".complete")
    if not mark.exists():
        for start in range(0, count, FOLDER):
            below = folder / f"{start // FOLDER:05}"
            below.mkdir(parents=True, exist_ok=True)
            for number in range(start, min(start + FOLDER, count)):
                (below / f"{number:07}.txt").touch()
        mark.touch()
    return folder


def job_file(place, size):
    """Writes a job file over the place. `sandmill plan` does not read the entry script, so it is empty."""
    script = run.WORK / "many.wasm"
    script.touch()
    path = run.WORK / "many.yaml"
    path.write_text(f"entry_script: {script}\ninputs: {{many: '{place}'}}\nmini_batch_size: {size}\n")
    return path


if __name__ == "__main__":
    main()
