//! Tests of whole loads: streams from a seed, division among threads, arguments.

use std::collections::HashMap;

use clap::Parser;
use proptest::prelude::*;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    load: LoadArgs,
}

fn args(text: &str) -> LoadArgs {
    Line::try_parse_from(["load"].into_iter().chain(text.split_whitespace())).unwrap().load
}

fn load(text: &str) -> Load {
    args(text).validate().unwrap()
}

/// The first requests of a thread, as text.
fn stream(load: &Load, thread: usize, threads: usize, seed: u64, count: usize) -> Vec<String> {
    let mut source = load.source(thread, threads, seed);
    let mut operation = Operation::default();
    let mut all = Vec::new();
    while all.len() < count && source.next(&mut operation) {
        all.push(format!("{operation:?}"));
    }
    all
}

const MIXED: &str = "--pattern k{:05} --keys 1000 --popularity zipf:0.9 --mix \
                     get=80,set=15,delete=5 --size 1k-2k --think exp:1ms --multi 3";

#[test]
fn the_same_seed_asks_the_same() {
    let load = load(MIXED);
    assert_eq!(stream(&load, 0, 2, 9, 500), stream(&load.clone(), 0, 2, 9, 500));
    assert_ne!(stream(&load, 0, 2, 9, 500), stream(&load, 1, 2, 9, 500), "threads ask alike");
    assert_ne!(stream(&load, 0, 2, 9, 500), stream(&load, 0, 2, 10, 500), "seeds ask alike");
}

#[test]
fn threads_agree_on_sizes_and_on_what_is_popular() {
    let load = load(MIXED);
    let mut counts: Vec<HashMap<Vec<u8>, u32>> = Vec::new();
    let mut sizes: HashMap<Vec<u8>, usize> = HashMap::new();
    for thread in 0..2 {
        let (mut source, mut operation, mut count) =
            (load.source(thread, 2, 4), Operation::default(), HashMap::new());
        for _ in 0..20_000 {
            assert!(source.next(&mut operation));
            *count.entry(operation.key.clone()).or_insert(0) += 1;
            assert_eq!(
                *sizes.entry(operation.key.clone()).or_insert(operation.size),
                operation.size
            );
        }
        counts.push(count);
    }
    let top =
        |count: &HashMap<Vec<u8>, u32>| count.iter().max_by_key(|(_, n)| **n).unwrap().0.clone();
    assert_eq!(top(&counts[0]), top(&counts[1]));
}

#[test]
fn several_keys_come_with_gets_alone_and_their_buffers_stay() {
    let load = load("--pattern k{} --keys 50 --mix get=1,set=1 --multi 4");
    let (mut source, mut operation) = (load.source(0, 1, 1), Operation::default());
    let mut addresses = std::collections::HashSet::new();
    for n in 0..1000 {
        assert!(source.next(&mut operation));
        assert_eq!(operation.more.len(), if operation.verb == Verb::Get { 3 } else { 0 });
        assert!(operation.more.iter().all(|key| key.starts_with(b"k")));
        if n >= 10 {
            addresses.extend(operation.more.iter().map(|key| key.as_ptr()));
        }
    }
    assert!(addresses.len() <= 3, "{} buffers for three keys", addresses.len());
}

#[test]
fn each_key_once_and_then_no_more() {
    let load = load("--pattern k{} --keys 5-24 --popularity once --mix set=1");
    let mut keys = Vec::new();
    for thread in 0..3 {
        let (mut source, mut operation) = (load.source(thread, 3, 1), Operation::default());
        while source.next(&mut operation) {
            assert_eq!(operation.verb, Verb::Set);
            keys.push(String::from_utf8(operation.key.clone()).unwrap());
        }
        assert!(!source.next(&mut operation), "begins again");
    }
    keys.sort_by_key(|key| key[1..].parse::<u32>().unwrap());
    assert_eq!(keys, (5..25).map(|n| format!("k{n}")).collect::<Vec<_>>());
}

