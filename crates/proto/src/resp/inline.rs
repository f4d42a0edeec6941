//! Inline commands: a line of words, for people at a terminal (`redis-cli` never sends them).
//! Quotes and escapes as in Redis's sdssplitargs.

use super::args::Span;

/// Splits `line` into words: their bytes go to `text` one after another, their places to `spans`.
/// `None`: quotes do not balance.
pub(super) fn split(line: &[u8], text: &mut Vec<u8>, spans: &mut Vec<Span>) -> Option<()> {
    // Redis works on C strings.
    let line = line.split(|&b| b == 0).next().unwrap_or_default();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&b| is_space(b)) {
            at += 1;
        }
        if at == line.len() {
            return Some(());
        }
        let from = text.len();
        at = word(line, at, text)?;
        spans.push(Span { at: from as u32, len: (text.len() - from) as u32 });
    }
}

/// The words of a line. `None`: quotes do not balance.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut text, mut spans) = (Vec::new(), Vec::new());
    split(line, &mut text, &mut spans)?;
    let word = |span: &Span| text[span.at as usize..][..span.len as usize].to_vec();
    Some(spans.iter().map(word).collect())
}

/// Appends the word at `at`, returns where it ends.
fn word(line: &[u8], mut at: usize, text: &mut Vec<u8>) -> Option<usize> {
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' => return double_quoted(line, at + 1, text),
            b'\'' => return single_quoted(line, at + 1, text),
            b' ' | b'\n' | b'\r' | b'\t' => return Some(at),
            _ => text.push(byte),
        }
        at += 1;
    }
    Some(at)
}

fn double_quoted(line: &[u8], mut at: usize, text: &mut Vec<u8>) -> Option<usize> {
    loop {
        match line.get(at..)? {
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                text.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            [b'"', rest @ ..] => return closed(rest).then_some(at + 1),
            [byte, ..] => {
                text.push(*byte);
                at += 1;
            }
            [] => return None,
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, text: &mut Vec<u8>) -> Option<usize> {
    loop {
        match line.get(at..)? {
            [b'\\', b'\'', ..] => {
                text.push(b'\'');
                at += 2;
            }
            [b'\'', rest @ ..] => return closed(rest).then_some(at + 1),
            [byte, ..] => {
                text.push(*byte);
                at += 1;
            }
            [] => return None,
        }
    }
}

/// A closing quote ends the word: only a space may follow.
fn closed(rest: &[u8]) -> bool {
    rest.first().is_none_or(|&b| is_space(b))
}

/// C's isspace.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn hex(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}
