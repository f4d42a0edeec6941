//! Properties of every distribution; agreement with other programs is tested in `tests/`.

use super::*;

fn fleet(weights: &[u32]) -> Vec<Server> {
    let server = |(at, weight): (usize, &u32)| Server {
        weight: *weight,
        ..Server::tcp(format!("10.0.0.{at}"), 11211)
    };
    weights.iter().enumerate().map(server).collect()
}

fn keys() -> impl Iterator<Item = String> {
    (0..20_000).map(|n| format!("page:{n}"))
}

fn placement(distribution: Distribution) -> Placement {
    Placement::new(distribution, Hash::Md5)
}

fn shares(ring: &Ring, servers: usize) -> Vec<f64> {
    let mut counts = vec![0.0; servers];
    for key in keys() {
        counts[ring.locate(key.as_bytes())] += 1.0 / 20_000.0;
    }
    counts
}

#[test]
fn every_server_has_its_share() {
    for (distribution, name) in Distribution::ALL {
        let ring = Ring::new(&placement(distribution), &fleet(&[1; 5])).expect("a ring");
        for share in shares(&ring, 5) {
            assert!((0.1..0.32).contains(&share), "{name}: {share}");
        }
    }
}

#[test]
fn weights_count_where_they_are_said_to() {
    for (distribution, name) in Distribution::ALL {
        let ring = Ring::new(&placement(distribution), &fleet(&[1, 1, 6])).expect("a ring");
        let share = shares(&ring, 3)[2];
        let counts =
            !matches!(distribution, Distribution::Modula | Distribution::RendezvousPymemcache);
        assert_eq!((0.65..0.85).contains(&share), counts, "{name}: {share}");
        assert!(counts || (0.3..0.37).contains(&share), "{name}: {share}");
    }
}

#[test]
fn only_the_keys_of_a_server_that_leaves_move() {
    let servers = fleet(&[1; 6]);
    for (distribution, name) in Distribution::ALL {
        let placement = placement(distribution);
        let all = Ring::new(&placement, &servers).expect("a ring");
        let living = Ring::living(&placement, &servers, |at| at != 2).expect("a ring");
        let moved = |key: &String| {
            let (before, after) = (all.locate(key.as_bytes()), living.locate(key.as_bytes()));
            assert_ne!(after, 2, "{name}");
            before != 2 && before != after
        };
        let moved = keys().filter(moved).count();
        let modula = matches!(distribution, Distribution::Modula | Distribution::ModulaTwemproxy);
        assert_eq!(moved > 0, modula, "{name}: {moved}");
    }
}

#[test]
fn keys_of_a_server_that_leaves_are_spread_over_the_others() {
    let servers = fleet(&[1; 6]);
    for (distribution, name) in Distribution::ALL {
        let living =
            Ring::living(&placement(distribution), &servers, |at| at != 2).expect("a ring");
        let shares = shares(&living, 6);
        assert_eq!(shares[2], 0.0);
        assert!(
            shares.iter().enumerate().all(|(at, share)| at == 2 || (0.1..0.32).contains(share)),
            "{name}"
        );
    }
}

#[test]
fn where_none_is_alive_all_are_asked() {
    let servers = fleet(&[1, 2, 1]);
    for (distribution, name) in Distribution::ALL {
        let placement = placement(distribution);
        let all = Ring::new(&placement, &servers).expect("a ring");
        let none = Ring::living(&placement, &servers, |_| false).expect("a ring");
        assert!(
            keys().all(|key| all.locate(key.as_bytes()) == none.locate(key.as_bytes())),
            "{name}"
        );
    }
}

#[test]
fn replicas_are_different_servers_and_begin_with_the_keys_own() {
    let servers = fleet(&[1, 2, 1, 3, 1]);
    for (distribution, name) in Distribution::ALL {
        let ring = Ring::living(&placement(distribution), &servers, |at| at != 1).expect("a ring");
        for key in keys().take(2_000) {
            let all: Vec<usize> = ring.replicas(key.as_bytes(), 9).collect();
            assert_eq!(all[0], ring.locate(key.as_bytes()), "{name}");
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 2, 3, 4], "{name}: {all:?}");
            assert!(ring.replicas(key.as_bytes(), 2).eq(all[..2].iter().copied()), "{name}");
        }
    }
}

