#!/usr/bin/env python3
"""How many pages fit in memory, how many bytes go to clients, and what a hit costs, by `store_forms`.

    scripts/store-forms.py [--pages DIR] [--least 20000] [--memory 64] [--fill 12000] [--hits 20000]
                           [--rounds 5] [--larder PROGRAM]

Run `cargo build --release -p larder` before. DIR has pages of HTML (default: those of the Rust
documentation, which rustup installs; those of a wiki: `larder lab mediawiki --save-pages DIR`, then
`--least 0`); those of --least to 300,000 bytes are used. An origin on 127.0.0.1 serves them under as
many URLs as are asked for. For Larder with `compress` and each of `store_forms`, and Larder without,
for Varnish with gzip and for nginx with gzip and with brotli (which compresses each answer, and keeps
pages in files), it prints a line of a table:

  wire    bytes of an answer for a client that takes gzip, br and zstd
  fit     pages that memory keeps, by the server's own figures, after `--fill` pages were asked for
          twice (at least so many if all fit: marked by +), for 1 GiB, and as a ratio to Larder's
          without `compress`
  hit     microseconds of the server's processor time for a hit, by what the client takes, and its
          ratio to Larder's without `compress`: medians of --rounds rounds of --hits hits; a round
          asks each server once. The thread of Larder that compresses is left out: it works behind
          the hits, and its work is done when they begin.

Figures of one machine compare; run it alone."""

import argparse
import contextlib
import http.client
import http.server
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALL = "gzip, br, zstd"
CLIENTS = {"all": ALL, "gzip": "gzip", "none": "identity"}
# Where Debian's package libnginx-mod-http-brotli-filter has it.
BROTLI = "/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so"
# Pages that are asked for between two waits for the compression of the last ones.
STEP = 200
# Hits of each page before any is measured: forms are compressed harder after some hundreds.
WARM = 400
BEHIND = "larder-compress"


def corpus(directory, least):
    files = sorted(pathlib.Path(directory).rglob("*.html"))
    pages = [file.read_bytes() for file in files if least <= file.stat().st_size <= 300_000]
    if len(pages) < 20:
        sys.exit(f"{directory}: fewer than 20 pages of {least:,} to 300,000 bytes")
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
    """Nanoseconds of the threads of a process and its children, but for the one that compresses."""
    pids, spent = [pid], 0
    for child in pids:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{child}/task").iterdir():
                with contextlib.suppress(OSError):
                    pids += [int(p) for p in (task / "children").read_text().split()]
                    if (task / "comm").read_text().strip() != BEHIND:
                        spent += int((task / "schedstat").read_text().split()[0])
    return spent


class Client:
    def __init__(self, port):
        self.conn = http.client.HTTPConnection("127.0.0.1", port)

    def get(self, number, accept):
        headers = {"Accept-Encoding": accept} | ({"Host": "pages.test"})
        try:
            self.conn.request("GET", f"/{number}", headers=headers)
            answer = self.conn.getresponse()
        except (ConnectionError, http.client.HTTPException):
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


def nginx(args, scratch, origin, brotli):
    port, config = free_port(), scratch / "nginx.conf"
    module = f"load_module {BROTLI};\n" if brotli else ""
    coding = "brotli on; brotli_types text/html;" if brotli else "gzip on; gzip_types text/html; gzip_proxied any;"
    config.write_text(
        f"{module}daemon off; worker_processes 1; pid {scratch}/nginx.pid; error_log /dev/null;\n"
        f"events {{}}\nhttp {{ access_log off; {coding}\n"
        f"proxy_cache_path {scratch}/cache keys_zone=pages:16m max_size={args.memory}m;\n"
        f"server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000; location / {{\n"
        f"proxy_pass http://127.0.0.1:{origin}; proxy_cache pages; }} }} }}\n"
    )
    return ["nginx", "-c", str(config), "-p", str(scratch)], port, None


def metric(admin, name, absent=None):
    conn = http.client.HTTPConnection("127.0.0.1", admin)
    conn.request("GET", "/metrics")
    lines = conn.getresponse().read().decode().splitlines()
    found = [line for line in lines if line.startswith(f"{name} ")]
    if not found and absent is not None:
        return absent
    if not found:
        sys.exit(f"no {name} in /metrics")
    return int(found[0].split()[1])


def settled(admin):
    """Waits until nothing waits to be compressed."""
    while admin:
        # Without `compress` there is no such figure.
        if metric(admin, "larder_compressed_waiting", 0) == 0:
            time.sleep(0.3)
            return
        time.sleep(0.1)


