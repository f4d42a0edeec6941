//! The store against a plain map with a clock of its own. A small budget makes it evict: it may
//! lose entries, but an entry it finds must be the one stored last, and removed entries must not be
//! found. With shares, no group is above its ceiling or (for others' writes) taken below its floor;
//! without eviction nothing is lost at all.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Op {
    Set {
        ns: u8,
        key: u8,
        len: usize,
        ttl: Option<u16>,
        flags: u32,
        tag: u8,
        version: Option<u8>,
        stale: bool,
    },
    Add {
        ns: u8,
        key: u8,
        len: usize,
    },
    Replace {
        ns: u8,
        key: u8,
        len: usize,
    },
    Cas {
        ns: u8,
        key: u8,
        len: usize,
        right: bool,
    },
    Append {
        ns: u8,
        key: u8,
        len: usize,
        front: bool,
    },
    Incr {
        ns: u8,
        key: u8,
        delta: u64,
        down: bool,
    },
    Touch {
        ns: u8,
        key: u8,
        ttl: Option<u16>,
    },
    Claim {
        ns: u8,
        key: u8,
    },
    Same {
        ns: u8,
        key: u8,
        len: usize,
        verb: u8,
        meddle: u8,
    },
    Random {
        ns: u8,
        pick: u64,
    },
    Delete {
        ns: u8,
        key: u8,
    },
    DeleteIf {
        ns: u8,
        key: u8,
        right: bool,
    },
    Stale {
        ns: u8,
        key: u8,
    },
    Get {
        ns: u8,
        key: u8,
    },
    Fill {
        ns: u8,
        key: u8,
        len: usize,
        commit: bool,
        hint: bool,
        ttl: Option<u16>,
        tag: u8,
        condition: u8,
    },
    Flush {
        ns: u8,
    },
    Purge {
        ns: u8,
        tag: u8,
        soft: bool,
    },
    Wait {
        ms: u16,
    },
    Sweep,
    Crowd {
        from: u16,
        number: u16,
    },
    Walk {
        ns: u8,
    },
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..300usize, 3 => 300..70_000usize, 1 => 200_000..900_000usize]
}

fn ttl() -> impl Strategy<Value = Option<u16>> {
    prop_oneof![2 => Just(None), 3 => (0..5000u16).prop_map(Some)]
}

fn op() -> impl Strategy<Value = Op> {
    let (ns, key, tag) = (0..2u8, 0..12u8, 0..4u8);
    let at = (ns.clone(), key);
    prop_oneof![
        6 => (at.clone(), len(), ttl(), 0..3u32, tag.clone(), prop::option::of(0..9u8),
            any::<bool>())
            .prop_map(|((ns, key), len, ttl, flags, tag, version, stale)| Op::Set { ns, key, len,
                ttl, flags, tag, version, stale }),
        3 => at.clone().prop_map(|(ns, key)| Op::Claim { ns, key }),
        4 => (at.clone(), len(), 0..3u8, 0..5u8)
            .prop_map(|((ns, key), len, verb, meddle)| Op::Same { ns, key, len, verb, meddle }),
        1 => (ns.clone(), any::<u64>()).prop_map(|(ns, pick)| Op::Random { ns, pick }),
        2 => (at.clone(), len()).prop_map(|((ns, key), len)| Op::Add { ns, key, len }),
        2 => (at.clone(), len()).prop_map(|((ns, key), len)| Op::Replace { ns, key, len }),
        2 => (at.clone(), len(), any::<bool>()).prop_map(|((ns, key), len, right)| Op::Cas { ns,
            key, len, right }),
        2 => (at.clone(), len(), any::<bool>()).prop_map(|((ns, key), len,
            front)| Op::Append { ns, key, len, front }),
        2 => (at.clone(), any::<u64>(), any::<bool>())
            .prop_map(|((ns, key), delta, down)| Op::Incr { ns, key, delta, down }),
        3 => (at.clone(), ttl()).prop_map(|((ns, key), ttl)| Op::Touch { ns, key, ttl }),
        2 => at.clone().prop_map(|(ns, key)| Op::Delete { ns, key }),
        1 => (at.clone(), any::<bool>()).prop_map(|((ns, key), right)| Op::DeleteIf { ns, key,
            right }),
        2 => at.clone().prop_map(|(ns, key)| Op::Stale { ns, key }),
        8 => at.clone().prop_map(|(ns, key)| Op::Get { ns, key }),
        3 => (at, len(), any::<bool>(), any::<bool>(), ttl(), tag.clone(), 0..5u8)
            .prop_map(|((ns, key), len, commit, hint, ttl, tag, condition)| Op::Fill { ns, key,
                len, commit, hint, ttl, tag, condition }),
        1 => ns.clone().prop_map(|ns| Op::Flush { ns }),
        1 => (ns.clone(), tag, any::<bool>()).prop_map(|(ns, tag, soft)| Op::Purge { ns, tag,
            soft }),
            3 => (0..3000u16).prop_map(|ms| Op::Wait { ms }),
        2 => Just(Op::Sweep),
        1 => (any::<u16>(), 1..2000u16).prop_map(|(from, number)| Op::Crowd { from, number }),
        1 => ns.prop_map(|ns| Op::Walk { ns }),
    ]
}

