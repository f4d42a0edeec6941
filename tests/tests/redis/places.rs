//! Positions and HyperLogLogs: random commands to Larder and to Debian's redis-server get the same
//! answers, and HyperLogLogs have the same bytes.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::redis_stream::{Comparison, Stream, Words};
use larder_tests::{Redis, Value};

#[test]
fn answers_and_bytes_are_those_of_redis() {
    for (seed, version) in [(1, "2"), (2, "2"), (3, "3"), (4, "3")] {
        let stream = Stream::of_places(seed, 0, false);
        // Without names they list all commands, of which Redis has more.
        let skips = |words: &Words| words.len() < 3 && words[0].eq_ignore_ascii_case(b"COMMAND");
        let same = |_: &Words, left: &Value, right: &Value| left == right;
        Comparison { same, skips, commands: 3000 }.run(stream, version, seed);
    }
}

/// One that grows from sparse to dense, byte for byte.
#[test]
fn a_growing_hyperloglog_has_the_bytes_of_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut both = [larder.connect(), redis.connect()];
    for nth in 0..3000 {
        let line = format!("PFADD h element{} {}", nth * 7919, nth % 50);
        let [ours, theirs] = both.each_mut().map(|talk| talk.say(&line));
        assert_eq!(ours, theirs, "{line}");
        if nth % 100 == 0 {
            for line in ["GET h", "PFCOUNT h", "GET h"] {
                let [ours, theirs] =
                    both.each_mut().map(|talk| talk.ask(&line.split(' ').collect::<Vec<_>>()));
                assert!(ours == theirs, "{line} after {nth}");
            }
        }
    }
}

/// Others are served while a search looks at very many members.
#[test]
fn long_searches_let_others_through() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "256MiB"]);
    let mut client = larder.connect();
    for from in (0..20_000).step_by(1000) {
        let words: Vec<String> = (from..from + 1000)
            .flat_map(|nth: u32| {
                let (x, y) = (nth % 317, nth / 317);
                [
                    format!("{}", f64::from(x) / 100.0),
                    format!("{}", f64::from(y) / 100.0),
                    nth.to_string(),
                ]
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        client.ask(&[&["GEOADD", "g"][..], &words].concat());
    }
    for long in [
        "GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1000 km",
        "GEOSEARCHSTORE d g FROMLONLAT 1 1 BYBOX 900 900 km",
    ] {
        larder.serves_others_during(&[], long);
    }
}
