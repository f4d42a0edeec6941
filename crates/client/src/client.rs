//! The client's operations: choosing a server for each, and handling its failure.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use larder_proto::memcache::MAX_KEY;
use tokio::sync::oneshot;

use crate::{
    Config, ConfigError, Error, Expiry, Health, Item, ServerView, Store, Stored,
    expiry::seconds,
    op::{Answer, Key, Keys, Mode, Op},
    peer::{Peer, ReplyTo},
    router::Router,
};

/// A client of a fleet of memcached servers. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: Config,
    router: Router,
    /// The servers, followed by the spares.
    peers: Vec<Arc<Peer>>,
}

impl Client {
    /// A client with its own view of its servers' health. Connections are made when first needed.
    ///
    /// # Errors
    ///
    /// When the configuration is wrong.
    pub fn new(config: Config) -> Result<Client, ConfigError> {
        Client::sharing_health(config, &Health::new())
    }

    /// Like [`Client::new`], but shares knowledge of failures with all clients of the same servers
    /// that were given the same `health`.
    ///
    /// # Errors
    ///
    /// When the configuration is wrong.
    pub fn sharing_health(config: Config, health: &Health) -> Result<Client, ConfigError> {
        let router = Router::new(config.clone(), health)?;
        let all = config.servers.iter().chain(&config.spares).map(|server| server.address.clone());
        let peer = |(at, address)| Arc::new(Peer::new(at, address, &config, router.fleet()));
        let peers = all.enumerate().map(peer).collect();
        Ok(Client { inner: Arc::new(Inner { config, router, peers }) })
    }

    /// The configuration the client was made with.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Index in [`Config::servers`] of the server that has this key when all servers are up.
    pub fn locate(&self, key: &[u8]) -> usize {
        self.slot(key)
    }

