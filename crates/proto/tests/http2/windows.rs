//! RFC 9113 sections 5.2, 6.5.2 and 6.9: windows in both directions.

use crate::peer::*;
use crate::states::{fails, resets};
use larder_proto::http2::frame::kind;
use larder_proto::http2::{ErrorCode, Limits, Sent};
use proptest::prelude::*;

const MIB: usize = 1 << 20;

fn small() -> Limits {
    Limits { stream_window: 1000, connection_window: 65_535, ..Limits::default() }
}

#[test]
fn data_beyond_a_window_is_an_error() {
    let mut peer = Peer::ready(small());
    peer.post(1);
    resets(&mut peer, &data(1, false, &[0; 1001]), 1, ErrorCode::FLOW_CONTROL_ERROR, "stream");
    let limits = Limits { connection_window: 65_535, ..Limits::default() };
    let mut peer = Peer::ready(limits);
    peer.post(1);
    for _ in 0..3 {
        assert_eq!(peer.send(&data(1, false, &[0; 16_384])).len(), 1);
    }
    assert_eq!(peer.send(&data(1, false, &[0; 16_383])).len(), 1);
    fails(&mut peer, &data(1, false, &[0]), ErrorCode::FLOW_CONTROL_ERROR, "connection");
}

#[test]
fn settings_hold_once_they_are_acknowledged() {
    let mut peer = Peer::new(small());
    let hello = [&larder_proto::http2::PREFACE[..], &settings(&[])].concat();
    peer.send(&hello);
    peer.post(1);
    assert_eq!(peer.send(&data(1, false, &[0; 5000])).len(), 1);
    peer.send(&settings_ack());
    resets(&mut peer, &data(1, false, &[0]), 1, ErrorCode::FLOW_CONTROL_ERROR, "negative window");
}

#[test]
fn windows_are_given_back_in_halves() {
    let mut peer = Peer::ready(small());
    peer.post(1);
    peer.send(&data(1, false, &[0; 900]));
    peer.conn.consumed(1, 499, &peer.limits, &mut peer.out);
    assert_eq!(peer.frames(), []);
    peer.conn.consumed(1, 1, &peer.limits, &mut peer.out);
    assert_eq!(peer.frames(), [(kind::WINDOW_UPDATE, 0, 1, 500_u32.to_be_bytes().to_vec())]);
    // More than there was is not given back.
    peer.conn.consumed(1, 5000, &peer.limits, &mut peer.out);
    assert_eq!(peer.frames(), []);
    assert_eq!(peer.send(&data(1, false, &[0; 600])).len(), 1);
    resets(&mut peer, &data(1, false, &[0]), 1, ErrorCode::FLOW_CONTROL_ERROR, "used up");
}

/// However streams end, the connection's window comes back.
#[test]
fn the_connections_window_survives_streams_that_are_not_read() {
    let limits = Limits { connection_window: 65_535, ..Limits::default() };
    for way in 0..5 {
        let mut peer = Peer::ready(limits.clone());
        let mut window = 65_535_i64;
        for n in 0..50_u32 {
            let id = 2 * n + 1;
            peer.post(id);
            assert!(window >= 10_000, "way {way}: the window is used up");
            window -= 10_000;
            let seen = peer.send(&data(id, way == 3, &[0; 10_000]));
            assert_eq!(seen.len(), 1);
            match way {
                0 => drop(peer.send(&reset(id))),
                1 => peer.conn.reset(id, ErrorCode::CANCEL, &peer.limits, &mut peer.out),
                2 => drop(peer.send(&window_update(id, 0))),
                3 => {
                    let sent = peer.conn.respond(id, 200, &[], true, &peer.limits, &mut peer.out);
                    assert_eq!(sent, Sent::Done);
                }
                _ => {
                    let sent = peer.conn.respond(id, 200, &[], true, &peer.limits, &mut peer.out);
                    assert_eq!(sent, Sent::Unread);
                    peer.conn.reset(id, ErrorCode::NO_ERROR, &peer.limits, &mut peer.out);
                    // On its way when the reset came.
                    window -= 100;
                    assert_eq!(peer.send(&data(id, true, &[0; 100])), []);
                }
            }
            let updates = peer.frames().into_iter().filter(|frame| frame.0 == kind::WINDOW_UPDATE);
            for (_, _, stream, payload) in updates {
                assert_eq!(stream, 0);
                window += i64::from(u32::from_be_bytes(payload.try_into().unwrap()));
            }
        }
    }
}

