"""RQ: jobs that depend on others, fail, are tried again, are planned; a worker that forks and one that does not."""

import sys
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, SimpleWorker, Worker
from rq.job import Dependency
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry


def main():
    db = Redis(sys.argv[1], int(sys.argv[2]))
    queue, low = Queue("default", connection=db), Queue("low", connection=db)
    jobs = [queue.enqueue("math.factorial", n) for n in range(5)]
    first = low.enqueue("math.factorial", 3)
    after = low.enqueue("math.factorial", 4, depends_on=Dependency([first, jobs[0]]))
    bad = queue.enqueue("math.sqrt", -1, retry=Retry(max=2))
    planned = queue.enqueue_in(timedelta(hours=1), "math.factorial", 6)
    assert len(queue) == 6 and after.get_status() == "deferred"
    assert Worker([queue, low], connection=db).work(burst=True)
    assert [job.return_value(refresh=True) for job in jobs] == [1, 1, 2, 6, 24]
    assert first.return_value(refresh=True) == 6
    SimpleWorker([queue, low], connection=db).work(burst=True)
    assert after.return_value(refresh=True) == 24
    assert bad.get_status(refresh=True) == "failed" and len(bad.results()) >= 1
    assert bad.id in FailedJobRegistry(queue=queue)
    assert len(FinishedJobRegistry(queue=queue)) == 5
    assert planned.id in ScheduledJobRegistry(queue=queue)
    planned.cancel()
    assert Worker.count(connection=db) == 0
    queue.enqueue("math.factorial", 7)
    assert queue.empty() == 1 and len(queue) == 0


main()
print("OK")
