#!/usr/bin/env python3
"""Measures Sandmill against native code that does the same work, and prints the ratios.

Native and Sandmill rounds take turns, so that a slow minute of the machine affects both. Figures are
medians. The outputs of both are compared. Data, jobs and results are in target/bench. The data is made
once, from a fixed seed. `make bench` builds the binary with the profile `dist` and runs this.

    benches/run.py              everything, with the table of ten times the size (2 GB)
    benches/run.py --quick      three rounds and no table of ten times the size
    benches/run.py --large memory    also a table of 10 GB; it and the job's output take 13 GB
    benches/run.py tiny table   only these of: tiny, start, files, table, parquet, jsonl, perceptron, fuel,
                                memory, books, noise, inference, digits, gpu

On a machine that cannot build, SANDMILL_PACKED names the folder that `scripts/gpu.sh pack` has made.
"""

import argparse
import csv
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "bench"
PACKED = Path(os.environ["SANDMILL_PACKED"]).resolve() if "SANDMILL_PACKED" in os.environ else None
SANDMILL = (PACKED or ROOT / "target" / "dist") / "sandmill"
BUILDS = ROOT / "target" / "outside"
NATIVE = (PACKED or BUILDS / "release") / "bench-native"

WORKERS = 2
FILES = 20_000
ROWS = 2_000_000
# The rows of the job that computes much for each row.
HEAVY_ROWS = 1_000_000
TINY_FILES = 8
MANY = 100_000
# The most mini-batches that are left to do when the leader is killed.
REST = 2_000
# The numbers of images that are computed at once, and the number of all images for each model.
BATCHES = (64, 256, 1024)
IMAGES = {"mlp": 4_000_000, "cnn": 80_000}
RESNET_BATCH, RESNET_IMAGES = 64, 25_600
DIGITS = 50_000
PACKAGES = ["numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.31.1", "pillow==12.3.0"]
# What neighbours do, and the share of a job's throughput that must remain beside them, in percent. All
# programs on a machine share its memory bandwidth, so that loss is measured, but has no goal.
NEIGHBOURS = {"cpu": 90, "faults": 90, "disk": 90, "logs": 90, "bandwidth": None}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", metavar="PART", help="see above")
    options.add_argument("--quick", action="store_true", help="three rounds, no tenfold table")
    options.add_argument("--large", action="store_true", help="a table of 10 GB, too")
    options.add_argument("--rounds", type=int, help="rounds of each, 5 unless given")
    options = options.parse_args()
    parts = (tiny, start, files, table, parquet, jsonl, perceptron, fuel, memory, books, noise, inference, digits, gpu)
    known = {part.__name__: part for part in parts}
    if unknown := [part for part in options.parts if part not in known]:
        sys.exit(f"bench: no part {unknown[0]}; there are {', '.join(known)}")
    options.rounds = options.rounds or (3 if options.quick else 5)

    os.environ["SANDMILL_CACHE_DIR"] = str(WORK / "cache")
    # A developer may have set it. It makes errors slower.
    os.environ.pop("RUST_BACKTRACE", None)
    WORK.mkdir(parents=True, exist_ok=True)
    build_native()
    lines = []
    for part in options.parts or known:
        lines += known[part](options)
    show(lines, options.rounds)


# --- the benchmarks ---------------------------------------------------------------------------


def tiny(options):
    """A job so small that it measures only start and end."""
    data = files_data("tiny-files", TINY_FILES)
    component = build_guest("tally")
    inputs = f"  files: {data}"
    single = f"  files: {data}/d00/f00000.txt"
    arguments = '["--via", "sdk"]'
    one = job("tiny-1", component, single, arguments, 1, 1)
    spread1 = job("tiny-spread-1", component, inputs, arguments, 1, 1)
    spread5 = job("tiny-spread-5", component, inputs, arguments, 1, 5)
    rounds = options.rounds * 3
    # The first of the rounds may compile the component.
    taken = rounds_of({"one": one, "spread1": spread1, "spread5": spread5}, rounds)
    one, spread1, spread5 = taken["one"], taken["spread1"], taken["spread5"]
    return [
        line("W3 one tiny mini-batch, start to exit", one.wall * 1000, "ms", 40),
        line("   CPU", one.cpu * 1000, "ms"),
        line("W3 each further worker", (spread5.wall - spread1.wall) / 4 * 1000, "ms", 8),
        line("   CPU", (spread5.cpu - spread1.cpu) / 4 * 1000, "ms"),
    ]


