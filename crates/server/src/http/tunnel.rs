//! A connection that was upgraded (RFC 9110 section 7.8): from now on bytes, both ways, until both
//! sides are done.

use std::{pin::pin, rc::Rc};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};

use crate::{
    http::{
        body::{Buffer, Received},
        deliver::Delivered,
        exchange::Exchange,
        log::finish,
    },
    net::{out::Out, socket::Ended},
    origin::Tunnel,
    wire::stream::{BodyPiece, Stream},
};

/// Room for what is read from the origin at a time.
const PIECE: usize = 16 * 1024;

/// Ties the client's connection to the origin's. Bytes that the client has sent behind its request
/// go first.
///
/// There is no timeout: a WebSocket may be silent for hours. The connection counts against the
/// limit of clients' connections for as long as it lasts, not against the origin's, and ends when
/// either side closes both ways, or resets.
pub(crate) async fn run(
    exchange: &Exchange<'_, '_>,
    received: &mut Received<'_>,
    out: &mut Out,
    mut tunnel: Tunnel,
    mut delivered: Delivered,
) -> Result<bool, Ended> {
    delivered.keep = false;
    let down = match received {
        Received::H1(Buffer { socket, buf, at }) => {
            socket.watch.busy();
            let mut client = &socket.stream;
            client.write_all(&tunnel.early).await?;
            tunnel.stream.write_all(&buf[**at..]).await?;
            let copied = copy_bidirectional(&mut client, &mut tunnel.stream).await;
            let (up, down) = copied.unwrap_or_default();
            exchange.request.pages.counters.bytes_in.add(up);
            exchange.request.pages.counters.bytes_out.add(down);
            down
        }
        Received::Stream(stream) => {
            out.scratch().extend_from_slice(&tunnel.early);
            let (mut read, mut write) = tokio::io::split(tunnel.stream);
            let client_to_origin = upload(stream, &mut write);
            let origin_to_client = download(stream, out, &mut read);
            // The connection counts its bytes.
            both(client_to_origin, origin_to_client).await?
        }
    };
    delivered.bytes += down;
    delivered.body_bytes = down;
    finish(exchange, &delivered);
    Ok(false)
}

/// Ends with the way down: the origin sends nothing more, and the client's stream ends there. A
/// client that sends nothing more may go on receiving.
async fn both(
    up: impl Future<Output = Result<u64, Ended>>,
    down: impl Future<Output = Result<u64, Ended>>,
) -> Result<u64, Ended> {
    let (mut up, mut down) = (pin!(up), pin!(down));
    tokio::select! {
        biased;
        ended = &mut down => ended,
        ended = &mut up => {
            ended?;
            down.await
        }
    }
}

/// From a stream of HTTP/2 or 3 to the origin, until the client ends it. Returns how many bytes.
async fn upload(stream: &Rc<Stream>, origin: &mut (impl AsyncWrite + Unpin)) -> Result<u64, Ended> {
    let mut bytes = 0;
    loop {
        while !stream.has(1) {
            stream.received().await?;
        }
        match stream.take_piece() {
            BodyPiece::Data(data) => {
                origin.write_all(&data).await?;
                bytes += data.len() as u64;
            }
            BodyPiece::End(_) => {
                origin.shutdown().await?;
                return Ok(bytes);
            }
        }
    }
}

/// From the origin to a stream of HTTP/2 or 3, until the origin ends it. Returns how many bytes.
async fn download(
    stream: &Rc<Stream>,
    out: &mut Out,
    origin: &mut (impl AsyncRead + Unpin),
) -> Result<u64, Ended> {
    let mut bytes = 0;
    loop {
        bytes += stream.send(out).await?;
        let room = out.scratch();
        room.reserve(PIECE);
        if origin.read_buf(room).await? == 0 {
            return Ok(bytes);
        }
    }
}
