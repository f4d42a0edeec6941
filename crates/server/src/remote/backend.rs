//! The protocol of the fleet's servers.

use std::time::Duration;

use bytes::Bytes;
use larder_client::{Client, ConfigError, Eject, Expiry, Health, Item, ServerView, Store};

use super::valkey;
use crate::settings::{RemoteProtocol, RemoteSettings};

/// The fleet did not execute an operation. The client counts the servers and reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered;

/// The servers behind the remote tier.
#[derive(Clone)]
pub(crate) enum Backend {
    /// memcached's protocol.
    Memcached(Client),
    /// Valkey's (Redis's): stand-alone servers, or a cluster.
    Valkey(valkey::Fleet),
}

impl Backend {
    /// A client of this worker. `health` of the servers is shared by all workers.
    pub(crate) fn open(settings: &RemoteSettings, health: &Health) -> Result<Backend, ConfigError> {
        match settings.protocol {
            RemoteProtocol::Memcached => {
                Client::sharing_health(settings.fleet.clone(), health).map(Backend::Memcached)
            }
            RemoteProtocol::Valkey(_) | RemoteProtocol::ValkeyCluster(_) => {
                valkey::Fleet::open(settings, health).map(Backend::Valkey)
            }
        }
    }

    pub(crate) async fn get(&self, name: &[u8]) -> Result<Option<Bytes>, Unanswered> {
        match self {
            Backend::Memcached(client) => client
                .get(name)
                .await
                .map(|item| item.map(|item| item.value))
                .map_err(|_| Unanswered),
            Backend::Valkey(fleet) => fleet.get(name).await,
        }
    }

    /// Gets values, in the order of the names.
    pub(crate) async fn get_many(
        &self,
        names: &[Vec<u8>],
    ) -> Vec<Result<Option<Bytes>, Unanswered>> {
        let client = match self {
            Backend::Memcached(client) => client,
            Backend::Valkey(fleet) => return fleet.get_many(names).await,
        };
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let items = client.get_many(&names).await;
        items
            .into_iter()
            .map(|item| item.map(|i| i.map(|i| i.value)).map_err(|_| Unanswered))
            .collect()
    }

    pub(crate) async fn set(
        &self,
        name: &[u8],
        value: Bytes,
        lasting: Duration,
    ) -> Result<(), Unanswered> {
        match self {
            Backend::Memcached(client) => {
                let store = Store { expiry: Expiry::After(lasting), ..Store::default() };
                client.set(name, value, store).await.map(drop).map_err(|_| Unanswered)
            }
            Backend::Valkey(fleet) => fleet.set(name, &value, lasting).await,
        }
    }

    /// Stores a value if there is none. Returns whether it did.
    pub(crate) async fn add(
        &self,
        name: &[u8],
        value: Bytes,
        lasting: Duration,
    ) -> Result<bool, Unanswered> {
        match self {
            Backend::Memcached(client) => {
                client.lease(name, value, lasting).await.map_err(|_| Unanswered)
            }
            Backend::Valkey(fleet) => fleet.add(name, &value, lasting).await,
        }
    }

    /// Deletes a value. Returns whether there was one.
    pub(crate) async fn delete(&self, name: &[u8]) -> Result<bool, Unanswered> {
        match self {
            Backend::Memcached(client) => client.delete(name).await.map_err(|_| Unanswered),
            Backend::Valkey(fleet) => fleet.delete(name).await,
        }
    }

    /// Deletes a value that was [added](Backend::add), if it is still the same. With memcached,
    /// this is a read and a deletion: a value that another adds in between is lost, and a page
    /// rendered once more.
    pub(crate) async fn release(&self, name: &[u8], value: &[u8]) -> Result<bool, Unanswered> {
        match self {
            Backend::Memcached(_) => match self.get(name).await? {
                Some(held) if held == value => self.delete(name).await,
                _ => Ok(false),
            },
            Backend::Valkey(fleet) => fleet.release(name, value).await,
        }
    }

    pub(crate) fn servers(&self) -> Vec<ServerView> {
        match self {
            Backend::Memcached(client) => client.servers(),
            Backend::Valkey(fleet) => fleet.servers(),
        }
    }
}

