//! One sample of a server: its counters under names that are the same for all kinds.

use std::time::{Duration, Instant};

use larder_metrics::{Http, Objects, Outcome, Results, Snapshot, TopKeys, TopUrls, VERSION};

use crate::{
    address::Kind,
    text::{self, Text},
};

/// Counters since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Lookups: HTTP requests that looked up a page, and keys requested by object clients.
    pub(crate) gets: u64,
    /// Lookups answered from memory.
    pub(crate) hits: u64,
    /// Pages and objects stored.
    pub(crate) sets: u64,
    pub(crate) evictions: u64,
    /// Bytes received.
    pub(crate) read: u64,
    /// Bytes sent.
    pub(crate) written: u64,
}

impl Counters {
    fn each(self, other: Counters, f: impl Fn(u64, u64) -> Option<u64>) -> Option<Counters> {
        Some(Counters {
            gets: f(self.gets, other.gets)?,
            hits: f(self.hits, other.hits)?,
            sets: f(self.sets, other.sets)?,
            evictions: f(self.evictions, other.evictions)?,
            read: f(self.read, other.read)?,
            written: f(self.written, other.written)?,
        })
    }

    /// The increase since an older sample; `None` if a counter decreased.
    pub(crate) fn since(self, older: Counters) -> Option<Counters> {
        self.each(older, u64::checked_sub)
    }

    pub(crate) fn plus(self, other: Counters) -> Counters {
        self.each(other, |a, b| Some(a.saturating_add(b))).unwrap_or_default()
    }
}

/// Kinds of commands, as column heads.
pub(crate) const COMMANDS: [&str; 7] =
    ["HTTP/s", "GET/s", "SET/s", "DEL/s", "INCR/s", "TOUCH/s", "OTHER/s"];

/// Counts of commands by kind, indexed like [`COMMANDS`], since the server's start.
pub(crate) type Commands = [u64; COMMANDS.len()];

const HTTP: usize = 0;
const GET: usize = 1;
const SET: usize = 2;
const DEL: usize = 3;
const INCR: usize = 4;
const TOUCH: usize = 5;
const OTHER: usize = 6;

/// The kind of a memcached or Redis command.
fn kind_of(command: &str) -> usize {
    match command.to_ascii_lowercase().as_str() {
        "get" | "gets" | "gat" | "gats" | "mg" | "mget" | "getex" | "getrange" | "hget"
        | "hmget" | "hgetall" => GET,
        "set" | "add" | "replace" | "append" | "prepend" | "cas" | "ms" | "mset" | "setex"
        | "psetex" | "setnx" | "getset" | "hset" | "hmset" | "hsetnx" => SET,
        "delete" | "md" | "del" | "unlink" | "getdel" | "hdel" => DEL,
        "incr" | "decr" | "ma" | "incrby" | "decrby" | "incrbyfloat" | "hincrby" => INCR,
        "touch" | "expire" | "pexpire" | "expireat" | "pexpireat" | "persist" => TOUCH,
        _ => OTHER,
    }
}

/// One protocol of a server.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    pub(crate) name: &'static str,
    pub(crate) connections: u64,
    /// Evictions are counted by the store, not here.
    pub(crate) counters: Counters,
}

/// Data fetched only while the page of one server is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    pub(crate) urls: TopUrls,
    pub(crate) memcached_keys: TopKeys,
    pub(crate) redis_keys: TopKeys,
}

/// A sample of a server.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Time the answer was complete.
    pub(crate) at: Instant,
    /// Time from connecting to the complete answer.
    pub(crate) took: Duration,
    pub(crate) kind: Kind,
    pub(crate) name: Text,
    pub(crate) version: Text,
    /// Seconds since the server's start.
    pub(crate) uptime: f64,
    /// Identifies one run of the server process.
    pub(crate) run_id: Text,
    /// Its process, by its own machine's count.
    pub(crate) pid: u64,
    /// Memory in use, in bytes.
    pub(crate) used: u64,
    /// Memory limit in bytes, if there is one.
    pub(crate) budget: Option<u64>,
    pub(crate) connections: u64,
    pub(crate) counters: Counters,
    pub(crate) commands: Commands,
    /// Empty for a server with one protocol.
    pub(crate) faces: Vec<Face>,
    pub(crate) snapshot: Option<Box<Snapshot>>,
    pub(crate) details: Option<Box<Details>>,
    /// All statistics of a memcached or Redis, as received.
    pub(crate) lines: Vec<(Text, Text)>,
}

