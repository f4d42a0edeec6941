//! How a stored page is served, and what the answer and the log say of it.

use larder_proto::{
    http::date,
    page::Meta,
    rules::{CacheStatus, Forward, current_age},
};

use crate::{
    access_log::ResultCode,
    clock::Ms,
    http::exchange::Exchange,
    origin::Seen,
    wire::{file, h1::HeadWriter, meta, meta::ResponseMeta},
};

/// How a stored page is served.
#[derive(Clone, Copy)]
pub(crate) struct Served {
    age: u32,
    ttl: i64,
    /// Refresh it behind the client's back.
    pub(crate) refresh: bool,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Fresh,
    Stale,
    /// Fresh, and from the disk just now.
    Disk,
    /// Fresh, and from the fleet just now.
    Fleet,
    Validated(Forward),
    /// Another request brought it just now.
    Stored(Forward),
    /// This request brought its map and a slice of it just now.
    Sliced(Forward),
    OnError,
    /// Some slices of it are to be fetched.
    Partial,
    /// A file of this machine.
    File(Seen),
}

impl Served {
    pub(crate) fn fresh(age: u32, ttl: i64) -> Self {
        Self { age, ttl, refresh: false, how: How::Fresh }
    }

    pub(crate) fn stale(age: u32, ttl: i64, refresh: bool) -> Self {
        Self { age, ttl, refresh, how: How::Stale }
    }

    /// A file of this machine.
    pub(crate) fn file(seen: Seen) -> Self {
        Self { age: 0, ttl: 0, refresh: false, how: How::File(seen) }
    }

    /// It came from the fleet just now, or else from the disk.
    pub(crate) fn by_tier(self, fleet: bool) -> Self {
        let how = if fleet { How::Fleet } else { How::Disk };
        Self { how: if self.how == How::Fresh { how } else { self.how }, ..self }
    }

    /// The origin confirmed it just now; it was asked for this reason.
    pub(crate) fn validated(meta: &Meta, now: Ms, why: Forward) -> Self {
        let age = current_age(meta, now);
        let ttl = i64::from(meta.freshness) - i64::from(age);
        Self { age, ttl, refresh: false, how: How::Validated(why) }
    }

    /// Another request brought it just now, while this one waited for this reason.
    pub(crate) fn stored(meta: &Meta, now: Ms, why: Forward) -> Self {
        Self { how: How::Stored(why), ..Self::validated(meta, now, why) }
    }

    /// This request brought its map and a slice of it just now; the origin was asked for this
    /// reason.
    pub(crate) fn sliced(meta: &Meta, now: Ms, why: Forward) -> Self {
        Self { how: How::Sliced(why), ..Self::validated(meta, now, why) }
    }

    /// Some slices of it are to be fetched, further ones where it was brought just now.
    pub(crate) fn partial(self) -> Self {
        let brought = matches!(self.how, How::Sliced(_));
        Self { how: if brought { self.how } else { How::Partial }, ..self }
    }

    /// A page that is made here, which no origin is asked for.
    pub(crate) fn made_here(meta: &Meta, now: Ms) -> Self {
        Self { how: How::Stale, ..Self::validated(meta, now, Forward::Stale) }
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.ttl > 0
    }

    /// The origin failed.
    pub(crate) fn on_error(meta: &Meta, now: Ms) -> Self {
        Self { how: How::OnError, ..Self::validated(meta, now, Forward::Stale) }
    }

    pub(super) fn result(self, status: u16) -> ResultCode {
        match self.how {
            How::Fresh | How::Disk | How::Fleet | How::File(Seen::Kept) if status == 304 => {
                ResultCode::TcpImsHit
            }
            How::Fresh | How::Disk | How::Fleet if status >= 400 => ResultCode::TcpNegativeHit,
            How::Disk | How::Fleet | How::File(Seen::Kept) => ResultCode::TcpHit,
            How::File(Seen::Opened) | How::Partial | How::Sliced(_) => ResultCode::TcpMiss,
            How::File(Seen::Changed) => ResultCode::TcpRefreshModified,
            How::Fresh => ResultCode::TcpMemHit,
            How::Stale => ResultCode::TcpStaleHit,
            How::Validated(_) => ResultCode::TcpRefreshUnmodified,
            How::Stored(_) => ResultCode::TcpCfHit,
            How::OnError => ResultCode::TcpRefreshFailHit,
        }
    }

    /// Where the page came from.
    fn tier(self) -> &'static str {
        match self.how {
            How::Disk => "disk",
            How::Fleet => "remote",
            How::File(_) => "file",
            How::Sliced(_) => "origin",
            How::Fresh
            | How::Stale
            | How::Validated(_)
            | How::Stored(_)
            | How::Partial
            | How::OnError => "memory",
        }
    }

    pub(super) fn meta(self) -> ResponseMeta<'static> {
        let mut cache_status = CacheStatus { ttl: Some(self.ttl), ..CacheStatus::default() };
        match self.how {
            How::Fresh | How::Stale => cache_status.hit = true,
            How::Disk => (cache_status.hit, cache_status.detail) = (true, Some("disk")),
            How::Fleet => (cache_status.hit, cache_status.detail) = (true, Some("remote")),
            How::Validated(why) => {
                (cache_status.fwd, cache_status.fwd_status) = (Some(why), Some(304))
            }
            How::Stored(why) => {
                (cache_status.fwd, cache_status.fwd_status) = (Some(why), Some(200));
                (cache_status.stored, cache_status.collapsed) = (true, true);
            }
            How::Sliced(why) => {
                (cache_status.fwd, cache_status.fwd_status) = (Some(why), Some(206));
                (cache_status.stored, cache_status.detail) = (true, Some("slices"));
            }
            How::Partial => {
                (cache_status.fwd, cache_status.detail) = (Some(Forward::Partial), Some("slices"));
            }
            How::OnError => {
                (cache_status.fwd, cache_status.detail) =
                    (Some(Forward::Stale), Some("origin-failed"));
            }
            How::File(seen) => cache_status = file::cache_status(seen),
        }
        let found = !matches!(self.how, How::Sliced(_));
        let hit = found && self.how != How::Partial;
        ResponseMeta { hit, found, age: Some(self.age), cache_status }
    }
}

/// Age, and where the page comes from.
pub(super) fn lines(
    exchange: &Exchange<'_, '_>,
    head: &mut HeadWriter<'_>,
    meta: &Meta,
    served: &Served,
) {
    let http = &exchange.request.config.settings.http;
    match served.how {
        How::Fresh | How::Stale => {
            exchange.request.config.hit_lines.write(head, http, served.age, served.ttl);
        }
        How::Fleet => {
            meta::meta_lines(head, http, &served.meta());
            let remote = exchange.request.pages.remote.as_ref();
            if let Some(line) = remote.and_then(|remote| remote.settings().announce.as_ref()) {
                head.ready(line);
            }
        }
        How::Disk
        | How::Validated(_)
        | How::Stored(_)
        | How::Sliced(_)
        | How::Partial
        | How::OnError => {
            meta::meta_lines(head, http, &served.meta());
        }
        How::File(seen) => {
            head.line("Date", &date::format(meta.date));
            exchange.request.config.file_lines.write(head, seen);
        }
    }
    super::debug::tier(&exchange.request, served.tier());
}
