//! Keyspace notifications: messages about events on keys (Redis documentation, "Redis keyspace
//! notifications").

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::number;

use super::{ctx::Class, shared::Shared, untold::Untold};

/// `K`: to `__keyspace@<db>__:<key>`.
const KEYSPACE: u32 = 1;
/// `E`: to `__keyevent@<db>__:<event>`.
const KEYEVENT: u32 = 1 << 1;

/// Letters and their bits. `A` stands for all classes except `m` and `n`.
const LETTERS: [(u8, u32); 13] = [
    (b'g', 1 << 2),
    (b'$', 1 << 3),
    (b'l', 1 << 4),
    (b's', 1 << 5),
    (b'h', 1 << 6),
    (b'z', 1 << 7),
    (b'x', 1 << 8),
    (b'e', 1 << 9),
    (b't', 1 << 10),
    (b'd', 1 << 11),
    (b'm', 1 << 12),
    (b'n', 1 << 13),
    (b'A', ALL),
];
/// `g$lshzxetd`.
const ALL: u32 = 0b1111_1111_1100;

/// The bits of letters; None: a letter is unknown.
pub(crate) fn bits(letters: &[u8]) -> Option<u32> {
    letters.iter().try_fold(0, |bits, letter| match letter {
        b'K' => Some(bits | KEYSPACE),
        b'E' => Some(bits | KEYEVENT),
        letter => LETTERS.iter().find(|(known, _)| known == letter).map(|(_, bit)| bits | bit),
    })
}

/// The letters of bits, in Redis's order.
pub(crate) fn letters(bits: u32) -> String {
    let mut text = String::new();
    if bits & ALL == ALL {
        text.push('A');
    } else {
        let classes =
            LETTERS.iter().filter(|(letter, bit)| !b"Am".contains(letter) && bits & bit != 0);
        text.extend(classes.map(|(letter, _)| *letter as char));
    }
    for (letter, bit) in [('K', KEYSPACE), ('E', KEYEVENT), ('m', 1 << 12)] {
        if bits & bit != 0 {
            text.push(letter);
        }
    }
    text
}

fn bit(class: Class) -> u32 {
    match class {
        Class::Generic => 1 << 2,
        Class::String => 1 << 3,
        Class::List => 1 << 4,
        Class::Set => 1 << 5,
        Class::Hash => 1 << 6,
        Class::SortedSet => 1 << 7,
        Class::Expired => 1 << 8,
        Class::Evicted => 1 << 9,
        Class::Stream => 1 << 10,
        Class::Missed => 1 << 12,
    }
}

/// The messages of an event on a key, as configured.
pub(crate) fn event(
    shared: &Shared,
    class: Class,
    event: &str,
    db: u8,
    key: &[u8],
) -> impl Iterator<Item = Untold> {
    let wanted = shared.config.events.load(Relaxed);
    let wanted = if wanted & bit(class) == 0 { 0 } else { wanted };
    let of_key = (wanted & KEYSPACE != 0)
        .then(|| Untold::event(channel("__keyspace@", db, key), event.as_bytes().to_vec()));
    let of_event = (wanted & KEYEVENT != 0)
        .then(|| Untold::event(channel("__keyevent@", db, event.as_bytes()), key.to_vec()));
    of_key.into_iter().chain(of_event)
}

fn channel(prefix: &str, db: u8, name: &[u8]) -> Vec<u8> {
    let mut channel = Vec::with_capacity(prefix.len() + 6 + name.len());
    channel.extend_from_slice(prefix.as_bytes());
    number::push_u64(&mut channel, db.into());
    channel.extend_from_slice(b"__:");
    channel.extend_from_slice(name);
    channel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_parsed_and_shown_like_redis() {
        // Answers of redis-server 7.0.15 to CONFIG GET after CONFIG SET.
        for (set, shown) in [
            ("Ex", "xE"),
            ("KEA", "AKE"),
            ("gK$E", "g$KE"),
            ("", ""),
            ("KEmn", "nKEm"),
            ("Kg$lshzxetd", "AK"),
            ("KEAmn", "AKEm"),
        ] {
            assert_eq!(letters(bits(set.as_bytes()).unwrap()), shown, "{set}");
        }
        assert_eq!(bits(b"Eq"), None);
    }
}