/// Lookups, and those answered from memory without waiting for an origin. A stale page counts as a
/// hit if it was served at once; a page revalidated first (`refresh`) or brought by another
/// client's request does not.
fn lookups(results: &Results) -> (u64, u64) {
    use Outcome::{Coalesced, Hit, HitForMiss, Miss, Refresh, Stale};
    (results.sum([Hit, Stale, Miss, Refresh, HitForMiss, Coalesced]), results.sum([Hit, Stale]))
}

/// Hit ratio of one site in percent.
pub(crate) fn hit_percent(results: &Results) -> Option<f64> {
    let (gets, hits) = lookups(results);
    (gets > 0).then(|| hits as f64 * 100.0 / gets as f64)
}

fn http_face(http: &Http) -> Face {
    let (gets, hits) = lookups(&http.results);
    let counters = Counters {
        gets,
        hits,
        sets: http.stored,
        evictions: 0,
        read: http.bytes_in,
        written: http.bytes_out,
    };
    Face { name: "http", connections: http.connections.open, counters }
}

fn object_face(name: &'static str, face: &Objects) -> Face {
    let counters = Counters {
        gets: face.gets,
        hits: face.get_hits.min(face.gets),
        sets: face.sets,
        evictions: 0,
        read: face.bytes_in,
        written: face.bytes_out,
    };
    Face { name, connections: face.connections.open, counters }
}

/// Parses a Larder's `/api/v1/stats`.
///
/// # Errors
///
/// The fault of the answer.
pub(crate) fn from_larder(json: &[u8], at: Instant, took: Duration) -> Result<Sample, String> {
    let snapshot: Snapshot =
        text::from_json(json).map_err(|why| format!("its statistics are not understood: {why}"))?;
    if snapshot.version != VERSION {
        return Err(format!("its statistics are of version {}, not {VERSION}", snapshot.version));
    }
    let http = snapshot.http.as_ref().map(http_face);
    let memcached = snapshot.memcached.as_ref().map(|face| object_face("memcached", face));
    let redis = snapshot.redis.as_ref().map(|face| object_face("redis", face));
    let faces: Vec<Face> = [http, memcached, redis].into_iter().flatten().collect();
    let evictions = snapshot
        .memory
        .namespaces
        .iter()
        .fold(0u64, |sum, space| sum.saturating_add(space.evictions));
    let none = Counters { evictions, ..Counters::default() };
    let mut commands = Commands::default();
    commands[HTTP] = snapshot.http.as_ref().map_or(0, |http| http.requests);
    for face in [&snapshot.memcached, &snapshot.redis].into_iter().flatten() {
        for (command, n) in face.commands.iter() {
            let kind = kind_of(command);
            commands[kind] = commands[kind].saturating_add(n);
        }
    }
    Ok(Sample {
        at,
        took,
        kind: Kind::Larder,
        name: Text::new(&snapshot.name),
        version: Text::new(&snapshot.larder),
        uptime: snapshot.uptime_s as f64,
        run_id: Text::new(&format!("{}/{}", snapshot.pid, snapshot.started_ms)),
        pid: snapshot.pid.into(),
        used: snapshot.memory.used,
        budget: Some(snapshot.memory.budget).filter(|budget| *budget > 0),
        connections: faces.iter().fold(0u64, |sum, face| sum.saturating_add(face.connections)),
        counters: faces.iter().fold(none, |sum, face| sum.plus(face.counters)),
        commands,
        faces,
        snapshot: Some(Box::new(snapshot)),
        details: None,
        lines: Vec::new(),
    })
}

/// Statistics by name, read leniently: absent, negative and non-numeric values count as 0.
struct Statistics<'a>(&'a [(Text, Text)]);

