//! Simulations against the real thing, in small: the same requests through a real memcached, a real
//! Redis and a real Larder, and through two Larders with three memcacheds of which one dies.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{Fleet, counted, wait_counted};
use larder_tests::larder::run;
use larder_tests::memcache_stream::Dice;
use larder_tests::{Larder, Memcached, Origin, Redis, Scratch, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

const MEMORY: &str = "16MiB";
const REQUESTS: usize = 100_000;
const KEYS: usize = 40_000;
/// The first part warms the caches up, there and here.
const WARM: usize = REQUESTS / 4;

static BYTES: [u8; 16_384] = [b'x'; 16_384];

/// A size that a policy cannot do with is refused at once, with its name, and nothing is run.
#[test]
fn sizes_too_small_are_refused_before_anything_runs() {
    let scratch = Scratch::new("small");
    let html = scratch.path().join("x.html");
    let html = html.to_str().unwrap();
    // A trace of so many requests would take minutes to be made.
    let flags = ["lab", "simulate", "--requests", "500M", "--html", html];
    for (more, words) in [
        (&["--sizes", "4KiB,64MiB"][..], "4.00 KiB is too small for larder"),
        (
            &["--sizes", "64MiB", "--sample", "0.001"][..],
            "64.0 MiB with --sample 0.001 is too small",
        ),
    ] {
        let (status, out, said) = run(&[&flags[..], more].concat());
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains(words) && out.is_empty(), "{said}{out}");
        assert!(!std::path::Path::new(html).exists());
    }
}

/// Objects by Zipf's law with exponent 0.9.
fn popular(requests: usize, keys: usize) -> Vec<usize> {
    let mut total = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            total += (rank as f64).powf(-0.9);
            total
        })
        .collect();
    let mut dice = Dice::new(7);
    let pick = |_| {
        let at = (dice.number() >> 11) as f64 / (1u64 << 53) as f64 * total;
        // Neighbours in popularity are not neighbours in number.
        sums.partition_point(|sum| *sum < at).min(keys - 1) * 7919 % keys
    };
    (0..requests).map(pick).collect()
}

/// 100 bytes to 8 KiB, most of them small.
fn size(id: usize) -> usize {
    let mut dice = Dice::new(id as u64 + 1);
    let size = 100 << dice.below(6);
    size + dice.below(size)
}

fn key(id: usize) -> String {
    format!("k{id:015}")
}

/// What was asked, and when; what was found.
struct Played {
    trace: String,
    hits: usize,
}

/// Asks for every object and stores what is not there. `step` asks for one, after storing what was
/// not there before.
fn play(mut step: impl FnMut(usize, Option<usize>) -> bool) -> Played {
    let (mut trace, mut hits, mut missed, began) = (String::new(), 0, None, Instant::now());
    for (number, id) in popular(REQUESTS, KEYS).into_iter().enumerate() {
        let _ = writeln!(trace, "{:.3},{},{}", began.elapsed().as_secs_f64(), key(id), size(id));
        let found = step(id, missed);
        missed = (!found).then_some(id);
        hits += usize::from(found && number >= WARM);
    }
    Played { trace, hits }
}

/// Reads until the answer is whole, as `end` says of what is there.
fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>, end: impl Fn(&[u8]) -> bool) {
    buffer.clear();
    let mut piece = [0; 32 * 1024];
    while !end(buffer) {
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "the server closed after {:?}", String::from_utf8_lossy(buffer));
        buffer.extend_from_slice(&piece[..length]);
    }
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn play_memcached(addr: SocketAddr) -> Played {
    let (mut stream, mut buffer) = (connect(addr), Vec::new());
    play(|id, missed| {
        let mut asked = Vec::new();
        if let Some(missed) = missed {
            let _ = write!(asked, "set {} 0 0 {} noreply\r\n", key(missed), size(missed));
            asked.extend_from_slice(&BYTES[..size(missed)]);
            asked.extend_from_slice(b"\r\n");
        }
        let _ = write!(asked, "get {}\r\n", key(id));
        stream.write_all(&asked).unwrap();
        read(&mut stream, &mut buffer, |bytes| bytes.ends_with(b"END\r\n"));
        assert!(
            buffer.len() == 5 || buffer.starts_with(b"VALUE"),
            "{:?}",
            String::from_utf8_lossy(&buffer)
        );
        buffer.len() > 5
    })
}

