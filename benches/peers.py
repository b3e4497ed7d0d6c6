#!/usr/bin/env python3
"""Compares Sandmill with other engines that run the same jobs.

The engines take turns, and each is measured from its start to its exit:
- a pool of Python processes with pyarrow (or pandas) and numpy, which cuts the data as the job does;
- DuckDB with a function in Python;
- Ray Data;
- PySpark, if Java is installed;
- Extism and arrow-udf, which run WebAssembly in a Rust program (`wasm_peers.py`).

In Sandmill, ONNX Runtime computes the perceptron. In the other engines, numpy computes it.

    benches/peers.py [--rounds N] [--engines A,B] [JOB...]
                    jobs: csv, parquet, perceptron, files. By default all jobs, with all engines

The release binary must exist (`make bench`). The packages are installed from PyPI into target/bench/peers.
Data and jobs are the same as in `benches/run.py`. The rows of each engine are compared with Sandmill's rows (see
`compare`).
"""

import argparse
import functools
import io
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = ["numpy==2.4.6", "pyarrow==26.0.1", "pandas==3.1.1", "duckdb==2.0.0", "ray[data]==2.60.0", "pyspark==4.3.0"]
ENGINES = {
    "csv": ["pyarrow", "pandas", "duckdb", "ray", "spark", "extism", "arrow-udf"],
    "parquet": ["pyarrow", "duckdb", "ray", "spark", "extism", "arrow-udf"],
    "perceptron": ["pyarrow", "ray", "spark"],
    "files": ["pool"],
}
SLICE_BYTES = 1_000_000
FILES_PER_BATCH = 10
COLUMNS = [f"f{n}" for n in range(10)]


# --- measuring ----------------------------------------------------------------------------------


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("jobs", nargs="*", metavar="JOB")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--engines", help="measure only these engines, separated by commas")
    options = options.parse_args()
    wanted = options.engines.split(",") if options.engines else sum(ENGINES.values(), [])
    if unknown := set(wanted).difference(*ENGINES.values()):
        sys.exit(f"bench: no engine {', '.join(unknown)}; there are {', '.join(dict.fromkeys(sum(ENGINES.values(), [])))}")
    import run

    run.WORK.mkdir(parents=True, exist_ok=True)
    os.environ["SANDMILL_CACHE_DIR"] = str(run.WORK / "cache")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    python = install_packages(run)
    # Extism keeps its compiled code in this folder.
    os.environ["XDG_CACHE_HOME"] = str(run.WORK / "peers-cache")
    run.build_native()
    lines = []
    for job in options.jobs or ENGINES:
        engines = [engine for engine in ENGINES[job] if engine in wanted]
        lines += measure_job(run, python, job, engines, options.rounds)
    run.show(lines, options.rounds, "peers.json")


def install_packages(run):
    env = run.WORK / "peers"
    stamp = env / "+".join(PACKAGES)
    python = env / "bin" / "python"
    if not stamp.exists():
        print(f"installing {', '.join(PACKAGES)} into {env.relative_to(run.ROOT)} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", env], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        stamp.touch()
    return python


def measure_job(run, python, job, engines, rounds):
    """Measures one job in Sandmill and in each of the other engines."""
    name, data, run_sandmill = sandmill_job(run, job)
    outputs = {}
    sides = {"sandmill": run_sandmill}
    for engine in engines:
        if command := command_of(python, engine, job):
            outputs[engine] = run.WORK / f"peer-{job}-{engine}"
            sides[engine] = functools.partial(run_engine, run, [*command, data, outputs[engine]])
    medians = run.rounds_of(sides, rounds)
    lines = [run.figure(f"{job}: Sandmill", medians["sandmill"].wall * 1000, "ms")]
    for engine, output in outputs.items():
        subprocess.run([python, __file__, "compare", run.job_output(name), output], check=True)
        factor = medians[engine].wall / medians["sandmill"].wall
        lines.append(run.figure(f"   {engine} takes", medians[engine].wall * 1000, "ms"))
        lines.append(run.figure("      times Sandmill's", factor, "x", 1, at_least=True))
    return lines


def command_of(python, engine, job):
    """The command of an engine, without data and output. If the engine cannot run on this machine, prints a
    message and returns None."""
    import wasm_peers

    if engine in wasm_peers.NAMES:
        return wasm_peers.command(engine)
    if engine == "spark" and not has_java():
        return None
    return [python, __file__, "run", engine, job]


