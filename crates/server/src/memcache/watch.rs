//! `watch`: a log of what happens, sent to whoever asked for it (protocol.txt, "Watchers"), and the
//! one switch that says whether anybody wants to know.
//!
//! A line is made only while there is a watcher for its kind: otherwise the hot path pays one
//! relaxed load for this and for `stats detail` together. Lines go into the watchers' mail; what
//! does not fit there is skipped and counted, and a `skipped=<n>` line says so when there is room
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

/// Watchers at once. Each may have its buffer's size waiting (`-o watcher_logbuf_size`).
pub(crate) const WATCHERS: usize = 64;

/// `get` and its like.
pub(crate) const FETCHERS: u32 = 1;
/// Stores.
pub(crate) const MUTATIONS: u32 = 1 << 1;
/// Items dropped to make room.
pub(crate) const EVICTIONS: u32 = 1 << 2;
/// Connections that come and go.
pub(crate) const CONNEVENTS: u32 = 1 << 3;
/// `delete` and its like.
pub(crate) const DELETIONS: u32 = 1 << 4;
/// Not a watcher's: `stats detail` is on.
pub(crate) const DETAIL: u32 = 1 << 31;

/// The kinds a client may name. Those of memcached's proxy are accepted, as by a memcached without
/// one, and never come.
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

/// Who wants to know what. On lines of memory of its own: read by every command, written when
/// somebody begins or ends.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Eyes {
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
    /// Bytes that may wait for it.
    buffer: usize,
    /// Lines skipped that it was not told of.
    skipped: u64,
}

/// What watchers were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Watchers there are.
    pub(crate) watchers: u64,
    /// Lines made.
    pub(crate) written: u64,
    /// Lines sent, once per watcher.
    pub(crate) sent: u64,
    /// Lines not sent because a watcher did not keep up.
    pub(crate) skipped: u64,
}

/// What came of `watch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watching {
    /// The client is a watcher: nothing it sends is looked at any more.
    Begun,
    /// A kind that is none.
    Unknown,
    /// There are too many.
    TooMany,
}

impl Eyes {
    /// Does anybody want to know of these kinds?
    #[inline]
    pub(crate) fn any(&self, kinds: u32) -> bool {
        self.on.load(Relaxed) & kinds != 0
    }

    /// All that somebody wants to know of, in one load.
    #[inline]
    pub(crate) fn open(&self) -> u32 {
        self.on.load(Relaxed)
    }

    /// `stats detail on`, `off`.
    pub(crate) fn detail(&self, on: bool) {
        if on {
            self.on.fetch_or(DETAIL, Relaxed);
        } else {
            self.on.fetch_and(!DETAIL, Relaxed);
        }
    }

    /// The client becomes a watcher of the kinds named in `words`; without any, of fetchers (as in
    /// memcached).
    pub(crate) fn watch(&self, client: &Arc<Client>, words: &[u8], buffer: usize) -> Watching {
        let mut kinds = 0;
        let mut named = false;
        for word in words.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
            let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == word) else {
                return Watching::Unknown;
            };
            kinds |= kind;
            named = true;
        }
        let kinds = if named { kinds } else { FETCHERS };
        let mut watchers = self.watchers.lock();
        watchers.list.retain(|watcher| watcher.client.strong_count() > 0);
        if watchers.list.len() >= WATCHERS {
            return Watching::TooMany;
        }
        watchers.list.push(Watcher { client: Arc::downgrade(client), kinds, buffer, skipped: 0 });
        // It is there to be told things: its silence is no reason to close it.
        client.set_stays(true);
        self.look(&watchers);
        Watching::Begun
    }

    /// The client is gone, watcher or not.
    pub(crate) fn leave(&self, client: &Client) {
        if self.open() & !DETAIL == 0 {
            return; // Nobody watches; one that watches for nothing is found by its weak count.
        }
        let mut watchers = self.watchers.lock();
        watchers
            .list
            .retain(|watcher| watcher.client.upgrade().is_some_and(|known| known.id != client.id));
        self.look(&watchers);
    }

    /// Opens the eyes for what the watchers want, no more.
    fn look(&self, watchers: &Watchers) {
        let wanted = watchers.list.iter().fold(0, |kinds, watcher| kinds | watcher.kinds);
        let _ = self.on.fetch_update(Relaxed, Relaxed, |on| Some(on & DETAIL | wanted));
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut watchers = self.watchers.lock();
        watchers.list.retain(|watcher| watcher.client.strong_count() > 0);
        self.look(&watchers);
        Figures {
            watchers: watchers.list.len() as u64,
            written: self.gid.load(Relaxed),
            sent: watchers.sent,
            skipped: watchers.skipped,
        }
    }

    /// Sends a line of `kind` to those who watch for it. `rest`: appends what stands behind the
    /// number of the line.
    #[cold]
    fn tell(&self, kind: u32, now: Ms, rest: impl FnOnce(&mut Vec<u8>)) {
        let mut line = Vec::with_capacity(256);
        let gid = self.gid.fetch_add(1, Relaxed) + 1;
        // Writing to a Vec does not fail. Time is known to the millisecond.
        let _ = write!(line, "ts={}.{:03}000 gid={gid} type=", now / 1000, now % 1000);
        rest(&mut line);
        // Alone, as in memcached.
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
            let mut told = format!("skipped={}\n", self.skipped).into_bytes();
            told.extend_from_slice(line);
            client.push(&told, self.buffer)
        };
        self.skipped = if sent { 0 } else { self.skipped + 1 };
        sent
    }
}

