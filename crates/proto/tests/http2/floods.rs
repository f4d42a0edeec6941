//! RFC 9113 section 10.5: every kind of abuse ends the connection, and ordinary use does not.

use crate::peer::*;
use larder_proto::http2::frame::{flag, kind};
use larder_proto::http2::{ErrorCode, Flood, FloodLimits, Limits, Sent};

/// Repeats the frames until the connection ends, and returns how often and why.
fn until(limits: Limits, mut frames: impl FnMut(u32) -> Vec<u8>) -> (u32, Flood) {
    let mut peer = Peer::ready(limits);
    for n in 0..100_000 {
        for seen in peer.send(&frames(n)) {
            if let Seen::Failed { code, flood, .. } = seen {
                assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
                return (n, flood.unwrap());
            }
        }
        if limits_unsent(&peer) {
            peer.conn.flushed();
        }
    }
    panic!("no end");
}

fn limits_unsent(peer: &Peer) -> bool {
    peer.limits.floods.unsent_answers > 5
}

fn few() -> Limits {
    let floods = FloodLimits {
        rapid_reset: 5,
        made_you_reset: 5,
        continuations: 5,
        settings: 5,
        pings: 5,
        empty_frames: 5,
        window_updates: 5,
        priorities: 5,
        refused_streams: 5,
        header_lists: 5,
        ignored: 5,
        ..FloodLimits::default()
    };
    Limits { floods, ..Limits::default() }
}

#[test]
fn every_kind_has_its_limit() {
    let id = |n: u32| 2 * n + 1;
    let continued = |n| match n {
        0 => frame(kind::HEADERS, 0, 1, &block(&GET)),
        _ => frame(kind::CONTINUATION, 0, 1, b"\x82"),
    };
    let bytes = |n| match n {
        0 => frame(kind::HEADERS, 0, 1, &[0x82; 16_384]),
        _ => frame(kind::CONTINUATION, 0, 1, &[0x82; 16_384]),
    };
    let empty = |n| if n == 0 { request(1, false) } else { data(1, false, b"") };
    let early = |n: u32| frame(kind::PRIORITY_UPDATE, 0, 0, &id(n).to_be_bytes());
    let malformed = move |n| headers(id(n), true, &[(":method", "GET")]);
    let refused = Limits { concurrent_streams: 0, ..few() };
    let lists = Limits { header_list_bytes: 50, ..few() };
    let mut refused_lists = Limits { concurrent_streams: 0, ..lists.clone() };
    refused_lists.floods.refused_streams = 100;
    // A name of 4000 bytes, and 1000 copies of it.
    let name = [&b"\x40\x7f\xa1\x1e"[..], &[b'n'; 4000], b"\0", &b"\x7e\0".repeat(1000)].concat();
    let trailers = |_| [request(1, false), frame(kind::HEADERS, 5, 1, &name)].concat();
    let unsent = Limits {
        floods: FloodLimits { unsent_answers: 5, ..FloodLimits::default() },
        ..Limits::default()
    };
    for (limits, frames, expected) in [
        (
            few(),
            &(|n| [request(id(n), true), reset(id(n))].concat()) as &dyn Fn(u32) -> Vec<u8>,
            (5, Flood::RapidReset),
        ),
        (few(), &malformed, (5, Flood::MadeYouReset)),
        (few(), &continued, (6, Flood::Continuations)),
        (few(), &bytes, (4, Flood::BlockBytes)),
        (few(), &|_| settings(&[]), (3, Flood::Settings)),
        (few(), &|_| frame(kind::PING, 0, 0, &[0; 8]), (5, Flood::Pings)),
        (unsent, &|_| frame(kind::PING, 0, 0, &[0; 8]), (4, Flood::UnsentAnswers)),
        (few(), &empty, (6, Flood::EmptyFrames)),
        (few(), &|_| window_update(0, 1), (5, Flood::WindowUpdates)),
        (few(), &|_| frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1]), (5, Flood::Priorities)),
        (few(), &early, (5, Flood::Priorities)),
        (refused, &move |n| request(id(n), true), (5, Flood::RefusedStreams)),
        (lists, &move |n| request(id(n), true), (5, Flood::HeaderLists)),
        (few(), &trailers, (0, Flood::HeaderLists)),
        (refused_lists, &move |n| request(id(n), true), (5, Flood::HeaderLists)),
        (few(), &|_| frame(0x42, 0, 0, b"x"), (5, Flood::Ignored)),
    ] {
        assert_eq!(until(limits, frames), expected);
    }
}

