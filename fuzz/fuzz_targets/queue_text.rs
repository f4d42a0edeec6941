//! A stream of queue commands read whole and in pieces is the same commands; names and options are
//! those of the line.
#![no_main]

use larder_proto::{
    memcache::MAX_KEY,
    queue::{Command, Decoded, MAX_LINE, decode},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&step, stream)) = input.split_first() else { return };
    // Longer lines depend on how they arrive.
    let stream = &stream[..stream.len().min(MAX_LINE)];
    let whole = commands(stream, stream.len().max(1));
    assert_eq!(commands(stream, usize::from(step).max(1)), whole);
});

/// What is read of a stream that arrives in pieces of `step` bytes.
fn commands(stream: &[u8], step: usize) -> Vec<String> {
    let (mut start, mut end, mut read) = (0, step.min(stream.len()), Vec::new());
    loop {
        match decode(&stream[start..end]) {
            Decoded::Command(command, used) => {
                assert!(used > 0 && used <= end - start);
                assert_eq!(stream[start + used - 1], b'\n');
                read.push(format!("{command:?}"));
                start = (start + used).saturating_add(block(&command)).min(stream.len());
                end = end.max(start);
            }
            Decoded::Partial if end == stream.len() => return read,
            Decoded::Partial => end = (end + step).min(stream.len()),
            Decoded::TooLong => panic!("{} bytes are not too long", end - start),
        }
    }
}

/// Bytes behind the line that belong to the command.
fn block(command: &Command<'_>) -> usize {
    let name = match command {
        Command::Set(set) => set.name,
        Command::Get(get) => {
            assert!(!(get.peek && (get.open || get.close || get.abort)));
            assert!(!(get.abort && (get.open || get.close)));
            get.name
        }
        Command::Delete(named) | Command::Flush(named) | Command::FlushExpired(named) => named.name,
        Command::Monitor { name, .. } | Command::Confirm { name, .. } => name,
        _ => b"none",
    };
    assert!(!name.is_empty() && name.len() <= MAX_KEY);
    assert!(!name.iter().any(|byte| matches!(byte, b'/' | b' ' | b'\n')));
    match command {
        Command::Set(set) => set.len as usize + 2,
        Command::Refused(refused) => refused.swallow as usize,
        _ => 0,
    }
}