#[derive(Clone, Debug)]
struct Known {
    value: Vec<u8>,
    flags: u32,
    expires: Option<Ms>,
    version: u64,
    stale: bool,
    claimed: bool,
    tag: Option<u8>,
}

/// A counter's value as memcached reads it: the first word, with or without a sign.
fn number(value: &[u8]) -> Option<u64> {
    let word = value.split(|b| b" \t\n\x0b\x0c\r".contains(b)).find(|word| !word.is_empty())?;
    let word = std::str::from_utf8(word).ok()?;
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    let n: u64 = digits.parse().ok().filter(|_| digits.as_bytes()[0].is_ascii_digit())?;
    let n = if word.starts_with('-') { n.wrapping_neg() } else { n };
    (!word.starts_with('-') || n <= i64::MAX as u64).then_some(n)
}

struct Model {
    store: Arc<Store>,
    known: HashMap<(u8, u8), Known>,
    now: Ms,
    written: u64,
    evict: bool,
    ceiling: Option<(usize, u64)>,
}

impl Model {
    fn new(options: Options) -> Model {
        let (evict, share) = (options.evict, options.shares.first().map(|s| s.ceiling));
        let store = Store::open(options).unwrap();
        let ceiling = share.map(|c| (c, store.share_slack()));
        let known = HashMap::new();
        Model { store: Arc::new(store), known, now: 1_700_000_000_000, written: 0, evict, ceiling }
    }

    /// A value that no other write has.
    fn value(&mut self, len: usize) -> Vec<u8> {
        self.written += 1;
        let n = self.written;
        (0..len as u64).map(|i| (n * 131 + i * 7 + i / 256 * n) as u8).collect()
    }

    fn expires(&self, ttl: Option<u16>) -> Option<Ms> {
        ttl.map(|t| self.now + Ms::from(t))
    }

    /// The store's entry for a key now, checked against the allowed ones. An eviction is recorded.
    fn check(&mut self, at: (u8, u8)) -> Option<Known> {
        let live = self.known.get(&at).filter(|k| k.expires.is_none_or(|t| t > self.now)).cloned();
        let entry = self.store.peek(Namespace(at.0), &[at.1], self.now);
        match (&entry, &live) {
            (None, _) => {
                assert!(self.evict || live.is_none(), "{at:?} was lost");
                self.known.remove(&at);
                return None;
            }
            (Some(e), None) => panic!("{at:?} should not be there: {:?}", e.info()),
            (Some(e), Some(k)) => {
                let value: Vec<u8> = e.chunks().flatten().copied().collect();
                assert!(
                    value == k.value,
                    "{at:?}: {} bytes, not the last {} written",
                    value.len(),
                    k.value.len()
                );
                assert_eq!(
                    (e.flags(), e.expires(), e.version(), e.stale(), e.claimed()),
                    (k.flags, k.expires, k.version, k.stale, k.claimed)
                );
                assert_eq!(e.key(), [at.1]);
            }
        }
        live
    }