    /// The item under a key.
    ///
    /// # Errors
    ///
    /// When no server that has the key answers.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        self.read(key, |key| Op::Get { keys: Keys::one(key), cas: false }).await?.item()
    }

    /// Like [`Client::get`], and returns the item's version (`cas`) in every protocol.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn gets(&self, key: &[u8]) -> Result<Option<Item>, Error> {
        self.read(key, |key| Op::Get { keys: Keys::one(key), cas: true }).await?.item()
    }

    /// The item under a key; sets its expiry to `expiry`.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn get_and_touch(&self, key: &[u8], expiry: Expiry) -> Result<Option<Item>, Error> {
        let expiry = seconds(expiry);
        self.write(key, |key| Op::GetTouch { key, expiry }, Copies::Same).await?.item()
    }

    /// Stores a value, whether or not the key exists.
    ///
    /// # Errors
    ///
    /// If no server stored it.
    pub async fn set(&self, key: &[u8], value: Bytes, store: Store) -> Result<Stored, Error> {
        self.store(Mode::Set, key, value, store).await
    }

    /// Stores a value if the key does not exist.
    ///
    /// # Errors
    ///
    /// As [`Client::set`].
    pub async fn add(&self, key: &[u8], value: Bytes, store: Store) -> Result<Stored, Error> {
        self.store(Mode::Add, key, value, store).await
    }

    /// Stores a value if the key exists.
    ///
    /// # Errors
    ///
    /// As [`Client::set`].
    pub async fn replace(&self, key: &[u8], value: Bytes, store: Store) -> Result<Stored, Error> {
        self.store(Mode::Replace, key, value, store).await
    }

    /// Appends to an existing value; its flags and expiry stay.
    ///
    /// # Errors
    ///
    /// As [`Client::set`].
    pub async fn append(&self, key: &[u8], value: Bytes) -> Result<Stored, Error> {
        self.store(Mode::Append, key, value, Store::default()).await
    }

    /// Prepends to an existing value; its flags and expiry stay.
    ///
    /// # Errors
    ///
    /// As [`Client::set`].
    pub async fn prepend(&self, key: &[u8], value: Bytes) -> Result<Stored, Error> {
        self.store(Mode::Prepend, key, value, Store::default()).await
    }

    /// Stores a value if the item still has the version `cas`, which [`Client::gets`] returns.
    ///
    /// # Errors
    ///
    /// As [`Client::set`].
    pub async fn cas(
        &self,
        key: &[u8],
        value: Bytes,
        cas: u64,
        store: Store,
    ) -> Result<Stored, Error> {
        self.store(Mode::Set, key, value, Store { cas: Some(cas), ..store }).await
    }

    /// Takes a lease: true for the first caller within `time`, false for the others. It is an `add`
    /// of `holder` under `key`; deleting the key releases the lease early.
    ///
    /// # Errors
    ///
    /// As [`Client::set`].
    pub async fn lease(&self, key: &[u8], holder: Bytes, time: Duration) -> Result<bool, Error> {
        Ok(self.add(key, holder, Store::lasting(time)).await?.is_stored())
    }

    /// Deletes an item; true if there was one.
    ///
    /// # Errors
    ///
    /// When no server that has the key answers.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.write(key, |key| Op::Delete { key }, Copies::Same).await?.found()
    }

    /// Adds to a number. Returns the new number, or `None` if the key does not exist. Wraps at
    /// 2^64.
    ///
    /// # Errors
    ///
    /// As [`Client::delete`]; [`Error::Refused`] if the value is not a number.
    pub async fn incr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        self.write(key, |key| Op::Count { key, up: true, by }, Copies::Delete).await?.number()
    }

    /// Subtracts from a number, stopping at 0. Returns the new number, or `None` if the key does
    /// not exist.
    ///
    /// # Errors
    ///
    /// As [`Client::incr`].
    pub async fn decr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        self.write(key, |key| Op::Count { key, up: false, by }, Copies::Delete).await?.number()
    }

    /// Sets the expiry of an item; true if there was one.
    ///
    /// # Errors
    ///
    /// As [`Client::delete`].
    pub async fn touch(&self, key: &[u8], expiry: Expiry) -> Result<bool, Error> {
        let expiry = seconds(expiry);
        self.write(key, |key| Op::Touch { key, expiry }, Copies::Same).await?.found()
    }

    /// Like [`Client::set`], without waiting for the answer: it waits only for room in the queue.
    /// Failed stores are counted ([`ServerView::errors`]).
    ///
    /// With meta commands the server answers only failures, and one no-op at the end of each run of
    /// quiet operations. The text protocol's `noreply` is not used: servers answer some errors
    /// anyway, and such an answer does not say which request it belongs to.
    ///
    /// # Errors
    ///
    /// If it could not be sent.
    pub async fn set_quietly(&self, key: &[u8], value: Bytes, store: Store) -> Result<(), Error> {
        let op = self.store_op(Mode::Set, key, value, store)?;
        self.tell(key, op).await
    }

    /// Quiet form of [`Client::delete`]; see [`Client::set_quietly`].
    ///
    /// # Errors
    ///
    /// If it could not be sent.
    pub async fn delete_quietly(&self, key: &[u8]) -> Result<(), Error> {
        let op = Op::Delete { key: self.key(key)? };
        self.tell(key, op).await
    }

    /// Quiet form of [`Client::touch`]; see [`Client::set_quietly`].
    ///
    /// # Errors
    ///
    /// If it could not be sent.
    pub async fn touch_quietly(&self, key: &[u8], expiry: Expiry) -> Result<(), Error> {
        let op = Op::Touch { key: self.key(key)?, expiry: seconds(expiry) };
        self.tell(key, op).await
    }

    /// Waits until every operation submitted so far, quiet ones included, has been answered or has
    /// failed.
    pub async fn settle(&self) {
        for peer in &self.inner.peers {
            peer.settle().await;
        }
    }

    /// Statistics of each server (`stats`, or `stats` with an argument): the servers in order, then
    /// the spares. Servers that are down are asked too.
    pub async fn stats(&self, of: Option<&str>) -> Vec<Result<Vec<(String, String)>, Error>> {
        if of.is_some_and(|of| of.len() > MAX_KEY || of.bytes().any(|b| b < b' ' || b == 0x7f)) {
            return self.inner.peers.iter().map(|_| Err(Error::Key)).collect();
        }
        let answers = self.everywhere(|| Op::Stats { of: of.map(|of| of.as_bytes().into()) }).await;
        let pairs = |answer: Result<Answer, Error>| match answer? {
            Answer::Pairs(pairs) => Ok(pairs),
            other => other.unexpected(),
        };
        answers.into_iter().map(pairs).collect()
    }

    /// Expires everything on every server, now or after `delay` seconds. Results are in the order
    /// of [`Client::stats`].
    pub async fn flush(&self, delay: u32) -> Vec<Result<(), Error>> {
        let answers = self.everywhere(|| Op::Flush { delay }).await;
        answers.into_iter().map(|answer| answer?.found().map(|_| ())).collect()
    }

    /// The version string of each server, in the order of [`Client::stats`].
    pub async fn version(&self) -> Vec<Result<String, Error>> {
        let answers = self.everywhere(|| Op::Version).await;
        let version = |answer: Result<Answer, Error>| match answer? {
            Answer::Version(version) => Ok(version),
            other => other.unexpected(),
        };
        answers.into_iter().map(version).collect()
    }

    /// State and counters of each server: the servers in order, then the spares.
    pub fn servers(&self) -> Vec<ServerView> {
        let inner = &self.inner;
        let view = |(at, peer): (usize, &Arc<Peer>)| ServerView {
            skipped: peer.unsent().0,
            busy: peer.unsent().1,
            ..inner.router.view(at, peer.counters())
        };
        inner.peers.iter().enumerate().map(view).collect()
    }

    /// The configured prefix, if the key is valid with it.
    pub(crate) fn prefix_of(&self, key: &[u8]) -> Result<&[u8], Error> {
        let prefix = &self.inner.config.prefix;
        if key.is_empty() || prefix.len() + key.len() > MAX_KEY {
            return Err(Error::Key);
        }
        // Checking all bytes without an early exit takes fewer instructions.
        let bad = key.iter().fold(false, |bad, b| bad | (*b <= b' ') | (*b == 0x7f));
        if bad { Err(Error::Key) } else { Ok(prefix) }
    }

    /// The key as it is sent: prefix and key.
    fn key(&self, key: &[u8]) -> Result<Key, Error> {
        let prefix = self.prefix_of(key)?;
        let mut wire = Vec::with_capacity(prefix.len() + key.len());
        wire.extend_from_slice(prefix);
        wire.extend_from_slice(key);
        Ok(wire.into_boxed_slice())
    }

    fn slot(&self, key: &[u8]) -> usize {
        self.inner.router.home(&self.hashed(key))
    }

    /// The part of a key that placement hashes: with the prefix only if the configuration says so.
    fn hashed<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        let config = &self.inner.config;
        match config.hash_prefix && !config.prefix.is_empty() {
            true => Cow::Owned([&config.prefix, key].concat()),
            false => Cow::Borrowed(key),
        }
    }

    /// The server to ask for a key. Usually one hash and two loads.
    pub(crate) fn route(&self, key: &[u8]) -> Result<usize, Error> {
        let hashed = self.hashed(key);
        if let Some(server) = self.inner.router.direct(&hashed) {
            return Ok(server);
        }
        self.candidates(key).into_iter().next().ok_or_else(|| {
            self.inner.peers[self.inner.router.home(&hashed)].skipped();
            Error::Down
        })
    }

    /// The servers to ask for a key, in order, without those that are down: one for each replica;
    /// with [`Eject::Rehash`], chosen among the servers that are up.
    pub(crate) fn candidates(&self, key: &[u8]) -> Vec<usize> {
        self.inner
            .router
            .candidates(&self.hashed(key), |probe| self.peer(probe.server()).probe(probe))
    }

    pub(crate) fn peer(&self, at: usize) -> &Arc<Peer> {
        &self.inner.peers[at]
    }

    /// Asks the candidates in order until one answers. If the connection closes before the answer
    /// (server restarted, idle timeout), the request is sent once more: reads are idempotent.
    async fn read(&self, key: &[u8], op: impl Fn(Key) -> Op) -> Result<Answer, Error> {
        let wire = self.key(key)?;
        if self.inner.config.replicas == 1 {
            return match self.peer(self.route(key)?).ask(op(wire.clone())).await {
                Err(closed @ Error::Closed(_)) => match self.route(key) {
                    Ok(at) => self.peer(at).ask(op(wire)).await,
                    Err(_) => Err(closed),
                },
                answer => answer,
            };
        }
        let mut last = Error::Down;
        for at in self.candidates(key) {
            match self.peer(at).ask(op(wire.clone())).await {
                Err(error) => last = error,
                answer => return answer,
            }
        }
        Err(last)
    }

    fn store_op(&self, mode: Mode, key: &[u8], value: Bytes, store: Store) -> Result<Op, Error> {
        let (size, limit) = (value.len(), self.inner.config.max_item);
        if size > limit {
            return Err(Error::TooLarge { size, limit });
        }
        let Store { flags, expiry, cas } = store;
        Ok(Op::Store { mode, key: self.key(key)?, value, flags, expiry: seconds(expiry), cas })
    }

    async fn store(
        &self,
        mode: Mode,
        key: &[u8],
        value: Bytes,
        store: Store,
    ) -> Result<Stored, Error> {
        let op = self.store_op(mode, key, value, store)?;
        let copies = match mode {
            Mode::Set if store.cas.is_none() => Copies::Same,
            // The condition depends on each server's own item.
            _ => Copies::Delete,
        };
        self.write_op(key, op, copies).await?.stored()
    }

    async fn write(
        &self,
        key: &[u8],
        op: impl FnOnce(Key) -> Op,
        copies: Copies,
    ) -> Result<Answer, Error> {
        let op = op(self.key(key)?);
        self.write_op(key, op, copies).await
    }

    /// Writes to every server that has the key and returns the first server's answer.
    async fn write_op(&self, key: &[u8], op: Op, copies: Copies) -> Result<Answer, Error> {
        if self.inner.config.replicas == 1 {
            return self.peer(self.route(key)?).ask(op).await;
        }
        let deletion = Op::Delete { key: self.key(key)? };
        let mut op = Some(op);
        let mut asked: Vec<Result<oneshot::Receiver<Result<Answer, Error>>, Error>> = Vec::new();
        for at in self.candidates(key) {
            let again = match copies {
                Copies::Same => op.clone(),
                Copies::Delete => op.take().or_else(|| Some(deletion.clone())),
            };
            if let Some(op) = again {
                let (reply_to, answer) = oneshot::channel();
                asked.push(
                    self.peer(at).submit(op, ReplyTo::Caller(reply_to)).await.map(|()| answer),
                );
            }
        }
        let mut first: Option<Result<Answer, Error>> = None;
        for answer in asked {
            let answer = match answer {
                Ok(answer) => answer.await.unwrap_or(Err(Error::Closed(std::io::ErrorKind::Other))),
                Err(error) => Err(error),
            };
            let counts = match (&first, copies) {
                (None, _) => true,
                (Some(Err(_)), Copies::Same) => answer.is_ok(),
                _ => false,
            };
            if counts {
                first = Some(answer);
            }
        }
        first.unwrap_or(Err(Error::Down))
    }

    async fn tell(&self, key: &[u8], op: Op) -> Result<(), Error> {
        if self.inner.config.replicas == 1 {
            return self.peer(self.route(key)?).tell(op).await;
        }
        let mut sent = Err(Error::Down);
        for at in self.candidates(key) {
            let one = self.peer(at).tell(op.clone()).await;
            if sent.is_err() {
                sent = one;
            }
        }
        sent
    }

    /// Sends an operation to every server and collects the answers.
    async fn everywhere(&self, op: impl Fn() -> Op) -> Vec<Result<Answer, Error>> {
        let mut asked = Vec::with_capacity(self.inner.peers.len());
        for peer in &self.inner.peers {
            let (reply_to, answer) = oneshot::channel();
            asked.push(peer.submit(op(), ReplyTo::Caller(reply_to)).await.map(|()| answer));
        }
        let mut answers = Vec::with_capacity(asked.len());
        for answer in asked {
            answers.push(match answer {
                Ok(answer) => answer.await.unwrap_or(Err(Error::Closed(std::io::ErrorKind::Other))),
                Err(error) => Err(error),
            });
        }
        answers
    }
}

/// Operation that the other replicas receive when the first gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    /// The same operation.
    Same,
    /// A deletion: the operation depends on the stored item, so its result may differ between
    /// replicas.
    Delete,
}
