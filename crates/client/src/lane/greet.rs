//! The first bytes of a connection: who we are, and what the server speaks.

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

/// Longest greeting, bytes: a few lines.
const GREETING: usize = 64 << 10;

/// A connection that may be used.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) stream: Stream,
    pub(super) dialect: Dialect,
    /// What was received behind the greeting.
    pub(super) buffer: BytesMut,
}

/// What a greeting was answered with.
enum Said {
    Noop,
    Version(String),
    Fine,
    Error(Error),
    Other,
}

/// Connects and greets; with `ask`, the server must have answered something.
pub(super) async fn connect(lane: &Lane, ask: bool) -> Result<Greeted, Error> {
    match once(lane, ask).await {
        // Some proxies end the connection at a command they do not know.
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

async fn once(lane: &Lane, ask: bool) -> Result<Greeted, Error> {
    let stream = Stream::by(lane.connector.as_ref(), &lane.address).await;
    let stream = stream.map_err(|error| Error::Connect(error.kind()))?;
    let binary = lane.protocol == Protocol::Binary;
    let replies = if binary { Replies::binary(GREETING) } else { Replies::new(GREETING) };
    let mut talk = Talk { stream, replies, buffer: BytesMut::new() };
    talk.authenticate(lane).await?;
    let dialect = match lane.protocol {
        Protocol::Binary => Dialect::Binary,
        Protocol::Text => Dialect::Text,
        Protocol::Meta => Dialect::Meta,
        Protocol::Auto if !asks_for_meta(lane) => Dialect::Text,
        Protocol::Auto => {
            let dialect = talk.speaks().await?;
            return Ok(Greeted { stream: talk.stream, dialect, buffer: talk.buffer });
        }
    };
    if ask {
        let mut request = Vec::new();
        if binary {
            binary::version(0, &mut request)
        } else {
            text::version(&mut request)
        }
        talk.send(&request).await?;
        if let Said::Error(error) = talk.hear().await? {
            return Err(error);
        }
    }
    Ok(Greeted { stream: talk.stream, dialect, buffer: talk.buffer })
}

struct Talk {
    stream: Stream,
    replies: Replies,
    buffer: BytesMut,
}

impl Talk {
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
        match self.hear().await? {
            Said::Fine => Ok(()),
            Said::Error(Error::Auth(said) | Error::Refused(said)) => Err(Error::Auth(said)),
            Said::Error(error) => Err(error),
            _ => Err(Error::Auth("the server does not answer as one that asks for a password".to_owned())),
        }
    }

    /// Whether it has the meta commands as they are since memcached 1.6.10; before, they looked otherwise.
    async fn speaks(&mut self) -> Result<Dialect, Error> {
        let mut request = Vec::new();
        meta::noop(&mut request);
        text::version(&mut request);
        self.send(&request).await?;
        let noop = self.hear().await?;
        if let Said::Error(error @ Error::Auth(_)) = noop {
            return Err(error);
        }
        let version = self.hear().await?;
        Ok(match (noop, version) {
            (Said::Noop, Said::Version(version)) if is_early(&version) => Dialect::Text,
            (Said::Noop, _) => Dialect::Meta,
            _ => Dialect::Text,
        })
    }

    async fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.stream.write_all(request).await.map_err(|error| closed(&error))?;
        self.stream.flush().await.map_err(|error| closed(&error))
    }

    async fn hear(&mut self) -> Result<Said, Error> {
        loop {
            let (said, used) = match self.replies.next(&self.buffer) {
                Decoded::Reply(reply, used) => (said(reply), used),
                Decoded::Broken(why) => return Err(Error::Protocol(why.to_string())),
                Decoded::Incomplete { .. } => {
                    if self.buffer.len() > GREETING {
                        return Err(Error::Protocol("a greeting without an end".to_owned()));
                    }
                    let read =
                        self.stream.read_buf(&mut self.buffer).await.map_err(|error| closed(&error))?;
                    if read == 0 {
                        return Err(Error::Closed(io::ErrorKind::UnexpectedEof));
                    }
                    continue;
                }
            };
            self.buffer.advance(used);
            return Ok(said);
        }
    }
}

fn said(reply: Reply<'_>) -> Said {
    match reply {
        Reply::Noop(_) => Said::Noop,
        Reply::Version(version) => Said::Version(words(version)),
        Reply::Done(Done::Stored | Done::Ok | Done::Done, _) => Said::Fine,
        Reply::Error(by, said, _) => Said::Error(fault(by, said)),
        _ => Said::Other,
    }
}

/// Whether a version is one of memcached's before 1.6.10.
fn is_early(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse::<u32>().unwrap_or(0)
    });
    let mut part = || parts.next().unwrap_or(0);
    let number = (part(), part(), part());
    // 0.x is none of memcached's (Larder's own begins there).
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
