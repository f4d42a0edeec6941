//! Sizes, durations and addresses as people write them, for every command line and configuration.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// The expected form of a text, for "expected ...".
pub type Expected = String;

/// Bytes: `512MiB`, `1GiB`, `64k`, `1000`. k, M, G, T count in steps of 1024, with or without `iB`;
/// `kB`, `MB`, `GB` and `TB` in steps of 1000.
pub fn size(text: &str) -> Result<u64, Expected> {
    let expected = || "a size such as \"512MiB\" or \"1GiB\"".to_owned();
    let (number, unit) = split_unit(text);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(expected()),
    };
    number.checked_mul(factor).ok_or_else(expected)
}

/// A time: `300ms`, `5s`, `2m`, `1h`, `3d`, `1w`, `50us`, and sums such as `1h30m`. Whole
/// microseconds.
pub fn duration(text: &str) -> Result<Duration, Expected> {
    let expected = || "a duration such as \"300ms\", \"5s\" or \"1h30m\"".to_owned();
    let mut rest = text.trim();
    let mut total = 0u64;
    if rest.is_empty() {
        return Err(expected());
    }
    while !rest.is_empty() {
        let (number, after) = split_unit(rest);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let number: u64 = number.parse().map_err(|_| expected())?;
        let factor: u64 = match after[..unit_end].trim() {
            "us" | "µs" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            "w" => 604_800_000_000,
            _ => return Err(expected()),
        };
        total =
            number.checked_mul(factor).and_then(|us| total.checked_add(us)).ok_or_else(expected)?;
        rest = after[unit_end..].trim_start();
    }
    Ok(Duration::from_micros(total))
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..at], text[at..].trim())
}

/// The size in the form people write.
pub fn show_size(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// The duration in the form people write.
pub fn show_duration(time: Duration) -> String {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let units = [
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
    ];
    for (unit, factor) in units {
        if us >= factor && us.is_multiple_of(factor) {
            return format!("{}{unit}", us / factor);
        }
    }
    if us == 0 { "0s".to_owned() } else { format!("{us}us") }
}

/// An address to listen on: `127.0.0.1:8080`, `[::1]:8080`, `:8080` (every IPv4 address),
/// `localhost:8080`.
pub fn address(text: &str) -> Result<SocketAddr, Expected> {
    let expected = || "an address and port such as \"127.0.0.1:8080\" or \"[::1]:8080\"".to_owned();
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let port = port.parse().map_err(|_| expected())?;
    match host {
        "localhost" => Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port)),
        "" | "*" => Ok(SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port)),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("1k", 1024),
            ("1KiB", 1024),
            ("1kB", 1000),
            ("64 MiB", 64 << 20),
            ("2g", 2 << 30),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "1XB", "99999999999TiB", "1 2"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in [
            ("300ms", 300),
            ("5s", 5_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("3d", 259_200_000),
            ("0s", 0),
            ("2ms3000us", 5),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "s", "5 parsecs", "-5s", "1.5s", "1h30", "999999999999999999w"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for ms in [0, 300, 5_000, 90_000, 3_600_000, 259_200_000] {
            let time = Duration::from_millis(ms);
            assert_eq!(duration(&show_duration(time)), Ok(time));
        }
        for bytes in [0, 1, 1000, 1024, 64 << 20, 1 << 30, 1 << 40] {
            assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(address("localhost:80"), Ok(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(address(":8080"), Ok(SocketAddr::from(([0, 0, 0, 0], 8080))));
        for text in ["8080", "example.org:80", "127.0.0.1", "127.0.0.1:99999", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
