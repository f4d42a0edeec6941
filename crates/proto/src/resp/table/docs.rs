//! Answers of COMMAND and COMMAND DOCS.
//!
//! `docs.txt` holds the texts: a line with a command's name at its start, then its facts indented
//! by one space (`summary`, `since`, `group`, `complexity`, `flags`, `deprecated`, `replaced`,
//! `history VERSION TEXT`), then its arguments indented by two spaces and two more for each level
//! (`arg NAME TYPE [key=N] [flags=A,B] [since=V] [deprecated=V] [token=TEXT]`). It is parsed on
//! each request.

use super::{Command, category, find, flag, key, names};
use crate::resp::Reply;

static WORDS: &str = include_str!("docs.txt");

/// The entry of `command` as COMMAND lists it.
pub fn describe(reply: &mut Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    words(reply, command.flags, &flag::NAMES, "");
    reply.integer(command.first.into());
    reply.integer(command.last.into());
    reply.integer(command.step.into());
    words(reply, command.categories, &category::NAMES, "@");
    reply.set(command.tips.len());
    command.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(command.keys.len());
    for spec in command.keys {
        reply.map(if spec.notes.is_empty() { 3 } else { 4 });
        if !spec.notes.is_empty() {
            reply.bulk(b"notes");
            reply.bulk(spec.notes.as_bytes());
        }
        reply.bulk(b"flags");
        words(reply, spec.flags, &key::NAMES, "");
        match (spec.last, spec.step) {
            (super::ELSEWHERE, 0) => {
                place(reply, "begin_search", "index", &[("index", spec.begin)]);
                let number = [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
                place(reply, "find_keys", "keynum", &number);
            }
            (super::ELSEWHERE, 2) => keyword(reply, "STREAMS", spec.begin, (-1, 2)),
            (super::ELSEWHERE, 3) => keyword(reply, "STORE", spec.begin, (0, 0)),
            (super::ELSEWHERE, 4) => keyword(reply, "STOREDIST", spec.begin, (0, 0)),
            (super::ELSEWHERE, _) => {
                place(reply, "begin_search", "unknown", &[]);
                place(reply, "find_keys", "unknown", &[]);
            }
            (last, step) => {
                place(reply, "begin_search", "index", &[("index", spec.begin)]);
                let range = [("lastkey", last), ("keystep", step), ("limit", 0)];
                place(reply, "find_keys", "range", &range);
            }
        }
    }
    match command.subcommands.len() {
        0 => reply.set(0),
        len => reply.array(len),
    }
    command.subcommands.iter().for_each(|command| describe(reply, command));
}

fn words(reply: &mut Reply<'_>, bits: u32, all: &'static [&'static str], before: &str) {
    reply.set(bits.count_ones() as usize);
    names(bits, all).for_each(|word| reply.simple(&[before, word].concat()));
}

/// Keys behind a word.
fn keyword(reply: &mut Reply<'_>, word: &str, begin: i8, (last, limit): (i8, i8)) {
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"keyword");
    reply.bulk(b"spec");
    reply.map(2);
    reply.bulk(b"keyword");
    reply.bulk(word.as_bytes());
    reply.bulk(b"startfrom");
    reply.integer(begin.into());
    place(reply, "find_keys", "range", &[("lastkey", last), ("keystep", 1), ("limit", limit)]);
}

fn place(reply: &mut Reply<'_>, name: &str, kind: &str, spec: &[(&str, i8)]) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(spec.len());
    for (name, value) in spec {
        reply.bulk(name.as_bytes());
        reply.integer((*value).into());
    }
}

/// The lines of a command in `docs.txt`.
struct Words {
    lines: Vec<&'static str>,
}

impl Words {
    fn of(command: &Command) -> Self {
        let own = WORDS.lines().skip_while(|line| *line != command.name).skip(1);
        Self { lines: own.take_while(|line| line.starts_with(' ')).collect() }
    }

    /// Facts of this name.
    fn facts(&self, name: &str) -> Vec<&'static str> {
        let pairs = self.lines.iter().filter_map(|line| line.strip_prefix(' ')?.split_once(' '));
        pairs.filter(|(word, _)| *word == name).map(|(_, text)| text).collect()
    }

    fn arguments(&self) -> Vec<&'static str> {
        self.lines.iter().copied().filter(|line| line.starts_with("  ")).collect()
    }
}

