#!/usr/bin/env python3
"""How many bytes a page takes in each coding, with a dictionary of its site and without.

    scripts/dictionary.py [--larder PROGRAM] [--size 128KiB] [--train 64] [--measure 50] DIRECTORY...

A DIRECTORY has pages of HTML, of 1 KB to 2 MB, below it (default: chapters of the Rust book, and of
the standard library, which rustup installs). For each, an origin on 127.0.0.1 serves the pages, and
a Larder before it with HTTPS (a certificate of its own by openssl) and `dictionary`. Every second
page is asked for until the dictionary is there; then others are asked for in each coding, as often
as it takes until each is compressed as hard as it gets. It prints a line of a table: the mean bytes
of the pages that the dictionary was not made of, plain and in each coding, the dictionary, and its
bytes on the way (brotli).

With --train-by zstd the same pages are compressed by the program `zstd` with a dictionary of its own
training (`zstd --train`) of the same size, made raw; dcz alone.

Bytes do not depend on the machine, nor on how Larder was built."""

import argparse
import base64
import contextlib
import hashlib
import http.client
import http.server
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODINGS = ["gzip", "br", "zstd", "dcb", "dcz"]
PLACE = "/.well-known/larder/dictionary"
# Forms are compressed harder after four reports of demand, of one request in 64 each.
DEMAND = 64 * 5


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages: list = []

    def do_GET(self):
        name = self.path.strip("/")
        page = self.pages[int(name)] if name.isdigit() else b""
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Cache-Control", "max-age=86400")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


def corpus(directory, most):
    files = sorted(pathlib.Path(directory).rglob("*.html"))
    pages = [file.read_bytes() for file in files if 1024 <= file.stat().st_size <= 2 << 20]
    pages = list(dict.fromkeys(pages))
    if len(pages) < 20:
        sys.exit(f"{directory}: fewer than 20 pages")
    step = max(1, len(pages) // most)
    return pages[::step][:most]


class Client:
    def __init__(self, port):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.conn = http.client.HTTPSConnection("127.0.0.1", port, context=context)

    def get(self, path, **fields):
        headers = {"Host": "pages.test"} | {name.replace("_", "-"): v for name, v in fields.items()}
        for attempt in range(2):
            try:
                self.conn.request("GET", path, headers=headers)
                answer = self.conn.getresponse()
                return answer, answer.read()
            except (ConnectionError, http.client.HTTPException):
                # It was idle for too long while pages were compressed.
                self.conn.close()
        sys.exit(f"{path}: no answer")

    def coded(self, path, coding, **fields):
        """The body in a coding, once it is there."""
        for _ in range(5000):
            answer, body = self.get(path, Accept_Encoding=coding, **fields)
            if answer.getheader("Content-Encoding") == coding:
                return body
            time.sleep(0.005)
        sys.exit(f"{path}: not in {coding}")

    def best(self, path, coding, **fields):
        """The same, when it is compressed as hard as it gets."""
        first = self.coded(path, coding, **fields)
        for _ in range(DEMAND):
            _, body = self.get(path, Accept_Encoding=coding, **fields)
            if len(body) != len(first):
                return body
        for _ in range(100):
            body = self.coded(path, coding, **fields)
            if len(body) != len(first):
                return body
            time.sleep(0.01)
        return first


@contextlib.contextmanager
def larder(args, scratch, origin):
    key, cert = scratch / "key.pem", scratch / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    make += ["-nodes", "-days", "2", "-subj", "/CN=pages.test", "-keyout", key, "-out", cert]
    subprocess.run(make, check=True, capture_output=True)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    config = scratch / "larder.toml"
    config.write_text(
        f'memory = "256MiB"\nthreads = 1\n[https]\nlisten = "127.0.0.1:{port}"\n'
        'certificates = [{ cert = "cert.pem", key = "key.pem" }]\n'
        f'[[site]]\norigin = "http://127.0.0.1:{origin}"\ncompress = ["zstd", "br", "gzip"]\n'
        f'dictionary = {{ size = "{args.size}", pages = {args.train} }}\n'
    )
    child = subprocess.Popen([args.larder, "serve", "--config", config], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if child.poll() is not None:
                sys.exit("larder ended")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port
    finally:
        child.terminate()
        child.wait()


def dictionary(client, numbers):
    for number in numbers:
        client.coded(f"/{number}", "gzip")
    for _ in range(1000):
        answer, body = client.get(PLACE)
        if answer.status == 200:
            return body
        time.sleep(0.05)
    sys.exit("the pages have too little in common")


def trained(args, scratch, numbers):
    """The dictionary that zstd trains of the same pages, without its tables."""
    for number in numbers:
        (scratch / f"sample-{number}").write_bytes(Origin.pages[number])
    samples = [str(scratch / f"sample-{number}") for number in numbers]
    units = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
    number, unit = re.fullmatch(r"(\d+)(\w*)", args.size).groups()
    out, size = scratch / "trained", int(number) * units[unit]
    command = ["zstd", "-q", "-f", "--train", *samples, f"--maxdict={size}", "-o", out]
    subprocess.run(command, check=True, capture_output=True)
    # Without the magic number it is raw.
    out.write_bytes(out.read_bytes()[8:])
    return out


def by_zstd(raw, page):
    command = ["zstd", "-q", "-19", "--no-check", "-D", raw, "-c"]
    return len(subprocess.run(command, input=page, check=True, capture_output=True).stdout)


def measure(args, directory, scratch):
    Origin.pages = corpus(directory, 2 * max(args.train, args.measure))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    known = range(0, len(Origin.pages), 2)[: args.train]
    asked = range(1, len(Origin.pages), 2)[: args.measure]
    with larder(args, scratch, server.server_port) as port:
        client = Client(port)
        content = dictionary(client, known)
        hash_ = base64.b64encode(hashlib.sha256(content).digest()).decode()
        fetched = len(client.best(PLACE, "br"))
        sums = dict.fromkeys(CODINGS, 0)
        for number in asked:
            for coding in CODINGS:
                body = client.best(f"/{number}", coding, Available_Dictionary=f":{hash_}:")
                sums[coding] += len(body)
    server.shutdown()
    plain = sum(len(Origin.pages[number]) for number in asked) // len(asked)
    means = " ".join(f"{sums[coding] // len(asked):>8,}" for coding in CODINGS)
    name = str(directory)[-30:]
    print(f"{name:<30} {plain:>9,} {means} {len(content):>9,} {fetched:>8,}", flush=True)
    if args.train_by == "zstd":
        raw = trained(args, scratch, known)
        mean = sum(by_zstd(raw, Origin.pages[number]) for number in asked) // len(asked) + 40
        print(f"{'  trained by zstd':<30} {'':>9} {'':>35} {mean:>8,} {raw.stat().st_size:>9,}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
    docs = f"{sysroot}/share/doc/rust/html"
    parser.add_argument("directories", nargs="*", default=[f"{docs}/book", f"{docs}/std"])
    parser.add_argument("--larder", default=str(ROOT / "target/release/larder"))
    parser.add_argument("--size", default="128KiB")
    parser.add_argument("--train", type=int, default=64)
    parser.add_argument("--measure", type=int, default=50)
    parser.add_argument("--train-by", choices=["zstd"])
    args = parser.parse_args()
    columns = " ".join(f"{coding:>8}" for coding in CODINGS)
    print(f"{'pages':<30} {'plain':>9} {columns} {'dictionary':>9} {'fetched':>8}")
    for directory in args.directories:
        with tempfile.TemporaryDirectory() as scratch:
            measure(args, directory, pathlib.Path(scratch))


main()
