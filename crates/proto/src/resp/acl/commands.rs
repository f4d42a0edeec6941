//! The commands as rules name them, and sets of commands.
//!
//! Rules know all commands of Redis 7.0, also those that Larder does not have: files of users take
//! `-replicaof` away from users. Commands that are missing here have numbers behind all others.

use std::sync::LazyLock;

use crate::resp::table::{self, absent, category};

/// Bits of a set.
const BITS: usize = 512;
/// The bit of commands that are yet to come: set by `+@all` alone, so that a user that lacks some
/// commands is told from one that has some.
const FUTURE: u16 = BITS as u16 - 1;
/// The number of the first command that is missing here.
const ABSENT: u16 = 416;

/// A command or subcommand.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its name; of a subcommand both names (`config|get`).
    pub(super) name: &'static str,
    categories: u32,
    /// Its bit.
    pub(super) bit: u16,
    /// Number of its subcommands, which follow it in the list.
    subcommands: usize,
    pub(super) is_sub: bool,
}

/// All commands.
#[derive(Debug)]
struct List {
    entries: Vec<Entry>,
    /// The commands of each category.
    members: [Commands; category::NAMES.len()],
    /// The commands that a rule for a category changes: its members, and their subcommands.
    changed: [Commands; category::NAMES.len()],
}

static LIST: LazyLock<List> = LazyLock::new(List::new);

impl List {
    fn new() -> List {
        let mut entries = Vec::new();
        for command in table::all() {
            for own in std::iter::once(command).chain(command.subcommands) {
                entries.push(Entry {
                    name: own.name,
                    categories: own.categories,
                    bit: own.id as u16,
                    subcommands: own.subcommands.len(),
                    is_sub: own.name.contains('|'),
                });
            }
        }
        for (bit, (name, categories)) in (ABSENT..).zip(absent::COMMANDS) {
            let prefix = format!("{name}|");
            let is_sub = |(other, _): &&(&str, u32)| other.starts_with(&prefix);
            entries.push(Entry {
                name,
                categories: *categories,
                bit,
                subcommands: absent::COMMANDS.iter().filter(is_sub).count(),
                is_sub: name.contains('|'),
            });
        }
        let mut list = List { entries, members: Default::default(), changed: Default::default() };
        for (at, entry) in list.entries.iter().enumerate() {
            for category in
                (0..category::NAMES.len()).filter(|bit| entry.categories >> bit & 1 == 1)
            {
                list.members[category].set(entry.bit, true);
                for changed in &list.entries[at..=at + entry.subcommands] {
                    list.changed[category].set(changed.bit, true);
                }
            }
        }
        list
    }
}

/// All commands, each followed by its subcommands.
pub(super) fn all() -> &'static [Entry] {
    &LIST.entries
}

/// The place of a command in [`all`], by its name in any case.
pub(super) fn find(name: &[u8]) -> Option<usize> {
    all().iter().position(|entry| entry.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The bits of the command at a place in [`all`], and of its subcommands.
pub(super) fn with_subcommands(at: usize) -> impl Iterator<Item = u16> {
    all()[at..=at + all()[at].subcommands].iter().map(|entry| entry.bit)
}

/// Returns whether the command at a place has subcommands.
pub(super) fn has_subcommands(at: usize) -> bool {
    all()[at].subcommands > 0
}

/// The number of a category, by its name in any case.
pub(super) fn category(name: &[u8]) -> Option<usize> {
    category::NAMES.iter().position(|own| own.as_bytes().eq_ignore_ascii_case(name))
}

/// A set of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commands([u64; BITS / 64]);

impl Commands {
    /// All commands, and those yet to come.
    pub(super) fn all() -> Commands {
        Commands([u64::MAX; BITS / 64])
    }

    /// Returns whether commands yet to come belong to it.
    pub(super) fn has_future(&self) -> bool {
        self.has(FUTURE)
    }

    #[inline]
    pub(super) fn has(&self, bit: u16) -> bool {
        self.0[usize::from(bit) / 64] >> (bit % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, bit: u16, value: bool) {
        let word = &mut self.0[usize::from(bit) / 64];
        *word = if value { *word | 1 << (bit % 64) } else { *word & !(1 << (bit % 64)) };
    }

    /// Adds or removes the commands of a category.
    pub(super) fn set_category(&mut self, category: usize, value: bool) {
        for (word, changed) in self.0.iter_mut().zip(LIST.changed[category].0) {
            *word = if value { *word | changed } else { *word & !changed };
        }
    }

    /// The commands that a rule for a category changes.
    pub(super) fn of_category(category: usize) -> &'static Commands {
        &LIST.changed[category]
    }

    /// How many commands of a category belong to it, and how many do not.
    pub(super) fn count(&self, category: usize) -> (u32, u32) {
        let members = &LIST.members[category].0;
        let on = self.0.iter().zip(members).map(|(own, of)| (own & of).count_ones()).sum::<u32>();
        (on, members.iter().map(|word| word.count_ones()).sum::<u32>() - on)
    }
}
