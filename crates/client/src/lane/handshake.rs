//! Handshake of a connection: authentication, and detection of the server's dialect.

use bytes::{Buf, BytesMut};
use larder_proto::memcache::client::{Decoded, Done, Replies, Reply, binary, meta, text};
use std::{io, sync::atomic::Ordering::Relaxed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    Lane, closed,
    stream::Stream,
    wire::{Dialect, fault, words},
};
use crate::{Auth, Error, Protocol};

/// Limit for the handshake's replies, in bytes: a few lines.
const GREETING: usize = 64 << 10;

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct ReadyConnection {
    pub(super) stream: Stream,
    pub(super) dialect: Dialect,
    /// Bytes received after the handshake.
    pub(super) buffer: BytesMut,
}

/// A reply during the handshake.
enum HandshakeReply {
    Noop,
    Version(String),
    Fine,
    Error(Error),
    Other,
}

/// Connects and performs the handshake. With `ask`, at least one reply must have come from the
/// server.
pub(super) async fn connect(lane: &Lane, ask: bool) -> Result<ReadyConnection, Error> {
    match once(lane, ask).await {
        // Some proxies close the connection at an unknown command.
        Err(Error::Closed(_)) if asks_for_meta(lane) => {
            lane.only_text();
            once(lane, ask).await
        }
        other => other,
    }
}

fn asks_for_meta(lane: &Lane) -> bool {
    lane.protocol == Protocol::Auto && !lane.text_only.load(Relaxed)
}

async fn once(lane: &Lane, ask: bool) -> Result<ReadyConnection, Error> {
    let stream = Stream::by(lane.connector.as_ref(), &lane.address).await;
    let stream = stream.map_err(|error| Error::Connect(error.kind()))?;
    let binary = lane.protocol == Protocol::Binary;
    let replies = if binary { Replies::binary(GREETING) } else { Replies::new(GREETING) };
    let mut handshake = Handshake { stream, replies, buffer: BytesMut::new() };
    handshake.authenticate(lane).await?;
    let dialect = match lane.protocol {
        Protocol::Binary => Dialect::Binary,
        Protocol::Text => Dialect::Text,
        Protocol::Meta => Dialect::Meta,
        Protocol::Auto if !asks_for_meta(lane) => Dialect::Text,
        Protocol::Auto => {
            let dialect = handshake.speaks().await?;
            return Ok(ReadyConnection {
                stream: handshake.stream,
                dialect,
                buffer: handshake.buffer,
            });
        }
    };
    if ask {
        let mut request = Vec::new();
        if binary {
            binary::version(0, &mut request)
        } else {
            text::version(&mut request)
        }
        handshake.send(&request).await?;
        if let HandshakeReply::Error(error) = handshake.receive().await? {
            return Err(error);
        }
    }
    Ok(ReadyConnection { stream: handshake.stream, dialect, buffer: handshake.buffer })
}

struct Handshake {
    stream: Stream,
    replies: Replies,
    buffer: BytesMut,
}

impl Handshake {
    async fn authenticate(&mut self, lane: &Lane) -> Result<(), Error> {
        let mut request = Vec::new();
        match &lane.auth {
            None => return Ok(()),
            Some(Auth::Ascii { user, password }) => {
                text::authenticate(user.as_bytes(), password.as_bytes(), &mut request);
            }
            Some(Auth::SaslPlain { user, password }) => {
                binary::authenticate(user.as_bytes(), password.as_bytes(), 0, &mut request);
            }
        }
        self.send(&request).await?;
        match self.receive().await? {
            HandshakeReply::Fine => Ok(()),
            HandshakeReply::Error(Error::Auth(reply_text) | Error::Refused(reply_text)) => {
                Err(Error::Auth(reply_text))
            }
            HandshakeReply::Error(error) => Err(error),
            _ => Err(Error::Auth(
                "the server does not answer as one that asks for a password".to_owned(),
            )),
        }
    }

    /// The dialect: meta if the server has the meta commands in the form of memcached 1.6.10 and
    /// later.
    async fn speaks(&mut self) -> Result<Dialect, Error> {
        let mut request = Vec::new();
        meta::noop(&mut request);
        text::version(&mut request);
        self.send(&request).await?;
        let noop = self.receive().await?;
        if let HandshakeReply::Error(error @ Error::Auth(_)) = noop {
            return Err(error);
        }
        let version = self.receive().await?;
        Ok(match (noop, version) {
            (HandshakeReply::Noop, HandshakeReply::Version(version)) if is_early(&version) => {
                Dialect::Text
            }
            (HandshakeReply::Noop, _) => Dialect::Meta,
            _ => Dialect::Text,
        })
    }

    async fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.stream.write_all(request).await.map_err(|error| closed(&error))?;
        self.stream.flush().await.map_err(|error| closed(&error))
    }

    async fn receive(&mut self) -> Result<HandshakeReply, Error> {
        loop {
            let (reply, used) = match self.replies.next(&self.buffer) {
                Decoded::Reply(reply, used) => (classify(reply), used),
                Decoded::Broken(why) => return Err(Error::Protocol(why.to_string())),
                Decoded::Incomplete { .. } => {
                    if self.buffer.len() > GREETING {
                        return Err(Error::Protocol("a greeting without an end".to_owned()));
                    }
                    let read = self
                        .stream
                        .read_buf(&mut self.buffer)
                        .await
                        .map_err(|error| closed(&error))?;
                    if read == 0 {
                        return Err(Error::Closed(io::ErrorKind::UnexpectedEof));
                    }
                    continue;
                }
            };
            self.buffer.advance(used);
            return Ok(reply);
        }
    }
}

fn classify(reply: Reply<'_>) -> HandshakeReply {
    match reply {
        Reply::Noop(_) => HandshakeReply::Noop,
        Reply::Version(version) => HandshakeReply::Version(words(version)),
        Reply::Done(Done::Stored | Done::Ok | Done::Done, _) => HandshakeReply::Fine,
        Reply::Error(by, reply_text, _) => HandshakeReply::Error(fault(by, reply_text)),
        _ => HandshakeReply::Other,
    }
}

/// Whether this is a version of memcached before 1.6.10.
fn is_early(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse::<u32>().unwrap_or(0)
    });
    let mut part = || parts.next().unwrap_or(0);
    let number = (part(), part(), part());
    // memcached has no versions 0.x; Larder does.
    number.0 == 1 && number < (1, 6, 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_versions_are_known() {
        for early in ["1.4.39", "1.5.22", "1.6.9", "1.6.0_beta"] {
            assert!(is_early(early), "{early}");
        }
        for late in ["1.6.10", "1.6.18", "1.6.39", "0.1.0", "larder", "2.0"] {
            assert!(!is_early(late), "{late}");
        }
    }
}
