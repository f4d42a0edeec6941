"""Queues by pykestrel, Kestrel's client for Python, as it was published (its `version` and `stats`
are of Python 2 only).
"""

import sys

from kestrel import Client

one, two = Client([sys.argv[1]]), Client([sys.argv[1]])
for job in ("first", "second", "third"):
    assert one.add("jobs", job) is True
assert one.peek("jobs") == "first"
assert one.get("jobs") == "first"
assert one.next("jobs") == "second"
# An aborted job is the first again, for another client, too.
assert one.abort("jobs") is True
assert two.next("jobs", timeout=100) == "second"
assert two.next("jobs") == "third"
assert two.finish("jobs") is True
assert two.get("jobs", timeout=10) is None
# A client that leaves gives its job back.
assert one.add("jobs", "fourth", expire=1000)
assert one.next("jobs") == "fourth"
assert one.close() is True
assert two.get("jobs", timeout=60000) == "fourth"
large = "x" * 500_000
assert two.add("jobs", large) and two.get("jobs") == large
assert two.add("jobs", "gone") and two.flush("jobs") and two.get("jobs") is None
assert two.add("jobs", "gone") and two.flush_all() and two.get("jobs") is None
assert two.add("jobs", "gone") and two.delete("jobs") and two.get("jobs") is None
assert two.add("jobs", "kept")
assert two.raw_stats()[0][1]["queue_jobs_items"] == "1", two.raw_stats()
assert two.reload() is True
assert two.get("jobs") == "kept"
print("ok")
