//! `larder bench http`, `memcached` and `redis`: the real program against real servers, and against
//! scripted ones that misbehave. That its percentiles are true is `bench_truth`'s.

#![allow(clippy::unwrap_used)]

use larder_tests::{
    Larder, Memcached, Origin, Redis, Reply, Scratch, Seen, helper::free_port, larder::binary,
};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// Runs `larder bench` to its end.
fn bench(words: &[&str]) -> Output {
    Command::new(binary()).arg("bench").args(words).stdin(Stdio::null()).output().unwrap()
}

/// The same with its result as JSON, which must agree with itself, and the exit code.
#[track_caller]
fn measured(words: &[&str]) -> (Value, i32) {
    let output = bench(&[words, &["--json", "-"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let run: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    agrees(&run);
    (run, output.status.code().unwrap())
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {of}"))
}

/// Every request is right, wrong or failed; the seconds and the histogram hold the same answers.
#[track_caller]
fn agrees(run: &Value) {
    let errors = run["errors"].as_object().unwrap();
    let failed = errors
        .iter()
        .filter(|(kind, _)| !kind.starts_with("connect: ") && *kind != "unasked bytes");
    let failed: u64 = failed.map(|(_, count)| count.as_u64().unwrap()).sum();
    let (asked, answers) = (number(run, "requests"), number(run, "answers"));
    assert_eq!(asked, answers + number(run, "wrong") + failed, "{errors:?}");
    assert_eq!(number(&run["latency"], "count"), answers);
    let buckets = run["latency"]["buckets"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum::<u64>(), answers);
    let seconds = run["seconds"].as_array().unwrap();
    for (whole, part) in [("answers", "answers"), ("received_bytes", "received_bytes")] {
        assert_eq!(
            number(run, whole),
            seconds.iter().map(|second| number(second, part)).sum::<u64>()
        );
    }
}

fn error(run: &Value, kind: &str) -> u64 {
    run["errors"].get(kind).map_or(0, |count| count.as_u64().unwrap())
}

fn url(origin: &Origin) -> String {
    format!("{}/page", origin.url())
}

#[test]
fn memcached_text_and_meta_hit_what_was_filled() {
    let server = Memcached::debian(&[]);
    for protocol in ["text", "meta"] {
        let keys = format!("{protocol}-{{}}");
        let words = [
            "memcached",
            &server.server(),
            "--protocol",
            protocol,
            "--pattern",
            &keys,
            "--keys",
            "500",
        ];
        let words = [
            &words[..],
            &["--fill", "--size", "1-3000", "--requests", "4000", "-c", "7", "-t", "2"],
        ]
        .concat();
        let (run, code) = measured(
            &[&words[..], &["--depth", "3", "--limit", "errors=0", "--limit", "hits=100%"]]
                .concat(),
        );
        assert_eq!(
            (number(&run, "answers"), number(&run, "hits"), number(&run, "misses")),
            (4000, 4000, 0),
            "{protocol}"
        );
        assert_eq!((number(&run, "wrong"), code), (0, 0), "{protocol}");
        // What is not there is a miss; several keys of one get count each.
        let (run, code) = measured(&[
            "memcached",
            &server.server(),
            "--protocol",
            protocol,
            "--pattern",
            "none-{}",
            "--multi",
            "5",
            "--requests",
            "100",
        ]);
        assert_eq!(
            (number(&run, "answers"), number(&run, "hits"), number(&run, "misses"), code),
            (100, 0, 500, 0)
        );
    }
}

#[test]
fn memcached_writes_reads_and_deletes_over_a_unix_socket() {
    let server = Memcached::debian(&["-s", "@DIR@/socket"]);
    let address = format!("unix:{}", server.dir().join("socket").display());
    for protocol in ["text", "meta"] {
        let (run, code) = measured(&[
            "memcached",
            &address,
            "--protocol",
            protocol,
            "--mix",
            "get=6,set=3,delete=1",
            "--keys",
            "50",
            "--size",
            "10-5000",
            "--requests",
            "5000",
            "-c",
            "3",
            "-d",
            "4",
            "--ttl",
            "1h",
        ]);
        assert_eq!(
            (number(&run, "answers"), number(&run, "wrong"), code),
            (5000, 0, 0),
            "{protocol}: {}",
            run["errors"]
        );
        assert!(number(&run, "hits") > 1000 && number(&run, "misses") > 100, "{run}");
    }
}

#[test]
fn redis_writes_reads_deletes_and_reads_many() {
    for server in [Redis::debian(&[]), Redis::larder(&[])] {
        let address = server.addr().to_string();
        let (run, code) = measured(&[
            "redis",
            &address,
            "--mix",
            "get=6,set=3,delete=1",
            "--keys",
            "50",
            "--size",
            "1-70000",
            "--requests",
            "3000",
            "-c",
            "3",
            "-d",
            "4",
            "--ttl",
            "1h",
        ]);
        assert_eq!(
            (number(&run, "answers"), number(&run, "wrong"), code),
            (3000, 0, 0),
            "{}",
            run["errors"]
        );
        assert!(number(&run, "hits") > 500 && number(&run, "misses") > 50, "{run}");
        let (run, code) = measured(&[
            "redis",
            &address,
            "--fill",
            "--pattern",
            "m-{}",
            "--keys",
            "100",
            "--multi",
            "10",
            "--requests",
            "200",
        ]);
        assert_eq!(
            (number(&run, "answers"), number(&run, "hits"), number(&run, "misses"), code),
            (200, 2000, 0, 0)
        );
    }
}

#[test]
fn bytes_that_this_program_did_not_write_are_wrong() {
    let (memcached, redis) = (Memcached::debian(&[]), Redis::debian(&[]));
    for (protocol, address) in
        [("memcached", memcached.server()), ("redis", redis.addr().to_string())]
    {
        assert_eq!(
            measured(&[protocol, &address, "--fill", "--keys", "10", "--requests", "50"]).1,
            0
        );
        // The same key by another hand, and one emptied.
        if protocol == "memcached" {
            memcached.connect().expect("set key-00000003 0 0 3\r\nabc\r\n", "STORED\r\n");
            memcached.connect().expect("set key-00000005 0 0 0\r\n\r\n", "STORED\r\n");
        } else {
            redis.connect().say("SET key-00000003 abc");
            // The last of its words is empty.
            redis.connect().say("SET key-00000005 ");
        }
        let words =
            [protocol, &address, "--keys", "10", "--popularity", "sequential", "--requests", "50"];
        let (run, code) = measured(&[&words[..], &["--check", "bytes"]].concat());
        assert_eq!(
            (number(&run, "answers"), number(&run, "wrong"), code),
            (40, 10, 1),
            "{protocol}"
        );
        // Of all others it is known now that they are too short.
        let (run, code) = measured(&[&words[..], &["--check", "bytes", "--size", "101"]].concat());
        assert_eq!(
            (number(&run, "answers"), number(&run, "wrong"), code),
            (0, 50, 1),
            "{protocol}"
        );
        let (run, code) = measured(&words);
        assert_eq!(
            (number(&run, "answers"), number(&run, "wrong"), code),
            (50, 0, 0),
            "{protocol}"
        );
    }
}

#[test]
fn an_objects_server_that_refuses_is_quoted() {
    let server = Memcached::debian(&[]);
    let (run, code) = measured(&[
        "memcached",
        &server.server(),
        "--mix",
        "set=1",
        "--size",
        "2000000",
        "--requests",
        "5",
        "--keys",
        "5",
    ]);
    assert_eq!(
        (error(&run, "answered: object too large for cache"), code),
        (5, 1),
        "{}",
        run["errors"]
    );
    let redis = Redis::debian(&["--requirepass", "secret"]);
    let (run, _) = measured(&["redis", &redis.addr().to_string(), "--requests", "5"]);
    assert_eq!(error(&run, "answered: NOAUTH Authentication required."), 5, "{}", run["errors"]);
}

#[test]
fn larder_says_what_it_has_and_bench_counts_it() {
    let origin = Origin::start(|seen: &Seen, reply: &mut Reply| {
        reply.ok(&["Cache-Control: max-age=600"], format!("this is {}", seen.target));
    });
    let larder = Larder::before(&origin.url());
    let target = format!("http://{}/", larder.addr());
    let words = [
        "http",
        &target,
        "--pattern",
        "/page-{}",
        "--keys",
        "20",
        "--popularity",
        "sequential",
        "--check",
        "bytes",
    ];
    let (run, code) = measured(
        &[&words[..], &["--requests", "500", "-c", "1", "--server-pid", &larder.pid().to_string()]]
            .concat(),
    );
    assert_eq!(
        (number(&run, "answers"), number(&run, "hits"), number(&run, "misses"), code),
        (500, 480, 20, 0)
    );
    assert_eq!(origin.count(), 20);
    assert!(run["servers"][0]["cpu_seconds"].as_f64().unwrap() > 0.0, "{}", run["servers"]);
    // Once more over several connections and batches: everything is there.
    let (run, _) =
        measured(&[&words[..], &["--requests", "2000", "-c", "5", "-t", "2", "-d", "8"]].concat());
    assert_eq!((number(&run, "hits"), number(&run, "misses"), number(&run, "wrong")), (2000, 0, 0));
}

#[test]
fn every_framing_of_http_is_read() {
    let origin = Origin::start(|seen: &Seen, reply: &mut Reply| match seen.number % 5 {
        0 => {
            reply.ok(&[], "hello");
        }
        1 => {
            reply.chunked(200, &[]).chunk("he").chunk("llo").end();
        }
        2 => {
            reply.head(200, &["Connection: close"]).raw("hello").close();
        }
        3 => {
            reply
                .raw("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n")
                .ok(&["Connection: close"], "hello")
                .close();
        }
        _ => {
            reply.raw("HTTP/1.0 200 OK\r\n\r\nhello").close();
        }
    });
    let (run, code) =
        measured(&["http", &url(&origin), "-c", "2", "--requests", "100", "--check", "bytes"]);
    assert_eq!(
        (number(&run, "answers"), number(&run, "wrong"), code),
        (100, 0, 0),
        "{}",
        run["errors"]
    );
    assert!(origin.faults().is_empty(), "{:?}", origin.faults());
}

#[test]
fn methods_hosts_and_fields_arrive_as_given() {
    let origin = Origin::start(|seen: &Seen, reply: &mut Reply| match seen.method.as_str() {
        "HEAD" => {
            reply.head(200, &["Content-Length: 5"]);
        }
        "DELETE" => {
            reply.answer(404, &[], "gone");
        }
        "PUT" => {
            reply.answer(201, &[], "");
        }
        _ => {
            reply.ok(&[], "hello");
        }
    });
    let words = [
        "http",
        &url(&origin),
        "--mix",
        "get=1,set=1,delete=1,head=1",
        "--size",
        "777",
        "--requests",
        "200",
        "-c",
        "3",
    ];
    let (run, code) =
        measured(&[&words[..], &["-H", "Accept-Language: de", "--host", "wiki.example"]].concat());
    assert_eq!((number(&run, "answers"), code), (200, 0), "{}", run["errors"]);
    let seen = origin.requests();
    assert!(seen.iter().all(|seen| seen.get("host") == Some("wiki.example")));
    assert!(seen.iter().all(|seen| seen.get("accept-language") == Some("de")));
    for method in ["GET", "PUT", "DELETE", "HEAD"] {
        assert!(seen.iter().filter(|seen| seen.method == method).count() > 20, "{method}");
    }
    assert!(seen.iter().filter(|seen| seen.method == "PUT").all(|seen| seen.body.len() == 777));
    // Several sites at one address.
    let address = origin.addr().to_string();
    let (run, _) = measured(&[
        "http",
        "http://a.example/x",
        "http://b.example/y",
        "--connect",
        &address,
        "--popularity",
        "sequential",
        "--requests",
        "10",
        "-c",
        "1",
    ]);
    assert_eq!(number(&run, "answers"), 10);
    let last: Vec<_> = origin
        .requests()
        .split_off(200)
        .iter()
        .map(|seen| seen.get("host").unwrap().to_owned())
        .collect();
    assert_eq!(last.iter().filter(|host| *host == "a.example").count(), 5, "{last:?}");
    assert_eq!(last.iter().filter(|host| *host == "b.example").count(), 5, "{last:?}");
}

#[test]
fn every_failure_is_counted_as_what_it_was() {
    let origin = Origin::start(|seen: &Seen, reply: &mut Reply| match seen.number % 10 {
        3 => {
            reply.answer(503, &[], "busy");
        }
        4 => {
            reply.head(200, &["Content-Length: 100"]).raw("only this").close();
        }
        5 => {
            reply.close();
        }
        6 => {
            reply.ok(&[], "HELLO");
        }
        7 => {
            reply.raw("220 mail.example ESMTP\r\n\r\n").close();
        }
        _ => {
            reply.ok(&[], "hello");
        }
    });
    let words = ["http", &url(&origin), "-c", "1", "--requests", "200", "--check", "bytes"];
    let (run, code) = measured(&[&words[..], &["--limit", "errors=0"]].concat());
    assert_eq!(
        (number(&run, "requests"), number(&run, "answers"), number(&run, "wrong")),
        (200, 100, 20)
    );
    assert_eq!((error(&run, "status 503"), error(&run, "closed")), (20, 40), "{}", run["errors"]);
    assert_eq!(error(&run, "malformed: not an HTTP/1 response"), 20, "{}", run["errors"]);
    assert_eq!(code, 1);
}

#[test]
fn an_answer_that_stalls_is_a_timeout_and_its_connection_is_made_anew() {
    let origin = Origin::start(|seen: &Seen, reply: &mut Reply| {
        if seen.number % 4 == 3 {
            // The head, and then nothing more: this side waits until the other has enough.
            reply.head(200, &["Content-Length: 5"]);
            let _ = std::io::Read::read(&mut reply.take_stream(), &mut [0]);
        } else {
            reply.ok(&[], "hello");
        }
    });
    let (run, _) =
        measured(&["http", &url(&origin), "-c", "1", "--requests", "20", "--timeout", "1s"]);
    assert_eq!((number(&run, "answers"), error(&run, "timeout")), (15, 5), "{}", run["errors"]);
    assert!((5..=6).contains(&origin.connections()), "{}", origin.connections());
}

#[test]
fn an_open_loop_intends_exactly_its_rate() {
    let origin = Origin::serving(&[], "hello");
    for (threads, rate, count) in [("1", "1000", 1000), ("3", "250", 250)] {
        let (run, code) = measured(&[
            "http",
            &url(&origin),
            "-c",
            "5",
            "-t",
            threads,
            "--rate",
            rate,
            "--duration",
            "1s",
            "--warm-up",
            "1s",
        ]);
        assert_eq!(
            (number(&run, "requests"), number(&run, "answers"), code),
            (count, count, 0),
            "{}",
            run["errors"]
        );
        assert_eq!(number(&run["service"], "count"), count);
    }
}

#[test]
fn an_open_loop_that_finds_no_connection_counts_what_it_could_not_send() {
    let origin = Origin::start(|seen: &Seen, reply: &mut Reply| {
        if seen.number == 10 {
            let _ = std::io::Read::read(&mut reply.take_stream(), &mut [0]);
        } else {
            reply.ok(&[], "hello");
        }
    });
    let (run, _) = measured(&[
        "http",
        &url(&origin),
        "-c",
        "1",
        "--rate",
        "100",
        "--requests",
        "200",
        "--timeout",
        "300ms",
    ]);
    assert_eq!((number(&run, "requests"), error(&run, "timeout")), (200, 1), "{}", run["errors"]);
    // Those that were due during the stall waited, and were answered late: none is missing.
    assert_eq!(number(&run, "answers") + error(&run, "not sent in time"), 199, "{}", run["errors"]);
    let late = run["latency"]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|bucket| bucket[0].as_u64() > Some(50_000_000));
    assert!(
        late.map(|bucket| bucket[1].as_u64().unwrap()).sum::<u64>() >= 15,
        "{}",
        run["latency"]
    );
}

#[test]
fn virtual_users_and_new_connections() {
    let origin = Origin::serving(&[], "hello");
    let (run, _) =
        measured(&["http", &url(&origin), "-c", "6", "--per-connection", "7", "--ramp-up", "50ms"]);
    assert_eq!((number(&run, "answers"), origin.connections()), (42, 6));
    let (run, _) = measured(&["http", &url(&origin), "-c", "3", "--requests", "30", "--reconnect"]);
    assert_eq!((number(&run, "answers"), origin.connections()), (30, 36));
    assert!(origin.requests()[42..].iter().all(|seen| seen.get("connection") == Some("close")));
}

#[test]
fn limits_decide_the_exit_code_and_say_what_was_found() {
    let origin = Origin::serving(&[], "hello");
    let run = |limits: &[&str]| {
        let limits: Vec<&str> = limits.iter().flat_map(|limit| ["--limit", limit]).collect();
        bench(&[&["http", &url(&origin), "--requests", "50", "--quiet"], &limits[..]].concat())
    };
    let kept = run(&["errors=0", "p99<10s", "answers=50", "rate>0"]);
    assert_eq!(
        (kept.status.code(), kept.stdout.len(), kept.stderr.len()),
        (Some(0), 0, 0),
        "{kept:?}"
    );
    let missed = run(&["errors=0", "answers>50", "p50<1ns"]);
    let said = String::from_utf8_lossy(&missed.stderr);
    assert_eq!(missed.status.code(), Some(1));
    assert!(
        said.contains("limit answers>50 missed: 50") && said.contains("limit p50<1ns missed: "),
        "{said}"
    );
    assert!(!said.contains("errors=0"), "{said}");
}

#[test]
fn what_is_typed_wrong_is_refused_in_clear_words() {
    let at = format!("127.0.0.1:{}", free_port());
    for (words, code, expected) in [
        (vec!["http"], 2, "<URL>"),
        (vec!["http", "http://127.0.0.1:1/", "--http3"], 2, "https"),
        (vec!["http", "http:///"], 2, "expected an URL"),
        (vec!["http", "http://127.0.0.1:1/", "http://127.0.0.1:2/"], 2, "--connect"),
        (vec!["http", "http://127.0.0.1:1/", "--limit", "p99<5"], 2, "expected a figure"),
        (vec!["http", "http://127.0.0.1:1/", "--limit", "cpu<5us"], 2, "--server-pid"),
        (vec!["http", "http://127.0.0.1:1/", "-H", "no field"], 2, "--header"),
        (vec!["http", "http://127.0.0.1:1/", "-H", "Host: x"], 2, "--host"),
        (vec!["http", "http://127.0.0.1:1/", "--rate", "0"], 2, "above 0"),
        (vec!["http", "http://127.0.0.1:1/", "--duration", "5"], 2, "duration"),
        (vec!["http", "http://127.0.0.1:1/", "-c", "0"], 2, "one connection"),
        (vec!["http", "http://127.0.0.1:1/", "-c", "2", "-t", "3"], 2, "a connection for each"),
        (vec!["http", "http://127.0.0.1:1/", "--reconnect", "-d", "2"], 2, "exclude each other"),
        (vec!["http", "http://127.0.0.1:1/", "--server-pid", "4194304"], 2, "4194304"),
        (vec!["memcached", "127.0.0.1:99999"], 2, "HOST:PORT"),
        (vec!["memcached", &at, "--mix", "get=x"], 2, "mix"),
        (vec!["redis", &at, "--speed", "2"], 2, "--trace"),
        (vec!["redis", &at], 4, "cannot connect"),
        (vec!["memcached", "unix:/nowhere/socket"], 4, "cannot connect"),
    ] {
        let output = bench(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn where_no_answer_is_right_it_fails() {
    let origin = Origin::start(|_: &Seen, reply: &mut Reply| {
        reply.answer(404, &[], "not here");
    });
    let output = bench(&["http", &url(&origin), "--requests", "20"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("There was no right answer."), "{shown}");
}

#[test]
fn an_interrupted_run_shows_what_it_measured() {
    let origin = Origin::serving(&[], "hello");
    let run = Command::new(binary())
        .args(["bench", "http", &url(&origin), "--duration", "1h", "--json", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    origin.wait_for(100);
    let pid = rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    agrees(&run);
    assert_eq!(output.status.code(), Some(0));
    assert!(number(&run, "answers") >= 100);
    assert_eq!(number(&run, "errors_total"), 0);
}

#[test]
fn reports_are_files_and_text() {
    let origin = Origin::serving(&["X-Cache: HIT"], "hello");
    let scratch = Scratch::new("bench");
    let (json, html) = (scratch.file("run.json"), scratch.file("run.html"));
    let output = bench(&[
        "http",
        &url(&origin),
        "--requests",
        "100",
        "--name",
        "the page",
        "--json",
        json.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("the page\n") && text.contains("100 answers") && text.contains("100.00 %"),
        "{text}"
    );
    let run: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    agrees(&run);
    assert_eq!((number(&run, "hits"), run["name"].as_str()), (100, Some("the page")));
    let html = std::fs::read_to_string(html).unwrap();
    assert!(
        html.contains("<svg") && html.contains("the page") && !html.contains("http-equiv"),
        "no page of its own"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_is_asked() {
    let origin = Origin::serving(&[], "hello");
    for option in ["--json", "--html"] {
        let unwritable =
            bench(&["http", &url(&origin), "--requests", "1", option, "/nowhere/run", "--quiet"]);
        let said = String::from_utf8_lossy(&unwritable.stderr);
        assert_eq!(unwritable.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{option} /nowhere/run: ")), "{said}");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_report_that_fails_later_takes_nothing_from_the_verdict() {
    let origin = Origin::serving(&[], "hello");
    // A device without room takes no report, and can be opened.
    for (limit, code) in [("answers=0", 1), ("answers=5", 2)] {
        let args =
            ["http", &url(&origin), "--requests", "5", "--json", "/dev/full", "--limit", limit];
        let failed = bench(&args);
        let said = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(code), "{said}");
        assert!(said.contains("--json /dev/full: "), "{said}");
        assert_eq!(said.contains("limit answers=0 missed: 5"), code == 1, "{said}");
    }
}
