//! The exporter: a thread that gathers spans and posts them to the collector, batch by batch.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, sync::mpsc, time::timeout};

use super::{Counts, Span, otlp};
use crate::settings::TracingSettings;

/// Spans of one request to the collector.
const BATCH: usize = 512;
/// Age at which a batch is sent that is not full.
const AGE: Duration = Duration::from_secs(1);
/// Time limit for one request to the collector, with connection and answer; then the batch is
/// dropped.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the collector's answer that are read.
const ANSWER: usize = 64 * 1024;

pub(super) fn start(
    settings: TracingSettings,
    spans: mpsc::Receiver<Span>,
    counts: Arc<Counts>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("larder-trace".to_owned())
        .spawn(move || runtime.block_on(run(settings, spans, counts)))?;
    Ok(())
}

/// Sends spans until the last tracer is dropped and its spans are sent.
async fn run(settings: TracingSettings, mut spans: mpsc::Receiver<Span>, counts: Arc<Counts>) {
    let mut failing = false;
    loop {
        let mut batch = Vec::new();
        if spans.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let _ = timeout(AGE, async {
            while batch.len() < BATCH {
                let room = BATCH - batch.len();
                if spans.recv_many(&mut batch, room).await == 0 {
                    return;
                }
            }
        })
        .await;
        let count = batch.len() as u64;
        let body = otlp::encode(&settings.service, batch);
        match timeout(TIMEOUT, post(&settings, body))
            .await
            .unwrap_or_else(|_| Err("no answer in time".into()))
        {
            Ok(()) => {
                failing = false;
                counts.exported.fetch_add(count, Relaxed);
            }
            Err(reason) => {
                counts.dropped.fetch_add(count, Relaxed);
                // Reported once, until it works again.
                if !std::mem::replace(&mut failing, true) {
                    eprintln!(
                        "larder: the collector at {}:{} takes no traces: {reason}",
                        settings.host, settings.port
                    );
                }
            }
        }
    }
}

async fn post(
    settings: &TracingSettings,
    body: Vec<u8>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect((settings.host.as_str(), settings.port)).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let host = if settings.host.contains(':') {
        format!("[{}]", settings.host)
    } else {
        settings.host.clone()
    };
    let request = http::Request::post(&settings.path)
        .header("host", format!("{host}:{}", settings.port))
        .header("content-type", "application/x-protobuf")
        .header("user-agent", concat!("larder/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(body)))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    // The answer is read so that the collector is not cut off; only its status matters.
    let _ = Limited::new(response.into_body(), ANSWER).collect().await;
    drop(sender);
    driver.abort();
    if status.is_success() { Ok(()) } else { Err(format!("it answers {status}").into()) }
}
