//! A body that the store takes no more of: its readers get the rest directly.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::timeout,
};

use crate::{
    fetch::job::Job,
    origin::{LONGEST_PIECE, Response},
    page::{
        flight::{Streaming, Tail},
        writer::PageFill,
    },
    room::Holding,
};

/// Memory of a body that no longer goes through the store: of a piece in the readers' channels, one
/// that waits for them, and what was read with them.
const PIECES: u64 = 3 * LONGEST_PIECE as u64;
/// How long one of several readers may hold up the others once the body no longer goes through the
/// store.
const SPILL_PATIENCE: Duration = Duration::from_secs(2);

/// The store takes no more: who follows gets the rest directly, at the pace of the slowest.
/// Readers are cut off where there is no room for the pieces that wait for them.
pub(super) async fn spill(
    job: &Job,
    fill: PageFill,
    streaming: &Streaming,
    first: Bytes,
    mut response: Response,
) {
    let mut tails = streaming.spill();
    drop(fill);
    let mut holding = Holding::new(&job.pages.shared.room);
    let holder = holding.holder().clone();
    if !holding.wait_for(PIECES).await {
        return;
    }
    let sends = async {
        let mut next = Ok(Some(first));
        while let Ok(Some(data)) = next {
            holder.moves(job.pages.clock.now());
            send_all(job, &mut tails, || Tail::Data(data.clone())).await;
            if tails.is_empty() {
                return;
            }
            next = response.body.chunk().await;
        }
        if next.is_ok() {
            let trailers = response.body.trailers();
            send_all(job, &mut tails, || Tail::End(trailers.clone())).await;
        }
    };
    tokio::select! {
        () = sends => {}
        () = holder.killed() => {}
    }
}

/// Waits [`SPILL_PATIENCE`] for all readers that are behind, together: then they are cut off, so
/// that those that stand still do not hold up the others. One that is alone may stand still, if few
/// of its address do.
async fn send_all(job: &Job, tails: &mut Vec<mpsc::Sender<Tail>>, piece: impl Fn() -> Tail) {
    let mut behind = Vec::new();
    let alone = tails.len() == 1;
    tails.retain(|tail| match tail.try_send(piece()) {
        Ok(()) => true,
        Err(TrySendError::Closed(_)) => false,
        Err(TrySendError::Full(piece)) => {
            behind.push((tail.clone(), piece));
            false
        }
    });
    let room = async {
        for (tail, _) in &behind {
            drop(tail.reserve().await);
        }
    };
    let _in_time = timeout(SPILL_PATIENCE, room).await;
    for (tail, piece) in behind {
        let sent = match tail.try_send(piece) {
            Ok(()) => true,
            Err(TrySendError::Full(piece)) if alone => {
                let stall = job.pages.shared.stalls.enter(job.address);
                stall.is_some() && tail.send(piece).await.is_ok()
            }
            Err(_) => false,
        };
        if sent {
            tails.push(tail);
        }
    }
}
