// BullMQ: jobs that fail and are tried again, are delayed, have priorities, are children of others; events, limits.
const assert = require("node:assert");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");

require("node:events").defaultMaxListeners = 100;
const connection = { host: process.argv[2], port: Number(process.argv[3]), maxRetriesPerRequest: null };

async function main() {
  const queue = new Queue("jobs", { connection });
  const events = new QueueEvents("jobs", { connection });
  await events.waitUntilReady();
  const order = [];
  const work = async (job) => {
    if (job.name === "third" && job.attemptsMade < 2) throw new Error("again");
    if (job.name === "never") throw new Error("no");
    if (job.name === "parent") return Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0);
    if (job.name === "ordered") order.push(job.data.n);
    await job.updateProgress(50);
    return (job.data.n ?? 0) * 2;
  };
  const ordered = [];
  for (const n of [3, 1, 2]) ordered.push(await queue.add("ordered", { n }, { priority: n }));
  const counts = await queue.getJobCounts("prioritized", "wait");
  assert.deepStrictEqual(counts, { prioritized: 3, wait: 0 });
  const worker = new Worker("jobs", work, { connection, concurrency: 1, limiter: { max: 1000, duration: 1000 } });
  const ended = async (job) => job.waitUntilFinished(events, 60000);
  const jobs = await queue.addBulk([...Array(20).keys()].map((n) => ({ name: "plain", data: { n } })));
  assert.deepStrictEqual(await Promise.all(jobs.map(ended)), jobs.map((job) => job.data.n * 2));
  await Promise.all(ordered.map(ended));
  assert.deepStrictEqual(order, [1, 2, 3]);
  const third = await queue.add("third", { n: 4 }, { attempts: 3, backoff: { type: "fixed", delay: 10 } });
  assert.strictEqual(await ended(third), 8);
  const delayed = await queue.add("plain", { n: 5 }, { delay: 50 });
  assert.strictEqual(await ended(delayed), 10);
  const never = await queue.add("never", {});
  await assert.rejects(ended(never), /no/);
  assert.strictEqual(await never.getState(), "failed");
  const flow = await new FlowProducer({ connection }).add({
    name: "parent", queueName: "jobs", data: {},
    children: [1, 2, 3].map((n) => ({ name: "plain", queueName: "jobs", data: { n } })),
  });
  assert.strictEqual(await ended(flow.job), 12);
  const twice = await queue.add("plain", { n: 9 }, { jobId: "own", delay: 3600000 });
  assert.strictEqual((await queue.add("plain", { n: 9 }, { jobId: "own" })).id, twice.id);
  assert.strictEqual(await queue.getDelayedCount(), 1);
  await queue.upsertJobScheduler("each", { every: 3600000 }, { name: "plain", data: { n: 1 } });
  assert.strictEqual((await queue.getJobSchedulers()).length, 1);
  await queue.pause();
  assert.ok(await queue.isPaused());
  await queue.resume();
  await worker.close();
  await queue.obliterate({ force: true });
  console.log("OK");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
