//! The answer that streams by: a response on its way into the store, or past it.

use std::io::IoSlice;

use hyper::upgrade::OnUpgrade;
use larder_proto::{
    http::{Version, chunked},
    rules::{CacheStatus, Forward, Precondition, current_age, evaluate, strip},
};
use tokio::sync::mpsc;

use super::{
    answer::has_body,
    asked::Asked,
    compose::{self, Told},
    deliver::{Delivered, changed_head, content_type, end_head, logged_status},
    fetch::{Reply, Source},
    flight::{Follower, Piece, Tail},
    log::finish,
    out::Out,
    socket::{Ended, Socket},
};
use crate::access_log::ResultCode;

/// How the end of a streamed body is marked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    Chunked,
    /// HTTP/1.0 and no length: the end of the connection.
    Close,
}

/// How an answer ended.
pub(crate) enum Done {
    Answered {
        /// The connection goes on.
        keep: bool,
    },
    /// The head of a 101 is out: what follows is another protocol.
    Tunnel(OnUpgrade, Delivered),
}

/// Sends a response that is not whole in the store (yet), or never will be.
pub(crate) async fn send(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    reply: Reply,
) -> Result<Done, Ended> {
    asked.begun.set(true);
    let mut delivered = head_of(asked, out, &reply);
    if delivered.status != reply.answer.status {
        delivered.bytes = out.pending();
        return Ok(Done::Answered { keep: finish(asked, &delivered) });
    }
    let framing = framing(asked, &reply);
    if framing == Framing::Close {
        delivered.keep = false;
    }
    let head_bytes = out.pending();
    let sent = match reply.source {
        Source::Tunnel(upgraded, _) => {
            (delivered.result, delivered.bytes) = (ResultCode::TcpTunnel, head_bytes);
            asked.send(socket, out).await?;
            return Ok(Done::Tunnel(upgraded, delivered));
        }
        _ if framing == Framing::None => Ok(0),
        Source::Follow(follower) => follow(socket, out, asked, follower, framing).await,
        Source::Tail(tail) => pour(socket, out, asked, tail, framing).await,
    };
    match sent {
        Ok(body) => {
            (delivered.bytes, delivered.body_bytes) = (head_bytes + body, body);
            Ok(Done::Answered { keep: finish(asked, &delivered) })
        }
        Err(Cut::Origin) => {
            delivered.bytes = head_bytes;
            delivered.keep = false;
            finish(asked, &delivered);
            if framing == Framing::Close {
                socket.reset();
            }
            Err(Ended::Closed)
        }
        Err(Cut::Client(ended)) => {
            (delivered.result, delivered.keep) = (ResultCode::TcpMissAborted, false);
            finish(asked, &delivered);
            Err(ended)
        }
    }
}

/// Composes the head: of the response, or of what the client's own conditions make of it.
fn head_of(asked: &Asked<'_, '_>, out: &mut Out, reply: &Reply) -> Delivered {
    let answer = &reply.answer;
    super::debug::tier(asked, "origin");
    let stored = answer.meta.is_some();
    let cache_status = CacheStatus {
        fwd: Some(reply.why),
        fwd_status: (answer.status != 304).then_some(answer.status),
        stored,
        collapsed: reply.collapsed,
        detail: reply.detail,
        ..CacheStatus::default()
    };
    // The head of whoever asked first has the Age it came with.
    let age = answer.meta.as_ref().filter(|_| reply.collapsed).map(|meta| current_age(meta, asked.now()));
    let told = Told { hit: false, found: reply.found, age, cache_status };
    let mut delivered = Delivered {
        status: answer.status,
        bytes: 0,
        body_bytes: 0,
        keep: asked.keep(),
        result: if reply.collapsed { ResultCode::TcpCfHit } else { miss_code(reply) },
        hierarchy: reply.hierarchy,
        content_type: asked.worker.shows().then(|| content_type(&answer.head)).flatten(),
        cache_status: logged_status(asked, &told.cache_status),
    };
    let scratch = out.scratch();
    let precondition = match &answer.meta {
        Some(meta) if reply.conditions => evaluate(&asked.view(), meta, answer.etag.as_deref()),
        _ => Precondition::Full,
    };
    match precondition {
        Precondition::Full | Precondition::Failed => {
            scratch.extend_from_slice(&answer.head);
            framing_lines(asked, scratch, reply, &mut delivered);
        }
        Precondition::NotModified => {
            changed_head(scratch, &answer.head, 304, |name| !strip::sent_with_304(name));
            delivered.status = 304;
        }
    }
    compose::told_lines(scratch, &asked.config.settings.http, &told);
    if !matches!(reply.source, Source::Tunnel(..)) {
        end_head(asked, scratch, delivered.keep);
    } else {
        scratch.extend_from_slice(b"\r\n");
    }
    delivered
}

