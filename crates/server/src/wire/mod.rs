//! The protocols that clients speak. Each owns its bytes; a response is composed by calls that name
//! no protocol.
//!
//! An answer is composed as a head of HTTP/1 and its body. [`h1`] sends it as it is; a connection
//! whose requests come on a [`stream`] each, of HTTP/2 or 3, makes frames of it.

use std::{io::IoSlice, rc::Rc};

use http::HeaderMap;

use crate::net::{
    out::Out,
    socket::{Ended, Pace, Socket, Watch},
};

pub(crate) mod file;
pub(crate) mod h1;
pub(crate) mod meta;
pub(crate) mod stream;

/// The way to the client of one request that waits.
#[derive(Clone, Copy)]
pub(crate) enum Wire<'c> {
    H1(&'c Socket),
    /// HTTP/2 or 3.
    Stream(&'c Rc<stream::Stream>),
}

impl Wire<'_> {
    /// Other requests of the connection wait as well.
    pub(crate) fn has_company(self) -> bool {
        match self {
            Self::H1(_) => false,
            Self::Stream(stream) => stream.has_company,
        }
    }

    /// Sends all of `out`, at the pace of the client. Returns how many bytes that were.
    pub(crate) async fn send(self, out: &mut Out, pace: &mut Pace<'_>) -> Result<u64, Ended> {
        match self {
            Self::H1(socket) => socket.flush(out, pace).await,
            Self::Stream(stream) => stream.send(out).await,
        }
    }

    /// Sends all of `out` (composed bytes only) and `more` behind it, for which `pinned` bytes of
    /// the store are held.
    pub(crate) async fn send_with(
        self,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
        pace: &mut Pace<'_>,
    ) -> Result<u64, Ended> {
        match self {
            Self::H1(socket) => socket.send_with(out, more, pinned, pace).await,
            Self::Stream(stream) => stream.send_with(out, more, pinned).await,
        }
    }

    /// Ends when the client has left.
    pub(crate) async fn gone(self) {
        match self {
            Self::H1(socket) => socket.gone().await,
            Self::Stream(stream) => stream.gone().await,
        }
    }

    /// The watch of the connection.
    pub(crate) fn watch(&self) -> &Watch {
        match self {
            Self::H1(socket) => &socket.watch,
            Self::Stream(stream) => stream.watch(),
        }
    }

    /// A request is under way: no deadline but those its steps set.
    pub(crate) fn busy(self) {
        if let Self::H1(socket) = self {
            socket.watch.busy();
        }
    }

    /// A deadline that passed is forgotten: there is something left to say.
    pub(crate) fn forgive(self) {
        if let Self::H1(socket) = self {
            socket.watch.forgive();
        }
    }

    /// The end of the connection is not to be taken for the end of the body.
    pub(crate) fn reset(self) {
        if let Self::H1(socket) = self {
            socket.reset();
        }
    }

    /// Ends a streamed body: appends what comes behind it.
    pub(crate) fn end(self, framing: h1::Framing, trailers: Option<&HeaderMap>, out: &mut Out) {
        match self {
            Self::H1(_) => framing.end(trailers, out.scratch()),
            Self::Stream(stream) => stream.set_trailers(trailers),
        }
    }
}
