//! Asks an application whether it answers.

use std::{io, time::Duration};

use larder_server::settings::{AppProtocol, AppSettings};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::{sleep, timeout},
};

use super::socket::Place;

/// Between two questions.
const AGAIN: Duration = Duration::from_millis(50);

/// Time for one answer.
const ANSWER: Duration = Duration::from_secs(5);

/// FCGI_GET_VALUES for FCGI_MPXS_CONNS, without a request (section 4.1 of the specification).
const GET_VALUES: &[u8] = b"\x01\x09\0\0\0\x11\0\0\x0f\0FCGI_MPXS_CONNS";

/// Returns when the application answers.
pub(super) async fn ready(settings: &AppSettings, place: &Place) {
    let question = match (settings.protocol, &settings.ready) {
        (AppProtocol::FastCgi, _) => GET_VALUES.to_vec(),
        (AppProtocol::Http, Some(path)) => {
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into()
        }
        // The kernel accepts connections for it.
        (AppProtocol::Http, None) => return,
    };
    loop {
        let answered = timeout(ANSWER, ask(place, &question)).await;
        if let Ok(Some(answer)) = answered
            && is_good(settings.protocol, &answer)
        {
            return;
        }
        sleep(AGAIN).await;
    }
}

/// The first bytes of the answer. None: there was no connection.
async fn ask(place: &Place, question: &[u8]) -> Option<Vec<u8>> {
    match place {
        Place::Unix(path) => answer(UnixStream::connect(path).await.ok()?, question).await,
        Place::Tcp(address) => answer(TcpStream::connect(address).await.ok()?, question).await,
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    question: &[u8],
) -> Option<Vec<u8>> {
    stream.write_all(question).await.ok()?;
    // `HTTP/1.1 200`
    let mut head = [0; 12];
    let mut read = 0;
    while read < head.len() {
        match stream.read(&mut head[read..]).await {
            Ok(0) => break,
            Ok(more) => read += more,
            // It was closed before the whole question was read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(_) => return None,
        }
    }
    Some(head[..read].to_vec())
}

/// An application of FastCGI that closes the connection has accepted it: not all know the question.
fn is_good(protocol: AppProtocol, answer: &[u8]) -> bool {
    match protocol {
        AppProtocol::FastCgi => true,
        AppProtocol::Http => {
            let status = answer.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2));
            status.is_some_and(|class| (b'1'..b'5').contains(class))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let good = |answer: &[u8]| is_good(AppProtocol::Http, answer);
        assert!(good(b"HTTP/1.1 200") && good(b"HTTP/1.0 404"));
        assert!(!good(b"HTTP/1.1 503") && !good(b"") && !good(b"SSH-2.0-Open"));
        assert!(is_good(AppProtocol::FastCgi, b""));
        assert_eq!(GET_VALUES.len(), 8 + 0x11);
    }
}
