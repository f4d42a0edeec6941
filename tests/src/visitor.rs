//! A visitor of a site, with a browser's memory for cookies.

use crate::answer::Answer;
use crate::wire::Wire;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Somebody with a browser: keeps cookies, sends them back.
pub struct Visitor {
    addr: SocketAddr,
    host: String,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// Somebody new, who asks the host of this name at this address.
    pub fn of(addr: SocketAddr, host: &str) -> Visitor {
        Visitor { addr, host: host.to_owned(), cookies: BTreeMap::new() }
    }

    /// Adds a cookie that some script or site has set.
    pub fn with_cookie(mut self, name: &str, value: &str) -> Visitor {
        self.cookies.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The cookies held now.
    pub fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// GET.
    #[track_caller]
    pub fn view(&mut self, target: &str) -> Answer {
        self.view_with(target, &[])
    }

    /// GET with further header lines.
    #[track_caller]
    pub fn view_with(&mut self, target: &str, fields: &[&str]) -> Answer {
        self.exchange("GET", target, fields, "")
    }

    /// HEAD.
    #[track_caller]
    pub fn head(&mut self, target: &str) -> Answer {
        self.exchange("HEAD", target, &[], "")
    }

    /// Sends a form.
    #[track_caller]
    pub fn post(&mut self, target: &str, form: &[(&str, &str)]) -> Answer {
        let pairs: Vec<_> = form.iter().map(|(k, v)| format!("{k}={}", escape(v))).collect();
        let kind = "Content-Type: application/x-www-form-urlencoded";
        self.exchange("POST", target, &[kind], &pairs.join("&"))
    }

    fn exchange(&mut self, method: &str, target: &str, fields: &[&str], body: &str) -> Answer {
        let host = &self.host;
        let mut text =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        if !self.cookies.is_empty() {
            let pairs: Vec<_> =
                self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            text.push_str(&format!("Cookie: {}\r\n", pairs.join("; ")));
        }
        for field in fields {
            text.push_str(&format!("{field}\r\n"));
        }
        if method == "POST" {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let answer = Wire::connect(self.addr).send(text + "\r\n" + body).read_for(method);
        for line in answer.fields.all("set-cookie") {
            self.remember(line);
        }
        answer
    }

    /// A `Set-Cookie` line; `Max-Age=0` forgets. Paths and domains do not matter here.
    fn remember(&mut self, line: &str) {
        let pair = line.split(';').next().unwrap_or_default();
        let Some((name, value)) = pair.split_once('=') else { return };
        if line.contains("Max-Age=0") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }
}

/// Percent-encodes a form value.
fn escape(value: &str) -> String {
    value
        .bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(b).to_string()
            }
            _ => format!("%{b:02X}"),
        })
        .collect()
}
