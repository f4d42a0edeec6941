//! Queries to a server: connect, detect its kind, read its statistics. Every wait and answer has a
//! limit; the caller sets a time limit for the whole.

use std::{
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Instant,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use larder_proto::memcache::client::{Decoded, Replies, Reply, text as memcache};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

use crate::{
    address::{Endpoint, Kind, RedisLogin},
    sample::{self, Details, Sample},
    text::{self, Text, brief, clean},
};

/// Limit for an answer of an admin API, in bytes: some thousand sites. A longer one is a failure.
const ANSWER_BYTES: usize = 8 << 20;
/// Limit for the statistics of memcached or Redis, which have a few hundred lines.
const STATS_BYTES: u64 = 1 << 20;
/// Limit for the head and transfer coding of an HTTP answer.
const HEAD_BYTES: u64 = 1 << 20;
/// Bytes read to detect the kind of a server.
const PROBE_BYTES: u64 = 512;

/// A TCP or unix connection.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Connects.
pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Box<dyn Wire>, String> {
    match endpoint {
        Endpoint::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
        Endpoint::Tls(host, port) => {
            let connector = TlsConnector::from(TRUST.clone()?);
            let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
            let shaken = connector.connect(name, tcp(host, *port).await?).await;
            Ok(Box::new(shaken.map_err(|error| why(&error))?))
        }
        Endpoint::Unix(path) => Ok(Box::new(unix(path).await?)),
    }
}

async fn tcp(host: &str, port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((host, port)).await.map_err(|error| why(&error))?;
    // Optional: the requests are single small writes.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// TLS by the authorities of the system, or by those of `SSL_CERT_FILE`.
static TRUST: LazyLock<Result<Arc<ClientConfig>, String>> =
    LazyLock::new(|| larder_trust::client_config().map(Arc::new));

async fn unix(path: &PathBuf) -> Result<UnixStream, String> {
    UnixStream::connect(path).await.map_err(|error| why(&error))
}

/// A short description of an error.
fn why(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::NotFound => "no such socket".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::ConnectionReset => "connection reset".to_owned(),
        ErrorKind::UnexpectedEof => "connection closed in the middle of an answer".to_owned(),
        _ => clean(&error.to_string()).into_owned(),
    }
}

/// Detects the kind of server that listens. Sends `version`: harmless to memcached, unknown to
/// Redis, a bad request to HTTP. (Redis would treat an HTTP request as an attack and log it.)
pub(crate) async fn kind(endpoint: &Endpoint) -> Result<Kind, String> {
    let mut wire = connect(endpoint).await?;
    wire.write_all(b"version\r\n").await.map_err(|error| why(&error))?;
    let mut line = Vec::new();
    BufReader::new(wire.take(PROBE_BYTES))
        .read_until(b'\n', &mut line)
        .await
        .map_err(|error| why(&error))?;
    kind_of(&line).ok_or_else(|| {
        "answers neither as a Larder's admin API nor as memcached or Redis".to_owned()
    })
}

fn kind_of(line: &[u8]) -> Option<Kind> {
    let is = |begins: &[&str]| begins.iter().any(|begin| line.starts_with(begin.as_bytes()));
    if is(&["HTTP/1."]) {
        Some(Kind::Larder)
    } else if is(&["VERSION ", "ERROR", "CLIENT_ERROR", "SERVER_ERROR"]) {
        Some(Kind::Memcached)
    } else if is(&["-ERR", "-NOAUTH", "-NOPERM", "-DENIED", "-LOADING"]) {
        Some(Kind::Redis)
    } else {
        None
    }
}

/// Credentials that may be sent to a server.
#[derive(Clone, Default)]
pub(crate) struct Login {
    /// Token for an admin API.
    pub(crate) token: Option<String>,
    pub(crate) redis: Option<RedisLogin>,
}

/// Queries a server once.
///
/// # Errors
///
/// A short reason, safe to display.
pub(crate) async fn query(
    endpoint: &Endpoint,
    kind: Kind,
    login: &Login,
    details: bool,
) -> Result<Sample, String> {
    let started = Instant::now();
    match kind {
        Kind::Larder => {
            let token = login.token.as_deref();
            let answer = fetch(endpoint, "/api/v1/stats", token).await?;
            let mut sample = sample::from_larder(&answer, Instant::now(), started.elapsed())?;
            if details {
                sample.details = Some(Box::new(fetch_details(endpoint, token).await));
            }
            Ok(sample)
        }
        Kind::Memcached => {
            let lines = memcached_stats(endpoint).await?;
            Ok(sample::from_memcached(lines, Instant::now(), started.elapsed()))
        }
        Kind::Redis => {
            let lines = redis_info(endpoint, login.redis.as_ref()).await?;
            Ok(sample::from_redis(lines, Instant::now(), started.elapsed()))
        }
    }
}

/// Parts that an older Larder, or one without that face, does not have stay empty.
async fn fetch_details(endpoint: &Endpoint, token: Option<&str>) -> Details {
    async fn part<T: Default + serde::de::DeserializeOwned>(
        endpoint: &Endpoint,
        path: &str,
        token: Option<&str>,
    ) -> T {
        match fetch(endpoint, path, token).await {
            Ok(answer) => text::from_json(&answer).unwrap_or_default(),
            Err(_) => T::default(),
        }
    }
    Details {
        urls: part(endpoint, "/api/v1/top?by=requests&limit=20", token).await,
        memcached_keys: part(endpoint, "/api/v1/keys?face=memcached&limit=20", token).await,
        redis_keys: part(endpoint, "/api/v1/keys?face=redis&limit=20", token).await,
    }
}

/// Sends a GET and returns head and unread body. At most `most` bytes are read in total, including
/// interim heads (`100 Continue`), which a server could send without end.
pub(crate) async fn request(
    endpoint: &Endpoint,
    path: &str,
    token: Option<&str>,
    accept: &str,
    most: u64,
) -> Result<hyper::Response<Incoming>, String> {
    let (from, to) = tokio::io::split(connect(endpoint).await?);
    let wire = tokio::io::join(from.take(most), to);
    let mut request = Request::get(path)
        .header("host", endpoint.to_string())
        .header("accept", accept)
        .header("user-agent", concat!("larder/", env!("CARGO_PKG_VERSION")));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|_| "the address or token has odd signs".to_owned())?;
    let no_http = |error: hyper::Error| match error.is_parse() || error.is_incomplete_message() {
        true => "does not answer in HTTP".to_owned(),
        false => clean(&error.to_string()).into_owned(),
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(no_http)?;
    // The task ends with the connection, which ends when the answer is dropped.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(no_http)
}

/// Error text: the admin API requires a token, or another one.
pub(crate) const REFUSED: &str = "refuses: give --token-file";

/// Error text for a status other than 200.
pub(crate) fn refused(status: u16) -> String {
    match status {
        401 | 403 => REFUSED.to_owned(),
        404 => "answers 404: not a Larder's admin address".to_owned(),
        status => format!("answers {status}"),
    }
}

async fn fetch(endpoint: &Endpoint, path: &str, token: Option<&str>) -> Result<Bytes, String> {
    let most = ANSWER_BYTES as u64 + HEAD_BYTES;
    let answer = request(endpoint, path, token, "application/json", most).await?;
    if answer.status() != 200 {
        return Err(refused(answer.status().as_u16()));
    }
    read_all(answer.into_body()).await
}

/// Reads a body, up to the limit.
pub(crate) async fn read_all(body: Incoming) -> Result<Bytes, String> {
    let body = Limited::new(body, ANSWER_BYTES).collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| clean(&error.to_string()).into_owned())
}