class Server:
    """One that runs, with a client of its own."""

    def __init__(self, pid, port, admin, scratch):
        self.pid, self.admin, self.scratch = pid, admin, scratch
        self.client = Client(port)
        self.costs = {who: [] for who in CLIENTS}

    def wire(self, args):
        # As many as fit with room to spare.
        sizes = [len(page) for page in Origin.pages]
        count = max(n for n in range(1, len(sizes) + 1) if n == 1 or sum(sizes[:n]) <= args.memory << 18)
        for first in range(0, count, STEP):
            for _ in range(3):
                for number in range(first, min(count, first + STEP)):
                    self.client.get(number, ALL)
                settled(self.admin)
        return sum(self.client.get(number, ALL) for number in range(count)) // count

    def numbers(self):
        return range(min(20, len(Origin.pages)))

    def warm(self):
        for accept in CLIENTS.values():
            for _ in range(3):
                for number in self.numbers():
                    self.client.get(number, accept)
                settled(self.admin)
            codes = self.admin and accept != "identity"
            for n in range(WARM * len(self.numbers()) if codes else 0):
                self.client.get(self.numbers()[n % len(self.numbers())], accept)
            settled(self.admin)

    def hit(self, args, who):
        numbers, accept = self.numbers(), CLIENTS[who]
        for number in numbers:
            self.client.get(number, accept)
        before = processor(self.pid)
        for n in range(args.hits):
            self.client.get(numbers[n % len(numbers)], accept)
        self.costs[who].append((processor(self.pid) - before) / args.hits / 1000)

    def fit(self, args):
        """Pages that are there after all were asked for twice, so that their forms are made."""
        for first in range(0, args.fill, STEP):
            for _ in range(2):
                for number in range(first, min(args.fill, first + STEP)):
                    self.client.get(number, ALL)
                settled(self.admin)
        if self.admin:
            return metric(self.admin, 'larder_store_items{namespace="pages"}')
        command = ["varnishstat", "-1", "-n", str(self.scratch / "v"), "-f", "MAIN.n_object"]
        return int(subprocess.run(command, capture_output=True, text=True).stdout.split()[1])


def ways(args, port):
    compress = 'compress = ["zstd", "br", "gzip"]'
    return {
        "Larder": lambda dir: larder(args, dir, port, ""),
        'Larder, "all"': lambda dir: larder(args, dir, port, compress),
        'Larder, "one"': lambda dir: larder(args, dir, port, compress + '\nstore_forms = "one"'),
        "Varnish, gzip": lambda dir: varnish(args, dir, port),
        "nginx, gzip": lambda dir: nginx(args, dir, port, False),
        "nginx, brotli": lambda dir: nginx(args, dir, port, True),
    }


def missing(name):
    program = {"V": "varnishd", "n": "nginx"}.get(name[0])
    if program and not shutil.which(program):
        return f"{program} is not installed"
    if name == "nginx, brotli" and not os.path.exists(BROTLI):
        return "libnginx-mod-http-brotli-filter is not installed"
    return None


def measured(args, made, stack):
    """Starts all servers; the bytes of an answer and the costs of hits, in interleaved rounds."""
    servers, wires = {}, {}
    for name, way in made.items():
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # Varnish and the workers of nginx are other users where root starts them.
        scratch.chmod(0o755)
        command, port, admin = way(scratch)
        pid = stack.enter_context(started(command, port, name))
        servers[name] = Server(pid, port, admin, scratch)
        wires[name] = servers[name].wire(args)
        servers[name].warm()
    names = list(servers)
    for turn in range(args.rounds):
        for who in CLIENTS:
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                servers[name].hit(args, who)
    return servers, wires


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    docs = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
    parser.add_argument("--pages", default=f"{docs}/share/doc/rust/html/std")
    parser.add_argument("--least", type=int, default=20_000, help="bytes of the shortest page")
    parser.add_argument("--memory", type=int, default=64, help="MiB")
    parser.add_argument("--fill", type=int, default=12000)
    parser.add_argument("--hits", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--larder", default=str(ROOT / "target/release/larder"))
    args = parser.parse_args()
    Origin.pages = corpus(args.pages, args.least)
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    mean = sum(map(len, Origin.pages)) // len(Origin.pages)
    print(f"{len(Origin.pages)} pages, {mean:,} bytes on average; {args.memory} MiB\n")
    heads = " ".join(f"{f'hit {who}':>8} {'ratio':>6}" for who in CLIENTS)
    print(f"{'':<16} {'wire':>8} {'fit':>7} {'per GiB':>9} {'ratio':>6} {heads}", flush=True)
    made = ways(args, origin.server_address[1])
    for name in [name for name in made if missing(name)]:
        print(f"{name:<16} is left out: {missing(name)}")
        del made[name]
    plain = None
    with contextlib.ExitStack() as stack:
        servers, wires = measured(args, made, stack)
        base = {who: statistics.median(servers["Larder"].costs[who]) for who in CLIENTS}
        for name, server in servers.items():
            kept = None if name.startswith("nginx") else server.fit(args)
            plain = plain or kept
            fits = [f"{'-':>7}", f"{'-':>9}", f"{'-':>6}"]
            if kept:
                more = "+" if kept >= args.fill else ""
                per_gib = f"{kept * 1024 // args.memory:,}"
                fits = [f"{f'{kept:,}{more}':>7}", f"{per_gib:>9}", f"{kept / plain:>6.2f}"]
            costs = {who: statistics.median(server.costs[who]) for who in CLIENTS}
            hits = " ".join(f"{cost:>8.2f} {cost / base[who]:>6.3f}" for who, cost in costs.items())
            print(f"{name:<16} {wires[name]:>8,} {' '.join(fits)} {hits}", flush=True)


if __name__ == "__main__":
    main()
