//! The object faces: memcached and Redis.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use larder_proto::resp::acl::{self, User};

use super::{Certificate, ClientAuth, Net, Secret, TlsVersion};

/// [`MemcachedSettings::requests_per_event`] by default: memcached's value, which `stats settings`
/// shows.
pub const DEFAULT_REQUESTS_PER_EVENT: usize = 20;

/// An address of a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address and port; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix {
        /// Its path. A socket without a listener is replaced.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// A namespace's part of the memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Guaranteed: others do not evict below this.
    pub floor: Option<u64>,
    /// The limit.
    pub ceiling: Option<u64>,
}

/// Addresses at which a face is served over TLS.
#[derive(Clone, Debug)]
pub struct FaceTls {
    /// The addresses.
    pub listen: Vec<Listen>,
    /// The certificate that clients are shown.
    pub certificate: Arc<Certificate>,
    /// The oldest version of TLS that is spoken.
    pub min_version: TlsVersion,
    /// The certificates that clients are asked for; None: they are not.
    pub clients: Option<Arc<ClientAuth>>,
}

impl PartialEq for FaceTls {
    fn eq(&self, other: &Self) -> bool {
        let asked = |tls: &Self| tls.clients.as_ref().map(|clients| clients.id);
        self.listen == other.listen
            && self.certificate.key.cert == other.certificate.key.cert
            && self.min_version == other.min_version
            && asked(self) == asked(other)
    }
}

impl Eq for FaceTls {}

/// A file of users with their rules, as Redis's `aclfile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclFile {
    /// Its path: ACL LOAD and ACL SAVE use it.
    pub path: PathBuf,
    /// Its users by name.
    pub users: Arc<BTreeMap<Box<[u8]>, User>>,
}

impl AclFile {
    /// Largest file in bytes.
    pub const BYTES: usize = 4 << 20;

    /// The users of a file's text. Err: its mistakes; `name` is the file's.
    ///
    /// # Errors
    /// All mistakes in one line.
    pub fn parse(path: PathBuf, text: &[u8]) -> Result<AclFile, String> {
        let users = acl::parse(text, &path.display().to_string(), sha256)?;
        Ok(AclFile { path, users: Arc::new(users) })
    }
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> acl::Hash {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let mut hash = acl::Hash::default();
    hash.copy_from_slice(digest.as_ref());
    hash
}

/// Names and passwords of clients.
pub type Users = Arc<[(String, Secret)]>;

/// The protocols that a memcached connection may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireProtocol {
    /// Detected by the first byte.
    #[default]
    Auto,
    /// Text and meta.
    Ascii,
    /// Binary.
    Binary,
}

/// The memcached face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemcachedSettings {
    /// Its addresses.
    pub listen: Vec<Listen>,
    /// TLS; None: it is not spoken.
    pub tls: Option<FaceTls>,
    /// Connections from these addresses begin with a header of the PROXY protocol.
    pub proxies: Vec<Net>,
    /// UDP addresses; none by default.
    pub udp: Vec<SocketAddr>,
    /// Largest value in bytes, 1 KiB to 1 GiB.
    pub item_size: u64,
    /// Client connections at once over all threads.
    pub connections: usize,
    /// Connections beyond that are refused (true), or wait in the listener's queue (false).
    pub connections_fast: bool,
    /// Time without a command after which a connection is closed; 0: never.
    pub idle_timeout: Duration,
    /// Time without progress of a begun command after which a client is disconnected.
    pub receive_timeout: Duration,
    /// Time without progress of its answers after which a client is disconnected.
    pub send_timeout: Duration,
    /// Its protocols.
    pub protocol: WireProtocol,
    /// ASCII authentication: a `set` with "user password" must come first. Not with UDP, not with
    /// binary.
    pub auth: Option<Users>,
    /// SASL PLAIN in the binary protocol; text commands are refused then.
    pub sasl: Option<Users>,
    /// `cas unique` values are stored and returned.
    pub cas: bool,
    /// `flush_all` is allowed.
    pub flush_all: bool,
    /// `stats cachedump`, `lru_crawler metadump` and `mgdump` are allowed.
    pub dump: bool,
    /// `watch` is allowed.
    pub watch: bool,
    /// `shutdown` is allowed.
    pub shutdown: bool,
    /// A full memory refuses new items instead of evicting old ones.
    pub no_evictions: bool,
    /// Long values of evicted items go to the disk.
    pub disk: bool,
    /// Splits keys into prefix and rest for `stats detail`.
    pub prefix_delimiter: u8,
    /// `stats detail` is on from the start.
    pub detail: bool,
    /// `stats sizes` counts from the start; else from `stats sizes_enable`.
    pub sizes: bool,
    /// Bytes per watcher that may wait to be sent; further lines are skipped and counted.
    pub watcher_buffer: usize,
    /// Commands of a connection that are executed before others get their turn (`-R`).
    /// [`DEFAULT_REQUESTS_PER_EVENT`] stands for 256: with memcached's number, a pipeline would be
    /// many small writes.
    pub requests_per_event: usize,
    /// Connections the kernel keeps waiting per listener.
    pub backlog: i32,
    /// 0 to 3, as `-v`: shown in `stats settings`.
    pub verbosity: u8,
    /// Its part of the memory.
    pub share: Share,
}

