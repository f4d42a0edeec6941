//! Fast path for heads of bulk strings: a length of at most three digits, read without a loop.

/// The head of a bulk string of at most 999 bytes at the start of `input`: the length of the head,
/// and the length of the string. `None`: it is another head, or fewer than six bytes have arrived,
/// which every complete bulk string has. The byte after the `\r` is ignored, as in Redis.
#[inline(always)]
pub(super) fn bulk_head(input: &[u8]) -> Option<(usize, usize)> {
    let &[b'$', a, b, c, d, _] = input.first_chunk()? else { return None };
    let digit = |byte: u8| Some(usize::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit <= 9);
    let first = digit(a)?;
    if b == b'\r' {
        return Some((4, first));
    }
    // Redis accepts no leading zeros.
    let two = digit(b).filter(|_| first != 0)? + 10 * first;
    if c == b'\r' {
        return Some((5, two));
    }
    let three = digit(c)? + 10 * two;
    (d == b'\r').then_some((6, three))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_up_to_three_digits_as_redis_takes_them() {
        for (input, head) in [
            (&b"$0\r\n\r\n"[..], Some((4, 0))),
            (b"$7\r\n1234567\r\n", Some((4, 7))),
            (b"$10\r\n12", Some((5, 10))),
            (b"$999\r\n", Some((6, 999))),
            (b"$100\rx", Some((6, 100))),
            (b"$1000\r\n", None),
            (b"$07\r\n12", None),
            (b"$00\r\n12", None),
            (b"$-1\r\n*", None),
            (b"$1:\r\n1", None),
            (b"$\r\n\r\n\r\n", None),
            (b"$9\r\n1", None),
            (b":1\r\n12", None),
            (b"", None),
        ] {
            assert_eq!(bulk_head(input), head, "{}", input.escape_ascii());
        }
    }
}
