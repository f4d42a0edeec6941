//! Rules, as ACL SETUSER and files of users have them.

use std::borrow::Cow;

use super::{
    BYTES, Hash, Hasher, KeyPattern, PASSWORDS, SELECTORS, Selector, User,
    commands::{self, Commands},
};
use crate::resp::{args::Args, glob, inline};

/// Reasons to refuse a rule. Its text is Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// No such command or category.
    Unknown,
    /// Not a rule.
    Syntax,
    /// A pattern of keys beside all keys.
    AllKeys,
    /// A pattern of channels beside all channels.
    AllChannels,
    /// The password to be removed is not there.
    NoPassword,
    /// Not a SHA-256 in hexadecimal digits.
    BadHash,
    /// A first argument of a subcommand.
    OfSubcommand,
    /// More than a limit of Larder's allows.
    TooMany,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mistake::Unknown => "Unknown command or category name in ACL",
            Mistake::Syntax => "Syntax error",
            Mistake::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Mistake::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                 does not have any effect. Try 'resetchannels' to start with an empty list of \
                 channels"
            }
            Mistake::NoPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Mistake::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            Mistake::OfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Mistake::TooMany => {
                "a user may have 64 passwords, 64 selectors and 64 KiB of rules, and a pattern \
                 1024 bytes"
            }
        })
    }
}

/// Joins rules in parentheses that were split at spaces. Err: the place of a parenthesis that is
/// not closed.
pub fn merged<'a>(rules: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Cow<'a, [u8]>>, usize> {
    let mut merged: Vec<Cow<'a, [u8]>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, rule) in rules.enumerate() {
        if rule.starts_with(b"(") && !rule.ends_with(b")") {
            open = Some((at, rule.to_vec()));
        } else if let Some((from, mut selector)) = open.take() {
            selector.push(b' ');
            selector.extend_from_slice(rule);
            if rule.ends_with(b")") {
                merged.push(selector.into());
            } else {
                open = Some((from, selector));
            }
        } else {
            merged.push(rule.into());
        }
    }
    open.map_or(Ok(merged), |(at, _)| Err(at))
}

/// Returns whether a name or pattern has characters that would split it in a file.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}

fn is(rule: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| rule.eq_ignore_ascii_case(word.as_bytes()))
}

/// A hash in lower-case hexadecimal digits.
fn hash_of(digits: &[u8]) -> Result<Hash, Mistake> {
    let mut hash = Hash::default();
    if digits.len() != 2 * hash.len() {
        return Err(Mistake::BadHash);
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(Mistake::BadHash),
    };
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(hash)
}

impl User {
    /// Applies one rule (Redis: `ACLSetUser`). After an error the user is to be dropped.
    pub fn apply(&mut self, rule: &[u8], hasher: Hasher) -> Result<(), Mistake> {
        match rule {
            [] => {}
            _ if is(rule, &["on"]) => self.is_on = true,
            _ if is(rule, &["off"]) => self.is_on = false,
            _ if is(rule, &["sanitize-payload"]) => self.sanitizes = Some(true),
            _ if is(rule, &["skip-sanitize-payload"]) => self.sanitizes = Some(false),
            _ if is(rule, &["nopass"]) => self.set_password(None),
            _ if is(rule, &["resetpass"]) => {
                self.set_password(None);
                self.no_password = false;
            }
            [b'>', password @ ..] => self.add_password(hasher(password))?,
            [b'#', digits @ ..] => self.add_password(hash_of(digits)?)?,
            [b'<', password @ ..] => self.remove_password(&hasher(password))?,
            [b'!', digits @ ..] => self.remove_password(&hash_of(digits)?)?,
            [b'(', rules @ .., b')'] => {
                if self.selectors.len() >= SELECTORS {
                    return Err(Mistake::TooMany);
                }
                self.selectors.push(Selector::parse(rules)?);
            }
            _ if is(rule, &["clearselectors"]) => self.selectors.truncate(1),
            _ if is(rule, &["reset"]) => {
                *self = User { sanitizes: Some(true), ..User::default() };
            }
            _ => self.selectors[0].apply(rule)?,
        }
        if self.bytes() > BYTES { Err(Mistake::TooMany) } else { Ok(()) }
    }

    fn add_password(&mut self, hash: Hash) -> Result<(), Mistake> {
        if !self.passwords.contains(&hash) {
            if self.passwords.len() >= PASSWORDS {
                return Err(Mistake::TooMany);
            }
            self.passwords.push(hash);
        }
        self.no_password = false;
        Ok(())
    }

    fn remove_password(&mut self, hash: &Hash) -> Result<(), Mistake> {
        let at = self.passwords.iter().position(|own| own == hash).ok_or(Mistake::NoPassword)?;
        self.passwords.remove(at);
        Ok(())
    }
}

impl Selector {
    /// The rules between parentheses.
    fn parse(rules: &[u8]) -> Result<Selector, Mistake> {
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        let mut selector = Selector::default();
        // As in Redis, quotes that do not balance leave no rules.
        if inline::split(rules, &mut text, &mut spans).is_some() {
            for rule in Args::new(&text, &spans).from(0) {
                selector.apply(rule)?;
            }
        }
        Ok(selector)
    }

