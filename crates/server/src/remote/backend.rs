//! How the fleet is spoken to.

use std::time::Duration;

use bytes::Bytes;
use larder_client::{Client, ConfigError, Expiry, Health, ServerView, Store};

use crate::settings::RemoteSettings;

/// The fleet did not do what it was asked. Which server, and why, the client counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered;

/// The servers behind the remote tier.
#[derive(Clone)]
pub(crate) enum Backend {
    /// memcached's protocol.
    Memcached(Client),
}

impl Backend {
    /// A client of this worker. `health` is what all workers know of the servers together.
    pub(crate) fn open(settings: &RemoteSettings, health: &Health) -> Result<Backend, ConfigError> {
        Client::sharing_health(settings.fleet.clone(), health).map(Backend::Memcached)
    }

    pub(crate) async fn get(&self, name: &[u8]) -> Result<Option<Bytes>, Unanswered> {
        let Backend::Memcached(client) = self;
        client.get(name).await.map(|item| item.map(|item| item.value)).map_err(|_| Unanswered)
    }

    /// In the order asked.
    pub(crate) async fn get_many(&self, names: &[Vec<u8>]) -> Vec<Result<Option<Bytes>, Unanswered>> {
        let Backend::Memcached(client) = self;
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let items = client.get_many(&names).await;
        items.into_iter().map(|item| item.map(|i| i.map(|i| i.value)).map_err(|_| Unanswered)).collect()
    }

    pub(crate) async fn set(&self, name: &[u8], value: Bytes, lasting: Duration) -> Result<(), Unanswered> {
        let Backend::Memcached(client) = self;
        let store = Store { expiry: Expiry::After(lasting), ..Store::default() };
        client.set(name, value, store).await.map(drop).map_err(|_| Unanswered)
    }

    /// Whether there was none.
    pub(crate) async fn add(&self, name: &[u8], value: Bytes, lasting: Duration) -> Result<bool, Unanswered> {
        let Backend::Memcached(client) = self;
        client.lease(name, value, lasting).await.map_err(|_| Unanswered)
    }

    /// Whether there was one.
    pub(crate) async fn delete(&self, name: &[u8]) -> Result<bool, Unanswered> {
        let Backend::Memcached(client) = self;
        client.delete(name).await.map_err(|_| Unanswered)
    }

    pub(crate) fn servers(&self) -> Vec<ServerView> {
        let Backend::Memcached(client) = self;
        client.servers()
    }
}
