//! The admin interface of a Larder under test.

use crate::answer::Answer;
use crate::larder::Larder;
use crate::wait::wait_for;
use crate::wire::Wire;
use serde_json::Value;
use std::net::SocketAddr;

/// What it prints once the admin interface listens.
const AT: &str = "larder: admin at http://";

/// Where the admin interface is, and what lets one in.
pub struct Admin {
    /// Its address.
    pub addr: SocketAddr,
    /// The token of the run; empty where a file has it.
    pub token: String,
}

impl Admin {
    /// The admin interface of a server whose configuration has one.
    #[track_caller]
    pub fn of(larder: &Larder) -> Admin {
        wait_for("the admin interface to say where it is", || Admin::printed(&larder.stderr()))
    }

    /// What is said in what a server printed.
    pub fn printed(text: &str) -> Option<Admin> {
        let line = text.lines().find_map(|line| line.strip_prefix(AT))?;
        let (addr, rest) = line.split_once('/')?;
        let token = rest.strip_prefix("#token=").unwrap_or_default().to_owned();
        Some(Admin { addr: addr.parse().ok()?, token })
    }

    /// A new connection to it.
    #[track_caller]
    pub fn connect(&self) -> Wire {
        Wire::connect(self.addr)
    }

    /// A GET without the token.
    #[track_caller]
    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"")
    }

    /// A GET that must succeed, as JSON.
    #[track_caller]
    pub fn json(&self, target: &str) -> Value {
        let answer = self.get(target);
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The value of a metric; `name` includes its labels.
    pub fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics");
        let value = metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .map(str::to_owned);
        value.unwrap_or_else(|| panic!("{name}: {metrics:?}")).parse().unwrap()
    }

    /// The counters above 0 of an object below `path`, by their names.
    #[track_caller]
    pub fn counts(&self, target: &str, path: &[&str]) -> Vec<(String, u64)> {
        let json = self.json(target);
        let object = path.iter().fold(&json, |object, name| &object[name]).as_object().unwrap();
        let counts = object.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap()));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Any request with the token.
    #[track_caller]
    pub fn order(&self, method: &str, target: &str, body: impl AsRef<[u8]>) -> Answer {
        self.ask(method, target, &[&format!("Authorization: Bearer {}", self.token)], body)
    }

    /// Purges; how many pages there were.
    #[track_caller]
    pub fn purge(&self, order: &Value) -> u64 {
        let answer = self.order("POST", "/api/v1/purge", order.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_slice::<Value>(&answer.body).unwrap()["purged"].as_u64().unwrap()
    }

    /// Any request, on a connection of its own.
    #[track_caller]
    pub fn ask(
        &self,
        method: &str,
        target: &str,
        fields: &[&str],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let mut wire = self.connect();
        wire.send(self.request(method, target, fields, body.as_ref()));
        wire.read_for(method)
    }

    /// The bytes of a request; `Host` is added where the fields have none.
    pub fn request(&self, method: &str, target: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        if !fields.iter().any(|field| field.to_ascii_lowercase().starts_with("host:")) {
            text.push_str(&format!("Host: {}\r\n", self.addr));
        }
        for field in fields {
            text.push_str(&format!("{field}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        [text.as_bytes(), body].concat()
    }

    /// Watches a stream of events; it is being told of when this returns.
    #[track_caller]
    pub fn watch(&self, target: &str) -> Watch {
        let mut wire = self.connect();
        wire.send(self.request("GET", target, &[], b""));
        let head = wire.read_head();
        assert_eq!(head.status, 200, "{target}: {head:?}");
        assert_eq!(head.fields.get("content-type"), Some("text/event-stream"));
        Watch { wire, text: String::new() }
    }
}

/// A stream of events.
pub struct Watch {
    wire: Wire,
    text: String,
}

impl Watch {
    /// The next event: its name and its data. None: the stream has ended.
    #[track_caller]
    pub fn next_event(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let named =
                    event.strip_prefix("event: ").and_then(|event| event.split_once("\ndata: "));
                if let Some((name, data)) = named {
                    return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
                }
                assert!(event.starts_with(':'), "neither an event nor a comment: {event:?}");
            }
            let chunk = self.wire.read_chunk().unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event of this name; others are left out.
    #[track_caller]
    pub fn next_of(&mut self, name: &str) -> Value {
        loop {
            let (found, data) =
                self.next_event().unwrap_or_else(|| panic!("the stream ended before {name}"));
            if found == name {
                return data;
            }
        }
    }
}