    fn learn(
        &mut self,
        at: (u8, u8),
        value: Vec<u8>,
        result: Result<u64, PutError>,
        like: Option<&Known>,
    ) {
        if result == Err(PutError::NotFound) && self.known.contains_key(&at) {
            // Making room for the new value evicted the old one: as if it had been evicted a moment
            // earlier.
            assert!(self.check(at).is_none(), "{at:?} is there after all");
            return;
        }
        if !self.evict && result == Err(PutError::Full) {
            return;
        }
        // Large values take whole segments, and these must not be more than the ceiling.
        let taken = value.len() + self.store.totals().segment as usize + 1000;
        if self.ceiling.is_some_and(|(c, _)| taken > c) && result == Err(PutError::TooLarge) {
            return;
        }
        let version = result.expect("there is room and the condition holds");
        assert!(
            version < 9 || self.known.values().all(|k| k.version != version),
            "versions are unique"
        );
        let base = Known {
            value: Vec::new(),
            flags: 0,
            expires: None,
            version,
            stale: false,
            claimed: false,
            tag: None,
        };
        let like = like.cloned().map(|k| Known { version, ..k }).unwrap_or(base);
        self.known.insert(at, Known { value, claimed: false, ..like });
        if let Some((ceiling, slack)) = self.ceiling {
            let held: usize =
                (0..12).filter_map(|key| self.check((0, key))).map(|k| k.value.len()).sum();
            assert!(held as u64 <= ceiling as u64 + slack, "{held} bytes in the first group");
        }
    }

    fn put<'a>(value: &'a [&'a [u8]]) -> Put<'a> {
        Put { value, ..Put::default() }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Set { ns, key, len, ttl, flags, tag, version, stale } => {
                let version = version.map(u64::from);
                self.set(
                    (ns, key),
                    len,
                    ttl,
                    Known {
                        value: Vec::new(),
                        flags,
                        expires: None,
                        version: 0,
                        stale,
                        claimed: false,
                        tag: (tag != 0).then_some(tag),
                    },
                    version,
                )
            }
            Op::Claim { ns, key } => {
                let had = self.check((ns, key));
                let entry = self.store.peek(Namespace(ns), &[key], self.now);
                assert_eq!(entry.map(|e| e.claim()), had.map(|k| !k.claimed));
                self.known.entry((ns, key)).and_modify(|k| k.claimed = true);
            }
            Op::Same { ns, key, len, verb, meddle } => self.same((ns, key), len, verb, meddle),
            Op::Random { ns, pick } => {
                let key = random_key(&self.store, Namespace(ns), pick, self.now);
                let any = (0..12).any(|key| self.check((ns, key)).is_some());
                assert_eq!(key.is_some(), any);
                assert!(key.is_none_or(|k| self.check((ns, k[0])).is_some()));
            }
            Op::Add { ns, key, len } => {
                self.conditional(ns, key, len, |had| !had, PutError::Exists, Store::add)
            }
            Op::Replace { ns, key, len } => {
                self.conditional(ns, key, len, |had| had, PutError::NotFound, Store::replace)
            }
            Op::Cas { ns, key, len, right } => self.cas(ns, key, len, right),
            Op::Append { ns, key, len, front } => self.append(ns, key, len, front),
            Op::Incr { ns, key, delta, down } => self.incr(ns, key, delta, down),
            Op::Touch { ns, key, ttl } => self.touch(ns, key, ttl),
            Op::Delete { ns, key } => {
                let had = self.check((ns, key)).is_some();
                assert_eq!(self.store.delete(Namespace(ns), &[key], self.now), had);
                self.known.remove(&(ns, key));
            }
            Op::DeleteIf { ns, key, right } => {
                let Some(k) = self.check((ns, key)) else { return };
                assert_eq!(
                    self.store.delete_if(Namespace(ns), &[key], k.version + u64::from(!right)),
                    right
                );
                if right {
                    self.known.remove(&(ns, key));
                }
            }
            Op::Stale { ns, key } => {
                let had = self.check((ns, key)).is_some();
                assert_eq!(self.store.mark_stale(Namespace(ns), &[key], self.now), had);
                self.known.entry((ns, key)).and_modify(|k| k.stale = true);
            }
            Op::Get { ns, key } => {
                let had = self.check((ns, key)).is_some();
                assert_eq!(self.store.get(Namespace(ns), &[key], self.now).is_some(), had);
            }
            Op::Fill { ns, key, len, commit, hint, ttl, tag, condition } => {
                self.fill((ns, key), len, commit, hint, ttl, tag, condition)
            }
            Op::Flush { ns } => {
                self.store.flush(Namespace(ns), self.now);
                self.known.retain(|at, _| at.0 != ns);
            }
            Op::Purge { ns, tag, soft } => self.purge(ns, tag, soft),
            Op::Wait { ms } => self.now += Ms::from(ms),
            Op::Sweep => {
                self.store.sweep(self.now, 4 << 20);
            }
            Op::Crowd { from, number } => self.crowd(from, number),
            Op::Walk { ns } => self.walk(ns),
        }
    }

