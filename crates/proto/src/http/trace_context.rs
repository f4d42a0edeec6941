//! `traceparent` (W3C Trace Context, level 1, section 3.2): the trace of a request.

/// The position of a request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; never 0.
    pub trace: u128,
    /// The span of the sender; never 0.
    pub span: u64,
    /// The sender records its span.
    pub sampled: bool,
}

/// Bytes of a `traceparent` of version 00.
pub const TRACEPARENT_LEN: usize = 55;

impl TraceParent {
    /// Reads a field's value; `None` if it is invalid, and the request then counts as having none
    /// (section 3.2.2.3). Parts that a later version adds after the four known ones are ignored.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let known = value.get(..TRACEPARENT_LEN)?;
        if known[2] != b'-' || known[35] != b'-' || known[52] != b'-' {
            return None;
        }
        let version = hex(&known[..2])?;
        let rest = &value[TRACEPARENT_LEN..];
        if version == 0xff
            || (version == 0 && !rest.is_empty())
            || !(rest.is_empty() || rest[0] == b'-')
        {
            return None;
        }
        let trace = hex(&known[3..35])?;
        let span = hex(&known[36..52])? as u64;
        let flags = hex(&known[53..55])?;
        (trace != 0 && span != 0).then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }

    /// The field's value, version 00.
    pub fn to_value(self) -> [u8; TRACEPARENT_LEN] {
        let mut out = *b"00-00000000000000000000000000000000-0000000000000000-00";
        digits(&mut out[3..35], self.trace);
        digits(&mut out[36..52], u128::from(self.span));
        out[54] = if self.sampled { b'1' } else { b'0' };
        out
    }
}

/// Lower-case digits only, as the specification requires.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |sum, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(sum << 4 | u128::from(value))
    })
}

fn digits(out: &mut [u8], mut value: u128) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_example_of_the_document() {
        let parent = TraceParent::parse(EXAMPLE).expect("valid");
        assert_eq!(parent.trace, 0x0af7651916cd43dd8448eb211c80319c);
        assert_eq!((parent.span, parent.sampled), (0xb7ad6b7169203331, true));
        assert_eq!(parent.to_value(), EXAMPLE);
        assert_eq!(TraceParent { sampled: false, ..parent }.to_value()[53..], *b"00");
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        let later =
            b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-will-be-like";
        assert_eq!(TraceParent::parse(later), TraceParent::parse(EXAMPLE));
        assert_eq!(
            TraceParent::parse(b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01."),
            None
        );
    }

    #[test]
    fn what_is_none() {
        for wrong in [
            &b""[..],
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            b"00-00000000000000000000000000000000-b7ad6b7169203331-01",
            b"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            b"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            b"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            b"0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
