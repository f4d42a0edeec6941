//! The contents of a line of the access log.

use std::net::IpAddr;

/// A finished request, borrowed from the worker: it is formatted at once.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The end of the request, in milliseconds since the UNIX epoch.
    pub time: u64,
    /// From the first byte of the request to the last byte of the response, in microseconds.
    pub elapsed_us: u64,
    /// The client's address (behind trusted proxies).
    pub client: IpAddr,
    /// The method as received.
    pub method: &'a str,
    /// Absolute: `http://host/path?query`.
    pub url: &'a str,
    /// `HTTP/1.1` and the like.
    pub http_version: &'a str,
    /// The status of the answer; 0: the client left before.
    pub status: u16,
    /// Bytes sent, head included.
    pub bytes: u64,
    /// Bytes of content sent.
    pub body_bytes: u64,
    /// The result in the cache.
    pub result: ResultCode,
    /// The server that was asked.
    pub hierarchy: Hierarchy,
    /// Content-Type of the response, parameters included.
    pub content_type: Option<&'a [u8]>,
    /// An authenticated user.
    pub user: Option<&'a [u8]>,
    /// The Referer field of the request.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent field of the request.
    pub user_agent: Option<&'a [u8]>,
    /// The Cache-Status of the response (RFC 9211).
    pub cache_status: Option<&'a [u8]>,
    /// Names the answer where it is an error of Larder's own.
    pub reference: Option<&'a str>,
    /// None: the connection is not TLS.
    pub tls: Option<Tls>,
}

/// The TLS of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Tls {
    /// `TLSv1.3` and the like.
    pub version: &'static str,
    /// The cipher suite, as IANA names it.
    pub cipher: &'static str,
    /// The client had a ticket.
    pub resumed: bool,
}

/// The result of a request in the cache, in Squid's words, so that existing tools work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultCode {
    /// Served from the cache, from a slower tier than memory.
    TcpHit,
    /// Served from memory.
    TcpMemHit,
    /// Fetched from the origin.
    TcpMiss,
    /// Stale; the origin confirmed it (304).
    TcpRefreshUnmodified,
    /// Stale; the origin sent a new one.
    TcpRefreshModified,
    /// Stale, and the origin failed: the stale one was served (stale-if-error).
    TcpRefreshFailHit,
    /// Stale, and the origin failed: its error was passed on.
    TcpRefreshFailErr,
    /// Stale, served at once while it is refreshed (stale-while-revalidate).
    TcpStaleHit,
    /// The client's condition was answered (304) from the cache.
    TcpImsHit,
    /// An error response served from the cache.
    TcpNegativeHit,
    /// Waited for the fetch of another request and followed it.
    TcpCfHit,
    /// Not permitted.
    TcpDenied,
    /// The client insisted on a new one (no-cache).
    TcpClientRefreshMiss,
    /// It was in the cache but could not be used.
    TcpSwapFailMiss,
    /// The connection was upgraded and tunnelled.
    TcpTunnel,
    /// The client left before the answer began.
    TcpMissAborted,
    /// Purged on request.
    TcpPurge,
    /// Answered without looking at the cache (a refused request).
    None,
}

impl ResultCode {
    /// All results.
    pub const ALL: [ResultCode; 18] = [
        ResultCode::TcpHit,
        ResultCode::TcpMemHit,
        ResultCode::TcpMiss,
        ResultCode::TcpRefreshUnmodified,
        ResultCode::TcpRefreshModified,
        ResultCode::TcpRefreshFailHit,
        ResultCode::TcpRefreshFailErr,
        ResultCode::TcpStaleHit,
        ResultCode::TcpImsHit,
        ResultCode::TcpNegativeHit,
        ResultCode::TcpCfHit,
        ResultCode::TcpDenied,
        ResultCode::TcpClientRefreshMiss,
        ResultCode::TcpSwapFailMiss,
        ResultCode::TcpTunnel,
        ResultCode::TcpMissAborted,
        ResultCode::TcpPurge,
        ResultCode::None,
    ];

    /// The word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            ResultCode::TcpHit => "TCP_HIT",
            ResultCode::TcpMemHit => "TCP_MEM_HIT",
            ResultCode::TcpMiss => "TCP_MISS",
            ResultCode::TcpRefreshUnmodified => "TCP_REFRESH_UNMODIFIED",
            ResultCode::TcpRefreshModified => "TCP_REFRESH_MODIFIED",
            ResultCode::TcpRefreshFailHit => "TCP_REFRESH_FAIL_HIT",
            ResultCode::TcpRefreshFailErr => "TCP_REFRESH_FAIL_ERR",
            ResultCode::TcpStaleHit => "TCP_STALE_HIT",
            ResultCode::TcpImsHit => "TCP_IMS_HIT",
            ResultCode::TcpNegativeHit => "TCP_NEGATIVE_HIT",
            ResultCode::TcpCfHit => "TCP_CF_HIT",
            ResultCode::TcpDenied => "TCP_DENIED",
            ResultCode::TcpClientRefreshMiss => "TCP_CLIENT_REFRESH_MISS",
            ResultCode::TcpSwapFailMiss => "TCP_SWAPFAIL_MISS",
            ResultCode::TcpTunnel => "TCP_TUNNEL",
            ResultCode::TcpMissAborted => "TCP_MISS_ABORTED",
            ResultCode::TcpPurge => "TCP_PURGE",
            ResultCode::None => "NONE",
        }
    }
}

/// The server that was asked, in Squid's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hierarchy {
    /// None.
    None,
    /// The origin, at this address.
    Direct(IpAddr),
    /// The configured origin of a site, at this address. Squid calls it a parent when it is a
    /// reverse proxy.
    FirstUpPeer(IpAddr),
    /// A sibling that said that it has the page.
    SiblingHit(IpAddr),
    /// A parent that said so.
    ParentHit(IpAddr),
    /// The parent that said first that it does not.
    FirstParentMiss(IpAddr),
    /// The parent that a hash of the URL names.
    Carp(IpAddr),
}

impl Hierarchy {
    /// The word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Hierarchy::None => "HIER_NONE",
            Hierarchy::Direct(_) => "HIER_DIRECT",
            Hierarchy::FirstUpPeer(_) => "FIRSTUP_PARENT",
            Hierarchy::SiblingHit(_) => "SIBLING_HIT",
            Hierarchy::ParentHit(_) => "PARENT_HIT",
            Hierarchy::FirstParentMiss(_) => "FIRST_PARENT_MISS",
            Hierarchy::Carp(_) => "CARP",
        }
    }

    /// The address of the server.
    pub fn peer(self) -> Option<IpAddr> {
        match self {
            Hierarchy::None => None,
            Hierarchy::Direct(peer)
            | Hierarchy::FirstUpPeer(peer)
            | Hierarchy::SiblingHit(peer)
            | Hierarchy::ParentHit(peer)
            | Hierarchy::FirstParentMiss(peer)
            | Hierarchy::Carp(peer) => Some(peer),
        }
    }
}
