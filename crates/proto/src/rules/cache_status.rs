//! Cache-Status (RFC 9211).

/// Why a request was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was told not to handle the request.
    Bypass,
    /// The method is not cacheable.
    Method,
    /// Nothing stored for the URI.
    UriMiss,
    /// Stored, but no variant fits.
    VaryMiss,
    /// Nothing stored, no matter which of the two.
    Miss,
    /// A fresh page, but the client asked for the origin.
    Request,
    /// A stale page.
    Stale,
    /// A partial page without all the bytes asked for.
    Partial,
}

/// One member of Cache-Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Answered from the store without the origin.
    pub hit: bool,
    /// Why it was forwarded.
    pub fwd: Option<Forward>,
    /// Status of the origin's answer, where it is not the status sent.
    pub fwd_status: Option<u16>,
    /// Freshness left in seconds (negative: stale).
    pub ttl: Option<i64>,
    /// The response was stored.
    pub stored: bool,
    /// The request waited for another one's fetch.
    pub collapsed: bool,
    /// A word more.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Appends the member, `name` first (an sf-token or it is quoted).
    pub fn write(&self, name: &str, out: &mut Vec<u8>) {
        let _ = (name, out);
        todo!()
    }
}
