"""redis-py as applications use it. Arguments: host, port, protocol. Prints OK at the end; an assertion ends it before."""
import sys
import threading

import redis

host, port, protocol = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    r = redis.Redis(host=host, port=port, protocol=protocol, decode_responses=True)
except TypeError:
    # This version speaks RESP2 only.
    r = redis.Redis(host=host, port=port, decode_responses=True)

# Strings.
assert r.ping()
assert r.set("a", "1") is True
assert r.get("a") == "1"
assert r.get("nothing") is None
assert r.set("a", "2", nx=True) is None
assert r.set("a", "2", xx=True, ex=100) is True
assert 98 <= r.ttl("a") <= 100
assert r.set("a", "3", get=True, keepttl=True) == "2"
assert r.getex("a", persist=True) == "3"
assert r.ttl("a") == -1
assert r.mset({"b": "x", "c": "y"}) is True
assert r.mget("b", "nothing", "c") == ["x", None, "y"]
assert r.msetnx({"b": "1", "d": "1"}) is False
assert r.incr("n") == 1 and r.incrby("n", 41) == 42 and r.decr("n") == 41
assert r.incrbyfloat("f", 1.5) == 1.5
assert r.append("b", "yz") == 3 and r.strlen("b") == 3 and r.getrange("b", 1, -1) == "yz"
assert r.setrange("b", 1, "__") == 3 and r.getset("b", "q") == "x__" and r.getdel("b") == "q"
assert r.setbit("bits", 7, 1) == 0 and r.getbit("bits", 7) == 1 and r.bitcount("bits") == 1

# Keys.
assert r.exists("a", "c", "nothing") == 2
assert r.expire("a", 50) and r.pttl("a") > 40000 and r.persist("a")
assert r.type("a") == "string" and r.type("nothing") == "none"
assert r.rename("c", "d") and r.get("d") == "y" and r.renamenx("d", "a") is False
assert r.copy("d", "e") and r.delete("d", "e") == 2 and r.unlink("nothing") == 0
for number in range(500):
    r.set(f"many:{number}", number)
assert sorted(r.scan_iter(match="many:*", count=50)) == sorted(f"many:{n}" for n in range(500))
assert len(r.keys("many:?")) == 10
assert r.dbsize() >= 500

# Hashes.
assert r.hset("h", mapping={"one": 1, "two": "2"}) == 2
assert r.hgetall("h") == {"one": "1", "two": "2"}
assert r.hget("h", "one") == "1" and r.hmget("h", "one", "x") == ["1", None]
assert r.hincrby("h", "one", 4) == 5 and r.hincrbyfloat("h", "f", 0.5) == 0.5
assert r.hexists("h", "f") and r.hdel("h", "f") == 1 and r.hlen("h") == 2
assert r.hkeys("h") == ["one", "two"] and r.hvals("h") == ["5", "2"] and r.hsetnx("h", "one", 1) == 0
assert dict(r.hscan_iter("h")) == {"one": "5", "two": "2"}

# Pipelines and transactions.
pipe = r.pipeline(transaction=False)
for number in range(1000):
    pipe.set(f"p:{number}", number).get(f"p:{number}")
assert pipe.execute()[1::2] == [str(n) for n in range(1000)]
pipe = r.pipeline()
pipe.set("t", 1).incr("t").hset("t2", "a", 1)
assert pipe.execute() == [True, 2, 1]


def add(pipe):
    current = int(pipe.get("t"))
    pipe.multi()
    pipe.set("t", current + 1)


