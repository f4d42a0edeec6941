//! A first look at pipelined commands: the key and the end of the next command, for the commands
//! that occur in pipelines. Nothing is checked here; [`super::decode`] does that when the command
//! is executed. It serves to prefetch the memory of several keys at once.

use super::{MAX_KEY, line};

/// The key of the first command of `input`, and the length of the whole command. `None`: it is
/// incomplete, or not one of `get`, `gets`, `set`, `mg` and `ms` in their usual form.
#[inline]
pub fn ahead(input: &[u8]) -> Option<(&[u8], usize)> {
    let start = verb(input)?;
    let end = start + line::find(b'\n', &input[start..])?;
    let words = input[start..end].strip_suffix(b"\r").unwrap_or(&input[start..end]);
    let (key, rest) = words.split_at(line::word_end(words));
    let used = match (input[0], start) {
        (b's', _) => end + 1 + data(rest, 3)?,
        (_, 3) if input[1] == b's' => end + 1 + data(rest, 1)?,
        _ => end + 1,
    };
    (!key.is_empty() && key.len() <= MAX_KEY && used <= input.len()).then_some((key, used))
}

/// The key of the first command of `input`, if it is one of those of [`ahead`]. The command may be
/// incomplete.
#[inline]
pub fn first_key(input: &[u8]) -> Option<&[u8]> {
    let rest = &input[verb(input)?..];
    let end = line::blank(rest).filter(|end| (1..=MAX_KEY).contains(end))?;
    let (key, behind) = rest.split_at(end);
    // Other control characters, and a CR within the line, are a part of the key.
    matches!(behind, [b' ' | b'\n', ..] | [b'\r', b'\n', ..]).then_some(key)
}

/// Start of the words after the verb.
#[inline]
fn verb(input: &[u8]) -> Option<usize> {
    match input {
        [b'm', b'g' | b's', b' ', ..] => Some(3),
        [b'g' | b's', b'e', b't', b' ', ..] => Some(4),
        [b'g', b'e', b't', b's', b' ', ..] => Some(5),
        _ => None,
    }
}

/// Length of the data block, whose length is the `nth` word of `rest`, including its end.
#[inline]
fn data(rest: &[u8], nth: usize) -> Option<usize> {
    let word = rest.split(|byte| *byte == b' ').nth(nth)?;
    if word.is_empty() || word.len() > 9 {
        return None;
    }
    let len = word.iter().try_fold(0, |len, byte| {
        byte.is_ascii_digit().then(|| len * 10 + usize::from(byte - b'0'))
    })?;
    Some(len + 2)
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Decoded, decode};
    use super::*;

    #[test]
    fn key_and_end_of_the_commands_of_pipelines() {
        assert_eq!(ahead(b"get abc\r\nget d\r\n"), Some((&b"abc"[..], 9)));
        assert_eq!(ahead(b"gets abc d e\n"), Some((&b"abc"[..], 13)));
        assert_eq!(ahead(b"mg abc v\r\n"), Some((&b"abc"[..], 10)));
        assert_eq!(ahead(b"set abc 0 0 5\r\nhello\r\n"), Some((&b"abc"[..], 22)));
        assert_eq!(ahead(b"ms abc 5 T0\r\nhello\r\n"), Some((&b"abc"[..], 20)));
    }

    #[test]
    fn the_first_key_is_known_before_its_command_is_whole() {
        for input in [
            "get abc\r\n",
            "get abc\n",
            "gets abc d\r\n",
            "mg abc v\r\n",
            "set abc 0 0 5\r\nhe",
            "ms abc ",
        ] {
            assert_eq!(first_key(input.as_bytes()), Some(&b"abc"[..]), "{input:?}");
        }
        let long = format!("get {}\r\n", "k".repeat(MAX_KEY + 1));
        for input in [
            "",
            "get",
            "get ab",
            "get ab\r",
            "get a\rb\r\n",
            "get \r\n",
            "get \n",
            "md abc\r\n",
            "get  a\r\n",
            &long,
        ] {
            assert_eq!(first_key(input.as_bytes()), None, "{input:?}");
        }
    }

    #[test]
    fn nothing_of_what_is_not_whole_or_unusual() {
        for input in [
            "",
            "get",
            "get abc",
            "set abc 0 0 5\r\nhell",
            "ms abc\r\n",
            "ms abc x\r\n",
            "md abc\r\n",
            " get a\r\n",
            "get \r\n",
        ] {
            assert_eq!(ahead(input.as_bytes()), None, "{input:?}");
        }
    }

    #[test]
    fn a_command_ends_where_decode_ends_it() {
        for input in [
            "get abc\r\nx",
            "mg a v k t\r\nx",
            "set a 1 2 3 noreply\r\nabc\r\nx",
            "ms a 3 F1\r\nabc\r\nx",
        ] {
            let (_, used) = ahead(input.as_bytes()).unwrap();
            let Decoded::Command(command, line) = decode(input.as_bytes()) else {
                panic!("{input:?}")
            };
            let data = match command {
                Command::Store(store) => store.len as usize + 2,
                Command::MetaSet(_) => 5,
                _ => 0,
            };
            assert_eq!(used, line + data, "{input:?}");
            assert_eq!(&input[used..], "x");
        }
    }
}
