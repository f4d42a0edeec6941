//! A cluster: every key has one of 16384 slots, every slot a server, and servers redirect clients
//! for moved keys.
//!
//! The owners of slots are read from any of them, at first and again when one answers MOVED, cannot
//! be reached, or knows no owner; while a slot moves, a server answers ASK for keys that have moved
//! already. Each server has its own health: a frozen one costs one timeout, and the others nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use larder_client::{
    Address, Config, ConfigError, Eject, Health, Router, Server, ServerView, hash::Hash,
};
use parking_lot::Mutex;
use redis::{Cmd, Value, cmd};
use tokio::{sync::Semaphore, task::spawn_local, time::Instant};

use super::node::{Failed, Making, Node};
use crate::{clock::instant, settings::ValkeyLogin};

const SLOTS: usize = 16_384;
/// The most known servers of a cluster.
const NODES: usize = 1024;
/// The most redirections of a command.
const REDIRECTS: usize = 5;
/// Least time between two requests for the slots.
const PAUSE: Duration = Duration::from_millis(100);

/// Clones share their state.
#[derive(Clone)]
pub(super) struct Cluster(Arc<Inner>);

struct Inner {
    /// The configuration; its servers name the others.
    config: Config,
    making: Making,
    health: Health,
    /// Locked for moments.
    known: Mutex<Known>,
    /// One task at a time requests the slots.
    asking: Semaphore,
}

#[derive(Default)]
struct Known {
    nodes: HashMap<String, Arc<Node>>,
    /// Empty: not known yet.
    slots: Vec<Option<Arc<Node>>>,
    /// The last request for the slots.
    asked: Option<Instant>,
}

/// The slot of a key: of the text in its first braces, if there is any.
pub(super) fn slot(key: &[u8]) -> usize {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let inner = &key[open + 1..];
        let close = inner.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &inner[..close])
    });
    // Twemproxy's CRC keeps bits beyond sixteen, a cluster's does not.
    Hash::Crc16.of(tag.unwrap_or(key)) as usize & 0xffff & (SLOTS - 1)
}

impl Cluster {
    pub(super) fn open(
        config: &Config,
        login: &ValkeyLogin,
        health: &Health,
    ) -> Result<Cluster, ConfigError> {
        config.check()?;
        let cluster = Cluster(Arc::new(Inner {
            config: config.clone(),
            making: Making::of(config, login),
            health: health.clone(),
            known: Mutex::default(),
            asking: Semaphore::new(1),
        }));
        for server in &config.servers {
            cluster.node(&server.address).ok_or(ConfigError::NoServer)?;
        }
        Ok(cluster)
    }

    /// The server of this address, which is added if it is new. None: there are too many.
    fn node(&self, address: &Address) -> Option<Arc<Node>> {
        let Inner { config, making, health, known, .. } = &*self.0;
        let name = address.to_string();
        if let Some(node) = known.lock().nodes.get(&name) {
            return Some(node.clone());
        }
        let server = Server { address: address.clone(), ..config.servers[0].clone() };
        let mut alone = config.clone();
        (alone.servers, alone.spares, alone.replicas) = (vec![server], Vec::new(), 1);
        // Its slots belong to no other server until the cluster says so.
        alone.failure.eject = Eject::No;
        let router = Arc::new(Router::new(alone, health).ok()?);
        let node = Arc::new(Node::new(address.clone(), making, router, 0).ok()?);
        let mut known = known.lock();
        (known.nodes.len() < NODES).then(|| known.nodes.entry(name).or_insert(node).clone())
    }

    /// Whether a server can be asked; starts a probe of one that is down, if it is due.
    pub(super) fn is_up(node: &Arc<Node>) -> bool {
        !node.router().candidates(b"", |probe| node.probe(probe)).is_empty()
    }

    /// Asks the server that has the key. `count` is called for every answer.
    pub(super) async fn ask(
        &self,
        key: &[u8],
        command: Cmd,
        count: fn(&Node, &Result<Value, Failed>),
    ) -> Result<Value, Failed> {
        let slot = slot(key);
        let (mut node, mut asking) = (self.owner(slot).await?, false);
        let mut last = Failed::Down;
        for _ in 0..REDIRECTS {
            let answer = self.ask_node(&node, command.clone(), asking).await;
            count(&node, &answer);
            match answer {
                Err(Failed::Moved(to)) => {
                    self.learn_behind();
                    (node, asking) = (self.redirected(&node, &to).ok_or(Failed::Refused)?, false);
                    self.moved(slot, &node);
                    last = Failed::Moved(to);
                }
                Err(Failed::Ask(to)) => {
                    (node, asking) = (self.redirected(&node, &to).ok_or(Failed::Refused)?, true);
                    last = Failed::Ask(to);
                }
                Err(failed) => {
                    // Its slots may have a new owner: the next command finds it.
                    self.learn_behind();
                    return Err(failed);
                }
                answer => return answer,
            }
        }
        Err(last)
    }

