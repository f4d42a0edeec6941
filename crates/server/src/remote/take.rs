//! Reads a record, with all checks: magic, version and checksum of the item, the page record's own
//! checksums, its key, its kind (page or marker), its age.

use bytes::Bytes;
use larder_proto::page::{Kind as PageKind, Meta, PageFlags, PageView, Verify, view};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    Remote,
    journal::{KNOWS_MOST, KnownPurges},
    key,
    pack::{join, unpack},
    record::{Bad, Head, Kind},
    skew,
};
use crate::clock::Ms;

/// Records that unpack to more than this count as large.
const LARGE_FROM: u64 = 1 << 20;

/// The fleet's answer.
pub(crate) enum Answer {
    /// A record.
    Record(Taken),
    /// No usable record.
    Nothing,
    /// It did not answer.
    Failed,
}

/// A record that was found good.
pub(crate) struct Taken {
    bytes: Bytes,
    /// Where the page record begins.
    start: usize,
    /// The purges known to its sender.
    pub(crate) knows: KnownPurges,
    /// Milliseconds to be added to its age.
    behind: Ms,
    /// Its place among the large ones, held until nobody needs the bytes any more: they may be
    /// copied into the store at leisure.
    _place: Option<OwnedSemaphorePermit>,
}

impl Taken {
    /// The page, with the times as this machine's clock would have them.
    pub(crate) fn page(&self) -> Option<PageView<'_>> {
        let record = self.bytes.get(self.start..)?;
        let mut page = view(record, record.len() as u64, Verify::Layout).ok()?;
        page.meta.response_time = page.meta.response_time.saturating_sub(self.behind);
        Some(page)
    }

    /// The page's body.
    pub(crate) fn body(&self, page: &PageView<'_>) -> &[u8] {
        let start = self.start + page.body_at;
        self.bytes.get(start..start + page.body_len as usize).unwrap_or_default()
    }
}

impl Remote {
    /// Whether what the fleet has may be believed: what others purged was heard of lately. May take
    /// a round through the fleet.
    pub(crate) async fn current(&self) -> bool {
        self.shared.reading.current(self.clock, self.settings().purge_interval).await
    }

    /// Asks for the record of a key.
    pub(crate) async fn get(&self, key: &[u8]) -> Answer {
        let Ok(_place) = self.lookups.acquire().await else { return Answer::Failed };
        let name = key::name(&self.settings().namespace, key);
        match self.backend.get(&name).await {
            Err(_) => Answer::Failed,
            Ok(None) => Answer::Nothing,
            Ok(Some(item)) => self.read(key, &name, item).await,
        }
    }

    /// The first of these keys that has a good record. Failed: none has, and one of them was not
    /// answered.
    pub(crate) async fn first(&self, keys: &[Vec<u8>]) -> Answer {
        if let [key] = keys {
            return self.get(key).await;
        }
        let Ok(_place) = self.lookups.acquire().await else { return Answer::Failed };
        let names: Vec<Vec<u8>> =
            keys.iter().map(|key| key::name(&self.settings().namespace, key)).collect();
        let items = self.backend.get_many(&names).await;
        let mut failed = items.len() != keys.len();
        for ((key, name), item) in keys.iter().zip(&names).zip(items) {
            match item {
                Err(_) => failed = true,
                Ok(None) => {}
                Ok(Some(item)) => match self.read(key, name, item).await {
                    Answer::Record(taken) => return Answer::Record(taken),
                    Answer::Nothing => {}
                    Answer::Failed => failed = true,
                },
            }
        }
        if failed { Answer::Failed } else { Answer::Nothing }
    }

    /// Makes a record of an item, or says what it counts as.
    async fn read(&self, key: &[u8], name: &[u8], item: Bytes) -> Answer {
        let record = match self.record(name, item).await {
            Ok(Some(record)) => record,
            Ok(None) => return Answer::Nothing,
            Err(Unread::Bad(bad)) => return self.useless(bad),
            Err(Unread::Failed) => return Answer::Failed,
        };
        let Unpacked { bytes, sent, place } = record;
        let Some((knows, start)) = KnownPurges::decode(&bytes) else {
            return self.useless(Bad::Damaged);
        };
        let record = &bytes[start..];
        let Ok(page) = view(record, record.len() as u64, Verify::All) else {
            return self.useless(Bad::Damaged);
        };
        // Another page with the same hash, or one that somebody put there.
        let partial = page.meta.partial.is_some();
        if page.key != key
            || page.meta.kind == PageKind::HitForMiss
            || partial
            || is_copy(&page.meta)
        {
            return self.useless(Bad::Foreign);
        }
        let now = self.clock.now();
        // A server whose time stood still may have kept it: what was purged is not remembered for
        // so long.
        if sent + self.settings().max_expiry.as_millis() as Ms + skew::MOST < now {
            self.counters.stale.one();
            return Answer::Nothing;
        }
        match self.shared.skew.behind(sent, now) {
            Some(behind) => Answer::Record(Taken { bytes, start, knows, behind, _place: place }),
            None => {
                self.counters.skewed.one();
                Answer::Nothing
            }
        }
    }

    fn useless(&self, bad: Bad) -> Answer {
        match bad {
            Bad::Damaged => self.counters.damaged.one(),
            Bad::Foreign => self.counters.foreign.one(),
        }
        Answer::Nothing
    }

    /// The bytes of the page record. None: parts are missing.
    async fn record(&self, name: &[u8], item: Bytes) -> Result<Option<Unpacked>, Unread> {
        let (head, payload) = Head::decode(&item)?;
        // As long as its sender says, and no longer: a page that would not be sent is not taken
        // either.
        let most = self.settings().page_size + KNOWS_MOST as u64;
        if head.record > most || head.payload > most {
            return Err(Bad::Foreign.into());
        }
        match head.kind {
            Kind::Whole => {
                let payload = item.slice_ref(payload);
                let place = match head.compressed && head.record > LARGE_FROM {
                    true => Some(self.large_place().await?),
                    false => None,
                };
                Ok(Some(Unpacked { bytes: unpack(&head, payload).await?, sent: head.sent, place }))
            }
            Kind::Index(parts) => {
                let place = Some(self.large_place().await?);
                let names: Vec<Vec<u8>> =
                    (0..parts).map(|n| key::part(name, head.write, n)).collect();
                let mut items = Vec::with_capacity(names.len());
                for item in self.backend.get_many(&names).await {
                    match item.map_err(|_| Unread::Failed)? {
                        Some(item) => items.push(item),
                        None => return Ok(None),
                    }
                }
                let payload = join(&head, items.iter().map(|item| &item[..]))?;
                drop(items);
                let bytes = unpack(&head, payload.into()).await?;
                Ok(Some(Unpacked { bytes, sent: head.sent, place }))
            }
            Kind::Part(_) => Err(Bad::Foreign.into()),
        }
    }
}

impl Remote {
    async fn large_place(&self) -> Result<OwnedSemaphorePermit, Unread> {
        self.large.clone().acquire_owned().await.map_err(|_| Unread::Failed)
    }
}

/// A page record as it was sent, and when.
struct Unpacked {
    bytes: Bytes,
    sent: Ms,
    place: Option<OwnedSemaphorePermit>,
}

/// Why there is no record.
enum Unread {
    Bad(Bad),
    Failed,
}

impl From<Bad> for Unread {
    fn from(bad: Bad) -> Self {
        Unread::Bad(bad)
    }
}

/// A copy of what lay in the fleet goes no further.
fn is_copy(meta: &Meta) -> bool {
    meta.flags.any(PageFlags::COPY)
}