def has_java():
    found = shutil.which("java") is not None
    if not found:
        print("PySpark is skipped: Java is not installed", file=sys.stderr)
    return found


def sandmill_job(run, job):
    """The name and the data of Sandmill's job, and a function that runs the job, as in `run.py`."""
    if job == "files":
        data = run.files_data("files", run.FILES)
        arguments = '["--via", "sdk"]'
        component = run.build_guest("tally")
        return "peers-files", data, run.job("peers-files", component, f"  files: {data}", arguments, FILES_PER_BATCH, run.WORKERS)
    data_format = "csv" if job == "csv" else "parquet"
    rows = run.HEAVY_ROWS if job == "perceptron" else run.ROWS
    data = run.table_data("table.csv", run.ROWS)
    if data_format == "parquet":
        csv = data
        data = run.made_once(f"table-{rows}.parquet", lambda path: ["convert", csv, path, rows])
    name = f"peers-{job}"
    if job == "perceptron":
        return name, data, run.perceptron_by_model(name, data)
    return name, data, run.table_job(name, run.build_guest("logistic"), data, form=data_format)


def run_engine(run, command):
    output = Path(command[-1])
    shutil.rmtree(output, ignore_errors=True)
    output.unlink(missing_ok=True)
    return run.measure(command)


# --- the other engines, in the environment with their packages ----------------------------------


def logistic(columns):
    import numpy as np

    weights = [0.31, -1.27, 0.08, 0.94, -0.55, 1.71, -0.02, 0.66, -1.13, 0.49]
    total = np.full(len(columns[0]), -0.125)
    for weight, column in zip(weights, columns):
        total += weight * column
    return 1 / (1 + np.exp(-total))


def layers(cached=[]):
    """The network's weights. Computes them once in each process, as in `kernels/perceptron.rs`."""
    import numpy as np

    if cached:
        return cached
    state = 0x5EED_0003

    def weight():
        nonlocal state
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        return (state >> 16) / 65_536 - 0.5

    first = [[weight() for _ in range(128)] for _ in range(10)]
    second = [[weight() / 8 for _ in range(128)] for _ in range(128)]
    last = [weight() / 8 for _ in range(128)]
    cached.extend(np.array(layer, "f") for layer in (first, second, last))
    return cached


def perceptron(columns):
    import numpy as np

    first, second, last = layers()
    hidden = np.maximum(np.stack(columns, axis=1).astype("f") @ first, 0)
    return (np.maximum(hidden @ second, 0) @ last).astype("d")


def model(job):
    return perceptron if job == "perceptron" else logistic


def rows_as_text(ids, scores):
    """Converts rows to text. pyarrow's CSV writer is the fastest way in Python."""
    import pyarrow as pa
    from pyarrow import csv

    sink = io.BytesIO()
    options = csv.WriteOptions(include_header=False, delimiter=" ")
    csv.write_csv(pa.table([ids, scores], ["id", "score"]), sink, options)
    return sink.getvalue()


def slices(data, job):
    """The parts of the data: byte ranges of whole lines, or indices of row groups."""
    if job != "csv":
        from pyarrow import parquet

        yield from range(parquet.ParquetFile(data).metadata.num_row_groups)
        return
    with open(data, "rb") as file:
        file.readline()
        start = file.tell()
        size = os.path.getsize(data)
        while start < size:
            file.seek(min(start + SLICE_BYTES, size))
            file.readline()
            yield start, file.tell()
            start = file.tell()


def score(engine, job, data, part):
    """Scores one of the `slices` of the data. Returns rows as text."""
    if job == "csv":
        start, end = part
        with open(data, "rb") as file:
            file.seek(start)
            text = io.BytesIO(file.read(end - start))
        if engine == "pandas":
            import pandas

            table = pandas.read_csv(text, names=["id", *COLUMNS])
            table["score"] = logistic([table[name].to_numpy() for name in COLUMNS])
            return table.to_csv(columns=["id", "score"], sep=" ", header=False, index=False).encode()
        from pyarrow import csv

        options = csv.ReadOptions(column_names=["id", *COLUMNS], use_threads=False)
        table = csv.read_csv(text, read_options=options)
    else:
        from pyarrow import parquet

        table = parquet.ParquetFile(data).read_row_group(part, use_threads=False)
    return rows_as_text(table["id"], model(job)([table[name].to_numpy() for name in COLUMNS]))


