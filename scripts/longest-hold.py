#!/usr/bin/env python3
"""How long a command holds its worker: the longest turn.

Starts a Larder of one thread with pages, memcached's and Redis's protocols, under strace, which
sees when the worker waits for its sockets. The time between two waits is a turn: nobody else is
served meanwhile. Each command is run once for nothing, so that memory is there, and then several
times; printed are the median and the maximum of the longest turns, in milliseconds. The worker has
a processor to itself; the machine has to be quiet all the same.

    cargo build --release -p larder
    scripts/longest-hold.py --larder target/release/larder
    scripts/longest-hold.py --larder target/release/larder --only 'HSET|KEYS' --runs 10
"""

import argparse
import http.server
import json
import os
import re
import resource
import signal
import socket
import socketserver
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

HOST = "127.0.0.1"
KEYS = 300_000
FIELDS = 100_000
LONG = 100_000_000
ARGUMENT = 50_000_000
PATTERNS = 4096
CLIENTS = 4_000
PAGES = 20_000
MEMBERS = 500_000
END = b"the-last-answer"


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


def connect(port):
    deadline = time.monotonic() + 30
    while True:
        try:
            sock = socket.create_connection((HOST, port), timeout=300)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def resp(*words):
    """A command in Redis's protocol."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"".join([b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in words])


def packet(opcode, key=b"", extras=b"", value=b"", opaque=bytes(4)):
    """A request in memcached's binary protocol."""
    body = extras + key + value
    return struct.pack("!BBHBBHI", 0x80, opcode, len(key), len(extras), 0, 0, len(body)) + opaque + bytes(8) + body


def until(sock, mark):
    """Reads until the answer ends so."""
    tail = b""
    while not tail.endswith(mark):
        got = sock.recv(1 << 20)
        if not got:
            raise SystemExit(f"the server closed the connection: {tail!r}")
        tail = (tail + got)[-max(len(mark), 200):]


class Redis:
    def __init__(self, port):
        self.sock = connect(port)

    def send(self, data):
        """Sends commands and reads all of their answers."""
        sender = threading.Thread(target=self.sock.sendall, args=(data + resp("ECHO", END),))
        sender.start()
        until(self.sock, END + b"\r\n")
        sender.join()

    def many(self, commands):
        batch = []
        for command in commands:
            batch.append(command)
            if len(batch) == 1000:
                self.send(b"".join(batch))
                batch = []
        self.send(b"".join(batch))


class Memcached(Redis):
    def send(self, data):
        sender = threading.Thread(target=self.sock.sendall, args=(data + b"mn\r\n",))
        sender.start()
        until(self.sock, b"MN\r\n")
        sender.join()


class Binary(Redis):
    """memcached's binary protocol: a no-op with a mark of its own ends the answers."""

    MARK = b"the-last"[:4]

    def send(self, data):
        sender = threading.Thread(target=self.sock.sendall, args=(data + packet(0x0A, opaque=self.MARK),))
        sender.start()
        until(self.sock, b"\x81\x0a" + bytes(10) + self.MARK + bytes(8))
        sender.join()


class Udp:
    """One datagram, and all datagrams of its answer; then one more, so that the turn has ended."""

    def __init__(self, port):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.connect((HOST, port))
        self.sock.settimeout(10)

    def send(self, data):
        for commands in (data, b"mn\r\n"):
            self.sock.send(struct.pack("!HHHH", 7, 0, 1, 0) + commands)
            left = None
            while left is None or left > 0:
                total = struct.unpack("!HHHH", self.sock.recv(2000)[:8])[2]
                left = (total if left is None else left) - 1


class Http(Redis):
    def send(self, data):
        self.sock.sendall(data)
        while self.sock.recv(1 << 20):
            pass


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"x" * 100
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Surrogate-Key", "all")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Server:
    def __init__(self, larder, realtime):
        self.redis, self.memcached, self.http, self.udp, origin = (free_port() for _ in range(5))
        threading.Thread(target=Threads((HOST, origin), Origin).serve_forever, daemon=True).start()
        self.dir = tempfile.TemporaryDirectory()
        path = os.path.join(self.dir.name, "larder.toml")
        with open(path, "w") as config:
            config.write(
                f'memory = "2GiB"\nthreads = 1\n[http]\nlisten = "{HOST}:{self.http}"\n'
                f'[[site]]\norigin = "http://{HOST}:{origin}"\npurge = {{ from = ["{HOST}"] }}\n'
                f'[redis]\nlisten = "{HOST}:{self.redis}"\n[memcached]\nlisten = "{HOST}:{self.memcached}"\nitem_size = "64MiB"\n'
                f'udp = ["{HOST}:{self.udp}"]\n'
            )
        self.waits = os.path.join(self.dir.name, "waits")
        calls = "trace=epoll_wait,epoll_pwait,epoll_pwait2"
        trace = ["strace", "-f", "--seccomp-bpf", "-ttt", "-T", "-e", calls]
        command = [*trace, "-o", self.waits, larder, "serve", "--config", path]
        silent = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=silent, stderr=silent)
        Redis(self.redis).send(b"")
        own = self.process.pid
        self.pid = int(open(f"/proc/{own}/task/{own}/children").read().split()[0])
        threads = os.listdir(f"/proc/{self.pid}/task")
        self.worker = next(thread for thread in threads if self.name(thread) == "larder-0")
        first, *others = sorted(os.sched_getaffinity(0))
        for process in [0, self.process.pid, *threads]:
            os.sched_setaffinity(int(process), others or [first])
        os.sched_setaffinity(int(self.worker), [first])
        if realtime:
            for process in [self.process.pid, int(self.worker)]:
                os.sched_setscheduler(process, os.SCHED_FIFO, os.sched_param(10))

    def name(self, thread):
        return open(f"/proc/{self.pid}/task/{thread}/comm").read().strip()

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        self.process.wait()

    def turns(self, start):
        """Milliseconds of the worker's turns since this place in the trace."""
        line = re.compile(rf"{self.worker} +([\d.]+) (.*?)(?:<([\d.]+)>)?$")
        ended = None
        with open(self.waits) as trace:
            trace.seek(start)
            for began, call, took in (found.groups() for found in map(line.match, trace) if found):
                if call.startswith("<..."):
                    ended = float(began)
                    continue
                if ended is not None:
                    yield (float(began) - ended) * 1000
                ended = float(began) + float(took) if took else None


