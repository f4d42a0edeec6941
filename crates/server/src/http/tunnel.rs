//! A connection that was upgraded (RFC 9110 section 7.8): from now on bytes, both ways, until both sides are done.

use tokio::io::{AsyncWriteExt, copy_bidirectional};

use super::{
    asked::Asked,
    deliver::Delivered,
    log::finish,
    socket::{Ended, Socket},
};
use crate::origin;

/// Ties the client's connection to the origin's. `early` is what the client sent after its request.
///
/// There is no timeout: a WebSocket may be silent for hours. The connection counts against the limit of clients'
/// connections for as long as it lasts, not against the origin's, and ends when either side closes both ways, or resets.
pub(crate) async fn run(
    asked: &Asked<'_, '_>,
    socket: &mut Socket,
    early: &[u8],
    upgraded: hyper::upgrade::OnUpgrade,
    mut delivered: Delivered,
) -> Result<bool, Ended> {
    delivered.keep = false;
    let Ok(mut tunnel) = origin::tunnel(upgraded).await else { return Err(Ended::Closed) };
    socket.watch.busy();
    socket.stream.write_all(&tunnel.early).await?;
    tunnel.stream.write_all(early).await?;
    let (up, down) = copy_bidirectional(&mut socket.stream, &mut tunnel.stream).await.unwrap_or_default();
    asked.worker.counters.bytes_in.add(up);
    asked.worker.counters.bytes_out.add(down);
    delivered.bytes += down;
    delivered.body_bytes = down;
    finish(asked, &delivered);
    Ok(false)
}
