//! The same commands to Larder and to Debian's redis-server.

use super::{Stream, Words};
use crate::redis::command;
use crate::{Redis, Value};

/// A command in short.
pub fn shown(words: &Words) -> String {
    let word = |word: &Vec<u8>| String::from_utf8_lossy(&word[..word.len().min(40)]).into_owned();
    words.iter().take(40).map(word).collect::<Vec<_>>().join(" ")
}

/// A comparison of both servers' answers.
pub struct Comparison {
    /// Are two answers to a command the same, as far as both servers must agree?
    pub same: fn(&Words, &Value, &Value) -> bool,
    /// Commands that are not sent.
    pub skips: fn(&Words) -> bool,
    /// Number of commands.
    pub commands: usize,
}

impl Comparison {
    /// Sends a stream's commands to both.
    #[track_caller]
    pub fn run(&self, mut stream: Stream, version: &str, seed: u64) {
        let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
        let (mut left, mut right) = (larder.connect(), redis.connect());
        let hello = ["HELLO", version];
        assert!(!left.ask(&hello).is_error() && !right.ask(&hello).is_error());
        let (mut past, mut queued): (Vec<String>, Vec<Words>) = (Vec::new(), Vec::new());
        for nth in 0..self.commands {
            let words = stream.next_command();
            if (self.skips)(&words) {
                continue;
            }
            let both = [&mut left, &mut right].map(|talk| {
                talk.send(command(&words));
                talk.reply()
            });
            let [ours, theirs] = &both;
            past.push(shown(&words));
            assert!(
                self.is_good(&words, &queued, ours, theirs),
                "seed {seed}, RESP{version}, command {nth}: {}\n larder {}\n redis {}\n before: \
                 {:?}",
                shown(&words),
                self.first_difference(&queued, ours, theirs).0,
                self.first_difference(&queued, ours, theirs).1,
                &past[past.len().saturating_sub(6)..]
            );
            match &words[0].to_ascii_uppercase()[..] {
                _ if theirs.text() == "QUEUED" => queued.push(words),
                b"MULTI" | b"EXEC" if !theirs.text().contains("nested") && words.len() == 1 => {
                    queued.clear();
                }
                _ => {}
            }
        }
    }

    fn is_good(&self, words: &Words, queued: &[Words], ours: &Value, theirs: &Value) -> bool {
        match &words[0].to_ascii_uppercase()[..] {
            b"EXEC" if theirs.items().len() == queued.len() && !queued.is_empty() => {
                let answers = ours.items().iter().zip(theirs.items());
                ours.items().len() == queued.len()
                    && queued
                        .iter()
                        .zip(answers)
                        .all(|(words, (left, right))| (self.same)(words, left, right))
            }
            _ => (self.same)(words, ours, theirs),
        }
    }

    /// The answers themselves, or of a transaction the first that differ.
    fn first_difference(&self, queued: &[Words], ours: &Value, theirs: &Value) -> (String, String) {
        let both = queued.iter().zip(ours.items().iter().zip(theirs.items()));
        let differs =
            |(words, (left, right)): &(&Words, (&Value, &Value))| !(self.same)(words, left, right);
        match both.into_iter().find(differs) {
            Some((words, (left, right))) if ours.items().len() == queued.len() => {
                (format!("{}: {}", shown(words), left.text()), right.text())
            }
            _ => (ours.text(), theirs.text()),
        }
    }
}
