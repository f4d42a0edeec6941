//! Age (RFC 9111 4.2.3, 5.1).

use super::ResponseFacts;
use crate::http::Fields;
use crate::http::cache_control::delta_seconds;
use crate::{Ms, Secs, page::Meta};

/// The current age of a stored page in seconds: corrected_initial_age + resident_time (RFC 9111
/// 4.2.3). A clock that went back counts as no time.
#[inline]
pub fn current_age(meta: &Meta, now: Ms) -> u32 {
    let resident = now.saturating_sub(meta.response_time) / 1000;
    meta.initial_age.saturating_add(u32::try_from(resident).unwrap_or(u32::MAX))
}

/// The seconds in a response's Age (RFC 9111 5.1). Of a list, or of several lines, the first member
/// counts ("SHOULD use the first member of the field value, discarding subsequent ones"). `None`
/// where there is none, or where it is no non-negative integer: such a field is ignored. Values
/// above 2^31 count as 2^31 (1.2.2).
pub fn age_value(response: Fields<'_>) -> Option<u32> {
    response.elements("age").next().and_then(delta_seconds)
}

/// corrected_initial_age in seconds (RFC 9111 4.2.3). `date` is `None` if the response has no
/// usable Date.
pub fn initial_age(response: &ResponseFacts<'_>, age: Option<u32>, date: Option<Secs>) -> u32 {
    let apparent = date.map_or(0, |date| (response.response_time / 1000).saturating_sub(date));
    let delay = response.response_time.saturating_sub(response.request_time) / 1000;
    let age_value = age.map_or(0, u64::from);
    u32::try_from(apparent.max(age_value + delay)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::test_support::{NOW, fields};

    #[test]
    fn the_first_member_counts_where_it_is_a_number() {
        for (lines, expected) in [
            (&[][..], None),
            (&["7200"], Some(7200)),
            (&["0"], Some(0)),
            (&["2147483647"], Some(2_147_483_647)),
            (&["99999999999"], Some(1 << 31)),
            (&["0,7200"], Some(0)),
            (&["7200, 0"], Some(7200)),
            (&[", 7200"], Some(7200)),
            (&["0, 0"], Some(0)),
            (&["3600, 3600"], Some(3600)),
            (&["0", "0"], Some(0)),
            (&["7200", "0"], Some(7200)),
            (&["0", "7200"], Some(0)),
            (&["3600", "3600"], Some(3600)),
            (&["abc", "7200"], None),
            (&["", "7200"], Some(7200)),
            (&["abc"], None),
            (&["-7200"], None),
            (&["+7200"], None),
            (&["7200.0"], None),
            (&["7200;foo=bar"], None),
            (&["\"7200\""], None),
            (&[""], None),
        ] {
            let held = fields(&lines.iter().map(|l| ("Age", *l)).collect::<Vec<_>>());
            assert_eq!(age_value(Fields::new(&held)), expected, "{lines:?}");
        }
    }

    #[test]
    fn corrected_initial_age_is_the_larger_of_the_two_estimates() {
        let response = |delay: u64| ResponseFacts {
            status: 200,
            fields: Fields::default(),
            request_time: NOW * 1000 - delay,
            response_time: NOW * 1000,
        };
        for (delay_ms, age, date, expected) in [
            (0, None, Some(NOW), 0),
            (0, None, None, 0),
            (0, None, Some(NOW - 30), 30),
            (0, None, Some(NOW + 30), 0),
            (0, Some(10), Some(NOW - 30), 30),
            (0, Some(40), Some(NOW - 30), 40),
            (5_500, Some(40), Some(NOW - 30), 45),
            (5_500, None, Some(NOW), 5),
            (0, Some(1 << 31), Some(0), 1 << 31),
            (u64::MAX, Some(1 << 31), Some(0), u32::MAX),
        ] {
            let facts = ResponseFacts {
                request_time: (NOW * 1000).saturating_sub(delay_ms),
                ..response(0)
            };
            let expected = if delay_ms == u64::MAX { (1 << 31) + NOW as u32 } else { expected };
            assert_eq!(initial_age(&facts, age, date), expected, "{delay_ms} {age:?} {date:?}");
        }
    }

    #[test]
    fn age_grows_with_the_time_in_store_only() {
        let meta = Meta { response_time: 10_000, initial_age: 5, ..Meta::default() };
        for (now, expected) in
            [(0, 5), (10_000, 5), (10_999, 5), (11_000, 6), (70_000, 65), (u64::MAX, u32::MAX)]
        {
            assert_eq!(current_age(&meta, now), expected);
        }
    }
}