def fill(count):
    def prepare(server):
        redis = Redis(server.redis)
        redis.many(resp("SET", f"key:{n}", "v" * 50) for n in range(count))
    return prepare


def commands(*list_of_commands):
    def prepare(server):
        Redis(server.redis).send(b"".join(resp(*command) for command in list_of_commands))
    return prepare


def hash_of(count, name="hash"):
    def prepare(server):
        redis = Redis(server.redis)
        redis.send(resp("DEL", name))
        for at in range(0, count, 10_000):
            words = [word for n in range(at, at + 10_000) for word in (f"field{n}", f"value{n}")]
            redis.send(resp("HSET", name, *words))
    return prepare


def long_fields(count):
    def prepare(server):
        client = Redis(server.redis)
        for n in range(count):
            client.send(resp("HSET", "long fields", f"long{n}", b"v" * (1 << 20)))
    return prepare


def collections(server):
    """A list, sets and sorted sets of many members, members of 200 KB, long values for SORT."""
    client = Redis(server.redis)
    client.send(b"".join(resp("DEL", key) for key in ("list", "set", "zset", "wide", "same", "few")))
    for at in range(0, MEMBERS, 10_000):
        client.send(resp("RPUSH", "list", *["x"] * 10_000))
        client.send(resp("RPUSH", "different", *range(at, at + 10_000)))
        client.send(resp("SADD", "set", *range(at, at + 10_000)))
        client.send(resp("ZADD", "zset", *[word for n in range(at, at + 10_000) for word in (n, n)]))
    client.send(resp("SADD", "few", *range(32)))
    for n in range(40):
        client.send(resp("SADD", "wide", b"%0200000d" % n))
        client.send(resp("SET", f"value:{n}", b"v" * 1_000_000))
    client.send(b"".join(resp("HSET", f"hash:{n}", "weight", n) for n in range(1000)))


def streams(server):
    client = Redis(server.redis)
    client.send(resp("DEL", "stream"))
    client.many(resp("XADD", "stream", f"{n + 1}-0", "field", n) for n in range(MEMBERS))
    client.send(resp("XGROUP", "CREATE", "stream", "group", 0))


def positions(count, start=0):
    return [word for n in range(start, start + count) for word in (n * 7 % 360 - 180, n * 11 % 170 - 85, n)]


def places(server):
    for at in range(0, MEMBERS, 10_000):
        Redis(server.redis).send(resp("GEOADD", "places", *positions(10_000, at)))


def restored(key):
    """RESTORE of what DUMP gives, composed when it is sent."""
    def data(server):
        sock = connect(server.redis)
        sock.sendall(resp("DUMP", key))
        file = sock.makefile("rb")
        payload = file.read(int(file.readline()[1:]))
        return resp("RESTORE", "new", 0, payload, "REPLACE")
    return data


def waiters(count):
    def prepare(server):
        leave(server)
        for _ in range(count):
            crowd.append(connect(server.redis))
            crowd[-1].sendall(resp("BLPOP", "awaited", 0))
        Redis(server.redis).send(b"")
    return prepare


def items(server):
    memcached = Memcached(server.memcached)
    for at in range(0, KEYS, 1000):
        memcached.send(b"".join(b"set p%d:%d 0 0 10 noreply\r\n0123456789\r\n" % (n % 900, n) for n in range(at, at + 1000)))


