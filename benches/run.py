#!/usr/bin/env python3
"""Compares Sandmill with native code that does the same work, and prints the ratios.

Rounds of native code and of Sandmill take turns, so that a slow minute of the machine affects both. Figures are
medians. The outputs of both are compared. Data, jobs and results are in target/bench. The data is made once,
from a fixed seed. `make bench` builds the binary with the profile `dist`, and runs this program.

    benches/run.py              all parts, also with a table of ten times the size (2 GB)
    benches/run.py --quick      three rounds, and no table of ten times the size
    benches/run.py --large memory    also a table of 10 GB. The table and the job's output need 13 GB
    benches/run.py tiny table   only these parts. There are: tiny, start, files, table, parquet, jsonl, perceptron,
                                fuel, memory, books, noise, inference, digits, gpu

On a machine without a compiler, SANDMILL_PACKED must name the folder that `scripts/gpu.sh pack` made.
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
# The number of rows of the job with the perceptron, which takes more time for each row.
HEAVY_ROWS = 1_000_000
TINY_FILES = 8
BOOKKEEPING_FILES = 100_000
# The leader is killed when at most this many mini-batches are left.
REMAINING_FILES = 2_000
# The numbers of images in one call of a model, and the number of all images for each model.
BATCHES = (64, 256, 1024)
IMAGES = {"mlp": 4_000_000, "cnn": 80_000}
RESNET_BATCH, RESNET_IMAGES = 64, 25_600
DIGITS = 50_000
PACKAGES = ["numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.31.1", "pillow==12.3.0"]
# For each act of a neighbour, the percentage of a job's throughput that must remain. `bandwidth` has no goal, because
# all programs on a machine share the memory bandwidth.
NEIGHBOURS = {"cpu": 90, "faults": 90, "disk": 90, "logs": 90, "bandwidth": None}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", metavar="PART", help="the parts to measure; all by default")
    options.add_argument("--quick", action="store_true", help="three rounds, and no table of ten times the size")
    options.add_argument("--large", action="store_true", help="also a table of 10 GB")
    options.add_argument("--rounds", type=int, help="the number of rounds; 5 by default")
    options = options.parse_args()
    parts = (tiny, start, files, table, parquet, jsonl, perceptron, fuel, memory, books, noise, inference, digits, gpu)
    known = {part.__name__: part for part in parts}
    if unknown := [part for part in options.parts if part not in known]:
        sys.exit(f"bench: no part {unknown[0]}; there are {', '.join(known)}")
    options.rounds = options.rounds or (3 if options.quick else 5)

    os.environ["SANDMILL_CACHE_DIR"] = str(WORK / "cache")
    # Backtraces, which a developer may have enabled, make errors slower.
    os.environ.pop("RUST_BACKTRACE", None)
    WORK.mkdir(parents=True, exist_ok=True)
    build_native()
    lines = []
    for part in options.parts or known:
        lines += known[part](options)
    show(lines, options.rounds)


# --- the benchmarks ---------------------------------------------------------------------------


def tiny(options):
    """A tiny job, which measures the start and the end of a job."""
    data = files_data("tiny-files", TINY_FILES)
    component = build_guest("tally")
    inputs = f"  files: {data}"
    single = f"  files: {data}/d00/f00000.txt"
    arguments = '["--via", "sdk"]'
    one = job("tiny-1", component, single, arguments, 1, 1)
    spread1 = job("tiny-spread-1", component, inputs, arguments, 1, 1)
    spread5 = job("tiny-spread-5", component, inputs, arguments, 1, 5)
    rounds = options.rounds * 3
    # The first round, which does not count, may compile the component.
    taken = rounds_of({"one": one, "spread1": spread1, "spread5": spread5}, rounds)
    one, spread1, spread5 = taken["one"], taken["spread1"], taken["spread5"]
    return [
        figure("W3 one tiny mini-batch, start to exit", one.wall * 1000, "ms", 40),
        figure("   CPU", one.cpu * 1000, "ms"),
        figure("W3 each further worker", (spread5.wall - spread1.wall) / 4 * 1000, "ms", 8),
        figure("   CPU", (spread5.cpu - spread1.cpu) / 4 * 1000, "ms"),
    ]


def start(options):
    """The time until a worker is ready, and the worker's memory. The component has 2 MB and is already compiled."""
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
        figure(f"A worker, from before its start to ready, {size}", statistics.median(first[1:]) * 1000, "ms", 5),
        figure("   the second of two that start together", statistics.median(second[1:]) * 1000, "ms"),
        figure("   private memory while idle", idle_memory(), "MB", 12),
    ]


