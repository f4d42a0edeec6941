//! Which member gets a request: pure functions of weights, loads, keys and random numbers.

/// A member that may be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its place among the members.
    pub(super) place: usize,
    /// Its share beside the others', in 1/256 of a weight; at least 1.
    pub(super) share: u64,
    /// Requests under way.
    pub(super) under_way: u64,
    /// Its name as a number, the same in every process.
    pub(super) identity: u64,
}

/// The one with fewer requests under way for its share, of two picked at random by their shares; of
/// equal ones the one picked first. None: there is no candidate.
pub(super) fn least(candidates: &[Candidate], mut random: impl FnMut() -> u64) -> Option<usize> {
    let first = by_share(candidates, None, random())?;
    let one = &candidates[first];
    let Some(second) = by_share(candidates, Some(first), random()) else { return Some(one.place) };
    let other = &candidates[second];
    // under_way / share, without a division.
    let busier = one.under_way * other.share > other.under_way * one.share;
    Some(if busier { other.place } else { one.place })
}

/// The index of one, with a probability that is its part of all shares.
fn by_share(candidates: &[Candidate], without: Option<usize>, random: u64) -> Option<usize> {
    let others = || candidates.iter().enumerate().filter(|(index, _)| Some(*index) != without);
    let all: u64 = others().map(|(_, candidate)| candidate.share).sum();
    let mut at = random.checked_rem(all)?;
    for (index, candidate) in others() {
        match at.checked_sub(candidate.share) {
            Some(left) => at = left,
            None => return Some(index),
        }
    }
    None
}

/// Rendezvous hashing with weights: every candidate draws a number from the key, and the largest
/// wins. A key stays where it is while its candidate is there; the keys of one that leaves are
/// divided among the others. (CARP; Schindelhauer and Schomaker 2005 for the weights.)
pub(super) fn rendezvous(candidates: &[Candidate], key: u64) -> Option<usize> {
    let draw = |candidate: &Candidate| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..].copy_from_slice(&candidate.identity.to_le_bytes());
        let hash = rapidhash::v3::rapidhash_v3(&bytes);
        // In (0, 1): 53 bits are what an f64 holds.
        let uniform = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        candidate.share as f64 / -uniform.ln()
    };
    let drawn = candidates.iter().map(|candidate| (draw(candidate), candidate.place));
    drawn.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(shares: &[u64]) -> Vec<Candidate> {
        let one = |(place, share): (usize, &u64)| {
            let identity = rapidhash::v3::rapidhash_v3(&place.to_le_bytes());
            Candidate { place, share: *share, under_way: 0, identity }
        };
        shares.iter().enumerate().map(one).collect()
    }

    fn numbers() -> impl FnMut() -> u64 {
        let mut count = 0u64;
        move || {
            count += 1;
            rapidhash::v3::rapidhash_v3(&count.to_le_bytes())
        }
    }

    fn counts(of: usize, chosen: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut counts = vec![0; of];
        chosen.for_each(|place| counts[place] += 1);
        counts
    }

    #[test]
    fn without_load_shares_decide() {
        let (members, mut random) = (candidates(&[768, 256]), numbers());
        let chosen = (0..4000).filter_map(|_| least(&members, &mut random));
        let counts = counts(2, chosen);
        assert!((2800..3200).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn the_busier_of_two_is_not_chosen_unless_its_weight_says_so() {
        let mut random = numbers();
        let mut members = candidates(&[256, 256]);
        members[0].under_way = 1;
        assert!((0..100).all(|_| least(&members, &mut random) == Some(1)));
        members[0].share = 1024;
        members[1].under_way = 1;
        assert!((0..100).all(|_| least(&members, &mut random) == Some(0)));
        assert_eq!(least(&members[1..], &mut random), Some(1));
        assert_eq!(least(&[], &mut random), None);
    }

    #[test]
    fn a_key_stays_when_others_leave_and_weights_are_kept() {
        let members = candidates(&[256, 512, 256]);
        let key = |n: u64| rapidhash::v3::rapidhash_v3(&n.to_le_bytes());
        let of = |members: &[Candidate], n| rendezvous(members, key(n)).expect("a candidate");
        let spread = counts(3, (0..4000).map(|n| of(&members, n)));
        assert!((1800..2200).contains(&spread[1]), "{spread:?}");
        let mut moved = counts(3, std::iter::empty());
        for n in 0..4000 {
            let (before, after) = (of(&members, n), of(&members[..2], n));
            assert!(before == 2 || before == after, "a key of a remaining member moved");
            moved[after] += usize::from(before == 2);
        }
        assert!(moved[0] > 100 && moved[1] > 100, "its keys are divided: {moved:?}");
    }
}
