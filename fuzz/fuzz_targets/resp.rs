//! Commands taken from bytes that come in one go, or in pieces, are the same; and a command written
//! again as an array is read as itself.
#![no_main]

use larder_proto::resp::{Decoder, Limits, Owned, Step};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    bulk: 64 * 1024,
    command: 256 * 1024,
    stranger: false,
    item: 64 * 1024,
    room: 256 * 1024,
};

fuzz_target!(|input: &[u8]| {
    let Some((&step, bytes)) = input.split_first() else { return };
    let limits = Limits { stranger: step & 0x80 != 0, ..LIMITS };
    let whole = decode(bytes, bytes.len().max(1), &limits);
    assert_eq!(decode(bytes, usize::from(step & 0x7f).max(1), &limits), whole);
    for command in &whole.0 {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let again = decode(&written(&args), usize::MAX, &LIMITS);
        assert_eq!(again.0, std::slice::from_ref(command));
        let owned = Owned::new(&args);
        assert!(owned.args().from(0).eq(args.iter().copied()));
    }
});

/// The commands, and the error that ended them.
fn decode(bytes: &[u8], step: usize, limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<Vec<u8>>) {
    let mut decoder = Decoder::default();
    let (mut start, mut end, mut commands) = (0, 0, Vec::new());
    loop {
        match decoder.step(&bytes[start..end], limits) {
            Step::Command { args, used } => {
                assert!(args.len() > 0 && used > 0 && start + used <= end);
                commands.push(args.from(0).map(<[u8]>::to_vec).collect());
                start += used;
            }
            Step::Skip(used) => {
                assert!(used > 0 && start + used <= end);
                start += used;
            }
            Step::More(hint) => {
                assert!(hint == 0 || hint > end - start, "asks for what it has");
                if end == bytes.len() {
                    return (commands, None);
                }
                end = end.saturating_add(step).min(bytes.len());
            }
            Step::Refused(why) => unreachable!("the limits are no lower: {why:?}"),
            Step::Error(text) => return (commands, Some(text)),
        }
    }
}

fn written(args: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}
