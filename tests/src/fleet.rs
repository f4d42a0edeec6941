//! Servers that several Larders share their pages through.

use crate::helper::free_port;
use crate::larder::Larder;
use crate::memcache::Memcached;
use crate::origin::Origin;
use crate::redis::{Redis, Value};
use crate::slow_proxy::SlowProxy;
use crate::started::Started;
use crate::wait::wait_until;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

/// Three servers: Debian's memcached, Debian's Redis, or three masters of a Redis Cluster.
pub struct Fleet {
    /// The servers, in the order Larders know them.
    pub servers: Vec<Server>,
    /// Before each, if they are to be slow or to break.
    proxies: Vec<SlowProxy>,
    protocol: &'static str,
}

/// One of them.
pub enum Server {
    /// A memcached.
    Memcached(Memcached),
    /// A Redis, which speaks as Valkey does: this Debian has none.
    Redis(Redis),
}

impl Server {
    fn started(&self) -> &Started {
        match self {
            Server::Memcached(server) => server,
            Server::Redis(server) => server,
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.started().addr()
    }

    /// Every key.
    fn keys(&self) -> Vec<String> {
        match self {
            Server::Memcached(server) => {
                // The crawler passes over items that somebody has locked.
                let ask = || server.connect().ask_crawler("lru_crawler metadump all");
                let listed = ask() + &ask();
                let keys =
                    listed.lines().filter_map(|line| line.strip_prefix("key=")?.split(' ').next());
                // Listed as in a URL.
                let keys: BTreeSet<_> = keys.map(|key| key.replace("%3A", ":")).collect();
                keys.into_iter().collect()
            }
            Server::Redis(server) => {
                server.connect().ask(&["KEYS", "*"]).items().iter().map(Value::text).collect()
            }
        }
    }

    /// Whether a copy of the journal of purges lies there.
    pub fn has_journal(&self) -> bool {
        self.keys().iter().any(|key| key.contains("larder:j:") && key.ends_with(":log"))
    }

    /// Everything on it is lost.
    #[track_caller]
    pub fn flush(&self) {
        match self {
            Server::Memcached(server) => drop(server.connect().expect("flush_all\r\n", "OK\r\n")),
            Server::Redis(server) => assert_eq!(server.connect().say("FLUSHALL"), "OK"),
        }
    }

    /// Begins again where it was killed.
    pub fn again(&mut self) {
        let port = self.addr().port();
        *self = match self {
            Server::Memcached(_) => Server::Memcached(Memcached::debian_at(port)),
            Server::Redis(_) => Server::Redis(Redis::debian_at(port)),
        };
    }
}

impl Fleet {
    fn of(servers: Vec<Server>, protocol: &'static str) -> Fleet {
        Fleet { servers, proxies: Vec::new(), protocol }
    }

    /// Starts memcacheds.
    #[track_caller]
    pub fn memcached() -> Fleet {
        let servers = (0..3).map(|_| Server::Memcached(Memcached::debian(&[]))).collect();
        Fleet::of(servers, "memcached")
    }

    /// Starts stand-alone Redises.
    #[track_caller]
    pub fn valkey() -> Fleet {
        let servers = (0..3).map(|_| Server::Redis(Redis::debian(&[]))).collect();
        Fleet::of(servers, "valkey")
    }

    /// Starts a cluster of three masters, and waits until each knows all.
    #[track_caller]
    pub fn cluster() -> Fleet {
        let start = |_| {
            // For what the nodes say to each other.
            let bus = free_port().to_string();
            let options = ["--cluster-enabled", "yes", "--cluster-config-file", "@DIR@/nodes.conf"];
            let more = ["--cluster-port", &bus, "--cluster-node-timeout", "1000"];
            let alone = ["--cluster-require-full-coverage", "no", "--dir", "@DIR@"];
            Redis::debian(&[&options[..], &more, &alone].concat())
        };
        let servers: Vec<Redis> = (0..3).map(start).collect();
        let mut create = Command::new("/usr/bin/redis-cli");
        create
            .args(["--cluster", "create"])
            .args(servers.iter().map(|server| server.addr().to_string()));
        let created = create.arg("--cluster-yes").output().unwrap();
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        wait_until("the cluster to stand", || {
            servers.iter().all(|server| {
                let state = server.connect().say("CLUSTER INFO");
                state.contains("cluster_state:ok") && state.contains("cluster_size:3")
            })
        });
        Fleet::of(servers.into_iter().map(Server::Redis).collect(), "valkey-cluster")
    }

