//! A first look at pipelined commands: the key and the end of the next command. Nothing is checked
//! here; the decoder does that when the command is executed. It serves to prefetch the memory of
//! several keys at once.

use super::short::bulk_head;

/// The first argument of the first command of `input`, and the length of the whole command. `None`:
/// it is incomplete, has no or more than eight arguments, or one of more than 999 bytes.
#[inline]
pub fn ahead(input: &[u8]) -> Option<(&[u8], usize)> {
    let &[b'*', count @ b'2'..=b'9', b'\r', b'\n', ref bulks @ ..] = input else { return None };
    let mut rest = skip(bulks)?.1;
    let (key, after) = skip(rest)?;
    rest = after;
    for _ in b'2'..count {
        rest = skip(rest)?.1;
    }
    Some((key, input.len() - rest.len()))
}

/// The first bulk string, and the bytes after it.
#[inline]
fn skip(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, len) = bulk_head(input)?;
    let rest = &input[head..];
    Some((rest.get(..len)?, rest.get(len + 2..)?))
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, Limits, Step};
    use super::*;

    #[test]
    fn a_command_ends_where_the_decoder_ends_it() {
        let limits = Limits {
            bulk: 1 << 20,
            command: 1 << 20,
            stranger: false,
            item: 1 << 20,
            room: 1 << 20,
        };
        let long = [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$120\r\n"[..], &[b'x'; 120], b"\r\n"].concat();
        for command in [
            &b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n"[..],
            b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n$2\r\nNX\r\n",
            &long,
        ] {
            let (key, used) = ahead(command).unwrap();
            assert_eq!(used, command.len());
            assert_eq!(ahead(&[command, b"*1\r\n"].concat()), Some((key, used)));
            for cut in 0..command.len() {
                assert_eq!(ahead(&command[..cut]), None, "whole at {cut}?");
            }
            let mut decoder = Decoder::default();
            let Step::Command { args, used: decoded } = decoder.step(command, &limits) else {
                panic!()
            };
            assert_eq!((args.get(1), decoded), (key, used));
        }
    }

    #[test]
    fn nothing_of_what_is_unusual() {
        for input in [
            "",
            "GET a\r\n",
            "*1\r\n$4\r\nPING\r\n",
            "*2\r\n$3\r\nGET\r\n$-1\r\n",
            "*12\r\n",
            "*2\r\n$03x\r\n",
            "*2\n",
        ] {
            assert_eq!(ahead(input.as_bytes()), None, "{input:?}");
        }
    }
}
