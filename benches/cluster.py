#!/usr/bin/env python3
"""Measures jobs on several machines, and prints a Markdown table.

Everything runs on this machine: a cluster of three NATS servers (`sync_interval: always`), agents, and leaders. All
runs take turns in random order. `scale` and `many` have simulated nodes (host/benches/many_nodes.rs), which cargo
builds first. `make bench` and scripts/python-env.sh make what this program needs. Data, jobs and results are in
target/bench/cluster. The job store and the output are a folder there.

    benches/cluster.py                      all parts, with the program in target/dist
    benches/cluster.py --sandmill PATH      another program
    benches/cluster.py --quick              fewer rounds, and smaller jobs
    benches/cluster.py tiny start           only these parts. There are: tiny, start, small, lost, drained, takeover,
                                            scale, many
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path

import run

WORK = run.WORK / "cluster"
SERVER = run.ROOT / "target" / "venv" / "bin" / "nats-server"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 120


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", metavar="PART", help="the parts to measure; all by default")
    options.add_argument("--sandmill", type=Path, default=run.SANDMILL, help="the program")
    options.add_argument("--many-nodes", type=Path, help="the built program of host/benches/many_nodes.rs")
    options.add_argument("--quick", action="store_true", help="fewer rounds, and smaller jobs")
    options.add_argument("--seed", type=int, default=time.time_ns(), help="the order of the runs")
    options = options.parse_args()
    known = {part.__name__: part for part in (tiny, start, small, lost, drained, takeover, scale, many)}
    if unknown := [part for part in options.parts if part not in known]:
        sys.exit(f"bench: no part {unknown[0]}; there are {', '.join(known)}")
    run.SANDMILL = options.sandmill.resolve()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    os.environ["SANDMILL_CACHE_DIR"] = str(run.WORK / "cache")
    os.environ.pop("RUST_BACKTRACE", None)
    chosen = [known[name] for name in options.parts or known]
    if {scale, many} & {*chosen} and not options.many_nodes:
        options.many_nodes = build_many_nodes()
    begun = time.monotonic()
    with Cluster(options) as cluster:
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
        leader = job.start()
        wait_until(lambda: job.count_rows() >= done, leader)
        killed = time.time_ns()
        leader.kill()
        wait_until(lambda: cluster.find_led("attempt_started"))
        first = cluster.find_led("attempt_started")[0]
        wait_until(lambda: cluster.find_led("job_finished"))
    job.require_rows(2 * done)
    return [(nanoseconds(first["at"]) - killed) / 1e9]


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
ROUNDS = {tiny: (5, 2), start: (3, 1), small: (20, 5), lost: (3, 1), drained: (5, 2), takeover: (5, 2), scale: (2, 1), many: (1, 1)}


# --- the cluster ------------------------------------------------------------------------------


class Cluster:
    """The NATS servers, and everything that is started for one run."""

    def __init__(self, options):
        self.quick, self.many_nodes = options.quick, options.many_nodes
        self.numbers = itertools.count()
        self.servers, self.led = [], None
        # `--sandmill` may be older than the guest.
        self.component = run.build_guest("cluster")

    def __enter__(self):
        ports = free_ports(9)
        routes = ", ".join(f'"nats-route://127.0.0.1:{port}"' for port in ports[6:])
        self.monitors = ports[3:6]
        self.url = ",".join(f"nats://127.0.0.1:{port}" for port in ports[:3])
        for number in range(3):
            folder = WORK / f"broker-{number}"
            folder.mkdir()
            (folder / "server.conf").write_text(
                f"server_name: broker-{number}\nlisten: 127.0.0.1:{ports[number]}\nhttp: 127.0.0.1:{ports[3 + number]}\n"
                f"jetstream {{ store_dir: {folder}/streams, sync_interval: always }}\n"
                f"cluster {{ name: brokers, listen: 127.0.0.1:{ports[6 + number]}, routes: [{routes}] }}\n"
            )
            self.servers.append(Process([SERVER, "-c", folder / "server.conf"], folder / "log"))
        for port in self.monitors:
            wait_until(lambda: self.monitor(port, "healthz").get("status") == "ok")
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()

    def monitor(self, port, path):
        """What a server reports. Empty if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            return {}

    def messages_to(self, name):
        """The number of messages that the servers sent to the client of this name that connected last."""
        clients = (client for port in self.monitors for client in self.monitor(port, "connz?state=closed&sort=stop&limit=10000").get("connections", []))
        last = max((client for client in clients if client.get("name") == name), key=lambda client: client["start"])
        return last["out_msgs"]

    def warm_up(self):
        """Compiles the entry script, and fills the caches of the agents."""
        with self.agents():
            self.job("warm", 6, nodes=3, workers=2).start().wait()

    @contextlib.contextmanager
    def agents(self):
        """Three agents, by their names."""
        self.led = WORK / f"led-{next(self.numbers)}"
        agents = {}
        try:
            for number in range(3):
                name = f"machine-{number}"
                command = [run.SANDMILL, "node", "--broker", self.url, "--name", name, "--jobs-root", self.led / name]
                agents[name] = Process(command, WORK / f"{name}.log")
            for agent in agents.values():
                wait_until(lambda: b"waits for jobs" in agent.log.read_bytes(), agent)
            yield agents
        finally:
            for agent in agents.values():
                agent.kill()

    @contextlib.contextmanager
    def simulated(self, nodes, seconds, spread):
        """Simulated nodes, whose mini-batches take so many seconds. The time varies by the share `spread`."""
        connections = min(nodes, 4)
        command = [self.many_nodes, self.url, run.SANDMILL, nodes, seconds, spread, connections]
        process = Process(command, WORK / "many-nodes.log")
        try:
            wait_until(lambda: process.log.read_bytes().count(b"ready") == connections, process)
            yield
            if process.process.wait(PATIENCE) != 0:
                sys.exit(f"bench: the simulated nodes failed:\n{process.log.read_text()}")
        finally:
            process.kill()

    def job(self, name, count, nodes, workers, arguments=(), more=""):
        """Writes a job of so many mini-batches. `nodes`: None for one machine without a broker."""
        folder = WORK / "jobs" / f"{name}-{next(self.numbers)}"
        (folder / "store").mkdir(parents=True)
        scale = "" if nodes is None else f"node_count: {nodes}\njob_store: store\n"
        (folder / "job.yaml").write_text(
            f"name: {folder.name}\nentry_script: {self.component}\narguments: {json.dumps(arguments)}\n"
            f"rank_mini_batch_count: {count}\nprocess_count_per_node: {workers}\noutput: out\n"
            f"append_row_file_name: rows.txt\n{scale}{more}\n"
        )
        return Job(folder, "none" if nodes is None else self.url)

    def find_led(self, kind):
        """The events of this kind of leaders that the agents have started."""
        return [event for path in self.led.glob("*/*/logs/sys/events.jsonl") for event in read_events(path, kind)]


