#!/usr/bin/python3
"""Publishes a page by pymemcache: publish.py HOST:PORT URL SECONDS [HEAD] < BODY

HEAD: lines such as "Status: 404 Not Found"; without it, the type is that of the URL's extension.
Needs `[publish] prefix = "page:"`.
"""

import sys
from urllib.parse import urlsplit

from pymemcache.client.base import Client

WITH_HEAD = 1 << 16


class Pages:
    """Bytes as they are. A pair is a head and a body."""

    def serialize(self, key, value):
        if isinstance(value, tuple):
            return b"\r\n".join([value[0], b"", value[1]]), WITH_HEAD
        return value, 0

    def deserialize(self, key, value, flags):
        return value


server, url, seconds = sys.argv[1:4]
head = sys.argv[4].encode() if len(sys.argv) > 4 else None
place = urlsplit(url)
name = "page:" + place.netloc + place.path + ("?" + place.query if place.query else "")
host, port = server.split(":")
body = sys.stdin.buffer.read()
client = Client((host, int(port)), serde=Pages(), default_noreply=False, timeout=20)
assert client.set(name, body if head is None else (head, body), expire=int(seconds))
print("published")