fn miss_code(reply: &Reply) -> ResultCode {
    match reply.why {
        Forward::Stale => ResultCode::TcpRefreshModified,
        Forward::Request => ResultCode::TcpClientRefreshMiss,
        _ => ResultCode::TcpMiss,
    }
}

fn framing(asked: &Asked<'_, '_>, reply: &Reply) -> Framing {
    if !has_body(asked.is_head(), reply.answer.status) {
        return Framing::None;
    }
    match (reply.answer.length, asked.head.version) {
        (Some(_), _) => Framing::Length,
        (None, Version::Http11) => Framing::Chunked,
        (None, Version::Http10) => Framing::Close,
    }
}

fn framing_lines(asked: &Asked<'_, '_>, out: &mut Vec<u8>, reply: &Reply, delivered: &mut Delivered) {
    if let Source::Tunnel(_, protocol) = &reply.source {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        compose::line(out, "Upgrade", protocol);
        return;
    }
    match framing(asked, reply) {
        Framing::Length => compose::number_line(out, "Content-Length", reply.answer.length.unwrap_or(0)),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Close => delivered.keep = false,
        // The answer to a HEAD says how long a GET's would be (RFC 9110 section 8.6).
        Framing::None if asked.is_head() => {
            if let Some(length) = reply.answer.length.filter(|_| has_body(false, reply.answer.status)) {
                compose::number_line(out, "Content-Length", length);
            }
        }
        Framing::None => {}
    }
}

/// Why a body did not go out whole.
enum Cut {
    Origin,
    Client(Ended),
}

impl From<Ended> for Cut {
    fn from(ended: Ended) -> Self {
        Cut::Client(ended)
    }
}

/// Sends a body that others may follow too, as it grows.
async fn follow(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    mut follower: Follower,
    framing: Framing,
) -> Result<u64, Cut> {
    let mut at = 0;
    let streaming = follower.streaming.clone();
    let held = || streaming.written();
    loop {
        let next = tokio::select! {
            biased;
            next = follower.next(at) => next,
            () = socket.gone() => return Err(Cut::Client(Ended::Closed)),
        };
        match next {
            Piece::Stored(data) => {
                piece(socket, out, asked, framing, data, &held).await?;
                at += data.len() as u64;
            }
            Piece::Passed(data) => {
                piece(socket, out, asked, framing, &data, &held).await?;
                at += data.len() as u64;
            }
            Piece::End(trailers) => {
                end(out, framing, trailers.as_ref());
                asked.send(socket, out).await?;
                return Ok(at);
            }
            Piece::Broken => {
                asked.send(socket, out).await?;
                return Err(Cut::Origin);
            }
        }
    }
}

/// Sends a body that is for this client alone.
async fn pour(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    mut tail: mpsc::Receiver<Tail>,
    framing: Framing,
) -> Result<u64, Cut> {
    let mut at = 0;
    loop {
        let next = tokio::select! {
            biased;
            next = tail.recv() => next,
            () = socket.gone() => return Err(Cut::Client(Ended::Closed)),
        };
        match next {
            Some(Tail::Data(data)) => {
                piece(socket, out, asked, framing, &data, &|| 0).await?;
                at += data.len() as u64;
            }
            Some(Tail::End(trailers)) => {
                end(out, framing, trailers.as_ref());
                asked.send(socket, out).await?;
                return Ok(at);
            }
            None => {
                asked.send(socket, out).await?;
                return Err(Cut::Origin);
            }
        }
    }
}

/// Sends what was composed and one piece of the body, in one write where it fits.
async fn piece(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    framing: Framing,
    data: &[u8],
    pinned: &dyn Fn() -> u64,
) -> Result<(), Ended> {
    if framing == Framing::Chunked {
        chunked::write_chunk_head(data.len(), out.scratch());
    }
    let end: &[u8] = if framing == Framing::Chunked { b"\r\n" } else { b"" };
    let slices = [IoSlice::new(data), IoSlice::new(end)];
    asked.send_with(socket, out, &slices, pinned).await
}

fn end(out: &mut Out, framing: Framing, trailers: Option<&http::HeaderMap>) {
    if framing == Framing::Chunked {
        let lines = trailers.into_iter().flat_map(|map| map.iter());
        chunked::write_end(lines.map(|(name, value)| (name.as_str(), value.as_bytes())), out.scratch());
    }
}