threads = [threading.Thread(target=lambda: [r.transaction(add, "t") for _ in range(50)]) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert r.get("t") == "202", r.get("t")
with r.pipeline() as pipe:
    pipe.watch("t")
    r.set("t", "other")
    pipe.multi()
    pipe.set("t", "mine")
    try:
        pipe.execute()
        raise AssertionError("the watched key had changed")
    except redis.WatchError:
        pass
assert r.get("t") == "other"

# Lists, sets and sorted sets.
assert r.rpush("queue", "a", "b", "c") == 3 and r.lrange("queue", 0, -1) == ["a", "b", "c"]
assert r.blpop(["none", "queue"], 1) in (("queue", "a"), ["queue", "a"]) and r.lmove("queue", "done", "RIGHT", "LEFT") == "c"
assert r.sadd("tags", "x", "y") == 2 and r.smembers("tags") == {"x", "y"} and r.sismember("tags", "x") == 1
assert r.zadd("board", {"ann": 3, "bob": 1.5}) == 2 and r.zincrby("board", 2, "bob") == 3.5
assert [tuple(one) for one in r.zrange("board", 0, -1, desc=True, withscores=True)] == [("bob", 3.5), ("ann", 3.0)]
assert r.zrank("board", "bob") == 1 and r.delete("queue", "done", "tags", "board") == 4

# Errors.
for wrong in (lambda: r.incr("t"), lambda: r.hget("a", "x"), lambda: r.fcall("f", 0), lambda: r.eval("return x", 0)):
    try:
        wrong()
        raise AssertionError("no error")
    except redis.ResponseError:
        pass

# Channels.
sub = r.pubsub()
sub.subscribe("news")
sub.psubscribe("n*")
assert sub.get_message(timeout=20)["type"] == "subscribe"
assert sub.get_message(timeout=20)["type"] == "psubscribe"
assert r.publish("news", "hello") == 2
kinds = {sub.get_message(timeout=20)["type"], sub.get_message(timeout=20)["type"]}
assert kinds == {"message", "pmessage"}, kinds
assert r.pubsub_channels() == ["news"] and r.pubsub_numsub("news") == [("news", 1)] and r.pubsub_numpat() == 1
sub.unsubscribe("news")
assert sub.get_message(timeout=20)["type"] == "unsubscribe"
sub.close()

# The server.
info = r.info()
assert info["redis_version"].startswith("7.") and info["connected_clients"] >= 1 and info["used_memory"] > 0
assert "db0" in r.info("keyspace")
assert int(r.config_get("maxmemory")["maxmemory"]) > 0
assert r.client_setname("tester") and r.client_getname() == "tester" and r.client_id() > 0
assert any(client["name"] == "tester" for client in r.client_list())
assert r.object("encoding", "a") and r.memory_usage("a") > 0
assert r.time()[0] > 1_700_000_000
assert r.echo("x") == "x"
other = redis.Redis(host=host, port=port, db=3, decode_responses=True)
other.set("a", "of 3")
assert r.get("a") == "3" and other.get("a") == "of 3" and other.dbsize() == 1
assert other.flushdb() and other.dbsize() == 0 and r.dbsize() > 500

# Scripts: registered ones are sent by their sum, and with their text where that is unknown.
r.script_flush()
add = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
assert add(keys=["script:n"], args=[5]) == 5 and add(keys=["script:n"], args=[2]) == 7
assert r.script_exists(add.sha) == [True]
with r.pipeline() as pipe:
    pipe.set("script:a", "x")
    add(keys=["script:n"], args=[1], client=pipe)
    pipe.get("script:n")
    assert pipe.execute()[1:] == [8, "8"]
assert r.eval("return cjson.encode({KEYS[1], tonumber(ARGV[1])})", 1, "k", 2) == '["k",2]'
try:
    r.eval("return redis.call('INCR', KEYS[1])", 1, "script:a")
    raise AssertionError("a string is no number")
except redis.ResponseError as error:
    assert "not an integer" in str(error), error
r.delete("script:n", "script:a")

# A lock, as redis-py makes it: taken with SET NX PX, let go with a script.
lock = r.lock("lock", timeout=10)
assert lock.acquire(blocking=False)
assert not r.lock("lock", timeout=10).acquire(blocking=False)
lock.release()
with r.lock("lock", timeout=10, blocking_timeout=10):
    assert r.exists("lock")
assert not r.exists("lock")
lock = r.lock("lock", timeout=10)
assert lock.acquire(blocking=False) and lock.extend(20) and 28 <= r.ttl("lock") <= 30
assert lock.extend(5, replace_ttl=True) and r.ttl("lock") <= 5
assert lock.reacquire() and 9 <= r.ttl("lock") <= 10
lock.release()

binary = redis.Redis(host=host, port=port)
blob = bytes(range(256)) * 4000
binary.set(b"\x00\xff key", blob)
assert binary.get(b"\x00\xff key") == blob
assert r.flushall()
print("OK")
