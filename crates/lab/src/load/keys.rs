//! Sets of keys: a list, or a pattern with a number in it.

use std::{ops::Range, sync::Arc};

/// Most bytes of key names held in memory: keys of a list are chosen at random; longer lists are
/// traces, which are streamed.
pub(crate) const LIST_BYTES: usize = 1 << 30;
/// Most digits a pattern pads to; memcached accepts no longer keys.
const WIDTH: usize = 200;

/// Whether a key is valid in every protocol: no spaces or control characters, which would end a
/// memcached key or an HTTP target.
pub(crate) fn is_key(key: &[u8]) -> bool {
    !key.is_empty() && key.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// Many names in one allocation.
#[derive(Debug, Default)]
pub(crate) struct NameList {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl NameList {
    pub(crate) fn push(&mut self, name: &[u8]) -> Result<(), String> {
        if !is_key(name) {
            return Err(format!(
                "{:?} is no key: spaces and control characters",
                String::from_utf8_lossy(name)
            ));
        }
        if self.text.len() + name.len() > LIST_BYTES {
            return Err(format!(
                "more than {} MiB of keys; give them as a trace",
                LIST_BYTES >> 20
            ));
        }
        self.text.extend_from_slice(name);
        self.ends.push(u32::try_from(self.text.len()).map_err(|_| "too many keys".to_owned())?);
        Ok(())
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[start..self.ends[index] as usize]
    }
}

/// A set of keys, numbered from 0.
#[derive(Clone, Debug)]
pub struct Keys(KeySet);

#[derive(Clone, Debug)]
enum KeySet {
    List(Arc<NameList>),
    Pattern { before: Box<[u8]>, after: Box<[u8]>, width: usize, range: Range<u64> },
}

impl Keys {
    /// Exactly these keys. Error: a key with spaces or control characters, or no key at all.
    pub fn list<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Result<Keys, String> {
        let mut names = NameList::default();
        for key in keys {
            names.push(key.as_ref())?;
        }
        Keys::named(names)
    }

    pub(crate) fn named(names: NameList) -> Result<Keys, String> {
        if names.ends.is_empty() {
            return Err("there is no key in the list".to_owned());
        }
        Ok(Keys(KeySet::List(Arc::new(names))))
    }

    /// Keys made from a pattern: `{}` is a number in `range`, `{:08}` the same with at least eight
    /// digits.
    pub fn pattern(pattern: &str, range: Range<u64>) -> Result<Keys, String> {
        let wrong = |why: &str| Err(format!("pattern {pattern:?}: {why}"));
        let Some((before, rest)) = pattern.split_once('{') else {
            return wrong("expected one {} or {:08} where the number is to stand");
        };
        let Some((width, after)) = rest.split_once('}') else { return wrong("the { has no }") };
        let width = match width.strip_prefix(":0").map(str::parse) {
            None if width.is_empty() => 1,
            Some(Ok(width)) if width <= WIDTH => width,
            _ => return wrong("expected {} or a width such as {:08}, at most 200"),
        };
        if after.contains(['{', '}']) || before.contains('}') {
            return wrong("one number is all that can stand in it");
        }
        if range.is_empty() {
            return wrong("its range of numbers is empty");
        }
        let whole = [before.as_bytes(), b"0", after.as_bytes()].concat();
        if !is_key(&whole) {
            return wrong("spaces and control characters cannot be in a key");
        }
        let (before, after) = (before.as_bytes().into(), after.as_bytes().into());
        Ok(Keys(KeySet::Pattern { before, after, width, range }))
    }

    /// Number of keys, at least 1.
    pub fn count(&self) -> u64 {
        match &self.0 {
            KeySet::List(names) => names.ends.len() as u64,
            KeySet::Pattern { range, .. } => range.end - range.start,
        }
    }

    /// Replaces the contents of `out` by the key with this number, which is below `count`.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        match &self.0 {
            KeySet::List(names) => out.extend_from_slice(names.get(number as usize)),
            KeySet::Pattern { before, after, width, range } => {
                out.extend_from_slice(before);
                decimal(range.start + number, *width, out);
                out.extend_from_slice(after);
            }
        }
    }

    /// Description for a report.
    pub(crate) fn describe(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match &self.0 {
            KeySet::List(names) if names.ends.len() == 1 => text(names.get(0)),
            KeySet::List(names) => format!("a list of {}", names.ends.len()),
            KeySet::Pattern { before, after, width, range } => {
                let number = if *width > 1 { format!("{{:0{width}}}") } else { "{}".to_owned() };
                let (first, last) = (range.start, range.end - 1);
                format!("{}{number}{}, {first} to {last}", text(before), text(after))
            }
        }
    }
}

/// Appends a number with at least `width` digits, without allocating.
fn decimal(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    while number > 0 || out.len() - start < width {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(keys: &Keys) -> Vec<String> {
        let mut out = Vec::new();
        (0..keys.count())
            .map(|n| {
                keys.write(n, &mut out);
                String::from_utf8(out.clone()).unwrap()
            })
            .collect()
    }

    #[test]
    fn patterns_number_their_keys() {
        assert_eq!(
            all(&Keys::pattern("/page/{}", 0..3).unwrap()),
            ["/page/0", "/page/1", "/page/2"]
        );
        assert_eq!(all(&Keys::pattern("{:04}.html", 9..11).unwrap()), ["0009.html", "0010.html"]);
        assert_eq!(all(&Keys::pattern("k{:02}", 99..101).unwrap()), ["k99", "k100"]);
    }

    #[test]
    fn wrong_patterns_say_what_is_wrong() {
        for (pattern, part) in [
            ("/page", "expected one {}"),
            ("{", "no }"),
            ("{:8}", "width"),
            ("{:0999}", "width"),
            ("{}{}", "one number"),
            ("a b{}", "spaces"),
        ] {
            let error = Keys::pattern(pattern, 0..1).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(Keys::pattern("{}", 4..4).unwrap_err().contains("empty"));
    }

    #[test]
    fn lists_keep_their_order_and_refuse_what_is_no_key() {
        assert_eq!(all(&Keys::list(["a", "bb", "ccc"]).unwrap()), ["a", "bb", "ccc"]);
        assert!(Keys::list(["a b"]).is_err());
        assert!(Keys::list([""]).is_err());
        assert!(Keys::list::<&str>([]).unwrap_err().contains("no key"));
    }
}
