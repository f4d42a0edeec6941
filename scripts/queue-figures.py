#!/usr/bin/env python3
"""Throughput of the queues, and memory of items that wait, in a running server.

    speed     set, get, set and then get, get/open and then get/close, by 1, 10 and 100 connections,
              with each kind of sync and items of 64 bytes and 1 KiB: items a second, the server's
              processor time for each
    waiting   --items items that wait: memory of the process before, with them, and after a restart,
              and the time of that; then the first thousand are read

    cargo build --release -p larder
    scripts/queue-figures.py speed --seconds 5                  about 7 minutes
    scripts/queue-figures.py waiting --items 10000000           some minutes and 1 GB

Run it on a quiet machine. The clients are processes of Python, --clients of them: where they are
busier than the server, processor time says more than items a second. A client waits for each answer
before it sends the next command.
"""

import argparse
import json
import multiprocessing
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time

CONFIG = """threads = {threads}
memory = "32MiB"
control = "{dir}"
[queue]
listen = ["127.0.0.1:{port}"]
path = "{dir}/queues"
sync = "{sync}"
memory = "{memory}"
max_queues = 1000
"""
# Bytes of commands that are sent without waiting for answers, where a queue is filled.
FILL = 1 << 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A Larder with queues and nothing else."""

    def __init__(self, args, directory, sync):
        self.args, self.directory, self.sync = args, directory, sync
        self.start()

    def start(self):
        self.port = free_port()
        path = os.path.join(self.directory, "larder.toml")
        with open(path, "w") as file:
            file.write(CONFIG.format(threads=self.args.threads, dir=self.directory, port=self.port,
                                     sync=self.sync, memory=self.args.memory))
        began = time.monotonic()
        self.process = subprocess.Popen([self.args.larder, "serve", "--config", path],
                                        stderr=subprocess.DEVNULL)
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            if self.process.poll() is not None:
                sys.exit("larder does not start")
            time.sleep(0.005)
        # It listens before it has read its journals.
        with self.connect() as stream:
            stream.sendall(b"stats\r\n")
            answer(stream, b"END\r\n")
        self.start_seconds = time.monotonic() - began

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def resident(self):
        """Resident memory in bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def seconds(self):
        """Processor time so far."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self):
        stream = socket.create_connection(("127.0.0.1", self.port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream


def answer(stream, end):
    """Reads up to an end."""
    found = b""
    while not found.endswith(end):
        more = stream.recv(1 << 20)
        if not more:
            sys.exit(f"closed after {found[-200:]!r}")
        found += more
    return found


def fill(server, items, item):
    """Adds so many items; item(n) is the content of one."""
    stream = server.connect()
    batch = bytearray()
    for number in range(items):
        data = item(number)
        batch += b"set q 0 0 %d noreply\r\n%s\r\n" % (len(data), data)
        if len(batch) > FILL:
            stream.sendall(batch + b"status\r\n")
            answer(stream, b"UP\r\n")
            batch.clear()
    stream.sendall(batch + b"status\r\n")
    answer(stream, b"UP\r\n")
    stream.close()


def conversation(kind, size):
    """The commands for an item, each with the end of its answer. They are repeated."""
    put = (b"set q 0 0 %d\r\n%s\r\n" % (size, b"x" * size), b"STORED\r\n")
    return {
        "set": [put],
        "get": [(b"get q\r\n", b"END\r\n")],
        "set+get": [put, (b"get q\r\n", b"END\r\n")],
        "open+close": [(b"get q/open\r\n", b"END\r\n"), (b"get q/close\r\n", b"END\r\n")],
    }[kind]


def client(port, connections, steps, seconds, begin, results):
    """One process of clients; puts the number of items that it has had, and the time it took."""
    selector = selectors.EpollSelector()
    streams = []
    for _ in range(connections):
        stream = socket.create_connection(("127.0.0.1", port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        state = [stream, 0, b""]
        selector.register(stream, selectors.EVENT_READ, state)
        streams.append(state)
    begin.wait()
    began, items, dry = time.monotonic(), 0, False
    for stream, _, _ in streams:
        stream.sendall(steps[0][0])
    while not dry and time.monotonic() < began + seconds:
        for key, _ in selector.select(1):
            state = key.data
            state[2] += state[0].recv(1 << 16)
            if not state[2].endswith(steps[state[1]][1]):
                continue
            # An empty queue answers a get by an end alone: there is nothing left to measure.
            dry |= state[2] == b"END\r\n" and b"close" not in steps[state[1]][0]
            state[1] = (state[1] + 1) % len(steps)
            items += state[1] == 0
            state[2] = b""
            state[0].sendall(steps[state[1]][0])
    results.put((items, time.monotonic() - began, dry))


def measure(server, args, kind, size, connections):
    if kind in ("get", "open+close"):
        fill(server, args.waiting, lambda _: b"x" * size)
    processes = min(args.clients, connections)
    begin, results = multiprocessing.Barrier(processes + 1), multiprocessing.Queue()
    share = [connections // processes + (n < connections % processes) for n in range(processes)]
    clients = [multiprocessing.Process(target=client, args=(
        server.port, own, conversation(kind, size), args.seconds, begin, results)) for own in share]
    for one in clients:
        one.start()
    begin.wait()
    before = server.seconds()
    done = [results.get() for _ in clients]
    used = server.seconds() - before
    for one in clients:
        one.join()
    items = sum(one[0] for one in done)
    seconds = max(one[1] for one in done)
    with server.connect() as stream:
        stream.sendall(b"delete q\r\n")
        answer(stream, b"END\r\n")
    return {"sync": server.sync, "kind": kind, "bytes": size, "connections": connections,
            "items_per_second": round(items / seconds), "seconds": round(seconds, 2),
            "server_us_per_item": round(used * 1e6 / max(items, 1), 1),
            "ran_dry": any(one[2] for one in done)}


def speed(args, directory):
    for sync in ("always", "100ms", "never"):
        server = Server(args, directory, sync)
        for size in (64, 1024):
            for kind in ("set", "get", "set+get", "open+close"):
                for connections in (1, 10, 100):
                    print(json.dumps(measure(server, args, kind, size, connections)), flush=True)
        server.stop()


def read_first(server, items):
    """Reads the first thousand items, which are to be those, and the number of the rest."""
    stream = server.connect()
    for number in range(1000):
        stream.sendall(b"get q\r\n")
        found = answer(stream, b"END\r\n")
        if found.split(b"\r\n")[1] != b"%020d" % number:
            sys.exit(f"item {number} is {found!r}")
    stream.sendall(b"stats\r\n")
    stats = dict(line.split()[1:3] for line in answer(stream, b"END\r\n").splitlines()[:-1])
    if int(stats[b"queue_q_items"]) != items - 1000:
        sys.exit(f"{stats[b'queue_q_items']} items are left of {items}")


def waiting(args, directory):
    server = Server(args, directory, "100ms")
    before = server.resident()
    began = time.monotonic()
    fill(server, args.items, lambda number: b"%020d" % number)
    filled, having = time.monotonic() - began, server.resident()
    server.stop()
    server.start()
    after = server.resident()
    read_first(server, args.items)
    mib = lambda n: round(n / (1 << 20), 1)
    journal = sum(os.path.getsize(os.path.join(directory, "queues", "q", name))
                  for name in os.listdir(os.path.join(directory, "queues", "q")))
    print(json.dumps({"items": args.items, "memory": args.memory, "mib_before": mib(before),
                      "mib_waiting": mib(having), "mib_restarted": mib(after),
                      "mib_read": mib(server.resident()), "journal_mib": mib(journal),
                      "fill_seconds": round(filled, 1),
                      "start_seconds": round(server.start_seconds, 2)}))
    server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "waiting"])
    parser.add_argument("--larder", default="target/release/larder")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--waiting", type=int, default=500_000, help="items before reads")
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--memory", default="32MiB", help="of [queue]")
    parser.add_argument("--threads", type=int, default=1, help="workers of the server")
    parser.add_argument("--clients", type=int, default=2, help="processes of clients")
    parser.add_argument("--dir", help="for journals; on the device that is to be measured")
    args = parser.parse_args()
    args.larder = os.path.abspath(args.larder)
    directory = tempfile.mkdtemp(prefix="queue-figures-", dir=args.dir)
    try:
        {"speed": speed, "waiting": waiting}[args.what](args, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
