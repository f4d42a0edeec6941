//! HTTP dates (RFC 9110 5.6.7).
//!
//! All three forms are read, and no other: caches must treat an unreadable date as stale, so a
//! tolerant parser would turn a broken Expires into a fresh page. Case does not matter, as RFC 9111
//! 4.2 requires of caches; a zone other than GMT is refused, as it requires, too. One form is
//! written, into 29 bytes on the stack.

use crate::Secs;

const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const FULL_DAYS: [&[u8]; 7] =
    [b"monday", b"tuesday", b"wednesday", b"thursday", b"friday", b"saturday", b"sunday"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const DAY: i64 = 86_400;
/// 9999-12-31 23:59:59, the last second with a four-digit year.
const LAST: Secs = 253_402_300_799;

/// Length of a date as [`format()`] writes it.
pub const LENGTH: usize = 29;

/// Reads a date in any of the three forms. Dates before 1970 are 0, which is equally stale.
///
/// `now` decides the century of the two-digit years of RFC 850: a date more than 50 years ahead of
/// it is in the past. The weekday must be a weekday, but need not match. Leap seconds count as the
/// second after.
pub fn parse(value: &[u8], now: Secs) -> Option<Secs> {
    match value {
        [_, _, _, b',', ..] => imf_fixdate(value),
        [_, _, _, b' ', ..] => asctime(value),
        _ => rfc850(value, now),
    }
}

/// Writes a date as `Sun, 06 Nov 1994 08:49:37 GMT`. Years past 9999 are written as the last second
/// of 9999.
pub fn format(secs: Secs) -> [u8; LENGTH] {
    let secs = secs.min(LAST);
    let days = (secs / DAY as u64) as i64;
    let time = secs % DAY as u64;
    let (year, month, day) = civil(days);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[(days + 3) as usize % 7]);
    two(&mut out, 5, day);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two(&mut out, 12, (year / 100) as u64);
    two(&mut out, 14, (year % 100) as u64);
    two(&mut out, 17, time / 3600);
    two(&mut out, 20, time / 60 % 60);
    two(&mut out, 23, time % 60);
    out
}

