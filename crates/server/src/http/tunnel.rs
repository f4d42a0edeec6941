//! A connection that was upgraded (RFC 9110 section 7.8): from now on bytes, both ways, until both
//! sides are done.

use tokio::io::{AsyncWriteExt, copy_bidirectional};

use crate::origin;
use crate::{
    http::{
        body::{Buffer, Received},
        deliver::Delivered,
        exchange::Exchange,
        log::finish,
    },
    net::socket::Ended,
};

/// Ties the client's connection to the origin's. Bytes that the client has sent behind its request
/// go first.
///
/// There is no timeout: a WebSocket may be silent for hours. The connection counts against the
/// limit of clients' connections for as long as it lasts, not against the origin's, and ends when
/// either side closes both ways, or resets.
pub(crate) async fn run(
    exchange: &Exchange<'_, '_>,
    received: &mut Received<'_>,
    upgraded: hyper::upgrade::OnUpgrade,
    mut delivered: Delivered,
) -> Result<bool, Ended> {
    delivered.keep = false;
    // A stream of HTTP/2 is not upgraded.
    let Received::H1(Buffer { socket, buf, at }) = received else { return Err(Ended::Closed) };
    let Ok(mut tunnel) = origin::tunnel(upgraded).await else { return Err(Ended::Closed) };
    socket.watch.busy();
    let mut client = &socket.stream;
    client.write_all(&tunnel.early).await?;
    tunnel.stream.write_all(&buf[**at..]).await?;
    let (up, down) = copy_bidirectional(&mut client, &mut tunnel.stream).await.unwrap_or_default();
    exchange.request.pages.counters.bytes_in.add(up);
    exchange.request.pages.counters.bytes_out.add(down);
    delivered.bytes += down;
    delivered.body_bytes = down;
    finish(exchange, &delivered);
    Ok(false)
}