def spawn_to_ready(folder):
    """The seconds from before each worker's start until it is ready, in the order in which the workers became
    ready."""
    events = (folder / "logs" / "sys" / "events.jsonl").read_text().splitlines()
    kinds = [json.loads(text)["kind"] for text in events]
    return [kind["start_seconds"] for kind in kinds if kind["event"] == "worker_ready"]


def idle_memory():
    """The private memory of a worker in MB. Its guest sleeps, and uses hardly any memory."""
    leader = subprocess.Popen(neighbour_command("idle")(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        children = Path(f"/proc/{leader.pid}/task/{leader.pid}/children").read_text().split()
        names = {child: Path(f"/proc/{child}/comm").read_text().strip() for child in children}
        worker = next(child for child, name in names.items() if name == "worker")
        rollup = Path(f"/proc/{worker}/smaps_rollup").read_text().splitlines()
        return sum(int(row.split()[1]) for row in rollup if row.startswith("Private_")) / 1024
    finally:
        leader.kill()
        leader.wait()


def files(options):
    """A job over 20,000 small files. Its guest reads each file by one call to the host, or through std::fs."""
    data = files_data("files", FILES)
    component = build_guest("tally")
    output = WORK / "tally-native.txt"
    sides = {"native": native_run(output, "tally", data, output, WORKERS)}
    for via in ("sdk", "fs"):
        arguments = f'["--via", "{via}"]'
        sides[via] = job(f"tally-{via}", component, f"  files: {data}", arguments, 10, WORKERS)
    taken = rounds_of(sides, options.rounds)
    for via in ("sdk", "fs"):
        require_same_rows(output, job_output(f"tally-{via}"))
    return [
        native_figure(f"W2 {FILES:,} files, native", taken["native"]),
        *ratio_figures("W2 files through the SDK", taken["sdk"], taken["native"], 1.25),
        *ratio_figures("W2 files through std::fs", taken["fs"], taken["native"], 2.2),
    ]


def table(options):
    """A logistic regression over a CSV file."""
    return measure_scoring(options, "logistic", "csv", ROWS, 0.6)


def parquet(options):
    """The same regression over the same rows in Parquet."""
    return measure_scoring(options, "logistic", "parquet", ROWS, 1.1)


def jsonl(options):
    """The same regression over the same rows as JSON lines."""
    return measure_scoring(options, "logistic", "jsonl", ROWS, 1.1)


def perceptron(options):
    """Heavy arithmetic, in the guest and in the host's ONNX Runtime."""
    lines = measure_scoring(options, "perceptron", "parquet", HEAVY_ROWS, 2.6)
    data, output = WORK / f"table-{HEAVY_ROWS}.parquet", WORK / "perceptron-parquet-native.txt"
    native = native_run(output, "perceptron", data, output, WORKERS, "arrow")
    run = perceptron_by_model("perceptron-nn", data)
    taken = rounds_of({"native": native, "sandmill": run}, options.rounds)
    require_near_rows(output, job_output("perceptron-nn"))
    return [*lines, *ratio_figures("   by way of wasi:nn", taken["sandmill"], taken["native"], 1)]


def perceptron_by_model(name, data):
    """The job that computes the perceptron as a model in the host."""
    python, _, script = python_tools()
    model = made_once("perceptron.onnx", lambda path: [script, "layers", path], python)
    more = f"models: {{ perceptron: {{ path: {model}, backend: onnxruntime }} }}\ninference: {{ threads: 1 }}"
    component = build_guest("perceptron")
    return table_job(name, component, data, more, "parquet", arguments='["--nn"]')


def measure_scoring(options, guest, form, rows, goal):
    """Compares a job that computes one number for each row of a file. `goal`: see `ratio_figures`."""
    data = table_data("table.csv", ROWS)
    if form != "csv":
        csv = data
        data = made_once(f"table-{rows}.{form}", lambda path: ["convert", csv, path, rows])
    component = build_guest(guest)
    name = f"{guest}-{form}"
    outputs = {printer: WORK / f"{name}-native-{printer}.txt" for printer in ("arrow", "loop")}
    run = table_job(name, component, data, form=form)
    sides = {
        printer: native_run(output, guest, data, output, WORKERS, printer) for printer, output in outputs.items()
    }
    taken = rounds_of({**sides, "sandmill": run}, options.rounds)
    for output in outputs.values():
        require_same_rows(output, job_output(name), numbers)
    watched = run(watch_memory=True)
    computation = f"{guest} regression" if guest == "logistic" else guest
    return [
        native_figure(f"{rows:,} rows, {computation}, {form}: native", taken["arrow"]),
        figure("   CPU", taken["arrow"].cpu * 1000, "ms"),
        *ratio_figures("   Sandmill", taken["sandmill"], taken["arrow"], goal),
        figure("   CPU", taken["sandmill"].cpu * 1000, "ms"),
        figure("   wall / native that prints with itoa and ryu", taken["sandmill"].wall / taken["loop"].wall, "x"),
        figure("   leader's peak memory", watched.peak, "MB", 60),
        figure("   a worker's peak memory", watched.children, "MB"),
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
        figure("Fuel: the CSV job with it, wall", taken["on"].wall / taken["off"].wall, "x"),
        figure("   CPU", taken["on"].cpu / taken["off"].cpu, "x"),
    ]


def memory(options):
    """The cost of more rows. CPU time should grow in proportion to the rows, and memory should not grow."""
    component = build_guest("logistic")
    sizes = [1] if options.quick else [1, 10, 50] if options.large else [1, 10]
    lines, single = [], None
    for factor in sizes:
        name = f"memory-{factor}x"
        rows = ROWS * factor
        data = table_data("table.csv" if factor == 1 else f"table-{factor}x.csv", rows)
        run = table_job(name, component, data)
        # Times of short runs vary more, so only short runs are repeated.
        taken = [run(watch_memory=True) for _ in range(1 if factor > 10 else options.rounds)]
        cpu = statistics.median(one.cpu for one in taken)
        single = single or cpu
        size = data.stat().st_size / 1e9
        lines += [
            figure(f"{rows:,} rows, {size:.1f} GB: leader's peak memory", max(one.peak for one in taken), "MB", 60),
            figure("   a worker's peak memory", max(one.children for one in taken), "MB"),
            figure("   CPU for each row / in the smallest table", cpu / factor / single, "x", 1.1),
        ]
        if count_lines(job_output(name)) != rows:
            sys.exit(f"bench: the output of {name} does not have as many rows as the input")
        shutil.rmtree(job_dir(name))
    return lines


def books(options):
    """The cost of bookkeeping: a job with very many tiny mini-batches, and resuming this job."""
    data = files_data("many-files", BOOKKEEPING_FILES + REMAINING_FILES)
    component = build_guest("tally")
    run = job("books", component, f"  files: {data}", '["--via", "sdk"]', 1, WORKERS)
    taken = run(watch_memory=True)
    seconds = taken.wall / (BOOKKEEPING_FILES + REMAINING_FILES) * BOOKKEEPING_FILES
    kill_near_end("books")
    done = count_lines(job_output("books"))
    resumed = measure([SANDMILL, "resume", job_dir("books")], watch_memory=True)
    if (rows := count_lines(job_output("books"))) != BOOKKEEPING_FILES + REMAINING_FILES:
        sys.exit(f"bench: the resumed job has {rows} rows instead of {BOOKKEEPING_FILES + REMAINING_FILES}")
    return [
        figure(f"Bookkeeping, {BOOKKEEPING_FILES:,} mini-batches of one file", seconds, "s", 30),
        figure("   leader's peak memory", taken.peak, "MB", 150),
        figure(f"Resuming a job with {done:,} done, to its end", resumed.wall, "s", 2),
        figure("   leader's peak memory", resumed.peak, "MB", 150),
    ]


def noise(options):
    """The throughput of a job beside an idle or hostile neighbour. The job and the neighbour have half of the
    processors each."""
    data = files_data("files", FILES)
    run = job("quiet", build_guest("tally"), f"  files: {data}", '["--via", "sdk"]', 10, 1)
    loop = ["sh", "-c", "while :; do :; done"]
    sides = {name: run_beside(neighbour_command(name), run) for name in ("idle", *NEIGHBOURS)}
    taken = rounds_of({**sides, "loop": run_beside(lambda: loop, run)}, options.rounds)
    idle, busy = taken["idle"].wall, taken["loop"].wall
    lines = [
        figure("Noise: the job beside an idle neighbour", idle * 1000, "ms"),
        # This figure shows the effect of resources that processors share: cores, caches, clock.
        figure("   throughput kept beside a native loop", idle / busy * 100, "%"),
    ]
    for name, goal in NEIGHBOURS.items():
        kept_of_idle, kept_of_busy = idle / taken[name].wall * 100, busy / taken[name].wall * 100
        lines.append(figure(f"   throughput kept beside: {name}", kept_of_idle, "%", goal, at_least=True))
        lines.append(figure("      of the throughput beside the loop", kept_of_busy, "%"))
    return lines


def inference(options):
    """Models on the CPU: the cost of a call to the host, and Sandmill's backends compared with Python. Every
    process computes on one thread."""
    python, library, script = python_tools()
    models = made_once("models", lambda path: [script, "models", path], python)
    component = build_guest("infer")
    lines = []
    for model, images in IMAGES.items():
        images //= 10 if options.quick else 1
        arguments = [models / f"{model}.onnx", images, ",".join(map(str, BATCHES))]
        sides = {
            "native": lambda: run_printing_seconds([NATIVE, "infer", library, *arguments, "cpu"]),
            "python": lambda: run_printing_seconds([python, script, "loop", *arguments]),
        }
        for backend in ("onnxruntime", "tract"):
            sides[backend] = infer_job(f"infer-{model}-{backend}", component, arguments, f"backend: {backend}")
        taken = loops_of(sides, options.rounds)
        # The perceptron computes 64 images in some microseconds, so it shows the cost of a call.
        goals = (0.9, 0.95) if model == "cnn" else (None, None)
        for batch in BATCHES:
            native, in_python, onnxruntime, tract = (side[batch] for side in taken.values())
            more = statistics.median(onnxruntime) - statistics.median(native)
            lines += [
                figure(
                    f"Inference: {model}, {batch} images in a call, native", statistics.median(native) * 1e6, "us"
                ),
                figure("   a call costs more than natively", more * 1e6, "us"),
                figure("   throughput of native kept", ratio(native, onnxruntime), "x", goals[0], at_least=True),
                figure("   of Python's", ratio(in_python, onnxruntime), "x", goals[1], at_least=True),
                figure("   of Python's, by tract", ratio(in_python, tract), "x"),
            ]
    return lines


def digits(options):
    """A job over PNG files, compared with a pool of Python processes."""
    python, _, script = python_tools()
    count = DIGITS // (5 if options.quick else 1)
    example = ROOT / "examples" / "digit-identification"
    data = made_once(f"digits-{count}", lambda path: [script, "images", path, count, example / "data" / "images"], python)
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
    require_same_rows(output, job_output("digits"))
    in_python, in_sandmill = taken["python"], taken["sandmill"]
    return [
        figure(f"Inference: {count:,} PNG files, Python", in_python.wall * 1000, "ms"),
        figure("   Sandmill", in_sandmill.wall * 1000, "ms"),
        figure("   times faster", in_python.wall / in_sandmill.wall, "x", 2, at_least=True),
        figure("   CPU / CPU of Python", in_sandmill.cpu / in_python.cpu, "x"),
    ]


def gpu(options):
    """A network of the size of ResNet-18 on a GPU, with each backend that can use the GPU. Skipped if the machine
    has no GPU."""
    python, library, script = python_tools()
    report = subprocess.run([SANDMILL, "doctor", "--json"], stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(report)
    if not found["gpus"]["count"]:
        print("Inference on a GPU is skipped: no GPU", file=sys.stderr)
        return []
    models = made_once("models", lambda path: [script, "models", path], python)
    component = build_guest("infer")
    arguments = [models / "resnet.onnx", RESNET_IMAGES, RESNET_BATCH]
    # For tract, the native side uses the kernels that Sandmill compiled.
    os.environ |= {"XDG_CACHE_HOME": str(WORK / "cache" / "cuda"), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    native_commands = {
        "onnxruntime": [NATIVE, "infer", library, *arguments, "gpu"],
        "tract": [NATIVE, "infer-tract", *arguments],
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
        run_sandmill = infer_job(job_name, component, arguments, f"backend: {name}, device: gpu", "gpus: 1")
        # The first run compiles the kernels.
        run_sandmill()
        taken = loops_of({"native": lambda: run_printing_seconds(native_commands[name]), "sandmill": run_sandmill}, options.rounds)
        native, in_sandmill = (side[RESNET_BATCH] for side in taken.values())
        lines += [
            figure(
                f"Inference: like ResNet-18 on a GPU, {name}, native",
                RESNET_BATCH / statistics.median(native),
                "images/s",
            ),
            figure("   throughput of native kept", ratio(native, in_sandmill), "x", 0.8, at_least=True),
            figure("   use of the GPU at its highest", gpu_percent(job_name), "%"),
        ]
    return lines


def gpu_percent(name):
    """The highest GPU utilization among the samples of a job."""
    samples = job_dir(name) / "logs" / "perf" / "0" / "node_resource_usage.csv"
    rows = list(csv.DictReader(samples.read_text().splitlines()))
    return max((float(row["GPU 0 %"]) for row in rows if row.get("GPU 0 %")), default=0)


def infer_job(name, component, arguments, model_settings, job_settings=""):
    """Writes a job that runs a model in a loop. Returns a function that runs the job, and returns the seconds that
    the job measured."""
    model, images, batches = arguments
    run = job(
        name,
        component,
        f"  one: {files_data('tiny-files', TINY_FILES)}/d00/f00000.txt",
        f'["--images", "{images}", "--batches", "{batches}"]',
        1,
        1,
        f"models: {{ model: {{ path: {model}, {model_settings} }} }}\ninference: {{ threads: 1 }}\n{job_settings}",
    )

    def measured():
        run()
        return parse_seconds(job_output(name))

    return measured


def run_printing_seconds(command):
    """Runs a command that prints the seconds that it measured. Returns these seconds."""
    measure(command)
    return parse_seconds(WORK / "last-run.txt")


def parse_seconds(path):
    """Parses a file with the seconds of one call for each batch size, such as `64 1e-4;256 4e-4`."""
    pairs = (pair.split() for pair in path.read_text().strip().split(";"))
    return {int(batch): float(seconds) for batch, seconds in pairs}


def loops_of(sides, rounds):
    """Runs all sides in turns. Returns, for each side and each batch size, the seconds of each round."""
    taken = in_turns(sides, rounds)
    return {
        name: {batch: [result[batch] for result in results] for batch in results[0]}
        for name, results in taken.items()
    }


def ratio(numerators, denominators):
    """The median of the ratios of all rounds. A ratio of medians would be less exact, because on a shared machine
    the speed varies more from round to round than the two sides differ."""
    return statistics.median(one / other for one, other in zip(numerators, denominators))


def neighbour_command(name):
    """Writes the job of a neighbour, which runs until it is killed. Returns a function that returns the command of
    the job."""
    component = build_guest("neighbour")
    path = WORK / f"neighbour-{name}.yaml"
    path.write_text(
        f"name: neighbour-{name}\nentry_script: {component}\narguments: [--do, {name}]\n"
        "rank_mini_batch_count: 1000000000\nprocess_count_per_node: 1\nerror_threshold: -1\n"
        "run_max_try: 1\noutput_action: summary_only\n"
    )
    return lambda: run_command(path)


def run_beside(command, run):
    """Runs a job on one half of the processors, beside a neighbour on the other half."""

    def run_both():
        processors = sorted(os.sched_getaffinity(0))
        half = len(processors) // 2
        # Child processes inherit the set of processors.
        os.sched_setaffinity(0, processors[half:])
        neighbour = subprocess.Popen(
            command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.sched_setaffinity(0, processors[: half or 1])
        time.sleep(0.7)
        try:
            if neighbour.poll() is not None:
                sys.exit(f"bench: the neighbour ended with {neighbour.returncode}")
            return run()
        finally:
            os.sched_setaffinity(0, processors)
            neighbour.kill()
            neighbour.wait()

    return run_both


def kill_near_end(name):
    """Runs the job `name` again, and kills the leader when few mini-batches are left."""
    leader = subprocess.Popen(
        run_command(WORK / f"{name}.yaml"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while leader.poll() is None:
        time.sleep(0.02)
        outputs = list(jobs_folder().glob(f"{name}.*/output/rows.txt"))
        if outputs and count_lines(outputs[0]) >= BOOKKEEPING_FILES:
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
    """The command that runs the job file `path` in a new job directory. Removes the job directory of the last
    round."""
    name = path.stem
    for last in jobs_folder().glob(f"{name}.*"):
        shutil.rmtree(last)
    return [SANDMILL, "run", path, "--job-dir", jobs_folder() / f"{name}.{time.time_ns()}"]


@functools.cache
def jobs_folder():
    """The folder of job directories.

    An ext4 file system without a journal does not reuse the inode of a file that was removed in the last
    minutes, but inspects all these inodes for every new file. After some rounds, a tiny job would take up to
    four times as long. If a folder is marked as a top folder (`chattr +T`), ext4 places the folders in it at
    different places on the disk."""
    folder = WORK / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    if chattr := shutil.which("chattr"):
        # Other file systems do not have this mark, and do not need it.
        subprocess.run([chattr, "+T", folder], stderr=subprocess.DEVNULL)
    return folder


def job_dir(name):
    """The job directory of the last round of the job `name`."""
    return next(jobs_folder().glob(f"{name}.*"))


def native_run(output, *arguments):
    """Returns a function that runs the native program and measures it. The function first removes the last
    round's output, as for jobs."""

    def run():
        output.unlink(missing_ok=True)
        return measure([NATIVE, *arguments])

    return run


def table_job(name, component, data, more="", form="csv", size="1 MB", arguments="[]"):
    inputs = f"  rows:\n    path: {data}\n    format: {form}"
    return job(name, component, inputs, arguments, size, WORKERS, more)


def job_output(name):
    return job_dir(name) / "output" / "rows.txt"


def files_data(name, count):
    return made_once(name, lambda path: ["make-files", path, count])


def table_data(name, rows):
    return made_once(name, lambda path: ["make-table", path, rows])


def made_once(name, command, program=NATIVE):
    """The path of the data `name`. Makes the data if it does not exist. `command`: returns the arguments of
    `program` for a path."""
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


def python_tools():
    """For the Python side of benchmarks with models: the interpreter, ONNX Runtime's library, and the script."""
    python, library = python_env()
    os.environ |= {"SANDMILL_ONNXRUNTIME": str(library), "ORT_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1"}
    return python, library, ROOT / "benches" / "inference.py"


def python_env():
    """Makes a virtual environment for the Python side. Returns the paths of its interpreter and of ONNX Runtime's
    library."""
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


def build_guest(name, folder=ROOT / "benches" / "guests"):
    """Builds the guest crate `name` with `sandmill build`. Returns the path of its component."""
    if PACKED:
        return PACKED / "guests" / f"{name.replace('-', '_')}.wasm"
    built = subprocess.run(
        [SANDMILL, "build", folder / name],
        env={**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target" / "guests")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ROOT / built.stdout.strip()


# --- measuring --------------------------------------------------------------------------------


class Measurement:
    """The measurements of one run: the seconds of wall time and of CPU time, and the peak memory in MB of the
    leader and of the largest process that it started."""

    def __init__(self, wall, cpu, peak, children=None):
        self.wall, self.cpu, self.peak, self.children = wall, cpu, peak, children


def measure(command, watch_memory=False):
    """Runs a command to its end. The CPU time includes all processes that the command started."""
    log = WORK / "last-run.txt"
    with open(log, "wb") as sink:
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        watcher = Watcher(process.pid) if watch_memory else None
        # Unlike process.wait, wait4 returns the resource usage of the process and of its children.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = watcher.finish() if watcher else None
    if process.returncode != 0:
        text = log.read_text(errors="replace")
        command_line = " ".join(str(word) for word in command)
        sys.exit(f"bench: `{command_line}` ended with {process.returncode}:\n{text}")
    return Measurement(wall, usage.ru_utime + usage.ru_stime, *(peak or (None, None)))


class Watcher:
    """Until a process ends, reads its peak memory, and the largest peak memory of its children. This increases the
    wall time of the processes, but not their CPU time."""

    def __init__(self, pid):
        self.process = Path(f"/proc/{pid}")
        self.peak = self.children = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.stop.wait(0.002):
            self.peak = max(self.peak, peak_memory(self.process))
            lists = self.process.glob("task/*/children")
            try:
                pids = [pid for path in lists for pid in path.read_text().split()]
            except OSError:
                continue
            for pid in pids:
                self.children = max(self.children, peak_memory(Path(f"/proc/{pid}")))

    def finish(self):
        self.stop.set()
        self.thread.join()
        return self.peak, self.children


def peak_memory(process):
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
    """Runs all sides in turns. Returns, for each side, the medians of its measurements."""
    taken = in_turns(sides, rounds)
    return {
        name: Measurement(
            statistics.median(result.wall for result in results),
            statistics.median(result.cpu for result in results),
            None,
        )
        for name, results in taken.items()
    }


def numbers(row):
    """Parses a row to an id and a float. Rows are not compared as text, because 1e-5 may be printed as 0.00001."""
    number, float_text = row.split()
    return int(number), float(float_text)


def require_same_rows(expected, actual, read=bytes):
    """Fails if the files do not have the same lines in any order. `read` parses each line."""
    expected_rows = sorted(map(read, expected.read_bytes().splitlines()))
    actual_rows = sorted(map(read, actual.read_bytes().splitlines()))
    if expected_rows == actual_rows:
        return
    difference = next(
        (pair for pair in zip(expected_rows, actual_rows) if pair[0] != pair[1]), ("an end", "")
    )
    sys.exit(
        f"bench: {actual} has {len(actual_rows)} rows and {expected} {len(expected_rows)}; "
        f"the first rows that differ are {difference[1]} and {difference[0]}"
    )


def require_near_rows(expected, actual):
    """Fails if the files do not have the same ids and about the same numbers. The numbers are sums of
    single-precision numbers that were added in different orders."""
    sides = [sorted(map(numbers, path.read_bytes().splitlines())) for path in (expected, actual)]
    are_near = (a[0] == b[0] and abs(a[1] - b[1]) < 1e-4 for a, b in zip(*sides))
    if len(sides[0]) != len(sides[1]) or not all(are_near):
        sys.exit(f"bench: the rows of {actual} differ from those of {expected}")


# --- results ----------------------------------------------------------------------------------


def figure(name, value, unit, goal=None, at_least=False):
    """A line of the results. `at_least`: the value must be at least the goal. Otherwise it must be at most the goal."""
    return {"name": name, "value": value, "unit": unit, "goal": goal, "at_least": at_least}


def native_figure(name, taken):
    return figure(name, taken.wall * 1000, "ms")


def ratio_figures(name, taken, native, goal):
    """`goal`: the largest allowed ratio of the wall times."""
    return [
        figure(name, taken.wall * 1000, "ms"),
        figure("   wall / native", taken.wall / native.wall, "x", goal),
        figure("   CPU / native", taken.cpu / native.cpu, "x"),
    ]


def show(lines, rounds, name="results.json"):
    processors, load = os.cpu_count(), os.getloadavg()[0]
    print(f"\nmedians of {rounds} rounds, {WORKERS} workers, {processors} processors", end=", ")
    print(f"load {load:.1f} at the end (other running programs make these figures worse)")
    print(f"{'':44}{'measured':>12}  {'goal':>10}")
    for line in lines:
        measured = f"{line['value']:.2f} {line['unit']:<2}"
        goal = ""
        if line["goal"] is not None:
            is_below = line["value"] < line["goal"]
            met = "met" if is_below != line["at_least"] or line["value"] == line["goal"] else "MISSED"
            sign = ">=" if line["at_least"] else "<="
            goal = f"{sign} {line['goal']:g} {line['unit']:<2}  {met}"
        print(f"{line['name']:44}{measured:>12}  {goal:>10}".rstrip())
    (WORK / name).write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
