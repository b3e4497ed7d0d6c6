#!/usr/bin/env python3
"""Measures jobs on several machines, and prints a Markdown table.

Everything runs on this machine: a cluster of three NATS servers (`sync_interval: always`), agents, and leaders. All
runs take turns in random order. `scale` and `many` have simulated nodes (host/benches/many_nodes.rs), which cargo
builds first. `make bench` and scripts/python-env.sh make what this program needs. Data, jobs and results are in
target/bench/cluster. The job store and the output are a folder there; in `stored`, they are in an S3 server.

    benches/cluster.py                      all parts, with the program in target/dist
    benches/cluster.py --sandmill PATH      another program
    benches/cluster.py --quick              fewer rounds, and smaller jobs
    benches/cluster.py tiny start           only these parts. There are: tiny, start, small, stored, lost, drained,
                                            takeover, idle, scale, many, and also `large`, which runs only if it is named
    benches/cluster.py large                takes over a job over a table of 10 GB, which stays in target/bench
    benches/cluster.py --gigabytes 1 large  a smaller table
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path

import run
from local_cluster import BUCKET, PATIENCE, WORK, Cluster, build_many_nodes, nanoseconds, node_of, shuffled, wait_until


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", metavar="PART", help="the parts to measure; all by default")
    options.add_argument("--sandmill", type=Path, default=run.SANDMILL, help="the program")
    options.add_argument("--many-nodes", type=Path, help="the built program of host/benches/many_nodes.rs")
    options.add_argument("--quick", action="store_true", help="fewer rounds, and smaller jobs")
    options.add_argument("--gigabytes", type=float, default=10, help="the size of the table of `large`")
    options.add_argument("--seed", type=int, default=time.time_ns(), help="the order of the runs")
    options = options.parse_args()
    known = {part.__name__: part for part in ROUNDS}
    if unknown := [part for part in options.parts if part not in known]:
        sys.exit(f"bench: no part {unknown[0]}; there are {', '.join(known)}")
    run.SANDMILL = options.sandmill.resolve()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    os.environ["SANDMILL_CACHE_DIR"] = str(run.WORK / "cache")
    os.environ.pop("RUST_BACKTRACE", None)
    chosen = [known[name] for name in options.parts or known if options.parts or known[name] != large]
    if {scale, many} & {*chosen} and not options.many_nodes:
        options.many_nodes = build_many_nodes()
    begun = time.monotonic()
    options.table = make_table(options.gigabytes) if large in chosen else None
    with Cluster(options) as cluster:
        if stored in chosen:
            cluster.start_store()
        cluster.warm_up()
        runs = [part for part in chosen for _ in range(ROUNDS[part][options.quick])]
        random.Random(options.seed).shuffle(runs)
        samples = {part: [] for part in chosen}
        for number, part in enumerate(runs):
            print(f"run {number + 1} of {len(runs)}: {part.__name__}", file=sys.stderr)
            samples[part] += part(cluster)
    show(samples, options, time.monotonic() - begun)


# --- the benchmarks ---------------------------------------------------------------------------
# Each function makes one run, and returns its samples.


def tiny(cluster):
    """Many tiny mini-batches on three nodes with one worker each, and on one machine with three workers."""
    count = 6_000 if cluster.quick else 30_000
    with cluster.agents():
        sides = {"nodes": cluster.job("tiny", count, nodes=3, workers=1), "alone": cluster.job("tiny-alone", count, nodes=None, workers=3)}
        leaders = {name: job.start().wait() for name, job in shuffled(sides.items())}
    for job in sides.values():
        job.require_rows(count)
    leader, alone = leaders["nodes"], leaders["alone"]
    outcomes = count / cluster.messages_to("leader")
    return [(leader.cpu() * 1000 / count, outcomes, count / leader.wall, alone.wall / leader.wall, alone.cpu() * 1000 / count)]


def start(cluster):
    """One worker, whose attempts wait 10 ms and fail. The leader grants the next attempt right after the event that
    reports the failure. The entry script says when `run` began, by the same clock."""
    count = 100 if cluster.quick else 400
    with cluster.agents():
        more = f"run_max_try: {count + 1}"
        job = cluster.job("start", 1, nodes=1, workers=1, arguments=["--seconds", "0.01", "--failures", str(count)], more=more)
        job.start().wait()
    ends = [event for event in job.events() if event["kind"]["event"] == "attempt_finished"]
    failures = [event for event in ends if event["kind"]["will_retry"]]
    granted = [nanoseconds(event["at"]) for event in failures]
    began = [int(re.search(r"\d{19}", event["kind"]["report"]["outcome"]["Err"]["message"])[0]) for event in failures]
    began.append(int(job.rows()[0].split()[1]))
    return [(begin - grant) / 1e6 for grant, begin in zip(granted, began[1:], strict=True)]


def small(cluster):
    """A job of three mini-batches on three nodes, and on one machine without a broker."""
    with cluster.agents():
        sides = {"nodes": cluster.job("small", 3, nodes=3, workers=1), "alone": cluster.job("alone", 3, nodes=None, workers=1)}
        walls = {name: job.start().wait().wall for name, job in shuffled(sides.items())}
    for job in sides.values():
        job.require_rows(3)
    return [(walls["nodes"] * 1000, walls["alone"] * 1000)]


def stored(cluster):
    """The job of `small`, with its commit log and its results in an S3 server."""
    with cluster.agents():
        job = cluster.job("stored", 3, nodes=3, workers=1, place=BUCKET)
        before = cluster.store.count_requests()
        wall = job.start().wait().wall
        requests = cluster.store.count_requests() - before
    job.require_rows(3)
    return [(wall * 1000, requests)]


def lost(cluster):
    """Kills a node. Its mini-batches run again on workers of the other nodes, which have nothing else to do."""
    with cluster.agents() as agents:
        job = cluster.job("lost", 4, nodes=3, workers=2, arguments=["--seconds", "100"])
        leader = job.start()
        wait_until(lambda: len(job.find("attempt_started")) == 4, leader)
        first = job.find("attempt_started")[0]["kind"]["worker"]
        node = node_of(first)
        running = {kind["kind"]["id"] for kind in job.find("attempt_started") if node_of(kind["kind"]["worker"]) == node}
        killed = time.time_ns()
        agents[job.agent_of(node)].kill()

        def again():
            starts = job.find("attempt_started")[4:]
            return [nanoseconds(event["at"]) for event in starts if event["kind"]["id"] in running]

        wait_until(lambda: len(again()) == len(running), leader)
        leader.kill()
    return [(max(again()) - killed) / 1e9]


def drained(cluster):
    """Ends an agent with SIGTERM. Its waiting mini-batches go back to the leader, which may grant them anew."""
    with cluster.agents() as agents:
        job = cluster.job("drained", 100, nodes=3, workers=2, arguments=["--seconds", "2"])
        leader = job.start()
        wait_until(lambda: len(job.find("attempt_started")) >= 6, leader)
        agent = agents[job.agent_of(node_of(job.find("attempt_started")[0]["kind"]["worker"]))]
        ended = time.time_ns()
        agent.process.send_signal(signal.SIGTERM)
        wait_until(lambda: len(job.find("mini_batch_returned")) >= 2, leader)
        if (code := agent.process.wait(PATIENCE)) != 41:
            sys.exit(f"bench: the drained agent ended with {code} instead of 41")
        leader.kill()
    returned = [nanoseconds(event["at"]) for event in job.find("mini_batch_returned")]
    return [(max(returned) - ended) / 1e9]


def takeover(cluster):
    """Kills the leader when many mini-batches are done. An agent starts another one."""
    done = 4_000 if cluster.quick else 20_000
    with cluster.agents():
        job = cluster.job("takeover", 2 * done, nodes=3, workers=1)
        killed = take_over(cluster, job, done)
        first = cluster.find_led("attempt_started")[0]
    job.require_rows(2 * done)
    return [(nanoseconds(first["at"]) - killed) / 1e9]


def take_over(cluster, job, done):
    """Runs a job. Kills its leader when so many mini-batches are done, and waits until another one has ended the job.
    Returns the time of the kill in nanoseconds since 1970."""
    leader = job.start()
    wait_until(lambda: job.count_rows() >= done, leader)
    killed = time.time_ns()
    leader.kill()
    # Events would be read again and again, which takes processor time.
    ended = f"leads the job {job.folder.name} no longer: exit status: 0".encode()
    wait_until(lambda: any(ended in log.read_bytes() for log in WORK.glob("machine-*.log")))
    return killed


def idle(cluster):
    """As `takeover`, with mini-batches of half a second: how long no worker begins one, beyond this half second."""
    count = 60 if cluster.quick else 150
    with cluster.agents():
        job = cluster.job("idle", count, nodes=3, workers=2, arguments=["--seconds", "0.5"])
        killed = take_over(cluster, job, count // 3)
    job.require_rows(count)
    _, pause = pause_after(killed, [int(row.split()[1]) for row in job.rows()])
    return [max(pause - 0.5, 0)]


def large(cluster):
    """As `takeover`, when 100,000 mini-batches are done and half of a large table is planned. The rows say which attempts
    were lost: those of mini-batches that the killed leader saw begin, and that began again after the pause."""
    table, table_rows = cluster.table
    # So that half of the table has 100,000 mini-batches. Each of them has several rows.
    size = f"{max(table.stat().st_size // 205_000 // 1000, 3)} KB"
    inputs = f"entry_script: {cluster.counts}\ninputs:\n  rows:\n    path: {table}\n    format: csv\nmini_batch_size: {size}\n"
    with cluster.agents():
        job = cluster.job_over(inputs, "large", nodes=3, workers=1)
        killed = take_over(cluster, job, table_rows // 2)
    rows = [[int(word) for word in row.split()] for row in job.rows() if row]
    is_whole = sum(row[1] for row in rows) == table_rows == job.count_rows()
    if not is_whole or sorted(row[0] for row in rows) != list(range(len(rows))):
        sys.exit(f"bench: the rows of {job.folder} are not those of one run over the table")
    first, pause = pause_after(killed, [began for *_, began in rows])
    begun = {event["kind"]["id"] for event in job.find("attempt_started")}
    lost = sum(attempt > 1 or (began >= first and number in begun) for number, _, attempt, began in rows)
    before = sum(began <= killed for *_, began in rows) / len(rows) * 100
    return [((first - killed) / 1e9, pause, lost, before, before * len(rows) / 100)]


def pause_after(killed, begins):
    """The longest pause between two mini-batches that begin, if the second begins after the kill: when it ends, in
    nanoseconds, and how many seconds it takes."""
    begins = sorted(begins)
    pauses = [(second - first, second) for first, second in zip(begins, begins[1:]) if second > killed]
    pause, first = max(pauses)
    return first, pause / 1e9


def make_table(gigabytes):
    """A table of an id and a hundred floats, and how many rows it has. The same rows are there again and again, because
    only their bytes matter."""
    draw = random.Random(1).random
    block = "".join(f"{number},{','.join(f'{draw():.6f}' for _ in range(100))}\n" for number in range(1000))
    blocks = int(gigabytes * 1e9 / len(block))
    header = ",".join(["id", *(f"x{number}" for number in range(100))]) + "\n"
    path = run.WORK / "cluster-table.csv"
    if not path.exists() or path.stat().st_size != len(header) + blocks * len(block):
        with open(path, "w", encoding="ascii") as file:
            file.write(header)
            for _ in range(blocks):
                file.write(block)
        os.sync()
    return path, blocks * 1000


def scale(cluster):
    """Simulated nodes with two workers each, whose mini-batches wait one second."""
    rounds, nodes = (5, 20) if cluster.quick else (20, 100)
    walls = {}
    for size in shuffled([1, nodes]):
        job = cluster.job("scale", size * 2 * rounds, nodes=size, workers=2)
        with cluster.simulated(size, 1, 0):
            walls[size] = job.start().wait().wall
        job.require_rows(size * 2 * rounds)
    return [(walls[1] / walls[nodes] * 100, rounds / walls[nodes] * 100)]


def many(cluster):
    """Simulated nodes with 16 workers each, whose mini-batches wait 5 to 15 seconds."""
    nodes, rounds = (100, 2) if cluster.quick else (1000, 5)
    count = nodes * 16 * rounds
    job = cluster.job("many", count, nodes=nodes, workers=16)
    with cluster.simulated(nodes, 10, 0.5):
        leader = job.start().wait()
    job.require_rows(count)
    # All workers are busy, and are past their first mini-batches.
    window = [(at, cpu) for at, cpu in leader.samples if leader.samples[0][0] + 20 <= at <= leader.samples[-1][0] - 20]
    window = window if len(window) > 1 else leader.samples
    (begin, used_before), (end, used) = window[0], window[-1]
    return [((used - used_before) / (end - begin) * 100, leader.peak, leader.cpu() * 1000 / count)]


# The number of runs of each part, and with --quick.
ROUNDS = {
    tiny: (5, 2),
    start: (3, 1),
    small: (20, 5),
    stored: (20, 5),
    lost: (3, 1),
    drained: (5, 2),
    takeover: (5, 2),
    idle: (3, 1),
    large: (3, 1),
    scale: (2, 1),
    many: (1, 1),
}


# --- results ----------------------------------------------------------------------------------


def show(samples, options, seconds):
    rows = []

    def row(part, what, unit, values, aim, at_least=False, pick=statistics.median):
        """A figure of a part that was measured."""
        if part not in samples:
            return
        values = values(samples[part])
        figure = pick(values)
        is_met = figure >= aim if at_least else figure <= aim if aim is not None else None
        aim_text = "" if aim is None else f"{'at least' if at_least else 'at most'} {aim:g} {unit} ({'met' if is_met else 'missed'})"
        spread = f"{number(min(values))} to {number(max(values))}, n = {len(values)}"
        rows.append({"what": what, "figure": f"{number(figure)} {unit}", "spread": spread, "aim": aim_text, "part": part.__name__})

    def column(index):
        return lambda values: [value[index] for value in values]

    def p99(values):
        return statistics.quantiles(values, n=100)[98]

    def same(values):
        return values

    row(tiny, "leader's CPU for each tiny mini-batch, 3 agents", "ms", column(0), 0.05)
    row(tiny, "the same on one machine, without broker and job store", "ms", column(4), None)
    row(tiny, "mini-batches for each message to the leader", "", column(1), 16, at_least=True)
    row(tiny, "tiny mini-batches a second, one job, start to exit", "/s", column(2), 5000, at_least=True)
    row(tiny, "ratio to those on one machine", "x", column(3), None)
    row(start, "grant to start on an idle worker, median", "ms", same, 2)
    row(start, "grant to start on an idle worker, 99th percentile", "ms", same, 10, pick=p99)
    row(small, "job of 3 mini-batches on 3 nodes, start to exit", "ms", column(0), 250)
    row(small, "the same on one machine, without broker and job store", "ms", column(1), None)
    row(small, "ratio of the two", "x", lambda values: [nodes / alone for nodes, alone in values], None)
    row(stored, "the same job of 3 mini-batches, commit log and results in an S3 server in Python", "ms", column(0), None)
    row(stored, "requests to this server", "", column(1), None)
    row(lost, "node killed, its mini-batches begin elsewhere", "s", same, 11)
    row(drained, "agent drained, its waiting mini-batches are back", "s", same, None)
    row(takeover, "leader killed, new leader's first mini-batch begins", "s", same, 4)
    row(takeover, "the slowest of these", "s", same, 12, pick=max)
    row(idle, "leader killed, mini-batches of 0.5 s: no worker works for", "s", same, 0)
    table = f"half of a CSV of {options.gigabytes:g} GB planned"
    row(large, f"leader killed, {table}: new leader's first mini-batch begins", "s", column(0), 4)
    row(large, "the slowest of these", "s", column(0), 12, pick=max)
    row(large, "no mini-batch begins for", "s", column(1), None)
    row(large, "attempts that were lost", "", column(2), 0, pick=max)
    row(large, "mini-batches that had begun before the kill, of all", "%", column(3), None)
    row(large, "their number", "", column(4), 100_000, at_least=True)
    nodes, most = (20, 100) if options.quick else (100, 1000)
    row(scale, f"{nodes} simulated nodes, mini-batches of 1 s: throughput / {nodes} x that of one node", "%", column(0), 97, at_least=True)
    row(scale, "the same, of the greatest possible throughput", "%", column(1), None)
    row(many, f"{most} simulated nodes x 16 workers, mini-batches of 10 s: leader's CPU", "% of a core", column(0), 25)
    row(many, "leader's peak memory", "MB", column(1), 200)
    row(many, "leader's CPU for each mini-batch", "ms", column(2), None)
    load, cores = os.getloadavg()[0], os.cpu_count()
    print(f"Medians, {cores} processors, load {load:.1f} at the end, {seconds:.0f} s in total, seed {options.seed}.\n")
    print("| what | measured | from, to, runs | aim | command |\n|---|---:|---|---|---|")
    for line in rows:
        print(f"| {line['what']} | {line['figure']} | {line['spread']} | {line['aim']} | `benches/cluster.py {line['part']}` |")
    (WORK / "results.json").write_text(json.dumps(rows, indent=1))


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


if __name__ == "__main__":
    main()
