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


if len(sys.argv) not in (4, 5):
    sys.exit(__doc__.splitlines()[0])
server, url, seconds = sys.argv[1:4]
head = sys.argv[4].encode() if len(sys.argv) > 4 else None
place = urlsplit(url)
if place.scheme not in ("http", "https") or not place.hostname:
    sys.exit(f"expected a URL such as http://example.org/news, found {url}")
# As Larder asks for it: the host in lower case, no default port, a path.
site = f"[{place.hostname}]" if ":" in place.hostname else place.hostname
if place.port not in (None, {"http": 80, "https": 443}[place.scheme]):
    site += f":{place.port}"
name = "page:" + site + (place.path or "/") + ("?" + place.query if place.query else "")
host, port = server.rsplit(":", 1)
body = sys.stdin.buffer.read()
client = Client((host, int(port)), serde=Pages(), default_noreply=False, timeout=20)
assert client.set(name, body if head is None else (head, body), expire=int(seconds))
print("published")
