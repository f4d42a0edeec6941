//! RFC 9113 section 6.8, and memory at rest.

use crate::peer::*;
use larder_proto::http2::{Connection, ErrorCode, Fields, Limits, Sent};

#[test]
fn draining_takes_two_steps() {
    let mut peer = Peer::plain();
    peer.get(1);
    peer.conn.drain(&mut peer.out);
    assert_eq!(peer.frames(), [goaway((1 << 31) - 1, ErrorCode::NO_ERROR)]);
    peer.post(3);
    peer.conn.drain(&mut peer.out);
    peer.conn.drain(&mut peer.out);
    assert_eq!(peer.frames(), [goaway(3, ErrorCode::NO_ERROR)]);
    // Later streams are ignored with all of their frames; those that are open go on.
    let late =
        [request(5, false), data(5, false, b"x"), window_update(5, 1), reset(5), request(7, true)];
    assert_eq!(peer.send(&late.concat()), []);
    assert_eq!(peer.send(&data(3, true, b"x")).len(), 1);
    assert_eq!(peer.frames(), []);
    assert!(!peer.conn.is_drained());
    for id in [1, 3] {
        assert_eq!(peer.conn.respond(id, 200, &[], true, &peer.limits, &mut peer.out), Sent::Done);
    }
    assert!(peer.conn.is_drained());
}

#[test]
fn a_connection_at_rest_is_small() {
    let mut peer = Peer::plain();
    for n in 0..100 {
        peer.get(2 * n + 1);
    }
    for n in 0..100 {
        let lines = &[Fields::Lines(b"server: larder\r\n")];
        let sent = peer.conn.respond(2 * n + 1, 200, lines, true, &peer.limits, &mut peer.out);
        assert_eq!(sent, Sent::Done);
    }
    assert!(peer.conn.memory() > 400);
    peer.conn.rest();
    assert!(peer.conn.memory() < 420, "{}", peer.conn.memory());
    assert_eq!(peer.conn.memory(), size_of::<Connection>());
    peer.get(301);
}

#[test]
fn memory_is_bounded_with_all_tables_full() {
    let mut peer = Peer::plain();
    for n in 0..2000_u32 {
        let mut fields = block(&GET);
        let value = format!("{n}-{}", "v".repeat(n as usize % 100));
        fields.extend(b"\x40\x01x");
        fields.push(value.len() as u8);
        fields.extend(value.as_bytes());
        let id = 2 * n + 1;
        assert_eq!(peer.send(&frame(1, 5, id, &fields)).len(), 1);
        let line = format!("server: {value}\r\n");
        let lines = &[Fields::Lines(line.as_bytes())];
        assert_eq!(
            peer.conn.respond(id, 200, lines, true, &peer.limits, &mut peer.out),
            Sent::Done
        );
    }
    let limits = Limits::default();
    let tables = 5 * (limits.table_bytes + limits.encoder_table_bytes) as usize;
    assert!(peer.conn.memory() < tables, "{}", peer.conn.memory());
}
