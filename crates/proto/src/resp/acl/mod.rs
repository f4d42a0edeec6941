//! Access control lists of Redis 7.0: users, the rules that change them, the check of a command.
//!
//! | file | contents |
//! |---|---|
//! | `commands.rs` | the commands as rules name them; sets of commands |
//! | `rules.rs` | rules, as ACL SETUSER and files of users have them |
//! | `describe.rs` | a user as rules |
//! | `check.rs` | may a user run a command |
//! | `file.rs` | files of users |
//!
//! Redis's acl.c is the reference. One difference: Redis lists the single commands of a rule in the
//! order of a table that is shuffled at each start; here they are in the order of COMMAND.

mod check;
mod commands;
mod describe;
mod file;
mod rules;
#[cfg(test)]
mod tests;

use commands::Commands;

pub use check::Denied;
pub use file::{USERS, line, parse, write};
pub use rules::{Mistake, merged};

/// SHA-256 of a password: users have these alone.
pub type Hash = [u8; 32];
/// SHA-256.
pub type Hasher = fn(&[u8]) -> Hash;

/// Maximum of a user's selectors: each may be looked at for each command.
pub const SELECTORS: usize = 64;
/// Maximum of a user's passwords: a login is compared with all of them.
pub const PASSWORDS: usize = 64;
/// Maximum of a user's rules in bytes.
pub const BYTES: usize = 64 << 10;
/// Bytes of a pattern or a password beside its text.
const ENTRY: usize = 40;

/// A user's state, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    is_on: bool,
    no_password: bool,
    /// A rule `sanitize-payload` (true) or `skip-sanitize-payload` was given. Payloads are always
    /// examined.
    sanitizes: Option<bool>,
    passwords: Vec<Hash>,
    /// The first holds the rules outside of parentheses.
    selectors: Vec<Selector>,
}

/// Commands, and the keys and channels that they may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Selector {
    commands: Commands,
    /// Every command, without a look at [`Selector::commands`].
    all_commands: bool,
    /// The first arguments with which a command may run that may not run otherwise, by its number.
    first_args: Vec<(u16, Vec<Box<[u8]>>)>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Box<[u8]>>,
}

/// Keys that may be read, written, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    reads: bool,
    writes: bool,
    pattern: Box<[u8]>,
}

impl Default for User {
    /// A new user: it is off and may do nothing.
    fn default() -> User {
        User {
            is_on: false,
            no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            selectors: vec![Selector::default()],
        }
    }
}

impl User {
    /// The user `default` of a server without users: everybody is let in, and may do everything.
    pub fn open() -> User {
        User { no_password: true, ..User::with_passwords(&[]) }
    }

    /// A user that may do everything, with these passwords.
    pub fn with_passwords(passwords: &[Hash]) -> User {
        let all = Selector {
            commands: Commands::all(),
            all_commands: true,
            all_keys: true,
            all_channels: true,
            ..Selector::default()
        };
        User { is_on: true, passwords: passwords.to_vec(), selectors: vec![all], ..User::default() }
    }

    /// May it log in?
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Is it let in with any password?
    pub fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// Is it let in with a password of this hash? Takes the same time for each password.
    pub fn admits(&self, hash: &Hash) -> bool {
        let mut admitted = false;
        for own in &self.passwords {
            let difference =
                own.iter().zip(hash).fold(0, |bits, (own, given)| bits | (own ^ given));
            admitted |= std::hint::black_box(difference) == 0;
        }
        self.is_on && (self.no_password || admitted)
    }

    /// May it run every command on all keys and channels?
    pub fn permits_all(&self) -> bool {
        let all = |selector: &Selector| {
            selector.all_commands && selector.all_keys && selector.all_channels
        };
        self.selectors.iter().any(all)
    }

    /// Replaces its passwords by one, or has it need none: CONFIG SET requirepass.
    pub fn set_password(&mut self, password: Option<Hash>) {
        self.no_password = password.is_none();
        self.passwords = password.into_iter().collect();
    }

    /// Its memory in bytes, about.
    pub fn bytes(&self) -> usize {
        let texts = |list: &[Box<[u8]>]| list.iter().map(|text| text.len() + ENTRY).sum::<usize>();
        let of = |selector: &Selector| {
            let keys: usize = selector.keys.iter().map(|key| key.pattern.len() + ENTRY).sum();
            let first: usize = selector.first_args.iter().map(|(_, list)| texts(list)).sum();
            size_of::<Selector>() + keys + first + texts(&selector.channels)
        };
        size_of::<User>()
            + self.passwords.len() * ENTRY
            + self.selectors.iter().map(of).sum::<usize>()
    }

    /// Returns whether clients of `before`, the same user, may have subscriptions that this one may
    /// not have.
    pub fn lacks_channels_of(&self, before: &User) -> bool {
        if self.selectors.iter().any(|selector| selector.all_channels) {
            return false;
        }
        let has = |channel: &[u8]| {
            let mut own = self.selectors.iter().flat_map(|selector| &selector.channels);
            own.any(|own| **own == *channel)
        };
        before.selectors.iter().any(|selector| {
            selector.all_channels || !selector.channels.iter().all(|channel| has(channel))
        })
    }
}