/// What a `get` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A value of so many bytes.
    Hit(u64),
    /// Nothing.
    Miss,
    /// What had expired.
    Expired,
    /// What had been flushed.
    Flushed,
}

/// A store as watchers see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store<'a> {
    pub(crate) key: &'a [u8],
    /// What came of it: `stored`, `not_stored`, `exists`, `not_found`, `too_large`, `no_memory`.
    pub(crate) status: &'static str,
    /// Which command: `set`, `add`, ...
    pub(crate) command: &'static str,
    pub(crate) expires: Option<Ms>,
    /// Bytes of the item's value.
    pub(crate) size: u64,
    /// Bytes sent.
    pub(crate) sent: u64,
}

/// An item dropped to make room, as watchers see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) fetched: bool,
    pub(crate) expires: Option<Ms>,
    pub(crate) last_access: Ms,
    /// Bytes of value.
    pub(crate) size: u64,
}

impl Eyes {
    /// A key was asked for.
    pub(crate) fn fetched(&self, cfd: u64, key: &[u8], found: Found, now: Ms) {
        let (status, class, size) = match found {
            Found::Hit(size) => ("found", 1, size),
            Found::Miss => ("not_found", 0, 0),
            Found::Expired => ("expired", 0, 0),
            Found::Flushed => ("flushed", 0, 0),
        };
        self.tell(FETCHERS, now, |line| {
            line.extend_from_slice(b"item_get key=");
            encode(key, line);
            let _ = write!(line, " status={status} clsid={class} cfd={cfd} size={size}");
        });
    }

