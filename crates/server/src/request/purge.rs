//! Purging: one page, all under a prefix, all with a tag, all that an expression means; for good,
//! or softly (stale from now on, served while a fresh one is fetched).
//!
//! A purge needs no request: the PURGE method and the admin API both end here. Pages that are being
//! fetched when a purge begins are delivered to those who wait and not kept, so that nothing
//! from before a purge outlives it.

use std::{sync::Arc, time::Duration};

use larder_proto::{
    http::key::{self, KeyParts},
    page::{Kind, PageView, Verify, view},
};
use larder_store::{Cursor, EntryInfo, Keep, Namespace};

use crate::page::{
    spelling::{self, Rules},
    tags::{path_tag, site_tag, url_tag},
};
use crate::request::object_pages::ObjectPages;
pub(crate) use crate::request::purge_history::History;
use crate::{
    clock::Ms,
    disk::{self, Means, Tier},
    family::Family,
    page::{ban::Ban, lookup::PAGES, published::OBJECT, variant::Marker, writer::PageWriter},
    remote::{self, Begun, Journalled, journal::What},
};

/// Most entries visited between two looks at other tasks.
const SCAN_STEP: usize = 1024;
/// Microseconds of a step after which the next one visits fewer.
const SCAN_TIME: u64 = 500;
/// Entries of a tag purged between two yields: each costs a lock of the index and one of the tags'
/// lists.
const TAGGED_STEP: usize = 512;

/// Carries purges out.
#[derive(Clone, Copy)]
pub(crate) struct Purger<'f> {
    pages: PageWriter<'f>,
    pub(crate) now: Ms,
    /// Stale from now on instead of gone.
    soft: bool,
    tiers: Tiers<'f>,
}

/// Tiers from which nothing is to come back. They have no softly purged pages: there they are gone.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tiers<'f> {
    pub(crate) disk: Option<&'f Arc<Tier>>,
    /// None where other Larders know of the purge already.
    pub(crate) fleet: Option<&'f remote::Shared>,
    /// Other caches, of which one may still have a page; None: they know already. They are told of
    /// single pages alone.
    pub(crate) family: Option<&'f Family>,
    /// Objects that are pages: a purge of the page deletes the object.
    pub(crate) objects: Option<&'f ObjectPages>,
}

/// A purge that has begun in the tiers.
struct Purging<'p> {
    fleet: Option<Begun<'p>>,
    disk: Option<disk::Begun<'p>>,
}

impl Purging<'_> {
    /// It was carried out here. Whether the disk had a page of it.
    fn done(self) -> bool {
        // The disk first: it must not say before that all of the fleet's purges are carried out.
        let found = self.disk.is_some_and(|begun| begun.found());
        if let Some(begun) = self.fleet {
            begun.done();
        }
        found
    }
}

/// The keys of a page: the same page may have been asked for by http and by https (RFC 9110 section
/// 4.2.2 tells them apart, whoever edits a page means both), each at its own default port.
pub(crate) fn keys(host: &str, port: Option<u16>, path: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for scheme in [key::Scheme::Http, key::Scheme::Https] {
        for in_key in [port.unwrap_or(0), 0] {
            let mut key = Vec::new();
            key::write_key(&mut key, scheme, host, in_key, path.as_bytes());
            // Another port is another site; 80 and 443 are how the default ones are written.
            let default = in_key != 0 || [None, Some(80), Some(443)].contains(&port);
            if default && !out.contains(&key) {
                out.push(key);
            }
        }
    }
    out
}

/// Where a purge has arrived.
pub(crate) struct Settled {
    /// The fleet's journal; None: there is none.
    pub(crate) journal: Option<Journalled>,
    /// No restart brings back what was purged.
    pub(crate) disk: bool,
}

/// Precision of the times of pages.
const MOMENT: Duration = Duration::from_millis(1);

