//! RFC 9218: who sends next.

use crate::peer::*;
use larder_proto::http2::frame::kind;
use larder_proto::http2::{Limits, Priority};

fn update(stream: u32, value: &str) -> Vec<u8> {
    frame(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat())
}

fn open(peer: &mut Peer, stream: u32, priority: &str) {
    let fields = [&GET[..], &[("priority", priority)]].concat();
    peer.send(&headers(stream, true, &fields));
    peer.conn.wants_to_send(stream, true);
}

/// The order in which streams send, a byte each.
fn order(peer: &mut Peer, turns: usize) -> Vec<u32> {
    let turn = |_| {
        let stream = peer.conn.next().unwrap();
        let _ = peer.conn.data_frame(stream, 1, false, &peer.limits, &mut peer.out);
        stream
    };
    (0..turns).map(turn).collect()
}

#[test]
fn urgent_streams_send_first_and_equals_in_order() {
    let mut peer = Peer::plain();
    for (stream, priority) in [(1, "u=5"), (3, ""), (5, "u=1"), (7, "u=1")] {
        open(&mut peer, stream, priority);
    }
    assert_eq!(order(&mut peer, 3), [5, 5, 5]);
    for expected in [5, 7, 3, 1] {
        assert_eq!(peer.conn.next(), Some(expected));
        let _ = peer.conn.data_frame(expected, 1, true, &peer.limits, &mut peer.out);
    }
    assert_eq!(peer.conn.next(), None);
}

#[test]
fn incremental_streams_share() {
    let mut peer = Peer::plain();
    for (stream, priority) in [(1, "i"), (3, "i"), (5, ""), (7, ""), (9, "u=4, i")] {
        open(&mut peer, stream, priority);
    }
    let mut seen = order(&mut peer, 9);
    seen.sort_unstable();
    assert_eq!(seen, [1, 1, 1, 3, 3, 3, 5, 5, 5]);
    peer.conn.wants_to_send(5, false);
    peer.conn.wants_to_send(1, false);
    let mut seen = order(&mut peer, 4);
    seen.sort_unstable();
    assert_eq!(seen, [3, 3, 7, 7]);
}

#[test]
fn updates_change_open_streams_and_wait_for_others() {
    let mut peer = Peer::ready(Limits { early_priorities: 2, ..Limits::default() });
    open(&mut peer, 1, "u=2");
    open(&mut peer, 3, "u=2");
    assert_eq!(peer.send(&update(3, "u=1")), []);
    assert_eq!(peer.conn.next(), Some(3));
    let early = [update(5, "u=7"), update(5, "u=0"), update(7, "u=6"), update(9, "u=6")].concat();
    assert_eq!(peer.send(&early), []);
    let expected = [(5, 0), (7, 6), (9, 3)];
    for (stream, urgency) in expected {
        match peer.one(&request(stream, true)) {
            Seen::Request { request, .. } => {
                assert_eq!(request.priority, Priority { urgency, incremental: false });
            }
            seen => panic!("{seen:?}"),
        }
    }
    assert_eq!(peer.send(&update(5, "nonsense=")), []);
}