    async fn ask_node(
        &self,
        node: &Arc<Node>,
        command: Cmd,
        asking: bool,
    ) -> Result<Value, Failed> {
        if !Cluster::is_up(node) {
            node.skipped();
            return Err(Failed::Down);
        }
        node.ask(command, asking).await
    }

    /// The owner of a slot.
    pub(super) async fn owner(&self, slot: usize) -> Result<Arc<Node>, Failed> {
        let owner = || self.0.known.lock().slots.get(slot).cloned().flatten();
        if let Some(node) = owner() {
            return Ok(node);
        }
        let behind = self.learn_behind();
        if let Some(learning) = behind {
            let _ = learning.await;
        } else if let Ok(_after) = self.0.asking.acquire().await {
            // Another task has requested them, or they are recent.
        }
        owner().ok_or(Failed::Down)
    }

    fn moved(&self, slot: usize, to: &Arc<Node>) {
        if let Some(owner) = self.0.known.lock().slots.get_mut(slot) {
            *owner = Some(to.clone());
        }
    }

    /// The server of the address in a redirection; without a host it is that of the sender.
    fn redirected(&self, from: &Node, to: &str) -> Option<Arc<Node>> {
        let (host, port) = to.rsplit_once(':')?;
        self.node(&beside(from, host, port.parse().ok()?)?)
    }

    /// Requests the slots in the background; None: another task does, or did recently.
    pub(super) fn learn_behind(&self) -> Option<tokio::task::JoinHandle<()>> {
        if self.0.asking.available_permits() == 0 {
            return None;
        }
        {
            let mut known = self.0.known.lock();
            let now = instant();
            if known.asked.is_some_and(|asked| now - asked < PAUSE) {
                return None;
            }
            known.asked = Some(now);
        }
        let cluster = self.clone();
        Some(spawn_local(async move {
            if let Ok(_turn) = cluster.0.asking.try_acquire() {
                cluster.learn().await;
            }
        }))
    }

    /// Reads the slots from the first server that answers.
    async fn learn(&self) {
        let nodes: Vec<Arc<Node>> = self.0.known.lock().nodes.values().cloned().collect();
        for node in nodes {
            if !Cluster::is_up(&node) {
                continue;
            }
            let mut command = cmd("CLUSTER");
            command.arg("SLOTS");
            let Ok(Value::Array(ranges)) = node.ask(command, false).await else { continue };
            let mut slots = vec![None; SLOTS];
            for range in &ranges {
                let Some((first, last, address)) = range_of(&node, range) else { continue };
                if let (Some(owner), Some(slots)) =
                    (self.node(&address), slots.get_mut(first..=last))
                {
                    slots.fill(Some(owner));
                }
            }
            if slots.iter().any(Option::is_some) {
                self.keep(slots);
                return;
            }
        }
    }

    /// Forgets servers without slots that are not configured.
    fn keep(&self, slots: Vec<Option<Arc<Node>>>) {
        let seeds: Vec<String> =
            self.0.config.servers.iter().map(|s| s.address.to_string()).collect();
        let mut known = self.0.known.lock();
        let owns = |node: &Arc<Node>| slots.iter().flatten().any(|owner| Arc::ptr_eq(owner, node));
        known.nodes.retain(|name, node| seeds.contains(name) || owns(node));
        known.slots = slots;
    }

    pub(super) fn servers(&self) -> Vec<ServerView> {
        let mut views: Vec<ServerView> =
            self.0.known.lock().nodes.values().map(|node| node.view()).collect();
        views.sort_by(|one, other| one.name.cmp(&other.name));
        views
    }
}

/// A host and port in an answer of `from`.
fn beside(from: &Node, host: &str, port: u16) -> Option<Address> {
    let host = match (host, &from.address) {
        ("" | "?", Address::Tcp(host, _)) => host.clone(),
        ("" | "?", Address::Unix(_)) => return None,
        (host, _) => host.to_owned(),
    };
    Some(Address::Tcp(host, port))
}

/// First and last slot, and their owner.
fn range_of(from: &Node, range: &Value) -> Option<(usize, usize, Address)> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &range[..] else {
        return None;
    };
    let [host, Value::Int(port), ..] = &master[..] else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => "",
    };
    let address = beside(from, host, u16::try_from(*port).ok()?)?;
    let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
    (first <= last && last < SLOTS).then_some((first, last, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // CLUSTER KEYSLOT of each, by Redis 7.
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{foo}.bar"), 12182);
        assert_eq!(slot(b"a{foo}{bar}"), 12182);
        assert_eq!(slot(b"foo{}{bar}"), 8363);
        assert_eq!(slot(b""), 0);
    }
}
