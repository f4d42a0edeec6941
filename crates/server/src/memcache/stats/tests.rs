//! Commands over a real, small store.

use std::{rc::Rc, sync::Arc, time::Duration};

use larder_proto::memcache::text::{Admin, Verb};
use larder_store::{Options, Put, Store};

use super::{
    admin::{self, Continuation},
    lines::Form,
};
use crate::{
    clock::Ms,
    memcache::{
        Face, OBJECTS, Shared,
        watch::{self, GetResult},
    },
    net::out::Out,
    object::{Client, HIGH_WATER, Peer},
    settings::{Listen, MemcachedSettings, WireProtocol},
};

const NOW: Ms = 1_795_200_944_007;

fn settings() -> MemcachedSettings {
    MemcachedSettings::plain(vec![Listen::Tcp(([127, 0, 0, 1], 11211).into())])
}

/// A face with one worker and one client.
struct Fixture {
    store: &'static Store,
    face: Rc<Face>,
    client: Arc<Client>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: MemcachedSettings) -> Self {
        let options = Options { budget: 8 << 20, max_value: 1 << 20, ..Options::default() };
        let store: &'static Store = Box::leak(Box::new(Store::open(options).unwrap()));
        let shared = Shared::new(settings, store, (&Arc::default(), None), NOW, 1);
        let peer = Peer::Tcp(([127, 0, 0, 1], 4711).into());
        let client = shared.clients.enter(peer, "127.0.0.1:11211", NOW);
        Self { store, face: Face::new(&shared, 0), client }
    }

    fn put(&self, key: &str, value: &[u8], expires: Option<Ms>) {
        let put = Put { value: &[value], expires, ..Put::default() };
        self.store.set(OBJECTS, key.as_bytes(), put, NOW).unwrap();
    }

    /// The complete answer to a text command.
    fn ask(&self, line: &str) -> String {
        String::from_utf8(self.raw(line, NOW)).unwrap()
    }

    fn raw(&self, line: &str, now: Ms) -> Vec<u8> {
        let (verb, args) = line.split_once(' ').unwrap_or((line, ""));
        let verb = match verb {
            "stats" => Verb::Stats,
            "verbosity" => Verb::Verbosity,
            "lru_crawler" => Verb::LruCrawler,
            "watch" => Verb::Watch,
            "slabs" => Verb::Slabs,
            "cache_memlimit" => Verb::CacheMemlimit,
            "lru" => Verb::Lru,
            "extstore" => Verb::Extstore,
            other => panic!("no verb: {other}"),
        };
        let command = Admin { verb, args: args.as_bytes(), noreply: args.ends_with("noreply") };
        let (mut out, mut sent) = (Out::default(), Vec::new());
        let then = admin::admin(&self.face, &self.client, &command, now, &mut out);
        if let Continuation::Walk(mut walk) = then {
            while !walk.step(&self.face, now, &mut out) {
                assert!(out.pending() < HIGH_WATER + 64 * 1024, "a step has a limit");
                drain(&mut out, &mut sent);
            }
        }
        drain(&mut out, &mut sent);
        sent
    }

    /// The values of an answer's `STAT` lines by name.
    fn values(&self, line: &str) -> std::collections::HashMap<String, String> {
        let answer = self.ask(line);
        let stats = answer.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
        stats.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn mail(&self) -> String {
        let mut bytes = Vec::new();
        self.client.take_mail(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }
}

fn drain(out: &mut Out, into: &mut Vec<u8>) {
    out.send(into).expect("memory takes it");
}

fn names(answer: &str) -> Vec<&str> {
    answer.lines().filter_map(|line| line.strip_prefix("STAT ")?.split(' ').next()).collect()
}

/// Names in memcached 1.6.18's answer to `stats`, in order.
const GENERAL: &str = "pid uptime time version libevent pointer_size rusage_user rusage_system max_connections \
     curr_connections total_connections rejected_connections connection_structures \
     response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes \
     read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta \
     get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses incr_hits \
     decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large \
     store_no_memory auth_cmds auth_errors bytes_read bytes_written limit_maxbytes \
     accepting_conns listen_disabled_num time_in_listen_disabled_us threads conn_yields \
     hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues \
     slab_reassign_chunk_rescues slab_reassign_evictions_nomem slab_reassign_inline_reclaim \
     slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_running slabs_moved \
     lru_crawler_running lru_crawler_starts lru_maintainer_juggles malloc_fails \
     log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent log_watchers \
     unexpected_napi_ids round_robin_fallback bytes curr_items total_items slab_global_page_pool \
     expired_unfetched evicted_unfetched evicted_active evictions reclaimed crawler_reclaimed \
     crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru \
     direct_reclaims lru_bumps_dropped";

#[test]
fn general_statistics_have_memcacheds_names_in_its_order() {
    let fixture = Fixture::new();
    let answer = fixture.ask("stats");
    assert!(answer.ends_with("\r\nEND\r\n"));
    assert_eq!(names(&answer).join(" "), GENERAL.split_whitespace().collect::<Vec<_>>().join(" "));
    let idle =
        Fixture::with(MemcachedSettings { idle_timeout: Duration::from_secs(9), ..settings() });
    assert!(idle.ask("stats").contains("auth_errors 0\r\nSTAT idle_kicks 0\r\nSTAT bytes_read"));
}

#[test]
fn general_statistics_are_true() {
    let fixture = Fixture::new();
    fixture.put("one", b"12345", None);
    fixture.put("two", b"", None);
    fixture.face.counters.cmd_get.add(3);
    fixture.face.counters.get_hits.add(2);
    let values = fixture.values("stats");
    let expected = [
        ("pid", std::process::id().to_string()),
        ("time", (NOW / 1000).to_string()),
        ("uptime", "0".to_owned()),
        ("curr_connections", "1".to_owned()),
        ("cmd_get", "3".to_owned()),
        ("get_hits", "2".to_owned()),
        ("curr_items", "2".to_owned()),
        ("total_items", "2".to_owned()),
        ("bytes", "11".to_owned()),
        ("limit_maxbytes", (8 << 20).to_string()),
        ("threads", "1".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(values[name], value, "{name}");
    }
    let user: f64 = values["rusage_user"].parse().unwrap();
    assert!((0.0..1e9).contains(&user));
    assert_eq!(values["rusage_user"].split_once('.').unwrap().1.len(), 6);
}

#[test]
fn connections_beyond_the_limit_are_not_accepted_where_they_wait() {
    for (fast, connections, accepting) in [(true, 1, "1"), (false, 1, "0"), (false, 2, "1")] {
        let fixture =
            Fixture::with(MemcachedSettings { connections, connections_fast: fast, ..settings() });
        assert_eq!(fixture.values("stats")["accepting_conns"], accepting, "{fast} {connections}");
    }
}

#[test]
fn expired_items_differ_from_missing_ones() {
    let fixture = Fixture::new();
    fixture.put("gone", b"1", Some(NOW + 1));
    assert_eq!(fixture.face.missing(b"gone", NOW + 1), GetResult::Expired);
    fixture.put("lost", b"1", None);
    fixture.store.flush(OBJECTS, NOW);
    assert_eq!(fixture.face.missing(b"lost", NOW), GetResult::Flushed);
    assert_eq!(fixture.face.missing(b"never", NOW), GetResult::Miss);
    let values = fixture.values("stats");
    assert_eq!((values["get_expired"].as_str(), values["get_flushed"].as_str()), ("1", "1"));
}

#[test]
fn settings_are_those_of_the_face() {
    let unix = Listen::Unix { path: "/run/m.sock".into(), mode: 0o770 };
    let fixture = Fixture::with(MemcachedSettings {
        listen: vec![
            unix,
            Listen::Tcp(([127, 0, 0, 1], 4000).into()),
            Listen::Tcp(([127, 0, 0, 2], 4000).into()),
        ],
        sizes: true,
        idle_timeout: Duration::from_secs(30),
        no_evictions: true,
        cas: false,
        protocol: WireProtocol::Ascii,
        ..settings()
    });
    let answer = fixture.ask("stats settings");
    let start = "STAT maxbytes 8388608\r\nSTAT maxconns 1024\r\nSTAT tcpport 4000\r\nSTAT udpport \
                 0\r\nSTAT inter 127.0.0.1,127.0.0.2\r\nSTAT verbosity 0\r\nSTAT oldest 0\r\nSTAT \
                 evictions off\r\nSTAT domain_socket /run/m.sock\r\nSTAT umask 770\r\nSTAT \
                 shutdown_command no\r\n";
    assert!(answer.starts_with(start), "{answer}");
    for line in [
        "track_sizes yes",
        "cas_enabled no",
        "idle_timeout 30",
        "binding_protocol ascii",
        "stat_key_prefix :",
    ] {
        assert!(answer.contains(&format!("STAT {line}\r\n")), "{line}");
    }
}

#[test]
fn items_and_slabs_are_one_class() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ask("stats items"), "END\r\n");
    assert_eq!(
        fixture.ask("stats slabs"),
        "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n"
    );
    (0..100).for_each(|n| fixture.put(&format!("key{n:02}"), &[b'x'; 95], None));
    let items = fixture.values("stats items");
    assert_eq!(
        (items["items:1:number"].as_str(), items["items:1:mem_requested"].as_str()),
        ("100", "10000")
    );
    let slabs = fixture.values("stats slabs");
    let number = |name: &str| slabs[name].parse::<u64>().unwrap();
    assert_eq!(
        (number("1:chunk_size"), number("1:used_chunks"), number("active_slabs")),
        (100, 100, 1)
    );
    assert_eq!(number("1:total_chunks"), number("1:total_pages") * number("1:chunks_per_page"));
    assert_eq!(number("1:free_chunks"), number("1:total_chunks") - 100);
    assert_eq!(number("total_malloced"), number("1:total_pages") * fixture.store.totals().segment);
}

