#!/usr/bin/env python3
"""Memory of lists, sets, sorted sets, hashes and streams in Larder and in redis-server.

    scripts/collection-memory.py [--larder target/release/larder] [kind ...]

Prints bytes per element, of collections of 10, 1,000 and 1,000,000 elements of 8 and 100 bytes:
what MEMORY USAGE (SAMPLES 0: of all elements) says, and by how much `used_memory` of INFO grew.
There are as many small collections as make 200,000 elements. A hash's fields have 8 bytes and its
values 8 or 100, an entry of a stream has one field of a byte, a score is a whole number. Elements
are letters in no order, so that nothing is stored as a number.
"""

import argparse
import random
import shutil
import socket
import subprocess
import tempfile
import time

SIZES = [10, 1000, 1_000_000]
WIDTHS = [8, 100]
# Elements of all small collections together.
TOGETHER = 200_000
# Elements of one command, and commands sent before their answers are read.
AT_ONCE = 100
BATCH = 100
LETTERS = b"abcdefghijklmnopqrstuvwxyz"


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")
        self.waiting = 0

    def send(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))
        self.waiting += 1
        if self.waiting == BATCH:
            self.settle()

    def settle(self):
        while self.waiting:
            self.reply()

    def reply(self):
        self.waiting -= 1
        line = self.file.readline()
        if line[:1] == b"-":
            raise SystemExit(line.decode())
        if line[:1] == b"$":
            return self.file.read(int(line[1:]) + 2)[:-2]
        return line[1:-2]

    def ask(self, *words):
        self.settle()
        self.send(*words)
        return self.reply()

    def used(self):
        """`used_memory`, once it has stopped to change: memory is freed in the background."""
        last = None
        for _ in range(20):
            text = self.ask(b"INFO", b"memory").decode()
            found = int(text.split("used_memory:")[1].split("\r")[0])
            if found == last:
                break
            last = found
            time.sleep(1)
        return last


def texts(dice, width):
    """Different texts: eight letters of a random number, then others."""
    seen = set()
    while True:
        number = dice.randrange(26**8)
        if number in seen:
            continue
        seen.add(number)
        word = bytearray()
        for _ in range(8):
            number, letter = divmod(number, 26)
            word.append(LETTERS[letter])
        yield bytes(word) + dice.randbytes(width).translate(TO_LETTERS)[: width - 8]


TO_LETTERS = bytes(LETTERS[byte % 26] for byte in range(256))


def fill(client, kind, key, size, elements, dice):
    for start in range(0, size, AT_ONCE):
        some = [next(elements) for _ in range(min(AT_ONCE, size - start))]
        if kind == "list":
            client.send(b"RPUSH", key, *some)
        elif kind == "set":
            client.send(b"SADD", key, *some)
        elif kind == "sorted set":
            scored = [(b"%d" % dice.randrange(1_000_000), member) for member in some]
            client.send(b"ZADD", key, *(word for pair in scored for word in pair))
        elif kind == "hash":
            # The field has eight bytes; the value is as wide as an element.
            pairs = [(element[:8], element[::-1]) for element in some]
            client.send(b"HSET", key, *(word for pair in pairs for word in pair))
        else:
            for element in some:
                client.send(b"XADD", key, b"*", b"f", element)


def measure(command, kind, size, width):
    """Bytes per element, by MEMORY USAGE and by `used_memory`."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, stdout=subprocess.DEVNULL
        )
        try:
            for _ in range(200):
                try:
                    client = Client(port)
                    break
                except OSError:
                    time.sleep(0.05)
            dice = random.Random(1)
            elements = texts(dice, width)
            before = client.used()
            count = max(1, TOGETHER // size)
            for number in range(count):
                fill(client, kind, b"key:%06d" % number, size, elements, dice)
            client.settle()
            after = client.used()
            usage = int(client.ask(b"MEMORY", b"USAGE", b"key:000000", b"SAMPLES", b"0"))
        finally:
            server.terminate()
            server.wait()
    return usage / size, (after - before) / (count * size)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--larder", default="target/release/larder")
    options.add_argument("--redis", default=shutil.which("redis-server") or "redis-server")
    options.add_argument("--memory", default="2GiB")
    options.add_argument("kinds", nargs="*")
    options = options.parse_args()
    servers = {
        "Larder": [shutil.which(options.larder) or options.larder, "redis", "--memory",
                   options.memory],
        "Redis": [options.redis, "--save", ""],
    }
    heads = [f"{by} {name}" for by in ("MEMORY USAGE,", "used_memory,") for name in servers]
    print(f"| collection | elements | bytes of one | {' | '.join(heads)} |")
    print(f"|---|---|---|{'---|' * len(heads)}", flush=True)
    for kind in options.kinds or ["list", "set", "sorted set", "hash", "stream"]:
        for size in SIZES:
            for width in WIDTHS:
                found = [measure(command, kind, size, width) for command in servers.values()]
                cells = [f"{one[by]:.1f}" for by in (0, 1) for one in found]
                print(f"| {kind} | {size:,} | {width} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
