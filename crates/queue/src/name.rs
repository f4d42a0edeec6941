//! Names of queues, and of their directories.

/// Longest name in bytes: memcached's longest key. As the name of a directory it may be three times
/// as long, so names of other than plain characters are limited by [`LONGEST_DIRECTORY`].
pub const MAX_NAME: usize = 250;
/// Longest name of a file on common file systems.
const LONGEST_DIRECTORY: usize = 255;

/// Whether a queue may have this name: visible characters of ASCII or UTF-8 without `/`, which
/// begins the options of `get`; at most one `+`, between the names of a queue and its child.
pub fn is_valid(name: &[u8]) -> bool {
    let plain = |byte: &u8| *byte > b' ' && *byte != 0x7f && *byte != b'/';
    let plus = name.iter().filter(|byte| **byte == b'+').count();
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name.iter().all(plain)
        && (plus == 0 || plus == 1 && name[0] != b'+' && name[name.len() - 1] != b'+')
        && directory(name).len() <= LONGEST_DIRECTORY
}

/// The queue whose items `name` gets too: of `orders+audit` it is `orders`.
pub fn parent(name: &[u8]) -> Option<&[u8]> {
    name.iter().position(|byte| *byte == b'+').map(|at| &name[..at])
}

/// The directory of a queue: letters, digits, `_`, `-`, `+` and dots that are not the first
/// character as they are, other bytes as `%` and two hexadecimal digits.
pub(crate) fn directory(name: &[u8]) -> String {
    let mut directory = String::with_capacity(name.len());
    for (at, byte) in name.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'+' => {
                directory.push(char::from(*byte));
            }
            b'.' if at > 0 => directory.push('.'),
            _ => directory.push_str(&format!("%{byte:02x}")),
        }
    }
    directory
}

/// The name of the queue of a directory; `None`: it is none.
pub(crate) fn of_directory(directory: &str) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(directory.len());
    let mut rest = directory.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let digits = str::from_utf8(after.get(..2)?).ok()?;
            name.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            name.push(*byte);
        }
    }
    (is_valid(&name) && self::directory(&name) == directory).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_have_their_names_back() {
        for name in ["work", "a.b-c_d", ".hidden", "..", "orders+audit", "ünïcode", "a%b", "~x"] {
            let directory = directory(name.as_bytes());
            assert!(!directory.starts_with('.'), "{directory}");
            assert_eq!(of_directory(&directory).as_deref(), Some(name.as_bytes()));
        }
        for other in [".deleted-1", "lock", "a b", "%zz", "%6", "%41"] {
            let is_name = other == "lock";
            assert_eq!(of_directory(other).is_some(), is_name, "{other}");
        }
    }

    #[test]
    fn names_that_are_none() {
        for name in ["", "a/b", "a b", "+a", "a+", "a+b+c", "a\n"] {
            assert!(!is_valid(name.as_bytes()), "{name}");
        }
        assert!(!is_valid("ü".repeat(120).as_bytes()), "too long for a directory");
        assert!(is_valid("u".repeat(250).as_bytes()));
        assert!(!is_valid("u".repeat(251).as_bytes()));
        assert_eq!(parent(b"orders+audit"), Some(&b"orders"[..]));
        assert_eq!(parent(b"orders"), None);
    }
}
