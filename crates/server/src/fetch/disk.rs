//! Asking the disk before the fleet and the origin.
//!
//! A page found there is put into memory, and everybody looks there again. A disk that is slow is
//! left to itself, and the next tier asked.

use std::{pin::pin, sync::Arc};

use larder_proto::{
    http::{CacheControl, Fields, Restriction},
    page::{Kind, Meta, PageFlags, PageView, Verify, view},
    rules::{
        strip::StoredHead,
        update::{split_head, with_fields},
    },
};
use larder_store::{If, PutError};
use tokio::time::timeout;

use crate::{
    disk::{Answer, DiskRecord, Tier},
    fetch::{
        FetchResult,
        job::{self, Job, Keep, Sent},
        remote,
    },
    origin::{self, Interim},
    page::{
        flight::{Again, Landing, Lead},
        foreign::sound,
        lookup::PAGES,
        published::mark_of,
        spelling::{self, Rules},
        tags::site_tag,
        variant::{self, Marker},
        writer::{Committed, PageDraft},
    },
    request::pages::Pages,
    settings::DiskUse,
};

/// Variants looked for: the best for the request first.
const VARIANTS: usize = 8;

/// Asks the disk where that is of use, and the next tiers where it has nothing. None: everybody was
/// told to look into memory again, or nobody wants an answer any more.
pub(crate) async fn first(
    job: &mut Job,
    request: origin::Request,
    interim: Option<Interim>,
) -> Option<Sent> {
    if let (Some(disk), Some(keep)) = (&job.pages.shared.disk, &job.keep)
        && keep.ask_disk
    {
        let lookup = Lookup { pages: &job.pages, disk, keep, lead: &job.lead };
        if Box::pin(lookup.learn_rules()).await {
            job.lead.flight.land(Landing::LookAgain(Again::Changed));
            job.tell(FetchResult::LookAgain(Again::Changed));
            return None;
        }
        let hit = Box::pin(lookup.look()).await;
        disk.count(hit);
        if hit {
            job.lead.flight.land(Landing::LookAgain(Again::Changed));
            job.tell(FetchResult::LookAgain(Again::Disk));
            return None;
        }
    }
    pin!(remote::first(job, request, interim)).await
}

/// One lookup.
struct Lookup<'j> {
    pages: &'j Pages,
    disk: &'j Arc<Tier>,
    keep: &'j Keep,
    lead: &'j Lead,
}

