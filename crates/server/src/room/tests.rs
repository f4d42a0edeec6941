//! Clients that get room, and clients that have to leave for it.

use larder_store::{Options, Store};

use super::*;

const MIB: u64 = 1 << 20;

/// A room of 8 MiB and 16 MiB that the store lends.
struct House {
    room: Arc<Room>,
    clock: Clock,
}

fn house() -> House {
    let options = Options { budget: 32 << 20, ..Options::default() };
    let store: &'static Store = Box::leak(Box::new(Store::open(options).expect("a store")));
    let clock = Clock::start();
    let room = Room::new(store, clock);
    House { room, clock }
}

impl House {
    /// A client that holds so many bytes, and has got on just now or long ago.
    fn client(&self, place: Place, bytes: u64, stands_still: bool) -> (Arc<Holder>, Held) {
        let client = self.room.enter();
        let mut held = Held::new(&client, place);
        assert!(held.resize(bytes));
        if stands_still {
            client.moves(self.clock.now() - STANDS_STILL);
        }
        (client, held)
    }
}

#[test]
fn what_is_held_is_given_back() {
    let house = house();
    {
        let (client, mut held) = house.client(Place::Heap, MIB, false);
        let (_other, _in_store) = house.client(Place::Store, 2 * MIB, false);
        assert!(held.resize(5 * MIB) && held.resize(3 * MIB));
        assert_eq!(house.room.held(), (3 * MIB, 2 * MIB));
        house.room.leave(&client);
        assert_eq!(house.room.held(), (3 * MIB, 2 * MIB));
    }
    assert_eq!(house.room.held(), (0, 0));
}

#[test]
fn beyond_what_is_free_the_store_lends() {
    let house = house();
    let lent = || house.room.lent.load(Relaxed);
    let (_client, mut held) = house.client(Place::Heap, FREE, false);
    assert_eq!(lent(), 0);
    assert!(held.resize(20 * MIB + 1));
    assert_eq!(lent(), 13 * MIB);
    assert!(!held.resize(24 * MIB + 1), "the store keeps half");
    assert_eq!((held.bytes(), house.room.held().0), (20 * MIB + 1, 20 * MIB + 1));
    assert!(held.resize(24 * MIB));
    held.resize(0);
    assert_eq!(lent(), 0);
    // Values on their way are in the same half.
    let (_other, _value) = house.client(Place::Store, 6 * MIB, false);
    assert!(held.resize(18 * MIB) && !held.resize(19 * MIB));
}

#[test]
fn who_stands_still_leaves_first_longest_first() {
    let house = house();
    let (still, _a) = house.client(Place::Heap, 4 * MIB, true);
    let (longer, gone) = house.client(Place::Heap, 4 * MIB, true);
    longer.moves(house.clock.now() - 2 * STANDS_STILL);
    let (lively, _c) = house.client(Place::Heap, 8 * MIB, false);
    let (asks, mut held) = house.client(Place::Heap, MIB, false);
    assert!(!held.resize(10 * MIB), "2 MiB above the limit, until somebody has left");
    assert!(longer.is_killed() && !still.is_killed() && !lively.is_killed());
    drop(gone);
    assert!(held.resize(10 * MIB));
    assert_eq!((house.room.held().0, house.room.closed()), (22 * MIB, 1));
    // One that is to go holds nothing more.
    assert!(!house.room.take(&longer, Place::Heap, 1));
    assert!(!held.resize(14 * MIB));
    assert!(still.is_killed() && !lively.is_killed() && !asks.is_killed());
}

#[test]
fn else_the_one_leaves_that_holds_most_unless_that_is_who_asks() {
    let house = house();
    let (small, _a) = house.client(Place::Heap, MIB, false);
    let (large, most) = house.client(Place::Heap, 20 * MIB, false);
    let (asks, mut held) = house.client(Place::Heap, 3 * MIB, false);
    assert!(!held.resize(5 * MIB), "until it has left");
    drop(most);
    assert!(held.resize(5 * MIB));
    assert!(large.is_killed() && !small.is_killed());
    assert!(!held.resize(24 * MIB), "nobody holds more");
    assert!(!small.is_killed() && !asks.is_killed());
    assert_eq!(house.room.held().0, 6 * MIB);
}

#[test]
fn nobody_leaves_for_what_there_is_no_room_for_all_the_same() {
    let house = house();
    let (still, _a) = house.client(Place::Heap, 2 * MIB, true);
    let (_asks, mut held) = house.client(Place::Heap, 21 * MIB, false);
    assert!(!held.resize(30 * MIB), "8 MiB above the limit");
    assert!(!still.is_killed());
    // The rest is another's.
    assert!(!held.resize(24 * MIB) && still.is_killed());
}

#[test]
fn who_waits_for_this_server_does_not_stand_still() {
    let house = house();
    let (waits, _a) = house.client(Place::Heap, 2 * MIB, true);
    waits.waits(true);
    let (still, gone) = house.client(Place::Heap, 2 * MIB, true);
    let (_asks, mut held) = house.client(Place::Heap, 16 * MIB, false);
    assert!(!held.resize(22 * MIB), "until somebody has left");
    assert!(still.is_killed() && !waits.is_killed());
    drop(gone);
    assert!(held.resize(22 * MIB));
    // It owes something again, and still stands as long as it stood before.
    waits.waits(false);
    assert!(!held.resize(24 * MIB) && waits.is_killed());
}

#[test]
fn the_time_of_a_wait_for_this_server_does_not_count() {
    let house = house();
    let (client, _held) = house.client(Place::Heap, MIB, true);
    let stood = |client: &Holder| house.clock.now() - client.moved();
    client.waits(true);
    client.waits(true);
    assert_eq!(client.moved(), Ms::MAX);
    client.waits(false);
    assert!(stood(&client) >= STANDS_STILL);
    client.waits(true);
    client.moves(house.clock.now());
    client.waits(false);
    assert!(client.moved() <= house.clock.now(), "not in time to come");
}
