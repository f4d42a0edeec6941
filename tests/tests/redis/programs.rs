//! Programs that keep their queues in Redis, as their packages have them (scripts/test-deps.sh).

use larder_tests::Redis;
use larder_tests::helper::source_root;
use larder_tests::memcache::{client, script};
use std::process::{Command, Output};

fn ends_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.trim_end().ends_with("OK"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn python(name: &str) {
    let packages = source_root().join("tests/.cache/queues");
    let larder = Redis::larder(&[]);
    let mut command = script("/usr/bin/python3", name);
    command.env("PYTHONPATH", &packages).args(["127.0.0.1", &larder.port().to_string()]);
    ends_well(&client(&mut command));
}

#[test]
fn rq() {
    python("redis_rq.py");
}

#[test]
fn celery() {
    python("redis_celery.py");
}

/// It warns of other policies than `noeviction`, with which jobs may be evicted.
#[test]
fn bullmq() {
    let larder = Redis::larder(&["--maxmemory-policy", "noeviction"]);
    let program = source_root().join("tests/clients/bullmq/bullmq_all.js");
    let mut command = Command::new("node");
    command.arg(program).args(["127.0.0.1", &larder.port().to_string()]);
    ends_well(&client(&mut command));
}

/// Its jobs are given back by a process that is asked to stop.
#[test]
fn sidekiq() {
    let larder = Redis::larder(&["--maxmemory-policy", "noeviction"]);
    let program = source_root().join("tests/clients/sidekiq/sidekiq_all.rb");
    let mut command = Command::new("/usr/bin/ruby");
    command.arg(program).args(["127.0.0.1", &larder.port().to_string()]);
    ends_well(&client(&mut command));
}
