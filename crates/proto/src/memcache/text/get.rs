//! `get`, `gets`, `gat`, `gats` (protocol.txt, "Retrieval command" and "Get And Touch").

use super::super::{BAD_FORMAT, Command, ERROR, MAX_KEY, line, line::Words, refused};

/// The end of the values of a retrieval.
pub const END: &[u8] = b"END\r\n";

/// `gat` with an expiry that is no number.
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// `get <key>*`, `gets <key>*`, `gat <exptime> <key>*`, `gats <exptime> <key>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// The keys, none longer than [`MAX_KEY`].
    pub keys: Words<'a>,
    /// `gets`, `gats`: the version is sent, too.
    pub cas: bool,
    /// `gat`, `gats`: the new expiry, as sent.
    pub touch: Option<i32>,
}

impl<'a> Get<'a> {
    /// The beginning of a retrieval with incomplete keys, and its length up to the keys.
    pub(crate) fn begin(input: &'a [u8]) -> Option<(Get<'a>, usize)> {
        let none = Words::new(b"");
        let mut words = Words::new(input);
        let (touches, cas) = match words.next()? {
            b"get" => (false, false),
            b"gets" => (false, true),
            b"gat" => (true, false),
            b"gats" => (true, true),
            _ => return None,
        };
        let touch = if touches { Some(line::signed32(words.next()?)?) } else { None };
        Some((Get { keys: none, cas, touch }, input.len() - words.rest().len()))
    }
}

