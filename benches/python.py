#!/usr/bin/env python3
"""Compares Python entry scripts in Sandmill with the same scripts in ordinary CPython, and prints the ratios.

The native side is a pool of two processes. They are forked after the import of pandas, and know the types of the
columns. The pool runs with three sizes of chunks, and the best size counts. Sandmill and the pool take turns in
random order. Figures are medians. The rows of both sides are compared. Data and jobs are in target/bench/python.
`make python-science` installs the runtimes, and the Python of the native side.

    benches/python.py                     all parts, with the program in target/dist
    benches/python.py --program PATH --rounds 3 frames
    parts: light, text, frames, files, digits
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target/bench/python"
PYTHON = ROOT / "target/venv/bin/python"
CACHE = ROOT / "target/science-cache"
DIGITS_DATA = ROOT / "examples/digit-identification/data"
ROWS, FILES, LIGHT_ROWS = 2_000_000, 20_000, 400_000
CHUNK_ROWS = (20_000, 50_000, 200_000)

FRAMES_SCRIPT = """import numpy as np
WEIGHTS = np.array([0.5, -1.25, 2.0, 0.125])

def run(frame):
    z = frame[["a", "b", "c", "d"]].to_numpy() @ WEIGHTS - 0.75
    return frame[["id"]].assign(score=1 / (1 + np.exp(-z)))
"""

COUNT_SCRIPT = """import os

def run(mini_batch):
    rows = []
    for path in mini_batch:
        counts = {}
        with open(path, encoding="utf-8") as file:
            for word in file.read().split():
                counts[word] = counts.get(word, 0) + 1
        rows.append(f"{os.path.basename(path)} {len(counts)} {max(counts.values())}")
    return rows
"""

DIGITS_SCRIPT = """import os
import numpy as np
from PIL import Image
from sandmill import models

def init():
    global digits
    digits = models.load("digits")

def run(mini_batch):
    pixels = np.stack([np.asarray(Image.open(path), np.float32).reshape(-1) / 240 for path in mini_batch])
    best = digits.run({"pixels": pixels})["probabilities"].argmax(axis=1)
    return [f"{os.path.basename(path)}: {digit}" for path, digit in zip(mini_batch, best)]
"""

TEXT_SCRIPT = """def run(frame):
    return [f"{id} {a + b:.3f}" for id, a, b in zip(frame["id"], frame["a"], frame["b"])]
"""

LIGHT_SCRIPT = """def run(table):
    return [f"{id} {a + b:.3f}" for id, a, b in zip(table["id"], table["a"], table["b"])]
"""

# The program of the native side. Its arguments: SCRIPT KIND DATA CHUNK OUTPUT.
POOL_PROGRAM = """import importlib.util, multiprocessing, os, sys
script, kind, data, chunk, output = sys.argv[1:]
if kind == "digits":
    import types
    import numpy, onnxruntime
    from PIL import Image

    # Replaces `sandmill.models`. Like a worker, each process has a session with one thread.
    class Model:
        def __init__(self, name):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            self.session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
            self.names = [output.name for output in self.session.get_outputs()]

        def run(self, inputs):
            return dict(zip(self.names, self.session.run(None, inputs)))

    sys.modules["sandmill"] = sandmill = types.ModuleType("sandmill")
    sandmill.models = types.SimpleNamespace(load=Model)
if kind == "frames":
    import pandas as pd
    TYPES = {"id": "int64", "a": "float64", "b": "float64", "c": "float64", "d": "float64"}
spec = importlib.util.spec_from_file_location("score", script)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

def frame(part):
    return module.run(part).to_csv(sep=" ", header=False, index=False)

def files(paths):
    return "".join(row + "\\n" for row in module.run(paths))

if kind == "frames":
    work, parts = frame, pd.read_csv(data, dtype=TYPES, chunksize=int(chunk))
