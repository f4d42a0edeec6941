//! A file of users is refused, or read, written and read again as the same users; and a user's
//! check of a command ends.
#![no_main]

use larder_proto::resp::{
    Owned,
    acl::{Hash, parse, write},
    table,
};
use libfuzzer_sys::fuzz_target;

/// A stand-in for SHA-256.
fn hash(bytes: &[u8]) -> Hash {
    let mut hash = Hash::default();
    bytes.iter().enumerate().for_each(|(at, byte)| hash[at % 32] ^= byte);
    hash
}

fuzz_target!(|input: &[u8]| {
    let Ok(users) = parse(input, "file", hash) else { return };
    let text = write(users.iter().map(|(name, user)| (&name[..], user)));
    let again = parse(&text, "file", hash).expect("what was written is read");
    assert_eq!(again, users);
    let command = Owned::new(&[b"copy", b"a", input]);
    let copy = table::find(b"copy").expect("a command");
    for user in users.values() {
        let allowed = user.check(copy, &command.args()).is_ok();
        assert!(allowed || !user.permits_all());
    }
});