#[inline]
pub(crate) fn get(keys: Words<'_>, cas: bool) -> Command<'_> {
    keys_of(keys, cas, None)
}

pub(super) fn gat(mut words: Words<'_>, cas: bool) -> Command<'_> {
    let Some(exptime) = words.next() else { return refused(ERROR) };
    match line::signed32(exptime) {
        // Without a key memcached finds nothing, and answers so.
        Some(touch) if { words }.next().is_none() => {
            Command::Get(Get { keys: words, cas, touch: Some(touch) })
        }
        Some(touch) => keys_of(words, cas, Some(touch)),
        None => refused(BAD_EXPTIME),
    }
}

#[inline]
fn keys_of(keys: Words<'_>, cas: bool, touch: Option<i32>) -> Command<'_> {
    // One key that is too long makes the whole retrieval fail: only the error is answered.
    if keys.rest().len() > MAX_KEY && keys.into_iter().any(|key| key.len() > MAX_KEY) {
        return refused(BAD_FORMAT);
    }
    if keys.rest().iter().all(|byte| *byte == b' ') {
        return refused(ERROR);
    }
    Command::Get(Get { keys, cas, touch })
}

/// The next key of a retrieval that is executed as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// A key.
    Key(&'a [u8]),
    /// There are no more keys: the line has ended.
    End,
    /// A key longer than [`MAX_KEY`]; the rest of the line belongs to it.
    TooLong,
    /// It is incomplete.
    Partial,
}

/// The keys of a retrieval, one by one, from the received part of its line.
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    input: &'a [u8],
    used: usize,
}

impl<'a> Keys<'a> {
    /// `input`: from the first key not yet taken.
    pub fn new(input: &'a [u8]) -> Self {
        Self { input, used: 0 }
    }

    /// Bytes that need not be examined again.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The next key.
    pub fn take(&mut self) -> Key<'a> {
        while self.input.get(self.used) == Some(&b' ') {
            self.used += 1;
        }
        let rest = &self.input[self.used..];
        // A key that is too long is recognised before its end: a key and the line's CR.
        let window = &rest[..rest.len().min(MAX_KEY + 2)];
        match window.iter().position(|byte| matches!(byte, b' ' | b'\n')) {
            Some(end) if rest[end] == b' ' => {
                let key = &rest[..end];
                if key.len() > MAX_KEY {
                    return Key::TooLong;
                }
                self.used += end;
                Key::Key(key)
            }
            Some(end) => self.last(rest.get(..end).unwrap_or_default()),
            None if window.len() < MAX_KEY + 2 => Key::Partial,
            None => Key::TooLong,
        }
    }

    /// The last word of the line, which may be empty.
    fn last(&mut self, word: &'a [u8]) -> Key<'a> {
        let key = word.strip_suffix(b"\r").unwrap_or(word);
        if key.is_empty() {
            self.used += word.len() + 1;
            return Key::End;
        }
        if key.len() > MAX_KEY {
            return Key::TooLong;
        }
        // The line end stays in the input, for the next call.
        self.used += key.len();
        Key::Key(key)
    }
}

/// Appends the line before a value: `VALUE <key> <flags> <bytes> [<cas unique>]\r\n`.
#[inline]
pub fn value(key: &[u8], flags: u32, len: u64, cas: Option<u64>, into: &mut Vec<u8>) {
    into.reserve(6 + key.len() + 3 + 10 + 20 + 20 + 2);
    into.extend_from_slice(b"VALUE ");
    into.extend_from_slice(key);
    into.push(b' ');
    line::decimal(u64::from(flags), into);
    into.push(b' ');
    line::decimal(len, into);
    if let Some(cas) = cas {
        into.push(b' ');
        line::decimal(cas, into);
    }
    into.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::super::{Decoded, decode};
    use super::*;

    fn got(line: &str) -> (Vec<String>, bool, Option<i32>) {
        match decode(line.as_bytes()) {
            Decoded::Command(Command::Get(get), used) => {
                assert_eq!(used, line.len());
                let keys = get.keys.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect();
                (keys, get.cas, get.touch)
            }
            other => panic!("{line:?}: {other:?}"),
        }
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn key_star_means_one_or_more_key_strings_separated_by_whitespace() {
        assert_eq!(got("get a\r\n"), (strings(&["a"]), false, None));
        assert_eq!(got(" gets  a   b \r\n"), (strings(&["a", "b"]), true, None));
        assert_eq!(got("gat 10 a b\n"), (strings(&["a", "b"]), false, Some(10)));
        assert_eq!(got("gats -1 a\r\n"), (strings(&["a"]), true, Some(-1)));
        assert_eq!(got("get a\r\r\n").0, strings(&["a\r"]));
        assert_eq!(got("gat 10\r\n"), (vec![], false, Some(10)));
    }

    #[test]
    fn currently_the_length_limit_of_a_key_is_set_at_250_characters() {
        let key = "x".repeat(250);
        assert_eq!(got(&format!("get a {key}\r\n")).0, strings(&["a", &key]));
        for line in [format!("get a x{key} b\r\n"), format!("gat 1 x{key}\r\n")] {
            assert_eq!(decode(line.as_bytes()), Decoded::Command(refused(BAD_FORMAT), line.len()));
        }
    }

    #[test]
    fn a_retrieval_without_keys_is_an_error() {
        for line in ["get\r\n", "get \r\n", "gets   \r\n", "gat\r\n", "bget\r\n"] {
            assert_eq!(
                decode(line.as_bytes()),
                Decoded::Command(refused(ERROR), line.len()),
                "{line:?}"
            );
        }
        assert_eq!(decode(b"gat x a\r\n"), Decoded::Command(refused(BAD_EXPTIME), 9));
    }

    #[test]
    fn more_keys_than_fit_a_line_are_taken_as_they_arrive() {
        let keys = "k ".repeat(2000);
        for (verb, cas, touch) in [
            ("get ", false, None),
            ("  gets ", true, None),
            ("gat 5 ", false, Some(5)),
            ("gats  5 ", true, Some(5)),
        ] {
            let input = format!("{verb}{keys}");
            let Decoded::Keys(get, used) = decode(input.as_bytes()) else { panic!("{verb}") };
            assert_eq!((get.cas, get.touch, used), (cas, touch, verb.trim_end().len()));
        }
        for other in ["delete ", "mg ", "gat x ", &format!("{}get ", " ".repeat(101))] {
            assert_eq!(decode(format!("{other}{keys}").as_bytes()), Decoded::TooLong);
        }
    }

    fn all<'a>(keys: &mut Keys<'a>) -> Vec<Key<'a>> {
        let mut all = vec![];
        loop {
            all.push(keys.take());
            if !matches!(all.last(), Some(Key::Key(_))) {
                return all;
            }
        }
    }

    #[test]
    fn keys_one_by_one() {
        let mut keys = Keys::new(b" a  bc d\r\nget");
        assert_eq!(all(&mut keys), [Key::Key(b"a"), Key::Key(b"bc"), Key::Key(b"d"), Key::End]);
        assert_eq!(keys.used(), 10);
        let mut keys = Keys::new(b"a bc");
        assert_eq!(all(&mut keys), [Key::Key(b"a"), Key::Partial]);
        assert_eq!(keys.used(), 2);
        assert_eq!(all(&mut Keys::new(b"a\r")), [Key::Partial]);
        assert_eq!(all(&mut Keys::new(b"a \n")), [Key::Key(b"a"), Key::End]);
        let key = "x".repeat(250);
        for end in [" ", "\r\n", "\n"] {
            assert_eq!(
                Keys::new(format!("{key}{end}").as_bytes()).take(),
                Key::Key(key.as_bytes())
            );
            assert_eq!(
                Keys::new(format!("x{key}{end}").as_bytes()).take(),
                Key::TooLong,
                "{end:?}"
            );
        }
        assert_eq!(Keys::new("x".repeat(251).as_bytes()).take(), Key::Partial);
        assert_eq!(Keys::new("x".repeat(252).as_bytes()).take(), Key::TooLong);
    }

    #[test]
    fn each_item_sent_by_the_server_looks_like_this() {
        let mut into = Vec::new();
        value(b"key", 7, 3, None, &mut into);
        value(b"k", u32::MAX, 1_048_576, Some(u64::MAX), &mut into);
        assert_eq!(into, b"VALUE key 7 3\r\nVALUE k 4294967295 1048576 18446744073709551615\r\n");
    }
}
