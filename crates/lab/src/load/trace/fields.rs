//! Parsing of numbers and times in traces.

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Parses a whole number.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// Parses seconds with a fraction, as nanoseconds.
pub(super) fn seconds(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let (seconds, fraction) = match memchr::memchr(b'.', text) {
        None => (text, &text[..0]),
        Some(point) => (&text[..point], &text[point + 1..]),
    };
    let mut nanoseconds = 0;
    let mut unit = SECOND / 10;
    for digit in fraction {
        nanoseconds += u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * unit;
        unit /= 10;
    }
    whole(seconds)?.checked_mul(SECOND)?.checked_add(nanoseconds)
}

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses `10/Oct/2000:13:55:36 -0700`, as nanoseconds since 1970.
pub(super) fn common_time(text: &[u8]) -> Option<u64> {
    let [date, hour, minute, rest] = split(text, b':')?;
    let [day, month, year] = split(date, b'/')?;
    let [second, zone] = split(rest, b' ')?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let utc =
        moment(whole(year)?, month, whole(day)?, [whole(hour)?, whole(minute)?, whole(second)?])?;
    let (sign, digits) = zone.split_first().filter(|(_, digits)| digits.len() == 4)?;
    let ahead = (whole(&digits[..2])? * 60 + whole(&digits[2..])?) * 60 * SECOND;
    match sign {
        b'+' => utc.checked_sub(ahead),
        b'-' => utc.checked_add(ahead),
        _ => None,
    }
}

/// Parses `2000-10-10T20:55:36.007Z`, as nanoseconds since 1970.
pub(super) fn json_time(text: &[u8]) -> Option<u64> {
    let [date, time] = split(text.strip_suffix(b"Z")?, b'T')?;
    let [year, month, day] = split(date, b'-')?;
    let [hour, minute, second] = split(time, b':')?;
    let (second, fraction) = second.split_at_checked(2)?;
    let whole_second = moment(
        whole(year)?,
        whole(month)?,
        whole(day)?,
        [whole(hour)?, whole(minute)?, whole(second)?],
    )?;
    let fraction = if fraction.is_empty() { 0 } else { seconds(&[b"0", fraction].concat())? };
    Some(whole_second + fraction)
}

fn split<const N: usize>(text: &[u8], at: u8) -> Option<[&[u8]; N]> {
    let mut parts = [&text[..0]; N];
    let mut all = text.splitn(N, |byte| *byte == at);
    for part in &mut parts {
        *part = all.next()?;
    }
    Some(parts)
}

/// Nanoseconds since 1970 of a time in UTC.
fn moment(year: u64, month: u64, day: u64, [hour, minute, second]: [u64; 3]) -> Option<u64> {
    let sane = (1970..2500).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !sane || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years start in March, so that the leap day is the last day of a year ("days from civil").
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let days =
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    Some((((days - 719_468) * 24 + hour) * 60 + minute) * 60 * SECOND + second * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(seconds(b"1753000000.120"), Some(1_753_000_000_120_000_000));
        assert_eq!(seconds(b"12"), Some(12_000_000_000));
        assert_eq!(seconds(b"0.0000000015"), Some(1));
        assert_eq!(common_time(b"10/Oct/2000:13:55:36 -0700"), Some(971_211_336_000_000_000));
        assert_eq!(common_time(b"10/Oct/2000:20:55:36 +0000"), Some(971_211_336_000_000_000));
        assert_eq!(common_time(b"29/Feb/2024:00:00:00 +0100"), Some(1_709_161_200_000_000_000));
        assert_eq!(json_time(b"2000-10-10T20:55:36.007Z"), Some(971_211_336_007_000_000));
        assert_eq!(json_time(b"1970-01-01T00:00:00.000Z"), Some(0));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in ["", "x", "1.x", "-1", "99999999999999"] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
        for text in [
            "",
            "10/Okt/2000:13:55:36 -0700",
            "10/Oct/2000:13:55:36",
            "10/Oct/2000:25:55:36 +0000",
            "1:2:3:4",
        ] {
            assert_eq!(common_time(text.as_bytes()), None, "{text}");
        }
        for text in [
            "",
            "2000-10-10 20:55:36Z",
            "2000-10-10T20:55:36",
            "2000-13-10T20:55:36Z",
            "2000-10-10T20:55:3",
        ] {
            assert_eq!(json_time(text.as_bytes()), None, "{text}");
        }
    }
}