/// Reader of lines, at most [`STATS_BYTES`] in total.
struct Lines(BufReader<tokio::io::Take<Box<dyn Wire>>>);

impl Lines {
    async fn open(endpoint: &Endpoint, question: &[u8]) -> Result<Lines, String> {
        let mut wire = connect(endpoint).await?;
        wire.write_all(question).await.map_err(|error| why(&error))?;
        Ok(Lines(BufReader::new(wire.take(STATS_BYTES))))
    }

    /// The next line without its line end.
    async fn next(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).await.map_err(|error| why(&error))?;
        if line.pop() != Some(b'\n') {
            return Err(why(&std::io::ErrorKind::UnexpectedEof.into()));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

/// Sends `stats` and reads statistics up to the end marker (memcached's protocol.txt,
/// "General-purpose statistics").
async fn memcached_stats(endpoint: &Endpoint) -> Result<Vec<(Text, Text)>, String> {
    let mut question = Vec::new();
    memcache::stats(b"", &mut question).map_err(|error| error.to_string())?;
    let mut wire = connect(endpoint).await?;
    wire.write_all(&question).await.map_err(|error| why(&error))?;
    let mut wire = wire.take(STATS_BYTES);
    let (mut answer, mut done, mut said) = (Vec::with_capacity(4096), 0, Vec::new());
    loop {
        // Statistics contain no values.
        let (reply, taken) = match Replies::new(0).next(&answer[done..]) {
            Decoded::Reply(reply, taken) => (reply, taken),
            Decoded::Broken(broken) => return Err(format!("answers stats oddly: {broken}")),
            Decoded::Incomplete { .. } => {
                match wire.read_buf(&mut answer).await.map_err(|error| why(&error))? {
                    0 => return Err(why(&std::io::ErrorKind::UnexpectedEof.into())),
                    _ => continue,
                }
            }
        };
        match reply {
            Reply::Stat { name, value } => said.push((text_of(name), text_of(value))),
            Reply::End if !said.is_empty() => return Ok(said),
            Reply::Error(_, words, _) => {
                return Err(format!("refuses stats: {}", brief(&String::from_utf8_lossy(words))));
            }
            _ => return Err("answers stats with something else".to_owned()),
        }
        done += taken;
    }
}

fn text_of(bytes: &[u8]) -> Text {
    Text::new(&String::from_utf8_lossy(bytes))
}

/// `AUTH password` or `AUTH user password` as an array of strings: a password may contain any byte.
fn auth(login: &RedisLogin) -> Vec<u8> {
    let words = ["AUTH"].into_iter().chain(login.user.as_deref()).chain([login.password.as_str()]);
    let mut command = format!("*{}\r\n", words.clone().count());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    command.into_bytes()
}

/// Sends `INFO all` and reads a bulk string of lines `name:value` and comments.
async fn redis_info(
    endpoint: &Endpoint,
    login: Option<&RedisLogin>,
) -> Result<Vec<(Text, Text)>, String> {
    let mut question = login.map(auth).unwrap_or_default();
    question.extend_from_slice(b"INFO all\r\n");
    let mut lines = Lines::open(endpoint, &question).await?;
    if login.is_some() {
        let answer = lines.next().await?;
        if !answer.starts_with('+') {
            return Err(format!("refuses the password: {}", brief(&answer)));
        }
    }
    let head = lines.next().await?;
    let length = head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
    let Some(length) = length else {
        return Err(match head.starts_with("-NOAUTH") {
            true => "wants a password: redis://:password@host".to_owned(),
            false => format!("answers INFO with {}", brief(&head)),
        });
    };
    let mut said = Vec::new();
    let mut read = 0;
    while read < length {
        let line = lines.next().await?;
        read += line.len() + 2;
        if !line.is_empty() && !line.starts_with('#') {
            said.push(pair(&line, ':'));
        }
    }
    Ok(said)
}

fn pair(line: &str, between: char) -> (Text, Text) {
    let (name, value) = line.split_once(between).unwrap_or((line, ""));
    (Text::new(name), Text::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart_by_their_first_line() {
        assert_eq!(kind_of(b"HTTP/1.1 400 Bad Request\r\n"), Some(Kind::Larder));
        assert_eq!(kind_of(b"VERSION 1.6.18\r\n"), Some(Kind::Memcached));
        assert_eq!(kind_of(b"CLIENT_ERROR unauthenticated\r\n"), Some(Kind::Memcached));
        assert_eq!(kind_of(b"-ERR unknown command 'version'\r\n"), Some(Kind::Redis));
        assert_eq!(kind_of(b"-NOAUTH Authentication required.\r\n"), Some(Kind::Redis));
        assert_eq!(kind_of(b"SSH-2.0-OpenSSH_9.2\r\n"), None);
        assert_eq!(kind_of(b""), None);
    }
}