def pages(server):
    sock = connect(server.http)
    for at in range(0, PAGES, 50):
        sock.sendall(b"".join(b"GET /page/%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(at, at + 50)))
        got = 0
        while got < 50:
            got += sock.recv(1 << 20).count(b"x" * 100)


crowd = []


def clients(server):
    while len(crowd) < CLIENTS:
        crowd.append(connect(server.redis))


def listeners(server):
    clients(server)
    for sock in crowd:
        sock.sendall(resp("SUBSCRIBE", "news"))
    for sock in crowd:
        sock.recv(1000)


def events(letters):
    return commands(("CONFIG", "SET", "notify-keyspace-events", letters))


def patterns(server):
    """As many patterns as there may be, each of the longest, which match nothing late."""
    events("KA")(server)
    for client in range(PATTERNS // 1024):
        crowd.append(connect(server.redis))
        words = [f"*{'a' * 1000}b{client}-{n}" for n in range(1024)]
        crowd[-1].sendall(resp("PSUBSCRIBE", *words, "last"))
        until(crowd[-1], b":1024\r\n-ERR too many subscriptions\r\n")


def matching(server):
    """A client that has the message by each of its patterns: it does not read, and is closed."""
    crowd.append(connect(server.redis))
    crowd[-1].sendall(resp("PSUBSCRIBE", *["n" + "*" * n for n in range(1, 1001)]))
    until(crowd[-1], b":1000\r\n")


def trackers(*options, read=None):
    """Clients that track a key, or all with a prefix."""
    def prepare(server):
        clients(server)
        for sock in crowd:
            sock.sendall(resp("HELLO", 3) + resp("CLIENT", "TRACKING", "OFF"))
            sock.sendall(resp("CLIENT", "TRACKING", "ON", *options) + (resp("GET", read) if read else b"") + resp("ECHO", END))
        for sock in crowd:
            until(sock, END + b"\r\n")
    return prepare


def event_listeners(server):
    events("Eg$")(server)
    clients(server)
    for sock in crowd:
        sock.sendall(resp("SUBSCRIBE", "__keyevent@0__:set") + resp("PING"))
    for sock in crowd:
        until(sock, b"pong\r\n$0\r\n\r\n")


def tracked(server):
    """A client that tracks many keys."""
    client = Redis(server.redis)
    crowd.append(client.sock)
    client.send(resp("HELLO", 3) + resp("CLIENT", "TRACKING", "ON"))
    for at in range(0, FIELDS, 10_000):
        client.send(resp("MGET", *names(10_000, at)))


def leave(_server):
    while crowd:
        crowd.pop().close()


def redis(*words):
    return Redis, "redis", resp(*words)


def text(line):
    return Memcached, "memcached", line + b"\r\n"


def binary(*packets):
    return Binary, "memcached", b"".join(packets)


def udp(line):
    return Udp, "udp", line


def purge(target, *fields):
    lines = [f"PURGE {target} HTTP/1.1", "Host: a", "Connection: close", *fields, "", ""]
    return Http, "http", "\r\n".join(lines).encode()


def names(count, start=0):
    return [f"key:{n}" for n in range(start, start + count)]


def pairs(count):
    return [word for n in range(count) for word in (f"field{n}", f"value{n}")]


def cases():
    """Name, what is prepared once, what before each run, the command."""
    nothing = lambda server: None  # noqa: E731
    keys, hashed = fill(KEYS), hash_of(FIELDS)
    long = commands(("DEL", "new"), ("SETRANGE", "long", LONG - 1, "x"), ("SETRANGE", "other", LONG - 1, "x"))
    yield "KEYS *, 300,000 keys", keys, nothing, redis("KEYS", "*")
    yield "KEYS *a*a*a*a*b", nothing, nothing, redis("KEYS", "*a*a*a*a*b")
    yield "SCAN 0 COUNT 1000000", nothing, nothing, redis("SCAN", 0, "COUNT", 1_000_000)
    yield "SCAN 0 MATCH none COUNT 1000000", nothing, nothing, redis("SCAN", 0, "MATCH", "none", "COUNT", 1_000_000)
    yield "RANDOMKEY, one key of 300,000", commands(("SELECT", 7), ("SET", "one", 1)), nothing, (
        Redis, "redis", resp("SELECT", 7) + resp("RANDOMKEY"))
    yield "DBSIZE", nothing, nothing, redis("DBSIZE")
    yield "MGET of 100,000", nothing, nothing, redis("MGET", *names(100_000))
    yield "EXISTS of 100,000", nothing, nothing, redis("EXISTS", *names(100_000))
    yield "TOUCH of 100,000", nothing, nothing, redis("TOUCH", *names(100_000))
    yield "MSET of 100,000", nothing, nothing, redis("MSET", *[w for n in names(100_000) for w in (n, "v" * 50)])
    yield "MSETNX of 100,000", nothing, commands(("DEL", *[f"new{n}" for n in range(100_000)])), redis(
        "MSETNX", *[w for n in range(100_000) for w in (f"new{n}", "v")])
    yield "DEL of 100,000", nothing, fill(100_000), redis("DEL", *names(100_000))
    yield "FLUSHDB", nothing, fill(100_000), redis("FLUSHDB")
    yield "FLUSHALL", nothing, fill(100_000), redis("FLUSHALL", "SYNC")
    transaction = resp("MULTI") + b"".join(resp("SET", f"key:{n}", n) for n in range(50_000))
    yield "MULTI, 50,000 SETs, EXEC", nothing, nothing, (Redis, "redis", transaction + resp("EXEC"))
    yield "MULTI, 50,000 SETs, DISCARD", nothing, nothing, (Redis, "redis", transaction + resp("DISCARD"))
    yield "WATCH of 4,096", nothing, nothing, redis("WATCH", *names(4096))
    yield "SETRANGE new 100000000 x", nothing, commands(("DEL", "new")), redis("SETRANGE", "new", LONG, "x")
    yield "SETRANGE of 100 MB, one byte", long, nothing, redis("SETRANGE", "long", 1, "y")
    yield "APPEND to 100 MB", nothing, nothing, redis("APPEND", "long", "y")
    yield "SETBIT of 100 MB", nothing, nothing, redis("SETBIT", "long", 800_000, 1)
    yield "SETBIT new 800000000 1", nothing, commands(("DEL", "new")), redis("SETBIT", "new", 800_000_000, 1)
    yield "BITFIELD of 100 MB", nothing, nothing, redis("BITFIELD", "long", "INCRBY", "u8", 100, 1)
    yield "BITCOUNT of 100 MB", nothing, nothing, redis("BITCOUNT", "long")
    yield "BITPOS of 100 MB", nothing, nothing, redis("BITPOS", "long", 1, 1000, -2)
    yield "BITOP XOR of 2 x 100 MB", nothing, nothing, redis("BITOP", "XOR", "new", "long", "other")
    yield "BITOP NOT of 100 MB", nothing, nothing, redis("BITOP", "NOT", "new", "long")
    yield "COPY of 100 MB", nothing, nothing, redis("COPY", "long", "new", "REPLACE")
    yield "RENAME of 100 MB", nothing, commands(("COPY", "other", "from", "REPLACE")), redis("RENAME", "from", "new")
    yield "SET of 100 MB", nothing, nothing, redis("SET", "new", b"v" * LONG)
    yield "GET of 100 MB", nothing, nothing, redis("GET", "long")
    yield "GETRANGE of 100 MB", nothing, nothing, redis("GETRANGE", "long", 1, -2)
    yield "INCR of 100 MB", nothing, nothing, redis("INCR", "long")
    yield "DEL of 100 MB", nothing, commands(("COPY", "other", "from", "REPLACE")), redis("DEL", "from")
    yield "LCS of 2 x 1,000", commands(("SET", "a", "ab" * 500), ("SET", "b", "ba" * 500)), nothing, redis("LCS", "a", "b")
    yield "HSET of 100,000 fields", nothing, commands(("DEL", "made")), redis("HSET", "made", *pairs(FIELDS))
    yield "HSET of one of 100,000", hashed, nothing, redis("HSET", "hash", "field777", "x")
    yield "HINCRBY in 100,000", commands(("HSET", "hash", "number", 1)), nothing, redis("HINCRBY", "hash", "number", 1)
    yield "HDEL of one of 100,000", nothing, commands(("HSET", "hash", "gone", 1)), redis("HDEL", "hash", "gone")
    yield "HDEL of 50,000", nothing, hashed, redis("HDEL", "hash", *pairs(FIELDS)[:100_000:2])
    yield "HGETALL of 100,000", hashed, nothing, redis("HGETALL", "hash")
    yield "HKEYS of 100,000", nothing, nothing, redis("HKEYS", "hash")
    yield "HVALS of 100,000", nothing, nothing, redis("HVALS", "hash")
    yield "HMGET of 100,000", nothing, nothing, redis("HMGET", "hash", *pairs(FIELDS)[::2])
    yield "HSCAN of 100,000", nothing, nothing, redis("HSCAN", "hash", 0, "COUNT", 1_000_000)
    yield "HRANDFIELD 100000", nothing, nothing, redis("HRANDFIELD", "hash", 100_000)
    yield "HRANDFIELD -16384", nothing, nothing, redis("HRANDFIELD", "hash", -16_384, "WITHVALUES")
    yield "OBJECT ENCODING of 100,000", nothing, nothing, redis("OBJECT", "ENCODING", "hash")
    yield "LRANGE of 500,000", collections, nothing, redis("LRANGE", "different", 0, -1)
    yield "LPOS of 500,000", nothing, nothing, redis("LPOS", "list", "x", "COUNT", 0)
    yield "LREM of none in 500,000", nothing, nothing, redis("LREM", "list", 0, "y")
    yield "LINSERT before none in 500,000", nothing, nothing, redis("LINSERT", "list", "BEFORE", "y", "z")
    yield "RPUSH of 100,000", nothing, commands(("DEL", "new")), redis("RPUSH", "new", *range(FIELDS))
    yield "RPUSH of 20 x 4 MB", nothing, commands(("DEL", "new")), redis("RPUSH", "new", *[b"v" * 4_000_000] * 20)
    yield "LPOP of 100,000", nothing, commands(("DEL", "new"), ("RPUSH", "new", *range(FIELDS))), redis("LPOP", "new", FIELDS)
    yield "SADD of 100,000", nothing, commands(("DEL", "new")), redis("SADD", "new", *range(FIELDS))
    yield "SREM of 100,000", nothing, commands(("SADD", "new", *range(FIELDS))), redis("SREM", "new", *range(FIELDS))
    yield "SMEMBERS of 500,000", nothing, nothing, redis("SMEMBERS", "set")
    yield "SPOP of 100,000", nothing, commands(("SADD", "new", *range(FIELDS))), redis("SPOP", "new", FIELDS)
    yield "SRANDMEMBER 500000", nothing, nothing, redis("SRANDMEMBER", "set", MEMBERS)
    yield "SRANDMEMBER -100 of 200 KB", nothing, nothing, redis("SRANDMEMBER", "wide", -100)
    yield "SSCAN of 500,000", nothing, nothing, redis("SSCAN", "set", 0, "COUNT", 1_000_000)
    yield "SSCAN of 40 x 200 KB", nothing, nothing, redis("SSCAN", "wide", 0, "COUNT", 1000)
    yield "SINTERSTORE of 4 x 500,000", nothing, nothing, redis("SINTERSTORE", "new", *["set"] * 4)
    yield "SINTER of 4,096", nothing, nothing, redis("SINTER", *["set"] * 4095, "few")
    yield "SUNIONSTORE of 2 x 500,000", nothing, nothing, redis("SUNIONSTORE", "new", "set", "set")
    yield "SDIFFSTORE of 500,000", nothing, nothing, redis("SDIFFSTORE", "new", "set", "few")
    yield "ZADD of 250,000", nothing, commands(("DEL", "new")), redis("ZADD", "new", *[word for n in range(250_000) for word in (n, n)])
    yield "ZRANGE of 500,000", nothing, nothing, redis("ZRANGE", "zset", 0, -1, "WITHSCORES")
    yield "ZRANGESTORE of 500,000", nothing, nothing, redis("ZRANGESTORE", "new", "zset", 0, -1)
    yield "ZUNIONSTORE of 2 x 500,000", nothing, nothing, redis("ZUNIONSTORE", "new", 2, "zset", "set")
    yield "ZINTERSTORE of 4 x 500,000", nothing, nothing, redis("ZINTERSTORE", "new", 4, *["zset"] * 4)
    yield "ZREMRANGEBYRANK of 500,000", nothing, commands(("ZUNIONSTORE", "new", 1, "zset")), redis("ZREMRANGEBYRANK", "new", 1, -1)
    yield "ZPOPMIN of 100,000", nothing, commands(("ZUNIONSTORE", "new", 1, "zset")), redis("ZPOPMIN", "new", FIELDS)
    yield "SORT of 500,000", nothing, nothing, redis("SORT", "different", "STORE", "new")
    yield "SORT of 500,000 BY and GET", nothing, nothing, redis(
        "SORT", "different", "BY", "hash:*->weight", "GET", "hash:*->weight", "STORE", "new")
    yield "SORT GET of 40 x 1 MB", nothing, nothing, redis("SORT", "few", "GET", "value:*", "STORE", "new")
    yield "DEL of 500,000 members", nothing, commands(("ZUNIONSTORE", "new", 1, "zset")), redis("DEL", "new")
    yield "ZSCAN of 500,000", nothing, nothing, redis("ZSCAN", "zset", 0, "COUNT", 1_000_000)
    yield "ZRANGEBYSCORE of 500,000", nothing, nothing, redis("ZRANGEBYSCORE", "zset", "-inf", "+inf")
    yield "ZCOUNT of 500,000", nothing, nothing, redis("ZCOUNT", "zset", 1, "+inf")
    yield "LMOVE of 4 MB", nothing, commands(("DEL", "new"), ("RPUSH", "new", b"v" * 4_000_000)), redis(
        "LMOVE", "new", "moved", "LEFT", "RIGHT")
    yield "XADD with 10,000 fields", streams, nothing, redis("XADD", "new", "*", *pairs(10_000))
    yield "XRANGE of 500,000", nothing, nothing, redis("XRANGE", "stream", "-", "+")
    yield "XREADGROUP of 200,000", nothing, commands(("XGROUP", "SETID", "stream", "group", 0)), redis(
        "XREADGROUP", "GROUP", "group", "me", "COUNT", 200_000, "STREAMS", "stream", ">")
    yield "XPENDING of 200,000", nothing, nothing, redis("XPENDING", "stream", "group", "-", "+", 200_000)
    yield "XAUTOCLAIM of 200,000", nothing, nothing, redis(
        "XAUTOCLAIM", "stream", "group", "you", 0, 0, "COUNT", 200_000)
    yield "XTRIM of 400,000", nothing, streams, redis("XTRIM", "stream", "MAXLEN", 100_000)
    yield "XINFO STREAM FULL of 100,000", nothing, nothing, redis("XINFO", "STREAM", "stream", "FULL", "COUNT", 0)
    yield "GEOADD of 100,000", nothing, commands(("DEL", "new")), redis("GEOADD", "new", *positions(FIELDS))
    yield "GEOSEARCH of 500,000", places, nothing, redis(
        "GEOSEARCH", "places", "FROMLONLAT", 0, 0, "BYRADIUS", 20_000, "km", "ASC")
    yield "GEOSEARCHSTORE of 500,000", nothing, nothing, redis(
        "GEOSEARCHSTORE", "new", "places", "FROMLONLAT", 0, 0, "BYRADIUS", 20_000, "km")
    yield "PFADD of 100,000", nothing, commands(("DEL", "new")), redis("PFADD", "new", *range(FIELDS))
    many = [f"log:{n}" for n in range(1000)]
    yield "PFCOUNT of 1,000", lambda server: Redis(server.redis).many(
        resp("PFADD", name, *range(n, n + 500)) for n, name in enumerate(many)), nothing, redis("PFCOUNT", *many)
    yield "PFMERGE of 1,000", nothing, nothing, redis("PFMERGE", "new", *many)
    yield "DUMP of 500,000 members", nothing, nothing, redis("DUMP", "zset")
    yield "RESTORE of 500,000 members", nothing, nothing, (Redis, "redis", restored("zset"))
    yield "DUMP of 100 MB", nothing, nothing, redis("DUMP", "long")
    yield "RESTORE of 100 MB", nothing, nothing, (Redis, "redis", restored("long"))
    yield "COPY of 500,000 members", nothing, nothing, redis("COPY", "zset", "new", "REPLACE")
    yield "SWAPDB", nothing, nothing, redis("SWAPDB", 0, 1)
    yield "SWAPDB back", nothing, nothing, redis("SWAPDB", 0, 1)
    yield "HEXPIRE of 100,000 fields", hashed, nothing, redis(
        "HEXPIRE", "hash", 1000, "FIELDS", FIELDS, *pairs(FIELDS)[::2])
    yield "HTTL of 100,000 fields", nothing, nothing, redis("HTTL", "hash", "FIELDS", FIELDS, *pairs(FIELDS)[::2])
    yield "HPERSIST of 100,000 fields", nothing, nothing, redis(
        "HPERSIST", "hash", "FIELDS", FIELDS, *pairs(FIELDS)[::2])
    megabytes = [f"long{n}" for n in range(250)]
    few = megabytes[:20]
    yield "HEXPIRE of 250 x 1 MiB", long_fields(250), nothing, redis(
        "HEXPIRE", "long fields", 1000, "FIELDS", 250, *megabytes)
    yield "HTTL of 250 x 1 MiB", nothing, nothing, redis("HTTL", "long fields", "FIELDS", 250, *megabytes)
    yield "HGETEX of 20 x 1 MiB", nothing, nothing, redis("HGETEX", "long fields", "EX", 9, "FIELDS", 20, *few)
    yield "HSETEX FNX of 119 that are not there and one that is", nothing, nothing, redis(
        "HSETEX", "long fields", "FNX", "FIELDS", 120, *pairs(119), "long0", 1)
    yield "HGETDEL of 20 x 1 MiB", nothing, long_fields(20), redis("HGETDEL", "long fields", "FIELDS", 20, *few)
    yield "HDEL of 250 x 1 MiB", nothing, long_fields(250), redis("HDEL", "long fields", *megabytes)
    yield "HSET of 16 x 60 KB, then one more", nothing, commands(
        ("DEL", "made"), ("HSET", "made", *[w for n in range(15) for w in (n, b"v" * 60_000)])), redis(
        "HSET", "made", "15", b"v" * 60_000, "16", "v")
    yield "RESTORE of 15 x 270 KB", commands(
        ("DEL", "made"), ("HSET", "made", *[w for n in range(15) for w in (n, b"v" * 270_000)])), nothing, (
        Redis, "redis", restored("made"))
    yield "EVAL, 1,000 comparisons of 2 MB", nothing, nothing, redis(
        "EVAL", "local n = 0 local a, b = ARGV[1] .. 'x', ARGV[1] .. 'y' for i = 1, 1000 do if a < b then n = n + 1 end end "
        "return n", 0, b"x" * 2_000_000)
    yield "EVAL, 100 x .. of 2 MB", nothing, nothing, redis(
        "EVAL", "local n = 0 for i = 1, 100 do n = n + #(ARGV[1] .. i) end return n", 0, b"x" * 2_000_000)
    script = b"local t = {} " + b"t[#t + 1] = redis.call('GET', KEYS[1]) " * 6500 + b"return #t"
    yield "EVAL of 256 KB", nothing, nothing, redis("EVAL", script, 1, "few")
    yield "EVAL, 1,000,000 rounds", nothing, nothing, redis(
        "EVAL", "local n = 0 for i = 1, 1000000 do n = n + i end return n", 0)
    yield "EVAL, 100,000 calls", nothing, nothing, redis(
        "EVAL", "for i = 1, 100000 do redis.call('SET', KEYS[1], i) end return 1", 1, "counter")
    for name, code in (
        ("rep", "return #string.rep('x', 4000000)"), ("upper", "return #string.upper(ARGV[1])"),
        ("gsub", "return #string.gsub(ARGV[1], 'x', 'yy')"), ("find", "return string.find(ARGV[1], 'a.-b') or 0"),
        ("..", "local s = ARGV[1] return #(s .. s)"), ("sub", "return #string.sub(ARGV[1], 2)"),
        ("format", "return #string.format('%s%s', ARGV[1], ARGV[1])"),
        ("cjson", "return #cjson.encode({ARGV[1]})"), ("sha1hex", "return redis.sha1hex(ARGV[1])")):
        yield f"EVAL, {name} of 2 MB", nothing, nothing, redis("EVAL", code, 0, b"x" * 2_000_000)
    functions = "#!lua name=mine\n" + "".join(
        f"redis.register_function('f{n}', function(k, a) return {n} end)\n" for n in range(1000))
    yield "FUNCTION LOAD of 1,000 functions", nothing, nothing, redis("FUNCTION", "LOAD", "REPLACE", functions)
    yield "FUNCTION LIST of 1,000 functions", nothing, nothing, redis("FUNCTION", "LIST", "WITHCODE")
    rules = [f"~prefix{n}:*" for n in range(4000)]
    yield "ACL SETUSER with 4,000 rules", nothing, nothing, redis("ACL", "SETUSER", "mine", *rules)
    yield "ACL LIST of 1,000 users", lambda server: Redis(server.redis).many(
        resp("ACL", "SETUSER", f"user{n}", "on", "+get", "~a*") for n in range(1000)), nothing, redis("ACL", "LIST")
    yield "RPUSH, 2,000 wait", nothing, waiters(2000), redis("RPUSH", "awaited", *range(2000))
    yield "SUBSCRIBE to 50,000, and leaving", nothing, nothing, (
        Left, "redis", resp("SUBSCRIBE", *[f"channel{n}" for n in range(50_000)]))
    yield "PUBLISH to 4,000", listeners, nothing, redis("PUBLISH", "news", "x" * 100)
    yield "PUBSUB NUMSUB of 100,000", nothing, nothing, redis("PUBSUB", "NUMSUB", *names(100_000))
    yield "CLIENT LIST of 4,000", nothing, nothing, redis("CLIENT", "LIST")
    yield "CLIENT KILL of 4,000", nothing, clients, redis("CLIENT", "KILL", "TYPE", "pubsub")
    yield "INFO everything", leave, nothing, redis("INFO", "everything")
    yield "COMMAND", nothing, nothing, redis("COMMAND")
    yield "COMMAND DOCS", nothing, nothing, redis("COMMAND", "DOCS")
    yield "CONFIG GET *a*a*a*a*b", nothing, nothing, redis("CONFIG", "GET", "*a*a*a*a*b")
    yield "gets of 2,000 keys", items, nothing, text(b"gets " + b" ".join(b"p%d:%d" % (n % 900, n) for n in range(2000)))
    yield "gat of 2,000 keys", nothing, nothing, text(b"gat 0 " + b" ".join(b"p%d:%d" % (n % 900, n) for n in range(2000)))
    yield "lru_crawler metadump all", nothing, nothing, text(b"lru_crawler metadump all")
    yield "lru_crawler mgdump all", nothing, nothing, text(b"lru_crawler mgdump all")
    yield "stats cachedump 1 0", nothing, nothing, text(b"stats cachedump 1 0")
    yield "stats sizes", lambda server: Memcached(server.memcached).send(b"stats sizes_enable\r\n"), nothing, text(b"stats sizes")
    yield "stats detail dump", lambda server: (Memcached(server.memcached).send(b"stats detail on\r\n"), items(server)), nothing, text(
        b"stats detail dump")
    yield "stats items, slabs, conns", nothing, nothing, text(b"stats items\r\nstats slabs\r\nstats conns")
    value = b"v" * 1_000_000
    yield "set of 1 MB", nothing, nothing, text(b"set long 0 0 1000000\r\n" + value)
    yield "append to 1 MB", nothing, lambda server: Memcached(server.memcached).send(b"set long 0 0 1000000\r\n" + value + b"\r\n"), text(
        b"append long 0 0 1\r\ny")
    large = b"v" * 15_000_000
    yield "set of 15 MB", nothing, nothing, text(b"set long 0 0 15000000\r\n" + large)
    yield "append to 15 MB", nothing, lambda server: Memcached(server.memcached).send(
        b"set long 0 0 15000000\r\n" + large + b"\r\n"), text(b"append long 0 0 1\r\ny")
    yield "ECHO of 1 MiB", leave, nothing, redis("ECHO", b"x" * (1 << 20))
    for name in ("ECHO", "PING", "GET", "NOBODY", "OBJECT", "CLIENT", "CONFIG"):
        yield f"{name} with an argument of 50 MB", nothing, nothing, redis(name, b"x" * ARGUMENT)
    yield "SET with a key of 50 MB", nothing, nothing, redis("SET", b"x" * ARGUMENT, 1)
    yield "HSET with a value of 50 MB", nothing, nothing, redis("HSET", "made", "field", b"x" * ARGUMENT)
    yield "EVAL of an unknown script of 64 KB", nothing, nothing, redis("EVAL", b"x" * 65_000, 1, "key", "value")
    yield "MULTI, SET of 50 MB, EXEC", nothing, nothing, (
        Redis, "redis", resp("MULTI") + resp("SET", "new", b"x" * ARGUMENT) + resp("EXEC"))
    yield "PUBLISH of 4 MB, 1,000 patterns that match", matching, nothing, redis("PUBLISH", "none", b"x" * 4_000_000)
    yield "PUBLISH of 4 MB to nobody", leave, nothing, redis("PUBLISH", "news", b"x" * 4_000_000)
    yield "UNLINK of 100,000", nothing, fill(100_000), redis("UNLINK", *names(100_000))
    yield "UNLINK of 100 MB", nothing, commands(("COPY", "other", "from", "REPLACE")), redis("UNLINK", "from")
    yield "COPY of a hash of 100,000 fields", hashed, nothing, redis("COPY", "hash", "new", "REPLACE")
    wide = f"*{'a' * 1000}b"
    yield "KEYS, a pattern of 1,000 bytes, keys of 16 KB", lambda server: Redis(server.redis).many(
        resp("SET", "a" * 16_000 + str(n), 1) for n in range(1000)), nothing, redis("KEYS", wide)
    yield "SCAN with the same pattern", nothing, nothing, redis("SCAN", 0, "MATCH", wide, "COUNT", 100_000)
    yield "HSCAN with the same pattern", commands(
        ("HSET", "wide", *[w for n in range(250) for w in ("a" * 16_000 + str(n), 1)])), nothing, redis(
        "HSCAN", "wide", 0, "MATCH", wide, "COUNT", 10_000)
    yield "CLIENT TRACKING of 500 prefixes", nothing, nothing, (
        Left, "redis", resp("HELLO", 3) + resp("CLIENT", "TRACKING", "ON", "BCAST", *[
            w for n in range(500) for w in ("PREFIX", f"prefix{n:04}:")]))
    yield "WATCH of 80 keys of 8 KB, and EXEC", nothing, nothing, (
        Redis, "redis", resp("WATCH", *["k" * 8000 + f"{n:02}" for n in range(80)]) + resp("MULTI") + resp("EXEC"))
    yield "SET, event to 4,000", event_listeners, nothing, redis("SET", "key", "value")
    yield "SET of a key that 4,000 track", lambda server: (leave(server), events("")(server)), trackers(read="key"), redis(
        "SET", "key", "value")
    yield "SET of a key in the prefix of 4,000", leave, trackers("BCAST", "PREFIX", "k"), redis("SET", "key", "value")
    yield "MGET of 1,000, each in the table of 4,000", nothing, nothing, redis("MGET", *names(1000))
    yield "FLUSHALL, 100,000 tracked keys", leave, lambda server: (fill(FIELDS)(server), tracked(server)), redis("FLUSHALL")
    yield "SET, event, 4,096 patterns of 1,000 bytes", leave, nothing, redis("SET", "short", "value")
    yield "SET, event, the same and a key of 16 KB", patterns, nothing, redis("SET", "a" * 16_000, "value")
    yield "PUBLISH, 4,096 patterns, a channel of 16 KB", nothing, nothing, redis("PUBLISH", "a" * 16_000, "value")
    stored = packet(0x01, b"binary", bytes(8), value)
    yield "binary set of 1 MB", lambda server: (leave(server), events("")(server)), nothing, binary(stored)
    yield "binary get of 1 MB", nothing, nothing, binary(packet(0x00, b"binary"))
    yield "binary append to 1 MB", nothing, lambda server: Binary(server.memcached).send(stored), binary(
        packet(0x0E, b"binary", value=b"x"))
    yield "binary getkq of 2,000", nothing, nothing, binary(*[packet(0x0D, b"p%d:%d" % (n % 900, n)) for n in range(2000)])
    yield "binary gat of 2,000", nothing, nothing, binary(*[packet(0x1D, b"p%d:%d" % (n % 900, n), bytes(4)) for n in range(2000)])
    yield "binary setq of 2,000", nothing, nothing, binary(*[packet(0x11, b"q%d" % n, bytes(8), b"x" * 100) for n in range(2000)])
    yield "binary incrementq of 2,000", nothing, nothing, binary(*[
        packet(0x15, b"c%d" % n, struct.pack("!QQI", 1, 0, 0)) for n in range(2000)])
    yield "binary deleteq of 2,000", nothing, nothing, binary(*[packet(0x14, b"q%d" % n) for n in range(2000)])
    yield "binary touch of 2,000", nothing, nothing, binary(*[packet(0x1C, b"p%d:%d" % (n % 900, n), bytes(4)) for n in range(2000)])
    yield "binary stat", nothing, nothing, binary(packet(0x10))
    yield "binary stat detail dump", nothing, nothing, binary(packet(0x10, b"detail dump"))
    yield "binary flush", nothing, items, binary(packet(0x08, b"", bytes(4)))
    yield "UDP: get of 1 MB", lambda server: Memcached(server.memcached).send(
        b"set long 0 0 1000000\r\n" + value + b"\r\n"), nothing, udp(b"get long\r\n")
    yield "UDP: 6,000 commands in a datagram", nothing, nothing, udp(b"mg none\r\n" * 6000)
    yield "flush_all", nothing, nothing, text(b"flush_all")
    yield "PURGE by tag, 20,000 pages, softly", pages, nothing, purge(
        "/", "Larder-Purge: tag", "Surrogate-Key: all", "Larder-Soft-Purge: 1")
    yield "PURGE by tag, 20,000 pages", nothing, pages, purge("/", "Larder-Purge: tag", "Surrogate-Key: all")
    yield "PURGE by expression, 20,000 pages", nothing, pages, purge("/page/1.*9", "X-Purge-Method: regex")
    yield "PURGE by prefix, 20,000 pages", nothing, pages, purge("/page/", "Larder-Purge: prefix")


class Left(Redis):
    """Reads the last answer and leaves; the next connection is answered when the server has seen to that."""

    def send(self, data):
        sender = threading.Thread(target=self.sock.sendall, args=(data + resp("PING", END),))
        sender.start()
        until(self.sock, END + b"\r\n")
        sender.join()
        self.sock.close()
        time.sleep(0.3)


def run(server, kind, port, data):
    """The longest turn while the command ran, in milliseconds."""
    client = kind(getattr(server, port))
    data = data(server) if callable(data) else data
    time.sleep(0.05)
    start = os.path.getsize(server.waits)
    client.send(data)
    time.sleep(0.05)
    return max(server.turns(start), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--larder", default="target/release/larder")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="a regular expression; what the others prepare is left out")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--realtime", action="store_true", help="for a machine that others use, as root: others wait")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    server = Server(options.larder, options.realtime)
    found = {}
    try:
        for name, once, before, (kind, port, data) in cases():
            chosen = re.search(options.only, name)
            if chosen or once not in (clients, listeners, patterns, event_listeners):
                once(server)
            if not chosen:
                continue
            times = []
            for _ in range(options.runs + 1):
                before(server)
                times.append(run(server, kind, port, data))
            times = times[1:]
            found[name] = (statistics.median(times), max(times))
            if not options.json:
                print(f"| {name} | {found[name][0]:.2f} | {found[name][1]:.2f} |", flush=True)
    finally:
        server.stop()
    if options.json:
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