else:
    names = sorted(os.listdir(data))
    size = max(1, int(chunk) // (1000 if kind == "digits" else 100))
    work = files
    parts = ([os.path.join(data, name) for name in names[start : start + size]] for start in range(0, len(names), size))
with multiprocessing.get_context("fork").Pool(2, getattr(module, "init", None)) as pool, open(output, "w") as out:
    for text in pool.imap(work, parts):
        out.write(text)
"""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", default=list(PARTS))
    options.add_argument("--program", type=Path, default=ROOT / "target/dist/sandmill")
    options.add_argument("--rounds", type=int, default=5)
    options = options.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "pool.py").write_text(POOL_PROGRAM.replace("MODEL", repr(str(DIGITS_DATA / "models/digits.onnx")), 1))
    for part in options.parts:
        PARTS[part](options)


def light(options):
    """Prints the rows per second of one worker with the light runtime, and the time until the worker is ready."""
    data = table("light.csv", LIGHT_ROWS)
    job = job_file("light", LIGHT_SCRIPT, f"inputs: {{t: {{path: {data}, format: csv}}}}\nmini_batch_size: 10000 rows\n"
                   "process_count_per_node: 1\npython: {runtime: light}\n")  # fmt: skip
    taken = [sandmill(options, job) for _ in range(options.rounds)]
    events = events_of("light")
    ready = [event["start_seconds"] + event["init_seconds"] for event in events if event["event"] == "worker_ready"]
    seconds = statistics.median(taken)
    print(f"light: {LIGHT_ROWS / seconds:,.0f} rows/s, start to exit {seconds:.2f} s; worker ready {1000 * max(ready):.0f} ms")


def text(options):
    """Prints the rows per second of one worker. Its script takes a DataFrame and returns rows of text."""
    data = table("frames.csv", ROWS)
    job = job_file("text", TEXT_SCRIPT, f"inputs: {{t: {{path: {data}, format: csv}}}}\nmini_batch_size: 50000 rows\n"
                   "process_count_per_node: 1\n")  # fmt: skip
    seconds = statistics.median(sandmill(options, job) for _ in range(options.rounds))
    print(f"text: {ROWS / seconds:,.0f} rows/s, start to exit {seconds:.2f} s")


def frames(options):
    """Compares a logistic regression over a table. The script takes and returns DataFrames."""
    data = table("frames.csv", ROWS)
    # A mini-batch has as many rows as the best chunk of the pool.
    job = job_file("frames", FRAMES_SCRIPT, f"inputs: {{t: {{path: {data}, format: csv}}}}\nmini_batch_size: 50000 rows\n"
                   "process_count_per_node: 2\n")  # fmt: skip
    compare(options, "frames", job, "frames", data, are_floats=True)
    events = events_of("frames")
    ready = [event["start_seconds"] + event["init_seconds"] for event in events if event["event"] == "worker_ready"]
    print(f"frames: worker ready {1000 * max(ready):.0f} ms")


def files(options):
    """Compares a script that counts the words of files, in pure Python."""
    folder = WORK / "words"
    if not folder.is_dir():
        words = [f"word{number}" for number in range(500)]
        chosen = random.Random(1)
        folder.mkdir()
        for number in range(FILES):
            (folder / f"{number:05}.txt").write_text(" ".join(chosen.choices(words, k=200)))
    job = job_file("files", COUNT_SCRIPT, f"inputs: {{t: {folder}}}\nmini_batch_size: 200\nprocess_count_per_node: 2\n")
    compare(options, "files", job, "files", folder)


def digits(options):
    """Compares a script that reads images with Pillow, and runs a model through the host."""
    job = job_file("digits", DIGITS_SCRIPT, f"inputs: {{t: {DIGITS_DATA / 'images'}}}\nmodels: {{digits: {DIGITS_DATA / 'models/digits.onnx'}}}\n"
                   "mini_batch_size: 200\nprocess_count_per_node: 2\n")  # fmt: skip
    compare(options, "digits", job, "digits", DIGITS_DATA / "images")


PARTS = {"light": light, "text": text, "frames": frames, "files": files, "digits": digits}


def compare(options, name, job, kind, data, are_floats=False):
    """Measures a job and the pool, compares their rows, and prints the ratio. `kind`: the second argument of
    `POOL_PROGRAM`. `are_floats`: whether the fields of rows are floats, which may differ by rounding."""
    script, native_output = WORK / name / "score.py", WORK / f"{name}.native"
    pool = [PYTHON, WORK / "pool.py", script, kind, data]
    sides = {"sandmill": lambda: sandmill(options, job)}
    for chunk in CHUNK_ROWS:
        sides[f"native {chunk}"] = lambda chunk=chunk: timed([*pool, str(chunk), native_output])
    taken = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in random.sample(list(sides), len(sides)):
            taken[side].append(sides[side]())
    medians = {side: statistics.median(seconds) for side, seconds in taken.items()}
    best_seconds, best_side = min((seconds, side) for side, seconds in medians.items() if side != "sandmill")
    print(f"{name}: sandmill {medians['sandmill']:.2f} s, {best_side} {best_seconds:.2f} s, ratio {medians['sandmill'] / best_seconds:.2f}")
    rows = [sorted(path.read_text().splitlines()) for path in (native_output, output(name))]
    if are_floats:
        rows = [[[float(field) for field in row.split()] for row in side] for side in rows]
        largest_difference = max(abs(a - b) for one, other in zip(*rows, strict=True) for a, b in zip(one, other, strict=True))
        assert largest_difference < 1e-9, f"{name}: rows differ by {largest_difference}"
    else:
        assert rows[0] == rows[1], f"{name}: the rows differ"


def table(name, rows):
    path = WORK / name
    if not path.is_file():
        chosen = random.Random(2)
        with open(path, "w") as file:
            file.write("id,a,b,c,d\n")
            for number in range(rows):
                file.write(f"{number}," + ",".join(f"{chosen.uniform(-3, 3):.6f}" for _ in range(4)) + "\n")
    return path


def job_file(name, script, lines):
    folder = WORK / name
    folder.mkdir(exist_ok=True)
    (folder / "score.py").write_text(script)
    (folder / "job.yaml").write_text(f"entry_script: score.py\n{lines}")
    return folder / "job.yaml"


def output(name):
    return WORK / name / "jobs/job/output/parallel_run_step.txt"


def events_of(name):
    lines = (WORK / name / "jobs/job/logs/sys/events.jsonl").read_text().splitlines()
    return [json.loads(line)["kind"] for line in lines]


def sandmill(options, job):
    shutil.rmtree(job.parent / "jobs", ignore_errors=True)
    return timed([options.program, "run", job, "-q"], cwd=job.parent)


def timed(command, cwd=WORK):
    environment = {**os.environ, "SANDMILL_CACHE_DIR": str(CACHE)}
    start = time.monotonic()
    ran = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if ran.returncode != 0:
        sys.exit(f"{command}: {ran.stderr}")
    return seconds


if __name__ == "__main__":
    main()