    /// Puts a `larder slow` before each server; Larders know these alone. At first they do nothing.
    #[track_caller]
    pub fn behind_proxies(mut self) -> Fleet {
        let before = |server: &Server| {
            let spoken = match server {
                Server::Memcached(_) => "memcached",
                Server::Redis(_) => "redis",
            };
            SlowProxy::scripted(server.addr(), "", &["--protocol", spoken])
        };
        self.proxies = self.servers.iter().map(before).collect();
        if self.protocol == "valkey-cluster" {
            self.announce_proxies();
        }
        self
    }

    /// Nodes of a cluster tell clients where each of them is.
    #[track_caller]
    fn announce_proxies(&self) {
        let nodes = || {
            self.servers.iter().map(|server| match server {
                Server::Redis(server) => server.connect(),
                Server::Memcached(_) => panic!("a cluster is of Redises"),
            })
        };
        for (mut node, proxy) in nodes().zip(&self.proxies) {
            let port = proxy.addr().port();
            assert_eq!(node.say(&format!("CONFIG SET cluster-announce-port {port}")), "OK");
        }
        wait_until("all nodes to know of the proxies", || {
            nodes().all(|mut node| {
                let told = node.say("CLUSTER SLOTS");
                self.proxies
                    .iter()
                    .all(|proxy| told.contains(&format!(" {} ", proxy.addr().port())))
            })
        });
    }

    /// Sets the faults of a server's answers and new connections from now on, in the language of
    /// docs/slow.md. See [`Fleet::behind_proxies`].
    #[track_caller]
    pub fn befall(&self, server: usize, script: &str) {
        self.proxies[server].rewrite(script);
    }

    /// What they speak, as the value of `protocol`.
    pub fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// Their addresses as the value of `servers`.
    pub fn addresses(&self) -> String {
        let real = self.servers.iter().map(Server::addr);
        let addresses =
            real.enumerate().map(|(n, real)| self.proxies.get(n).map_or(real, SlowProxy::addr));
        addresses.map(|address| format!("\"{address}\"")).collect::<Vec<_>>().join(", ")
    }

    /// A Larder of this fleet, with further lines for `[remote]`; it lets this machine purge.
    #[track_caller]
    pub fn larder(&self, origin: &Origin, remote: &str) -> Larder {
        self.larder_of(origin, remote, "")
    }

    /// The same, with further lines for its site.
    #[track_caller]
    pub fn larder_of(&self, origin: &Origin, remote: &str, site: &str) -> Larder {
        let remote = format!("protocol = \"{}\"\n{remote}", self.protocol);
        larder(&self.addresses(), origin, &remote, site)
    }

    /// Server and key of every page's item that is stored.
    pub fn items(&self) -> Vec<(usize, String)> {
        let of = |(number, server): (usize, &Server)| {
            let keys = server.keys().into_iter().map(move |key| (number, key));
            keys.filter(|(_, key)| key.contains(":p:")).collect::<Vec<_>>()
        };
        self.servers.iter().enumerate().flat_map(of).collect()
    }

    /// Waits for an item that is not among these, and adds it. (Not the difference of two listings:
    /// memcached leaves out what is being written.)
    #[track_caller]
    pub fn next_item(&self, known: &mut Vec<(usize, String)>) -> (usize, String) {
        let mut found = None;
        wait_until("another item in the fleet", || {
            found = self.items().into_iter().find(|item| !known.contains(item));
            found.is_some()
        });
        known.extend(found.clone());
        found.expect("waited for")
    }

    /// Waits until there are so many items.
    #[track_caller]
    pub fn wait_for_items(&self, count: usize) -> Vec<(usize, String)> {
        wait_until(&format!("{count} items in the fleet"), || self.items().len() >= count);
        self.items()
    }

    /// The value of an item.
    #[track_caller]
    pub fn value(&self, item: &(usize, String)) -> Vec<u8> {
        let server = match &self.servers[item.0] {
            Server::Memcached(server) => server,
            Server::Redis(server) => match server.connect().ask(&["GET", &item.1]) {
                Value::Bulk(_, Some(value)) => return value,
                other => panic!("no such item: {other:?}"),
            },
        };
        let mut talk = server.connect();
        talk.send(format!("get {}\r\n", item.1));
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let byte = talk.take(1);
            assert!(!byte.is_empty(), "the answer ends with {line:?}");
            line.extend(byte);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let length = line.split_ascii_whitespace().nth(3).and_then(|length| length.parse().ok());
        talk.take(length.unwrap_or_else(|| panic!("no such item: {line}")))
    }

