//! `watch`: a log of events, sent to the watchers (protocol.txt, "Watchers"), and the atomic flags
//! that tell which events anybody watches.
//!
//! A line is only composed if a watcher is connected for its kind. Otherwise a command pays one
//! relaxed load, shared with `stats detail`. Lines go to the watchers' mailboxes. If a mailbox is
//! full, lines are dropped and counted, and a line `skipped=<n>` reports them when there is room
//! again.

use std::{
    io::Write,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use crate::{
    clock::Ms,
    object::{Client, Peer},
};

/// Most watchers at once. Each may hold a full buffer (`-o watcher_logbuf_size`).
pub(crate) const WATCHERS: usize = 64;

/// `get` and similar commands.
pub(crate) const FETCHERS: u32 = 1;
/// Store commands.
pub(crate) const MUTATIONS: u32 = 1 << 1;
/// Items evicted to make room.
pub(crate) const EVICTIONS: u32 = 1 << 2;
/// Connections opened and closed.
pub(crate) const CONNEVENTS: u32 = 1 << 3;
/// `delete` and similar commands.
pub(crate) const DELETIONS: u32 = 1 << 4;
/// `stats detail` is on; no watcher's kind.
pub(crate) const DETAIL: u32 = 1 << 31;

/// The kinds that a client may name. Those of memcached's proxy are accepted and never occur, as in
/// a memcached without a proxy.
const KINDS: &[(&[u8], u32)] = &[
    (b"fetchers", FETCHERS),
    (b"mutations", MUTATIONS),
    (b"evictions", EVICTIONS),
    (b"connevents", CONNEVENTS),
    (b"deletions", DELETIONS),
    (b"rawcmds", 0),
    (b"proxyreqs", 0),
    (b"proxyevents", 0),
    (b"proxyuser", 0),
];

/// The watchers and the union of their kinds. It is aligned to cache lines of its own: every
/// command reads it, a watcher that starts or ends writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WatchLog {
    on: AtomicU32,
    watchers: Mutex<Watchers>,
    gid: AtomicU64,
}

#[derive(Debug, Default)]
struct Watchers {
    list: Vec<Watcher>,
    sent: u64,
    skipped: u64,
}

#[derive(Debug)]
struct Watcher {
    client: Weak<Client>,
    kinds: u32,
    /// Most bytes waiting in its mailbox.
    buffer: usize,
    /// Dropped lines not yet reported to it.
    skipped: u64,
}

/// Metrics of the watchers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Connected watchers.
    pub(crate) watchers: u64,
    /// Composed lines.
    pub(crate) written: u64,
    /// Sent lines, counted once per watcher.
    pub(crate) sent: u64,
    /// Lines dropped because a watcher was too slow.
    pub(crate) skipped: u64,
}

/// Result of `watch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchResult {
    /// The client is a watcher: its further input is ignored.
    Begun,
    /// The kind is unknown.
    Unknown,
    /// There are too many watchers.
    TooMany,
}

impl WatchLog {
    /// Returns whether any of these kinds is watched.
    #[inline]
    pub(crate) fn any(&self, kinds: u32) -> bool {
        self.on.load(Relaxed) & kinds != 0
    }

    /// All watched kinds, in one load.
    #[inline]
    pub(crate) fn watched(&self) -> u32 {
        self.on.load(Relaxed)
    }

    /// Switches `stats detail`.
    pub(crate) fn detail(&self, on: bool) {
        if on {
            self.on.fetch_or(DETAIL, Relaxed);
        } else {
            self.on.fetch_and(!DETAIL, Relaxed);
        }
    }