    /// Applies one rule (Redis: `ACLSetSelector`).
    fn apply(&mut self, rule: &[u8]) -> Result<(), Mistake> {
        match rule {
            _ if is(rule, &["allkeys", "~*"]) => {
                self.all_keys = true;
                self.keys.clear();
            }
            _ if is(rule, &["resetkeys"]) => {
                self.all_keys = false;
                self.keys.clear();
            }
            _ if is(rule, &["allchannels", "&*"]) => {
                self.all_channels = true;
                self.channels.clear();
            }
            _ if is(rule, &["resetchannels"]) => {
                self.all_channels = false;
                self.channels.clear();
            }
            _ if is(rule, &["allcommands", "+@all"]) => {
                (self.commands, self.all_commands) = (Commands::all(), true);
                self.first_args.clear();
            }
            _ if is(rule, &["nocommands", "-@all"]) => {
                (self.commands, self.all_commands) = (Commands::default(), false);
                self.first_args.clear();
            }
            [b'~' | b'%', ..] => self.add_keys(rule)?,
            [b'&', channel @ ..] => self.add_channel(channel)?,
            [b'+', b'@', category @ ..] => self.set_category(category, true)?,
            [b'-', b'@', category @ ..] => self.set_category(category, false)?,
            [b'+', command @ ..] => self.add_command(command)?,
            [b'-', command @ ..] => {
                self.set_command(commands::find(command).ok_or(Mistake::Unknown)?, false);
            }
            _ => return Err(Mistake::Syntax),
        }
        Ok(())
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), Mistake> {
        if self.all_keys {
            return Err(Mistake::AllKeys);
        }
        let (mut reads, mut writes) = (rule[0] == b'~', rule[0] == b'~');
        let mut at = 1;
        while rule[0] == b'%' && at < rule.len() {
            at += 1;
            match rule[at - 1].to_ascii_uppercase() {
                b'R' if !reads => reads = true,
                b'W' if !writes => writes = true,
                b'~' => break,
                _ => return Err(Mistake::Syntax),
            }
        }
        let pattern = &rule[at..];
        // Redis takes `%`, `%R` and `%~x`, and ends at the next ACL LIST: none of them says
        // whether it reads or writes, or of which keys.
        if has_spaces(pattern) || !(reads || writes) || rule[at - 1] != b'~' {
            return Err(Mistake::Syntax);
        }
        if pattern.len() > glob::LONGEST {
            return Err(Mistake::TooMany);
        }
        match self.keys.iter_mut().find(|key| *key.pattern == *pattern) {
            Some(key) => (key.reads, key.writes) = (key.reads || reads, key.writes || writes),
            None => self.keys.push(KeyPattern { reads, writes, pattern: pattern.into() }),
        }
        Ok(())
    }

    fn add_channel(&mut self, channel: &[u8]) -> Result<(), Mistake> {
        if self.all_channels {
            return Err(Mistake::AllChannels);
        }
        if has_spaces(channel) {
            return Err(Mistake::Syntax);
        }
        if channel.len() > glob::LONGEST {
            return Err(Mistake::TooMany);
        }
        if !self.channels.iter().any(|own| **own == *channel) {
            self.channels.push(channel.into());
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], value: bool) -> Result<(), Mistake> {
        let category = commands::category(name).ok_or(Mistake::Unknown)?;
        self.commands.set_category(category, value);
        self.all_commands &= value;
        let changed = Commands::of_category(category);
        self.first_args.retain(|(bit, _)| !changed.has(*bit));
        Ok(())
    }

    /// Allows or forbids the command at a place of the list, and its subcommands.
    pub(super) fn set_command(&mut self, at: usize, value: bool) {
        for bit in commands::with_subcommands(at) {
            self.commands.set(bit, value);
        }
        self.all_commands &= value;
        let own = commands::all()[at].bit;
        self.first_args.retain(|(bit, _)| *bit != own);
    }

    /// `+command`, `+command|subcommand` or `+command|first-argument`.
    fn add_command(&mut self, name: &[u8]) -> Result<(), Mistake> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            self.set_command(commands::find(name).ok_or(Mistake::Unknown)?, true);
            return Ok(());
        };
        let command = commands::find(&name[..bar]).ok_or(Mistake::Unknown)?;
        if commands::all()[command].is_sub {
            return Err(Mistake::OfSubcommand);
        }
        let argument = &name[bar + 1..];
        if argument.is_empty() {
            return Err(Mistake::Syntax);
        }
        if commands::has_subcommands(command) {
            self.set_command(commands::find(name).ok_or(Mistake::Unknown)?, true);
            return Ok(());
        }
        let bit = commands::all()[command].bit;
        let of_command = self.first_args.iter().position(|(own, _)| *own == bit);
        let at = of_command.unwrap_or_else(|| {
            self.first_args.push((bit, Vec::new()));
            self.first_args.len() - 1
        });
        let list = &mut self.first_args[at].1;
        if !list.iter().any(|own| own.eq_ignore_ascii_case(argument)) {
            list.push(argument.into());
        }
        Ok(())
    }
}