    /// Puts another value there.
    #[track_caller]
    pub fn put(&self, item: &(usize, String), value: &[u8]) {
        let server = match &self.servers[item.0] {
            Server::Memcached(server) => server,
            Server::Redis(server) => {
                let set: [&[u8]; 5] = [b"SET", item.1.as_bytes(), value, b"PX", b"60000"];
                assert_eq!(server.connect().ask(&set).text(), "OK");
                return;
            }
        };
        let command = format!("set {} 0 60 {}\r\n", item.1, value.len());
        let bytes = [command.as_bytes(), value, b"\r\n"].concat();
        server.connect().expect(bytes, "STORED\r\n");
    }

    /// Deletes an item.
    #[track_caller]
    pub fn delete(&self, item: &(usize, String)) {
        match &self.servers[item.0] {
            Server::Memcached(server) => {
                server.connect().expect(format!("delete {}\r\n", item.1), "DELETED\r\n");
            }
            Server::Redis(server) => {
                assert_eq!(server.connect().ask(&["DEL", &item.1]).text(), "1")
            }
        }
    }

    /// Sends a signal to one of the servers.
    pub fn signal(&self, server: usize, signal: Signal) {
        crate::client::signal(self.servers[server].started().pid(), signal);
    }
}

/// A Larder whose remote tier is these servers (`"a", "b"`), with further lines for `[remote]` and
/// for its site.
#[track_caller]
pub fn larder(servers: &str, origin: &Origin, remote: &str, site: &str) -> Larder {
    let url = origin.url();
    // A machine under test is slow: what is asked of the fleet in these tests comes in time.
    let budget = if remote.contains("budget") { "" } else { "budget = \"10s\"\n" };
    let patient = "read_timeout = \"5s\"\nwrite_timeout = \"5s\"\nconnect_timeout = \"5s\"\n";
    let timeouts = if remote.contains("read_timeout") { "" } else { patient };
    Larder::with_config(&format!(
        "[remote]\nservers = [{servers}]\n{budget}{timeouts}{remote}\n[[site]]\norigin = \
         \"{url}\"\npurge = {{ from = [\"127.0.0.1\"] }}\n{site}\n"
    ))
}

/// A counter of the fleet in printed statistics: the last one with this name.
fn of_fleet(printed: &str, name: &str) -> u64 {
    let names = ["pages", "events"].map(|group| format!("larder: remote.{group}.{name} "));
    let value = |line: &str| names.iter().find_map(|name| line.strip_prefix(name)?.parse().ok());
    printed.lines().rev().find_map(value).unwrap_or(0)
}

/// A counter of a Larder's fleet as last printed; asks for a new print.
pub fn counted(larder: &Larder, name: &str) -> u64 {
    larder.usr1();
    of_fleet(&larder.stderr(), name)
}

/// What a Larder has counted of its fleet by now under these names, together.
#[track_caller]
pub fn counted_now(larder: &Larder, names: &[&str]) -> u64 {
    // Behind the fleet's counters, and printed whatever its value.
    const LATER: &str = "larder: version 1";
    let prints = || larder.stderr().matches(LATER).count();
    // The first may have been begun before.
    for _ in 0..2 {
        let before = prints();
        larder.usr1();
        wait_until("the counters to be printed", || prints() > before);
    }
    let printed = larder.stderr();
    let last = printed.rmatch_indices(LATER).take(2).map(|(at, _)| at).collect::<Vec<_>>();
    let last = &printed[last[1]..last[0]];
    names.iter().map(|name| of_fleet(last, name)).sum()
}

/// Waits until a Larder has counted so much.
#[track_caller]
pub fn wait_counted(larder: &Larder, name: &str, least: u64) {
    wait_until(&format!("{name} {least}"), || counted(larder, name) >= least);
}

/// Makes of each named function of a [`Fleet`] a test for every kind of fleet.
#[macro_export]
macro_rules! on_every_fleet {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            use larder_tests::fleet::Fleet;

            #[test]
            fn memcached() {
                super::$test(Fleet::memcached());
            }

            #[test]
            fn valkey() {
                super::$test(Fleet::valkey());
            }

            #[test]
            fn cluster() {
                super::$test(Fleet::cluster());
            }
        })*
    };
}