def tally(folder, files):
    rows = []
    for file in files:
        content = Path(folder, file).read_bytes()
        fnv_hash = 0xCBF2_9CE4_8422_2325
        for byte in content:
            fnv_hash = (fnv_hash ^ byte) * 0x0100_0000_01B3 & 0xFFFF_FFFF_FFFF_FFFF
        lines, words = content.count(b"\n"), len(content.split())
        rows.append(f"{Path(file).name} {len(content)} {lines} {words} {fnv_hash:016x}\n")
    return "".join(rows).encode()


def run_in_pool(call, parts, output):
    with multiprocessing.Pool(2) as pool, open(output, "wb") as rows:
        for lines in pool.imap_unordered(call, parts):
            rows.write(lines)


def run_duckdb(job, data, output):
    import duckdb
    import pyarrow as pa

    # DuckDB checks the number of parameters, so `scored` cannot take `*columns`.
    def scored(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
        columns = [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9]
        return pa.array(logistic([column.to_numpy() for column in columns]))

    database = duckdb.connect()
    database.execute("SET threads = 2")
    database.create_function("scored", scored, ["DOUBLE"] * 10, "DOUBLE", type="arrow")
    source = f"read_{'csv' if job == 'csv' else 'parquet'}('{data}')"
    query = f"SELECT id, scored({', '.join(COLUMNS)}) FROM {source}"
    database.execute(f"COPY ({query}) TO '{output}' (FORMAT csv, HEADER false, DELIMITER ' ')")


def run_ray(job, data, output):
    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    read = ray.data.read_csv if job == "csv" else ray.data.read_parquet

    def scored(batch):
        return {"id": batch["id"], "score": model(job)([batch[name] for name in COLUMNS])}

    read(data).map_batches(scored, batch_size=10_000).write_csv(output)


def run_spark(job, data, output):
    import pyarrow as pa
    from pyspark.sql import SparkSession

    def scored(batches):
        for batch in batches:
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS]
            scores = pa.array(model(job)(columns))
            yield pa.RecordBatch.from_arrays([batch.column("id"), scores], ["id", "score"])

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "4g"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    schema = "id long, " + ", ".join(f"{name} double" for name in COLUMNS)
    table = spark.read.csv(data, schema, header=True) if job == "csv" else spark.read.parquet(data)
    table.mapInArrow(scored, "id long, score double").write.csv(output, header=True)


def run_peer(engine, job, data, output):
    if job == "files":
        files = sorted(str(path.relative_to(data)) for path in Path(data).rglob("*.txt"))
        parts = [files[start : start + FILES_PER_BATCH] for start in range(0, len(files), FILES_PER_BATCH)]
        run_in_pool(functools.partial(tally, data), parts, output)
    elif engine in ("pyarrow", "pandas"):
        run_in_pool(functools.partial(score, engine, job, data), slices(data, job), output)
    else:
        {"duckdb": run_duckdb, "ray": run_ray, "spark": run_spark}[engine](job, data, output)


def compare(expected, actual):
    """Fails if the outputs do not have the same rows. Floats must agree to nine digits. For the perceptron, four
    digits are enough, because the engines add single-precision numbers in different orders."""
    import numpy as np
    import pandas

    job = Path(actual).name
    if "files" in job:
        is_same = sorted(Path(expected).read_bytes().splitlines()) == sorted(Path(actual).read_bytes().splitlines())
    else:

        def rows(path):
            is_folder = Path(path).is_dir()
            files = Path(path).glob("*.csv") if is_folder else [path]
            options = dict(sep=",", header=0) if is_folder else dict(sep=" ", header=None)
            tables = [pandas.read_csv(file, **options).set_axis(["id", "score"], axis=1) for file in files]
            return pandas.concat(tables).sort_values("id")

        wanted, found = rows(expected), rows(actual)
        tolerance = 1e-4 if "perceptron" in job else 1e-9
        has_same_scores = np.allclose(wanted.score, found.score, rtol=tolerance, atol=tolerance)
        is_same = np.array_equal(wanted.id, found.id) and has_same_scores
    if not is_same:
        sys.exit(f"bench: the rows of {actual} differ from those of {expected}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", engine, job, data, output]:
            run_peer(engine, job, data, output)
        case ["compare", expected, actual]:
            compare(expected, actual)
        case _:
            main()
