#!/usr/bin/env python3
"""Plans a job over a million files, and prints the time and the peak memory. The process that prints the plan
reads it as the leader does, so the benchmark measures the memory of this process and of its planner.

The files are empty, and are in folders of 1,000. They are made once, below target/bench. With --objects, the job
is over objects of a store instead. A server of the tests lists them in every round, a thousand at a time. By
default the binary of the profile `dist` is measured.

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

FILES_PER_FOLDER = 1_000
# Goals.
MAX_SECONDS, MAX_MEGABYTES = 10, 60
# The folder of Sandmill's caches, one for each round.
CACHE = run.WORK / "many-cache"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=1_000_000)
    options.add_argument("--objects", action="store_true")
    options.add_argument("--program", type=Path, default=run.SANDMILL)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--mini-batch-size", type=int, default=100)
    options = options.parse_args()
    with object_server(options.files) if options.objects else contextlib.nullcontext():
        data = "s3://many/in/" if options.objects else files_folder(options.files)
        job = job_file(data, options.mini_batch_size)
        command = [options.program, "plan", job]
        measured = [measure(command, round) for round in range(options.rounds)]
        watched = measure(command, options.rounds, watch_memory=True)
    summary = (run.WORK / "last-run.txt").read_text(errors="replace").splitlines()[-1]
    kind = "objects" if options.objects else "files"
    print(f"{options.files} {kind} in folders of {FILES_PER_FOLDER}: {summary}")
    wall = statistics.median(round.wall for round in measured)
    cpu = statistics.median(round.cpu for round in measured)
    print(f"planned in {wall:.2f} s (at most {MAX_SECONDS}), {cpu:.2f} s of CPU")
    print(f"peak memory: leader {watched.peak:.0f} MB (at most {MAX_MEGABYTES}), planner {watched.children:.0f} MB")


def measure(command, round, **watch):
    """Measures with an empty cache. The caches of earlier rounds stay until the end, because ext4 is slow to
    create files after many were removed."""
    os.environ["SANDMILL_CACHE_DIR"] = str(CACHE / str(round))
    return run.measure(command, **watch)


@contextlib.contextmanager
def object_server(count):
    """Runs a server that lists `count` objects. Sets the environment variables with which Sandmill finds it."""
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


def files_folder(count):
    """The folder with `count` files. Makes it if it does not exist."""
    folder = run.WORK / f"many-{count}"
    mark = folder.with_suffix(".complete")
    if not mark.exists():
        for start in range(0, count, FILES_PER_FOLDER):
            subfolder = folder / f"{start // FILES_PER_FOLDER:05}"
            subfolder.mkdir(parents=True, exist_ok=True)
            for number in range(start, min(start + FILES_PER_FOLDER, count)):
                (subfolder / f"{number:07}.txt").touch()
        mark.touch()
    return folder


def job_file(data, size):
    """Writes a job file with the input `data`. The entry script is empty, because `sandmill plan` does not read
    it."""
    script = run.WORK / "many.wasm"
    script.touch()
    path = run.WORK / "many.yaml"
    path.write_text(f"entry_script: {script}\ninputs: {{many: '{data}'}}\nmini_batch_size: {size}\n")
    return path


if __name__ == "__main__":
    main()