    /// Makes the client a watcher of the kinds named in `words`; without any, of fetchers (as in
    /// memcached).
    pub(crate) fn watch(&self, client: &Arc<Client>, words: &[u8], buffer: usize) -> WatchResult {
        let mut kinds = 0;
        let mut named = false;
        for word in words.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
            let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == word) else {
                return WatchResult::Unknown;
            };
            kinds |= kind;
            named = true;
        }
        let kinds = if named { kinds } else { FETCHERS };
        let mut watchers = self.watchers.lock();
        watchers.list.retain(|watcher| watcher.client.strong_count() > 0);
        if watchers.list.len() >= WATCHERS {
            return WatchResult::TooMany;
        }
        watchers.list.push(Watcher { client: Arc::downgrade(client), kinds, buffer, skipped: 0 });
        // A watcher sends nothing: the idle timeout does not apply.
        client.set_stays(true);
        self.update_kinds(&watchers);
        WatchResult::Begun
    }

    /// Removes a client that has left, watcher or not.
    pub(crate) fn leave(&self, client: &Client) {
        if self.watched() & !DETAIL == 0 {
            return; // No watchers; `figures` removes those without kinds.
        }
        let mut watchers = self.watchers.lock();
        watchers
            .list
            .retain(|watcher| watcher.client.upgrade().is_some_and(|known| known.id != client.id));
        self.update_kinds(&watchers);
    }

    /// Sets the watched kinds to those of the watchers.
    fn update_kinds(&self, watchers: &Watchers) {
        let wanted = watchers.list.iter().fold(0, |kinds, watcher| kinds | watcher.kinds);
        let _ = self.on.fetch_update(Relaxed, Relaxed, |on| Some(on & DETAIL | wanted));
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut watchers = self.watchers.lock();
        watchers.list.retain(|watcher| watcher.client.strong_count() > 0);
        self.update_kinds(&watchers);
        Figures {
            watchers: watchers.list.len() as u64,
            written: self.gid.load(Relaxed),
            sent: watchers.sent,
            skipped: watchers.skipped,
        }
    }

    /// Sends a line of `kind` to its watchers. `rest` appends the text behind the line's number.
    #[cold]
    fn report(&self, kind: u32, now: Ms, rest: impl FnOnce(&mut Vec<u8>)) {
        let mut line = Vec::with_capacity(256);
        let gid = self.gid.fetch_add(1, Relaxed) + 1;
        // Writing to a Vec does not fail. The clock has milliseconds.
        let _ = write!(line, "ts={}.{:03}000 gid={gid} type=", now / 1000, now % 1000);
        rest(&mut line);
        // A line end without CR, as in memcached.
        line.push(b'\n');
        let mut all = self.watchers.lock();
        let Watchers { list, sent, skipped } = &mut *all;
        list.retain_mut(|watcher| {
            let Some(client) = watcher.client.upgrade() else { return false };
            if watcher.kinds & kind != 0 {
                match watcher.send(&client, &line) {
                    true => *sent += 1,
                    false => *skipped += 1,
                }
            }
            true
        });
    }
}

impl Watcher {
    fn send(&mut self, client: &Client, line: &[u8]) -> bool {
        let sent = if self.skipped == 0 {
            client.push(line, self.buffer)
        } else {
            let mut lines = format!("skipped={}\n", self.skipped).into_bytes();
            lines.extend_from_slice(line);
            client.push(&lines, self.buffer)
        };
        self.skipped = if sent { 0 } else { self.skipped + 1 };
        sent
    }
}

/// Result of a `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GetResult {
    /// A value of this many bytes.
    Hit(u64),
    /// No item.
    Miss,
    /// An expired item.
    Expired,
    /// A flushed item.
    Flushed,
}

/// A store command, for watchers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store<'a> {
    pub(crate) key: &'a [u8],
    /// Result: `stored`, `not_stored`, `exists`, `not_found`, `too_large`, `no_memory`.
    pub(crate) status: &'static str,
    /// Name of the command: `set`, `add`, ...
    pub(crate) command: &'static str,
    pub(crate) expires: Option<Ms>,
    /// Length of the item's value in bytes.
    pub(crate) size: u64,
    /// Bytes received for the value.
    pub(crate) sent: u64,
}

/// An evicted item, for watchers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) fetched: bool,
    pub(crate) expires: Option<Ms>,
    pub(crate) last_access: Ms,
    /// Length of the value in bytes.
    pub(crate) size: u64,
}

impl WatchLog {
    /// Reports a requested key.
    pub(crate) fn fetched(&self, cfd: u64, key: &[u8], found: GetResult, now: Ms) {
        let (status, class, size) = match found {
            GetResult::Hit(size) => ("found", 1, size),
            GetResult::Miss => ("not_found", 0, 0),
            GetResult::Expired => ("expired", 0, 0),
            GetResult::Flushed => ("flushed", 0, 0),
        };
        self.report(FETCHERS, now, |line| {
            line.extend_from_slice(b"item_get key=");
            encode(key, line);
            let _ = write!(line, " status={status} clsid={class} cfd={cfd} size={size}");
        });
    }

