//! A finished request as a line of the access log.

use std::net::SocketAddr;

use larder_proto::http::Version;

use super::{asked::Asked, deliver::Delivered};
use crate::{
    access_log::{Hierarchy, Record, ResultCode, WorkerLog},
    clock::Clock,
};

/// Writes a request down.
pub(crate) fn record(log: &WorkerLog, asked: &Asked<'_, '_>, delivered: &Delivered) {
    let head = asked.head;
    let host = head.known.host().and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("-");
    let url = format!("{}://{host}{}", asked.scheme().as_str(), head.target.path_and_query);
    let ended = asked.worker.clock.micros();
    log.record(&Record {
        time: asked.worker.clock.at(ended),
        elapsed_us: ended - asked.since,
        client: asked.client(),
        method: head.method.as_str(),
        url: &url,
        http_version: if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" },
        status: delivered.status,
        bytes: delivered.bytes,
        body_bytes: delivered.body_bytes,
        result: delivered.result,
        hierarchy: delivered.hierarchy,
        content_type: delivered.content_type.as_deref(),
        user: None,
        referer: head.known.referer(),
        user_agent: head.known.user_agent(),
        cache_status: delivered.cache_status.as_deref(),
    });
}

/// Writes down a request that could not be read: there is no method and no URL to name.
pub(crate) fn refused(log: &WorkerLog, clock: Clock, peer: SocketAddr, status: u16, bytes: u64) {
    log.record(&Record {
        time: clock.now(),
        elapsed_us: 0,
        client: peer.ip().to_canonical(),
        method: "NONE",
        url: "error:invalid-request",
        http_version: "HTTP/1.1",
        status,
        bytes,
        body_bytes: 0,
        result: ResultCode::None,
        hierarchy: Hierarchy::None,
        content_type: Some(b"text/html"),
        user: None,
        referer: None,
        user_agent: None,
        cache_status: None,
    });
}
