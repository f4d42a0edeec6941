//! The text protocol (protocol.txt, "Storage commands" to "Other commands"). One file per verb.

/// `get <key>*`, `gets <key>*`, `gat <exptime> <key>*`, `gats <exptime> <key>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// The rest of the line: keys with blanks between them.
    pub keys: &'a [u8],
    /// `gets`, `gats`: the version is given too.
    pub cas: bool,
    /// `gat`, `gats`: the new expiry, as sent.
    pub touch: Option<i32>,
}

/// What a store command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever is there.
    Set,
    /// Only if nothing is there.
    Add,
    /// Only if something is there.
    Replace,
    /// Behind what is there.
    Append,
    /// Before what is there.
    Prepend,
}

/// `set <key> <flags> <exptime> <bytes> [noreply]` and its kin; `cas` is a `set` with `cas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// What is to be done.
    pub mode: Mode,
    /// Under which key.
    pub key: &'a [u8],
    /// The client's bits.
    pub flags: u32,
    /// Expiry as sent: seconds from now, a UNIX time above 30 days, or negative.
    pub exptime: i32,
    /// Bytes of the data block, its line end not counted.
    pub len: u32,
    /// `cas`: the version that must be there.
    pub cas: Option<u64>,
    /// No answer is wanted.
    pub noreply: bool,
}

/// `delete <key> [0] [noreply]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Which.
    pub key: &'a [u8],
    /// No answer is wanted.
    pub noreply: bool,
}

/// `incr <key> <value> [noreply]`, `decr ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    /// Which.
    pub key: &'a [u8],
    /// By how much.
    pub delta: u64,
    /// `decr`.
    pub down: bool,
    /// No answer is wanted.
    pub noreply: bool,
}

/// `touch <key> <exptime> [noreply]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<'a> {
    /// Which.
    pub key: &'a [u8],
    /// Expiry as sent.
    pub exptime: i32,
    /// No answer is wanted.
    pub noreply: bool,
}

/// `flush_all [delay] [noreply]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// When, as sent; 0: now.
    pub delay: i32,
    /// No answer is wanted.
    pub noreply: bool,
}

/// `shutdown [graceful]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// At once.
    Now,
    /// After what is under way.
    Graceful,
}

/// A command for those who run the server, with its words (the verb not among them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin<'a> {
    /// Which.
    pub verb: Verb,
    /// The rest of the line.
    pub args: &'a [u8],
    /// The last word is `noreply`. Each verb decides whether it minds.
    pub noreply: bool,
}

/// The verbs of [`Admin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `stats ...`
    Stats,
    /// `verbosity <level> [noreply]`
    Verbosity,
    /// `lru_crawler ...`
    LruCrawler,
    /// `watch ...`
    Watch,
    /// `slabs ...`
    Slabs,
    /// `cache_memlimit <megabytes> [noreply]`
    CacheMemlimit,
    /// `lru ...`
    Lru,
    /// `extstore ...`
    Extstore,
}