#[test]
fn the_command_line_says_what_is_wrong() {
    for (text, part) in [
        ("--pattern k", "expected one {}"),
        ("--pattern k{} --keys x", "--keys"),
        ("--pattern k{} --keys 9-1", "--keys"),
        ("--key a --keys 5", "--keys numbers a --pattern"),
        ("--popularity often", "popularity"),
        ("--mix get", "mix"),
        ("--size big", "size"),
        ("--think long", "think"),
        ("--ttl 10ms", "--ttl"),
        ("--multi 0", "--multi"),
        ("--multi 1001", "--multi"),
        ("--keys-file not-there", "not-there"),
        ("--trace not-there", "not-there"),
        ("--trace x --trace-format y", "trace format"),
    ] {
        let error = args(text).validate().unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    for text in
        ["--key a --pattern k{}", "--loop", "--trace x --multi 2", "--keys-file a --trace b"]
    {
        let typed = ["load"].into_iter().chain(text.split_whitespace());
        assert!(Line::try_parse_from(typed).is_err(), "{text}");
    }
}

#[test]
fn http_asks_for_its_path_where_nothing_else_is_said() {
    let mut operation = Operation::default();
    assert!(args("").validate_http("/start").unwrap().source(0, 1, 1).next(&mut operation));
    assert_eq!(operation.key, b"/start");
    assert!(args("--key a").validate_http("/").unwrap_err().contains("begins with /"));
    assert!(args("--pattern a{}").validate_http("/").unwrap_err().contains("begins with /"));
    assert!(args("--keys 5").validate_http("/").unwrap_err().contains("--pattern"));
    assert!(args("--pattern /a{} --keys 5").validate_http("/").is_ok());
}

#[test]
fn key_files_are_read_and_their_damage_is_named() {
    let path = std::env::temp_dir().join(format!("larder-keys-{}", std::process::id()));
    let with = |text: &[u8]| {
        std::fs::write(&path, text).unwrap();
        let found = args(&format!("--keys-file {}", path.display())).validate();
        let http = args(&format!("--keys-file {}", path.display())).validate_http("/");
        (found, http)
    };
    let (found, http) = with(b"/a\n/b\r\n\n/c");
    assert!(found.unwrap().describe()[0].1.contains('3'));
    assert!(http.is_ok());
    let compressed = zstd::encode_all(&b"x\ny\n"[..], 1).unwrap();
    let (found, http) = with(&compressed);
    assert!(found.unwrap().describe()[0].1.contains('2'));
    assert!(http.unwrap_err().contains("line 1: a target begins with /"));
    assert!(with(b"a\nb c\n").0.unwrap_err().contains("line 2"));
    assert!(with(b"\n\n").0.unwrap_err().contains("no key"));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_was_typed_is_described() {
    let all = load(MIXED).describe();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["keys", "popularity", "operations", "value size", "think time", "keys per get", "seed"]
    );
    assert_eq!(all[0].1, "k{:05}, 0 to 999");
    assert_eq!(all[2].1, "get 80 %, set 15 %, delete 5 %");
}

proptest! {
    /// Any text is parsed or rejected without a panic.
    #[test]
    fn nothing_typed_panics(text in "[a-z0-9:,%=.{}-]{0,24}") {
        let _ = Popularity::parse(&text);
        let _ = Mix::parse(&text);
        let _ = Think::parse(&text);
        let _ = trace::Format::parse(&text);
        if let Ok(sizes) = Sizes::parse(&text) {
            prop_assert!(sizes.of(b"k") <= size::LONGEST);
        }
        if let Ok(keys) = Keys::pattern(&text, 0..10) {
            let mut out = Vec::new();
            keys.write(9, &mut out);
            prop_assert!(keys::is_key(&out));
        }
    }

    #[test]
    fn every_popularity_stays_within_the_keys(
        count in 1u64..5000, threads in 1usize..9, s in 0.0f64..4.0, seed: u64,
    ) {
        for popularity in [
            Popularity::Zipf { s },
            Popularity::Uniform,
            Popularity::Hot { keys: 0.013, requests: 0.7 },
            Popularity::Sequential,
        ] {
            let load = Load::of(Keys::pattern("{}", 0..count).unwrap()).popularity(popularity);
            let (mut source, mut operation) =
                (load.source(threads - 1, threads, seed), Operation::default());
            for _ in 0..200 {
                prop_assert!(source.next(&mut operation));
                let number: u64 = std::str::from_utf8(&operation.key).unwrap().parse().unwrap();
                prop_assert!(number < count);
            }
        }
    }
}
