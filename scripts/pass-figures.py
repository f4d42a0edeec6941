#!/usr/bin/env python3
"""Processor time of requests that go to the origin, beside nginx, one worker each.

Pages of 1,000 B, 16 kept connections, servers interleaved in slices of a second; server on one
processor, load (wrk) and origin on another. Three cases:

- http: `no-store` pages of an HTTP origin (nginx) on kept connections; nginx: proxy_pass with
  keepalive.
- fastcgi: `no-store` pages of an application of 40 processes (libfcgi); nginx: fastcgi_pass with
  fastcgi_keep_conn.
- cached: pages of the same application that may be kept; nginx: fastcgi_cache.

Needs nginx, wrk, a C compiler and libfcgi-dev.

    cargo build --release -p larder
    scripts/pass-figures.py --rounds 15
    scripts/pass-figures.py --larder before=PATH --larder after=target/release/larder
"""

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

RESPONDER = r"""
#include <fcgi_stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    const char *kept = strdup(getenv("CACHE_CONTROL"));
    static char body[1000];
    memset(body, 'x', sizeof body);
    while (FCGI_Accept() >= 0) {
        printf("Content-Type: text/html\r\nContent-Length: 1000\r\nCache-Control: %s\r\n\r\n", kept);
        fwrite(body, 1, sizeof body, stdout);
    }
    return 0;
}
"""

NGINX = """daemon off; master_process off; worker_processes 1; pid {dir}/pid;
error_log {dir}/error crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type text/html;
  fastcgi_cache_path {dir}/cache keys_zone=z:10m;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  {more}
}}
"""

PARAMETERS = " ".join(
    f"fastcgi_param {name} {value};"
    for name, value in {
        "REQUEST_METHOD": "$request_method", "QUERY_STRING": "$query_string",
        "REQUEST_URI": "$request_uri", "SCRIPT_NAME": "$uri", "DOCUMENT_ROOT": "/",
        "SERVER_PROTOCOL": "$server_protocol", "REMOTE_ADDR": "$remote_addr", "SERVER_NAME": "x",
        "SERVER_PORT": "80", "CONTENT_LENGTH": "$content_length", "CONTENT_TYPE": "$content_type",
    }.items()
)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Run:
    """One case: an origin, nginx and each Larder before it."""

    def __init__(self, case, options, room):
        self.options, self.room, self.running = options, room, []
        try:
            self.ways = self.start(case)
        except BaseException:
            self.end()
            raise

    def spawn(self, processor, command, **more):
        log = open(os.path.join(self.room, "log"), "ab")
        process = subprocess.Popen(
            ["taskset", "-c", str(processor), *command], stdout=log, stderr=log, **more
        )
        self.running.append(process)
        return process

    def nginx(self, processor, more):
        directory = tempfile.mkdtemp(dir=self.room)
        file = os.path.join(directory, "nginx.conf")
        with open(file, "w") as out:
            out.write(NGINX.format(dir=directory, more=more))
        return self.spawn(processor, [shutil.which("nginx") or "/usr/sbin/nginx", "-c", file, "-p", directory])

    def start(self, case):
        origin, front = free_port(), free_port()
        if case == "http":
            page = f'add_header Cache-Control no-store; location / {{ return 200 "{"x" * 1000}"; }}'
            self.nginx(1, f"server {{ listen 127.0.0.1:{origin}; {page} }}")
            way = 'proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection "";'
            url = f"http://127.0.0.1:{origin}"
        else:
            kept = "no-store" if case == "fastcgi" else "max-age=600"
            program = os.path.join(self.room, "responder")
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", origin))
                listener.listen(1024)
                for _ in range(40):
                    self.spawn(1, [program], stdin=listener, env={"CACHE_CONTROL": kept})
            cache = "fastcgi_cache z; fastcgi_cache_key $uri;" if case == "cached" else ""
            way = f"fastcgi_pass u; fastcgi_keep_conn on; {PARAMETERS} {cache}"
            url = f"fcgi://127.0.0.1:{origin}"
        upstream = f"upstream u {{ server 127.0.0.1:{origin}; keepalive 32; }}"
        server = f"server {{ listen 127.0.0.1:{front}; location / {{ {way} }} }}"
        ways = {"nginx": (self.nginx(0, f"{upstream} {server}"), front)}
        for name, path in self.options.larder:
            port = free_port()
            command = [path, "serve", "--threads", "1", "--http", f"127.0.0.1:{port}", "--origin", url]
            ways[name] = (self.spawn(0, command), port)
        for _, port in ways.values():
            self.wait(port)
        return ways

    @staticmethod
    def wait(port):
        for _ in range(200):
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as s:
                    s.sendall(b"GET /p HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answer = b""
                    while piece := s.recv(65536):
                        answer += piece
                if answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"x" * 1000):
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit(f"the server at port {port} does not answer")

    @staticmethod
    def processor_time(pid):
        tasks = f"/proc/{pid}/task"
        texts = (open(f"{tasks}/{task}/schedstat").read() for task in os.listdir(tasks))
        return sum(int(text.split()[0]) for text in texts)

    def slice(self, process, port):
        load = ["taskset", "-c", "1", "wrk", "-t1", f"-c{self.options.connections}", "-d1s"]
        before = self.processor_time(process.pid)
        said = subprocess.run(
            [*load, f"http://127.0.0.1:{port}/p"], capture_output=True, text=True, check=True
        ).stdout
        spent = self.processor_time(process.pid) - before
        if "Non-2xx" in said or "Socket errors" in said:
            raise SystemExit(said)
        return spent / int(re.search(r"(\d+) requests in", said).group(1)) / 1000

    def measure(self):
        found = {name: [] for name in self.ways}
        for number in range(self.options.rounds + 1):
            order = list(self.ways.items())
            for name, way in order if number % 2 else reversed(order):
                spent = self.slice(*way)
                if number > 0:
                    found[name].append(spent)
        return found

    def end(self):
        for process in self.running:
            process.send_signal(signal.SIGKILL)
        for process in self.running:
            process.wait()


def named(text):
    name, _, path = text.rpartition("=")
    return name or "larder", path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larder", type=named, action="append", help="[NAME=]PATH, several")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--cases", default="http,fastcgi,cached")
    options = parser.parse_args()
    options.larder = options.larder or [("larder", "target/release/larder")]
    with tempfile.TemporaryDirectory() as room:
        os.chmod(room, 0o755)
        source = os.path.join(room, "responder.c")
        with open(source, "w") as out:
            out.write(RESPONDER)
        program = os.path.join(room, "responder")
        subprocess.run(["cc", "-O2", "-o", program, source, "-lfcgi"], check=True)
        print("| case | server | microseconds | of nginx's (quartiles) |\n|---|---|---|---|")
        for case in options.cases.split(","):
            run = Run(case, options, room)
            try:
                found = run.measure()
            finally:
                run.end()
            for name, times in found.items():
                ratios = [one / nginx for one, nginx in zip(times, found["nginx"])]
                low, middle, high = statistics.quantiles(ratios, n=4)
                print(
                    f"| {case} | {name} | {statistics.median(times):.1f} "
                    f"| {middle:.2f} ({low:.2f}-{high:.2f}) |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
