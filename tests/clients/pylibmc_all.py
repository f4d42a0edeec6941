"""What a Python site does with libmemcached. Arguments: text or binary, then host:port of each server."""

import sys

import pylibmc

binary = sys.argv[1] == "binary"
servers = sys.argv[2:]
behaviors = {"tcp_nodelay": True, "ketama": True, "cas": True, "receive_timeout": 20_000_000}
client = pylibmc.Client(servers, binary=binary, behaviors=behaviors)

assert client.set("a", "one", time=1000)
assert client.get("a") == "one"
assert client.get("absent") is None
value, cas = client.gets("a")
assert (value, client.cas("a", "two", cas)) == ("one", True)
try:
    # pylibmc gives False or raises NotStored, depending on the protocol.
    assert not client.cas("a", "three", cas)
except (pylibmc.NotStored, pylibmc.DataExists):
    pass
assert client.get("a") == "two"
assert not client.add("a", "x")
assert client.add("b", "x")
assert client.replace("b", "y")
assert client.append("b", "z")
assert client.prepend("b", "x")
assert client.get("b") == "xyz"
assert client.set("n", 9)
assert client.incr("n", 2) == 11
assert client.decr("n", 5) == 6
assert client.touch("n", 500)
assert client.delete("n")
assert not client.delete("n")

many = {"many%d" % n: "%d" % n * (n % 50) for n in range(1000)}
assert client.set_multi(many) == []
assert client.get_multi(list(many) + ["absent"]) == many
assert client.set("object", {"list": [1, 2]})
assert client.get("object") == {"list": [1, 2]}
large = "x" * 900_000
assert client.set("large", large)
assert client.get("large") == large

# The same keys, from another client, are looked for at the same servers.
other = pylibmc.Client(servers, binary=binary, behaviors=behaviors)
assert other.get_multi(list(many)) == many
if len(servers) > 1:
    shares = []
    for server in servers:
        alone = pylibmc.Client([server], binary=binary)
        shares.append(len(alone.get_multi(list(many))))
    assert sum(shares) == len(many) and min(shares) > len(many) // 10, shares
assert client.delete_multi(list(many))
assert client.get_multi(list(many)) == {}
assert client.flush_all()
assert client.get("a") is None
print("ok")
