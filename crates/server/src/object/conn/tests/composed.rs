//! Composed answers that are not sent yet, in the account of their client.

use larder_store::{Options, Store};

use super::*;
use crate::room::Room;

/// A room of 24 MiB.
fn room() -> Arc<Room> {
    let options = Options { budget: 32 << 20, ..Options::default() };
    let store: &'static Store = Box::leak(Box::new(Store::open(options).expect("a store")));
    Room::new(store, Clock::start())
}

#[test]
fn what_is_composed_counts_while_others_have_their_turn() {
    run(|| async {
        let room = room();
        let mut pair = pair_of(&conns(), &Clients::new(&room), tcp(), LIMITS);
        pair.send(b"steps 10\nlast\n").await;
        for steps in 1..10 {
            pair.until(|pair| pair.seen.turns.get() >= steps).await;
            if pair.seen.batches.borrow().is_empty() {
                let composed = steps * STEP;
                assert!(room.held().0 >= composed as u64, "{composed}: {:?}", room.held());
            }
        }
        pair.expect(&[vec![b's'; 10 * STEP], b"last\n".to_vec()].concat()).await;
        pair.until(|pair| !pair.seen.batches.borrow().is_empty()).await;
        assert_eq!(room.held(), (0, 0));
    });
}

#[test]
fn an_answer_without_room_ends_its_connection_when_the_command_has_ended() {
    run(|| async {
        let (room, conns) = (room(), conns());
        let clients = Clients::new(&room);
        let mut pair = pair_of(&conns, &clients, tcp(), LIMITS);
        pair.send(b"steps 400\nnever\n").await;
        pair.until(|pair| pair.served.is_finished()).await;
        assert_eq!(pair.seen.turns.get(), 400, "the command to its end, and no further");
        let client = pair.client.clone();
        assert_eq!(pair.rest().await, b"");
        assert_eq!((room.held(), client.held()), ((0, 0), 0));
        // Others have the room that it had.
        let mut other = pair_of(&conns, &clients, tcp(), LIMITS);
        other.send(b"steps 2\n").await;
        other.expect(&[b's'; 2 * STEP]).await;
    });
}

#[test]
fn answers_count_that_are_composed_before_their_connections_go_on() {
    run(|| async {
        let (room, conns) = (room(), conns());
        let clients = Clients::new(&room);
        // 1 MB each, of which the system takes a part.
        let mut pairs = Vec::new();
        for _ in 0..60 {
            let mut pair = pair_of(&conns, &clients, unix(), LIMITS);
            pair.send(b"steps 10\n").await;
            pairs.push(pair);
        }
        let mut most = 0;
        while !pairs.iter().all(|pair| pair.seen.turns.get() == 10) {
            most = most.max(room.held().0);
            yield_now().await;
        }
        assert!((8 << 20..=24 << 20).contains(&most), "{most} bytes");
    });
}
