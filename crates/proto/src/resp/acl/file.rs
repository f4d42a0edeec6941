//! Files of users: a line each, `user NAME RULE ...`.

use std::collections::BTreeMap;

use super::{Hasher, Mistake, User, rules};

/// Maximum of users: each login looks one up, and the list is written at once.
pub const USERS: usize = 1024;

/// The users of a file, by name. Err: all mistakes, in Redis's words; `name` is the file's.
pub fn parse(text: &[u8], name: &str, hasher: Hasher) -> Result<BTreeMap<Box<[u8]>, User>, String> {
    let (mut users, mut errors) = (BTreeMap::new(), String::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let at = format!("{name}:{number}");
        let mut words = line.split(|byte| *byte == b' ');
        let (first, user) = (words.next(), words.next());
        let (Some(b"user"), Some(user)) = (first, user) else {
            errors.push_str(&format!(
                "{at} should start with user keyword followed by the username. "
            ));
            continue;
        };
        let shown = String::from_utf8_lossy(user);
        if rules::has_spaces(user) {
            errors.push_str(&format!("'{at}: username '{shown}' contains invalid characters. "));
        } else if users.contains_key(user) {
            errors.push_str(&format!("WARNING: Duplicate user '{shown}' found on line {number}. "));
        } else if users.len() >= USERS {
            errors.push_str(&format!("{at}: there may be {USERS} users. "));
        } else {
            let made = one(words, &at, hasher, &mut errors);
            users.insert(user.into(), made);
        }
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors.push_str(
        "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
    );
    Err(errors)
}

/// The user of a line; notes its mistakes.
fn one<'a>(
    words: impl Iterator<Item = &'a [u8]>,
    at: &str,
    hasher: Hasher,
    errors: &mut String,
) -> User {
    let mut user = User::default();
    let Ok(rules) = rules::merged(words) else {
        errors.push_str(&format!("{at}: Unmatched parenthesis in selector definition."));
        return user;
    };
    let mut is_told = false;
    for rule in rules {
        match user.apply(rule.trim_ascii(), hasher) {
            Ok(()) => {}
            // The name of a command is no secret; other rules may be passwords.
            Err(Mistake::Unknown) => errors.push_str(&format!(
                "{at}: Error in applying operation '{}': {}. ",
                String::from_utf8_lossy(&rule),
                Mistake::Unknown
            )),
            Err(mistake) if !is_told => {
                errors.push_str(&format!("{at}: {mistake}. "));
                is_told = true;
            }
            Err(_) => {}
        }
    }
    user
}

/// The file of these users.
pub fn write<'u>(users: impl Iterator<Item = (&'u [u8], &'u User)>) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, user) in users {
        text.extend_from_slice(&line(name, user));
        text.push(b'\n');
    }
    text
}

/// The line of a user, without its end.
pub fn line(name: &[u8], user: &User) -> Vec<u8> {
    [b"user ", name, b" ", &user.describe()[..]].concat()
}
