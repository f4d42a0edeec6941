//! RFC 9113 sections 3.4, 5.1 and 5.3: the preface and the states of streams.

use crate::peer::*;
use larder_proto::http2::frame::{flag, kind};
use larder_proto::http2::{ErrorCode, Limits, PREFACE, Sent};

/// Fails the connection with this code, and says so in a GOAWAY frame.
#[track_caller]
pub(crate) fn fails(peer: &mut Peer, bytes: &[u8], code: ErrorCode, what: &str) {
    peer.frames();
    let seen = peer.send(bytes);
    match seen.last() {
        Some(Seen::Failed { code: found, last, .. }) => {
            assert_eq!(*found, code, "{what}");
            assert_eq!(peer.frames().last(), Some(&goaway(*last, code)), "{what}");
        }
        _ => panic!("{what}: {seen:?}"),
    }
    assert_eq!(peer.send(&request(101, true)), [], "nothing is read behind an error");
}

/// Resets the stream with this code, and goes on.
#[track_caller]
pub(crate) fn resets(peer: &mut Peer, bytes: &[u8], stream: u32, code: ErrorCode, what: &str) {
    peer.frames();
    let seen = peer.send(bytes);
    assert!(!seen.iter().any(|seen| matches!(seen, Seen::Failed { .. })), "{what}: {seen:?}");
    assert!(peer.frames().contains(&rst(stream, code)), "{what}: {seen:?}");
    peer.get(1001);
}

#[test]
fn the_preface_may_come_byte_by_byte() {
    let mut peer = Peer::new(Limits::default());
    let hello = [&PREFACE[..], &settings(&[(4, 70_000)]), &request(1, true)].concat();
    let seen: Vec<_> = hello.iter().flat_map(|byte| peer.send(&[*byte])).collect();
    assert!(!peer.conn.settings_acknowledged() && Peer::plain().conn.settings_acknowledged());
    assert!(matches!(&seen[..], [Seen::Request { .. }]), "{seen:?}");
    let frames = peer.frames();
    assert_eq!(frames[0].0, kind::SETTINGS);
    assert_eq!((frames[1].0, frames[1].2), (kind::WINDOW_UPDATE, 0));
    assert_eq!((frames[2].0, frames[2].1), (kind::SETTINGS, flag::ACK));
}

#[test]
fn a_wrong_preface_fails() {
    let mut peer = Peer::new(Limits::default());
    fails(&mut peer, b"GET / HTTP/1.1\r\n\r\n", ErrorCode::PROTOCOL_ERROR, "HTTP/1.1");
    for first in [settings_ack(), request(1, true), frame(kind::PING, 0, 0, &[0; 8])] {
        let mut peer = Peer::new(Limits::default());
        let bytes = [&PREFACE[..], &first].concat();
        fails(&mut peer, &bytes, ErrorCode::PROTOCOL_ERROR, "first frame");
    }
}

#[test]
fn frames_on_idle_streams_fail() {
    for bytes in [
        data(1, true, b"test"),
        reset(1),
        window_update(1, 100),
        frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block(&GET)),
        data(2, true, b"test"),
        reset(2),
    ] {
        fails(&mut Peer::plain(), &bytes, ErrorCode::PROTOCOL_ERROR, "idle");
    }
    assert_eq!(Peer::plain().send(&frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1])), []);
}

#[test]
fn frames_behind_the_end_of_the_request_reset() {
    for bytes in [data(1, true, b"test"), request(1, true)] {
        let mut peer = Peer::plain();
        peer.get(1);
        resets(&mut peer, &bytes, 1, ErrorCode::STREAM_CLOSED, "half-closed (remote)");
    }
    for bytes in [window_update(1, 5), frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1])] {
        let mut peer = Peer::plain();
        peer.get(1);
        assert_eq!(peer.send(&bytes), []);
    }
    let mut peer = Peer::plain();
    peer.get(1);
    let bytes = frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block(&GET));
    fails(&mut peer, &bytes, ErrorCode::PROTOCOL_ERROR, "CONTINUATION");
}

#[test]
fn frames_behind_a_reset_by_the_client_reset_again() {
    for bytes in [data(1, true, b"test"), request(1, true)] {
        let mut peer = Peer::plain();
        peer.post(1);
        let seen = peer.one(&reset(1));
        assert_eq!(seen, Seen::Reset { stream: 1, code: ErrorCode::CANCEL, by_peer: true });
        resets(&mut peer, &bytes, 1, ErrorCode::STREAM_CLOSED, "closed");
    }
    let mut peer = Peer::plain();
    peer.post(1);
    peer.send(&reset(1));
    assert_eq!(peer.send(&[reset(1), window_update(1, 5)].concat()), []);
}

