#!/usr/bin/env python3
"""Figures of the edge that take long: floods of HTTP/2, and the memory of connections at rest.

    scripts/edge-figures.py floods [--seconds 900]
    scripts/edge-figures.py idle [--connections 10000]

Run `cargo build --release -p larder -p larder-lab` before. `floods` attacks a Larder in each named way
for so long; others fetch a page at a steady rate meanwhile. A line for each attack: the connections that
it took, the largest memory of Larder, the 99th percentile of the others and their failures. It fails if
another client failed or the memory grew by more than a limit. `idle` opens connections of TLS to
Larder and to nginx, each with a request, and prints the memory that each connection costs.
All servers listen on 127.0.0.1, on ports that the system gives out."""

import argparse
import contextlib
import json
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "target/release"
# Growth of Larder's memory that an attack may cause, bytes.
MOST_GROWTH = 64 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def block(method=b"\x82"):
    """Fields of a request for /page, from the static table and as literals."""
    return method + b"\x86\x04\x05/page\x01\x01a"


def rapid_reset(n):
    stream = 2 * n + 1
    return frame(HEADERS, 5, stream, block()) + frame(RESET, 0, stream, struct.pack(">I", 8))


def continuations(n):
    """A head that never ends."""
    begin = frame(HEADERS, 0, 1, block()) if n == 0 else b""
    return begin + frame(CONTINUATION, 0, 1, b"\x00\x03x-a\x40" + b"b" * 64)


def empty_frames(n):
    begin = frame(HEADERS, 4, 1, block(b"\x83")) if n == 0 else b""
    return begin + frame(DATA, 0, 1)


def window_updates(n):
    begin = frame(HEADERS, 4, 1, block(b"\x83")) if n == 0 else b""
    return begin + frame(UPDATE, 0, 1, struct.pack(">I", 1))


def made_you_reset(n):
    """Requests that the server has to reset: an increment of zero (CVE-2025-8671)."""
    stream = 2 * n + 1
    return frame(HEADERS, 5, stream, block()) + frame(UPDATE, 0, stream, struct.pack(">I", 0))


ATTACKS = {
    "rapid reset": rapid_reset,
    "made you reset": made_you_reset,
    "continuations": continuations,
    "settings": lambda n: frame(SETTINGS, 0, 0),
    "pings": lambda n: frame(PING, 0, 0, b"12345678"),
    "priorities": lambda n: frame(PRIORITY, 0, 2 * n + 1, struct.pack(">IB", 0, 1)),
    "empty frames": empty_frames,
    "window updates": window_updates,
    "answers that nobody takes": lambda n: frame(HEADERS, 5, 2 * n + 1, block()),
}


def attack(address, make, until, counts):
    """Connects and sends until the server ends it, again and again. Nothing is read."""
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(address, 5) as peer:
            counts.append(1)
            peer.settimeout(1)
            peer.sendall(PREFACE + frame(SETTINGS, 0, 0))
            n = 0
            while time.monotonic() < until:
                peer.sendall(b"".join(make(at) for at in range(n, n + 100)))
                n += 100


def memory(pid):
    """Resident memory with that of child processes, bytes."""
    total = 0
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, KeyError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if pid in (int(status.parent.name), int(fields["PPid"])):
                total += int(fields["VmRSS"].split()[0]) << 10
    return total


@contextlib.contextmanager
def started(words, ready, directory):
    """A server, once it has printed a line for each of `ready`. Gives its process and these lines."""
    process = subprocess.Popen(words, cwd=directory, stderr=subprocess.PIPE, text=True)
    try:
        found = {}
        while len(found) < len(ready):
            line = process.stderr.readline()
            if not line:
                sys.exit(f"{words[0]} ended at once")
            found.update({word: line.split(word, 1)[1].strip() for word in ready if word in line})
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process, found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def origin(directory):
    pages = directory / "pages"
    pages.mkdir()
    (pages / "page").write_bytes(b"x" * 26_510)
    return f"files:{pages}"


def measured(words):
    """The result of a run of `larder bench http`."""
    words = [PROGRAMS / "larder", "bench", "http", *words, "--quiet", "--json", "-"]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=False).stdout)