    fn set(
        &mut self,
        at: (u8, u8),
        len: usize,
        ttl: Option<u16>,
        like: Known,
        version: Option<u64>,
    ) {
        let value = self.value(len);
        let expires = self.expires(ttl);
        let tags: &[&[u8]] = &[&[like.tag.unwrap_or(0)]];
        let put = Put {
            value: &[&value[..len / 2], &value[len / 2..]],
            flags: like.flags,
            expires,
            tags: &tags[..like.tag.iter().len()],
            version,
            stale: like.stale,
            claimed: false,
        };
        self.check(at);
        let result = self.store.set(Namespace(at.0), &[at.1], put, self.now);
        assert!(version.is_none() || result.is_err() || result.ok() == version);
        self.learn(at, value, result, Some(&Known { expires, ..like }));
    }

    /// Writes, touches or deletes exactly the entry found before, while another (or none) was
    /// stored in between.
    fn same(&mut self, at: (u8, u8), len: usize, verb: u8, meddle: u8) {
        if self.check(at).is_none() {
            return;
        }
        let (store, ns, name) = (self.store.clone(), Namespace(at.0), [at.1]);
        let Some(entry) = store.peek(ns, &name, self.now) else { panic!("it was there") };
        match meddle {
            0 => self.touch(at.0, at.1, Some(4000)),
            1 => self.append(at.0, at.1, 3, false),
            2 => self.crowd(77, 300),
            _ => {}
        }
        let now = self.check(at);
        let is_same = now.as_ref().is_some_and(|k| {
            k.version == entry.version()
                && k.expires == entry.expires()
                && k.value.len() as u64 == entry.len()
        });
        let value = self.value(len);
        match verb {
            0 => {
                let result = store.put(ns, &name, Self::put(&[&value]), If::Same(&entry), self.now);
                if is_same {
                    self.learn(at, value, result, None);
                } else {
                    let wanted = if now.is_some() { PutError::Exists } else { PutError::NotFound };
                    let gone = now.is_some() && self.check(at).is_none();
                    let full = result == Err(PutError::Full) && !self.evict;
                    let large = result == Err(PutError::TooLarge) && self.ceiling.is_some();
                    assert!(result == Err(wanted) || gone && result.is_err() || full || large);
                }
            }
            1 => {
                assert_eq!(store.delete_same(&entry, self.now), is_same);
                is_same.then(|| self.known.remove(&at));
            }
            _ => {
                let expires = self.expires(Some(1234));
                let touched = store.touch_same(&entry, expires, self.now).is_ok();
                assert!(touched == is_same || !touched && self.check(at).is_none() || !self.evict);
                if touched {
                    self.known.entry(at).and_modify(|k| k.expires = expires);
                }
            }
        }
    }