fn two(out: &mut [u8; LENGTH], at: usize, number: u64) {
    out[at] = b'0' + (number / 10 % 10) as u8;
    out[at + 1] = b'0' + (number % 10) as u8;
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(value: &[u8]) -> Option<Secs> {
    let v: &[u8; LENGTH] = value.try_into().ok()?;
    let separators = [(3, b','), (4, b' '), (7, b' '), (11, b' '), (16, b' ')];
    if !separators.iter().all(|&(at, byte)| v[at] == byte) || !day_name(&v[..3]) || !zone(&v[25..])
    {
        return None;
    }
    let year = number(&v[12..14])? * 100 + number(&v[14..16])?;
    instant(year, month(&v[8..11])?, number(&v[5..7])?, clock(&v[17..25])?)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(value: &[u8]) -> Option<Secs> {
    let v: &[u8; 24] = value.try_into().ok()?;
    let separators = [(3, b' '), (7, b' '), (10, b' '), (19, b' ')];
    if !separators.iter().all(|&(at, byte)| v[at] == byte) || !day_name(&v[..3]) {
        return None;
    }
    let day = if v[8] == b' ' { number(&[b'0', v[9]])? } else { number(&v[8..10])? };
    let year = number(&v[20..22])? * 100 + number(&v[22..24])?;
    instant(year, month(&v[4..7])?, day, clock(&v[11..19])?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(value: &[u8], now: Secs) -> Option<Secs> {
    let comma = value.iter().position(|&b| b == b',')?;
    let (name, rest) = value.split_at(comma);
    let v: &[u8; 24] = rest.try_into().ok()?;
    let separators = [(1, b' '), (4, b'-'), (8, b'-'), (11, b' ')];
    let known = FULL_DAYS.iter().any(|d| d.eq_ignore_ascii_case(name));
    if !known || !separators.iter().all(|&(at, byte)| v[at] == byte) || !zone(&v[20..]) {
        return None;
    }
    let (short, month, day, clock) =
        (number(&v[9..11])?, month(&v[5..8])?, number(&v[2..4])?, clock(&v[12..20])?);
    let this_year = civil((now.min(LAST) / DAY as u64) as i64).0;
    let year = this_year - this_year % 100 + short + 100;
    let limit = same_day_in(this_year + 50, now);
    // The latest year with these digits that is not more than 50 years ahead.
    [year, year - 100, year - 200].into_iter().find_map(|year| {
        match instant(year, month, day, clock) {
            Some(secs) if secs > limit => None,
            other => Some(other),
        }
    })?
}

/// `now`, moved to `year`: 29 February becomes 1 March where there is none.
fn same_day_in(year: i64, now: Secs) -> Secs {
    let now = now.min(LAST);
    let (_, month, day) = civil((now / DAY as u64) as i64);
    (days_from_civil(year, month, day as i64) * DAY) as u64 + now % DAY as u64
}

/// `08:49:37` as seconds since midnight.
fn clock(v: &[u8]) -> Option<i64> {
    let (hour, minute, second) = (number(&v[..2])?, number(&v[3..5])?, number(&v[6..8])?);
    let fits = v[2] == b':' && v[5] == b':' && hour < 24 && minute < 60 && second <= 60;
    fits.then_some(hour * 3600 + minute * 60 + second)
}

fn zone(v: &[u8]) -> bool {
    v.eq_ignore_ascii_case(b" GMT")
}

fn day_name(v: &[u8]) -> bool {
    DAYS.iter().any(|d| d.eq_ignore_ascii_case(v))
}

/// 1 to 12.
fn month(v: &[u8]) -> Option<i64> {
    MONTHS.iter().zip(1..).find(|(m, _)| m.eq_ignore_ascii_case(v)).map(|(_, number)| number)
}

fn number(two: &[u8]) -> Option<i64> {
    match two {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
        _ => None,
    }
}

fn instant(year: i64, month: i64, day: i64, clock: i64) -> Option<Secs> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day < 1 || day > length {
        return None;
    }
    let secs = days_from_civil(year, month, day) * DAY + clock;
    Some(u64::try_from(secs).unwrap_or(0))
}

/// Days since 1970-01-01 of a date in the Gregorian calendar (Howard Hinnant's `days_from_civil`,
/// years 0 and up).
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + 400 - (month <= 2) as i64;
    let era = year / 400;
    let year_of_era = year % 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era - 1) * 146_097 + day_of_era - 719_468
}

/// The inverse, for days not before 1970.
const fn civil(days: i64) -> (i64, i64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + (month <= 2) as i64, month, day as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 20 November 2026
    const NOW: Secs = 1_795_132_800;

    #[test]
    fn the_three_forms() {
        for (value, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777),
            ("Wed Nov 16 08:49:37 1994", 784_975_777),
            ("SUN, 06 NOV 1994 08:49:37 gmt", 784_111_777),
            ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Mon, 01 Jan 1900 00:00:00 GMT", 0),
            ("Sat, 01 Jan 0000 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
            ("Fri, 31 Dec 9999 23:59:59 GMT", LAST),
            ("Thursday, 18-Aug-50 02:01:18 GMT", 2_544_400_878),
            ("Friday, 20-Nov-76 00:00:00 GMT", 3_373_056_000),
            ("Saturday, 20-Nov-76 00:00:01 GMT", 217_296_001),
            ("Friday, 31-Dec-99 23:59:59 GMT", 946_684_799),
        ] {
            assert_eq!(parse(value.as_bytes(), NOW), Some(expected), "{value}");
        }
    }

    #[test]
    fn the_century_follows_the_clock() {
        let value = b"Sunday, 06-Nov-94 08:49:37 GMT";
        assert_eq!(parse(value, 0), Some(784_111_777));
        assert_eq!(parse(value, 4_102_444_800), Some(784_111_777 + 36_525 * 86_400));
    }

    #[test]
    fn nothing_else_is_a_date() {
        for value in [
            "",
            "0",
            "-1",
            "Thu",
            "Thu,",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 2050 02:01:18 +0000",
            "Thu, 18 Aug 2050 02:01:18",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Tue 19 Jan 2038 14:14:08 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 18 Aug 2050 24:00:00 GMT",
            "Thu, 18 Aug 2050 02:60:18 GMT",
            "Thu, 18 Aug 2050 02:01:61 GMT",
            "Thu, 00 Aug 2050 02:01:18 GMT",
            "Thu, 31 Apr 2050 02:01:18 GMT",
            "Thu, 29 Feb 2100 02:01:18 GMT",
            "Thu, +8 Aug 2050 02:01:18 GMT",
            "Xxx, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 Xxx 2050 02:01:18 GMT",
            "Thursday, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18-Aug-50 02:01:18 GMT",
            "Thu Aug 8 02:01:18 2050",
            "Sunday, 06-Nov-94 08:49:37 PST",
            " Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
        ] {
            assert_eq!(parse(value.as_bytes(), NOW), None, "{value}");
        }
    }

    #[test]
    fn the_last_year_is_written() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(secs in 0..=LAST, now in 0..=LAST) {
            prop_assert_eq!(parse(&format(secs), now), Some(secs));
        }

        #[test]
        fn no_bytes_make_it_panic(value in r"\PC{0,40}", now: u64) {
            parse(value.as_bytes(), now);
        }

        #[test]
        fn no_two_digit_year_makes_it_panic(y in 0..100_u8, d in 0..40_u8, now: u64) {
            parse(std::format!("Friday, {d:02}-Feb-{y:02} 23:59:60 GMT").as_bytes(), now);
        }
    }
}
