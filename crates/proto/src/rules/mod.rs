//! RFC 9111 (and 5861, 8246, 9211, 9213, the Surrogate-Control note) as functions.
//!
//! Each file is one part of the RFC and each function names its section. Nothing here reads a
//! clock: times are arguments ([`Ms`], [`Secs`] since the epoch). A response becomes a [`Lifetime`]
//! once, when it is stored ([`storable()`]); after that a hit is decided by [`decide()`] from the
//! page's fixed [`Meta`](crate::page::Meta) alone.
//!
//! | question | answer |
//! |----------|--------|
//! | may this response be stored, and how long is it fresh? | [`storable()`] |
//! | may this page answer this request now? | [`decide()`], [`stale_on_error`] |
//! | what does a validation request carry? | [`conditions`] |
//! | what does a 304 or a HEAD change? | [`freshen`], [`head_update`] |
//! | does the client have it already? may it have a range? | [`evaluate`], [`range_applies`] |
//! | what does an unsafe request invalidate? | [`invalidate::targets`] |
//! | is a page kept in compressed forms too? | [`compress`] |
//! | is a page put together of parts? | [`esi`] |
//! | which spellings of a query are one page? | [`no_vary_search::Rule`] |
//! | which variant? | [`vary::selecting`], [`vary::normalise`], [`vary_by`] |
//! | which fields are stored and sent on? | [`strip`] |
//! | which fields go to the origin, in what form? | [`forward`] |
//! | which bytes of a partial page? | [`partial`] |

pub mod age;
pub mod cache_status;
pub mod compress;
pub mod conditional;
pub mod decide;
pub mod directives;
pub mod esi;
pub mod facts;
pub mod forward;
pub mod freshness;
pub mod invalidate;
pub mod no_vary_search;
pub mod partial;
pub mod policy;
pub mod storable;
pub mod strip;
pub mod update;
pub mod validate;
pub mod vary;
pub mod vary_by;

pub use crate::{Ms, Secs};
pub use age::current_age;
pub use cache_status::{CacheStatus, Forward};
pub use conditional::{Precondition, evaluate, range_applies};
pub use decide::{
    Decision, ErrorCause, RevalidateWhy, StaleWhy, Unusable, decide, only_if_cached, stale_on_error,
};
pub use facts::{RequestFacts, RequestView, ResponseFacts, Uri};
pub use freshness::Lifetime;
pub use policy::{Esi, Policy, RefreshPattern, StatusTtl, Unframed};
pub use storable::{NoStore, Storable, storable};
pub use strip::{StoredHead, forwarded_head, stored_head};
pub use update::{
    Freshened, HeadUpdate, NotFreshened, freshen, head_update, merge_304, split_head, with_fields,
};
pub use validate::{Conditions, conditions, validates};
pub use vary::Vary;
pub use vary_by::VaryField;

#[cfg(test)]
pub(crate) mod test_support;