    fn conditional(
        &mut self,
        ns: u8,
        key: u8,
        len: usize,
        wanted: impl Fn(bool) -> bool,
        error: PutError,
        verb: impl Fn(&Store, Namespace, &[u8], Put<'_>, Ms) -> Result<u64, PutError>,
    ) {
        let had = self.check((ns, key)).is_some();
        let value = self.value(len);
        let result = verb(&self.store, Namespace(ns), &[key], Self::put(&[&value]), self.now);
        if wanted(had) {
            self.learn((ns, key), value, result, None);
        } else {
            assert_eq!(result, Err(error));
        }
    }

    fn cas(&mut self, ns: u8, key: u8, len: usize, right: bool) {
        let had = self.check((ns, key));
        let value = self.value(len);
        let expected = had.as_ref().map_or(1, |k| k.version + u64::from(!right));
        let result =
            self.store.cas(Namespace(ns), &[key], Self::put(&[&value]), expected, self.now);
        match (had, right) {
            (Some(_), _) if !self.evict && result == Err(PutError::Full) => {}
            (None, _) => assert_eq!(result, Err(PutError::NotFound)),
            (Some(_), false) => assert_eq!(result, Err(PutError::Exists)),
            (Some(_), true) => self.learn((ns, key), value, result, None),
        }
    }

    fn append(&mut self, ns: u8, key: u8, len: usize, front: bool) {
        let had = self.check((ns, key));
        let more = self.value(len);
        let verb = if front { Store::prepend } else { Store::append };
        let result = verb(&self.store, Namespace(ns), &[key], &[&more], self.now);
        match had {
            None => assert_eq!(result, Err(PutError::NotFound)),
            Some(k) if k.value.len() + len > 4 << 20 => {
                // Enough: half of the memory is the limit.
                self.known.remove(&(ns, key));
                self.store.delete(Namespace(ns), &[key], self.now);
            }
            Some(k) => {
                let value = if front {
                    [more, k.value.clone()].concat()
                } else {
                    [k.value.clone(), more].concat()
                };
                self.learn((ns, key), value, result, Some(&Known { stale: false, ..k }));
            }
        }
    }

    fn incr(&mut self, ns: u8, key: u8, delta: u64, down: bool) {
        let had = self.check((ns, key));
        let verb = if down { Store::decr } else { Store::incr };
        let result = verb(&self.store, Namespace(ns), &[key], delta, self.now);
        let Some(k) = had else {
            assert_eq!(result, Err(PutError::NotFound));
            return;
        };
        let number = number(&k.value);
        match number {
            Some(n) => {
                let new = if down { n.saturating_sub(delta) } else { n.wrapping_add(delta) };
                assert!(result.is_err() || result.is_ok_and(|c| c.value == new));
                let width = k.value.len();
                let text = format!("{new:width$}").into_bytes();
                let text =
                    [text.trim_ascii_start(), &b" ".repeat(width)].concat()[..text.len()].to_vec();
                let like = Known { stale: false, ..k };
                self.learn((ns, key), text, result.map(|c| c.version), Some(&like));
            }
            None => {
                assert_eq!(result, Err(PutError::NotNumber));
                // Set a number, so that counters are exercised.
                let result = self.store.set(Namespace(ns), &[key], Self::put(&[b"41"]), self.now);
                self.learn((ns, key), b"41".to_vec(), result, None);
            }
        }
    }

    fn touch(&mut self, ns: u8, key: u8, ttl: Option<u16>) {
        let had = self.check((ns, key)).is_some();
        let expires = self.expires(ttl);
        let result = self.store.touch(Namespace(ns), &[key], expires, self.now);
        let touched = result.is_ok();
        // An item without a field for its expiry is written anew: a large one may find no room
        // beside itself.
        let no_room = had && matches!(result, Err(PutError::Full | PutError::TooLarge));
        assert!(touched == had || no_room || !self.evict || self.check((ns, key)).is_none());
        if touched {
            self.known.entry((ns, key)).and_modify(|k| k.expires = expires);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn fill(
        &mut self,
        at: (u8, u8),
        len: usize,
        commit: bool,
        hint: bool,
        ttl: Option<u16>,
        tag: u8,
        condition: u8,
    ) {
        let value = self.value(len);
        let expires = self.expires(ttl);
        let o = FillOptions {
            flags: 4,
            expires,
            size_hint: hint.then_some(len as u64),
            contiguous: len % 70_000,
        };
        self.check(at);
        let (store, ns) = (self.store.clone(), Namespace(at.0));
        let started = store.fill(ns, &[at.1], o, self.now);
        if !self.evict && started.is_err() {
            return;
        }
        let mut fill = started.unwrap();
        let reader = fill.reader();
        for part in value.chunks(40_000) {
            if fill.write(part).is_err() {
                assert!(!self.evict);
                return;
            }
        }
        let tag = (tag != 0).then_some(tag);
        if let Some(t) = tag {
            fill.set_tags(&[&[t]]);
        }
        if commit {
            let had = self.check(at);
            let version = had.as_ref().map_or(77, |k| k.version);
            let (condition, met) = match condition {
                1 => (If::Absent, had.is_none()),
                2 => (If::Present, had.is_some()),
                3 => (If::Version(version), had.is_some()),
                _ => (If::Always, true),
            };
            let put =
                Put { flags: 4, expires, stale: hint, version: ttl.map(|_| 5), ..Put::default() };
            let result = fill.commit_put(put, condition, self.now);
            let like = Known {
                value: Vec::new(),
                flags: 4,
                expires,
                version: 0,
                stale: hint,
                claimed: false,
                tag,
            };
            if met {
                self.learn(at, value.clone(), result, Some(&like));
            } else {
                assert!(result.is_err());
            }
        } else {
            drop(fill);
        }
        self.check(at);
        let mut got = Vec::new();
        while got.len() < len {
            got.extend_from_slice(reader.chunk_at(got.len() as u64));
        }
        assert!(got == value);
    }

    fn purge(&mut self, ns: u8, tag: u8, soft: bool) {
        (0..12).for_each(|key| {
            self.check((ns, key));
        });
        let tagged = |k: &Known| k.tag == Some(tag) && tag != 0;
        let live = self.known.iter().filter(|(at, k)| at.0 == ns && tagged(k)).count() as u64;
        assert_eq!(self.store.purge_tag(Namespace(ns), &[tag], soft, self.now), live);
        if soft {
            self.known
                .iter_mut()
                .filter(|(at, k)| at.0 == ns && tagged(k))
                .for_each(|(_, k)| k.stale = true);
        } else {
            self.known.retain(|at, k| at.0 != ns || !tagged(k));
        }
    }

    /// Other namespaces need the memory.
    fn crowd(&mut self, from: u16, number: u16) {
        for n in from..from.saturating_add(number) {
            let value = [n as u8; 1500];
            let result =
                self.store.set(Namespace(9), &n.to_be_bytes(), Self::put(&[&value]), self.now);
            assert!(result.is_ok() || !self.evict && result == Err(PutError::Full), "{result:?}");
        }
    }

    fn walk(&mut self, ns: u8) {
        let mut expected: Vec<u8> =
            (0..12).filter(|key| self.check((ns, *key)).is_some()).collect();
        let mut seen = Vec::new();
        let mut cursor = Some(Cursor::START);
        while let Some(c) = cursor {
            cursor = self.store.scan(Namespace(ns), c, 500, &mut |key, info| {
                if info.expires.is_none_or(|t| t > self.now) {
                    seen.push(key[0]);
                }
                Keep::Keep
            });
        }
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected);
    }
}

fn run(options: Options, ops: Vec<Op>) {
    let options = Options { budget: 9 << 20, seed: 3, threads: 1, ..options };
    let mut model = Model::new(options);
    ops.into_iter().for_each(|op| model.apply(op));
    for at in (0..2).flat_map(|ns| (0..12).map(move |key| (ns, key))) {
        model.check(at);
    }
    let items = |ns| model.store.stats(Namespace(ns)).items;
    let known = model.known.len() as u64;
    assert!(items(0) + items(1) >= known);
    // When everything is removed the counters are even.
    (0..10).for_each(|ns| model.store.flush(Namespace(ns), model.now));
    (0..20).for_each(|i| {
        model.store.sweep(model.now + i * 2000, 64 << 20);
    });
    for ns in 0..10 {
        let s = model.store.stats(Namespace(ns));
        assert_eq!((s.items, s.bytes), (0, 0), "namespace {ns}");
    }
    let t = model.store.totals();
    assert_eq!((t.chained, t.staging, t.limbo), (0, 0, 0), "{t:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000,
        failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn s3fifo_never_lies(ops in prop::collection::vec(op(), 1..250)) {
        run(Options::default(), ops);
    }

    #[test]
    fn fifo_never_lies(ops in prop::collection::vec(op(), 1..150)) {
        run(Options { policy: Policy::Fifo, ..Options::default() }, ops);
    }

    #[test]
    fn shares_never_lie(
        ops in prop::collection::vec(op(), 1..250), ceiling in (1usize << 20)..(4 << 20),
    ) {
        let share = |ns, floor, ceiling| Share { first: Namespace(ns), last: Namespace(ns), floor,
            ceiling };
        let shares = vec![share(0, ceiling / 2, ceiling), share(1, 0, usize::MAX)];
        run(Options { shares, ..Options::default() }, ops);
    }

    #[test]
    fn nothing_is_lost_without_eviction(ops in prop::collection::vec(op(), 1..250)) {
        run(Options { evict: false, ..Options::default() }, ops);
    }
}

/// The end of a walk for a random key, in steps of a few places.
fn random_key(s: &Store, ns: Namespace, pick: u64, now: u64) -> Option<Vec<u8>> {
    let mut at = Cursor::START;
    loop {
        match s.random_key(ns, pick, at, 7, now) {
            Ok(key) => return Some(key),
            Err(next) => at = next?,
        }
    }
}
