//! Age (RFC 9111 4.2.3, 5.1).

use super::ResponseFacts;
use crate::http::cache_control::delta_seconds;
use crate::http::{Elements, Fields};
use crate::{Ms, Secs, page::Meta};

/// The current age of a stored page in seconds: corrected_initial_age + resident_time (RFC 9111 4.2.3). A clock that went
/// back counts as no time.
#[inline]
pub fn current_age(meta: &Meta, now: Ms) -> u32 {
    let resident = now.saturating_sub(meta.response_time) / 1000;
    meta.initial_age.saturating_add(u32::try_from(resident).unwrap_or(u32::MAX))
}

/// What a response's Age field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgeValue {
    /// No Age: straight from the origin.
    Absent,
    /// Seconds.
    Seconds(u32),
    /// Nobody knows how old it is: the response is to be considered stale.
    Unknown,
}

/// Reads Age (RFC 9111 5.1). A list of different values counts by its first, as the RFC asks.
///
/// Where the RFC would ignore a value that is no number, this takes the careful way of 4.2.1 ("encouraged to consider
/// responses that have invalid freshness information to be stale"): some cache on the path meant to tell an age. So it is
/// with an Age that was written twice, in two lines or as the same value again in one, which is what two lines
/// look like once an intermediary joined them.
pub fn age_value(response: Fields<'_>) -> AgeValue {
    let mut lines = response.all("age");
    let Some(line) = lines.next() else { return AgeValue::Absent };
    if lines.next().is_some() {
        return AgeValue::Unknown;
    }
    let mut members = Elements::of(line);
    let Some(first) = members.next() else { return AgeValue::Unknown };
    if members.any(|other| other == first) {
        return AgeValue::Unknown;
    }
    delta_seconds(first).map_or(AgeValue::Unknown, AgeValue::Seconds)
}

/// corrected_initial_age in seconds (RFC 9111 4.2.3). `date` is None where the response has no usable Date.
pub fn initial_age(response: &ResponseFacts<'_>, age: AgeValue, date: Option<Secs>) -> u32 {
    let apparent = date.map_or(0, |date| (response.response_time / 1000).saturating_sub(date));
    let delay = response.response_time.saturating_sub(response.request_time) / 1000;
    let age_value = match age {
        AgeValue::Seconds(secs) => u64::from(secs),
        AgeValue::Absent | AgeValue::Unknown => 0,
    };
    u32::try_from(apparent.max(age_value + delay)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::test_support::{NOW, fields};

    #[test]
    fn odd_age_values() {
        use AgeValue::{Absent, Seconds, Unknown};
        for (lines, expected) in [
            (&[][..], Absent),
            (&["7200"], Seconds(7200)),
            (&["0"], Seconds(0)),
            (&["99999999999"], Seconds(1 << 31)),
            (&["0,7200"], Seconds(0)),
            (&["7200,0"], Seconds(7200)),
            (&["abc"], Unknown),
            (&["-7200"], Unknown),
            (&["7200.0"], Unknown),
            (&["7200;foo=bar"], Unknown),
            (&[""], Unknown),
            (&["0, 0"], Unknown),
            (&["3600, 3600"], Unknown),
            (&["0", "0"], Unknown),
            (&["7200", "0"], Unknown),
            (&["0", "7200"], Unknown),
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
            (0, AgeValue::Absent, Some(NOW), 0),
            (0, AgeValue::Absent, None, 0),
            (0, AgeValue::Absent, Some(NOW - 30), 30),
            (0, AgeValue::Absent, Some(NOW + 30), 0),
            (0, AgeValue::Seconds(10), Some(NOW - 30), 30),
            (0, AgeValue::Seconds(40), Some(NOW - 30), 40),
            (5_500, AgeValue::Seconds(40), Some(NOW - 30), 45),
            (5_500, AgeValue::Absent, Some(NOW), 5),
            (0, AgeValue::Seconds(1 << 31), Some(0), 1 << 31),
            (u64::MAX, AgeValue::Seconds(1 << 31), Some(0), u32::MAX),
        ] {
            let facts = ResponseFacts { request_time: (NOW * 1000).saturating_sub(delay_ms), ..response(0) };
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
