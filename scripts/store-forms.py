#!/usr/bin/env python3
"""How many pages fit in memory, how many bytes go to clients, and what a hit costs, by `store_forms`.

    scripts/store-forms.py [--pages DIR] [--memory 64] [--fill 12000] [--hits 3000] [--larder PROGRAM]

Run `cargo build --release -p larder` before. DIR has pages of HTML (default: those of the Rust
documentation, which rustup installs); those of 20 to 300 KB are used. An origin on 127.0.0.1 serves
them under as many URLs as are asked for. For Larder with `compress` and each of `store_forms`, and
Larder without, for Varnish with gzip and for nginx with gzip (which compresses each answer, and keeps
pages in files), it prints a line of a table:

  wire    bytes of an answer for a client that takes gzip, br and zstd
  fit     pages that memory keeps, by the server's own figures, after `--fill` pages were asked for (at
          least so many if all fit: marked by +), and the same for 1 GiB
  hit     microseconds of the server's processor time for a hit, by what the client takes

Figures of one machine compare; run it alone."""

import argparse
import contextlib
import http.client
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALL = "gzip, br, zstd"
CLIENTS = {"all": ALL, "gzip": "gzip", "none": "identity"}
TICK = os.sysconf("SC_CLK_TCK")


def corpus(directory):
    files = sorted(pathlib.Path(directory).rglob("*.html"))
    pages = [file.read_bytes() for file in files if 20_000 <= file.stat().st_size <= 300_000]
    if len(pages) < 20:
        sys.exit(f"{directory}: fewer than 20 pages of 20 to 300 KB")
    step = max(1, len(pages) // 400)
    return pages[::step]


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages, asked = [], 0

    def do_GET(self):
        Origin.asked += 1
        page = self.pages[int(self.path.strip("/")) % len(self.pages)]
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Cache-Control", "max-age=86400")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def started(command, port, name):
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen(command, stdout=nothing, stderr=nothing)
    try:
        for _ in range(200):
            if child.poll() is not None:
                sys.exit(f"{name} ended: {command}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield child.pid
    finally:
        child.terminate()
        child.wait()


def processor(pid):
    """Seconds of a process and its children."""
    pids, seconds = [pid], 0
    for child in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / TICK
            for task in pathlib.Path(f"/proc/{child}/task").iterdir():
                pids += [int(p) for p in (task / "children").read_text().split()]
    return seconds


class Client:
    def __init__(self, port):
        self.conn = http.client.HTTPConnection("127.0.0.1", port)

    def get(self, number, accept):
        headers = {"Accept-Encoding": accept} | ({"Host": "pages.test"})
        try:
            self.conn.request("GET", f"/{number}", headers=headers)
            answer = self.conn.getresponse()
        except ConnectionError:
            # It was idle for too long while pages were compressed.
            self.conn.close()
            self.conn.request("GET", f"/{number}", headers=headers)
            answer = self.conn.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"/{number}: {answer.status}")
        return len(body)


def larder(args, scratch, origin, lines):
    port, admin = free_port(), free_port()
    config = scratch / "larder.toml"
    config.write_text(
        f'memory = "{args.memory}MiB"\nthreads = 1\n[http]\nlisten = "127.0.0.1:{port}"\n'
        f'[admin]\nlisten = "127.0.0.1:{admin}"\n[[site]]\norigin = "http://127.0.0.1:{origin}"\n{lines}\n'
    )
    return [args.larder, "serve", "--config", str(config)], port, admin


def varnish(args, scratch, origin):
    port, vcl = free_port(), scratch / "default.vcl"
    vcl.write_text(
        'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "%d"; }\n'
        "sub vcl_backend_response { set beresp.do_gzip = true; }\n" % origin
    )
    command = ["varnishd", "-F", "-a", f"127.0.0.1:{port}", "-f", str(vcl), "-n", str(scratch / "v")]
    return [*command, "-s", f"malloc,{args.memory}m", "-T", "none"], port, None


def nginx(args, scratch, origin):
    port, config = free_port(), scratch / "nginx.conf"
    config.write_text(
        f"daemon off; worker_processes 1; pid {scratch}/nginx.pid; error_log /dev/null;\n"
        "events {}\nhttp { access_log off; gzip on; gzip_types text/html; gzip_proxied any;\n"
        f"proxy_cache_path {scratch}/cache keys_zone=pages:16m max_size={args.memory}m;\n"
        f"server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000; location / {{\n"
        f"proxy_pass http://127.0.0.1:{origin}; proxy_cache pages; }} }} }}\n"
    )
    return ["nginx", "-c", str(config), "-p", str(scratch)], port, None


def settled(admin):
    """Waits until nothing waits to be compressed."""
    while admin:
        conn = http.client.HTTPConnection("127.0.0.1", admin)
        conn.request("GET", "/metrics")
        text = conn.getresponse().read().decode()
        waiting = [line for line in text.splitlines() if line.startswith("larder_compressed_waiting ")]
        if not waiting or waiting[0].split()[1] == "0":
            time.sleep(0.3)
            return
        time.sleep(0.1)


def fit(client, args, admin, scratch):
    """Pages that are there after all were asked for."""
    for number in range(args.fill):
        client.get(number, ALL)
        if number % 200 == 199:
            settled(admin)
    settled(admin)
    if not admin:
        command = ["varnishstat", "-1", "-n", str(scratch / "v"), "-f", "MAIN.n_object"]
        return int(subprocess.run(command, capture_output=True, text=True).stdout.split()[1])
    conn = http.client.HTTPConnection("127.0.0.1", admin)
    conn.request("GET", "/metrics")
    text = conn.getresponse().read().decode()
    items = [l for l in text.splitlines() if l.startswith('larder_store_items{namespace="pages"}')]
    return int(items[0].split()[1])


def wire(client, args, admin):
    # As many as fit with room to spare.
    sizes = [len(page) for page in Origin.pages]
    count = max(n for n in range(1, len(sizes)) if sum(sizes[:n]) <= args.memory << 18)
    for number in range(count):
        for _ in range(2):
            client.get(number, ALL)
    settled(admin)
    return sum(client.get(number, ALL) for number in range(count)) // count


def hit(client, pid, args, accept):
    numbers = range(min(20, len(Origin.pages)))
    for number in numbers:
        client.get(number, accept)
    time.sleep(1)
    for number in numbers:
        client.get(number, accept)
    before = processor(pid)
    for n in range(args.hits):
        client.get(numbers[n % len(numbers)], accept)
    return (processor(pid) - before) / args.hits * 1e6


def measure(name, made, args, counts, scratch):
    command, port, admin = made
    with started(command, port, name) as pid:
        client = Client(port)
        bytes_sent = wire(client, args, admin)
        costs = {who: hit(client, pid, args, accept) for who, accept in CLIENTS.items()}
        kept = fit(client, args, admin, scratch) if counts else None
    more = "+" if kept and kept >= args.fill else ""
    per_gib = f"{kept * 1024 // args.memory:>9,}" if kept else f"{'-':>9}"
    shown = f"{f'{kept:,}{more}':>7}" if kept else f"{'-':>7}"
    hits = " ".join(f"{costs[who]:>7.1f}" for who in CLIENTS)
    print(f"{name:<28} {bytes_sent:>8,} {shown} {per_gib} {hits}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    docs = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
    parser.add_argument("--pages", default=f"{docs}/share/doc/rust/html/std")
    parser.add_argument("--memory", type=int, default=64, help="MiB")
    parser.add_argument("--fill", type=int, default=12000)
    parser.add_argument("--hits", type=int, default=3000)
    parser.add_argument("--larder", default=str(ROOT / "target/release/larder"))
    args = parser.parse_args()
    Origin.pages = corpus(args.pages)
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    port = origin.server_address[1]
    mean = sum(map(len, Origin.pages)) // len(Origin.pages)
    print(f"{len(Origin.pages)} pages, {mean:,} bytes on average; {args.memory} MiB\n")
    print(f"{'':<28} {'wire':>8} {'fit':>7} {'per GiB':>9} {'hit all':>7} {'gzip':>7} {'none':>7}")
    compress = 'compress = ["zstd", "br", "gzip"]'
    ways = {
        "Larder": lambda dir: larder(args, dir, port, ""),
        'Larder, "all"': lambda dir: larder(args, dir, port, compress),
        'Larder, "one"': lambda dir: larder(args, dir, port, compress + '\nstore_forms = "one"'),
        "Varnish, gzip": lambda dir: varnish(args, dir, port),
        "nginx, gzip": lambda dir: nginx(args, dir, port),
    }
    for name, way in ways.items():
        program = {"V": "varnishd", "n": "nginx"}.get(name[0])
        if program and not shutil.which(program):
            print(f"{name:<28} is not installed")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            directory = pathlib.Path(scratch)
            measure(name, way(directory), args, name[0] != "n", directory)


if __name__ == "__main__":
    main()
