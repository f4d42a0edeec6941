"""What a Python site does with pymemcache. Argument: host:port."""

import pickle
import sys

from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

host, port = sys.argv[1].split(":")
server = (host, int(port))


class Pickles:
    """Values of any type; the flags say which."""

    def serialize(self, key, value):
        return (value, 1) if isinstance(value, bytes) else (pickle.dumps(value), 2)

    def deserialize(self, key, value, flags):
        return value if flags == 1 else pickle.loads(value)


plain = Client(server, timeout=20, default_noreply=False)
assert plain.set("a", b"1", expire=1000)
assert plain.get("a") == b"1"
assert plain.get("absent") is None
value, cas = plain.gets("a")
assert value == b"1"
assert plain.cas("a", b"2", cas) is True
assert plain.cas("a", b"3", cas) is False
assert plain.cas("absent", b"3", cas) is None
assert plain.add("a", b"x") is False
assert plain.add("b", b"x") is True
assert plain.replace("b", b"y") is True
assert plain.replace("absent", b"y") is False
assert plain.append("b", b"z") is True
assert plain.prepend("b", b"x") is True
assert plain.get("b") == b"xyz"
assert plain.set("n", "9")
assert plain.incr("n", 2) == 11
assert plain.decr("n", 20) == 0
assert plain.incr("absent", 1) is None
assert plain.touch("n", 500) is True
assert plain.touch("absent", 500) is False
assert plain.delete("n") is True
assert plain.delete("n") is False
assert plain.version() == b"1.6.18"
assert b"curr_items" in plain.stats()

many = {"many%d" % n: b"%d" % n * (n % 50) for n in range(2000)}
assert plain.set_many(many) == []
got = plain.get_many(list(many) + ["absent"])
assert got == many, len(got)
assert plain.delete_many(list(many))
assert plain.get_many(list(many)) == {}

silent = Client(server, timeout=20, default_noreply=True)
for n in range(500):
    silent.set("quiet%d" % n, b"%d" % n)
silent.delete("quiet0")
silent.incr("quiet1", 5, noreply=True)
assert silent.get_many(["quiet0", "quiet1", "quiet499"]) == {"quiet1": b"6", "quiet499": b"499"}

objects = Client(server, timeout=20, serde=Pickles())
objects.set("object", {"list": [1, 2], "text": "\u00e9"}, noreply=False)
assert objects.get("object") == {"list": [1, 2], "text": "\u00e9"}
large = bytes(range(256)) * 3000
objects.set("large", large, noreply=False)
assert objects.get("large") == large

try:
    plain.set("too large", b"x")
    raise SystemExit("a key with a blank was taken")
except MemcacheClientError:
    pass
try:
    plain.set("toolarge", b"x" * (1 << 21))
    raise SystemExit("2 MiB were taken")
except MemcacheServerError as error:
    assert b"too large" in error.args[0], error
assert plain.get("a") == b"2", "the connection is still usable"

pool = PooledClient(server, timeout=20, max_pool_size=4)
pool.set("pooled", b"1", noreply=False)
assert pool.get("pooled") == b"1"
spread = HashClient([server], timeout=20)
spread.set("spread", b"1", noreply=False)
assert spread.get("spread") == b"1"
assert plain.flush_all() is True
assert plain.get("a") is None
print("ok")