    /// Reports a store command.
    pub(crate) fn stored(&self, cfd: u64, store: Store<'_>, now: Ms) {
        self.report(MUTATIONS, now, |line| {
            line.extend_from_slice(b"item_store key=");
            encode(store.key, line);
            let Store { status, command, size, .. } = store;
            let ttl = left(store.expires, now).max(0);
            let _ = write!(
                line,
                " status={status} cmd={command} ttl={ttl} clsid=1 cfd={cfd} size={size}"
            );
        });
    }

    /// Reports a deletion.
    pub(crate) fn deleted(&self, cfd: u64, key: &[u8], command: &'static str, size: u64, now: Ms) {
        self.report(DELETIONS, now, |line| {
            line.extend_from_slice(b"deleted key=");
            encode(key, line);
            let _ = write!(line, " cmd={command} clsid=1 cfd={cfd} size={size}");
        });
    }

    /// Reports an eviction.
    pub(crate) fn evicted(&self, item: Dropped<'_>, now: Ms) {
        self.report(EVICTIONS, now, |line| {
            line.extend_from_slice(b"eviction key=");
            encode(item.key, line);
            let fetch = if item.fetched { "yes" } else { "no" };
            // -1 without an expiry, as in memcached.
            let ttl = item.expires.map_or(-1, |_| left(item.expires, now));
            let unread = now.saturating_sub(item.last_access) / 1000;
            let _ = write!(line, " fetch={fetch} ttl={ttl} la={unread} clsid=1 size={}", item.size);
        });
    }

    /// Reports a new client.
    pub(crate) fn connected(&self, client: &Client, now: Ms) {
        self.report(CONNEVENTS, now, |line| {
            line.extend_from_slice(b"conn_new ");
            append_address(client, line);
            let _ = write!(line, " cfd={}", client.id);
        });
    }

    /// Reports the end of a connection. `reason`: `normal`, `error`, `idle_timeout`, `shutdown`.
    pub(crate) fn disconnected(&self, client: &Client, reason: &'static str, now: Ms) {
        self.report(CONNEVENTS, now, |line| {
            line.extend_from_slice(b"conn_close ");
            append_address(client, line);
            let _ = write!(line, " reason={reason} cfd={}", client.id);
        });
    }
}

fn append_address(client: &Client, line: &mut Vec<u8>) {
    let _ = match client.peer {
        Peer::Tcp(addr) => write!(line, "rip={} rport={} transport=tcp", addr.ip(), addr.port()),
        Peer::Udp(addr) => write!(line, "rip={} rport={} transport=udp", addr.ip(), addr.port()),
        Peer::Unix => write!(line, "rip=unix rport=0 transport=local"),
    };
}

/// Seconds until the expiry; 0: none.
fn left(expires: Option<Ms>, now: Ms) -> i64 {
    expires.map_or(0, |at| (at as i64 - now as i64).div_euclid(1000))
}

