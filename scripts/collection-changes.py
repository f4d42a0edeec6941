#!/usr/bin/env python3
"""Processor time of a change in a large collection, beside redis-server.

Starts a server pinned to one processor, fills collections of each size with random elements of
about 14 bytes, and changes them: one command at a time, and 16 at once. Printed are microseconds of
the server's processor time per command (/proc/PID/task/*/schedstat, all threads), the median of the
rounds. Rounds of all servers take turns, so that what else the machine does hits all alike.

    cargo build --release -p larder
    scripts/collection-changes.py --larder target/release/larder
    scripts/collection-changes.py --larder old/larder --larder new/larder --only 'SADD|HSET' --sizes 100000
"""

import argparse
import glob
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time

HOST = "127.0.0.1"
KEY = b"collection"
PIPELINE = 16


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


def resp(*words):
    """A command in Redis's protocol."""
    return b"".join([b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in words])


def member(number):
    return b"member:%07d" % number


def score(rng):
    return b"%d" % rng.randrange(1 << 30)


def any_of(rng, size):
    return member(rng.randrange(size))


def other(rng, size):
    """One that is rarely there."""
    return b"other:%08d" % rng.randrange(100_000_000)


FILLS = {
    "set": lambda rng, n: resp(b"SADD", KEY, member(n)),
    "hash": lambda rng, n: resp(b"HSET", KEY, member(n), b"v"),
    "zset": lambda rng, n: resp(b"ZADD", KEY, score(rng), member(n)),
    "list": lambda rng, n: resp(b"RPUSH", KEY, member(n)),
    "stream": lambda rng, n: resp(b"XADD", KEY, b"*", b"f", b"%014d" % n),
}

CHANGES = [
    ("SADD", "set", lambda rng, size: resp(b"SADD", KEY, other(rng, size)), 1),
    ("SREM", "set", lambda rng, size: resp(b"SREM", KEY, any_of(rng, size)), 1),
    ("HSET new", "hash", lambda rng, size: resp(b"HSET", KEY, other(rng, size), b"v"), 1),
    ("HSET", "hash", lambda rng, size: resp(b"HSET", KEY, any_of(rng, size), b"%07d" % rng.randrange(10_000_000)), 1),
    ("HDEL", "hash", lambda rng, size: resp(b"HDEL", KEY, any_of(rng, size)), 1),
    ("HGET", "hash", lambda rng, size: resp(b"HGET", KEY, other(rng, size)), 1),
    ("ZADD new", "zset", lambda rng, size: resp(b"ZADD", KEY, score(rng), other(rng, size)), 1),
    ("ZADD", "zset", lambda rng, size: resp(b"ZADD", KEY, score(rng), any_of(rng, size)), 1),
    ("ZINCRBY", "zset", lambda rng, size: resp(b"ZINCRBY", KEY, b"1", any_of(rng, size)), 2),
    ("RPUSH", "list", lambda rng, size: resp(b"RPUSH", KEY, other(rng, size)), 1),
    ("LPOP", "list", lambda rng, size: resp(b"LPOP", KEY), 2),
    ("XADD", "stream", lambda rng, size: resp(b"XADD", KEY, b"*", b"f", other(rng, size)), 2),
]


class Server:
    def __init__(self, name, command, port, cpu):
        self.name, self.port = name, port
        pin = ["taskset", "-c", str(cpu)]
        silent = subprocess.DEVNULL
        self.process = subprocess.Popen([*pin, *command], stdout=silent, stderr=silent)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.sock = socket.create_connection((HOST, port), timeout=300)
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def used(self):
        """Nanoseconds of processor time of all of its threads."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with open(path) as file:
                total += int(file.read().split()[0])
        return total

    def ask(self, data, lines):
        """Sends commands and reads as many lines of answers."""
        if len(data) > 1 << 16:
            sender = threading.Thread(target=self.sock.sendall, args=(data,))
            sender.start()
        else:
            sender = None
            self.sock.sendall(data)
        while lines > 0:
            got = self.sock.recv(1 << 20)
            if not got:
                raise SystemExit(f"{self.name} closed the connection")
            if got[:1] == b"-":
                raise SystemExit(f"{self.name}: {got[:200]!r}")
            lines -= got.count(b"\n")
        if sender:
            sender.join()

    def fill(self, kind, size, rows):
        rng = random.Random(1)
        self.ask(resp(b"FLUSHALL"), 1)
        order = list(range(size))
        if kind not in ("list", "stream"):
            rng.shuffle(order)
        for at in range(0, size, 5000):
            part = order[at : at + 5000]
            self.ask(b"".join(FILLS[kind](rng, n) for n in part), rows * len(part))

    def change(self, commands, rows, at_once):
        """Microseconds per command."""
        batches = [b"".join(commands[at : at + at_once]) for at in range(0, len(commands), at_once)]
        lines = [rows * len(commands[at : at + at_once]) for at in range(0, len(commands), at_once)]
        before = self.used()
        for data, wanted in zip(batches, lines):
            self.ask(data, wanted)
        return (self.used() - before) / 1000 / len(commands)

    def stop(self):
        self.process.kill()
        self.process.wait()


def start(args, folder):
    servers = []
    for number, path in enumerate(args.larder):
        port = free_port()
        config = os.path.join(folder, f"{number}.toml")
        with open(config, "w") as file:
            file.write(f'memory = "{args.memory}"\nthreads = 1\n[redis]\nlisten = "{HOST}:{port}"\n')
        name = "larder" if len(args.larder) == 1 else f"larder{number + 1}"
        servers.append(Server(name, [path, "serve", "--config", config], port, args.cpu))
    if shutil.which(args.redis):
        port = free_port()
        command = [args.redis, "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]
        servers.append(Server("redis", command, port, args.cpu))
    return servers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--larder", action="append", required=True, help="a program; several are compared")
    parser.add_argument("--redis", default="redis-server")
    parser.add_argument("--sizes", default="1000,100000,1000000")
    parser.add_argument("--only", default="", help="commands, as a regular expression")
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--count", type=int, default=4000, help="commands of a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    os.sched_setaffinity(0, set(range(os.cpu_count())) - {args.cpu} or {args.cpu})
    chosen = [change for change in CHANGES if re.fullmatch(args.only or ".*", change[0])]
    with tempfile.TemporaryDirectory() as folder:
        servers = start(args, folder)
        try:
            table(args, servers, chosen)
        finally:
            for server in servers:
                server.stop()


def table(args, servers, chosen):
    names = [server.name for server in servers]
    print(f"{'command':10}{'elements':>10}{'at once':>9}" + "".join(f"{name:>10}" for name in names) + f"{'ratio':>8}")
    for size in map(int, args.sizes.split(",")):
        for name, kind, one, rows in chosen:
            for server in servers:
                server.fill(kind, size, 2 if kind == "stream" else 1)
            for at_once in (1, PIPELINE):
                figures = {server.name: [] for server in servers}
                # Of a small collection no more than it has.
                count = min(args.count, max(PIPELINE, size // 8))
                for turn in range(args.rounds):
                    rng = random.Random(turn * 100 + at_once)
                    commands = [one(rng, size) for _ in range(count)]
                    for server in servers:
                        figures[server.name].append(server.change(commands, rows, at_once))
                middle = [statistics.median(figures[name]) for name in names]
                ratio = f"{middle[-2] / middle[-1]:8.2f}" if len(middle) > 1 else ""
                print(f"{name:10}{size:>10}{at_once:>9}" + "".join(f"{value:10.2f}" for value in middle) + ratio, flush=True)


if __name__ == "__main__":
    main()