#[test]
fn connections_are_listed_with_the_listeners() {
    let fixture = Fixture::new();
    let other = fixture.face.shared.clients.enter(Peer::Unix, "/run/m.sock", NOW - 5000);
    let expected = "STAT 1:addr tcp:127.0.0.1:11211\r\nSTAT 1:state conn_listening\r\nSTAT \
                    1:secs_since_last_cmd 0\r\nSTAT 2:addr tcp:127.0.0.1:4711\r\nSTAT \
                    2:listen_addr tcp:127.0.0.1:11211\r\nSTAT 2:state conn_parse_cmd\r\nSTAT \
                    2:secs_since_last_cmd 0\r\nSTAT 3:addr unix:/run/m.sock\r\nSTAT 3:listen_addr \
                    unix:/run/m.sock\r\nSTAT 3:state conn_read\r\nSTAT 3:secs_since_last_cmd \
                    5\r\nEND\r\n";
    assert_eq!(fixture.ask("stats conns"), expected);
    fixture.face.shared.clients.leave(&other);
}

#[test]
fn answers_are_memcacheds() {
    let fixture = Fixture::new();
    for (line, answer) in ANSWERS {
        assert_eq!(fixture.ask(line), *answer, "{line}");
    }
}

/// Answers of memcached 1.6.18, except for `cache_memlimit`, which it would execute.
const ANSWERS: &[(&str, &str)] = &[
    ("stats foo", "ERROR\r\n"),
    ("stats noreply", "ERROR\r\n"),
    ("stats extstore", "END\r\n"),
    ("stats detail", "CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
    ("stats detail foo", "CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
    ("stats detail on", "OK\r\n"),
    ("stats detail dump", "END\r\n"),
    ("stats detail off", "OK\r\n"),
    ("stats sizes", "STAT sizes_status disabled\r\nEND\r\n"),
    ("stats sizes_enable", "STAT sizes_status enabled\r\n"),
    ("stats sizes", "END\r\n"),
    ("stats sizes_disable", "STAT sizes_status disabled\r\n"),
    ("stats reset", "RESET\r\n"),
    ("stats cachedump", "CLIENT_ERROR bad command line\r\n"),
    ("stats cachedump 1", "CLIENT_ERROR bad command line\r\n"),
    ("stats cachedump a b", "CLIENT_ERROR bad command line format\r\n"),
    ("stats cachedump 1 -1", "CLIENT_ERROR bad command line format\r\n"),
    ("stats cachedump 64 0", "CLIENT_ERROR Illegal slab id\r\n"),
    ("stats cachedump 63 0", "END\r\n"),
    ("stats cachedump 1 0", "END\r\n"),
    ("lru_crawler", "ERROR\r\n"),
    ("lru_crawler foo", "ERROR\r\n"),
    ("lru_crawler metadump", "ERROR\r\n"),
    ("lru_crawler metadump all foo", "ERROR\r\n"),
    ("lru_crawler metadump all noreply", "ERROR\r\n"),
    ("lru_crawler metadump foo", "BADCLASS invalid class id\r\n"),
    ("lru_crawler metadump 99", "BADCLASS invalid class id\r\n"),
    ("lru_crawler metadump 1,99", "BADCLASS invalid class id\r\n"),
    ("lru_crawler metadump 1;2", "BADCLASS invalid class id\r\n"),
    ("lru_crawler enable", "ERROR failed to start lru crawler thread\r\n"),
    ("lru_crawler disable", "OK\r\n"),
    ("lru_crawler metadump all", "CLIENT_ERROR lru crawler disabled\r\n"),
    ("lru_crawler crawl 1", "CLIENT_ERROR lru crawler disabled\r\n"),
    ("lru_crawler enable", "OK\r\n"),
    ("lru_crawler sleep", "ERROR\r\n"),
    ("lru_crawler sleep 0", "OK\r\n"),
    ("lru_crawler sleep x", "CLIENT_ERROR bad command line format\r\n"),
    ("lru_crawler sleep 2000000", "CLIENT_ERROR sleep must be one second or less\r\n"),
    ("lru_crawler tocrawl 5", "OK\r\n"),
    ("lru_crawler tocrawl x", "CLIENT_ERROR bad command line format\r\n"),
    ("lru_crawler crawl 1,2,3", "OK\r\n"),
    ("lru_crawler crawl 77", "BADCLASS invalid class id\r\n"),
    ("cache_memlimit", "ERROR\r\n"),
    ("cache_memlimit x", "ERROR\r\n"),
    ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
    ("cache_memlimit 8", "OK\r\n"),
    ("cache_memlimit 9", "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"),
    ("cache_memlimit 9 noreply", ""),
    ("slabs", "ERROR\r\n"),
    ("slabs reassign 1", "ERROR\r\n"),
    ("slabs reassign 1 2 3", "ERROR\r\n"),
    ("slabs reassign 1 2 noreply", "ERROR\r\n"),
    ("slabs reassign 1 2", "NOSPARE source class has no spare pages\r\n"),
    ("slabs reassign 0 1", "NOSPARE source class has no spare pages\r\n"),
    ("slabs reassign 1 1", "SAME src and dst class are identical\r\n"),
    ("slabs reassign 1 99", "BADCLASS invalid src or dst class id\r\n"),
    ("slabs reassign -1 1", "BADCLASS invalid src or dst class id\r\n"),
    ("slabs reassign a b", "CLIENT_ERROR bad command line format\r\n"),
    ("slabs automove", "ERROR\r\n"),
    ("slabs automove 2", "OK\r\n"),
    ("slabs automove 3", "ERROR\r\n"),
    ("slabs automove x", "CLIENT_ERROR bad command line format\r\n"),
    ("slabs automove 0 noreply", ""),
    ("slabs automove ratio 0.5", "OK\r\n"),
    ("lru", "ERROR\r\n"),
    ("lru mode flat", "OK\r\n"),
    ("lru mode segmented x", "OK\r\n"),
    ("lru mode foo", "ERROR\r\n"),
    ("lru tune 10 25", "ERROR\r\n"),
    ("lru tune 10 25 0.1 2.0", "OK\r\n"),
    ("lru tune 90 90 0.1 2.0", "ERROR hot and warm pcts must not exceed 80\r\n"),
    ("lru tune 10 20 0 0", "ERROR hot/warm age factors must be greater than 0\r\n"),
    ("lru tune 10 25 x 2.0", "ERROR\r\n"),
    ("lru temp_ttl 100", "OK\r\n"),
    ("lru temp_ttl -1", "OK\r\n"),
    ("lru temp_ttl x", "ERROR\r\n"),
    ("lru noreply", ""),
    ("verbosity", "ERROR\r\n"),
    ("verbosity 1", "OK\r\n"),
    ("verbosity x", "CLIENT_ERROR bad command line format\r\n"),
    ("verbosity 1 2", "OK\r\n"),
    ("verbosity 1 noreply", ""),
    ("verbosity -1", "CLIENT_ERROR bad command line format\r\n"),
    ("watch foo", "ERROR\r\n"),
    ("watch fetchers noreply", ""),
    ("extstore", "ERROR\r\n"),
    ("extstore free_memchunks 1 1", "OK\r\n"),
    ("extstore foo bar", "ERROR\r\n"),
];

#[test]
fn tuned_values_are_read_back() {
    let fixture = Fixture::new();
    for line in [
        "slabs automove 0",
        "lru tune 10 25 0.1 1.5",
        "lru temp_ttl 7",
        "lru mode flat",
        "verbosity 2",
    ] {
        assert_eq!(fixture.ask(line), "OK\r\n");
    }
    let settings = fixture.values("stats settings");
    let expected = [
        ("slab_automove", "0"),
        ("hot_lru_pct", "10"),
        ("warm_lru_pct", "25"),
        ("hot_max_factor", "0.10"),
        ("warm_max_factor", "1.50"),
        ("temp_lru", "yes"),
        ("temporary_ttl", "7"),
        ("lru_segmented", "no"),
        ("verbosity", "2"),
    ];
    for (name, value) in expected {
        assert_eq!(settings[name], value, "{name}");
    }
}

#[test]
fn a_metadump_shows_every_item_once_in_memcacheds_form() {
    let fixture = Fixture::new();
    fixture.put("a:b%x", b"abc", None);
    fixture.put("soon", b"abc", Some(NOW + 100_000));
    fixture.put("over", b"abc", Some(NOW - 1));
    let version = fixture.store.peek(OBJECTS, b"a:b%x", NOW).unwrap().version();
    assert!(fixture.store.get(OBJECTS, b"soon", NOW).is_some());
    let dump = fixture.ask("lru_crawler metadump all");
    let line =
        format!("key=a%3Ab%25x exp=-1 la={} cas={version} fetch=no cls=1 size=8\n", NOW / 1000);
    assert!(dump.contains(&line), "{dump}");
    assert!(
        dump.contains(&format!("key=soon exp={} ", NOW / 1000 + 100))
            && dump.contains(" fetch=yes ")
    );
    assert!(!dump.contains("over") && dump.ends_with("\nEND\r\n"));
    assert_eq!(fixture.ask("lru_crawler metadump hash"), dump);
    assert_eq!(fixture.ask("lru_crawler metadump 2,3"), "END\r\n");
    let keys = fixture.ask("lru_crawler mgdump 1");
    assert!(keys.contains("mg a%3Ab%25x\r\n") && keys.ends_with("\r\nEN\r\n"), "{keys}");
}

#[test]
fn a_long_dump_comes_in_steps() {
    let fixture = Fixture::new();
    let count = 20_000;
    (0..count).for_each(|n| fixture.put(&format!("some-longer-key-{n}"), b"v", None));
    let dump = fixture.ask("lru_crawler metadump all"); // `ask` checks the size of each step
    let mut keys: Vec<_> = dump.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(keys.pop(), Some("END"));
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
    let values = fixture.values("stats");
    assert_eq!(
        (values["crawler_items_checked"].as_str(), values["lru_crawler_starts"].as_str()),
        ("20000", "1")
    );
}

#[test]
fn cachedump_stops_at_its_limit() {
    let fixture = Fixture::new();
    (0..3000).for_each(|n| fixture.put(&format!("k{n}"), b"abc", Some(NOW + 5000)));
    let all = fixture.ask("stats cachedump 1 0");
    assert_eq!(all.lines().count(), 3001);
    let item = |line: &str| {
        line.starts_with("ITEM k") && line.ends_with(&format!(" [3 b; {} s]", NOW / 1000 + 5))
    };
    assert!(all.lines().take(3000).all(item), "{}", &all[..100]);
    assert_eq!(fixture.ask("stats cachedump 1 2").lines().count(), 3);
}

#[test]
fn forbidden_commands_are_refused() {
    let fixture = Fixture::with(MemcachedSettings { dump: false, watch: false, ..settings() });
    assert_eq!(fixture.ask("stats cachedump 1"), "CLIENT_ERROR stats cachedump not allowed\r\n");
    assert_eq!(fixture.ask("lru_crawler metadump 99"), "ERROR metadump not allowed\r\n");
    assert_eq!(fixture.ask("watch foo"), "CLIENT_ERROR watch commands not allowed\r\n");
    assert_eq!(fixture.ask("lru_crawler crawl 1"), "OK\r\n");
}

#[test]
fn sizes_and_the_largest() {
    let fixture = Fixture::new();
    fixture.put("key1", &[b'x'; 28], None);
    fixture.put("key2", &[b'x'; 29], None);
    fixture.put("key 3", &[b'x'; 40], None);
    assert_eq!(fixture.ask("stats sizes_enable"), "STAT sizes_status enabled\r\n");
    assert_eq!(fixture.ask("stats sizes"), "STAT 32 1\r\nSTAT 64 2\r\nEND\r\n");
    let largest =
        "STAT 1:key key%203\r\nSTAT 1:size 40\r\nSTAT 2:key key2\r\nSTAT 2:size 29\r\nEND\r\n";
    assert_eq!(fixture.ask("stats largest 2"), largest);
    assert_eq!(fixture.ask("stats largest").lines().count(), 7);
    assert_eq!(fixture.ask("stats largest x"), "CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn prefixes_are_counted_while_it_is_on() {
    let fixture = Fixture::new();
    let stats = &fixture.face.stats;
    let store = watch::Store {
        key: b"user:1",
        status: "stored",
        command: "set",
        expires: None,
        size: 7,
        sent: 7,
    };
    let everything = || {
        stats.saw_get(b"user:1", GetResult::Hit(7), NOW);
        stats.saw_get(b"user:2", GetResult::Miss, NOW);
        stats.saw_store(&store, NOW);
        stats.saw_delete(b"user:1", "delete", Some(7), NOW);
        stats.saw_delete(b"plain", "delete", None, NOW);
    };
    everything();
    assert_eq!(fixture.ask("stats detail dump"), "END\r\n");
    fixture.ask("stats detail on");
    everything();
    assert_eq!(fixture.ask("stats detail dump"), "PREFIX user get 2 hit 1 set 1 del 1\r\nEND\r\n");
    let prefixes = fixture.values("stats prefixes");
    assert_eq!(
        (prefixes["user:bytes_out"].as_str(), prefixes["user:bytes_in"].as_str()),
        ("7", "7")
    );
    fixture.ask("stats detail off");
    everything();
    assert_eq!(fixture.values("stats prefixes")["user:get"], "2");
    fixture.ask("stats reset");
    assert_eq!(fixture.ask("stats detail dump"), "END\r\n");
}

#[test]
fn reset_starts_counting_anew() {
    let fixture = Fixture::new();
    fixture.put("k", b"v", None);
    fixture.face.counters.cmd_get.add(5);
    fixture.face.stats.latency.record(1000);
    (0..2000).for_each(|_| fixture.face.stats.saw_get(b"k", GetResult::Miss, NOW));
    assert!(fixture.values("stats hotkeys").contains_key("1:key"));
    assert_eq!(fixture.ask("stats reset"), "RESET\r\n");
    fixture.face.counters.cmd_get.add(2);
    let values = fixture.values("stats");
    assert_eq!((values["cmd_get"].as_str(), values["total_items"].as_str()), ("2", "0"));
    assert_eq!(values["curr_items"], "1");
    assert_eq!(fixture.values("stats latency")["batches"], "0");
    assert_eq!(fixture.ask("stats hotkeys"), "STAT sampled_gets 0\r\nEND\r\n");
}

#[test]
fn hot_keys_and_latency() {
    let fixture = Fixture::new();
    for n in 0..6400 {
        fixture.face.stats.saw_get(b"hot:1", GetResult::Hit(1), NOW);
        fixture.face.stats.saw_get(format!("cold{n}").as_bytes(), GetResult::Miss, NOW);
    }
    let hot = fixture.values("stats hotkeys");
    assert_eq!(hot["1:key"], "hot%3A1");
    assert!((3200..12800).contains(&hot["1:gets"].parse::<u64>().unwrap()), "{hot:?}");
    (1..=100).for_each(|micros| fixture.face.stats.latency.record(micros));
    let latency = fixture.values("stats latency");
    assert_eq!((latency["batches"].as_str(), latency["max_us"].as_str()), ("100", "100"));
    assert!((50..=53).contains(&latency["p50_us"].parse::<u64>().unwrap()));
}

#[test]
fn evictions_reach_their_watchers() {
    let fixture = Fixture::new();
    let value = vec![b'x'; 10_000];
    let fill =
        |from: usize| (from..from + 2000).for_each(|n| fixture.put(&format!("k{n}"), &value, None));
    fill(0);
    assert!(fixture.mail().is_empty() && fixture.store.stats(OBJECTS).evictions > 0);
    assert_eq!(fixture.ask("watch evictions"), "OK\r\n");
    fill(2000);
    let mail = fixture.mail();
    let line = mail.lines().next().unwrap();
    assert!(line.contains(" gid=1 type=eviction key=k"), "{line}");
    assert!(line.ends_with(" fetch=no ttl=-1 la=0 clsid=1 size=10000"), "{line}");
    let values = fixture.values("stats");
    assert_eq!(
        (values["log_watchers"].as_str(), &values["log_worker_written"]),
        ("1", &values["log_watcher_sent"])
    );
    fixture.face.stats.saw_end(&fixture.client, "normal", NOW);
    assert_eq!(fixture.values("stats")["log_watchers"], "0");
}

#[test]
fn lines_name_the_connection() {
    let fixture = Fixture::new();
    fixture.ask("watch fetchers mutations deletions");
    fixture.face.stats.serving(42);
    fixture.face.stats.saw_get(b"k", GetResult::Hit(3), NOW);
    fixture.face.stats.saw_delete(b"k", "delete", Some(3), NOW);
    fixture.face.stats.saw_delete(b"k", "delete", None, NOW);
    let mail = fixture.mail();
    assert_eq!(mail.lines().count(), 2, "{mail}");
    assert!(mail.lines().all(|line| line.contains(" clsid=1 cfd=42 size=3")), "{mail}");
}

#[test]
fn the_binary_protocol_has_the_same_statistics() {
    let fixture = Fixture::new();
    let ask = |key: &str| {
        let (mut out, mut sent) = (Out::default(), Vec::new());
        let form = Form::Binary { opaque: *b"opaq" };
        let walk =
            super::command(&fixture.face, &fixture.client, key.as_bytes(), form, NOW, &mut out);
        if let Some(mut walk) = walk {
            while !walk.step(&fixture.face, NOW, &mut out) {}
        }
        drain(&mut out, &mut sent);
        packets(&sent)
    };
    let general = ask("");
    let (last, stats) = general.split_last().unwrap();
    assert_eq!(*last, (0, String::new(), String::new()));
    let names: Vec<_> = stats.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names.join(" "), GENERAL.split_whitespace().collect::<Vec<_>>().join(" "));
    let end = (0, String::new(), String::new());
    assert_eq!(ask("reset"), std::slice::from_ref(&end));
    assert_eq!(ask("nonsense"), [(1, String::new(), "Not found".to_owned())]);
    assert_eq!(ask("cachedump 1 1"), [(1, String::new(), "Not found".to_owned())]);
    assert_eq!(ask("detail on"), std::slice::from_ref(&end));
    assert_eq!(ask("detail dump"), [(0, "detailed".to_owned(), "END\r\n".to_owned()), end.clone()]);
    fixture.put("k", b"value", None);
    let largest =
        [(0, "1:key".to_owned(), "k".to_owned()), (0, "1:size".to_owned(), "5".to_owned()), end];
    assert_eq!(ask("largest"), largest);
}

/// Status, key and value of each packet.
fn packets(mut bytes: &[u8]) -> Vec<(u16, String, String)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        assert_eq!((bytes[0], bytes[1], &bytes[12..16]), (0x81, 0x10, &b"opaq"[..]));
        let key = 24 + usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let end = 24 + u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let text = |part: &[u8]| String::from_utf8(part.to_vec()).unwrap();
        all.push((
            u16::from_be_bytes([bytes[6], bytes[7]]),
            text(&bytes[24..key]),
            text(&bytes[key..end]),
        ));
        bytes = &bytes[end..];
    }
    all
}
