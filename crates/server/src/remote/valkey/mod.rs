//! A fleet of servers that speak Valkey's (Redis's) protocol: stand-alone ones with a ring that
//! places keys, or a cluster.
//!
//! | file | what |
//! |---|---|
//! | `node.rs` | one server: connections, timeouts, health; a key changed by compare-and-swap |
//! | `cluster.rs` | the owners of a cluster's slots, and redirections |
//! | `copy.rs` | a copy of the journal of purges |
//!
//! Only plain commands are used, so that a Larder's own Redis face can be such a server. The one
//! script releases a lease; it is the usual text for that, which the face knows too.

mod cluster;
pub(super) mod copy;
mod node;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use larder_client::{Config, ConfigError, Health, Router, ServerView};
use redis::{Cmd, Value, cmd};
use tokio::task::JoinSet;

use self::{
    cluster::Cluster,
    node::{Failed, Making, Node, bulk, millis},
};
use super::backend::Unanswered;
use crate::settings::{RemoteProtocol, RemoteSettings, ValkeyLogin};

/// Deletes a key if it has this value. This is the text in Redis's documentation of locks; Larder's
/// Redis face knows it.
const RELEASE: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return \
                       redis.call(\"del\",KEYS[1]) else return 0 end";

/// The servers, as one worker knows them. Clones share their state.
#[derive(Clone)]
pub(super) struct Fleet(Arc<Layout>);

enum Layout {
    /// A ring places keys on servers.
    Ring { router: Arc<Router>, nodes: Vec<Arc<Node>> },
    /// A cluster places keys by slots.
    Cluster(Cluster),
}

impl Fleet {
    /// Connections are made when they are first needed.
    pub(super) fn open(settings: &RemoteSettings, health: &Health) -> Result<Fleet, ConfigError> {
        match &settings.protocol {
            RemoteProtocol::ValkeyCluster(login) => {
                Ok(Fleet(Arc::new(Layout::Cluster(Cluster::open(&settings.fleet, login, health)?))))
            }
            RemoteProtocol::Valkey(login) => Fleet::ring(settings.fleet.clone(), login, health),
            RemoteProtocol::Memcached => {
                Fleet::ring(settings.fleet.clone(), &ValkeyLogin::default(), health)
            }
        }
    }

    fn ring(config: Config, login: &ValkeyLogin, health: &Health) -> Result<Fleet, ConfigError> {
        let making = Making::of(&config, login);
        let router = Arc::new(Router::new(config, health)?);
        let all = router.config().servers.iter().chain(&router.config().spares).enumerate();
        let node = |(at, server): (usize, &larder_client::Server)| {
            Ok(Arc::new(Node::new(server.address.clone(), &making, router.clone(), at)?))
        };
        let nodes = all.map(node).collect::<Result<_, redis::RedisError>>();
        let nodes = nodes.map_err(|_| ConfigError::NoServer)?;
        Ok(Fleet(Arc::new(Layout::Ring { router, nodes })))
    }

    pub(super) async fn get(&self, name: &[u8]) -> Result<Option<Bytes>, Unanswered> {
        let answer = match &*self.0 {
            Layout::Ring { router, nodes } => read(router, nodes, name).await,
            Layout::Cluster(cluster) => cluster.ask(name, get(name), Node::looked_up).await,
        };
        answer.and_then(bulk).map_err(|_| Unanswered)
    }

    /// Gets values, in the order of the names, with all requests in flight at once.
    pub(super) async fn get_many(
        &self,
        names: &[Vec<u8>],
    ) -> Vec<Result<Option<Bytes>, Unanswered>> {
        let mut asking = JoinSet::new();
        for (place, name) in names.iter().cloned().enumerate() {
            let fleet = self.clone();
            asking.spawn_local(async move { (place, fleet.get(&name).await) });
        }
        let mut found = vec![Err(Unanswered); names.len()];
        while let Some(answer) = asking.join_next().await {
            if let Ok((place, answer)) = answer {
                found[place] = answer;
            }
        }
        found
    }

    pub(super) async fn set(
        &self,
        name: &[u8],
        value: &[u8],
        lasting: Duration,
    ) -> Result<(), Unanswered> {
        let mut command = cmd("SET");
        command.arg(name).arg(value).arg("PX").arg(millis(lasting));
        self.write(name, command, Copies::All).await.map(drop)
    }

    /// Stores a value if there is none. Returns whether it did.
    pub(super) async fn add(
        &self,
        name: &[u8],
        value: &[u8],
        lasting: Duration,
    ) -> Result<bool, Unanswered> {
        let mut command = cmd("SET");
        command.arg(name).arg(value).arg("PX").arg(millis(lasting)).arg("NX");
        Ok(self.write(name, command, Copies::First).await? != Value::Nil)
    }

    /// Deletes a value. Returns whether there was one.
    pub(super) async fn delete(&self, name: &[u8]) -> Result<bool, Unanswered> {
        let mut command = cmd("DEL");
        command.arg(name);
        Ok(matches!(self.write(name, command, Copies::All).await?, Value::Int(1..)))
    }

    /// Deletes a value that was [added](Fleet::add), if it is still the same.
    pub(super) async fn release(&self, name: &[u8], value: &[u8]) -> Result<bool, Unanswered> {
        let mut command = cmd("EVAL");
        command.arg(RELEASE).arg(1).arg(name).arg(value);
        Ok(matches!(self.write(name, command, Copies::First).await?, Value::Int(1..)))
    }

    /// Writes to every server that has the key, or to the first; the first successful answer
    /// counts.
    async fn write(&self, name: &[u8], command: Cmd, copies: Copies) -> Result<Value, Unanswered> {
        let (router, nodes) = match &*self.0 {
            Layout::Ring { router, nodes } => (router, nodes),
            Layout::Cluster(cluster) => {
                return cluster.ask(name, command, Node::written).await.map_err(|_| Unanswered);
            }
        };
        let mut places = places(router, nodes, name);
        if copies == Copies::First {
            places.truncate(1);
        }
        let mut asking = JoinSet::new();
        for (rank, node) in places.into_iter().enumerate() {
            let command = command.clone();
            asking.spawn_local(async move {
                let answer = node.ask(command, false).await;
                node.written(&answer);
                (rank, answer)
            });
        }
        let mut answers: Vec<_> = asking.join_all().await;
        answers.sort_by_key(|(rank, _)| *rank);
        answers.into_iter().find_map(|(_, answer)| answer.ok()).ok_or(Unanswered)
    }

    pub(super) fn servers(&self) -> Vec<ServerView> {
        match &*self.0 {
            Layout::Ring { nodes, .. } => nodes.iter().map(|node| node.view()).collect(),
            Layout::Cluster(cluster) => cluster.servers(),
        }
    }
}

/// The servers of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    All,
    /// The first server only, for writes whose result depends on the stored value.
    First,
}

