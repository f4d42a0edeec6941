//! Any bytes, in any pieces.

use crate::peer::*;
use larder_proto::http2::frame::kind;
use larder_proto::http2::{Limits, PREFACE};
use proptest::prelude::*;

/// Joins pieces of data that follow each other: where they are cut depends on the pieces received.
fn joined(seen: Vec<Seen>) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    for one in seen {
        if let Seen::Data { stream, bytes, end } = &one
            && let Some(Seen::Data { stream: last, bytes: before, end: done }) = all.last_mut()
            && last == stream
            && !*done
        {
            before.extend_from_slice(bytes);
            *done = *end;
        } else {
            all.push(one);
        }
    }
    all
}

/// Frames that mean something more often than not.
fn some_frame() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![8 => (0_u32..8).prop_map(|n| 2 * n + 1), 1 => 0_u32..20];
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let request = (id.clone(), any::<bool>()).prop_map(|(id, end)| request(id, end));
    let body = (id.clone(), any::<bool>(), bytes.clone())
        .prop_map(|(id, end, bytes)| data(id, end, &bytes));
    let trailers = id.clone().prop_map(|id| headers(id, true, &[("x", "y")]));
    let compressed = (id.clone(), bytes.clone()).prop_map(|(id, bytes)| {
        let fields = [&block(&GET)[..], b"\x40\x01a\x01b\xbe", &bytes].concat();
        frame(kind::HEADERS, 5, id, &fields)
    });
    let any_frame = (0_u8..20, any::<u8>(), id.clone(), bytes)
        .prop_map(|(kind, flags, id, bytes)| frame(kind, flags, id, &bytes));
    let window = (id.clone(), 0_u32..1000).prop_map(|(id, by)| window_update(id, by));
    let parameters = (0_u16..10, 0_u32..40_000).prop_map(|setting| settings(&[setting]));
    prop_oneof![
        6 => request, 4 => body, 1 => trailers, 1 => compressed, 1 => any_frame, 1 => window,
        1 => parameters, 1 => id.prop_map(reset)
    ]
}

fn events(bytes: &[u8], pieces: &[usize]) -> (Vec<Seen>, Vec<u8>) {
    let limits = Limits { concurrent_streams: 3, stream_window: 100, ..Limits::default() };
    let mut peer = Peer::new(limits);
    let (mut seen, mut rest) = (Vec::new(), bytes);
    let mut sizes = pieces.iter().cycle();
    while !rest.is_empty() {
        let (piece, behind) =
            rest.split_at(sizes.next().map_or(rest.len(), |n| *n).min(rest.len()));
        seen.extend(peer.send(piece));
        rest = behind;
    }
    (joined(seen), peer.out)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_do_not_matter(
        frames in prop::collection::vec(some_frame(), 0..20),
        pieces in prop::collection::vec(1_usize..50, 1..10),
    ) {
        let bytes = [&PREFACE[..], &settings(&[]), &frames.concat()].concat();
        prop_assert_eq!(events(&bytes, &pieces), events(&bytes, &[bytes.len()]));
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let begun = [&PREFACE[..], &settings(&[]), &bytes].concat();
        let (_, out) = events(&begun, &[7]);
        parse_frames(&out);
        events(&bytes, &[3]);
    }
}
