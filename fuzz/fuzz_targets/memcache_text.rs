//! A stream of text commands read whole and in pieces is the same commands; the keys of a retrieval
//! taken one by one are the words of its line.
#![no_main]

mod pieces;

use larder_proto::memcache::{
    Command, Decoded, MAX_KEY, MAX_LINE, decode,
    line::Words,
    text::{Key, Keys},
};
use libfuzzer_sys::fuzz_target;
use pieces::Read;

fuzz_target!(|input: &[u8]| {
    let Some((&step, stream)) = input.split_first() else { return };
    // Longer lines depend on how they arrive, as in memcached.
    let stream = &stream[..stream.len().min(MAX_LINE)];
    let whole = commands(stream, stream.len().max(1));
    assert_eq!(commands(stream, usize::from(step).max(1)), whole);
    keys(stream, usize::from(step).max(1));
});

fn commands(stream: &[u8], step: usize) -> Vec<String> {
    pieces::commands(stream, step, |bytes| match decode(bytes) {
        Decoded::Command(command, line) => {
            Some(Read { command: format!("{command:?}"), line, block: block(&command) })
        }
        Decoded::Partial => None,
        Decoded::Keys(..) | Decoded::TooLong => panic!("{} bytes are not too long", bytes.len()),
    })
}

/// Bytes behind the line that belong to the command.
fn block(command: &Command<'_>) -> usize {
    match command {
        Command::Store(store) => {
            assert!(store.key.len() <= MAX_KEY && !store.key.is_empty());
            store.len as usize + 2
        }
        Command::MetaSet(set) => set.len as usize + 2,
        Command::Refused(refused) => refused.swallow as usize,
        Command::Get(get) => {
            assert!({ get.keys }.all(|key| !key.is_empty() && key.len() <= MAX_KEY));
            0
        }
        _ => 0,
    }
}

/// Reads the stream as the keys of a retrieval, arriving in pieces.
fn keys(stream: &[u8], step: usize) {
    let Some(end) = stream.iter().position(|byte| *byte == b'\n') else { return };
    let line = stream[..end].strip_suffix(b"\r").unwrap_or(&stream[..end]);
    let expected: Vec<&[u8]> = Words::new(line).collect();
    let (mut start, mut there, mut read) = (0, 0, Vec::new());
    loop {
        let mut keys = Keys::new(&stream[start..there]);
        loop {
            match keys.take() {
                Key::Key(key) => read.push(key),
                Key::Partial => break,
                Key::TooLong => {
                    assert!(expected[read.len()].len() > MAX_KEY);
                    return;
                }
                Key::End => {
                    assert_eq!(start + keys.used(), end + 1);
                    assert_eq!(read, expected);
                    return;
                }
            }
        }
        start += keys.used();
        assert!(there < stream.len(), "the line has an end");
        there = (there + step).min(stream.len());
    }
}
