//! An `Origin` against a scripted server, over real sockets.
//!
//! The script is an async closure per connection, run on the same thread. Where a test is about a
//! timeout, only that timeout is short, and only the outcome is asserted.

mod pool;
mod requests;
mod responses;
mod secured;
mod server;
mod timeouts;
mod turns;
mod upgrade;

use std::{rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::{sync::mpsc, task::LocalSet};

use self::server::{Peer, Server};
use super::{
    BodyFrame, Interim, Origin, OriginCounters, OriginError, Request, RequestBody, Response,
};
use crate::settings::OriginSettings;

/// Runs a test as a worker thread runs: one thread, one `LocalSet`. A test that hangs fails.
fn worker(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let guarded = async { tokio::time::timeout(Duration::from_secs(60), test).await };
    let ended = LocalSet::new().block_on(&runtime, guarded);
    ended.expect("the test hangs");
}

fn origin(server: &Server) -> Rc<Origin> {
    origin_with(server, |_| {})
}

fn origin_with(server: &Server, change: impl FnOnce(&mut OriginSettings)) -> Rc<Origin> {
    let mut settings = OriginSettings {
        port: server.port(),
        connect_timeout: Duration::from_secs(50),
        first_byte_timeout: Duration::from_secs(50),
        between_bytes_timeout: Duration::from_secs(50),
        total_timeout: Duration::from_secs(50),
        ..OriginSettings::default()
    };
    change(&mut settings);
    Origin::new(Arc::new(settings), Arc::new(OriginCounters::default()))
}

fn request(method: Method, target: &str) -> Request {
    Request {
        method,
        target: target.to_owned(),
        visited: None,
        headers: HeaderMap::new(),
        body: RequestBody::Empty,
        upgrade: false,
        asker: super::Asker::default(),
    }
}

fn with_body(method: Method, length: Option<u64>) -> (Request, mpsc::Sender<BodyFrame>) {
    let (sender, frames) = mpsc::channel(4);
    let body = RequestBody::Stream { length, frames };
    (Request { body, ..request(method, "/upload") }, sender)
}

fn data(text: &'static str) -> BodyFrame {
    BodyFrame::Data(Bytes::from_static(text.as_bytes()))
}

fn fields(list: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    list.iter().map(pair).collect()
}

async fn get(origin: &Rc<Origin>, target: &str) -> Result<Response, OriginError> {
    origin.send(request(Method::GET, target), None).await
}

/// The content to its complete end.
async fn read(response: &mut Response) -> Result<String, OriginError> {
    let mut content = Vec::new();
    while let Some(piece) = response.body.chunk().await? {
        assert!(!piece.is_empty(), "pieces are never empty");
        content.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(content).expect("text"))
}

async fn fetch(origin: &Rc<Origin>, target: &str) -> Result<String, OriginError> {
    read(&mut get(origin, target).await?).await
}

/// The reason of a failure that must have happened.
fn reason<T>(result: Result<T, OriginError>) -> &'static str {
    result.err().map_or("no error", |error| error.reason())
}

fn interims() -> (Interim, super::InterimHeads) {
    super::interim(4)
}
