//! A copy of the journal of purges: its log and its sum, on one server.
//!
//! Each stand-alone server has one. A cluster has [`COPIES`], each under names with a tag of its
//! own. The tags are chosen so that their slots are evenly spread: servers with equally many slots
//! have about equally many copies, and log and sum of a copy are on the same server.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use larder_client::{Config, ConfigError, Eject, Health};

use super::{
    Fleet, Layout,
    cluster::slot,
    node::{Failed, Node, Watched},
};
use crate::{
    remote::backend::Unanswered,
    settings::{RemoteProtocol, RemoteSettings},
};

/// Copies of the journal in a cluster: one copy survives if all but one of their servers fail.
const COPIES: usize = 8;
const SLOTS: usize = 16_384;

/// One copy.
#[derive(Clone)]
pub(in crate::remote) struct Copy {
    fleet: Fleet,
    log: Vec<u8>,
    sum: Vec<u8>,
}

/// The log as read, for a compare-and-swap.
pub(in crate::remote) struct Log(Watched);

impl Log {
    pub(in crate::remote) fn value(&self) -> Option<&Bytes> {
        self.0.value.as_ref()
    }
}

/// All copies of a fleet.
pub(in crate::remote) fn all(settings: &RemoteSettings) -> Result<Vec<Copy>, ConfigError> {
    let namespace = &settings.namespace;
    let copy = |fleet: Fleet, tag: String| Copy {
        fleet,
        log: format!("{tag}:log").into_bytes(),
        sum: format!("{tag}:sum").into_bytes(),
    };
    match &settings.protocol {
        RemoteProtocol::ValkeyCluster(_) => {
            let fleet = Fleet::open(settings, &Health::new())?;
            Ok((0..COPIES).map(|number| copy(fleet.clone(), tag(namespace, number))).collect())
        }
        RemoteProtocol::Valkey(login) => {
            let servers = settings.fleet.servers.iter().chain(&settings.fleet.spares);
            let alone = |server: &larder_client::Server| {
                let mut config: Config = settings.fleet.clone();
                (config.servers, config.spares, config.replicas) =
                    (vec![server.clone()], Vec::new(), 1);
                (config.failure.eject, config.connections) = (Eject::No, 1);
                Ok(copy(Fleet::ring(config, login, &Health::new())?, format!("{namespace}:j")))
            };
            servers.map(alone).collect()
        }
        RemoteProtocol::Memcached => Ok(Vec::new()),
    }
}

/// A tag whose slot lies in the copy's share of all slots.
fn tag(namespace: &str, copy: usize) -> String {
    let share = SLOTS / COPIES;
    let tags = (0u32..).map(|number| format!("{{{namespace}:j:{number}}}"));
    let mut mine = tags.filter(|tag| slot(tag.as_bytes()) / share == copy);
    // Slots are spread evenly over numbers: one in eight is ours.
    mine.next().unwrap_or_default()
}

impl Copy {
    async fn node(&self) -> Result<Arc<Node>, Failed> {
        match &*self.fleet.0 {
            Layout::Cluster(cluster) => cluster.owner(slot(&self.log)).await,
            Layout::Ring { router, nodes } => {
                super::places(router, nodes, &self.log).into_iter().next().ok_or(Failed::Down)
            }
        }
    }

    /// The failure may mean that the slots have new owners.
    fn failed(&self, _: Failed) -> Unanswered {
        if let Layout::Cluster(cluster) = &*self.fleet.0 {
            cluster.learn_behind();
        }
        Unanswered
    }

    pub(in crate::remote) async fn sum(&self) -> Result<Option<Bytes>, Unanswered> {
        self.fleet.get(&self.sum).await
    }

    pub(in crate::remote) async fn forget_sum(&self) {
        let _ = self.fleet.delete(&self.sum).await;
    }

    pub(in crate::remote) async fn log(&self) -> Result<Log, Unanswered> {
        let node = self.node().await.map_err(|failed| self.failed(failed))?;
        if let Layout::Cluster(_) = &*self.fleet.0
            && !super::cluster::Cluster::is_up(&node)
        {
            return Err(self.failed(Failed::Down));
        }
        node.watch(&self.log).await.map(Log).map_err(|failed| self.failed(failed))
    }

    /// False: another was faster.
    pub(in crate::remote) async fn write(
        &self,
        before: Log,
        log: &[u8],
        sum: Option<[u8; 8]>,
        lasting: Duration,
    ) -> Result<bool, Unanswered> {
        // The sum first: a reader with another sum reads the log. In the other order, a reader
        // could miss a change.
        if let Some(sum) = sum {
            self.fleet.set(&self.sum, &sum, lasting).await?;
        }
        before.0.store(&self.log, log, lasting).await.map_err(|failed| self.failed(failed))
    }
}
