//! A request as a scripted origin sees it.

use crate::answer::Fields;
use std::io::{self, BufRead, Read, Write};

/// One request that reached the origin.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The request target as sent.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The header fields.
    pub fields: Fields,
    /// The content, chunked coding removed.
    pub body: Vec<u8>,
    /// Trailer fields of a chunked request.
    pub trailers: Fields,
    /// Which connection it came on, counted from 0.
    pub connection: usize,
    /// How many requests the origin saw before it.
    pub number: usize,
}

impl Seen {
    /// First value of a header field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// Path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// Reads a request head; `None` at a clean end of the connection.
pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Seen>> {
    let Some(start) = read_line(reader)? else { return Ok(None) };
    let mut lines = String::new();
    loop {
        let line = read_line(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            break;
        }
        lines.push_str(&line);
        lines.push_str("\r\n");
    }
    let mut parts = start.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(io::Error::other(format!("request line {start:?}")));
    };
    let fields = Fields::parse(&lines).map_err(io::Error::other)?;
    Ok(Some(Seen {
        method: method.to_owned(),
        target: target.to_owned(),
        version: version.to_owned(),
        fields,
        body: Vec::new(),
        trailers: Fields::default(),
        connection: 0,
        number: 0,
    }))
}

/// Reads the content the head announces into `seen`. `100 Continue` is sent when asked for.
pub(crate) fn read_body(
    seen: &mut Seen,
    reader: &mut impl BufRead,
    writer: &mut impl Write,
) -> io::Result<()> {
    let length = seen
        .get("content-length")
        .map(|v| v.parse::<u64>().map_err(io::Error::other))
        .transpose()?;
    let chunked = seen.get("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
    if seen.get("expect").is_some() && (chunked || length.is_some_and(|n| n > 0)) {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    match (length, chunked) {
        (Some(_), true) => {
            Err(io::Error::other("Content-Length and Transfer-Encoding in one request"))
        }
        (Some(n), false) => {
            let read = reader.take(n).read_to_end(&mut seen.body)?;
            if (read as u64) < n { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
        }
        (None, true) => read_chunked(seen, reader),
        (None, false) => Ok(()),
    }
}

fn read_chunked(seen: &mut Seen, reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let line = read_line(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = u64::from_str_radix(&line, 16)
            .map_err(|_| io::Error::other(format!("chunk size {line:?}")))?;
        if size == 0 {
            break;
        }
        let read = reader.take(size).read_to_end(&mut seen.body)?;
        if (read as u64) < size || read_line(reader)? != Some(String::new()) {
            return Err(io::Error::other("chunk without its end"));
        }
    }
    let mut lines = String::new();
    while let Some(line) = read_line(reader)?.filter(|line| !line.is_empty()) {
        lines.push_str(&line);
        lines.push_str("\r\n");
    }
    seen.trailers = Fields::parse(&lines).map_err(io::Error::other)?;
    Ok(())
}

/// One line without its CRLF; bytes outside ASCII become the characters of the same number. `None`
/// at the end.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(Some(line.iter().map(|&b| char::from(b)).collect())),
        None => Err(io::Error::other(format!(
            "line without CRLF: {:?}",
            String::from_utf8_lossy(&line)
        ))),
    }
}