class Job:
    def __init__(self, folder, broker):
        self.folder, self.broker = folder, broker
        self.directory = folder / "job-dir"

    def start(self):
        command = [run.SANDMILL, "run", self.folder / "job.yaml", "--broker", self.broker, "--job-dir", self.directory]
        return Process(command, self.folder / "leader.log", is_watched=True)

    def events(self):
        return read_events(self.directory / "logs" / "sys" / "events.jsonl")

    def find(self, kind):
        return read_events(self.directory / "logs" / "sys" / "events.jsonl", kind)

    def agent_of(self, node):
        """The name of the agent that has this number in the job."""
        said = (self.folder / "leader.log").read_text()
        return re.search(rf"node {node} \((\S+)\) takes part", said)[1]

    def rows(self):
        return (self.folder / "out" / "rows.txt").read_text().splitlines()

    def count_rows(self):
        path = self.folder / "out" / "rows.txt"
        return run.count_lines(path) if path.exists() else 0

    def require_rows(self, count):
        """Fails unless each mini-batch has one row."""
        ids = sorted(int(row.split()[0]) for row in self.rows())
        if ids != list(range(count)):
            sys.exit(f"bench: the {len(ids)} rows of {self.folder} are not one of each of {count} mini-batches")


class Process:
    """A process that is killed at the end. If it is watched: its processor time and its peak memory."""

    def __init__(self, command, log, is_watched=False):
        self.log, self.peak, self.samples = log, 0, []
        with open(log, "wb") as sink:
            self.begun = time.monotonic()
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        self.watcher = threading.Thread(target=self.watch, daemon=True) if is_watched else None
        if self.watcher:
            self.watcher.start()

    def watch(self):
        """Reads the processor time of the process itself, without its children, until it ends."""
        folder = Path(f"/proc/{self.process.pid}")
        with contextlib.suppress(OSError, IndexError):
            while True:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                if fields[0] == "Z":
                    break
                self.samples.append((time.monotonic(), (int(fields[11]) + int(fields[12])) / CLOCK_TICKS))
                self.peak = max(self.peak, run.peak_memory(folder))
                time.sleep(0.01)

    def cpu(self):
        return self.samples[-1][1]

    def wait(self):
        """Waits until the process has ended, which must be a success."""
        code = self.process.wait()
        self.wall = time.monotonic() - self.begun
        self.watcher.join()
        if code != 0:
            sys.exit(f"bench: {' '.join(self.process.args)} ended with {code}:\n{self.log.read_text()}")
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()


