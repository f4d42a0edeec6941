//! A stream of queue commands read whole and in pieces is the same commands; names and options are
//! those of the line.
#![no_main]

mod pieces;

use larder_proto::{
    memcache::MAX_KEY,
    queue::{Command, Decoded, MAX_LINE, decode},
};
use libfuzzer_sys::fuzz_target;
use pieces::Read;

fuzz_target!(|input: &[u8]| {
    let Some((&step, stream)) = input.split_first() else { return };
    // Longer lines depend on how they arrive.
    let stream = &stream[..stream.len().min(MAX_LINE)];
    let whole = commands(stream, stream.len().max(1));
    assert_eq!(commands(stream, usize::from(step).max(1)), whole);
});

fn commands(stream: &[u8], step: usize) -> Vec<String> {
    pieces::commands(stream, step, |bytes| match decode(bytes) {
        Decoded::Command(command, line) => {
            Some(Read { command: format!("{command:?}"), line, block: block(&command) })
        }
        Decoded::Partial => None,
        Decoded::TooLong => panic!("{} bytes are not too long", bytes.len()),
    })
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
