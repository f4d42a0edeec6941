//! A connection that was upgraded (RFC 9110 section 7.8): from now on bytes, both ways, until both
//! sides are done.

use tokio::io::{AsyncWriteExt, copy_bidirectional};

use crate::origin;
use crate::{
    http::{deliver::Delivered, exchange::Exchange, log::finish},
    net::socket::{Ended, Socket},
};

/// Ties the client's connection to the origin's. `early` is what the client sent after its request.
///
/// There is no timeout: a WebSocket may be silent for hours. The connection counts against the
/// limit of clients' connections for as long as it lasts, not against the origin's, and ends when
/// either side closes both ways, or resets.
pub(crate) async fn run(
    exchange: &Exchange<'_, '_>,
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
    let (up, down) =
        copy_bidirectional(&mut socket.stream, &mut tunnel.stream).await.unwrap_or_default();
    exchange.request.pages.counters.bytes_in.add(up);
    exchange.request.pages.counters.bytes_out.add(down);
    delivered.bytes += down;
    delivered.body_bytes = down;
    finish(exchange, &delivered);
    Ok(false)
}
