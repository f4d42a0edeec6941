//! Input from a file: a trace, policies and sizes to compare, a topology of Larders and servers,
//! and events. Missing values are taken from the flags, and from the defaults of `[remote]`.

use std::{fs::File as OpenFile, io::Read, path::Path};

use larder_client::{Distribution, Placement, Server, hash::Hash};
use larder_proto::units;
use serde::Deserialize;

use super::args::{Input, MAX_SIZE, SimulateArgs, count};
use super::policy::Kind;
use super::request::MAX_TIME;
use super::topology::{Event, EventKind, Fleet, Spread, Topology};

/// Longest file in bytes; one event per second for a day is less.
const MAX_FILE: u64 = 8 << 20;

/// Range of `failure_limit` of `[remote]`.
const FAILURES: std::ops::RangeInclusive<u32> = 1..=1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    trace: TraceTable,
    compare: Option<CompareTable>,
    topology: Option<TopologyTable>,
    #[serde(default)]
    event: Vec<EventTable>,
}

/// `10_000` or `"10k"`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a number such as 500_000 or \"500k\" is expected")]
enum Number {
    Plain(u64),
    Text(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceTable {
    from: Option<String>,
    format: Option<String>,
    requests: Option<Number>,
    keys: Option<Number>,
    value: Option<String>,
    writes: Option<f64>,
    ttl: Option<String>,
    rate: Option<f64>,
    overhead: Option<String>,
    warm: Option<f64>,
    sample: Option<f64>,
    seed: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompareTable {
    policies: Option<Vec<String>>,
    sizes: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyTable {
    larders: usize,
    memory: String,
    policy: Option<String>,
    spread: Option<String>,
    render: Option<String>,
    interval: Option<String>,
    fleet: Option<FleetTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetTable {
    servers: Vec<String>,
    memory: String,
    policy: Option<String>,
    distribution: Option<String>,
    hash: Option<String>,
    item_size: Option<String>,
    local_copy: Option<String>,
    lease: Option<bool>,
    eject: Option<bool>,
    failure_limit: Option<u32>,
    retry_min: Option<String>,
    retry_max: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventTable {
    at: String,
    down: Option<usize>,
    up: Option<usize>,
    #[serde(default)]
    empty: bool,
    restart: Option<usize>,
    purge: Option<f64>,
}

/// Reads a file; `flags` provide missing values.
pub(crate) fn read(path: &Path, flags: &SimulateArgs) -> Result<Input, String> {
    let named = |why: String| format!("scenario {}: {why}", path.display());
    let unread = |error: std::io::Error| named(format!("cannot be read: {error}"));
    let mut text = String::new();
    let file = OpenFile::open(path).map_err(unread)?;
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(unread)?;
    if text.len() as u64 > MAX_FILE {
        return Err(named(format!("is larger than {MAX_FILE} bytes")));
    }
    understand(&text, flags).map_err(named)
}

fn understand(text: &str, flags: &SimulateArgs) -> Result<Input, String> {
    let file: File =
        toml_edit::de::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let mut flags = flags.clone();
    file.trace.into_flags(&mut flags)?;
    let compared = file.compare.is_some();
    if let Some(compare) = file.compare {
        flags.policies = compare.policies.unwrap_or(flags.policies);
        flags.sizes = compare.sizes.unwrap_or(flags.sizes);
    }
    let mut input = flags.parsed()?;
    input.name = file.name.unwrap_or(input.name);
    if let Some(topology) = file.topology {
        let events: Result<Vec<Event>, String> = file.event.iter().map(EventTable::event).collect();
        let topology = topology.topology(events?, input.seed)?;
        topology.check()?;
        input.topology = Some(topology);
    } else if !file.event.is_empty() {
        return Err("events need a [topology] that they befall".to_owned());
    }
    if !compared && input.topology.is_some() {
        (input.policies, input.sizes) = (Vec::new(), Vec::new());
    }
    Ok(input)
}

impl Number {
    fn number(self, name: &str) -> Result<u64, String> {
        let text = match self {
            Number::Plain(number) => number.to_string(),
            Number::Text(text) => text,
        };
        count(&text).map_err(|expected| format!("{name} = {text:?}: {expected}"))
    }
}

impl TraceTable {
    fn into_flags(self, flags: &mut SimulateArgs) -> Result<(), String> {
        flags.trace = self.from.unwrap_or_else(|| flags.trace.clone());
        flags.trace_format = self.format.or(flags.trace_format.take());
        flags.requests =
            self.requests.map(|number| number.number("requests")).transpose()?.or(flags.requests);
        flags.keys =
            self.keys.map(|number| number.number("keys")).transpose()?.unwrap_or(flags.keys);
        flags.value = self.value.unwrap_or_else(|| flags.value.clone());
        flags.writes = self.writes.unwrap_or(flags.writes);
        flags.ttl = self.ttl.unwrap_or_else(|| flags.ttl.clone());
        flags.rate = self.rate.unwrap_or(flags.rate);
        flags.overhead = self.overhead.unwrap_or_else(|| flags.overhead.clone());
        flags.warm = self.warm.unwrap_or(flags.warm);
        flags.sample = self.sample.unwrap_or(flags.sample);
        flags.seed = self.seed.unwrap_or(flags.seed);
        Ok(())
    }
}

fn size(name: &str, text: &str) -> Result<u64, String> {
    let size = units::size(text)
        .map_err(|expected| format!("{name} = {text:?}: {expected} is expected"))?;
    if (1..=MAX_SIZE).contains(&size) {
        Ok(size)
    } else {
        Err(format!("{name} = {text:?}: 1 byte to 1024TiB is expected"))
    }
}

/// A time in milliseconds.
fn time(name: &str, text: Option<&str>, default: &str) -> Result<u64, String> {
    let text = text.unwrap_or(default);
    let time = units::duration(text)
        .map_err(|expected| format!("{name} = {text:?}: {expected} is expected"))?;
    let milliseconds = u64::try_from(time.as_millis()).ok().filter(|time| *time <= MAX_TIME);
    milliseconds.ok_or_else(|| format!("{name} = {text:?} is longer than a century"))
}

impl TopologyTable {
    fn topology(self, events: Vec<Event>, seed: u64) -> Result<Topology, String> {
        let spread = match self.spread.as_deref().unwrap_or("round-robin") {
            "round-robin" => Spread::RoundRobin,
            "hash" => Spread::Hash,
            "random" => Spread::Random,
            other => {
                return Err(format!(
                    "spread = {other:?}: \"round-robin\", \"hash\" or \"random\" is expected"
                ));
            }
        };
        Ok(Topology {
            larders: self.larders,
            spread,
            memory: size("memory", &self.memory)?,
            policy: Kind::named(self.policy.as_deref().unwrap_or("larder"))?,
            render: time("render", self.render.as_deref(), "300ms")?,
            interval: time("interval", self.interval.as_deref(), "10s")?,
            fleet: self.fleet.map(FleetTable::fleet).transpose()?,
            events,
            seed,
        })
    }
}

impl FleetTable {
    fn fleet(self) -> Result<Fleet, String> {
        let server = |text: &String| Server::parse(text).map_err(|error| error.to_string());
        let servers: Result<Vec<Server>, String> = self.servers.iter().map(server).collect();
        let distribution = self.distribution.as_deref().unwrap_or("ketama");
        let hash = self.hash.as_deref().unwrap_or("default");
        let failures = self.failure_limit.unwrap_or(3);
        if !FAILURES.contains(&failures) {
            return Err(format!("failure_limit = {failures}: {FAILURES:?} is expected"));
        }
        let item = size("item_size", self.item_size.as_deref().unwrap_or("1MiB"))?;
        Ok(Fleet {
            servers: servers?,
            placement: Placement::new(
                Distribution::named(distribution)
                    .ok_or_else(|| format!("no distribution is called {distribution:?}"))?,
                Hash::named(hash).ok_or_else(|| format!("no hash is called {hash:?}"))?,
            ),
            memory: size("fleet.memory", &self.memory)?,
            policy: Kind::named(self.policy.as_deref().unwrap_or("memcached"))?,
            item_size: u32::try_from(item).unwrap_or(u32::MAX),
            local_copy: time("local_copy", self.local_copy.as_deref(), "5s")?,
            lease: self.lease.unwrap_or(true),
            eject: self.eject.unwrap_or(true),
            failure_limit: failures,
            retry_min: time("retry_min", self.retry_min.as_deref(), "1s")?,
            retry_max: time("retry_max", self.retry_max.as_deref(), "1m")?,
        })
    }
}

impl EventTable {
    fn event(&self) -> Result<Event, String> {
        let what = [
            self.down.map(EventKind::Down),
            self.up.map(|server| EventKind::Up { server, empty: self.empty }),
            self.restart.map(EventKind::Restart),
            self.purge.map(EventKind::Purge),
        ];
        let mut what = what.into_iter().flatten();
        let (Some(first), None) = (what.next(), what.next()) else {
            let at = &self.at;
            return Err(format!(
                "the event at {at:?} has to say one of down, up, restart and purge"
            ));
        };
        Ok(Event { at: time("at", Some(&self.at), "")?, what: first })
    }
}
