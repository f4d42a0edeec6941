//! A meta command is read or refused, never both ways: what is given back of it names the flags
//! that were sent, in their order; a binary key is given back so that it is read again as the same
//! key.
#![no_main]

use larder_proto::memcache::{
    Command, Decoded, MAX_KEY, decode,
    line::Words,
    meta::{Echo, Key},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&verb, rest)) = input.split_first() else { return };
    let line = [b"m", &[b"gsdae"[usize::from(verb) % 5]][..], b" ", rest, b"\r\n"].concat();
    let end = line.iter().position(|byte| *byte == b'\n').expect("it was put there") + 1;
    let Decoded::Command(command, used) = decode(&line) else { panic!("the line has an end") };
    assert_eq!(used, end);
    match command {
        Command::MetaGet(get) => check(&get.key, Some(&get.echo), &line[..end]),
        Command::MetaSet(set) => check(&set.key, Some(&set.echo), &line[..end]),
        Command::MetaDelete(delete) => check(&delete.key, Some(&delete.echo), &line[..end]),
        Command::MetaCount(count) => check(&count.key, Some(&count.echo), &line[..end]),
        Command::MetaDebug(debug) => check(&debug.key, None, &line[..end]),
        Command::Refused(refused) => assert!(refused.answer.ends_with(b"\r\n") && !refused.close),
        other => panic!("{other:?} is no meta command"),
    }
});

fn check(key: &Key<'_>, echo: Option<&Echo<'_>>, line: &[u8]) {
    let mut buffer = [0; MAX_KEY];
    let bytes = key.bytes(&mut buffer);
    assert!(!bytes.is_empty() && bytes.len() <= MAX_KEY);
    if key.is_base64() {
        let mut again = b"me ".to_vec();
        key.write(&mut again);
        again.extend_from_slice(b"\r\n");
        let Decoded::Command(Command::MetaDebug(debug), _) = decode(&again) else {
            panic!("it was read before")
        };
        assert_eq!(debug.key.bytes(&mut [0; MAX_KEY]), bytes);
    }
    let Some(echo) = echo else { return };
    let mut given = Vec::new();
    echo.write(key, &mut given, |flag, into| {
        into.push(b'0');
        matches!(flag, b'c' | b'f' | b'h' | b'l' | b's' | b't')
    });
    // Flags given back, less the one that says that the key is base64.
    let names: Vec<u8> =
        Words::new(&given).map(|word| word[0]).filter(|name| *name != b'b').collect();
    let sent: Vec<u8> = Words::new(line.trim_ascii_end()).map(|word| word[0]).collect();
    let mut rest = sent.iter();
    assert!(names.iter().all(|name| rest.any(|sent| sent == name)), "{names:?} of {sent:?}");
}
