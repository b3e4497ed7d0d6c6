"""What benches/cluster.py measures with: NATS servers, agents, simulated nodes, jobs, and their processes."""

import contextlib
import itertools
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path

import run

WORK = run.WORK / "cluster"
PROGRAMS = run.ROOT / "target" / "venv" / "bin"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 120
# The bucket of the store at which jobs may have their results and their commit log.
BUCKET = "s3://bench"


class Cluster:
    """The NATS servers, and everything that is started for one run."""

    def __init__(self, options):
        self.quick, self.many_nodes = options.quick, options.many_nodes
        self.numbers = itertools.count()
        self.servers, self.led, self.store = [], None, None
        # `--sandmill` may be older than the guest.
        self.component = run.build_guest("cluster")
        # The table of `large`, with the number of its rows, and the entry script that reads it.
        self.table = options.table
        self.counts = run.build_guest("counts") if self.table else None

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
            self.servers.append(Process([PROGRAMS / "nats-server", "-c", folder / "server.conf"], folder / "log"))
        for port in self.monitors:
            wait_until(lambda: self.monitor(port, "healthz").get("status") == "ok")
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()

    def start_store(self):
        """Starts an S3 server, moto's, which all processes that begin later use."""
        self.store = Store()
        self.servers.append(self.store.server)
        wait_until(self.store.make_bucket, self.store.server)
        os.environ |= self.store.environment()

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
            for place in [None, BUCKET] if self.store else [None]:
                self.job("warm", 6, nodes=3, workers=2, place=place).start().wait()

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

    def job(self, name, count, nodes, workers, arguments=(), more="", place=None):
        """Writes a job of so many mini-batches. `nodes`: None for one machine without a broker. `place`: the address of
        the store of the results and of the commit log; None for folders."""
        inputs = f"entry_script: {self.component}\narguments: {json.dumps(arguments)}\nrank_mini_batch_count: {count}\n"
        return self.job_over(inputs, name, nodes, workers, more, place)

    def job_over(self, inputs, name, nodes, workers, more="", place=None):
        """As `job`, for the lines of the job file that name the entry script and its inputs."""
        folder = WORK / "jobs" / f"{name}-{next(self.numbers)}"
        (folder / "store").mkdir(parents=True)
        results, store = (f"{place}/results/{folder.name}", f"{place}/jobs") if place else ("out", "store")
        scale = "" if nodes is None else f"node_count: {nodes}\njob_store: {store}\n"
        (folder / "job.yaml").write_text(
            f"name: {folder.name}\n{inputs}process_count_per_node: {workers}\noutput: {results}\n"
            f"append_row_file_name: rows.txt\n{scale}{more}\n"
        )
        stored = self.store if place else None
        return Job(folder, "none" if nodes is None else self.url, stored)

    def find_led(self, kind):
        """The events of this kind of leaders that the agents have started."""
        return [event for path in self.led.glob("*/*/logs/sys/events.jsonl") for event in read_events(path, kind)]


class Job:
    def __init__(self, folder, broker, store):
        self.folder, self.broker, self.store = folder, broker, store
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
        if self.store:
            return self.store.get(f"results/{self.folder.name}/rows.txt").splitlines()
        return (self.folder / "out" / "rows.txt").read_text().splitlines()

    def count_rows(self):
        path = self.folder / "out" / "rows.txt"
        return run.count_lines(path) if path.exists() else 0

    def require_rows(self, count):
        """Fails unless each mini-batch has one row."""
        ids = sorted(int(row.split()[0]) for row in self.rows())
        if ids != list(range(count)):
            sys.exit(f"bench: the {len(ids)} rows of {self.folder} are not one of each of {count} mini-batches")


class Store:
    """moto's server, which implements S3 and accepts every client. It keeps everything in memory."""

    def __init__(self):
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        command = [PROGRAMS / "python", "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
        self.server = Process(command, WORK / "store.log")

    def environment(self):
        names = {"ENDPOINT_URL": self.url, "ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": "none", "REGION": "us-east-1"}
        return {f"AWS_{name}": value for name, value in names.items()}

    def make_bucket(self):
        with contextlib.suppress(OSError):
            return self.request("PUT", "") is not None

    def get(self, name):
        return self.request("GET", name).decode()

    def request(self, method, name):
        path = BUCKET.removeprefix("s3:/") + f"/{name}"
        # The server looks only at the form of the signature.
        signed = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=s"
        request = urllib.request.Request(self.url + path, method=method, headers={"Authorization": signed})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read()

    def count_requests(self):
        """How many requests the server has answered so far."""
        return self.server.log.read_bytes().count(b"HTTP/1.1\"")


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
