//! The Cache Array Routing Protocol (draft-vinod-carp-v1): which of several caches is responsible
//! for a URL.
//!
//! Every member draws a number from its name and the URL, weighted by its load factor, and the
//! highest wins. The numbers are those of Squid (`cache_peer ... carp`), so that Larder and Squid
//! before the same caches choose alike. One thing differs from the draft there, and so here: the
//! hash of the URL goes on from member to member, in the order of their weights, instead of
//! beginning anew with each.

/// A constant of the draft that spreads the bits of a hash.
const SPREAD: u32 = 0x6253_1965;

/// A member as it is configured.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name: the host, unless the configuration gives another.
    pub name: &'a str,
    /// Its share of the URLs beside the others.
    pub weight: u32,
}

/// The members, ready to choose from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array(Vec<Slot>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    /// Place among the members that were given.
    place: usize,
    hash: u32,
    multiplier: f64,
}

impl Array {
    /// Hashes and load multipliers of the members (draft sections 3.2 and 3.4). Those of weight 0
    /// are never chosen.
    pub fn new(members: &[Member<'_>]) -> Array {
        let mut sorted: Vec<(usize, &Member<'_>)> =
            members.iter().enumerate().filter(|(_, member)| member.weight > 0).collect();
        // Stable: equal weights keep the order of the configuration.
        sorted.sort_by_key(|(_, member)| member.weight);
        let all: u64 = sorted.iter().map(|(_, member)| u64::from(member.weight)).sum();
        let (mut product, mut before, mut last) = (1.0, 0.0, 0.0);
        let count = sorted.len();
        let slots = sorted.iter().enumerate().map(|(index, (place, member))| {
            let mut factor = f64::from(member.weight) / all as f64;
            if (factor * 1000.0).floor() == 0.0 {
                factor = 0.0;
            }
            let left = (count - index) as f64;
            let multiplier =
                (left * (factor - last) / product + f64::powf(before, left)).powf(1.0 / left);
            (product, before, last) = (product * multiplier, multiplier, factor);
            Slot { place: *place, hash: member_hash(member.name.as_bytes()), multiplier }
        });
        Array(slots.collect())
    }

    /// Places of the members for a URL, the responsible one first; a member that is away is stood
    /// in for by the next.
    pub fn order(&self, url: &[u8]) -> Vec<usize> {
        let mut hash = 0;
        let mut scores: Vec<(f64, usize)> = Vec::with_capacity(self.0.len());
        for slot in &self.0 {
            hash = add(hash, url);
            let combined = spread(hash ^ slot.hash);
            scores.push((f64::from(combined) * slot.multiplier, slot.place));
        }
        // Stable: of equal scores the first member's counts.
        scores.sort_by(|one, other| other.0.total_cmp(&one.0));
        scores.into_iter().map(|(_, place)| place).collect()
    }
}

/// Adds bytes to a hash (draft section 3.1). Squid's characters have a sign.
fn add(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, byte| {
        let character = i32::from(byte.cast_signed()).cast_unsigned();
        hash.wrapping_add(hash.rotate_left(19).wrapping_add(character))
    })
}

fn spread(hash: u32) -> u32 {
    hash.wrapping_add(hash.wrapping_mul(SPREAD)).rotate_left(21)
}

/// The hash of a member's name (draft section 3.2).
fn member_hash(name: &[u8]) -> u32 {
    spread(add(0, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(members: &[Member<'_>]) -> Vec<usize> {
        let array = Array::new(members);
        let mut counts = vec![0; members.len()];
        for number in 0..9000 {
            counts[array.order(format!("http://a.example/{number}").as_bytes())[0]] += 1;
        }
        counts
    }

    #[test]
    fn every_member_is_in_the_order_once() {
        let members = ["one", "two", "three"].map(|name| Member { name, weight: 1 });
        let mut order = Array::new(&members).order(b"http://a.example/");
        assert_eq!(order.len(), 3);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
        assert!(Array::default().order(b"http://a.example/").is_empty());
    }

    #[test]
    fn members_get_their_shares() {
        let even = counts(&["one", "two", "three"].map(|name| Member { name, weight: 1 }));
        assert!(even.iter().all(|count| (2500..3500).contains(count)), "{even:?}");
        let members = [
            Member { name: "large", weight: 2 },
            Member { name: "small", weight: 1 },
            Member { name: "none", weight: 0 },
        ];
        let counts = counts(&members);
        assert!((5500..6500).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[2], 0);
    }

    #[test]
    fn multipliers_are_those_of_the_draft() {
        // Equal shares have the same multiplier; see section 3.4 of the draft.
        let even = Array::new(&["a", "b", "c", "d"].map(|name| Member { name, weight: 1 }));
        assert!(even.0.iter().all(|slot| (slot.multiplier - 1.0).abs() < 1e-9));
        let two = Array::new(&[Member { name: "a", weight: 2 }, Member { name: "b", weight: 1 }]);
        let multipliers: Vec<f64> = two.0.iter().map(|slot| slot.multiplier).collect();
        // X1 = (2/3)^(1/2); X2 = (1/3)/X1 + X1.
        let first = (2.0f64 / 3.0).sqrt();
        assert!((multipliers[0] - first).abs() < 1e-9);
        assert!((multipliers[1] - (1.0 / 3.0 / first + first)).abs() < 1e-9);
    }
}