#[test]
fn frames_behind_both_ends_fail() {
    for bytes in [data(1, true, b"test"), request(1, true)] {
        let mut peer = Peer::plain();
        peer.get(1);
        assert_eq!(peer.conn.respond(1, 200, &[], true, &peer.limits, &mut peer.out), Sent::Done);
        fails(&mut peer, &bytes, ErrorCode::STREAM_CLOSED, "closed");
    }
    let mut peer = Peer::plain();
    peer.get(1);
    assert_eq!(peer.conn.respond(1, 200, &[], true, &peer.limits, &mut peer.out), Sent::Done);
    assert_eq!(peer.send(&[reset(1), window_update(1, 5)].concat()), []);
}

#[test]
fn frames_on_their_way_when_a_stream_is_reset_here_are_ignored() {
    let mut peer = Peer::plain();
    peer.post(1);
    peer.conn.reset(1, ErrorCode::NO_ERROR, &peer.limits, &mut peer.out);
    assert_eq!(peer.frames(), [rst(1, ErrorCode::NO_ERROR)]);
    let late =
        [data(1, false, b"late"), window_update(1, 1), headers(1, true, &[("x", "y")]), reset(1)];
    assert_eq!(peer.send(&late.concat()), []);
    assert_eq!(peer.frames(), []);
    peer.get(3);
}

#[test]
fn stream_numbers_grow_and_are_odd() {
    fails(&mut Peer::plain(), &request(2, true), ErrorCode::PROTOCOL_ERROR, "even");
    let mut peer = Peer::plain();
    peer.get(5);
    fails(&mut peer, &request(3, true), ErrorCode::PROTOCOL_ERROR, "smaller");
}

#[test]
fn too_many_streams_are_refused_and_the_tables_stay_in_step() {
    let mut peer = Peer::ready(Limits { concurrent_streams: 1, ..Limits::default() });
    peer.get(1);
    // Adds `x: y` to the table.
    let block = [&block(&GET)[..], b"\x40\x01x\x01y"].concat();
    let flags = flag::END_HEADERS | flag::END_STREAM;
    assert_eq!(peer.send(&frame(kind::HEADERS, flags, 3, &block)), []);
    assert_eq!(peer.frames(), [rst(3, ErrorCode::REFUSED_STREAM)]);
    let _ = peer.conn.respond(1, 204, &[], true, &peer.limits, &mut peer.out);
    let block = [&crate::peer::block(&GET)[..], b"\xbe"].concat();
    match peer.one(&frame(kind::HEADERS, flags, 5, &block)) {
        Seen::Request { head, .. } => assert!(head.contains("\r\nx: y\r\n"), "{head}"),
        seen => panic!("{seen:?}"),
    }
}

#[test]
fn streams_that_depend_on_themselves_are_refused() {
    let mut payload = vec![0, 0, 0, 1, 7];
    payload.extend(block(&GET));
    let flags = flag::END_HEADERS | flag::END_STREAM | flag::PRIORITY;
    let bytes = frame(kind::HEADERS, flags, 1, &payload);
    resets(&mut Peer::plain(), &bytes, 1, ErrorCode::PROTOCOL_ERROR, "HEADERS");
    let bytes = frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 7]);
    fails(&mut Peer::plain(), &bytes, ErrorCode::PROTOCOL_ERROR, "PRIORITY of an idle stream");
    let mut peer = Peer::plain();
    peer.get(1);
    resets(&mut peer, &bytes, 1, ErrorCode::PROTOCOL_ERROR, "PRIORITY");
}

#[test]
fn unknown_frames_are_ignored_but_not_within_a_block() {
    let mut peer = Peer::plain();
    assert_eq!(peer.send(&frame(0x16, 0, 0, &[0; 8])), []);
    assert_eq!(peer.send(&frame(0x16, 0xff, 5, &[0; 8])), []);
    peer.get(1);
    let bytes = [frame(kind::HEADERS, 0, 3, &block(&GET)), frame(0x16, 0, 0, &[0; 8])].concat();
    fails(&mut peer, &bytes, ErrorCode::PROTOCOL_ERROR, "within a block");
}
