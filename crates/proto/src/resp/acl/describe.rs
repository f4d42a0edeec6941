//! A user as rules: ACL LIST, GETUSER and SAVE.

use super::{
    Hash, Selector, User,
    commands::{self, Commands},
};
use crate::resp::{Reply, table::category};

fn digits(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl User {
    /// Words of its state, in Redis's order.
    fn flags(&self) -> impl Iterator<Item = &'static str> {
        let words = [
            (self.is_on, "on"),
            (!self.is_on, "off"),
            (self.no_password, "nopass"),
            (self.sanitizes == Some(false), "skip-sanitize-payload"),
            (self.sanitizes == Some(true), "sanitize-payload"),
        ];
        words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word)
    }

    /// The rules that make it, as a line of a file has them behind the name (Redis:
    /// `ACLDescribeUser`).
    pub fn describe(&self) -> Vec<u8> {
        let mut line = Vec::new();
        for word in self.flags() {
            line.extend_from_slice(word.as_bytes());
            line.push(b' ');
        }
        for password in &self.passwords {
            line.extend_from_slice(format!("#{} ", digits(password)).as_bytes());
        }
        for (at, selector) in self.selectors.iter().enumerate() {
            if at == 0 {
                selector.describe(&mut line);
            } else {
                line.extend_from_slice(b" (");
                selector.describe(&mut line);
                line.push(b')');
            }
        }
        line
    }

    /// The answer of ACL GETUSER.
    pub fn reply(&self, reply: &mut Reply<'_>) {
        reply.map(6);
        reply.bulk(b"flags");
        reply.set(self.flags().count());
        self.flags().for_each(|word| reply.bulk(word.as_bytes()));
        reply.bulk(b"passwords");
        reply.array(self.passwords.len());
        self.passwords.iter().for_each(|hash| reply.bulk(digits(hash).as_bytes()));
        self.selectors[0].reply(reply);
        reply.bulk(b"selectors");
        reply.array(self.selectors.len() - 1);
        for selector in &self.selectors[1..] {
            reply.map(3);
            selector.reply(reply);
        }
    }
}

impl Selector {
    fn describe(&self, line: &mut Vec<u8>) {
        for rule in self.key_rules() {
            line.extend_from_slice(&rule);
            line.push(b' ');
        }
        if !self.all_channels {
            line.extend_from_slice(b"resetchannels ");
        }
        for rule in self.channel_rules() {
            line.extend_from_slice(&rule);
            line.push(b' ');
        }
        line.extend_from_slice(&self.command_rules());
    }

    fn reply(&self, reply: &mut Reply<'_>) {
        reply.bulk(b"commands");
        reply.bulk(&self.command_rules());
        reply.bulk(b"keys");
        reply.bulk(&self.key_rules().join(&b' '));
        reply.bulk(b"channels");
        reply.bulk(&self.channel_rules().join(&b' '));
    }

    fn key_rules(&self) -> Vec<Vec<u8>> {
        if self.all_keys {
            return vec![b"~*".to_vec()];
        }
        let rule = |key: &super::KeyPattern| {
            let sign: &[u8] = match (key.reads, key.writes) {
                (true, false) => b"%R~",
                (false, _) => b"%W~",
                (true, true) => b"~",
            };
            [sign, &key.pattern].concat()
        };
        self.keys.iter().map(rule).collect()
    }

    fn channel_rules(&self) -> Vec<Vec<u8>> {
        if self.all_channels {
            return vec![b"&*".to_vec()];
        }
        self.channels.iter().map(|channel| [b"&", &channel[..]].concat()).collect()
    }

    /// The rules for its commands: categories as far as they fit, then single commands (Redis:
    /// `ACLDescribeSelectorCommandRules`).
    fn command_rules(&self) -> Vec<u8> {
        let adds = !self.commands.has_future();
        let mut rules = if adds { b"-@all".to_vec() } else { b"+@all".to_vec() };
        // The effect of the rules so far, and the commands that they have not dealt with.
        let mut made = Selector {
            commands: if adds { Commands::default() } else { Commands::all() },
            ..Selector::default()
        };
        let mut left = self.commands.clone();
        let mut applied = [false; category::NAMES.len()];
        while let Some(best) = best_category(&left, &applied, adds) {
            made.commands.set_category(best, adds);
            left.set_category(best, !adds);
            applied[best] = true;
            let sign = if adds { '+' } else { '-' };
            rules.extend_from_slice(format!(" {sign}@{}", category::NAMES[best]).as_bytes());
        }
        for (at, entry) in commands::all().iter().enumerate() {
            let has = self.commands.has(entry.bit);
            if has != made.commands.has(entry.bit) {
                let sign = if has { '+' } else { '-' };
                rules.extend_from_slice(format!(" {sign}{}", entry.name).as_bytes());
                made.set_command(at, has);
            }
            let first = self.first_args.iter().filter(|(bit, _)| *bit == entry.bit && !has);
            for argument in first.flat_map(|(_, list)| list) {
                rules.extend_from_slice(format!(" +{}|", entry.name).as_bytes());
                rules.extend_from_slice(argument);
            }
        }
        rules
    }
}

/// The category that fits best: it has more commands in common than different ones, the fewest
/// different ones, and of several such ones the most in common.
fn best_category(left: &Commands, applied: &[bool], adds: bool) -> Option<usize> {
    let mut best: Option<(usize, u32, u32)> = None;
    for (category, _) in applied.iter().enumerate().filter(|(_, applied)| !**applied) {
        let (on, off) = left.count(category);
        let (same, different) = if adds { (on, off) } else { (off, on) };
        let is_better = best.is_none_or(|(_, fewest, most)| {
            different < fewest || (different == fewest && same > most)
        });
        if same > different && is_better {
            best = Some((category, different, same));
        }
    }
    best.map(|(category, ..)| category)
}
