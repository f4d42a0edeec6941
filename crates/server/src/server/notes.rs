//! Numbers that another run of this server needs beside the memory: written by the one that gives
//! it, or stops, read by the one that has it then.

use serde_json::{Value, json};

use super::Faces;

/// Numbers that concern the entries of the memory.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// When all of memcached's items are to be flushed; 0: never.
    flush: u64,
    /// Purges of the fleet that were carried out on the entries: for each author the last number.
    executed: Vec<(u64, u64)>,
}

impl Notes {
    pub(super) fn of(faces: &Faces) -> Notes {
        let flush = faces.memcached.as_ref().map_or(0, |shared| shared.planned_flush());
        let remote = faces.http.as_ref().and_then(|(shared, _)| shared.remote.as_ref());
        let executed = remote.map_or_else(Vec::new, |remote| remote.journal.executed());
        Notes { flush, executed }
    }

    /// Applies them, before anybody is served.
    pub(super) fn apply(&self, faces: &Faces) {
        if let Some(shared) = faces.memcached.as_ref().filter(|_| self.flush != 0) {
            shared.flush_at(self.flush);
        }
        if let Some(remote) = faces.http.as_ref().and_then(|(shared, _)| shared.remote.as_ref()) {
            for (author, number) in &self.executed {
                remote.journal.made_up(*author, *number);
            }
        }
    }

    pub(super) fn to_value(&self) -> Value {
        json!({"flush": self.flush, "executed": self.executed})
    }

    /// Missing notes are those of a first start.
    pub(super) fn of_value(value: &Value) -> Notes {
        Notes {
            flush: value["flush"].as_u64().unwrap_or(0),
            executed: serde_json::from_value(value["executed"].clone()).unwrap_or_default(),
        }
    }
}
