"""Celery: Redis carries the messages and keeps the results; chains, groups, chords, planned and revoked tasks."""

import sys

from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker

url = f"redis://{sys.argv[1]}:{sys.argv[2]}"
app = Celery("test", broker=f"{url}/0", backend=f"{url}/1")
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=2, default_retry_delay=0)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry()
    return self.request.retries


@app.task
def fails():
    raise ValueError("no")


def main():
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="error"):
        assert add.delay(1, 2).get(timeout=60) == 3
        assert chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=60) == 10
        assert group(add.s(n, n) for n in range(20))().get(timeout=60) == [2 * n for n in range(20)]
        assert chord((add.s(n, 1) for n in range(10)), total.s())().get(timeout=60) == 55
        assert third_time.delay().get(timeout=60) == 2
        assert add.apply_async((5, 6), countdown=0.1).get(timeout=60) == 11
        result = fails.delay()
        try:
            result.get(timeout=60)
        except ValueError as error:
            assert str(error) == "no"
        else:
            raise AssertionError("a task that fails has no result")
        assert result.state == "FAILURE"
        result.forget()


main()
print("OK")