#[cfg(test)]
impl MemcachedSettings {
    /// memcached's defaults, with values up to 1 MiB, for the tests of this crate.
    pub(crate) fn plain(listen: Vec<Listen>) -> Self {
        Self {
            listen,
            tls: None,
            proxies: Vec::new(),
            udp: Vec::new(),
            item_size: 1 << 20,
            connections: 1024,
            connections_fast: true,
            idle_timeout: Duration::ZERO,
            receive_timeout: Duration::from_secs(60),
            send_timeout: Duration::from_secs(60),
            protocol: WireProtocol::Auto,
            auth: None,
            sasl: None,
            cas: true,
            flush_all: true,
            dump: true,
            watch: true,
            shutdown: false,
            no_evictions: false,
            disk: false,
            prefix_delimiter: b':',
            detail: false,
            sizes: false,
            watcher_buffer: 256 * 1024,
            requests_per_event: DEFAULT_REQUESTS_PER_EVENT,
            backlog: 1024,
            verbosity: 0,
            share: Share::default(),
        }
    }
}

/// The Redis face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Its addresses.
    pub listen: Vec<Listen>,
    /// TLS; None: it is not spoken.
    pub tls: Option<FaceTls>,
    /// Connections from these addresses begin with a header of the PROXY protocol.
    pub proxies: Vec<Net>,
    /// Numbered databases, 1 to 16.
    pub databases: usize,
    /// Largest value in bytes.
    pub item_size: u64,
    /// Largest bulk string a client may send, in bytes (Redis: proto-max-bulk-len).
    pub bulk: u64,
    /// Client connections at once over all threads.
    pub connections: usize,
    /// Time without a command after which a connection is closed; 0: never.
    pub idle_timeout: Duration,
    /// Time without progress of a begun command after which a client is disconnected.
    pub receive_timeout: Duration,
    /// Time without progress of its answers after which a client is disconnected.
    pub send_timeout: Duration,
    /// Bytes that may wait for a subscriber before it is closed (Redis: client-output-buffer-limit
    /// pubsub).
    pub subscriber_buffer: usize,
    /// The password of the user `default` (Redis: requirepass).
    pub password: Option<Secret>,
    /// Further users; each may do everything.
    pub users: Option<Users>,
    /// A file of users with their rules, instead of both.
    pub acl: Option<AclFile>,
    /// Without a password, only this machine may connect.
    pub protected: bool,
    /// `SHUTDOWN` is allowed. It ends the program, pages included.
    pub shutdown: bool,
    /// Database 0 is the memcached face's namespace: each reads what the other wrote.
    pub share_memcached: bool,
    /// A full memory refuses new items instead of evicting old ones (Redis: maxmemory-policy
    /// noeviction).
    pub no_evictions: bool,
    /// Commands slower than so many microseconds go to the slow log; None: none do.
    pub slowlog_micros: Option<u64>,
    /// Connections the kernel keeps waiting per listener.
    pub backlog: i32,
    /// Its part of the memory, all databases together.
    pub share: Share,
}
