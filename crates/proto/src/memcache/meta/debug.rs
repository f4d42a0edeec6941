//! `me` (protocol.txt, "Meta Debug").

use super::super::{BAD_FORMAT, Command, MAX_KEY, line, line::Words, refused};
use super::{Key, signed};

/// `me <key> <flag>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debug<'a> {
    /// Key of the item.
    pub key: Key<'a>,
}

pub(super) fn debug(mut words: Words<'_>) -> Command<'_> {
    let Some(key) = words.next().filter(|key| key.len() <= MAX_KEY) else {
        return refused(BAD_FORMAT);
    };
    // Only the first flag counts, and only alone.
    match Key::new(key, words.next() == Some(b"b")) {
        Some(key) => Command::MetaDebug(Debug { key }),
        None => refused(BAD_FORMAT),
    }
}

/// The metadata of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Seconds until it expires.
    pub left: Option<i64>,
    /// Seconds since it was last used.
    pub idle: u64,
    /// Its version.
    pub cas: u64,
    /// Was it fetched?
    pub fetched: bool,
    /// Slab class.
    pub class: u64,
    /// Bytes in all.
    pub size: u64,
}

impl Metadata {
    /// Appends the answer: `ME <key> <k>=<v>*\r\n`. The expiry is memcached's: now minus then, so
    /// negative, and -1 for none.
    pub fn write(&self, key: &Key<'_>, into: &mut Vec<u8>) {
        into.extend_from_slice(b"ME ");
        key.write_text(into);
        into.extend_from_slice(b" exp=");
        signed(self.left.map_or(-1, |left| -left), into);
        for (name, value) in [(&b" la="[..], self.idle), (b" cas=", self.cas)] {
            into.extend_from_slice(name);
            line::decimal(value, into);
        }
        into.extend_from_slice(if self.fetched { b" fetch=yes cls=" } else { b" fetch=no cls=" });
        line::decimal(self.class, into);
        into.extend_from_slice(b" size=");
        line::decimal(self.size, into);
        into.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    #[test]
    fn if_flag_is_b_then_key_is_a_base64_encoded_binary_value() {
        for (line, key) in [
            ("me YWI= b\r\n", "ab"),
            ("me YWI=\r\n", "YWI="),
            ("me YWI= k b\r\n", "YWI="),
            ("me a bc\r\n", "a"),
        ] {
            let Decoded::Command(Command::MetaDebug(debug), _) = decode(line.as_bytes()) else {
                panic!("{line}")
            };
            assert_eq!(debug.key.bytes(&mut [0; 250]), key.as_bytes(), "{line:?}");
        }
        for line in ["me\r\n", "me a b\r\n", &format!("me {}\r\n", "x".repeat(251))] {
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(refused(BAD_FORMAT), line.len()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn the_response_looks_like() {
        let data = Metadata { left: None, idle: 4, cas: 169, fetched: false, class: 1, size: 67 };
        let write = |data: Metadata, sent, base64| {
            let mut into = Vec::new();
            data.write(&Key::new(sent, base64).unwrap(), &mut into);
            String::from_utf8(into).unwrap()
        };
        assert_eq!(write(data, b"a", false), "ME a exp=-1 la=4 cas=169 fetch=no cls=1 size=67\r\n");
        let data = Metadata { left: Some(50), fetched: true, ..data };
        assert_eq!(
            write(data, b"YmI=", true),
            "ME YmI= exp=-50 la=4 cas=169 fetch=yes cls=1 size=67\r\n"
        );
    }
}