fn play_redis(addr: SocketAddr) -> Played {
    let (mut stream, mut buffer) = (connect(addr), Vec::new());
    play(|id, missed| {
        let mut asked = Vec::new();
        if let Some(missed) = missed {
            let _ =
                write!(asked, "*3\r\n$3\r\nSET\r\n$16\r\n{}\r\n${}\r\n", key(missed), size(missed));
            asked.extend_from_slice(&BYTES[..size(missed)]);
            asked.extend_from_slice(b"\r\n");
        }
        let _ = write!(asked, "*2\r\n$3\r\nGET\r\n$16\r\n{}\r\n", key(id));
        stream.write_all(&asked).unwrap();
        let head = if missed.is_some() { 5 } else { 0 };
        let found = format!("${}\r\n", size(id));
        read(&mut stream, &mut buffer, |bytes| {
            let answer = bytes.get(head..).unwrap_or_default();
            answer == b"$-1\r\n" || answer.len() == found.len() + size(id) + 2
        });
        assert!(
            missed.is_none() || buffer.starts_with(b"+OK\r\n"),
            "{:?}",
            String::from_utf8_lossy(&buffer)
        );
        buffer[head..].starts_with(found.as_bytes())
    })
}

/// Runs a simulation; what it wrote as JSON.
#[track_caller]
fn simulate(scratch: &Scratch, args: &[&str]) -> Value {
    let out = scratch.file("out.json");
    let args = [&["lab", "simulate", "--json", out.to_str().unwrap()], args].concat();
    let (status, printed, error) = run(&args);
    assert!(status.success(), "{printed}{error}");
    serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap()
}

/// Of 100 reads, how many the simulation of `policy` and the real thing found.
#[track_caller]
fn both(policy: &str, played: &Played) -> (f64, f64) {
    let scratch = Scratch::new("simulate");
    let trace = scratch.write("trace.csv", &played.trace);
    let trace = trace.to_str().unwrap();
    let args = ["--trace", trace, "--trace-format", "csv:1,2,3", "--policies", policy];
    let shown = simulate(&scratch, &[&args[..], &["--sizes", MEMORY, "--warm", "0.25"]].concat());
    let simulated = shown["policies"][0]["cells"][0]["hit_ratio_objects"].as_f64().unwrap() * 100.0;
    let real = played.hits as f64 / (REQUESTS - WARM) as f64 * 100.0;
    println!("{policy}: real {real:.2}, simulated {simulated:.2}");
    (real, simulated)
}

#[track_caller]
fn assert_near(policy: &str, played: &Played, tolerance: f64) {
    let (real, simulated) = both(policy, played);
    assert!((20.0..95.0).contains(&real), "{policy}: {real} says nothing");
    assert!(
        (real - simulated).abs() < tolerance,
        "{policy}: real {real:.2}, simulated {simulated:.2}"
    );
}

#[test]
fn memcached_finds_what_its_model_does() {
    let server = Memcached::debian(&["-m", "16"]);
    assert_near("memcached", &play_memcached(server.addr()), 1.0);
}

#[test]
fn redis_finds_what_its_models_do() {
    for (policy, name) in [("allkeys-lru", "redis-lru"), ("allkeys-lfu", "redis-lfu")] {
        let server = Redis::debian(&["--maxmemory", "16mb", "--maxmemory-policy", policy]);
        assert_near(name, &play_redis(server.addr()), 1.0);
    }
}

/// The same store, so nearly the same figure: its hash has another key, and the clock stands
/// elsewhere.
#[test]
fn larder_finds_what_its_simulation_does() {
    let server = Memcached::larder(&["-m", "16"]);
    assert_near("larder", &play_memcached(server.addr()), 0.5);
}

const PAGES: usize = 3000;
const VIEWS: usize = 5000;
const PAGE: usize = 12_000;
/// What a page's record has beside its body and its name, about.
const HEAD: &str = "400";

/// Asks two Larders in turn; one memcached dies in the middle. The trace, and the second of the
/// death.
fn play_pages(fleet: &Fleet, larders: &[Larder]) -> (String, f64) {
    let mut wires: Vec<_> = larders.iter().map(Larder::connect).collect();
    let (mut trace, mut death, began) = (String::new(), 0.0, Instant::now());
    for (number, id) in popular(VIEWS, PAGES).into_iter().enumerate() {
        if number == VIEWS / 2 {
            larders.iter().for_each(|larder| {
                wait_counted(larder, "stores", 1);
            });
            fleet.signal(1, Signal::KILL);
            death = began.elapsed().as_secs_f64();
        }
        let _ = writeln!(trace, "{:.3},/{id},{PAGE}", began.elapsed().as_secs_f64());
        let answer = wires[number % 2].get(&format!("/{id}"), &[]);
        assert_eq!(answer.assert_status(200).body.len(), PAGE);
    }
    (trace, death)
}

