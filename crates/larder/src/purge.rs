//! `larder purge`: purges pages of a running server.

mod order;

use std::{fmt::Write as _, process::ExitCode};

use crate::{
    ask::{self, Answer},
    cli::PurgeArgs,
    config::{TOKEN_BYTES, bounded, value},
    control, exit,
};

/// The server where none is named and none of this user answers on its control socket.
const SERVER: &str = "127.0.0.1:8080";

/// Purges and prints the result.
pub(crate) fn run(args: &PurgeArgs) -> ExitCode {
    // A token is for a server that is asked over the network.
    let named = args.admin.is_some() || args.server.is_some() || args.token_file.is_some();
    let local = match if named { Ok(None) } else { control::only() } {
        Ok(local) => local.map(|path| format!("unix:{}", path.display())),
        Err(message) => {
            eprintln!("larder purge: {message}\nFor example: larder purge --admin unix:PATH ...");
            return ExitCode::from(exit::USAGE);
        }
    };
    let admin = args.admin.as_deref().or(local.as_deref());
    let admin = admin.or(args.ban.as_ref().map(|_| order::ADMIN));
    let bytes = check_names(args).and_then(|()| match admin {
        Some(admin) => order::bytes(args, admin),
        None => Request::from_args(args).map(|request| request.to_bytes()),
    });
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(message) => {
            eprintln!("larder purge: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    let server = admin.or(args.server.as_deref()).unwrap_or(SERVER);
    let code = match ask::send(server, &bytes) {
        Ok(answer) if admin.is_some() => order::report(&answer, server, args.soft),
        Ok(answer) => report(&answer, server, args.soft),
        Err(error) => {
            eprintln!("larder purge: no answer from {server}: {error}");
            ExitCode::from(exit::UNREACHABLE)
        }
    };
    if named || local.is_some() { code } else { control::at_usual_address("purge", code) }
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
            None => (
                false,
                args.host
                    .clone()
                    .unwrap_or_else(|| args.server.clone().unwrap_or_else(|| SERVER.to_owned())),
                "/".to_owned(),
            ),
        };
        check_host(&host)?;
        let what = match (&args.prefix, args.tag.as_slice()) {
            (Some(_), _) => What::Prefix,
            (None, []) => What::Url,
            (None, tags) => What::Tags(tags.to_vec()),
        };
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

/// Refuses a host and tags that no server could have.
fn check_names(args: &PurgeArgs) -> Result<(), String> {
    args.host.as_deref().map_or(Ok(()), check_host)?;
    let unfit = |tag: &&String| tag.is_empty() || !tag.bytes().all(|b| b.is_ascii_graphic());
    args.tag.iter().find(unfit).map_or(Ok(()), |tag| {
        Err(format!("expected a tag of visible characters without blanks, found {tag:?}"))
    })
}

fn check_host(host: &str) -> Result<(), String> {
    value::split_authority(host)
        .map(|_| ())
        .ok_or_else(|| format!("expected a host such as \"wiki.example.org\", found {host:?}"))
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
}
