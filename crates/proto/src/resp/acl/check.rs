//! May a user run a command?

use super::{Selector, User};
use crate::resp::{
    Args,
    glob::Pattern,
    table::{Command, Id, flag, key},
};

/// Most steps of the comparisons of one command, each about a nanosecond: the check must not hold
/// a worker for longer than about two milliseconds.
const STEPS: usize = 2_000_000;
/// Steps of a comparison beside those of its bytes.
const COMPARISON: usize = 8;

/// Reasons to refuse a command. The place is that of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// A key.
    Key(usize),
    /// A channel, or a pattern of channels.
    Channel(usize),
    /// Too many or too long keys to be compared with the patterns.
    TooLong,
}

/// A check of one command.
struct Check<'c> {
    command: &'c Command,
    args: &'c Args<'c>,
    /// The places of its keys with their flags, once a selector has asked.
    keys: Option<Vec<(usize, u32)>>,
    steps: usize,
}

impl User {
    /// Checks a command (Redis: `ACLCheckAllUserCommandPerm`). Of several selectors' reasons the
    /// one of the last key or channel counts.
    pub fn check(&self, command: &Command, args: &Args<'_>) -> Result<(), Denied> {
        self.permits(command, args, |_| true)
    }

    /// As [`User::check`], by a selector that may read all keys: SORT, whose patterns name keys by
    /// data.
    pub fn check_reading_all(&self, command: &Command, args: &Args<'_>) -> Result<(), Denied> {
        self.permits(command, args, Selector::reads_all_keys)
    }

    fn permits(
        &self,
        command: &Command,
        args: &Args<'_>,
        fits: impl Fn(&Selector) -> bool,
    ) -> Result<(), Denied> {
        let mut check = Check { command, args, keys: None, steps: 0 };
        let mut worst = Denied::Command;
        for selector in &self.selectors {
            match check.permits(selector) {
                Ok(()) if fits(selector) => return Ok(()),
                Ok(()) => {}
                Err(Denied::TooLong) => return Err(Denied::TooLong),
                Err(denied) => worst = worst.max(denied),
            }
        }
        Err(worst)
    }

    /// May it have a subscription to this channel, or pattern of channels?
    pub fn may_subscribe(&self, channel: &[u8], is_pattern: bool) -> bool {
        let may = |selector: &Selector| {
            selector.all_channels
                || selector.names_channel(channel, is_pattern, &mut 0) == Some(true)
        };
        self.selectors.iter().any(may)
    }
}

impl Check<'_> {
    fn permits(&mut self, selector: &Selector) -> Result<(), Denied> {
        if !selector.all_commands
            && !self.command.has(flag::NO_AUTH)
            && !selector.permits_command(self.command.id as u16, self.args)
        {
            return Err(Denied::Command);
        }
        if !selector.all_keys {
            self.permits_keys(selector)?;
        }
        if !selector.all_channels {
            self.permits_channels(selector)?;
        }
        Ok(())
    }

    fn permits_keys(&mut self, selector: &Selector) -> Result<(), Denied> {
        let keys = self.keys.get_or_insert_with(|| self.command.uses(self.args));
        if keys.is_empty() {
            return Ok(());
        }
        let patterns: Vec<_> = selector.keys.iter().map(|key| Pattern::new(&key.pattern)).collect();
        for (place, flags) in keys {
            let reads = *flags & key::ACCESS != 0;
            let writes = *flags & (key::INSERT | key::DELETE | key::UPDATE) != 0;
            let mut found = false;
            for (own, pattern) in selector.keys.iter().zip(&patterns) {
                self.steps += COMPARISON;
                if self.steps > STEPS {
                    return Err(Denied::TooLong);
                }
                if (reads && !own.reads) || (writes && !own.writes) {
                    continue;
                }
                if pattern.matches_counted(self.args.get(*place), &mut self.steps) {
                    found = true;
                    break;
                }
            }
            if !found {
                return Err(Denied::Key(*place));
            }
        }
        Ok(())
    }

    fn permits_channels(&mut self, selector: &Selector) -> Result<(), Denied> {
        let end = match self.command.id {
            Id::Publish | Id::Spublish => 2,
            Id::Subscribe | Id::Ssubscribe | Id::Psubscribe => self.args.len(),
            _ => return Ok(()),
        };
        let is_pattern = self.command.id == Id::Psubscribe;
        for place in 1..end {
            let channel = self.args.get(place);
            match selector.names_channel(channel, is_pattern, &mut self.steps) {
                Some(true) => {}
                Some(false) => return Err(Denied::Channel(place)),
                None => return Err(Denied::TooLong),
            }
        }
        Ok(())
    }
}

impl Selector {
    fn permits_command(&self, bit: u16, args: &Args<'_>) -> bool {
        if self.commands.has(bit) {
            return true;
        }
        let of_command = self.first_args.iter().filter(|(own, _)| *own == bit);
        args.len() > 1
            && of_command
                .flat_map(|(_, list)| list)
                .any(|first| first.eq_ignore_ascii_case(args.get(1)))
    }

    fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|key| key.reads && *key.pattern == *b"*")
    }

    /// Does it name this channel? A pattern must be the same as one of its own. None: that takes
    /// too long.
    fn names_channel(&self, channel: &[u8], is_pattern: bool, steps: &mut usize) -> Option<bool> {
        for own in &self.channels {
            *steps += COMPARISON;
            if *steps > STEPS {
                return None;
            }
            let is = match is_pattern {
                true => **own == *channel,
                false => Pattern::new(own).matches_counted(channel, steps),
            };
            if is {
                return Some(true);
            }
        }
        Some(false)
    }
}
