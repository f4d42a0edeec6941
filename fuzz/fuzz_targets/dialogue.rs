//! A conversation read whole and in pieces is the same: requests and answers begin and end at the
//! same bytes. All bytes pass, in their order, and none is changed but for what a greeting offers;
//! what is kept is bounded.
#![no_main]

use larder_proto::dialogue::{Dialect, Down, KEPT, NEEDED, Up};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [protocol, step, says @ ..] = input else { return };
    let protocol = [Dialect::mysql, Dialect::postgres, Dialect::http][usize::from(*protocol) % 3];
    let whole = hear(protocol(), says, usize::MAX);
    let pieces = hear(protocol(), says, usize::from(*step).max(1));
    assert_eq!(pieces.lost, whole.lost);
    // How much of a piece is understood before it turns out not to be the protocol depends on the
    // piece; all of it passes.
    if !whole.lost {
        assert_eq!(pieces, whole);
    }
});

/// What a conversation was read as: offsets in what each side said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    requests: Vec<usize>,
    asides: Vec<usize>,
    begins: Vec<usize>,
    ends: Vec<usize>,
    /// Bytes that passed.
    up: usize,
    down: usize,
    lost: bool,
}

/// Reads a conversation: a byte says who speaks (its highest bit: the server) and how many bytes,
/// which follow.
fn hear(mut dialect: Dialect, mut says: &[u8], step: usize) -> Heard {
    let mut heard = Heard::default();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    while let Some((&head, rest)) = says.split_first() {
        let (said, behind) = rest.split_at(usize::from(head & 0x7f).min(rest.len()));
        says = behind;
        for piece in said.chunks(step) {
            if head & 0x80 == 0 {
                up.extend_from_slice(piece);
                hear_client(&mut dialect, &mut up, &mut heard);
            } else {
                down.extend_from_slice(piece);
                hear_server(&mut dialect, &mut down, &mut heard);
            }
            if heard.lost {
                return heard;
            }
            assert!(dialect.kept() <= KEPT);
        }
    }
    assert!(dialect.server_ended() + heard.ends.len() <= heard.requests.len());
    heard
}

fn hear_client(dialect: &mut Dialect, bytes: &mut Vec<u8>, heard: &mut Heard) {
    while !bytes.is_empty() {
        let length = match dialect.up(bytes) {
            Up::More => return assert!(bytes.len() < NEEDED),
            Up::Lost(_) => return heard.lost = true,
            Up::Pass(length) => length,
            // The only bytes that go no further.
            Up::Answer(length, answer) => {
                assert!(length == 8 && answer == b"N");
                length
            }
            Up::Aside(length) => {
                heard.asides.push(heard.up);
                length
            }
            Up::Request(length, _) => {
                heard.requests.push(heard.up);
                length
            }
        };
        assert!(length > 0 && length <= bytes.len());
        bytes.drain(..length);
        heard.up += length;
    }
}

fn hear_server(dialect: &mut Dialect, bytes: &mut Vec<u8>, heard: &mut Heard) {
    while !bytes.is_empty() {
        let before = bytes.clone();
        match dialect.down(bytes) {
            Down::More => return assert!(*bytes == before && bytes.len() < NEEDED),
            Down::Lost(_) => return heard.lost = true,
            Down::Pass { length, begins, ends } => {
                assert!(length > 0 && length <= bytes.len());
                check_changes(&before, bytes);
                if begins {
                    heard.begins.push(heard.down);
                }
                bytes.drain(..length);
                heard.down += length;
                heard.ends.extend(vec![heard.down; ends]);
                assert!(heard.ends.len() <= heard.requests.len());
                assert!(heard.begins.len() <= heard.requests.len());
            }
        }
    }
}

/// At most two bits of a MySQL server's greeting are taken away: kinds of compression.
fn check_changes(before: &[u8], after: &[u8]) {
    assert_eq!(before.len(), after.len());
    let taken: u32 =
        before.iter().zip(after).map(|(before, after)| (before ^ after).count_ones()).sum();
    assert!(taken <= 2 && before.iter().zip(after).all(|(before, after)| before & after == *after));
}
