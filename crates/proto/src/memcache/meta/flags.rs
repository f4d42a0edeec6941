//! The flags of a meta command, read once and checked as memcached's common parser checks them.

use super::{super::MAX_KEY, super::line, super::line::Words, Echo, Key};

/// Most words of a line, including the verb and the end.
pub(super) const MAX_WORDS: usize = 20;

/// Longest opaque, including its `O`.
const MAX_OPAQUE: usize = 32;

/// An unknown flag.
const INVALID: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
/// A flag given twice.
const DUPLICATE: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
/// An invalid number.
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
/// `F` without a number.
const BAD_FLAGS: &[u8] = super::super::BAD_FORMAT;
/// `D` without a number.
const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
/// `J` without a number.
const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
/// `M` with anything but one character.
const BAD_MODE: &[u8] = b"CLIENT_ERROR incorrect length for M token\r\n";
/// An opaque too long.
const BAD_OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
/// A key that is not base64.
const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";

/// The flags of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags<'a> {
    pub(super) key: Key<'a>,
    pub(super) echo: Echo<'a>,
    pub(super) quiet: bool,
    pub(super) value: bool,
    pub(super) unbumped: bool,
    pub(super) invalidate: bool,
    pub(super) empty: bool,
    pub(super) compare: Option<u64>,
    pub(super) version: Option<u64>,
    pub(super) client: u32,
    pub(super) ttl: Option<i32>,
    pub(super) vivify: Option<i32>,
    pub(super) recache: Option<i32>,
    pub(super) delta: u64,
    pub(super) initial: u64,
    pub(super) mode: Option<u8>,
    opaque_too_long: bool,
}

/// The flags seen so far.
#[derive(Default)]
struct Seen(u128);

impl Seen {
    fn first(&mut self, flag: u8) -> bool {
        if flag >= 127 {
            return false; // as memcached
        }
        let bit = 1 << flag;
        let first = self.0 & bit == 0;
        self.0 |= bit;
        first
    }
}

fn number<T>(value: Option<T>, error: &'static [u8]) -> Result<T, &'static [u8]> {
    value.ok_or(error)
}

impl<'a> Flags<'a> {
    /// Reads the flags of a line. `key`: as sent, at most [`MAX_KEY`] long. The error is the
    /// answer: to the first flag that is unknown or repeated, else to the last with a wrong token.
    #[inline]
    pub(super) fn read(key: &'a [u8], words: Words<'a>) -> Result<Self, &'static [u8]> {
        debug_assert!(key.len() <= MAX_KEY);
        let mut flags = Self {
            key: Key::new(key, false).ok_or(BAD_KEY)?,
            echo: Echo { flags: words, any: false },
            quiet: false,
            value: false,
            unbumped: false,
            invalidate: false,
            empty: false,
            compare: None,
            version: None,
            client: 0,
            ttl: None,
            vivify: None,
            recache: None,
            delta: 1,
            initial: 0,
            mode: None,
            opaque_too_long: false,
        };
        let mut seen = Seen::default();
        let mut wrong = None;
        for word in words {
            if !seen.first(word[0]) {
                return Err(DUPLICATE);
            }
            match word[0] {
                b'v' => flags.value = true,
                b'q' => flags.quiet = true,
                b'k' | b'c' | b'f' | b'h' | b'l' | b's' | b't' => flags.echo.any = true,
                _ => match flags.take(key, word) {
                    Ok(()) => {}
                    Err(INVALID) => return Err(INVALID),
                    // `F` has no effect here.
                    Err(BAD_FLAGS) => wrong = wrong.or(Some(BAD_FLAGS)),
                    Err(error) => wrong = Some(error),
                },
            }
        }
        wrong.map_or(Ok(flags), Err)
    }

    /// Checked after all other faults of a line.
    pub(super) fn opaque(self) -> Result<Self, &'static [u8]> {
        if self.opaque_too_long { Err(BAD_OPAQUE) } else { Ok(self) }
    }

    /// A flag with a token, or a rare one.
    fn take(&mut self, key: &'a [u8], word: &[u8]) -> Result<(), &'static [u8]> {
        let token = &word[1..];
        match word[0] {
            b'b' => self.key = Key::new(key, true).ok_or(BAD_KEY)?,
            b'u' => self.unbumped = true,
            b'I' => self.invalidate = true,
            b'x' => self.empty = true,
            b'P' | b'L' => {}
            b'O' => {
                self.echo.any = true;
                self.opaque_too_long = word.len() > MAX_OPAQUE;
            }
            b'T' | b'N' | b'R' => {
                let seconds = Some(number(line::signed32(token), BAD_TOKEN)?);
                // The expiry in an answer depends on the position at which it is requested among
                // the flags.
                self.echo.any = true;
                match word[0] {
                    b'T' => self.ttl = seconds,
                    b'N' => self.vivify = seconds,
                    _ => self.recache = seconds,
                }
            }
            b'C' => self.compare = Some(number(line::unsigned(token), BAD_TOKEN)?),
            b'E' => self.version = Some(number(line::unsigned(token), BAD_TOKEN)?),
            b'F' => self.client = number(line::unsigned32(token), BAD_FLAGS)?,
            b'D' => self.delta = number(line::unsigned(token), BAD_DELTA)?,
            b'J' => self.initial = number(line::unsigned(token), BAD_INITIAL)?,
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => return Err(BAD_MODE),
            },
            _ => return Err(INVALID),
        }
        Ok(())
    }
}