def start(options):
    """A worker with a component of 2 MB that is already compiled: the time until it is ready, and its
    memory."""
    component = build_guest("logistic")
    data = table_data("table-small.csv", 1000)
    one, two = table_job("start", component, data), table_job("start-two", component, data, size="10 KB")
    # The time begins before the worker's process starts, and includes making its folders and logs.
    first, second = [], []
    for number in range(options.rounds * 3 + 1):
        one()
        first += spawn_to_ready(job_dir("start"))[:1]
        two()
        second += spawn_to_ready(job_dir("start-two"))[1:2]
    size = f"{component.stat().st_size / 1e6:.1f} MB"
    return [
        line(f"A worker, from before its start to ready, {size}", statistics.median(first[1:]) * 1000, "ms", 5),
        line("   the second of two that start together", statistics.median(second[1:]) * 1000, "ms"),
        line("   private memory while idle", idle_memory(), "MB", 12),
    ]


def spawn_to_ready(folder):
    """The seconds from before each worker's start until it is ready, in the order in which the workers became
    ready."""
    events = (folder / "logs" / "sys" / "events.jsonl").read_text().splitlines()
    kinds = [json.loads(text)["kind"] for text in events]
    return [kind["start_seconds"] for kind in kinds if kind["event"] == "worker_ready"]


