"""Django's cache and sessions in Redis. Arguments: host, port, backend. Prints OK at the end."""
import sys

import django
from django.conf import settings

location = f"redis://{sys.argv[1]}:{sys.argv[2]}/1"
settings.configure(
    CACHES={
        "default": {
            "BACKEND": sys.argv[3],
            "LOCATION": location,
            "KEY_PREFIX": "site",
            "TIMEOUT": 300,
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    USE_TZ=True,
)
django.setup()
from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402

cache.clear()
assert cache.get("a") is None and cache.get("a", "default") == "default"
cache.set("a", {"list": [1, 2], "text": "ä"})
assert cache.get("a") == {"list": [1, 2], "text": "ä"}
assert cache.add("a", 1) is False and cache.add("b", 1, 30) is True
assert cache.incr("b") == 2 and cache.incr("b", 10) == 12 and cache.decr("b") == 11
try:
    cache.incr("nothing")
    raise AssertionError("no error")
except ValueError:
    pass
cache.set_many({"c": 1, "d": "two"}, timeout=60)
assert cache.get_many(["c", "d", "nothing"]) == {"c": 1, "d": "two"}
assert cache.has_key("c") and "d" in cache
assert cache.touch("c", 100) is True and cache.touch("nothing", 100) is False
assert cache.get_or_set("e", lambda: "made", 10) == "made" and cache.get("e") == "made"
cache.set("gone", 1, timeout=0)
assert cache.get("gone") is None
cache.set("for_ever", 1, timeout=None)
assert cache.get("for_ever") == 1
cache.set("v", "two", version=2)
assert cache.get("v") is None and cache.get("v", version=2) == "two"
assert cache.incr_version("a") == 2 and cache.get("a", version=2)["text"] == "ä"
assert cache.delete("c") is True and cache.delete("c") is False
cache.delete_many(["b", "d"])
assert cache.get_many(["b", "d"]) == {}

session = SessionStore()
session["user"] = 7
session.save()
again = SessionStore(session_key=session.session_key)
assert again["user"] == 7
again.delete()
assert not SessionStore().exists(session.session_key)
cache.clear()
assert cache.get("for_ever") is None
print("OK")