/// Appends a key. Every byte except letters, digits and `-._~` becomes `%XX` (RFC 3986, 2.1).
pub(crate) fn encode(key: &[u8], into: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(byte);
        } else {
            into.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Clients;

    fn client(clients: &Clients) -> Arc<Client> {
        clients.enter(Peer::Tcp(([127, 0, 0, 1], 4711).into()), "127.0.0.1:11211", 0)
    }

    fn mail(client: &Client) -> String {
        let mut bytes = Vec::new();
        client.take_mail(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    const NOW: Ms = 1_795_200_944_007;

    #[test]
    fn lines_are_memcacheds() {
        let (watch_log, clients) = (WatchLog::default(), Clients::default());
        let watcher = client(&clients);
        let kinds = b"fetchers mutations deletions evictions connevents";
        assert_eq!(watch_log.watch(&watcher, kinds, 10_000), WatchResult::Begun);
        watch_log.fetched(25, b"a:b", GetResult::Hit(3), NOW);
        watch_log.fetched(25, b"n", GetResult::Expired, NOW);
        let store = Store {
            key: b"n",
            status: "stored",
            command: "set",
            expires: Some(NOW + 100_000),
            size: 1,
            sent: 1,
        };
        watch_log.stored(26, store, NOW);
        watch_log.deleted(26, b"n", "delete", 1, NOW);
        let item = Dropped {
            key: b"old",
            fetched: true,
            expires: None,
            last_access: NOW - 7999,
            size: 70,
        };
        watch_log.evicted(item, NOW);
        watch_log.connected(&watcher, NOW);
        watch_log.disconnected(&watcher, "normal", NOW);
        let expected = "\
            ts=1795200944.007000 gid=1 type=item_get key=a%3Ab status=found clsid=1 cfd=25 \
             size=3\nts=1795200944.007000 gid=2 type=item_get key=n status=expired clsid=0 cfd=25 \
             size=0\nts=1795200944.007000 gid=3 type=item_store key=n status=stored cmd=set \
             ttl=100 clsid=1 cfd=26 size=1\nts=1795200944.007000 gid=4 type=deleted key=n \
             cmd=delete clsid=1 cfd=26 size=1\nts=1795200944.007000 gid=5 type=eviction key=old \
             fetch=yes ttl=-1 la=7 clsid=1 size=70\nts=1795200944.007000 gid=6 type=conn_new \
             rip=127.0.0.1 rport=4711 transport=tcp cfd=1\nts=1795200944.007000 gid=7 \
             type=conn_close rip=127.0.0.1 rport=4711 transport=tcp reason=normal cfd=1\n";
        assert_eq!(mail(&watcher), expected);
    }

    #[test]
    fn only_watched_kinds_are_reported() {
        let (watch_log, clients) = (WatchLog::default(), Clients::default());
        let (one, two) = (client(&clients), client(&clients));
        assert!(!watch_log.any(u32::MAX));
        assert_eq!(watch_log.watch(&one, b"fetchers nonsense", 100), WatchResult::Unknown);
        assert_eq!(watch_log.watch(&one, b"", 100), WatchResult::Begun);
        assert_eq!(watch_log.watch(&two, b"connevents", 100), WatchResult::Begun);
        assert!(
            watch_log.any(FETCHERS)
                && watch_log.any(CONNEVENTS)
                && !watch_log.any(MUTATIONS | DETAIL)
        );
        watch_log.fetched(1, b"k", GetResult::Miss, NOW);
        assert!(mail(&two).is_empty() && mail(&one).contains("key=k"));
        watch_log.detail(true);
        watch_log.leave(&one);
        assert!(!watch_log.any(FETCHERS) && watch_log.any(CONNEVENTS) && watch_log.any(DETAIL));
        watch_log.detail(false);
        clients.leave(&two);
        drop(two);
        assert_eq!(watch_log.figures(), Figures { watchers: 0, written: 1, sent: 1, skipped: 0 });
        assert!(!watch_log.any(u32::MAX));
    }

    #[test]
    fn a_slow_watcher_receives_the_number_of_dropped_lines() {
        let (watch_log, clients) = (WatchLog::default(), Clients::default());
        let watcher = client(&clients);
        watch_log.watch(&watcher, b"fetchers", 200);
        (0..5).for_each(|_| watch_log.fetched(1, b"k", GetResult::Miss, NOW));
        assert_eq!(mail(&watcher).lines().count(), 2);
        assert_eq!(watch_log.figures().skipped, 3);
        watch_log.fetched(1, b"later", GetResult::Miss, NOW);
        let later = mail(&watcher);
        assert!(later.starts_with("skipped=3\nts=") && later.contains("key=later"), "{later}");
    }

    #[test]
    fn watchers_have_a_limit() {
        let (watch_log, clients) = (WatchLog::default(), Clients::default());
        let all: Vec<_> = (0..=WATCHERS).map(|_| client(&clients)).collect();
        for watcher in &all[..WATCHERS] {
            assert_eq!(watch_log.watch(watcher, b"evictions", 1), WatchResult::Begun);
        }
        assert_eq!(watch_log.watch(&all[WATCHERS], b"evictions", 1), WatchResult::TooMany);
        watch_log.leave(&all[3]);
        assert_eq!(watch_log.watch(&all[WATCHERS], b"evictions", 1), WatchResult::Begun);
    }
}