/// Are there more flags than allowed? `before`: words before the flags, including the verb.
#[inline]
pub(super) fn too_many(words: Words<'_>, before: usize) -> bool {
    // A flag and its blank take at least two bytes.
    words.rest().len() >= 2 * (MAX_WORDS - before - 1) && words.count() + before + 1 > MAX_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &str) -> Result<Flags<'_>, &'static [u8]> {
        Flags::read(b"a", Words::new(flags.as_bytes()))
    }

    #[test]
    fn every_flag_there_is() {
        let flags = read("c f h k l q s t u v O1 P2 L C3 E4 F5 D6 J7 N8 R-9 T10 MA I x").unwrap();
        assert!(flags.quiet && flags.value && flags.unbumped && flags.invalidate && flags.empty);
        assert_eq!((flags.compare, flags.version, flags.client), (Some(3), Some(4), 5));
        assert_eq!((flags.delta, flags.initial, flags.mode), (6, 7, Some(b'A')));
        assert_eq!((flags.vivify, flags.recache, flags.ttl), (Some(8), Some(-9), Some(10)));
        let none = read("").unwrap();
        assert_eq!((none.delta, none.initial, none.client, none.mode), (1, 0, 0, None));
    }

    #[test]
    fn the_flag_whose_fault_is_answered() {
        for (flags, error) in [
            ("z", INVALID),
            ("S2", INVALID),
            ("1", INVALID),
            ("v v", DUPLICATE),
            ("P1 P2", DUPLICATE),
            ("\u{80}", DUPLICATE),
            ("T", BAD_TOKEN),
            ("Nx", BAD_TOKEN),
            ("Rx", BAD_TOKEN),
            ("C-1", BAD_TOKEN),
            ("E", BAD_TOKEN),
            ("F", BAD_FLAGS),
            ("Dx", BAD_DELTA),
            ("J", BAD_INITIAL),
            ("M", BAD_MODE),
            ("Madd", BAD_MODE),
            ("b", BAD_KEY),
            ("z b", INVALID),
            ("b z", INVALID),
            ("b Tx", BAD_TOKEN),
            ("b Fx", BAD_KEY),
            ("Fx z", INVALID),
            ("Tx b", BAD_KEY),
            ("Tx v v", DUPLICATE),
            ("Cx M", BAD_MODE),
            ("M Cx", BAD_TOKEN),
            ("Cx Fx", BAD_TOKEN),
        ] {
            assert_eq!(read(flags).err(), Some(error), "{flags}");
        }
    }

    #[test]
    fn opaque_tokens_may_be_up_to_32_bytes_in_length() {
        assert!(read(&format!("O{}", "x".repeat(31))).unwrap().opaque().is_ok());
        assert_eq!(read(&format!("O{}", "x".repeat(32))).unwrap().opaque().err(), Some(BAD_OPAQUE));
    }

    #[test]
    fn all_commands_accept_p_and_l_which_are_completely_ignored() {
        let flags = read("Lpath/ Phint").unwrap();
        assert!(!flags.echo.any);
    }
}