impl Lookup<'_> {
    /// Looks for the page, under its primary key or as the variant that the request selects, and
    /// puts it into memory. Whether it is there.
    async fn look(&self) -> bool {
        let primary = &self.keep.primary;
        let now = self.pages.clock.now();
        let own = self.pages.store.peek(PAGES, primary, now);
        let own =
            own.as_ref().and_then(|entry| view(entry.head(), entry.len(), Verify::Layout).ok());
        let keys = match own {
            // Memory knows the variants, those on the disk among them.
            Some(page) if page.meta.kind == Kind::VaryMarker => self.selected(&page),
            Some(_) => return false,
            None if !self.disk.has(primary) || !self.is_current().await => return false,
            None => match self.read(primary).await {
                None => return false,
                Some(found) => match found.page() {
                    Some(page) if page.meta.kind == Kind::VaryMarker => {
                        if !self.adopt(&found, &page) {
                            return false;
                        }
                        self.selected(&page)
                    }
                    Some(page) => return self.take(&found, &page).await,
                    None => return false,
                },
            },
        };
        let Some(key) = keys.iter().find(|key| self.disk.has(key)) else { return false };
        if !self.is_current().await {
            return false;
        }
        match self.read(key).await {
            Some(found) => match found.page() {
                Some(page) => self.take(&found, &page).await,
                None => false,
            },
            None => false,
        }
    }

    /// Puts the rules of the page's path back into memory, by which it is found under another
    /// spelling. Whether they were not there.
    async fn learn_rules(&self) -> bool {
        let (primary, now) = (&self.keep.primary, self.pages.clock.now());
        let key = spelling::rules_key(primary);
        let unknown = || Rules::load(self.pages.store, primary, now).is_none();
        if !spelling::has_query(primary)
            || self.disk.has(primary)
            || !self.disk.has(&key)
            || !unknown()
        {
            return false;
        }
        let Answer::Record(found) = self.disk.get(&key).await else { return false };
        let page = found.page().filter(|page| sound(page, self.pages.clock.now()));
        let Some(rules) = page.and_then(|page| Rules::of(&page)) else { return false };
        // The page may be under this very spelling.
        let respelled = rules.keys(primary).any(|canonical| canonical != *primary);
        unknown() && self.pages.writer().put_rules(&key, &rules).is_ok() && respelled
    }

    /// Whether purges of other Larders are known here: pages may have been purged while this one
    /// was not running. A fleet that does not answer is waited for as long as the disk is.
    async fn is_current(&self) -> bool {
        match &self.pages.remote {
            Some(remote) => {
                let current = timeout(self.disk.patience(), remote.current());
                current.await.unwrap_or(false)
            }
            None => true,
        }
    }

    /// The keys of the variants of a marker that the request selects, best first.
    fn selected(&self, marker: &PageView<'_>) -> Vec<Vec<u8>> {
        self.keep.with_request(|head| {
            let (mut keys, request) = (Vec::new(), job::request_view(head));
            let (nonce, policy) = (marker.meta.nonce, &self.keep.policy);
            variant::select(&self.keep.primary, nonce, marker.vary, &request, policy, |key| {
                keys.push(key.to_vec());
                (keys.len() >= VARIANTS).then_some(())
            });
            keys
        })
    }

    /// The record of a key, if it may be used.
    async fn read(&self, key: &[u8]) -> Option<Box<DiskRecord>> {
        let Answer::Record(found) = self.disk.get(key).await else { return None };
        let usable = found.page().is_some_and(|page| {
            let tags: Vec<Vec<u8>> = page.tags.map(|tag| site_tag(&self.keep.site, tag)).collect();
            sound(&page, self.pages.clock.now())
                && !self.disk.is_purged(&found, &self.keep.primary, &page, &tags)
        });
        usable.then_some(found)
    }

    /// Puts a marker back into memory, with the time of its soft purge.
    fn adopt(&self, found: &DiskRecord, page: &PageView<'_>) -> bool {
        let (primary, marker) = (&self.keep.primary, Marker::of(page));
        let (writer, purged) = (self.pages.writer(), page.meta.soft_purged_at);
        let still = || self.disk.is_still(found, primary);
        let kept = writer.restore_marker(&self.lead.flight, primary, &marker, purged, still);
        if kept.is_err() {
            self.pages.counters.store_refused.one();
        }
        kept.unwrap_or(false)
    }

    /// Puts a page into memory.
    async fn take(&self, found: &DiskRecord, page: &PageView<'_>) -> bool {
        if page.meta.kind != Kind::Page || page.body_len > self.keep.policy.max_object {
            return false;
        }
        let written = self.put(found, page).await;
        if written.is_err() {
            self.pages.counters.store_refused.one();
        }
        written.unwrap_or(false)
    }

    async fn put(&self, found: &DiskRecord, page: &PageView<'_>) -> Result<bool, PutError> {
        let draft = PageDraft {
            expires: found.expires(),
            flags: mark_of(page.meta.flags),
            ..PageDraft::copy_of(page, page.meta, &self.keep.site, 0)
        };
        let (writer, body) = (self.pages.writer(), found.body(page));
        let mut fill = writer.begin(&draft, &self.lead.flight)?;
        fill.copy(page.body_len, |at| &body[at as usize..]).await?;
        fill.finish()?;
        // Memory may have got a newer page meanwhile, by a request that did not wait.
        let still = || self.disk.is_still(found, &self.keep.primary);
        match writer.commit_while(fill, &self.lead.flight, If::Absent, still) {
            Err(PutError::Exists) => Ok(false),
            committed => Ok(committed? != Committed::Purged),
        }
    }
}

/// The flags of a page that must not be on the disk: by rule, or because the site forbids that it
/// is stored, and the operator has it stored all the same.
pub(crate) fn flags(keep: &Keep, fields: Fields<'_>) -> PageFlags {
    let forbidden = || {
        let control = CacheControl::parse(fields.all("cache-control"));
        control.no_store || control.private == Restriction::Whole
    };
    let never = keep.policy.disk == DiskUse::Never;
    PageFlags::empty().with_if(PageFlags::NO_DISK, never || forbidden())
}

/// [`flags`] of a page with a head that is stored. One that cannot be read forbids the disk.
pub(crate) fn flags_of(keep: &Keep, stored: &StoredHead) -> PageFlags {
    // As received, where it was rewritten for clients.
    let lines = split_head(&stored.head).map(|(_, lines)| [lines, &stored.withheld].concat());
    let flags = lines.and_then(|lines| with_fields(&lines, |fields| flags(keep, fields)).ok());
    flags.unwrap_or(PageFlags::NO_DISK)
}

/// The same flags of a page that is written anew under another head.
pub(crate) fn kept(meta: &Meta) -> PageFlags {
    PageFlags::empty().with_if(PageFlags::NO_DISK, meta.flags.any(PageFlags::NO_DISK))
}

/// A page was stored: by rule it is on the disk from now on. So is the map of a page in slices,
/// without which its slices there are of no use.
pub(crate) fn keep(job: &Job, draft: &PageDraft) {
    let always = job.keep.as_ref().is_some_and(|keep| keep.policy.disk == DiskUse::Always);
    let at_once = always || draft.meta.flags.any(PageFlags::SLICED);
    if let Some(disk) = job.pages.shared.disk.as_ref().filter(|_| at_once) {
        disk.keep(&draft.key);
    }
}
