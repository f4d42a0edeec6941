//! The rest of a command that was refused before it was whole: thrown away as it comes, so that the
//! next one is found.

use super::number;

/// Longest line of a length that is a number: `$`, sign, digits, `\r` and the byte behind it.
const LINE: usize = 32;

/// The rest of a refused command, still to arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Arguments, the one under way included.
    args: usize,
    /// Of that argument and its line end; 0: its length comes first.
    bytes: u64,
    /// As far as its length has come.
    line: [u8; LINE],
    len: usize,
}

impl Rest {
    /// So many arguments, the first from its length on.
    pub(super) fn new(args: usize) -> Self {
        Self { args, bytes: 0, line: [0; LINE], len: 0 }
    }

    /// Takes what belongs to the command of `input`: how many bytes that are, and whether it has
    /// ended.
    ///
    /// # Errors
    /// The error for a client that does not speak RESP; it is closed.
    pub fn take(&mut self, input: &[u8]) -> Result<(usize, bool), Vec<u8>> {
        let mut used = 0;
        while self.args > 0 && used < input.len() {
            if self.bytes > 0 {
                let there = self.bytes.min((input.len() - used) as u64);
                self.bytes -= there;
                used += there as usize;
                self.args -= usize::from(self.bytes == 0);
                continue;
            }
            self.line[self.len] = input[used];
            (self.len, used) = (self.len + 1, used + 1);
            // Like the decoder, it does not look at the byte after `\r`.
            if self.len > 1 && self.line[self.len - 2] == b'\r' {
                self.bytes = self.length()? + 2;
                self.len = 0;
            } else if self.len == LINE {
                return Err(b"ERR Protocol error: too big bulk count string".into());
            }
        }
        Ok((used, self.args == 0))
    }

    fn length(&self) -> Result<u64, Vec<u8>> {
        let first = self.line[0];
        if first != b'$' {
            return Err([b"ERR Protocol error: expected '$', got '", &[first][..], b"'"].concat());
        }
        let len =
            number::parse_i64(&self.line[1..self.len - 2]).and_then(|len| u64::try_from(len).ok());
        len.ok_or_else(|| b"ERR Protocol error: invalid bulk length".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_last_argument_however_it_comes() {
        let bytes = b"$3\r\nabc\r\n$0\r\n\r\n$12\r\n$1\r\nnothing\r\r\nPING\r\n";
        for piece in 1..=bytes.len() {
            let (mut rest, mut used) = (Rest::new(3), 0);
            for part in bytes.chunks(piece) {
                let (taken, ended) = rest.take(part).expect("RESP");
                used += taken;
                if ended {
                    break;
                }
                assert_eq!(taken, part.len(), "all of it is the command's");
            }
            assert_eq!(&bytes[used..], b"PING\r\n", "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_resp_is_told() {
        for (input, error) in [
            (&b":3\r\n"[..], "expected '$', got ':'"),
            (b"$x\r\n", "invalid bulk length"),
            (b"$-1\r\n", "invalid bulk length"),
            (b"$1111111111111111111111111111111111\r\n", "too big bulk count string"),
        ] {
            let told = Rest::new(1).take(input).expect_err("no RESP");
            assert_eq!(String::from_utf8_lossy(&told), format!("ERR Protocol error: {error}"));
        }
    }
}