/// The name and the documentation of `command`, as COMMAND DOCS pairs them.
pub fn write(reply: &mut Reply<'_>, command: &Command) {
    let words = Words::of(command);
    let (flags, history, arguments) =
        (words.facts("flags"), words.facts("history"), words.arguments());
    let single = ["summary", "since", "group", "complexity", "deprecated", "replaced"];
    let single = single.iter().map(|name| words.facts(name).len().min(1)).sum::<usize>();
    let lists = [flags.len(), history.len(), arguments.len(), command.subcommands.len()];
    reply.bulk(command.name.as_bytes());
    reply.map(single + lists.iter().filter(|len| **len > 0).count());
    let text = |reply: &mut Reply<'_>, word: &str, name: &str| {
        if let Some(text) = words.facts(word).first() {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
    };
    ["summary", "since", "group", "complexity"].iter().for_each(|name| text(reply, name, name));
    write_flags(reply, &flags);
    text(reply, "deprecated", "deprecated_since");
    text(reply, "replaced", "replaced_by");
    write_history(reply, &history);
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        write_arguments(reply, &arguments);
    }
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        command.subcommands.iter().for_each(|command| write(reply, command));
    }
}

fn write_flags(reply: &mut Reply<'_>, flags: &[&str]) {
    let Some(flags) = flags.first() else { return };
    reply.bulk(b"doc_flags");
    list(reply, flags);
}

fn write_history(reply: &mut Reply<'_>, history: &[&str]) {
    if history.is_empty() {
        return;
    }
    reply.bulk(b"history");
    reply.set(history.len());
    for line in history {
        let (version, text) = line.split_once(' ').unwrap_or((line, ""));
        reply.array(2);
        reply.bulk(version.as_bytes());
        reply.bulk(text.as_bytes());
    }
}

/// Comma-separated words as a set.
fn list(reply: &mut Reply<'_>, words: &str) {
    reply.set(words.split(',').count());
    words.split(',').for_each(|word| reply.simple(word));
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Arguments of one depth, each followed by the lines of those within it.
fn write_arguments(reply: &mut Reply<'_>, lines: &[&str]) {
    let outer = lines.first().map_or(0, |line| depth(line));
    let starts: Vec<usize> = (0..lines.len()).filter(|&at| depth(lines[at]) == outer).collect();
    reply.array(starts.len());
    for (place, &start) in starts.iter().enumerate() {
        let end = starts.get(place + 1).copied().unwrap_or(lines.len());
        write_argument(reply, lines[start].trim_start(), &lines[start + 1..end]);
    }
}

fn write_argument(reply: &mut Reply<'_>, line: &str, within: &[&str]) {
    // A token may contain spaces, so it comes last.
    let (line, token) = match line.split_once(" token=") {
        Some((line, token)) => (line, Some(token)),
        None => (line, None),
    };
    let mut words = line.split(' ').skip(1);
    let (name, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let more: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
    let fact = |name: &str| more.iter().find(|(word, _)| *word == name).map(|(_, text)| *text);
    reply.map(2 + more.len() + usize::from(token.is_some()) + usize::from(!within.is_empty()));
    let text = |reply: &mut Reply<'_>, name: &str, text: Option<&str>| {
        if let Some(text) = text {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
    };
    text(reply, "name", Some(name));
    text(reply, "type", Some(kind));
    if let Some(index) = fact("key") {
        reply.bulk(b"key_spec_index");
        reply.integer(index.parse().unwrap_or(0));
    }
    text(reply, "token", token);
    text(reply, "since", fact("since"));
    text(reply, "deprecated_since", fact("deprecated"));
    if let Some(flags) = fact("flags") {
        reply.bulk(b"flags");
        list(reply, flags);
    }
    if !within.is_empty() {
        reply.bulk(b"arguments");
        write_arguments(reply, within);
    }
}

/// The command with this name (`get`, `config|get`), if there is one.
pub fn named(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|&b| b == b'|') {
        Some(bar) => find(&name[..bar])?.subcommand(&name[bar + 1..]),
        None => find(name),
    }
}