impl Statistics<'_> {
    fn text(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(statistics, _)| statistics.as_str() == name)
            .map_or("", |(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> u64 {
        let text = self.text(name).trim();
        text.parse().unwrap_or_else(|_| match text.parse::<f64>() {
            // `as` truncates fractions and saturates.
            Ok(number) if number > 0.0 => number as u64,
            _ => 0,
        })
    }

    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().fold(0, |sum: u64, name| sum.saturating_add(self.number(name)))
    }
}

/// Makes a sample from memcached's answer to `stats`.
pub(crate) fn from_memcached(lines: Vec<(Text, Text)>, at: Instant, took: Duration) -> Sample {
    let statistics = Statistics(&lines);
    let gets = statistics.number("cmd_get");
    let counters = Counters {
        gets,
        hits: statistics.number("get_hits").min(gets),
        sets: statistics.number("cmd_set"),
        evictions: statistics.number("evictions"),
        read: statistics.number("bytes_read"),
        written: statistics.number("bytes_written"),
    };
    let mut commands = Commands::default();
    commands[GET] = counters.gets;
    commands[SET] = counters.sets;
    commands[DEL] = statistics.sum(&["delete_hits", "delete_misses"]);
    commands[INCR] = statistics.sum(&["incr_hits", "incr_misses", "decr_hits", "decr_misses"]);
    commands[TOUCH] = statistics.number("cmd_touch");
    commands[OTHER] = statistics.sum(&["cmd_flush", "cmd_meta"]);
    Sample {
        at,
        took,
        kind: Kind::Memcached,
        name: Text::default(),
        version: Text::new(statistics.text("version")),
        uptime: statistics.number("uptime") as f64,
        run_id: Text::new(statistics.text("pid")),
        pid: statistics.number("pid"),
        used: statistics.number("bytes"),
        budget: Some(statistics.number("limit_maxbytes")).filter(|budget| *budget > 0),
        connections: statistics.number("curr_connections"),
        counters,
        commands,
        faces: Vec::new(),
        snapshot: None,
        details: None,
        lines,
    }
}