/// What a Larder found in the fleet until now.
fn fleet_hits(larder: &Larder) -> u64 {
    let told = || {
        larder
            .stderr()
            .lines()
            .filter(|line| line.starts_with("larder: remote.pages.hits "))
            .count()
    };
    let before = told();
    larder.usr1();
    wait_until("news of the fleet", || told() > before);
    counted(larder, "hits")
}

#[test]
fn two_larders_and_three_memcacheds_ask_the_origin_as_often_as_simulated() {
    let fleet = Fleet::memcached();
    let origin = Origin::start(|_, reply| {
        reply.ok(&["Cache-Control: max-age=600"], &BYTES[..PAGE]);
    });
    let start = || {
        let text = format!(
            "memory = \"16MiB\"\nthreads = 1\n[remote]\nservers = [{}]\nbudget = \
             \"10s\"\nread_timeout = \"5s\"\nretry_min = \"10m\"\nretry_max = \
             \"10m\"\n[[site]]\norigin = \"{}\"\n",
            fleet.addresses(),
            origin.url()
        );
        Larder::with_config(&text)
    };
    let larders = [start(), start()];
    let (trace, death) = play_pages(&fleet, &larders);
    let scratch = Scratch::new("simulate");
    let trace = scratch.write("trace.csv", &trace);
    let scenario = format!(
        "[trace]\nfrom = {:?}\nformat = \"csv:1,2,3\"\nttl = \"600s\"\noverhead = \
         {HEAD:?}\n[topology]\nlarders = 2\nmemory = \"16MiB\"\nrender = \"0ms\"\ninterval = \
         \"1s\"\n[topology.fleet]\nservers = [{}]\nmemory = \"64MiB\"\nretry_min = \
         \"10m\"\nretry_max = \"10m\"\n[[event]]\nat = \"{}ms\"\ndown = 1\n",
        trace.to_str().unwrap(),
        fleet.addresses(),
        (death * 1000.0) as u64,
    );
    let scenario = scratch.write("scenario.toml", &scenario);
    let shown = simulate(&scratch, &["--scenario", scenario.to_str().unwrap()]);
    let total = &shown["topology"]["total"];
    let simulated = total["origin"].as_f64().unwrap();
    let real = origin.count() as f64;
    let remote: u64 = larders.iter().map(fleet_hits).sum();
    println!(
        "origin: real {real}, simulated {simulated}; fleet: real {remote}, simulated {}",
        total["remote"]
    );
    // Ports are others each time, and pages lie elsewhere there than here: what the dead server had
    // differs a little.
    let distinct =
        popular(VIEWS, PAGES).into_iter().collect::<std::collections::HashSet<_>>().len() as f64;
    assert!(
        real > distinct && simulated > distinct,
        "the death costs something: {real}, {simulated} of {distinct}"
    );
    assert!((real - simulated).abs() < real * 0.06, "origin: real {real}, simulated {simulated}");
    let hits = total["remote"].as_f64().unwrap();
    assert!((remote as f64 - hits).abs() < hits * 0.15, "fleet: real {remote}, simulated {hits}");
}

/// What the documents show works.
#[test]
fn the_documents_scenario_and_flags_work() {
    let scratch = Scratch::new("simulate");
    let docs =
        std::fs::read_to_string(larder_tests::helper::source_root().join("docs/lab.md")).unwrap();
    let example = docs.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let small = example.replace("\"2M\"", "\"50k\"");
    assert_ne!(example, small);
    let scenario = scratch.write("scenario.toml", &small);
    let page = scratch.file("out.html");
    let args = ["--scenario", scenario.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let shown = simulate(&scratch, &args);
    // A write in a thousand purges a page; the others are reads.
    let reads = shown["topology"]["total"]["requests"].as_f64().unwrap();
    assert!((49_800.0..50_000.0).contains(&reads), "{reads}");
    assert!(shown["policies"][0]["cells"][0]["hit_ratio_objects"].as_f64().unwrap() > 0.1);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("<svg") && page.contains("load of the origin"));
    let twice = simulate(&scratch, &args);
    assert_eq!(shown, twice, "the same from the same seed");
}

