//! ACL LOG: the last refusals, similar ones as one entry.

use std::collections::VecDeque;

use crate::clock::Ms;

/// Entries that a new one is compared with.
const COMPARED: usize = 10;
/// Milliseconds within which refusals are similar.
const SIMILAR: Ms = 60_000;
/// Bytes kept of a key, a channel or a name.
const OBJECT: usize = 1024;

/// Reasons of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Auth,
    Command,
    Key,
    Channel,
}

impl Reason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Reason::Auth => "auth",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
        }
    }
}

/// Places of a refused command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Top,
    Multi,
    Lua,
}

impl Context {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Context::Top => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// Similar refusals.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) count: u64,
    pub(crate) kind: (Reason, Context),
    /// The command, key or channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    /// Time of the last one.
    pub(crate) at: Ms,
    /// The client of the last one, as CLIENT LIST shows it.
    pub(crate) client: String,
}

/// The log, newest first.
#[derive(Default)]
pub(crate) struct AclLog(VecDeque<Entry>);

impl AclLog {
    /// Notes a refusal; keeps `most` entries.
    pub(crate) fn note(
        &mut self,
        kind: (Reason, Context),
        object: &[u8],
        user: &[u8],
        client: String,
        now: Ms,
        most: usize,
    ) {
        let [object, user] = [object, user].map(|text| text[..text.len().min(OBJECT)].to_vec());
        let client = client.trim_end().to_owned();
        let is_similar = |entry: &Entry| {
            entry.kind == kind
                && now.saturating_sub(entry.at) <= SIMILAR
                && entry.object == object
                && entry.user == user
        };
        let similar = self.0.iter().take(COMPARED).position(is_similar);
        let count = similar.and_then(|at| self.0.remove(at)).map_or(1, |entry| entry.count + 1);
        self.0.push_front(Entry { count, kind, object, user, at: now, client });
        self.0.truncate(most);
    }

    pub(crate) fn latest(&self, count: usize) -> Vec<Entry> {
        self.0.iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
