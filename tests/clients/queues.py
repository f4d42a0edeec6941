"""Queues by memcached's clients: pymemcache and pylibmc send Kestrel's options as part of a key."""

import sys
import threading

import pylibmc
from pymemcache.client.base import Client

host, port = sys.argv[1].rsplit(":", 1)
one = Client((host, int(port)), default_noreply=False)
assert one.set("jobs", b"first") is True
assert one.set("jobs", b"second") is True


def get(client, key):
    """pymemcache finds a value by the key that it sent: the queue's name comes back."""
    name = key.split("/")[0]
    client.sock or client._connect()
    client.sock.sendall(("get %s\r\n" % key).encode())
    data = b""
    while not data.endswith(b"END\r\n"):
        more = client.sock.recv(65536)
        assert more, data
        data += more
    if data == b"END\r\n":
        return None
    head, rest = data.split(b"\r\n", 1)
    assert head.split()[1] == name.encode(), head
    return rest[: int(head.split()[3])]


assert one.get("jobs") == b"first"
assert get(one, "jobs/open") == b"second"
assert get(one, "jobs/close") is None
assert one.get("jobs") is None

two = pylibmc.Client([sys.argv[1]], binary=False)
assert two.set("jobs", "third")
assert two.get("jobs/open") == "third"
assert two.get("jobs/close") is None
assert two.get("jobs") is None

waiting = []
reader = threading.Thread(target=lambda: waiting.append(get(one, "jobs/t=60000")))
reader.start()
assert two.set("jobs", "fourth")
reader.join()
assert waiting == [b"fourth"], waiting
assert one.version()
assert one.stats()[b"cmd_set"] == 4
print("ok")
