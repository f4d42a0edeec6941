//! A request body of unknown length. An application is told the length first (CONTENT_LENGTH), so
//! such a body is collected before the request is sent: up to a limit in memory, beyond it in a
//! file that has no name. The HTTP side limits its size.

use std::{
    fs::{File, OpenOptions},
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Seek, Write},
    mem,
    os::unix::fs::OpenOptionsExt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    task::{spawn_blocking, spawn_local},
};

use crate::origin::{
    BodyFrame, OriginError, RequestBody,
    upload::{Aborted, Part, Upload},
};

/// Bytes kept in memory for one body; those beyond go to the file in pieces of this size.
const MEMORY_BYTES: usize = 64 << 10;
/// The most bytes of collected bodies, in memory and in files, of all requests of the process.
const COLLECTED_BYTES: u64 = 4 << 30;

/// Bytes of one collected body, counted among those of all.
#[derive(Default)]
struct Collected(u64);

impl Collected {
    fn add(&mut self, bytes: u64) -> Result<(), OriginError> {
        let all = COLLECTED.fetch_add(bytes, Relaxed) + bytes;
        self.0 += bytes;
        if all > COLLECTED_BYTES { Err(OriginError::TooManyConnections) } else { Ok(()) }
    }
}

static COLLECTED: AtomicU64 = AtomicU64::new(0);

impl Drop for Collected {
    fn drop(&mut self) {
        COLLECTED.fetch_sub(self.0, Relaxed);
    }
}

/// A body in memory.
struct Short {
    bytes: Vec<u8>,
    _collected: Collected,
}

impl AsRef<[u8]> for Short {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body to its end, and gives it back with its length.
pub(super) async fn spool(mut upload: Upload) -> Result<RequestBody, OriginError> {
    let (mut memory, mut file, mut length) = (Vec::new(), None, 0);
    let mut collected = Collected::default();
    loop {
        let data = match poll_fn(|cx| upload.poll_part(cx)).await {
            Ok(Part::Data(data)) => data,
            Ok(Part::Trailers(_)) => continue,
            Ok(Part::End) => break,
            Err(Aborted) => return Err(OriginError::BodyAborted),
        };
        collected.add(data.len() as u64)?;
        length += data.len() as u64;
        memory.extend_from_slice(&data);
        if memory.len() > MEMORY_BYTES {
            let piece = mem::take(&mut memory);
            file = Some(blocking(move || append(file, &piece)).await?);
        }
    }
    let (send, frames) = mpsc::channel(1);
    match file {
        None => {
            let body = Short { bytes: memory, _collected: collected };
            let _ = send.try_send(BodyFrame::Data(Bytes::from_owner(body)));
        }
        Some(file) => {
            let file = blocking(move || {
                let mut file = append(Some(file), &memory)?;
                file.rewind()?;
                Ok(file)
            })
            .await?;
            spawn_local(replay(file, collected, send));
        }
    }
    Ok(RequestBody::Stream { length: Some(length), frames })
}

/// Sends the file's content until it ends, or nobody wants it.
async fn replay(mut file: File, _collected: Collected, send: mpsc::Sender<BodyFrame>) {
    loop {
        let read = blocking(move || {
            let mut piece = Vec::with_capacity(MEMORY_BYTES);
            Read::by_ref(&mut file).take(MEMORY_BYTES as u64).read_to_end(&mut piece)?;
            Ok((file, piece))
        });
        let frame = match read.await {
            Ok((_, piece)) if piece.is_empty() => return,
            Ok((rest, piece)) => {
                file = rest;
                BodyFrame::Data(Bytes::from(piece))
            }
            Err(_) => {
                let _ = send.send(BodyFrame::Failed).await;
                return;
            }
        };
        if send.send(frame).await.is_err() {
            return;
        }
    }
}

fn append(file: Option<File>, piece: &[u8]) -> io::Result<File> {
    let mut file = file.map_or_else(nameless, Ok)?;
    file.write_all(piece)?;
    Ok(file)
}

/// A new file in the system's directory for temporary ones, whose name is gone already.
fn nameless() -> io::Result<File> {
    // Others cannot make a file of that name beforehand.
    let random = RandomState::new().hash_one(std::process::id());
    let path = std::env::temp_dir().join(format!("larder-body-{random:016x}"));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, OriginError> {
    let done = spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(OriginError::Local)
}