#[test]
fn the_second_replica_is_who_has_the_key_when_the_first_is_gone() {
    let servers = fleet(&[1; 5]);
    for distribution in [
        Distribution::KetamaWeighted,
        Distribution::Ketama,
        Distribution::Rendezvous,
        Distribution::Jump,
    ] {
        let ring = Ring::new(&placement(distribution), &servers).expect("a ring");
        for key in keys().take(500) {
            let two: Vec<usize> = ring.replicas(key.as_bytes(), 2).collect();
            let without = Ring::living(&placement(distribution), &servers, |at| at != two[0])
                .expect("a ring");
            assert_eq!(without.locate(key.as_bytes()), two[1], "{}", distribution.name());
        }
    }
}

#[test]
fn one_server_has_everything() {
    for (distribution, _) in Distribution::ALL {
        let servers = fleet(&[1, 3]);
        let ring = Ring::living(&placement(distribution), &servers, |at| at == 1).expect("a ring");
        assert!(keys().take(10).all(|key| ring.locate(key.as_bytes()) == 1));
        assert!(ring.replicas(b"key", 3).eq([1]));
        assert_eq!(ring.replicas(b"key", 0).count(), 0);
    }
}

#[test]
fn bounds() {
    let modula = Placement::default();
    assert_eq!(Ring::new(&modula, &[]).err(), Some(PlacementError::NoServer));
    let many = fleet(&[1; MAX_SERVERS + 1]);
    assert_eq!(
        Ring::new(&modula, &many).err(),
        Some(PlacementError::TooManyServers(MAX_SERVERS + 1))
    );
    assert!(Ring::new(&modula, &many[1..]).is_ok());
    let heavy = fleet(&[MAX_SLOTS as u32, 1]);
    let jump = placement(Distribution::Jump);
    assert_eq!(
        Ring::new(&jump, &heavy).err(),
        Some(PlacementError::TooMuchWeight(MAX_SLOTS as u64 + 1))
    );
    assert!(Ring::new(&Placement::ketama_weighted(), &heavy).is_ok());
}

#[test]
fn a_tag_keeps_keys_together() {
    let tagged = Placement { hash_tag: Some(*b"{}"), ..Placement::ketama_weighted() };
    let servers = fleet(&[1; 7]);
    let (ring, plain) = (
        Ring::new(&tagged, &servers).expect("a ring"),
        Ring::new(&Placement::ketama_weighted(), &servers).expect("a ring"),
    );
    for key in keys().take(200) {
        let owner = plain.locate(key.as_bytes());
        for around in [format!("{{{key}}}"), format!("a{{{key}}}b}}"), key.clone()] {
            assert_eq!(ring.locate(around.as_bytes()), owner, "{around}");
        }
        for untagged in [format!("{{}}{key}"), format!("{{{key}"), format!("{key}}}{{")] {
            assert_eq!(
                ring.locate(untagged.as_bytes()),
                plain.locate(untagged.as_bytes()),
                "{untagged}"
            );
        }
    }
}

/// Computed with the C++ code of the paper.
#[test]
fn jump_as_in_the_paper() {
    for (key, slots, slot) in [
        (1u64, 1usize, 0usize),
        (42, 57, 43),
        (0xdead_10cc, 1, 0),
        (0xdead_10cc, 666, 361),
        (256, 1024, 520),
    ] {
        assert_eq!(jump::jump(key, slots), slot, "{key} {slots}");
    }
}

#[test]
fn names_lead_to_distributions_and_back() {
    for (distribution, name) in Distribution::ALL {
        assert_eq!((Distribution::named(name), distribution.name()), (Some(distribution), name));
    }
    assert_eq!(Distribution::named("random"), None);
}