impl<'f> Purger<'f> {
    /// Purges what is stored and being fetched now.
    pub(crate) fn new(pages: PageWriter<'f>, tiers: Tiers<'f>, soft: bool) -> Self {
        Self { pages, now: pages.clock.now(), soft, tiers }
    }

    /// The page of a URL ([`keys`]), with all its variants and spellings, whatever else is in their
    /// keys (fields, a forwarded host). Returns whether it was there.
    pub(crate) async fn page(&self, keys: &[Vec<u8>]) -> bool {
        let keys = &*self.spellings(keys).await;
        let begun = self.begin_page(keys);
        if let Some(fleet) = self.tiers.fleet {
            fleet.purge_behind(keys);
        }
        let found = self.own_page(keys).await;
        begun.done() | found
    }

    /// The same of a page, of which peers are told too.
    fn begin_page<'p>(&self, keys: &'p [Vec<u8>]) -> Purging<'p>
    where
        'f: 'p,
    {
        if let Some(family) = self.tiers.family {
            family.clear(keys);
        }
        self.begin(Means::Keys(keys), || What::Keys(keys.to_vec()))
    }

    /// Notes a purge, so that nothing from before is taken from the tiers, and others are told.
    /// Before anything is taken out here.
    fn begin<'p>(&self, means: Means<'p>, what: impl FnOnce() -> What) -> Purging<'p>
    where
        'f: 'p,
    {
        let Tiers { disk, fleet, .. } = self.tiers;
        Purging {
            disk: disk.map(|disk| disk.begin(means, self.now)),
            fleet: fleet.map(|fleet| fleet.begin(what(), self.soft, self.now)),
        }
    }

    /// The same, and waits for the fleet.
    pub(crate) async fn page_everywhere(&self, keys: &[Vec<u8>]) -> bool {
        let Some(fleet) = self.tiers.fleet else { return self.page(keys).await };
        let keys = &*self.spellings(keys).await;
        // Noted first: what is taken from the fleet from now on is newer. Pages on their way
        // are found among the flights.
        let begun = self.begin_page(keys);
        let own = self.own_page(keys).await;
        let own = begun.done() | own;
        let shared = fleet.purge_keys(keys);
        shared.await | own
    }

    /// Ends once what is received from now on counts as received after a soft purge (times are kept
    /// in milliseconds), those who share the fleet can read of the purge there, and no restart
    /// brings back what was purged; or these had their time.
    pub(crate) async fn settled(&self) -> Settled {
        if self.soft {
            tokio::time::sleep(MOMENT).await;
        }
        let journal = match self.tiers.fleet {
            Some(fleet) => fleet.journalled().await,
            None => None,
        };
        let disk = match self.tiers.disk {
            Some(disk) => disk.settled().await,
            None => true,
        };
        Settled { journal, disk }
    }

    /// The keys of a URL, and those under which its page lies by the rules of its path. A rule
    /// that comes from now on is compared with the purge by whoever brings it.
    async fn spellings(&self, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.pages.flights.note_purged(keys);
        let mut all = keys.to_vec();
        for key in keys.iter().filter(|key| spelling::has_query(key)) {
            let rules = match Rules::load(self.pages.store, key, self.now) {
                Some(rules) => Some(rules),
                None => self.rules_on_disk(key).await,
            };
            for canonical in rules.iter().flat_map(|rules| rules.keys(key)) {
                if !all.contains(&canonical) {
                    all.push(canonical);
                }
            }
        }
        all
    }

    /// The rules of a path that are on the disk alone.
    async fn rules_on_disk(&self, page: &[u8]) -> Option<Rules> {
        let key = spelling::rules_key(page);
        let disk = self.tiers.disk.filter(|disk| disk.has(&key))?;
        match disk.get(&key).await {
            disk::Answer::Record(found) => Rules::of(&found.page()?),
            disk::Answer::Nothing => None,
        }
    }

    async fn own_page(&self, keys: &[Vec<u8>]) -> bool {
        let mut found = false;
        for key in keys {
            // Pages of this path may lie under spellings that no rule names any more.
            let rules = || Rules::load(self.pages.store, key, self.now);
            if spelling::has_query(key) && rules().is_none_or(|rules| rules.more) {
                found |= self.tagged(&path_tag(key)).await > 0;
            }
            found |= self.delete_object(key);
            self.pages.flights.purge(|primary| key::url_key(primary) == key);
            found |= self.key(key);
            found |= self.tagged(&url_tag(key)).await > 0;
        }
        found
    }

    /// Deletes the object that is this page: else the next request would make it again. Before the
    /// page is taken out.
    fn delete_object(&self, page: &[u8]) -> bool {
        let objects = self.tiers.objects;
        objects.is_some_and(|objects| objects.delete(self.pages.store, page, self.now))
    }

    /// Deletes the objects that `meant` says of their key and flags. Returns their number.
    async fn delete_objects(&self, meant: impl Fn(&ObjectPages, &[u8], u32) -> bool) -> u64 {
        let Some(objects) = self.tiers.objects else { return 0 };
        let mut deleted = 0;
        self.walk(objects.namespace(), |key, info| {
            let means = meant(objects, key, info.flags);
            deleted += u64::from(means);
            if means { Keep::Delete } else { Keep::Keep }
        })
        .await;
        deleted
    }

    fn key(&self, primary: &[u8]) -> bool {
        let (store, now) = (self.pages.store, self.now);
        if !self.soft {
            return store.delete(PAGES, primary, now);
        }
        let Some(entry) = store.peek(PAGES, primary, now) else { return false };
        let Ok(page) = view(entry.head(), entry.len(), Verify::Layout) else { return false };
        if page.meta.kind != Kind::VaryMarker {
            return store.mark_stale(PAGES, primary, now);
        }
        // The marker speaks for its variants: what is older than this is stale, what came within
        // this millisecond too. See `settled`.
        self.pages.put_marker(primary, &Marker::of(&page), now + 1).is_ok()
    }

    /// Every page of this host and port whose path and query start so, by http and by https. Walks
    /// the store in steps.
    pub(crate) async fn prefix(&self, wanted: KeyParts<'_>) -> u64 {
        let meant = |key: &[u8]| {
            key::parse_key(key).is_some_and(|parts| {
                (parts.host, parts.port) == (wanted.host, wanted.port)
                    && parts.path_and_query.starts_with(wanted.path_and_query)
            })
        };
        let KeyParts { host, port, path_and_query, .. } = wanted;
        let means = Means::Prefix(host, port, path_and_query);
        let begun = self.begin(means, || What::prefix(&wanted));
        self.pages.flights.purge(meant);
        let objects =
            self.delete_objects(|objects, key, flags| objects.is_below(key, flags, &wanted)).await;
        let (mut pages, mut variants) = (0, 0);
        self.walk(PAGES, |key, info| {
            if !meant(key) || (self.soft && info.stale) {
                return Keep::Keep;
            }
            // Its object was counted.
            if info.flags == OBJECT {
                return Keep::Delete;
            }
            // A page with variants is one page, however many they are.
            match key::parse_variant_key(key) {
                None => {
                    pages += 1;
                    self.forget_in_fleet(key);
                }
                Some(_) => variants += 1,
            }
            self.taken()
        })
        .await;
        begun.done();
        objects + if pages > 0 { pages } else { variants }
    }

    /// Every page of the site with one of these tags. In steps.
    pub(crate) async fn tags(&self, site: &str, tags: &[Vec<u8>]) -> u64 {
        let mut purged = 0;
        for tag in tags {
            purged += self.tag(&site_tag(site, tag)).await;
        }
        purged
    }

    /// Every page with a tag as the store has it.
    pub(crate) async fn tag(&self, tag: &[u8]) -> u64 {
        let begun = self.begin(Means::Tag(tag), || What::Tag(tag.to_vec()));
        self.pages.flights.purge_tag(tag);
        let purged = self.tagged(tag).await;
        begun.done();
        purged
    }

    /// Takes out what is stored with a tag, in steps.
    async fn tagged(&self, tag: &[u8]) -> u64 {
        let mut tagged = self.pages.store.tagged(PAGES, tag);
        let mut purged = tagged.purge(TAGGED_STEP, self.soft, self.now);
        while !tagged.is_empty() {
            tokio::task::yield_now().await;
            purged += tagged.purge(TAGGED_STEP, self.soft, self.now);
        }
        purged
    }

    /// Every stored response that an expression means; see [`Purger::matching`].
    pub(crate) async fn ban(&self, text: &str, ban: &Ban) -> u64 {
        let begun = self.begin(Means::Ban(text), || What::Ban(text.to_owned()));
        let purged =
            self.matching(|key| ban.may(key), |key, _, page| ban.means(key, page, self.now)).await;
        begun.done();
        purged
    }

    /// Every stored response, here and on the disk.
    pub(crate) async fn everything(&self) -> u64 {
        let begun = self.tiers.disk.map(|disk| disk.begin(Means::All, self.now));
        let purged = self.delete_objects(ObjectPages::is_any).await;
        let purged = purged + self.matching(|_| true, |_, _, _| true).await;
        drop(begun);
        purged
    }

    /// Every stored response that `matches` means; a page counts once for each of its variants.
    /// `may` says of a key whether anything under it could be meant: what is being fetched under
    /// such a key is not kept, as nobody knows yet what it will be. Walks the store in steps.
    pub(crate) async fn matching(
        &self,
        may: impl Fn(&KeyParts<'_>) -> bool,
        matches: impl Fn(&KeyParts<'_>, &EntryInfo, &PageView<'_>) -> bool,
    ) -> u64 {
        self.pages.flights.purge(|key| key::parse_key(key).is_some_and(|parts| may(&parts)));
        let mut purged = 0;
        self.walk(PAGES, |key, info| {
            let stay = Keep::Keep;
            let Some(parts) = key::parse_key(key).filter(|parts| may(parts)) else { return stay };
            let Some(entry) = self.pages.store.peek(PAGES, key, self.now) else { return stay };
            let Ok(page) = view(entry.head(), entry.len(), Verify::Layout) else { return stay };
            let meant = page.meta.kind == Kind::Page
                && !(self.soft && info.stale)
                && matches(&parts, info, &page);
            if !meant {
                return stay;
            }
            purged += 1;
            self.forget_in_fleet(key);
            if info.flags == OBJECT {
                self.delete_object(key);
            }
            self.taken()
        })
        .await;
        purged
    }

    /// The page of this key, or of this variant's key.
    fn forget_in_fleet(&self, key: &[u8]) {
        if let Some(fleet) = self.tiers.fleet {
            let primary = key::parse_variant_key(key).map_or(key, |(primary, ..)| primary);
            fleet.purge_behind(&[primary.to_vec()]);
        }
    }

    /// The fate of an entry that is purged.
    fn taken(&self) -> Keep {
        if self.soft { Keep::Stale(self.now) } else { Keep::Delete }
    }

    /// Shows all entries of a namespace to `keep`; looks at other tasks between steps.
    async fn walk(&self, ns: Namespace, mut keep: impl FnMut(&[u8], &EntryInfo) -> Keep) {
        let (mut cursor, mut entries) = (Some(Cursor::START), 1);
        while let Some(at) = cursor {
            let began = self.pages.clock.micros();
            cursor = self.pages.store.scan(ns, at, entries, &mut keep);
            // An expression may take long to compare.
            let slow = self.pages.clock.micros() >= began + SCAN_TIME;
            entries = if slow { (entries / 4).max(1) } else { (entries * 2).min(SCAN_STEP) };
            tokio::task::yield_now().await;
        }
    }
}
