//! Times, sizes and patterns as other programs write them, in Larder's words.

/// nginx's `10m`, `1h 30m`, `1d`, `30` (seconds), `500ms`, Varnish's `2w`, `1.5h`: in Larder's
/// form. None: something else.
pub(super) fn time(text: &str) -> Option<String> {
    let mut seconds = 0.0;
    for part in text.split_whitespace() {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
        let number: f64 = part[..end].parse().ok()?;
        seconds += number
            * match &part[end..] {
                "ms" => 0.001,
                "" | "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                "w" => 7.0 * 86_400.0,
                "M" => 30.0 * 86_400.0,
                "y" => 365.0 * 86_400.0,
                _ => return None,
            };
    }
    Some(shown(seconds))
}

/// Seconds in the largest unit that shows them whole.
pub(super) fn shown(seconds: f64) -> String {
    // A year is the longest that Larder takes.
    let ms = (seconds.clamp(0.0, 366.0 * 86_400.0) * 1000.0).round() as u64;
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if ms.is_multiple_of(size) && ms > 0 {
            return format!("{}{unit}", ms / size);
        }
    }
    if ms == 0 { "0s".to_owned() } else { format!("{ms}ms") }
}

/// `512m`, `2g`, `64k`, `256M`, `1GB`: in Larder's form. None: something else.
pub(super) fn size(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim().trim_end_matches('b').trim_end_matches('i') {
        "" => "",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        "t" => "TiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// The memory that Larder is given, at least its least.
pub(super) fn memory(text: &str) -> Option<String> {
    let size = size(text)?;
    let bytes = larder_proto::units::size(&size).ok()?;
    Some(if bytes < 16 << 20 { "16MiB".to_owned() } else { size })
}

/// An expression of PCRE or POSIX that Larder's engine reads as well. None: it does not (look
/// around, back references).
pub(super) fn regex(text: &str, ignore_case: bool) -> Option<String> {
    let text = if ignore_case && !text.starts_with("(?i)") {
        format!("(?i){text}")
    } else {
        text.to_owned()
    };
    regex::Regex::new(&text).ok().map(|_| text)
}

/// Address and port of a listener: `80`, `*:80`, `:80`, `127.0.0.1:80`, `[::]:80`. None: something
/// else, such as a unix socket.
pub(super) fn listen(text: &str, default_port: u16) -> Option<String> {
    if let Ok(port) = text.parse::<u16>() {
        return Some(format!("0.0.0.0:{port}"));
    }
    if let Some(port) = text.strip_prefix("*:").or(text.strip_prefix(':')) {
        return port.parse::<u16>().ok().map(|port| format!("0.0.0.0:{port}"));
    }
    if text.parse::<std::net::SocketAddr>().is_ok() {
        return Some(text.to_owned());
    }
    let ip: std::net::IpAddr = text.trim_matches(['[', ']']).parse().ok()?;
    Some(std::net::SocketAddr::new(ip, default_port).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_translated() {
        let cases =
            [("10m", "10m"), ("1h 30m", "90m"), ("30", "30s"), ("1.5h", "90m"), ("2w", "14d")];
        for (given, expected) in cases {
            assert_eq!(time(given).as_deref(), Some(expected), "{given}");
        }
        assert_eq!((time("off"), time("500ms").as_deref()), (None, Some("500ms")));
        assert_eq!(time("10y").as_deref(), Some("366d"));
        assert_eq!(size("512m").as_deref(), Some("512MiB"));
        assert_eq!((size("256 MB").as_deref(), size("x")), (Some("256MiB"), None));
        assert_eq!(memory("1m").as_deref(), Some("16MiB"));
    }

    #[test]
    fn listeners_are_translated() {
        let cases = [
            ("80", "0.0.0.0:80"),
            ("*:8080", "0.0.0.0:8080"),
            ("[::]:443", "[::]:443"),
            ("127.0.0.1", "127.0.0.1:80"),
        ];
        for (given, expected) in cases {
            assert_eq!(listen(given, 80).as_deref(), Some(expected), "{given}");
        }
        assert_eq!(listen("unix:/run/x", 80), None);
    }
}