def floods(seconds, directory):
    config = directory / "larder.toml"
    config.write_text(
        'threads = 1\nmemory = "64MiB"\n[http]\nlisten = "127.0.0.1:0"\nh2c = true\n'
        f'[[site]]\norigin = "{origin(directory)}"\n'
    )
    failed = False
    words = [PROGRAMS / "larder", "serve", "--config", config]
    print(f"{'attack':28}{'connections':>12}{'memory MiB':>12}{'p99 ms':>10}{'failures':>10}")
    for name, make in {"none": None, **ATTACKS}.items():
        with started(words, ["listening on http://"], directory) as (server, found):
            host, port = found["listening on http://"].rsplit(":", 1)
            url = f"http://{host}:{port}/page"
            measured([url, "--http2", "--requests", "1000"])
            before, most, counts = memory(server.pid), 0, []
            until = time.monotonic() + seconds
            attackers = [
                threading.Thread(target=attack, args=((host, int(port)), make, until, counts))
                for _ in range(4 if make else 0)
            ]
            result = {}
            load = [url, "--http2", "-c", "4", "-d", "8", "--rate", "200", "--duration", f"{seconds}s"]
            others = threading.Thread(target=lambda: result.update(measured(load)))
            for thread in [*attackers, others]:
                thread.start()
            while others.is_alive():
                most = max(most, memory(server.pid))
                others.join(0.5)
            for thread in attackers:
                thread.join()
            failures = sum(result["errors"].values())
            p99 = result["latency"]["p99_ns"] / 1e6
            print(f"{name:28}{len(counts):12}{most / 2**20:12.1f}{p99:10.2f}{failures:10}", flush=True)
            failed |= failures > 0 or most - before > MOST_GROWTH
    return 1 if failed else 0


def certificate(directory):
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=a"
    words = words.split() + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key", "-out", "cert"]
    subprocess.run(words, cwd=directory, check=True, capture_output=True)


def idle(connections, directory):
    certificate(directory)
    source = origin(directory)
    config = directory / "larder.toml"
    config.write_text(
        f"threads = 1\n[http.limits]\nconnections = {connections + 100}\nidle_timeout = \"1h\"\n"
        '[https]\nlisten = "127.0.0.1:0"\ncertificates = [{ cert = "cert", key = "key" }]\n'
        f'[[site]]\norigin = "{source}"\n'
    )
    words = [PROGRAMS / "larder", "serve", "--config", config]
    with started(words, ["listening on https://"], directory) as (server, found):
        show("Larder", server.pid, found["listening on https://"], connections)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (directory / "nginx.conf").write_text(
        f"daemon off; user root; worker_processes 1; pid pid; error_log stderr notice; events {{ worker_connections "
        f"{connections + 100}; }} worker_rlimit_nofile {connections + 200}; http {{ access_log off; "
        f"server {{ listen 127.0.0.1:{port} ssl backlog=4096; ssl_certificate cert; ssl_certificate_key key; "
        f"keepalive_timeout 1h; root pages; }} }}"
    )
    words = ["/usr/sbin/nginx", "-p", directory, "-c", directory / "nginx.conf"]
    with started(words, ["start worker process "], directory) as (server, _):
        show("nginx", server.pid, f"127.0.0.1:{port}", connections)
    return 0


def show(name, pid, address, connections):
    """Each connection makes requests, then all are at rest while the memory is read."""
    url = f"https://{address}/page"
    measured([url, "--insecure", "--requests", "1000"])
    before = memory(pid)
    most, result = before, {}
    words = [url, "--insecure", "-c", str(connections), "--ramp-up", "30s", "--duration", "60s"]
    load = threading.Thread(target=lambda: result.update(measured([*words, "--rate", str(connections / 10)])))
    load.start()
    while load.is_alive():
        most = max(most, memory(pid))
        load.join(0.5)
    each = (most - before) / connections
    print(f"{name:8}{each:10.0f} bytes for each of {connections} connections, {result['errors']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["floods", "idle"])
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--programs", type=pathlib.Path, help="directory of larder and larder-lab")
    asked = parser.parse_args()
    global PROGRAMS
    PROGRAMS = (asked.programs or PROGRAMS).resolve()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="larder-edge-"))
    try:
        return floods(asked.seconds, directory) if asked.what == "floods" else idle(asked.connections, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


sys.exit(main())
