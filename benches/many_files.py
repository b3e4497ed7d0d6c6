#!/usr/bin/env python3
"""Plans a job over a million files, and prints how long that takes and what memory it takes: the peak of
the process that prints the plan, as the leader reads it, and of the planner that it starts.

The files are empty and lie in folders of 1,000; they are made once, below target/bench. The release
binary is measured unless another is named.

    benches/many_files.py [--files N] [--program PATH] [--rounds N] [--mini-batch-size N]
"""

import argparse
import statistics
from pathlib import Path

import run

FOLDER = 1_000
# What the issue of a million files asks for.
MOST_SECONDS, MOST_MEGABYTES = 10, 60


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=1_000_000)
    options.add_argument("--program", type=Path, default=run.SANDMILL)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--mini-batch-size", type=int, default=100)
    options = options.parse_args()
    folder = made(options.files)
    job = job_file(folder, options.mini_batch_size)
    command = [options.program, "plan", job]
    taken = [run.measure(command) for _ in range(options.rounds)]
    watched = run.measure(command, watch_memory=True)
    said = (run.WORK / "last-run.txt").read_text(errors="replace").splitlines()[-1]
    print(f"{options.files} files in folders of {FOLDER}: {said}")
    wall = statistics.median(one.wall for one in taken)
    cpu = statistics.median(one.cpu for one in taken)
    print(f"planned in {wall:.2f} s (at most {MOST_SECONDS}), {cpu:.2f} s of CPU")
    print(f"peak memory: leader {watched.peak:.0f} MB (at most {MOST_MEGABYTES}), planner {watched.children:.0f} MB")


def made(count):
    """The folder with so many files, which is made if it is not there."""
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


def job_file(folder, size):
    """A job over the folder. Its entry script is not looked at by `sandmill plan`."""
    script = run.WORK / "many.wasm"
    script.touch()
    path = run.WORK / "many.yaml"
    path.write_text(f"entry_script: {script}\ninputs: {{many: {folder}}}\nmini_batch_size: {size}\n")
    return path


if __name__ == "__main__":
    main()