def build_many_nodes():
    command = ["cargo", "build", "--release", "--locked", "--package", "sandmill", "--bench", "many_nodes", "--message-format", "json"]
    built = subprocess.run(command, cwd=run.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    return next(Path(message["executable"]) for message in messages if message.get("executable"))


def free_ports(count):
    """Ports that no program uses now. They are lower than those that the system gives to clients."""
    sockets = []
    while len(sockets) < count:
        with contextlib.suppress(OSError):
            listener = socket.socket()
            listener.bind(("127.0.0.1", random.randrange(10_000, 30_000)))
            sockets.append(listener)
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def wait_until(is_true, process=None):
    """Waits for a condition. The process must not end before."""
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        if time.monotonic() > deadline:
            sys.exit("bench: waited in vain for what the benchmark needs next")
        if process and process.process.poll() is not None and not is_true():
            sys.exit(f"bench: {' '.join(process.process.args)} has ended too early:\n{process.log.read_text()}")
        time.sleep(0.05)


def shuffled(values):
    return random.sample(list(values), len(values))


def read_events(path, kind=None):
    """The complete events in a file, of this kind or all."""
    with contextlib.suppress(OSError):
        lines = path.read_text().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in lines if kind is None or f'"event":"{kind}"' in line]
    return []


def nanoseconds(text):
    """The time of an event, such as 2026-11-29T04:00:00.123456789Z, in nanoseconds since 1970."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(seconds + "+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0") or 0)


def node_of(worker):
    return int(worker.removeprefix("process")) // 100_000


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
    row(lost, "node killed, its mini-batches begin elsewhere", "s", same, 11)
    row(drained, "agent drained, its waiting mini-batches are back", "s", same, None)
    row(takeover, "leader killed, new leader's first mini-batch begins", "s", same, 4)
    row(takeover, "the slowest of these", "s", same, 12, pick=max)
    nodes, large = (20, 100) if options.quick else (100, 1000)
    row(scale, f"{nodes} simulated nodes, mini-batches of 1 s: throughput / {nodes} x that of one node", "%", column(0), 97, at_least=True)
    row(scale, "the same, of the greatest possible throughput", "%", column(1), None)
    row(many, f"{large} simulated nodes x 16 workers, mini-batches of 10 s: leader's CPU", "% of a core", column(0), 25)
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
