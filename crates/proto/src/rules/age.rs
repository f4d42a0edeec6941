//! Age (RFC 9111 4.2.3, 5.1).

use crate::{Ms, page::Meta};

/// The current age of a stored page in seconds: corrected_initial_age + resident_time (RFC 9111 4.2.3). A clock that went
/// back counts as no time.
#[inline]
pub fn current_age(meta: &Meta, now: Ms) -> u32 {
    let resident = now.saturating_sub(meta.response_time) / 1000;
    meta.initial_age.saturating_add(u32::try_from(resident).unwrap_or(u32::MAX))
}
