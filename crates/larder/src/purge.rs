//! `larder purge`: purges pages of a running server. A tiny HTTP client on std: one request, one
//! answer, bounded.

mod order;

use std::{
    fmt::Write as _,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    cli::PurgeArgs,
    config::{TOKEN_BYTES, bounded, value},
    exit,
};

/// Time limit for the connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Time limit for the whole answer: the time to purge a tag depends on the tagged pages.
const ANSWER: Duration = Duration::from_secs(60);
/// An answer to a purge is short; the rest is not read.
const ANSWER_BYTES: usize = 64 << 10;

/// Purges and prints the result.
pub(crate) fn run(args: &PurgeArgs) -> ExitCode {
    let admin = args.admin.as_deref().or(args.ban.as_ref().map(|_| order::ADMIN));
    let bytes = match admin {
        Some(admin) => order::bytes(args, admin),
        None => Request::from_args(args).map(|request| request.to_bytes()),
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(message) => {
            eprintln!("larder purge: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    let server = admin.unwrap_or(&args.server);
    match send(server, &bytes) {
        Ok(answer) if admin.is_some() => order::report(&answer, server, args.soft),
        Ok(answer) => report(&answer, server, args.soft),
        Err(error) => {
            eprintln!("larder purge: no answer from {server}: {error}");
            ExitCode::from(exit::UNREACHABLE)
        }
    }
}

fn report_done(purged: Option<u64>, soft: bool) -> ExitCode {
    let did = if soft { "marked as stale" } else { "purged" };
    match purged {
        Some(1) => println!("{did}: 1 page"),
        Some(count) => println!("{did}: {count} pages"),
        None => println!("{did}"),
    }
    exit::DONE
}

fn report(answer: &Answer, server: &str, soft: bool) -> ExitCode {
    match answer.status {
        200..=299 => report_done(answer.purged, soft),
        404 => {
            println!("nothing was there");
            ExitCode::from(exit::NOTHING)
        }
        401 | 403 => {
            eprintln!(
                "larder purge: {server} refuses: name this machine in the site's `purge.from`, or \
                 give --token-file"
            );
            ExitCode::from(exit::REFUSED)
        }
        status => {
            eprintln!(
                "larder purge: {server} answers {status}: it is not Larder, or no site of it has \
                 this host"
            );
            ExitCode::from(exit::UNREACHABLE)
        }
    }
}

/// The pages to purge.
#[derive(Debug, PartialEq, Eq)]
enum What {
    Url,
    Prefix,
    Tags(Vec<String>),
}

#[derive(Debug, PartialEq, Eq)]
struct Request {
    what: What,
    secure: bool,
    host: String,
    target: String,
    soft: bool,
    token: Option<String>,
}

impl Request {
    fn from_args(args: &PurgeArgs) -> Result<Request, String> {
        let token = args.token_file.as_deref().map(read_token).transpose()?;
        let url = args.url.as_ref().or(args.prefix.as_ref());
        let (secure, host, target) = match url {
            Some(url) => split_url(url)?,
            None => {
                (false, args.host.clone().unwrap_or_else(|| args.server.clone()), "/".to_owned())
            }
        };
        if value::split_authority(&host).is_none() {
            return Err(format!("expected a host such as \"wiki.example.org\", found {host:?}"));
        }
        let what = match (&args.prefix, args.tag.as_slice()) {
            (Some(_), _) => What::Prefix,
            (None, []) => What::Url,
            (None, tags) => What::Tags(tags.to_vec()),
        };
        if let What::Tags(tags) = &what
            && let Some(tag) =
                tags.iter().find(|tag| tag.is_empty() || !tag.bytes().all(|b| b.is_ascii_graphic()))
        {
            return Err(format!(
                "expected a tag of visible characters without blanks, found {tag:?}"
            ));
        }
        Ok(Request { what, secure, host, target, soft: args.soft, token })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!(
            "PURGE {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.target, self.host
        );
        let what = match &self.what {
            What::Url => "url",
            What::Prefix => "prefix",
            What::Tags(_) => "tag",
        };
        // Writing to a String cannot fail.
        let _ = write!(
            head,
            "Larder-Purge: {what}\r\nUser-Agent: larder/{}\r\n",
            env!("CARGO_PKG_VERSION")
        );
        if let What::Tags(tags) = &self.what {
            let _ = write!(head, "Surrogate-Key: {}\r\n", tags.join(" "));
        }
        if self.secure {
            head.push_str("X-Forwarded-Proto: https\r\n");
        }
        if self.soft {
            head.push_str("Larder-Soft-Purge: 1\r\n");
        }
        if let Some(token) = &self.token {
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

fn read_token(path: &std::path::Path) -> Result<String, String> {
    let (bytes, _) = bounded::read(path, TOKEN_BYTES)
        .map_err(|reason| format!("cannot use the token file {}: {reason}", path.display()))?;
    let token = bytes.trim_ascii();
    match std::str::from_utf8(token) {
        Ok(text) if !token.is_empty() && token.iter().all(u8::is_ascii_graphic) => {
            Ok(text.to_owned())
        }
        _ => {
            Err(format!("{} does not hold a token: one line of visible characters", path.display()))
        }
    }
}

/// Splits a URL: whether it is https, the host with its port, the path with its query.
fn split_url(url: &str) -> Result<(bool, String, String), String> {
    let expected =
        || format!("expected a URL such as \"http://wiki.example.org/Main_Page\", found {url:?}");
    let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
    let secure = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(expected()),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    value::split_authority(host).ok_or_else(expected)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((secure, host.to_owned(), escape(&format!("{slash}{path}"))))
}

/// Percent-encodes everything but visible ASCII for a request target.
fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The server's answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    /// Of `{"purged":3}`.
    purged: Option<u64>,
    body: String,
}

fn send(server: &str, request: &[u8]) -> io::Result<Answer> {
    let mut stream = connect(server)?;
    stream.set_write_timeout(Some(CONNECT))?;
    stream.write_all(request)?;
    let until = Instant::now() + ANSWER;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while answer.len() < ANSWER_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    parse(&answer).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "what answers does not speak HTTP/1.1")
    })
}

fn connect(server: &str) -> io::Result<TcpStream> {
    let server = server.trim_start_matches("http://").trim_end_matches('/');
    let addresses: Vec<SocketAddr> = match server.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}").to_socket_addrs()?.collect(),
        None => server.to_socket_addrs()?.collect(),
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut status = head.split("\r\n").next()?.split(' ');
    if !status.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = status.next()?.parse().ok()?;
    let body = String::from_utf8_lossy(&answer[end + 4..]);
    let count = body.split_once("\"purged\":").map(|(_, rest)| rest.trim_start());
    let digits =
        count.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    let purged = digits.and_then(|digits| digits.parse().ok());
    Some(Answer { status, purged, body: body.into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        let split = |url| split_url(url).ok();
        let parts =
            |secure, host: &str, target: &str| Some((secure, host.to_owned(), target.to_owned()));
        assert_eq!(split("http://a.org/x?y=1#z"), parts(false, "a.org", "/x?y=1"));
        assert_eq!(split("https://a.org:8443"), parts(true, "a.org:8443", "/"));
        assert_eq!(split("http://[::1]:80?q"), parts(false, "[::1]:80", "/?q"));
        assert_eq!(
            split("http://a.org/Füße und\r\nX: y"),
            parts(false, "a.org", "/F%C3%BC%C3%9Fe%20und%0D%0AX:%20y")
        );
        for url in
            ["a.org/x", "ftp://a.org/", "http:///x", "http://u@a.org/", "http://a.org:x/", ""]
        {
            assert!(split_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn answers_are_read() {
        let answer = |text: &str| parse(text.as_bytes());
        assert_eq!(
            answer("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"purged\":3}"),
            Some(Answer { status: 200, purged: Some(3), body: "{\"purged\":3}".to_owned() })
        );
        assert_eq!(
            answer("HTTP/1.1 404\r\n\r\n"),
            Some(Answer { status: 404, purged: None, body: String::new() })
        );
        assert_eq!(answer("HTTP/1.1 200 OK\r\n"), None, "cut off");
        assert_eq!(answer("SSH-2.0-x\r\n\r\n"), None);
        assert_eq!(answer(""), None);
    }
}
