//! Plan of a comparison: a TOML file, from `bench/` in the repository or the user's own.

use std::{fs, path::Path, time::Duration};

use larder_proto::units;
use serde::{Deserialize, Deserializer, de::Error as _};

/// Built-in plans: name and text.
pub(crate) const BUILT_IN: &[(&str, &str)] = &[
    ("http", include_str!("../../../../bench/http.toml")),
    ("objects", include_str!("../../../../bench/objects.toml")),
    ("memory", include_str!("../../../../bench/memory.toml")),
    ("hitratio", include_str!("../../../../bench/hitratio.toml")),
];

/// A comparison as described by its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Plan {
    /// Pages over HTTP, all of them hits.
    Pages(Pages),
    /// Objects: gets and sets.
    Objects(Objects),
    /// Memory per item.
    Memory(Memory),
    /// Hit ratios of caches smaller than the data, over traces.
    Hits(Hits),
}

/// Pages over HTTP, all of them hits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pages {
    pub(crate) title: String,
    pub(crate) servers: Vec<String>,
    /// The server that ratios refer to.
    pub(crate) base: String,
    pub(crate) connections: usize,
    /// Page sizes in bytes; each makes a table.
    pub(crate) sizes: Vec<usize>,
    /// Number of pages of each size.
    pub(crate) pages: u32,
    pub(crate) rounds: usize,
    /// Length of a visit.
    #[serde(deserialize_with = "duration")]
    pub(crate) slice: Duration,
    /// Cache size of each server.
    #[serde(deserialize_with = "size")]
    pub(crate) memory: u64,
}

/// Gets and sets of objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Objects {
    pub(crate) title: String,
    pub(crate) servers: Vec<String>,
    pub(crate) connections: usize,
    /// Key popularity, as in `larder bench --popularity`.
    pub(crate) popularity: String,
    #[serde(rename = "row")]
    pub(crate) rows: Vec<ObjectRow>,
    pub(crate) rounds: usize,
    /// Length of a visit.
    #[serde(deserialize_with = "duration")]
    pub(crate) slice: Duration,
    /// Cache size of each server.
    #[serde(deserialize_with = "size")]
    pub(crate) memory: u64,
}

/// One workload of objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObjectRow {
    /// Shares of operations, as in `larder bench --mix`.
    pub(crate) mix: String,
    /// Value size in bytes.
    pub(crate) value: usize,
    /// Number of keys.
    pub(crate) keys: u64,
    /// Pipelining depth.
    pub(crate) depth: usize,
    /// Keys per get.
    #[serde(default = "one")]
    pub(crate) keys_per_get: usize,
}

/// Memory per item.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    pub(crate) title: String,
    pub(crate) servers: Vec<String>,
    pub(crate) items: u64,
    pub(crate) values: Vec<usize>,
}

/// Hit ratios of caches smaller than the data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hits {
    pub(crate) title: String,
    pub(crate) servers: Vec<String>,
    #[serde(deserialize_with = "size")]
    pub(crate) memory: u64,
    pub(crate) keys: u32,
    pub(crate) requests: u64,
    /// Synthetic traces, as in `larder lab simulate --trace`.
    pub(crate) traces: Vec<String>,
}

fn one() -> usize {
    1
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    units::duration(&String::deserialize(deserializer)?)
        .map_err(|expected| D::Error::custom(format!("expected {expected}")))
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    units::size(&String::deserialize(deserializer)?)
        .map_err(|expected| D::Error::custom(format!("expected {expected}")))
}

impl Plan {
    /// A built-in plan by name, or a plan from a file.
    pub(crate) fn read(name: &Path) -> Result<Self, String> {
        let built_in = BUILT_IN.iter().find(|(built_in, _)| name.as_os_str() == *built_in);
        let text = match built_in {
            Some((_, text)) => (*text).to_owned(),
            None => fs::read_to_string(name).map_err(|error| {
                let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                format!("{}: {error}; built in are {}", name.display(), names.join(", "))
            })?,
        };
        toml_edit::de::from_str(&text).map_err(|error| format!("{}: {error}", name.display()))
    }

    /// Server names of the plan.
    pub(crate) fn servers_mut(&mut self) -> &mut Vec<String> {
        match self {
            Self::Pages(plan) => &mut plan.servers,
            Self::Objects(plan) => &mut plan.servers,
            Self::Memory(plan) => &mut plan.servers,
            Self::Hits(plan) => &mut plan.servers,
        }
    }

    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Pages(plan) => &plan.title,
            Self::Objects(plan) => &plan.title,
            Self::Memory(plan) => &plan.title,
            Self::Hits(plan) => &plan.title,
        }
    }

    /// Replaces the plan's sizes. Error: this kind of plan has none.
    pub(crate) fn set_sizes(&mut self, sizes: &[usize]) -> Result<(), String> {
        match self {
            Self::Pages(plan) => plan.sizes = sizes.to_vec(),
            Self::Memory(plan) => plan.values = sizes.to_vec(),
            Self::Objects(_) | Self::Hits(_) => {
                return Err("--sizes is for pages and for memory; the plan has its own".to_owned());
            }
        }
        Ok(())
    }

    /// Replaces the number of keys, items or requests.
    pub(crate) fn set_items(&mut self, items: u64) {
        match self {
            Self::Pages(_) => {}
            Self::Objects(plan) => plan.rows.iter_mut().for_each(|row| row.keys = items),
            Self::Memory(plan) => plan.items = items,
            Self::Hits(plan) => plan.requests = items,
        }
    }

    /// Number of rounds and length of a visit. `None`: this kind of plan has none.
    pub(crate) fn pace_mut(&mut self) -> Option<(&mut usize, &mut Duration)> {
        match self {
            Self::Pages(plan) => Some((&mut plan.rounds, &mut plan.slice)),
            Self::Objects(plan) => Some((&mut plan.rounds, &mut plan.slice)),
            Self::Memory(_) | Self::Hits(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_plans_are_plans() {
        for (name, _) in BUILT_IN {
            let mut plan = Plan::read(Path::new(name)).unwrap();
            assert!(!plan.servers_mut().is_empty(), "{name}");
        }
    }

    #[test]
    fn what_a_plan_cannot_hold_is_named() {
        let error = Plan::read(Path::new("/nonexistent.toml")).unwrap_err();
        assert!(error.ends_with("built in are http, objects, memory, hitratio"), "{error}");
        let error = toml_edit::de::from_str::<Plan>("kind = \"speed\"").unwrap_err().to_string();
        assert!(error.contains("unknown variant `speed`"), "{error}");
    }
}