/// A server with a copy of the journal of purges.
#[derive(Clone)]
pub(super) enum Copy {
    /// One memcached.
    Memcached { server: Client, log: Vec<u8>, sum: Vec<u8> },
    /// One Valkey, or a part of a cluster.
    Valkey(valkey::copy::Copy),
}

/// A copy's log as read, for a compare-and-swap.
pub(super) enum Read {
    Memcached(Option<Item>),
    Valkey(valkey::copy::Log),
}

impl Read {
    pub(super) fn value(&self) -> Option<&Bytes> {
        match self {
            Read::Memcached(item) => item.as_ref().map(|item| &item.value),
            Read::Valkey(log) => log.value(),
        }
    }
}

impl Copy {
    /// All copies of a fleet. Each server has a client of its own, independent of its health
    /// elsewhere.
    pub(super) fn all(settings: &RemoteSettings) -> Result<Vec<Copy>, ConfigError> {
        if settings.protocol != RemoteProtocol::Memcached {
            return Ok(valkey::copy::all(settings)?.into_iter().map(Copy::Valkey).collect());
        }
        let all = settings.fleet.servers.iter().chain(&settings.fleet.spares);
        let copy = |server: &larder_client::Server| {
            let mut fleet = settings.fleet.clone();
            (fleet.servers, fleet.spares, fleet.replicas) = (vec![server.clone()], Vec::new(), 1);
            (fleet.failure.eject, fleet.connections) = (Eject::No, 1);
            Ok(Copy::Memcached {
                server: Client::sharing_health(fleet, &Health::new())?,
                log: format!("{}:j:log", settings.namespace).into_bytes(),
                sum: format!("{}:j:sum", settings.namespace).into_bytes(),
            })
        };
        all.map(copy).collect()
    }

    pub(super) async fn sum(&self) -> Result<Option<Bytes>, Unanswered> {
        match self {
            Copy::Memcached { server, sum, .. } => server
                .get(sum)
                .await
                .map(|item| item.map(|item| item.value))
                .map_err(|_| Unanswered),
            Copy::Valkey(copy) => copy.sum().await,
        }
    }

    pub(super) async fn forget_sum(&self) {
        match self {
            Copy::Memcached { server, sum, .. } => drop(server.delete(sum).await),
            Copy::Valkey(copy) => copy.forget_sum().await,
        }
    }

    pub(super) async fn log(&self) -> Result<Read, Unanswered> {
        match self {
            Copy::Memcached { server, log, .. } => {
                server.gets(log).await.map(Read::Memcached).map_err(|_| Unanswered)
            }
            Copy::Valkey(copy) => copy.log().await.map(Read::Valkey),
        }
    }

    /// Replaces the log that was read, and its sum before it. False: another writer was faster.
    pub(super) async fn write(
        &self,
        before: Read,
        log: Vec<u8>,
        sum: Option<[u8; 8]>,
        lasting: Duration,
    ) -> Result<bool, Unanswered> {
        let (copy, before) = match (self, before) {
            (Copy::Valkey(copy), Read::Valkey(before)) => {
                return copy.write(before, &log, sum, lasting).await;
            }
            (copy, Read::Memcached(before)) => (copy, before),
            _ => return Err(Unanswered),
        };
        let Copy::Memcached { server, log: log_name, sum: sum_name } = copy else {
            return Err(Unanswered);
        };
        let lasting = Store::lasting(lasting);
        // The sum first: a reader with another sum reads the log. In the other order, a reader
        // could miss a change.
        if let Some(sum) = sum {
            server
                .set(sum_name, Bytes::copy_from_slice(&sum), lasting)
                .await
                .map_err(|_| Unanswered)?;
        }
        let stored = match before {
            Some(Item { cas: Some(cas), .. }) => {
                server.cas(log_name, log.into(), cas, lasting).await
            }
            Some(_) => server.set(log_name, log.into(), lasting).await,
            None => server.add(log_name, log.into(), lasting).await,
        };
        stored.map(|stored| stored.is_stored()).map_err(|_| Unanswered)
    }
}