def idle_memory():
    """The private memory of a worker in MB, while its guest, which has hardly any memory, sleeps."""
    leader = subprocess.Popen(hostile("idle")(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        children = Path(f"/proc/{leader.pid}/task/{leader.pid}/children").read_text().split()
        names = {child: Path(f"/proc/{child}/comm").read_text().strip() for child in children}
        worker = next(child for child, name in names.items() if name == "worker")
        rollup = Path(f"/proc/{worker}/smaps_rollup").read_text().splitlines()
        return sum(int(each.split()[1]) for each in rollup if each.startswith("Private_")) / 1024
    finally:
        leader.kill()
        leader.wait()


def files(options):
    """20,000 small files, each read in one host call or through std::fs."""
    data = files_data("files", FILES)
    component = build_guest("tally")
    output = WORK / "tally-native.txt"
    sides = {"native": natively(output, "tally", data, output, WORKERS)}
    for via in ("sdk", "fs"):
        arguments = f'["--via", "{via}"]'
        sides[via] = job(f"tally-{via}", component, f"  files: {data}", arguments, 10, WORKERS)
    taken = rounds_of(sides, options.rounds)
    for via in ("sdk", "fs"):
        same_rows(output, job_output(f"tally-{via}"))
    return [
        native_line(f"W2 {FILES:,} files, native", taken["native"]),
        *ratio_lines("W2 files through the SDK", taken["sdk"], taken["native"], 1.25),
        *ratio_lines("W2 files through std::fs", taken["fs"], taken["native"], 2.2),
    ]


def table(options):
    """A logistic regression over a CSV file."""
    return scored(options, "logistic", "csv", ROWS, 0.6)


def parquet(options):
    """The same regression over the same rows in Parquet."""
    return scored(options, "logistic", "parquet", ROWS, 1.1)


def jsonl(options):
    """The same regression over the same rows as JSON lines."""
    return scored(options, "logistic", "jsonl", ROWS, 1.1)


def perceptron(options):
    """Heavy arithmetic, in the guest and in the host's ONNX Runtime."""
    lines = scored(options, "perceptron", "parquet", HEAVY_ROWS, 2.6)
    data, output = WORK / f"table-{HEAVY_ROWS}.parquet", WORK / "perceptron-parquet-native.txt"
    native = natively(output, "perceptron", data, output, WORKERS, "arrow")
    run = perceptron_by_model("perceptron-nn", data)
    taken = rounds_of({"native": native, "sandmill": run}, options.rounds)
    near_rows(output, job_output("perceptron-nn"))
    return [*lines, *ratio_lines("   by way of wasi:nn", taken["sandmill"], taken["native"], 1)]


def perceptron_by_model(name, data):
    """The job in which the host computes the perceptron."""
    python, _, script = python_side()
    model = made("perceptron.onnx", lambda path: [script, "layers", path], python)
    more = f"models: {{ perceptron: {{ path: {model}, backend: onnxruntime }} }}\ninference: {{ threads: 1 }}"
    component = build_guest("perceptron")
    return table_job(name, component, data, more, "parquet", arguments='["--nn"]')


def scored(options, guest, form, rows, goal):
    """A job that computes one number for each row of a file."""
    data = table_data("table.csv", ROWS)
    if form != "csv":
        csv = data
        data = made(f"table-{rows}.{form}", lambda path: ["convert", csv, path, rows])
    component = build_guest(guest)
    name = f"{guest}-{form}"
    outputs = {printer: WORK / f"{name}-native-{printer}.txt" for printer in ("arrow", "loop")}
    run = table_job(name, component, data, form=form)
    sides = {
        printer: natively(output, guest, data, output, WORKERS, printer) for printer, output in outputs.items()
    }
    taken = rounds_of({**sides, "sandmill": run}, options.rounds)
    for output in outputs.values():
        same_rows(output, job_output(name), numbers)
    watched = run(watch_memory=True)
    what = f"{guest} regression" if guest == "logistic" else guest
    return [
        native_line(f"{rows:,} rows, {what}, {form}: native", taken["arrow"]),
        line("   CPU", taken["arrow"].cpu * 1000, "ms"),
        *ratio_lines("   Sandmill", taken["sandmill"], taken["arrow"], goal),
        line("   CPU", taken["sandmill"].cpu * 1000, "ms"),
        line("   wall / native that prints with itoa and ryu", taken["sandmill"].wall / taken["loop"].wall, "x"),
        line("   leader's peak memory", watched.peak, "MB", 60),
        line("   a worker's peak memory", watched.children, "MB"),
    ]


def fuel(options):
    """The cost of counting instructions, which a job may ask for."""
    component, data = build_guest("logistic"), table_data("table.csv", ROWS)
    taken = rounds_of(
        {
            "off": table_job("fuel-off", component, data),
            "on": table_job("fuel-on", component, data, "limits: { fuel: 1000000000000000 }"),
        },
        options.rounds,
    )
    return [
        line("Fuel: the CSV job with it, wall", taken["on"].wall / taken["off"].wall, "x"),
        line("   CPU", taken["on"].cpu / taken["off"].cpu, "x"),
    ]


def memory(options):
    """The cost of more rows: they should take processor time in proportion, and no more memory."""
    component = build_guest("logistic")
    sizes = [1] if options.quick else [1, 10, 50] if options.large else [1, 10]
    lines, single = [], None
    for factor in sizes:
        name = f"memory-{factor}x"
        rows = ROWS * factor
        data = table_data("table.csv" if factor == 1 else f"table-{factor}x.csv", rows)
        run = table_job(name, component, data)
        # Short runs vary more than long ones.
        taken = [run(watch_memory=True) for _ in range(1 if factor > 10 else options.rounds)]
        cpu = statistics.median(each.cpu for each in taken)
        single = single or cpu
        size = data.stat().st_size / 1e9
        lines += [
            line(f"{rows:,} rows, {size:.1f} GB: leader's peak memory", max(each.peak for each in taken), "MB", 60),
            line("   a worker's peak memory", max(each.children for each in taken), "MB"),
            line("   CPU for each row, against that of the smallest", cpu / factor / single, "x", 1.1),
        ]
        if count_lines(job_output(name)) != rows:
            sys.exit(f"bench: {name} has not as many rows as its input")
        shutil.rmtree(job_dir(name))
    return lines


def books(options):
    """The cost of bookkeeping: very many tiny mini-batches, and resuming such a job."""
    data = files_data("many-files", MANY + REST)
    component = build_guest("tally")
    run = job("books", component, f"  files: {data}", '["--via", "sdk"]', 1, WORKERS)
    taken = run(watch_memory=True)
    each = taken.wall / (MANY + REST) * MANY
    kill_near_end("books")
    done = count_lines(job_output("books"))
    resumed = measure([SANDMILL, "resume", job_dir("books")], watch_memory=True)
    if (rows := count_lines(job_output("books"))) != MANY + REST:
        sys.exit(f"bench: the resumed job has {rows} rows and not {MANY + REST}")
    return [
        line(f"Bookkeeping, {MANY:,} mini-batches of one file", each, "s", 30),
        line("   leader's peak memory", taken.peak, "MB", 150),
        line(f"Resuming a job with {done:,} done, to its end", resumed.wall, "s", 2),
        line("   leader's peak memory", resumed.peak, "MB", 150),
    ]


def noise(options):
    """The throughput of a job beside an idle or hostile neighbour, when each has half of the processors."""
    data = files_data("files", FILES)
    run = job("quiet", build_guest("tally"), f"  files: {data}", '["--via", "sdk"]', 10, 1)
    loop = ["sh", "-c", "while :; do :; done"]
    sides = {name: beside(hostile(name), run) for name in ("idle", *NEIGHBOURS)}
    taken = rounds_of({**sides, "loop": beside(lambda: loop, run)}, options.rounds)
    idle, busy = taken["idle"].wall, taken["loop"].wall
    lines = [
        line("Noise: the job beside an idle neighbour", idle * 1000, "ms"),
        # Shows the effect of what processors share: cores, caches, clock.
        line("   throughput kept beside a native loop", idle / busy * 100, "%"),
    ]
    for name, goal in NEIGHBOURS.items():
        kept, of_busy = idle / taken[name].wall * 100, busy / taken[name].wall * 100
        lines.append(line(f"   throughput kept beside: {name}", kept, "%", goal, at_least=True))
        lines.append(line("      of that beside the loop", of_busy, "%"))
    return lines


def inference(options):
    """Computing with a model: the cost of the calls into Sandmill, and its backends compared with Python.
    Every process computes on one thread."""
    python, library, script = python_side()
    models = made("models", lambda path: [script, "models", path], python)
    component = build_guest("infer")
    lines = []
    for model, images in IMAGES.items():
        images //= 10 if options.quick else 1
        words = [models / f"{model}.onnx", images, ",".join(map(str, BATCHES))]
        sides = {
            "native": lambda: printed([NATIVE, "infer", library, *words, "cpu"]),
            "python": lambda: printed([python, script, "loop", *words]),
        }
        for backend in ("onnxruntime", "tract"):
            sides[backend] = infer_job(f"infer-{model}-{backend}", component, words, f"backend: {backend}")
        taken = loops_of(sides, options.rounds)
        # The perceptron computes 64 images in some microseconds, so it shows the cost of a call.
        goals = (0.9, 0.95) if model == "cnn" else (None, None)
        for batch in BATCHES:
            native, in_python, here, tract = (side[batch] for side in taken.values())
            more = statistics.median(here) - statistics.median(native)
            lines += [
                line(
                    f"Inference: {model}, {batch} images at once, native", statistics.median(native) * 1e6, "us"
                ),
                line("   a call costs more than natively", more * 1e6, "us"),
                line("   throughput of native kept", ratio(native, here), "x", goals[0], at_least=True),
                line("   of Python's", ratio(in_python, here), "x", goals[1], at_least=True),
                line("   of Python's, by tract", ratio(in_python, tract), "x"),
            ]
    return lines


def digits(options):
    """A job over PNG files, compared with a pool of Python processes."""
    python, _, script = python_side()
    count = DIGITS // (5 if options.quick else 1)
    example = ROOT / "examples" / "digit-identification"
    data = made(f"digits-{count}", lambda path: [script, "images", path, count, example / "data" / "images"], python)
    model = example / "data" / "models" / "digits.onnx"
    output = WORK / "digits-python.txt"
    more = f"models: {{ digits: {{ path: {model}, backend: onnxruntime }} }}"
    component = build_guest("digit-identification", ROOT / "examples")
    taken = rounds_of(
        {
            "python": lambda: measure([python, script, "digits", data, model, output, WORKERS]),
            "sandmill": job("digits", component, f"  images: {data}", "[]", 250, WORKERS, more),
        },
        options.rounds,
    )
    same_rows(output, job_output("digits"))
    in_python, here = taken["python"], taken["sandmill"]
    return [
        line(f"Inference: {count:,} PNG files, Python", in_python.wall * 1000, "ms"),
        line("   Sandmill", here.wall * 1000, "ms"),
        line("   times faster", in_python.wall / here.wall, "x", 2, at_least=True),
        line("   CPU / CPU of Python", here.cpu / in_python.cpu, "x"),
    ]


def gpu(options):
    """A network of the size of ResNet-18 on a GPU, if the machine has one, with each backend that can use
    it."""
    python, library, script = python_side()
    report = subprocess.run([SANDMILL, "doctor", "--json"], stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(report)
    if not found["gpus"]["count"]:
        print("Inference on a GPU is skipped: no GPU", file=sys.stderr)
        return []
    models = made("models", lambda path: [script, "models", path], python)
    component = build_guest("infer")
    words = [models / "resnet.onnx", RESNET_IMAGES, RESNET_BATCH]
    # The native side uses the kernels that Sandmill has compiled for tract.
    os.environ |= {"XDG_CACHE_HOME": str(WORK / "cache" / "cuda"), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    natively = {
        "onnxruntime": [NATIVE, "infer", library, *words, "gpu"],
        "tract": [NATIVE, "infer-tract", *words],
    }
    lines = []
    for backend in found["backends"]:
        name = backend["name"]
        if why := backend["missing"] or backend["no_gpu"]:
            print(f"Inference on a GPU by {name} is skipped: {why}", file=sys.stderr)
            continue
        if name == "tract" and not PACKED:
            build_native("--features", "tract")
        job_name = f"infer-resnet-{name}"
        here = infer_job(job_name, component, words, f"backend: {name}, device: gpu", "gpus: 1")
        # The first run compiles the kernels.
        here()
        taken = loops_of({"native": lambda: printed(natively[name]), "sandmill": here}, options.rounds)
        native, here = (side[RESNET_BATCH] for side in taken.values())
        lines += [
            line(
                f"Inference: as ResNet-18 on a GPU, {name}, native",
                RESNET_BATCH / statistics.median(native),
                "images/s",
            ),
            line("   throughput of native kept", ratio(native, here), "x", 0.8, at_least=True),
            line("   use of the GPU at its highest", gpu_percent(job_name), "%"),
        ]
    return lines


def gpu_percent(name):
    """The highest GPU utilization among the samples of a job."""
    samples = job_dir(name) / "logs" / "perf" / "0" / "node_resource_usage.csv"
    rows = list(csv.DictReader(samples.read_text().splitlines()))
    return max((float(row["GPU 0 %"]) for row in rows if row.get("GPU 0 %")), default=0)


def infer_job(name, component, words, more, besides=""):
    """Writes a job that computes in a loop. Returns a function that runs it and returns what it measured."""
    model, images, batches = words
    run = job(
        name,
        component,
        f"  one: {files_data('tiny-files', TINY_FILES)}/d00/f00000.txt",
        f'["--images", "{images}", "--batches", "{batches}"]',
        1,
        1,
        f"models: {{ model: {{ path: {model}, {more} }} }}\ninference: {{ threads: 1 }}\n{besides}",
    )

    def measured():
        run()
        return seconds_each(job_output(name))

    return measured


def printed(command):
    """Runs a command that prints what it measured, and returns that."""
    measure(command)
    return seconds_each(WORK / "last-run.txt")


def seconds_each(path):
    """Parses the seconds of one computation for each batch size: `64 1e-4;256 4e-4`."""
    pairs = (pair.split() for pair in path.read_text().strip().split(";"))
    return {int(batch): float(seconds) for batch, seconds in pairs}


def loops_of(sides, rounds):
    """Runs all sides in turns. Returns, for each side and each batch size, the seconds of each round."""
    taken = in_turns(sides, rounds)
    return {
        name: {batch: [each[batch] for each in results] for batch in results[0]}
        for name, results in taken.items()
    }


def ratio(these, those):
    """The median of the rounds' ratios, because on a shared machine the speed varies more from round to round
    than the two sides differ."""
    return statistics.median(this / that for this, that in zip(these, those))


def hostile(name):
    """Returns a function that returns the command of a job that never ends by itself."""
    component = build_guest("neighbour")
    path = WORK / f"neighbour-{name}.yaml"
    path.write_text(
        f"name: neighbour-{name}\nentry_script: {component}\narguments: [--do, {name}]\n"
        "rank_mini_batch_count: 1000000000\nprocess_count_per_node: 1\nerror_threshold: -1\n"
        "run_max_try: 1\noutput_action: summary_only\n"
    )
    return lambda: run_command(path)


def beside(command, run):
    """Runs a job on one half of the processors, beside a neighbour on the other."""

    def together():
        everything = sorted(os.sched_getaffinity(0))
        half = len(everything) // 2
        # Child processes inherit the set of processors.
        os.sched_setaffinity(0, everything[half:])
        neighbour = subprocess.Popen(
            command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.sched_setaffinity(0, everything[: half or 1])
        time.sleep(0.7)
        try:
            if neighbour.poll() is not None:
                sys.exit(f"bench: the neighbour ended with {neighbour.returncode}")
            return run()
        finally:
            os.sched_setaffinity(0, everything)
            neighbour.kill()
            neighbour.wait()

    return together


def kill_near_end(name):
    """Runs the job of that name again, and kills the leader when few mini-batches are left."""
    leader = subprocess.Popen(
        run_command(WORK / f"{name}.yaml"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while leader.poll() is None:
        time.sleep(0.02)
        outputs = list(jobs().glob(f"{name}.*/output/rows.txt"))
        if outputs and count_lines(outputs[0]) >= MANY:
            break
    leader.kill()
    if leader.wait() == 0:
        sys.exit("bench: the job ended before its leader could be killed; try again")


def count_lines(path):
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


# --- jobs and data ----------------------------------------------------------------------------


def job(name, component, inputs, arguments, mini_batch_size, workers, more=""):
    """Writes a job file. Returns a function that runs the job and measures it."""
    path = WORK / f"{name}.yaml"
    path.write_text(
        f"name: {name}\nentry_script: {component}\ninputs:\n{inputs}\narguments: {arguments}\n"
        f"mini_batch_size: {mini_batch_size}\nprocess_count_per_node: {workers}\n"
        f"append_row_file_name: rows.txt\n{more}\n"
    )
    # `run_command` removes the last round's files before the measurement begins.
    return lambda watch_memory=False: measure(run_command(path), watch_memory)


def run_command(path):
    """The command that runs the job of that file in a new job directory. Removes the job directory of the
    last round."""
    name = path.stem
    for last in jobs().glob(f"{name}.*"):
        shutil.rmtree(last)
    return [SANDMILL, "run", path, "--job-dir", jobs() / f"{name}.{time.time_ns()}"]


@functools.cache
def jobs():
    """The folder of job directories.

    An ext4 file system without a journal does not reuse the inode of a file that was removed in the last
    minutes, but inspects each such inode for every new file. After some rounds a tiny job would take up to
    four times as long. If a folder is marked as a top folder (`chattr +T`), ext4 places each new folder in it
    elsewhere on the disk."""
    folder = WORK / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    if marking := shutil.which("chattr"):
        # Other file systems do not have this mark, and do not need it.
        subprocess.run([marking, "+T", folder], stderr=subprocess.DEVNULL)
    return folder


def job_dir(name):
    """The job directory of the last round of the job of that name."""
    return next(jobs().glob(f"{name}.*"))


def natively(output, *words):
    """Returns a function that runs the native program and measures it. It removes the last round's output
    before, as for jobs."""

    def run():
        output.unlink(missing_ok=True)
        return measure([NATIVE, *words])

    return run


def table_job(name, component, data, more="", form="csv", size="1 MB", arguments="[]"):
    inputs = f"  rows:\n    path: {data}\n    format: {form}"
    return job(name, component, inputs, arguments, size, WORKERS, more)


def job_output(name):
    return job_dir(name) / "output" / "rows.txt"


def files_data(name, count):
    return made(name, lambda path: ["make-files", path, count])


def table_data(name, rows):
    return made(name, lambda path: ["make-table", path, rows])


def made(name, command, program=NATIVE):
    """The data of that name. Makes it if it does not exist."""
    path = WORK / name
    if not path.exists():
        print(f"making {path.relative_to(ROOT)} ...", file=sys.stderr)
        part = WORK / f"part-{name}"
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run([program, *map(str, command(part))], check=True)
        part.rename(path)
        # While ten gigabytes are still being written to the disk, a job that reads them would be slower.
        os.sync()
    return path


def build_native(*options):
    if PACKED:
        return
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", *options],
        cwd=ROOT / "benches" / "native",
        env={**os.environ, "CARGO_TARGET_DIR": str(BUILDS)},
        check=True,
    )


def python_side():
    """The Python side of benchmarks with models: the interpreter, ONNX Runtime's library, and the script."""
    python, library = python_env()
    os.environ |= {"SANDMILL_ONNXRUNTIME": str(library), "ORT_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1"}
    return python, library, ROOT / "benches" / "inference.py"


def python_env():
    """Makes an environment for the Python side. Returns its interpreter, and ONNX Runtime's library in it."""
    if PACKED:
        import onnxruntime

        capi = Path(onnxruntime.__file__).parent / "capi"
        return Path(sys.executable), next(capi.glob("libonnxruntime.so*"))
    env = WORK / "venv"
    stamp = env / "+".join(PACKAGES)
    if not stamp.exists():
        print(f"installing {', '.join(PACKAGES)} into {env.relative_to(ROOT)} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", env], check=True)
        pip = [env / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        stamp.touch()
    library = next(env.glob("lib/*/site-packages/onnxruntime/capi/libonnxruntime.so*"))
    return env / "bin" / "python", library


def build_guest(name, where=ROOT / "benches" / "guests"):
    """Builds the guest crate of that name with `sandmill build`. Returns its component."""
    if PACKED:
        return PACKED / "guests" / f"{name.replace('-', '_')}.wasm"
    built = subprocess.run(
        [SANDMILL, "build", where / name],
        env={**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target" / "guests")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ROOT / built.stdout.strip()


# --- measuring --------------------------------------------------------------------------------


class Taken:
    """The measurements of one run: the seconds of wall time and of CPU time, and the peak memory in MB of the
    leader and of the largest process that it started."""

    def __init__(self, wall, cpu, peak, children=None):
        self.wall, self.cpu, self.peak, self.children = wall, cpu, peak, children


def measure(command, watch_memory=False):
    """Runs a command to its end. CPU time is that of the whole process tree."""
    log = WORK / "last-run.txt"
    with open(log, "wb") as sink:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        watcher = Watcher(process.pid) if watch_memory else None
        # Unlike process.wait, wait4 returns the resource usage of the process and of all children that it
        # waited for.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = watcher.finish() if watcher else None
    if process.returncode != 0:
        text = log.read_text(errors="replace")
        words = " ".join(str(word) for word in command)
        sys.exit(f"bench: `{words}` ended with {process.returncode}:\n{text}")
    return Taken(wall, usage.ru_utime + usage.ru_stime, *(peak or (None, None)))


class Watcher:
    """Reads the peak memory of a process, and the largest one of its children, until it ends. Reading takes
    time, which increases the wall time of the watched processes, but not their CPU time."""

    def __init__(self, pid):
        self.process = Path(f"/proc/{pid}")
        self.peak = self.children = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.stop.wait(0.002):
            self.peak = max(self.peak, peak_of(self.process))
            lists = self.process.glob("task/*/children")
            try:
                pids = [pid for each in lists for pid in each.read_text().split()]
            except OSError:
                continue
            for pid in pids:
                self.children = max(self.children, peak_of(Path(f"/proc/{pid}")))

    def finish(self):
        self.stop.set()
        self.thread.join()
        return self.peak, self.children


def peak_of(process):
    """The peak memory of a process in MB. 0 if the process has ended."""
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0
    return max((int(text.split()[1]) / 1024 for text in lines if text.startswith("VmHWM:")), default=0)


def in_turns(sides, rounds):
    """Runs all sides in turns. Returns the results of each side, without the first round, which only warms
    up."""
    taken = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, run in sides.items():
            result = run()
            if number > 0:
                taken[name].append(result)
    return taken


def rounds_of(sides, rounds):
    """Runs all sides in turns. Returns the medians of each side."""
    taken = in_turns(sides, rounds)
    return {
        name: Taken(
            statistics.median(result.wall for result in results),
            statistics.median(result.cpu for result in results),
            None,
        )
        for name, results in taken.items()
    }


def numbers(row):
    """Parses a row to an id and a float, because floats may be printed differently: 1e-5 is 0.00001."""
    number, float_text = row.split()
    return int(number), float(float_text)


def same_rows(expected, actual, read=bytes):
    """Fails unless both files have the same lines, each parsed by `read`, in any order."""
    expected_rows = sorted(map(read, expected.read_bytes().splitlines()))
    actual_rows = sorted(map(read, actual.read_bytes().splitlines()))
    if expected_rows == actual_rows:
        return
    here = next(
        (pair for pair in zip(expected_rows, actual_rows) if pair[0] != pair[1]), ("an end", "")
    )
    sys.exit(
        f"bench: {actual} has {len(actual_rows)} rows and {expected} {len(expected_rows)}; "
        f"the first that differ are {here[1]} and {here[0]}"
    )


def near_rows(expected, actual):
    """Fails unless both files have the same ids and about the same numbers, which are sums of
    single-precision numbers in any order."""
    sides = [sorted(map(numbers, path.read_bytes().splitlines())) for path in (expected, actual)]
    near = (a[0] == b[0] and abs(a[1] - b[1]) < 1e-4 for a, b in zip(*sides))
    if len(sides[0]) != len(sides[1]) or not all(near):
        sys.exit(f"bench: {actual} has other rows than {expected}")


# --- results ----------------------------------------------------------------------------------


def line(name, value, unit, goal=None, at_least=False):
    return {"name": name, "value": value, "unit": unit, "goal": goal, "at_least": at_least}


def native_line(name, taken):
    return line(name, taken.wall * 1000, "ms")


def ratio_lines(name, taken, native, goal):
    return [
        line(name, taken.wall * 1000, "ms"),
        line("   wall / native", taken.wall / native.wall, "x", goal),
        line("   CPU / native", taken.cpu / native.cpu, "x"),
    ]


def show(lines, rounds, name="results.json"):
    processors, load = os.cpu_count(), os.getloadavg()[0]
    print(f"\nmedians of {rounds} rounds, {WORKERS} workers, {processors} processors", end=", ")
    print(f"load {load:.1f} at the end (what else runs makes these figures worse)")
    print(f"{'':44}{'measured':>12}  {'goal':>10}")
    for each in lines:
        measured = f"{each['value']:.2f} {each['unit']:<2}"
        goal = ""
        if each["goal"] is not None:
            short = each["value"] < each["goal"]
            met = "met" if short != each["at_least"] or each["value"] == each["goal"] else "MISSED"
            sign = ">=" if each["at_least"] else "<="
            goal = f"{sign} {each['goal']:g} {each['unit']:<2}  {met}"
        print(f"{each['name']:44}{measured:>12}  {goal:>10}".rstrip())
    (WORK / name).write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