    /// A value was sent to be stored.
    pub(crate) fn stored(&self, cfd: u64, store: Store<'_>, now: Ms) {
        self.tell(MUTATIONS, now, |line| {
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

    /// A key was deleted.
    pub(crate) fn deleted(&self, cfd: u64, key: &[u8], command: &'static str, size: u64, now: Ms) {
        self.tell(DELETIONS, now, |line| {
            line.extend_from_slice(b"deleted key=");
            encode(key, line);
            let _ = write!(line, " cmd={command} clsid=1 cfd={cfd} size={size}");
        });
    }

    /// An item was dropped to make room.
    pub(crate) fn evicted(&self, item: Dropped<'_>, now: Ms) {
        self.tell(EVICTIONS, now, |line| {
            line.extend_from_slice(b"eviction key=");
            encode(item.key, line);
            let fetch = if item.fetched { "yes" } else { "no" };
            // -1 without expiry, as in memcached.
            let ttl = item.expires.map_or(-1, |_| left(item.expires, now));
            let unread = now.saturating_sub(item.last_access) / 1000;
            let _ = write!(line, " fetch={fetch} ttl={ttl} la={unread} clsid=1 size={}", item.size);
        });
    }

    /// A client connected.
    pub(crate) fn connected(&self, client: &Client, now: Ms) {
        self.tell(CONNEVENTS, now, |line| {
            line.extend_from_slice(b"conn_new ");
            whence(client, line);
            let _ = write!(line, " cfd={}", client.id);
        });
    }

    /// A client is gone. `reason`: `normal`, `error`, `idle_timeout`, `shutdown`.
    pub(crate) fn disconnected(&self, client: &Client, reason: &'static str, now: Ms) {
        self.tell(CONNEVENTS, now, |line| {
            line.extend_from_slice(b"conn_close ");
            whence(client, line);
            let _ = write!(line, " reason={reason} cfd={}", client.id);
        });
    }
}

fn whence(client: &Client, line: &mut Vec<u8>) {
    let _ = match client.peer {
        Peer::Tcp(addr) => write!(line, "rip={} rport={} transport=tcp", addr.ip(), addr.port()),
        Peer::Udp(addr) => write!(line, "rip={} rport={} transport=udp", addr.ip(), addr.port()),
        Peer::Unix => write!(line, "rip=unix rport=0 transport=local"),
    };
}

/// Seconds until it expires, 0 for never.
fn left(expires: Option<Ms>, now: Ms) -> i64 {
    expires.map_or(0, |at| (at as i64 - now as i64).div_euclid(1000))
}

/// Appends a key with every byte but letters, digits and `-._~` as `%XX` (RFC 3986, 2.1).
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
        clients.enter(Peer::Tcp(([127, 0, 0, 1], 4711).into()), "127.0.0.1:11211".into(), 0)
    }

    fn mail(client: &Client) -> String {
        let mut bytes = Vec::new();
        client.take_mail(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    const NOW: Ms = 1_795_200_944_007;

    #[test]
    fn lines_are_memcacheds() {
        let (eyes, clients) = (Eyes::default(), Clients::default());
        let watcher = client(&clients);
        let kinds = b"fetchers mutations deletions evictions connevents";
        assert_eq!(eyes.watch(&watcher, kinds, 10_000), Watching::Begun);
        eyes.fetched(25, b"a:b", Found::Hit(3), NOW);
        eyes.fetched(25, b"n", Found::Expired, NOW);
        let store = Store {
            key: b"n",
            status: "stored",
            command: "set",
            expires: Some(NOW + 100_000),
            size: 1,
            sent: 1,
        };
        eyes.stored(26, store, NOW);
        eyes.deleted(26, b"n", "delete", 1, NOW);
        let item = Dropped {
            key: b"old",
            fetched: true,
            expires: None,
            last_access: NOW - 7999,
            size: 70,
        };
        eyes.evicted(item, NOW);
        eyes.connected(&watcher, NOW);
        eyes.disconnected(&watcher, "normal", NOW);
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
    fn only_what_is_watched_for() {
        let (eyes, clients) = (Eyes::default(), Clients::default());
        let (one, two) = (client(&clients), client(&clients));
        assert!(!eyes.any(u32::MAX));
        assert_eq!(eyes.watch(&one, b"fetchers nonsense", 100), Watching::Unknown);
        assert_eq!(eyes.watch(&one, b"", 100), Watching::Begun);
        assert_eq!(eyes.watch(&two, b"connevents", 100), Watching::Begun);
        assert!(eyes.any(FETCHERS) && eyes.any(CONNEVENTS) && !eyes.any(MUTATIONS | DETAIL));
        eyes.fetched(1, b"k", Found::Miss, NOW);
        assert!(mail(&two).is_empty() && mail(&one).contains("key=k"));
        eyes.detail(true);
        eyes.leave(&one);
        assert!(!eyes.any(FETCHERS) && eyes.any(CONNEVENTS) && eyes.any(DETAIL));
        eyes.detail(false);
        clients.leave(&two);
        drop(two);
        assert_eq!(eyes.figures(), Figures { watchers: 0, written: 1, sent: 1, skipped: 0 });
        assert!(!eyes.any(u32::MAX));
    }

    #[test]
    fn a_watcher_that_does_not_read_is_told_what_it_missed() {
        let (eyes, clients) = (Eyes::default(), Clients::default());
        let watcher = client(&clients);
        eyes.watch(&watcher, b"fetchers", 200);
        (0..5).for_each(|_| eyes.fetched(1, b"k", Found::Miss, NOW));
        assert_eq!(mail(&watcher).lines().count(), 2);
        assert_eq!(eyes.figures().skipped, 3);
        eyes.fetched(1, b"later", Found::Miss, NOW);
        let later = mail(&watcher);
        assert!(later.starts_with("skipped=3\nts=") && later.contains("key=later"), "{later}");
    }

    #[test]
    fn watchers_have_a_limit() {
        let (eyes, clients) = (Eyes::default(), Clients::default());
        let all: Vec<_> = (0..=WATCHERS).map(|_| client(&clients)).collect();
        for watcher in &all[..WATCHERS] {
            assert_eq!(eyes.watch(watcher, b"evictions", 1), Watching::Begun);
        }
        assert_eq!(eyes.watch(&all[WATCHERS], b"evictions", 1), Watching::TooMany);
        eyes.leave(&all[3]);
        assert_eq!(eyes.watch(&all[WATCHERS], b"evictions", 1), Watching::Begun);
    }
}