/// Refused with these words and the usage's exit code.
#[track_caller]
fn refused(args: &[&str], word: &str) {
    let (status, printed, error) = run(&[&["lab", "simulate"], args].concat());
    assert_eq!((status.code(), printed.as_str()), (Some(2), ""), "{args:?}: {error}");
    assert!(error.contains(word) && !error.contains("panicked"), "{args:?}: {error}");
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for (args, word) in [
        (&["--policies", "best"][..], "sieve"),
        (&["--sizes", "much"], "a size such as"),
        (&["--sizes", "0"], "1 byte to 1024TiB"),
        (&["--sizes", "1MiB..2MiB*100"], "2 to 64"),
        (&["--sample", "2"], "--sample 2 is out of its range"),
        (&["--sample", "NaN"], "--sample NaN is out of its range"),
        (&["--warm", "1"], "--warm 1 is out of its range"),
        (&["--rate", "1e-300"], "--rate"),
        (&["--rate", "0.001", "--requests", "5M"], "136 are simulated at the most"),
        (&["--keys", "4G"], "--keys takes 1 to 268435456"),
        (&["--requests", "0"], "a number such as 500k"),
        (&["--threads", "0"], "--threads takes 1 to 256"),
        (&["--ttl", "99999w"], "longer than a century"),
        (&["--value", "5GiB"], "less than 4GiB"),
        (&["--trace", "zipf:many"], "zipf:0.9"),
        (&["--trace", "no-such-file"], "cannot be read"),
        (&["--trace", "/"], "cannot be read"),
        (&["--requests", "1k", "--writes", "1"], "no reads"),
        (&["--requests", "1k", "--sample", "1e-9"], "is too small for larder"),
        (&["--policies", "lru", "--requests", "1k", "--sample", "1e-9"], "take a larger sample"),
        (&["--scenario", "no-such-file"], "cannot be read"),
        (&["--scenario", "/dev/zero"], "is larger than"),
        (&["--json", "/no-such-directory/out.json", "--requests", "1k"], "cannot be written"),
    ] {
        refused(args, word);
    }
}

/// A scenario that is right, of which one line is made wrong.
const RIGHT: &str = r#"
[trace]
requests = "20k"
keys = 1000
[topology]
larders = 1
memory = "16MiB"
interval = "1s"
[topology.fleet]
servers = ["10.0.0.1:11211"]
memory = "16MiB"
[[event]]
at = "1s"
down = 0
"#;

#[test]
fn scenarios_that_make_no_sense_are_refused() {
    let scratch = Scratch::new("simulate");
    let run_with = |text: &str| scratch.write("scenario.toml", text).to_str().unwrap().to_owned();
    simulate(&scratch, &["--scenario", &run_with(RIGHT)]);
    for (line, wrong, word) in [
        ("[trace]", "[trace", "TOML parse error"),
        ("keys = 1000", "keys = -1", "a number such as 500_000"),
        ("keys = 1000", "keys = 0", "keys = \"0\": a number such as"),
        ("keys = 1000", "colour = 1", "unknown field `colour`"),
        ("larders = 1", "larders = 0", "larders: 1 to 256"),
        ("larders = 1", "larders = 1000000", "larders: 1 to 256"),
        ("larders = 1", "larders = 1\nmemory_each = 1", "unknown field `memory_each`"),
        ("larders = 1", "larders = 1\npolicy = \"best\"", "no policy is called \"best\""),
        ("memory = \"16MiB\"", "memory = \"0\"", "memory = \"0\": 1 byte to 1024TiB"),
        ("memory = \"16MiB\"", "memory = \"1MiB\"", "a Larder's memory"),
        ("interval = \"1s\"", "interval = \"0s\"", "interval: more than 0"),
        ("interval = \"1s\"", "interval = \"1s\"\nrender = \"1000w\"", "intervals"),
        ("interval = \"1s\"", "interval = \"1s\"\nrender = \"99999w\"", "longer than a century"),
        ("interval = \"1s\"", "spread = \"evenly\"", "\"round-robin\", \"hash\" or \"random\""),
        ("servers = [\"10.0.0.1:11211\"]", "servers = []", "server"),
        ("servers = [\"10.0.0.1:11211\"]", "servers = [\"10.0.0.1:many\"]", "10.0.0.1:many"),
        ("[[event]]", "failure_limit = 0\n[[event]]", "failure_limit = 0: 1..=1000"),
        ("[[event]]", "distribution = \"fair\"\n[[event]]", "no distribution is called \"fair\""),
        ("at = \"1s\"", "at = \"1h\"", "comes after the trace's last request"),
        ("at = \"1s\"", "at = \"soon\"", "a duration such as"),
        ("down = 0", "down = 1", "an event is of server 1, and there are 1"),
        ("down = 0", "restart = 7", "an event is of Larder 7"),
        ("down = 0", "purge = 2.0", "a share of all pages"),
        ("down = 0", "", "has to say one of down, up, restart and purge"),
    ] {
        assert!(RIGHT.contains(line), "{line}");
        refused(&["--scenario", &run_with(&RIGHT.replacen(line, wrong, 1))], word);
    }
}
