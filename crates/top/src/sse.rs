//! Server-sent events (the HTML standard, 9.2): name and data of each.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

/// Longest event in bytes; a longer one is an error.
const EVENT_BYTES: usize = 4 << 20;
/// A server sends something at least every 15 s, if only a comment; after this silence the
/// connection is considered dead.
const SILENCE: Duration = Duration::from_secs(45);

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Reader of an event stream.
pub(crate) struct Events {
    body: Incoming,
    parser: Parser,
}

impl Events {
    pub(crate) fn of(body: Incoming) -> Events {
        Events { body, parser: Parser::default() }
    }

    /// The next event; `Err` says why the stream ended. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Event, String> {
        loop {
            if let Some(event) = self.parser.next() {
                return Ok(event);
            }
            let frame = timeout(SILENCE, self.body.frame())
                .await
                .map_err(|_| format!("silent for {SILENCE:?}"))?;
            match frame {
                None => return Err("the server ended the stream".to_owned()),
                Some(Err(_)) => return Err("the connection broke".to_owned()),
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.parser.add(bytes)?;
                    }
                }
            }
        }
    }
}

/// Parser of bytes to events.
#[derive(Default)]
struct Parser {
    waiting: Vec<u8>,
    event: Event,
    /// Bytes consumed. A line that ended with CR may be followed by an LF that belongs to it.
    done: usize,
    /// Offset up to which no line end was found, so that small pieces are not searched again.
    searched: usize,
}

impl Parser {
    fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.waiting.drain(..std::mem::take(&mut self.done));
        if self.waiting.len() + bytes.len() + self.event.data.len() > EVENT_BYTES {
            return Err(format!("sends an event of more than {EVENT_BYTES} bytes"));
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            let rest = &self.waiting[self.done..];
            let searched = self.searched;
            let Some(end) = rest[searched..].iter().position(|b| *b == b'\n') else {
                self.searched = rest.len();
                return None;
            };
            let end = searched + end;
            self.searched = 0;
            let line = &rest[..end];
            let line =
                String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
            self.done += end + 1;
            if line.is_empty() {
                let mut event = std::mem::take(&mut self.event);
                if event.data.pop().is_some() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.event.name),
                "data" => {
                    self.event.data.push_str(value);
                    self.event.data.push('\n');
                }
                // Comments, and fields for reconnecting clients.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.add(piece).expect("short enough");
            while let Some(event) = parser.next() {
                events.push((event.name, event.data));
            }
        }
        events
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
        let stream = b": hello\n\nevent: request\ndata: \
            {\"a\":1}\n\nevent:dropped\r\ndata:x\r\ndata: y\r\n\r\ndata\n\nid: 3\n\n";
        let expected = [("request", "{\"a\":1}"), ("dropped", "x\ny"), ("", "")]
            .map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(parse(&[stream]), expected);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(parse(&bytes), expected);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; EVENT_BYTES / 2];
        assert!(parser.add(&piece).is_ok() && parser.add(&piece).is_ok());
        assert!(parser.next().is_none());
        assert!(parser.add(b"x").is_err());
    }
}
