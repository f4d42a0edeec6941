//! Comparison of gets and sets of objects, over memcached's and Redis's protocols.

use std::sync::Arc;

use larder_proto::units;

use super::{
    plan::{ObjectRow, Objects},
    result::{Comparison, Measure},
    rounds::{self, Candidate, Task},
    servers::{Environment, Server},
};
use crate::{
    engine::{Address, Check, Plan, Protocol},
    interrupt,
    load::{Keys, Load, Mix, Popularity, Sizes, Verb},
    peers::{Error, Role},
};

/// Distance between the key ranges of different value sizes, so that a key has one value.
const APART: u64 = 1 << 32;
/// Pipelining depth while a server is filled.
const FILL_DEPTH: usize = 32;

/// Protocol of an object server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Text,
    Meta,
    Redis,
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Meta => "meta",
            Self::Redis => "redis",
        }
    }

    pub(crate) fn protocol(self) -> Protocol {
        match self {
            Self::Text => Protocol::MemcachedText,
            Self::Meta => Protocol::MemcachedMeta,
            Self::Redis => Protocol::Redis,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Text, Self::Meta, Self::Redis].into_iter().find(|language| language.name() == name)
    }

    /// The row that its ratios refer to.
    fn base(self) -> &'static str {
        match self {
            Self::Text => "memcached:text",
            Self::Meta => "memcached:meta",
            Self::Redis => "redis:redis",
        }
    }
}

/// Protocols of a server.
pub(crate) fn languages(server: &Server) -> Vec<Language> {
    if let Some(speaks) = &server.speaks {
        return Language::parse(speaks).into_iter().collect();
    }
    match server.name.as_str() {
        "memcached" => vec![Language::Text, Language::Meta],
        "larder" => vec![Language::Text, Language::Meta, Language::Redis],
        _ => vec![Language::Redis],
    }
}

pub(crate) fn candidate(server: &Server, language: Language) -> Candidate {
    let redis = server.redis.filter(|_| language == Language::Redis);
    let spoken = match language {
        Language::Text => ", text",
        Language::Meta => ", meta",
        Language::Redis if server.ours => ", Redis's protocol",
        Language::Redis => "",
    };
    Candidate {
        name: format!("{}:{}", server.name, language.name()),
        title: format!("{}{spoken}", server.title),
        base: Some(language.base().to_owned()),
        ours: server.ours,
        address: redis.unwrap_or(server.address),
        protocol: language.protocol(),
        pids: server.pids.clone(),
        origin: None,
        wrong: None,
    }
}

pub(crate) fn compare(
    plan: &Objects,
    environment: &Environment,
    comparison: &mut Comparison,
) -> Result<(), Error> {
    let started =
        environment.start(&plan.servers, Role::Objects, (&[], 0), plan.memory, comparison)?;
    comparison.how = vec![
        ("connections".to_owned(), plan.connections.to_string()),
        ("popularity".to_owned(), plan.popularity.clone()),
        ("rounds".to_owned(), format!("{} of {} ms each", plan.rounds, plan.slice.as_millis())),
        ("processors".to_owned(), environment.pinned()),
    ];
    let mut candidates = Vec::new();
    for server in &started.servers {
        for language in languages(server) {
            candidates.push(candidate(server, language));
        }
    }
    for candidate in &mut candidates {
        candidate.wrong = fill_all(plan, candidate).err();
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
    }
    for row in &plan.rows {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let task =
            task(plan, row).map_err(|fault| Error::Template { file: "objects.toml", fault })?;
        comparison.tables.push(rounds::measure(&task, &candidates).finish());
    }
    Ok(())
}

fn task(plan: &Objects, row: &ObjectRow) -> Result<Task, String> {
    let mix = Mix::parse(&row.mix)?;
    let load = Load::of(keys(row.value, row.keys)?)
        .popularity(Popularity::parse(&plan.popularity)?)
        .mix(mix)
        .sizes(Sizes::fixed(row.value))
        .multi(row.keys_per_get);
    Ok(Task {
        title: title(row),
        unit: if row.keys_per_get > 1 { "key" } else { "operation" },
        measure: Measure::Cpu,
        load,
        connections: plan.connections,
        depth: row.depth,
        per_request: row.keys_per_get as u64,
        known: Arc::default(),
        large: false,
        must_hit: true,
        rounds: plan.rounds,
        slice: plan.slice,
    })
}

/// `get 100 B, 16 at a time`.
fn title(row: &ObjectRow) -> String {
    let what = match row.mix.as_str() {
        "get=1" => "get".to_owned(),
        "set=1" => "set".to_owned(),
        mix => mix.to_owned(),
    };
    let size = if row.value.is_multiple_of(1024) {
        units::show_size(row.value as u64)
    } else {
        format!("{} B", row.value)
    };
    let how = match (row.depth, row.keys_per_get) {
        (1, 1) => "one at a time".to_owned(),
        (depth, 1) => format!("{depth} in a batch"),
        (1, keys) => format!("{keys} keys in one get, per key"),
        (depth, keys) => format!("{depth} in a batch of {keys} keys each, per key"),
    };
    format!("{what} {size}, {how}")
}

/// Keys of 16 bytes, different for each value size.
pub(crate) fn keys(value: usize, count: u64) -> Result<Keys, String> {
    let first = value as u64 % 1000 * APART;
    Keys::pattern("k{:015}", first..first + count)
}

fn fill_all(plan: &Objects, candidate: &Candidate) -> Result<(), String> {
    let mut filled = Vec::new();
    for row in &plan.rows {
        let what = (row.value, row.keys);
        if !filled.contains(&what) {
            fill(candidate, keys(row.value, row.keys)?, Sizes::fixed(row.value), plan.connections)?;
            filled.push(what);
        }
    }
    Ok(())
}

/// Sets every key once and then gets every key once: all must be found with the right bytes.
pub(crate) fn fill(
    candidate: &Candidate,
    keys: Keys,
    sizes: Sizes,
    connections: usize,
) -> Result<(), String> {
    let count = keys.count();
    let load = Load::of(keys).popularity(Popularity::Once).sizes(sizes);
    let plan = Plan {
        connections,
        depth: FILL_DEPTH,
        check: Check::Bytes,
        lengths: load.lengths(true),
        ..Plan::new(Address::Tcp(candidate.address), candidate.protocol.clone())
    };
    rounds::run(&plan, &load.clone().mix(Mix::only(Verb::Set)), 1)?;
    let run = rounds::run(&plan, &load, 1)?;
    if run.misses > 0 || run.answers != count {
        return Err(format!(
            "it keeps {} of {count} items that fit its memory",
            run.answers - run.misses
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_titles() {
        let row = |value, depth, keys_per_get| ObjectRow {
            mix: "get=1".into(),
            value,
            keys: 10,
            depth,
            keys_per_get,
        };
        assert_eq!(title(&row(100, 1, 1)), "get 100 B, one at a time");
        assert_eq!(title(&row(10_240, 16, 1)), "get 10KiB, 16 in a batch");
        assert_eq!(title(&row(100, 1, 20)), "get 100 B, 20 keys in one get, per key");
    }

    #[test]
    fn keys_of_other_values_are_other_keys_of_the_same_length() {
        let mut key = Vec::new();
        keys(100, 10).unwrap().write(9, &mut key);
        assert_eq!(key.len(), 16);
        let first = key.clone();
        keys(10_240, 10).unwrap().write(9, &mut key);
        assert_eq!(key.len(), 16);
        assert_ne!(key, first);
    }
}