/// A client that pings with every request goes on for ever; one that cancels some, if it does not
/// do so faster than time pays for it.
#[test]
fn answered_requests_pay_for_a_clients_moods() {
    let mut peer = Peer::ready(few());
    for n in 0..3000 {
        let id = 2 * n + 1;
        peer.conn.flushed();
        peer.get(id);
        if n % 3 == 0 {
            let seen = peer.send(&[reset(id), frame(kind::PING, 0, 0, &[0; 8])].concat());
            assert_eq!(seen.len(), 1, "{seen:?}");
        } else {
            answer(&mut peer, id);
        }
        if n % 6 == 0 {
            peer.conn.tick();
        }
    }
}

/// A hit costs a client nothing: it pays neither for streams that are reset nor for lists that are
/// too large.
#[test]
fn answered_requests_do_not_pay_for_costly_ones() {
    let malformed = |id| [request(id, false), headers(id, false, &[("X", "y")])].concat();
    let large = |id| headers(id, true, &[&GET[..], &[("x", &"y".repeat(500))]].concat());
    let cancelled = |id| [request(id, true), reset(id)].concat();
    for (costly, flood) in [
        (&cancelled as &dyn Fn(u32) -> Vec<u8>, Flood::RapidReset),
        (&malformed, Flood::MadeYouReset),
        (&large, Flood::HeaderLists),
    ] {
        let mut peer = Peer::ready(Limits { header_list_bytes: 400, ..few() });
        let ended = (0..100).find_map(|n| {
            peer.get(4 * n + 1);
            answer(&mut peer, 4 * n + 1);
            let seen = peer.send(&costly(4 * n + 3));
            if flood == Flood::HeaderLists && n < 5 {
                answer(&mut peer, 4 * n + 3);
            }
            seen.iter().find_map(|seen| match seen {
                Seen::Failed { flood, .. } => Some((n, flood.unwrap())),
                _ => None,
            })
        });
        assert_eq!(ended, Some((5, flood)));
    }
}

fn answer(peer: &mut Peer, id: u32) {
    let sent = peer.conn.respond(id, 200, &[], true, &peer.limits, &mut peer.out);
    assert_eq!(sent, Sent::Done);
}

#[test]
fn time_pays_too() {
    let mut peer = Peer::ready(few());
    for _ in 0..100 {
        let pings = frame(kind::PING, flag::ACK, 0, &[0; 8]).repeat(2);
        assert_eq!(peer.send(&pings).len(), 2);
        peer.conn.tick();
    }
}

/// A client that does not read its answers is not helped by time or by further requests.
#[test]
fn answers_that_wait_are_bounded() {
    let floods = FloodLimits { unsent_answers: 50, ..FloodLimits::default() };
    let mut peer = Peer::ready(Limits { floods, ..Limits::default() });
    peer.conn.flushed();
    for n in 0..50 {
        assert_eq!(peer.send(&frame(kind::PING, 0, 0, &[0; 8])), []);
        peer.get(2 * n + 1);
        let sent = peer.conn.respond(2 * n + 1, 200, &[], true, &peer.limits, &mut peer.out);
        assert_eq!(sent, Sent::Done);
        peer.conn.tick();
    }
    match peer.one(&frame(kind::PING, 0, 0, &[0; 8])) {
        Seen::Failed { flood, .. } => assert_eq!(flood, Some(Flood::UnsentAnswers)),
        seen => panic!("{seen:?}"),
    }
}

#[test]
fn names_and_indexes_are_distinct() {
    for (index, flood) in Flood::ALL.iter().enumerate() {
        assert_eq!(flood.index(), index);
        assert_eq!(Flood::ALL.iter().filter(|other| other.as_str() == flood.as_str()).count(), 1);
    }
    assert_eq!(Flood::RapidReset.as_str(), "rapid_reset");
}
