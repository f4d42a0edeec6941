#!/usr/bin/env python3
"""The disk tier beside nginx's proxy_cache: starts, kills, hits, and the origin's load.

    start   fills both with --entries pages of --size bytes, stops each, starts it again with the
            origin gone, and asks for pages at random: time until 50 % and 99 % of them are served;
            the same after kill -9, with the part that is still there
    hits    pages at random from the disk: requests a second, processor time of the server, p99; and
            bytes written for each byte accepted
    origin  a working set of --entries pages, four times the memory, by Zipf's law (0.9): requests to
            the origin with the disk and without it

    cargo build --release -p larder -p larder-lab
    scripts/disk-figures.py start --entries 1000000        about 5 minutes and 25 GB
    scripts/disk-figures.py hits origin --entries 100000

Run it on a quiet machine. nginx is also the origin, and must be installed; a server that does not
get --entries pages onto its disk is reported with what it has.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ORIGIN = """daemon off; worker_processes 1; pid {dir}/pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log {dir}/count.log combined; keepalive_requests 1000000000;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; default_type text/html;
  server {{ listen 127.0.0.1:{port}; root {dir}/www; add_header Cache-Control "max-age=86400";
    location / {{ try_files /page =404; }} }} }}
"""
NGINX = """daemon off; worker_processes 1; pid {dir}/pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000;
  client_body_temp_path {dir}/b; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
  scgi_temp_path {dir}/s; proxy_cache_path {dir}/cache levels=1:2 keys_zone=c:256m max_size={disk}
    inactive=7d use_temp_path=off;
  upstream o {{ server 127.0.0.1:{origin}; keepalive 64; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://o; proxy_http_version 1.1;
    proxy_set_header Connection ""; proxy_cache c; proxy_cache_valid 200 7d;
    proxy_next_upstream off; add_header X-Found $upstream_cache_status; }} }} }}
