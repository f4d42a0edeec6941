//! The STDERR of an application on its way to the log: line by line, with the origin and the
//! request.

use std::sync::Arc;

use http::{HeaderValue, Method, header};

use crate::{origin::Request, settings::OriginSettings};

/// Longest line, in bytes; the rest of a longer one is a line of its own.
const LINE_BYTES: usize = 2048;

/// Lines of one request. Most requests have none: they are named when one comes.
#[derive(Debug)]
pub(super) struct Log {
    origin: Arc<OriginSettings>,
    method: Method,
    target: String,
    host: Option<HeaderValue>,
    trace: Option<HeaderValue>,
    line: Vec<u8>,
}

impl Log {
    pub(super) fn new(origin: &Arc<OriginSettings>, request: &Request) -> Log {
        Log {
            origin: origin.clone(),
            method: request.method.clone(),
            target: request.target.clone(),
            host: request.headers.get(header::HOST).cloned(),
            trace: request.headers.get("traceparent").cloned(),
            line: Vec::new(),
        }
    }

    /// The origin's name, and the request: method, host, target, and its trace where it has one.
    fn about(&self) -> String {
        let text = |value: &Option<HeaderValue>| -> String {
            value.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let (origin, host, trace) = (self.origin.name(), text(&self.host), text(&self.trace));
        let trace = trace.split('-').nth(1).map(|id| format!(" trace={id}")).unwrap_or_default();
        format!("larder: {origin}: {} {host}{}{trace}", self.method, self.target)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        let mut lines = String::new();
        for &byte in bytes {
            if byte == b'\n' || self.line.len() >= LINE_BYTES {
                self.end_line(&mut lines);
            }
            if byte != b'\n' {
                self.line.push(byte);
            }
        }
        show(&lines);
    }

    fn end_line(&mut self, lines: &mut String) {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim_end();
        if !text.is_empty() {
            // Control characters could drive a terminal.
            let text: String = text.chars().filter(|c| *c == '\t' || !c.is_control()).collect();
            lines.extend([&self.about(), ": ", &text, "\n"]);
        }
        self.line.clear();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            let mut lines = String::new();
            self.end_line(&mut lines);
            show(&lines);
        }
    }
}

/// One write for all lines of a record.
fn show(lines: &str) {
    if !lines.is_empty() {
        eprint!("{lines}");
    }
}