/// Makes a sample from Redis's answer to `INFO all`. Redis counts lookups of keys (`keyspace_hits`,
/// `keyspace_misses`), but stores only as commands.
pub(crate) fn from_redis(lines: Vec<(Text, Text)>, at: Instant, took: Duration) -> Sample {
    let statistics = Statistics(&lines);
    let mut commands = Commands::default();
    for (name, value) in &lines {
        let Some(command) = name.as_str().strip_prefix("cmdstat_") else { continue };
        let calls = value.as_str().strip_prefix("calls=").and_then(|rest| rest.split(',').next());
        let calls: u64 = calls.and_then(|calls| calls.parse().ok()).unwrap_or(0);
        let kind = kind_of(command);
        commands[kind] = commands[kind].saturating_add(calls);
    }
    let hits = statistics.number("keyspace_hits");
    let counters = Counters {
        gets: hits.saturating_add(statistics.number("keyspace_misses")),
        hits,
        sets: commands[SET],
        evictions: statistics.number("evicted_keys"),
        read: statistics.number("total_net_input_bytes"),
        written: statistics.number("total_net_output_bytes"),
    };
    Sample {
        at,
        took,
        kind: Kind::Redis,
        name: Text::default(),
        version: Text::new(statistics.text("redis_version")),
        uptime: statistics.number("uptime_in_seconds") as f64,
        run_id: Text::new(statistics.text("run_id")),
        pid: statistics.number("process_id"),
        used: statistics.number("used_memory"),
        budget: Some(statistics.number("maxmemory")).filter(|budget| *budget > 0),
        connections: statistics.number("connected_clients"),
        counters,
        commands,
        faces: Vec::new(),
        snapshot: None,
        details: None,
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(Text, Text)> {
        let split = text.lines().filter_map(|line| line.trim().split_once(' '));
        split.map(|(name, value)| (Text::new(name), Text::new(value))).collect()
    }

    fn now() -> (Instant, Duration) {
        (Instant::now(), Duration::from_millis(3))
    }

    #[test]
    fn memcached_statistics_are_read() {
        let (at, took) = now();
        let sample = from_memcached(
            pairs(
                "pid 77\nuptime 100\nversion 1.6.18\ncurr_connections 9\ncmd_get 50\nget_hits \
                 40\ncmd_set 7\ncmd_touch 3\ndelete_hits 2\ndelete_misses 1\nincr_hits \
                 4\ndecr_misses 5\nbytes_read 1000\nbytes_written 2000\nlimit_maxbytes \
                 67108864\nbytes 1024\nevictions 6",
            ),
            at,
            took,
        );
        let expected =
            Counters { gets: 50, hits: 40, sets: 7, evictions: 6, read: 1000, written: 2000 };
        assert_eq!(sample.counters, expected);
        assert_eq!(sample.commands, [0, 50, 7, 3, 9, 3, 0]);
        assert_eq!((sample.used, sample.budget, sample.connections), (1024, Some(67_108_864), 9));
        assert_eq!(
            (sample.run_id.as_str(), sample.version.as_str(), sample.uptime),
            ("77", "1.6.18", 100.0)
        );
    }

    #[test]
    fn odd_values_count_as_nothing() {
        let (at, took) = now();
        let sample = from_memcached(
            pairs(
                "uptime -5\ncmd_get 18446744073709551615\nget_hits 99999999999999999999\ncmd_set \
                 many\nbytes 12.75\nlimit_maxbytes 0\nevictions NaN\ndelete_hits \
                 18446744073709551615\ndelete_misses 2\nbytes_read  7 \nversion \x1b[31m1",
            ),
            at,
            took,
        );
        let expected =
            Counters { gets: u64::MAX, hits: u64::MAX, sets: 0, evictions: 0, read: 7, written: 0 };
        assert_eq!(sample.counters, expected);
        assert_eq!((sample.used, sample.budget, sample.uptime), (12, None, 0.0));
        assert_eq!(sample.commands[DEL], u64::MAX);
        assert_eq!(sample.version.as_str(), "\\x1b[31m1");
    }

    #[test]
    fn redis_statistics_are_read() {
        let (at, took) = now();
        let sample = from_redis(
            pairs(
                "redis_version 7.0.15\nrun_id abc\nuptime_in_seconds 60\nconnected_clients \
                 3\nused_memory 100\nmaxmemory 0\nkeyspace_hits 8\nkeyspace_misses \
                 2\nevicted_keys 1\ntotal_net_input_bytes 10\ntotal_net_output_bytes \
                 20\ncmdstat_get calls=9,usec=1\ncmdstat_setex calls=4,usec=1\ncmdstat_x odd",
            ),
            at,
            took,
        );
        let expected = Counters { gets: 10, hits: 8, sets: 4, evictions: 1, read: 10, written: 20 };
        assert_eq!(sample.counters, expected);
        assert_eq!((sample.budget, sample.commands[GET]), (None, 9));
    }

    #[test]
    fn a_larder_is_the_sum_of_its_faces() {
        let (at, took) = now();
        let json = r#"{"version":1,"larder":"0.1.0","name":"wiki1","pid":4,"started_ms":5,"uptime_s":10,
            "memory":{"budget":1000,"used":500,"namespaces":[{"name":"pages","evictions":2},{"name":"redis","evictions":3}]},
            "http":{"requests":12,"results":{"hit":5,"stale":1,"miss":2,"refresh":1,"pass":3},"stored":3,"bytes_in":10,"bytes_out":100,
              "connections":{"open":2}},
            "memcached":{"connections":{"open":1},"gets":8,"get_hits":6,"sets":4,"bytes_in":1,"bytes_out":2,
              "commands":{"get":7,"set":4,"incr":1}},
            "redis":null}"#;
        let sample = from_larder(json.as_bytes(), at, took).expect("a sample");
        let expected =
            Counters { gets: 17, hits: 12, sets: 7, evictions: 5, read: 11, written: 102 };
        assert_eq!(sample.counters, expected);
        assert_eq!(sample.commands, [12, 7, 4, 0, 1, 0, 0]);
        assert_eq!((sample.connections, sample.faces.len(), sample.run_id.as_str()), (3, 2, "4/5"));
    }

    #[test]
    fn what_is_no_statistics_is_refused() {
        let (at, took) = now();
        for json in ["", "{}", "[]", r#"{"version":2}"#, r#"{"version":1,"http":{"requests":-1}}"#]
        {
            assert!(from_larder(json.as_bytes(), at, took).is_err(), "{json}");
        }
    }
}