"""
LARDER = """threads = 1
memory = "{memory}"
[http]
listen = ["127.0.0.1:{port}"]
[admin]
listen = "127.0.0.1:{admin}"
{disk}
[[site]]
origin = "http://127.0.0.1:{origin}"
{always}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process, name):
    for _ in range(3000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    sys.exit(f"{name} does not listen")


class Server:
    """A server that can be stopped and started again with what it has on its disk."""

    def __init__(self, name, work, text, command, **values):
        self.name, self.port, self.directory = name, free_port(), f"{work}/{name}"
        self.values = dict(values, dir=self.directory, port=self.port, admin=free_port())
        self.text, self.command, self.process = text, command, None
        os.makedirs(self.directory, exist_ok=True)

    def start(self):
        path = f"{self.directory}/conf"
        with open(path, "w") as file:
            file.write(self.text.format(**self.values))
        self.process = subprocess.Popen(
            [*self.command, path], stdout=subprocess.DEVNULL, cwd=self.directory
        )
        wait_for(self.port, self.process, self.name)
        return self

    def stop(self, how=signal.SIGTERM):
        pids = [self.process.pid, *self.children()]
        for pid in pids if how == signal.SIGKILL else pids[:1]:
            os.kill(pid, how)
        self.process.wait()

    def children(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path) as file:
            return [int(pid) for pid in file.read().split()]

    def figures(self):
        address = f"http://127.0.0.1:{self.values['admin']}/api/v1/stats"
        with urllib.request.urlopen(address) as answer:
            return json.load(answer)["disk"]


def origin(work, size):
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if not program:
        sys.exit("nginx is not installed: apt-get install nginx-light")
    server = Server("origin", work, ORIGIN, [program, "-e", "stderr", "-c"])
    os.makedirs(f"{server.directory}/www", exist_ok=True)
    with open(f"{server.directory}/www/page", "wb") as file:
        file.write(random.Random(1).randbytes(size).hex().encode()[:size])
    return server.start()


def larder(options, work, source, name="larder", memory="64MiB", disk=True):
    lines = f'[disk]\npath = "{work}/{name}/disk"\nsize = "{options.disk}"\npatience = "10s"'
    return Server(
        name, work, LARDER, [options.larder, "serve", "--config"], memory=memory,
        disk=lines if disk else "", always='disk = "always"' if disk else "", origin=source.port,
    )


def nginx(options, work, source):
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    disk = options.disk.replace("GiB", "g").replace("MiB", "m")
    return Server("nginx", work, NGINX, [program, "-e", "stderr", "-c"], disk=disk,
                  origin=source.port)


def fill(options, server):
    """Each page once, by processes with a part each; what goes to the disk is there at the end."""
    parts, step = [], -(-options.entries // options.clients)
    script = (
        "import socket, sys\n"
        "port, first, last = map(int, sys.argv[1:])\n"
        "s = socket.create_connection(('127.0.0.1', port)); f = s.makefile('rb')\n"
        "for n in range(first, last):\n"
        "    s.sendall(b'GET /k/%07d HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' % n)\n"
        "    assert b' 200 ' in f.readline(); length = 0\n"
        "    while (line := f.readline()) != b'\\r\\n':\n"
        "        if line.lower().startswith(b'content-length:'): length = int(line[15:])\n"
        "    f.read(length)\n"
    )
    for first in range(0, options.entries, step):
        last = min(first + step, options.entries)
        command = [sys.executable, "-c", script, str(server.port), str(first), str(last)]
        parts.append(subprocess.Popen(command))
    if any(part.wait() for part in parts):
        sys.exit(f"{server.name}: a page could not be fetched")


def found(options, server, sample, within):
    """The part of a random sample that is served without the origin; None: not within the time."""
    until, served = time.monotonic() + within, 0
    connection = socket.create_connection(("127.0.0.1", server.port))
    reader = connection.makefile("rb")
    for number in random.sample(range(options.entries), sample):
        if time.monotonic() > until:
            return None
        connection.sendall(b"GET /k/%07d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
        status, length, close = reader.readline(), 0, False
        while (line := reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.lower().partition(b":")
            length = int(value) if name == b"content-length" else length
            close |= name == b"connection" and b"close" in value
        reader.read(length)
        served += b" 200 " in status
        if close or not status:
            connection.close()
            connection = socket.create_connection(("127.0.0.1", server.port))
            reader = connection.makefile("rb")
    connection.close()
    return served / sample


def serving_again(options, server):
    """Seconds from the start of the process until half and 99 % are served, and the last part."""
    began, times, part = time.monotonic(), {}, 0.0
    server.start()
    while time.monotonic() - began < options.patience and 0.99 not in times:
        part = found(options, server, 500, options.patience) or 0.0
        for wanted in (0.5, 0.99):
            if part >= wanted:
                times.setdefault(wanted, time.monotonic() - began)
    return times.get(0.5), times.get(0.99), part


def starts(options, work):
    print(f"{'server':8} {'ended by':8} {'50 % after s':>12} {'99 % after s':>12} {'served':>7}")
    for make in (larder, nginx):
        source = origin(work, options.size)
        server = make(options, work, source).start()
        fill(options, server)
        time.sleep(2)
        for how in (signal.SIGTERM, signal.SIGKILL):
            server.stop(how)
            if how == signal.SIGTERM:
                source.stop()
            half, most, part = serving_again(options, server)
            show = [f"{t:12.2f}" if t is not None else f"{'never':>12}" for t in (half, most)]
            print(f"{server.name:8} {how.name[3:]:8} {show[0]} {show[1]} {part:7.3f}", flush=True)
        server.stop()
        shutil.rmtree(server.directory)


def lab(options, server, popularity, duration):
    command = [options.lab, "bench", "http", f"http://127.0.0.1:{server.port}/"]
    command += ["--pattern", "/k/{:07}", "--keys", f"0-{options.entries - 1}"]
    command += ["--popularity", popularity, "--connections", "32", "--duration", duration]
    pids = [server.process.pid, *server.children()]
    for pid in pids:
        command += ["--server-pid", str(pid)]
    command += ["--json", "-", "--quiet"]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{server.name}: the generator ended with {result.returncode}")
    return json.loads(result.stdout)


def hits(options, work):
    for make in (larder, nginx):
        source = origin(work, options.size)
        server = make(options, work, source).start()
        fill(options, server)
        time.sleep(2)
        for cache in ("warm", "dropped"):
            if cache == "dropped":
                try:
                    with open("/proc/sys/vm/drop_caches", "w") as file:
                        file.write("3")
                except OSError:
                    print("the page cache cannot be dropped: not root", file=sys.stderr)
                    break
            report = lab(options, server, "uniform", options.duration)
            cpu = sum(one["cpu_ns_per_request"] for one in report["servers"]) / 1000
            print(f"{server.name:8} page cache {cache:8} {report['answers_per_second']:9.0f}/s "
                  f"{cpu:7.1f} us CPU  latency {json.dumps(report.get('latency'))}", flush=True)
        if make is larder:
            disk = server.figures()
            ratio = disk["written"] / max(disk["accepted"], 1)
            print(f"larder   written {disk['written']} B for {disk['accepted']} B: {ratio:.3f}")
        server.stop()
        source.stop()
        shutil.rmtree(server.directory)


def lines(source):
    with open(f"{source.directory}/count.log", "rb") as file:
        return sum(1 for _ in file)


def origins(options, work):
    memory = max(options.entries * options.size // 4 >> 20, 16)
    for disk in (True, False):
        source = origin(work, options.size)
        name = "disk" if disk else "memory"
        server = larder(options, work, source, name, f"{memory}MiB", disk).start()
        lab(options, server, "zipf:0.9", options.duration)
        before = lines(source)
        report = lab(options, server, "zipf:0.9", options.duration)
        asked = report["answers_total"] if "answers_total" in report else report["answers"]
        print(f"memory {memory} MiB, {name:6}: {lines(source) - before} of {asked} requests went to "
              "the origin", flush=True)
        server.stop()
        source.stop()


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", choices=["start", "hits", "origin"])
    parser.add_argument("--larder", default=f"{here}/target/release/larder")
    parser.add_argument("--lab", default=f"{here}/target/release/larder-lab")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=10_000, help="of a page, bytes")
    parser.add_argument("--disk", default="16GiB", help="size of each disk")
    parser.add_argument("--clients", type=int, default=8, help="processes that fill")
    parser.add_argument("--duration", default="15s", help="of a measurement")
    parser.add_argument("--patience", type=float, default=120, help="for a start, seconds")
    parser.add_argument("--work", help="where the disks are made [default: the temporary files]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="larder-disk-", dir=options.work) as work:
        os.chmod(work, 0o755)
        for what in options.what:
            {"start": starts, "hits": hits, "origin": origins}[what](options, work)


if __name__ == "__main__":
    main()
