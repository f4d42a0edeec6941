#!/usr/bin/env python3
"""Static files by Larder, nginx and lighttpd, one worker each, side by side.

Two measurements, on a quiet machine:

- 100,000 different files, asked for by Zipf's law: requests a second and processor time of the
  server for each request, by `larder-lab bench http`, in interleaved rounds.
- With --ab: one file of 26,510 B by ApacheBench with 500 connections (`ab -c500`, kept and not
  kept), as the reference documents did. Needs the package apache2-utils.

Servers that are not installed are left out. Every server has its own directory; all serve the same
files. Hit or miss, every answer is checked by the generator (well-formed, of the announced length).

    cargo build --release -p larder -p larder-lab
    scripts/files-figures.py
    scripts/files-figures.py --files 100000 --zipf 0.99 --rounds 5 --ab
    scripts/files-figures.py --larder-args '--config FILE'      other settings of Larder
"""

import argparse
import json
import os
import random
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

NGINX = """daemon off; worker_processes 1; worker_rlimit_nofile 65536; pid {dir}/pid;
error_log stderr crit;
events {{ use epoll; worker_connections 4096; }}
http {{
  access_log off; server_tokens off; default_type text/html; sendfile on; tcp_nopush on;
  open_file_cache max={open} inactive=600s; open_file_cache_valid 600s;
  keepalive_requests 1000000000; keepalive_timeout 600s; tcp_nodelay on;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  server {{ listen 127.0.0.1:{port} backlog=1024 sndbuf=256k; root {root}; }}
}}
"""

LIGHTTPD = """server.document-root = "{root}"
server.bind = "127.0.0.1"
server.port = {port}
server.pid-file = "{dir}/pid"
mimetype.assign = ( "" => "text/html" )
server.network-backend = "sendfile"
server.event-handler = "linux-sysepoll"
server.max-worker = 0
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 600
server.max-fds = 16384
server.max-connections = 4096
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_files(root, count, median, seed):
    """Sizes are lognormal, 1 MiB at most."""
    rng = random.Random(seed)
    block = random.Random(seed).randbytes(1 << 20)
    total = 0
    os.makedirs(f"{root}/f")
    for number in range(count):
        size = min(int(rng.lognormvariate(0, 1.3) * median), 1 << 20)
        with open(f"{root}/f/{number:06}", "wb") as file:
            file.write(block[:size])
        total += size
    with open(f"{root}/page.html", "wb") as file:
        file.write(block[:26_510])
    return total


class Server:
    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        sys.exit(f"{name} does not listen")

    def end(self):
        self.process.terminate()
        self.process.wait()


def start(options, root, work):
    servers = []
    port = free_port()
    command = [options.larder, "serve", "--threads", "1", "--http", f"127.0.0.1:{port}"]
    command += ["--origin", f"files:{root}", *shlex.split(options.larder_args)]
    servers.append(Server("larder", command, port))
    for name, program, text, arguments in [
        ("nginx", "nginx", NGINX, lambda path: ["-e", "stderr", "-c", path]),
        ("lighttpd", "lighttpd", LIGHTTPD, lambda path: ["-D", "-f", path]),
    ]:
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            print(f"{name} is not installed", file=sys.stderr)
            continue
        port, directory = free_port(), f"{work}/{name}"
        os.makedirs(directory)
        path = f"{directory}/conf"
        with open(path, "w") as file:
            file.write(text.format(dir=directory, port=port, root=root, open=options.open_files))
        program = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")
        servers.append(Server(name, [program, *arguments(path)], port))
    return servers


def load(options, server, duration, warm_up, seed):
    command = [options.lab, "bench", "http", f"http://127.0.0.1:{server.port}/"]
    command += ["--pattern", "/f/{:06}", "--keys", f"0-{options.files - 1}"]
    command += ["--popularity", f"zipf:{options.zipf}", "--connections", str(options.connections)]
    command += ["--duration", duration, "--warm-up", warm_up, "--seed", str(seed)]
    command += ["--server-pid", str(server.process.pid), "--json", "-", "--quiet"]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{server.name}: the generator ended with {result.returncode}: {command}")
    return json.loads(result.stdout)


def zipf(options, servers):
    figures = {server.name: [] for server in servers}
    for server in servers:
        load(options, server, options.warm_up, "0s", 1)
    for number in range(options.rounds):
        for server in random.sample(servers, len(servers)):
            report = load(options, server, options.duration, "0s", 2 + number)
            if report["errors_total"] or report["wrong"]:
                sys.exit(f"{server.name}: {report['errors']} and {report['wrong']} wrong answers")
            figures[server.name].append(report)
    print(f"{'server':10} {'requests/s':>12} {'CPU us':>8}")
    for name, reports in figures.items():
        rate = statistics.median(report["answers_per_second"] for report in reports)
        cpu = statistics.median(report["servers"][0]["cpu_ns_per_request"] for report in reports)
        print(f"{name:10} {rate:12.0f} {cpu / 1000:8.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file)


def apache_bench(options, servers):
    if not shutil.which("ab"):
        sys.exit("ab is not installed: apt-get install apache2-utils")
    for server in servers:
        for kept in [["-k"], []]:
            command = ["ab", "-q", *kept, "-c", "500", "-n", str(options.ab_requests)]
            command.append(f"http://127.0.0.1:{server.port}/page.html")
            text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            wanted = ("Requests per second", "Failed requests", "Non-2xx", "  50%", "  99%")
            lines = [line.strip() for line in text.splitlines() if line.startswith(wanted)]
            print(server.name, "kept" if kept else "new connections", "; ".join(lines))


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larder", default=f"{here}/target/release/larder")
    parser.add_argument("--lab", default=f"{here}/target/release/larder-lab")
    parser.add_argument("--larder-args", default="", help="further arguments of `larder serve`")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--median", type=int, default=8_000, help="median of the sizes, bytes")
    parser.add_argument("--zipf", type=float, default=0.99)
    parser.add_argument("--open-files", type=int, default=8192, help="nginx's open_file_cache")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duration", default="2s", help="of a round")
    parser.add_argument("--warm-up", default="10s", help="before the first round, of each server")
    parser.add_argument("--json", help="all reports, into this file")
    parser.add_argument("--ab", action="store_true", help="also ApacheBench, 500 connections")
    parser.add_argument("--ab-requests", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="larder-files-") as work:
        # nginx's worker has another user where it is started by root.
        os.chmod(work, 0o755)
        root = f"{work}/www"
        os.makedirs(root)
        total = make_files(root, options.files, options.median, 1)
        print(f"{options.files} files, {total >> 20} MiB; the first load brings them into memory")
        servers = start(options, root, work)
        try:
            zipf(options, servers)
            if options.ab:
                apache_bench(options, servers)
        finally:
            for server in servers:
                server.end()


if __name__ == "__main__":
    main()
