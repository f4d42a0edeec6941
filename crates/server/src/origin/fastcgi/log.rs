//! The STDERR of an application on its way to the log: line by line, with the origin and the
//! request.

use std::rc::Rc;

use http::HeaderMap;

use crate::origin::Request;

/// Longest line, in bytes; the rest of a longer one is a line of its own.
const LINE_BYTES: usize = 2048;

/// Lines of one request.
#[derive(Debug)]
pub(super) struct Log {
    /// The origin's name, and the request: method, host, target, and its trace where it has one.
    about: Rc<str>,
    line: Vec<u8>,
}

impl Log {
    pub(super) fn new(origin: &str, request: &Request) -> Log {
        let field = |name| field(&request.headers, name).unwrap_or_default();
        let trace = field("traceparent").split('-').nth(1).map(|id| format!(" trace={id}"));
        let (method, target, host) = (&request.method, &request.target, field("host"));
        let trace = trace.unwrap_or_default();
        let about = format!("larder: {origin}: {method} {host}{target}{trace}").into();
        Log { about, line: Vec::new() }
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
            lines.extend([&*self.about, ": ", &text, "\n"]);
        }
        self.line.clear();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut lines = String::new();
        self.end_line(&mut lines);
        show(&lines);
    }
}

/// One write for all lines of a record.
fn show(lines: &str) {
    if !lines.is_empty() {
        eprint!("{lines}");
    }
}

fn field<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