impl Making {
    fn of(config: &Config, login: &ValkeyLogin) -> Making {
        Making {
            login: login.clone(),
            timeouts: config.timeouts,
            connections: config.connections,
            queue: config.queue,
        }
    }
}

fn get(name: &[u8]) -> Cmd {
    let mut command = cmd("GET");
    command.arg(name);
    command
}

/// The servers of a key, in the order in which they are asked.
fn places(router: &Router, nodes: &[Arc<Node>], name: &[u8]) -> Vec<Arc<Node>> {
    if let Some(server) = router.direct(name) {
        return vec![nodes[server].clone()];
    }
    let places = router.candidates(name, |probe| nodes[probe.server()].probe(probe));
    if places.is_empty() {
        nodes[router.home(name)].skipped();
    }
    places.into_iter().map(|server| nodes[server].clone()).collect()
}

/// Reads from the first server that answers. After a closed connection (a restart or an idle
/// timeout) the read is repeated once.
async fn read(router: &Router, nodes: &[Arc<Node>], name: &[u8]) -> Result<Value, Failed> {
    let mut last = Failed::Down;
    for node in places(router, nodes, name) {
        let answer = node.ask(get(name), false).await;
        node.looked_up(&answer);
        match answer {
            Err(failed) => last = failed,
            found => return found,
        }
    }
    if last == Failed::Closed
        && let Some(node) = places(router, nodes, name).first()
    {
        let answer = node.ask(get(name), false).await;
        node.looked_up(&answer);
        return answer;
    }
    Err(last)
}

impl Node {
    /// Counts a lookup.
    fn looked_up(&self, answer: &Result<Value, Failed>) {
        let counters = self.counters();
        counters.lookups.add(1);
        match answer {
            Ok(Value::Nil) => counters.misses.add(1),
            Ok(_) => counters.hits.add(1),
            Err(_) => {}
        }
    }

    /// Counts a write.
    fn written(&self, answer: &Result<Value, Failed>) {
        if !matches!(answer, Err(Failed::Down | Failed::Busy)) {
            self.counters().writes.add(1);
        }
    }
}