#[test]
fn sending_stops_at_each_window() {
    let mut peer = Peer::plain();
    peer.send(&settings(&[(4, 10)]));
    peer.get(1);
    peer.get(3);
    let _ = peer.conn.respond(1, 200, &[], false, &peer.limits, &mut peer.out);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 10);
    peer.conn.wants_to_send(1, true);
    assert_eq!(peer.conn.next(), Some(1));
    assert_eq!(peer.conn.data_frame(1, 10, false, &peer.limits, &mut peer.out), Sent::Open);
    assert_eq!((peer.conn.sendable(1, &peer.limits), peer.conn.next()), (0, None));
    assert_eq!(peer.send(&window_update(3, 5)), []);
    assert_eq!(peer.send(&window_update(1, 5)), [Seen::Writable]);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 5);
    // A smaller setting makes the window negative (section 6.9.2).
    assert_eq!(peer.send(&settings(&[(4, 0)])), []);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 0);
    assert_eq!(peer.send(&window_update(1, 5)), []);
    assert_eq!(peer.send(&window_update(1, 1)), [Seen::Writable]);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 1);
    assert_eq!(peer.send(&settings(&[(4, 100)])), []);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 101);
    peer.out.clear();
    let bytes = settings(&[(4, (1 << 31) - 1)]);
    fails(&mut peer, &bytes, ErrorCode::FLOW_CONTROL_ERROR, "a window above 2^31-1");
}

#[test]
fn the_connections_window_holds_all_streams() {
    let mut peer = Peer::plain();
    peer.send(&settings(&[(4, MIB as u32), (5, 32_768)]));
    peer.get(1);
    peer.conn.wants_to_send(1, true);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 16_384);
    peer.limits.send_frame_bytes = 1 << 20;
    assert_eq!(peer.conn.sendable(1, &peer.limits), 32_768);
    let mut sent = 0;
    while let length @ 1.. = peer.conn.sendable(1, &peer.limits) {
        let _ = peer.conn.data_frame(1, length, false, &peer.limits, &mut peer.out);
        sent += length;
    }
    assert_eq!((sent, peer.conn.next()), (65_535, None));
    assert_eq!(peer.send(&window_update(0, 7)), [Seen::Writable]);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 7);
    // The end alone needs no window.
    let _ = peer.conn.data_frame(1, 7, false, &peer.limits, &mut peer.out);
    assert_eq!(peer.conn.data_frame(1, 0, true, &peer.limits, &mut peer.out), Sent::Done);
}

proptest! {
    /// Windows against plain arithmetic.
    #[test]
    fn send_windows_add_up(
        steps in prop::collection::vec((0_u8..4, 0_u32..100_000), 1..60),
    ) {
        let mut peer = Peer::plain();
        peer.get(1);
        let (mut stream, mut connection, mut initial) = (65_535_i64, 65_535_i64, 65_535_i64);
        for (what, n) in steps {
            match what {
                0 => {
                    peer.send(&window_update(1, n.max(1)));
                    stream += i64::from(n.max(1));
                }
                1 => {
                    peer.send(&window_update(0, n.max(1)));
                    connection += i64::from(n.max(1));
                }
                2 => {
                    peer.send(&settings(&[(4, n)]));
                    stream += i64::from(n) - initial;
                    initial = i64::from(n);
                }
                _ => {
                    let length = peer.conn.sendable(1, &peer.limits).min(n as usize);
                    let _ = peer.conn.data_frame(1, length, false, &peer.limits, &mut peer.out);
                    stream -= length as i64;
                    connection -= length as i64;
                }
            }
            let expected = stream.min(connection).clamp(0, 16_384) as usize;
            prop_assert_eq!(peer.conn.sendable(1, &peer.limits), expected);
        }
    }
}
