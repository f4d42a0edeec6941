#!/usr/bin/env python3
"""Takes the pages of memcacheds that lighttpd's mod_mcpage filled into a Larder with [publish].

    import.py --from 10.0.0.1:11211 --from 10.0.0.2:11211 --namespace example.org --host example.org --to 127.0.0.1:11211

Each page becomes an item `page:HOST/PATH` of the Larder at --to (its memcached face), which serves it until it expires there, at
most --ttl seconds. Nothing is changed on the memcacheds; they must be of version 1.6 or later. See docs/operations.md.

--namespace, --keyprefix  mcpage.memcached-namespace (if that was empty: the host that lighttpd was asked for first), -keyprefix
--md5 FILE                keys are hashed (mcpage.md5): FILE has the URIs, one a line, as an access log has them ("-": standard input)
--prefix                  `prefix` of [publish]
"""
import argparse
import base64
import hashlib
import socket
import sys
import time
import urllib.parse
import zlib

# The largest page that a Larder takes by hand, and the most that a compressed item may become.
MOST = 8 << 20
# [publish]: the value begins with a head.
WITH_HEAD = 1 << 16


class Refused(Exception):
    """Not an item of mod_mcpage, or one that cannot be served."""


def inflate(data, bits):
    plain = zlib.decompressobj(bits)
    try:
        out = plain.decompress(data, MOST + 1)
    except zlib.error as error:
        raise Refused(f"damaged: {error}") from error
    if len(out) > MOST or not plain.eof:
        raise Refused("too large, or cut off")
    return out


def decode(item):
    """An item as fields and body.

    It is, or is one gzip member of: the type and a NUL; a byte of no meaning; a byte that says whether the answer came in chunks; a
    byte that says whether the body is coded, then the coding and a NUL; the same for Expires and for Cache-Control; the body.
    """
    if item[:2] == b"\x1f\x8b":
        item = inflate(item, 31)
    at = 0

    def text():
        nonlocal at
        end = item.find(b"\0", at)
        value, at = item[at:end], end + 1
        if end < 0 or not value or len(value) > 1024 or any(byte < 32 or byte == 127 for byte in value):
            raise Refused("not an item of mod_mcpage")
        return value

    def flag():
        nonlocal at
        if at >= len(item) or item[at] > 1:
            raise Refused("not an item of mod_mcpage")
        at += 1
        return item[at - 1] == 1

    fields = {"Content-Type": text()}
    at += 1
    flag()
    coding = text() if flag() else None
    for name in "Expires", "Cache-Control":
        if flag():
            fields[name] = text()
    body = item[at:]
    if b"/" not in fields["Content-Type"]:
        raise Refused("not an item of mod_mcpage")
    # Larder compresses for each client by itself.
    if coding in (b"gzip", b"deflate"):
        bits = 47 if coding == b"gzip" or body[:1] == b"\x78" else -15
        body = inflate(body, bits)
    elif coding:
        raise Refused(f"coded by {coding!r}")
    return fields, body


class Server:
    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.file = socket.create_connection((host.strip("[]"), int(port)), timeout=10).makefile("rwb")

    def ask(self, request):
        self.file.write(request)
        self.file.flush()
        return self.line()

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n") and not line.endswith(b"\n"):
            raise ConnectionError("the server closed the connection")
        return line.rstrip(b"\r\n")

    def keys(self):
        found, line = [], self.ask(b"lru_crawler metadump all\r\n")
        while line != b"END":
            words = dict(word.partition(b"=")[::2] for word in line.split())
            if b"key" not in words:
                raise ConnectionError(f"no list of keys: {line!r}")
            found.append(urllib.parse.unquote_to_bytes(words[b"key"]))
            line = self.line()
        return found

    def get(self, key):
        """The value and the seconds that it has left; None: for ever."""
        answer = self.ask(b"mg %s b v t\r\n" % base64.b64encode(key)).split()
        if answer[:1] != [b"VA"]:
            return None
        value = self.file.read(int(answer[1]) + 2)[:-2]
        left = next((int(word[1:]) for word in answer[2:] if word[:1] == b"t"), -1)
        return value, None if left < 0 else left

    def set(self, key, value, seconds):
        head = b"set %s %d %d %d\r\n" % (key, WITH_HEAD, int(time.time()) + seconds, len(value))
        return self.ask(head + value + b"\r\n")


def named(start, uris, server):
    """Keys and their URIs."""
    if uris is not None:
        # The module hashes the URI and puts a line feed behind the digits.
        return [(start + hashlib.md5(uri).hexdigest().encode() + b"\n", uri) for uri in uris]
    return [(key, key[len(start):]) for key in server.keys() if key.startswith(start + b"/")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="servers", action="append", required=True, metavar="HOST:PORT")
    parser.add_argument("--to", required=True, metavar="HOST:PORT")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--keyprefix", default="")
    parser.add_argument("--md5", metavar="FILE")
    parser.add_argument("--host", required=True)
    parser.add_argument("--prefix", default="page:")
    parser.add_argument("--ttl", type=int, default=300, help="seconds, at most [300]")
    wanted = parser.parse_args()
    uris = None
    if wanted.md5:
        with sys.stdin.buffer if wanted.md5 == "-" else open(wanted.md5, "rb") as lines:
            uris = [line.strip() for line in lines if line.strip()]
    to, taken, refused = Server(wanted.to), 0, 0
    start = (wanted.namespace + wanted.keyprefix).encode()
    for address in wanted.servers:
        server = Server(address)
        for key, uri in named(start, uris, server):
            found = server.get(key)
            if found is None:
                continue
            try:
                (item, left) = found
                fields, body = decode(item)
                page = f"{wanted.prefix}{wanted.host.lower()}".encode() + uri
                if len(page) > 250 or any(byte <= 32 or byte >= 127 for byte in page):
                    raise Refused("its name does not fit a key")
                head = b"".join(b"%s: %s\r\n" % (name.encode(), value) for name, value in fields.items())
                seconds = wanted.ttl if left is None else min(left, wanted.ttl)
                if seconds > 0:
                    answer = to.set(page, head + b"\r\n" + body, seconds)
                    if answer != b"STORED":
                        raise Refused(answer.decode(errors="replace"))
                    taken += 1
            except Refused as error:
                refused += 1
                print(f"{uri.decode(errors='replace')}: {error}", file=sys.stderr)
    print(f"{taken} pages taken, {refused} refused")
    return 0 if taken or not refused else 1


if __name__ == "__main__":
    sys.exit(main())
