use super::*;
use crate::resp::{Owned, table};

/// A stand-in for SHA-256.
fn hash(bytes: &[u8]) -> Hash {
    let mut hash = Hash::default();
    bytes.iter().enumerate().for_each(|(at, byte)| hash[at % 32] ^= byte);
    hash
}

fn user(rules: &str) -> User {
    let mut user = User::default();
    let rules = merged(rules.split(' ').map(str::as_bytes)).expect("balanced");
    for rule in rules {
        user.apply(&rule, hash).unwrap_or_else(|mistake| panic!("{mistake}: {rule:?}"));
    }
    user
}

fn checked(user: &User, line: &str) -> Result<(), Denied> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let command = table::find(words[0]).expect("a command");
    user.check(command, &Owned::new(&words).args())
}

#[test]
fn a_new_user_may_do_nothing_and_an_open_one_everything() {
    assert_eq!(User::default().describe(), b"off resetchannels -@all");
    assert_eq!(checked(&User::default(), "get a"), Err(Denied::Command));
    assert!(!User::default().permits_all() && !User::default().admits(&hash(b"")));
    assert_eq!(User::open().describe(), b"on nopass ~* &* +@all");
    assert!(User::open().permits_all() && User::open().admits(&hash(b"any")));
    assert_eq!(checked(&User::open(), "get a"), Ok(()));
}

#[test]
fn passwords_are_several() {
    let mut two = user("on >one >two");
    assert!(two.admits(&hash(b"one")) && two.admits(&hash(b"two")) && !two.admits(&hash(b"")));
    two.apply(b"<one", hash).expect("it is there");
    assert!(!two.admits(&hash(b"one")));
    assert_eq!(two.apply(b"<one", hash), Err(Mistake::NoPassword));
    assert!(!user("off >one").admits(&hash(b"one")));
    let many =
        (0..=PASSWORDS).map(|n| format!(">{n}")).try_fold(User::default(), |mut user, rule| {
            user.apply(rule.as_bytes(), hash).map(|()| user)
        });
    assert_eq!(many, Err(Mistake::TooMany));
}

#[test]
fn keys_are_read_or_written() {
    let ann = user("on +@all %R~r* %W~w* ~a* (+incr ~n*)");
    for (line, result) in [
        ("get r1", Ok(())),
        ("get a1", Ok(())),
        ("get w1", Err(Denied::Key(1))),
        ("set r1 x", Err(Denied::Key(1))),
        ("set w1 x", Ok(())),
        ("set w1 x get", Err(Denied::Key(1))),
        ("copy r1 w1", Ok(())),
        ("copy r1 r2", Err(Denied::Key(2))),
        ("incr n1", Ok(())),
        ("incr r1", Err(Denied::Key(1))),
        ("exists w1", Ok(())),
        ("publish a b", Err(Denied::Channel(1))),
        ("ping", Ok(())),
    ] {
        assert_eq!(checked(&ann, line), result, "{line}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    for rules in [
        "on >one ~a* %R~b &c +@all -@dangerous +keys",
        "off nopass allkeys allchannels +@read -get +config|get +select|0 (+set ~x) (~* +@hash)",
        "reset on -@all +acl -acl|setuser +client|id",
    ] {
        let made = user(rules);
        let text = write(std::iter::once((&b"u"[..], &made)));
        let again = parse(&text, "file", hash).expect("good");
        assert_eq!(again.get(&b"u"[..]), Some(&made), "{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn mistakes_of_a_file_are_told_with_their_lines() {
    let told = parse(b"user a on\n\nuser b +nosuch nonsense ~\xff\nuser a\n", "f", hash);
    assert_eq!(
        told.expect_err("mistakes"),
        "f:3: Error in applying operation '+nosuch': Unknown command or category name in ACL. f:3: \
         Syntax error. WARNING: Duplicate user 'a' found on line 4. WARNING: ACL errors detected, \
         no change to the previously active ACL rules was performed"
    );
}

#[test]
fn numbers_of_commands_fit() {
    let mut bits: Vec<_> = commands::all().iter().map(|entry| entry.bit).collect();
    bits.sort_unstable();
    bits.dedup();
    assert_eq!(bits.len(), commands::all().len(), "each has its own");
    assert!(bits.last().is_some_and(|bit| *bit < 511));
    assert!(table::all().count() > 200);
}
