//! Numbers that another run of this server needs beside the memory: written by the one that gives
//! it, or stops, read by the one that has it then.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::Faces;
use crate::{disk::Missed, redis};

/// Numbers that concern the entries of the memory.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// When all of memcached's items are to be flushed; 0: never.
    flush: u64,
    /// Purges of the fleet that were carried out on the entries: for each author the last number.
    executed: Vec<(u64, u64)>,
    /// Libraries of functions of the Redis face: name, text and functions.
    libraries: Vec<(String, Vec<u8>, redis::Functions)>,
    /// The places of Redis's databases, which SWAPDB changes.
    places: Vec<u8>,
    /// Changes that the disk was not told of.
    pub(super) missed: Missed,
}

impl Notes {
    pub(super) fn of(faces: &Faces) -> Notes {
        let flush = faces.memcached.as_ref().map_or(0, |shared| shared.planned_flush());
        let remote = faces.http.as_ref().and_then(|(shared, _)| shared.remote.as_ref());
        let executed = remote.map_or_else(Vec::new, |remote| remote.journal.executed());
        let missed = Notes::of_disk(faces).missed;
        let redis = faces.redis.as_ref();
        let libraries = redis.map_or_else(Vec::new, |shared| shared.libraries.passed());
        let places = redis.map_or_else(Vec::new, |shared| shared.places());
        Notes { flush, executed, libraries, places, missed }
    }

    /// Those that are needed where the memory is not given.
    pub(super) fn of_disk(faces: &Faces) -> Notes {
        let disk = faces.disk.as_ref();
        Notes { missed: disk.map(|disk| disk.missed()).unwrap_or_default(), ..Notes::default() }
    }

    /// The same in so many bytes: where what was replaced on the disk takes more, it is emptied.
    pub(super) fn short(mut self, bytes: usize) -> Notes {
        if self.to_value().to_string().len() > bytes {
            self.missed = Missed { purges: true, replaced: Vec::new() };
        }
        self
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
        if let Some(shared) = &faces.redis {
            shared.set_places(&self.places);
            if !self.libraries.is_empty() {
                shared.libraries.restore(shared, self.libraries.clone());
            }
        }
    }

    pub(super) fn to_value(&self) -> Value {
        // Texts may be of any bytes.
        let text = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        let library = |(name, code, functions): &(String, Vec<u8>, redis::Functions)| {
            let function = |(name, description, flags): &(String, Option<Vec<u8>>, u8)| {
                json!([name, description.as_deref().map(text), flags])
            };
            let functions: Vec<_> = functions.iter().map(function).collect();
            json!({"name": name, "code": text(code), "functions": functions})
        };
        let libraries: Vec<_> = self.libraries.iter().map(library).collect();
        json!({
            "flush": self.flush,
            "executed": self.executed,
            "libraries": libraries,
            "places": self.places,
            "disk": {"purges": self.missed.purges, "replaced": self.missed.replaced},
        })
    }

    /// Missing notes are those of a first start.
    pub(super) fn of_value(value: &Value) -> Notes {
        Notes {
            flush: value["flush"].as_u64().unwrap_or(0),
            executed: serde_json::from_value(value["executed"].clone()).unwrap_or_default(),
            libraries: libraries_of(value).unwrap_or_default(),
            places: serde_json::from_value(value["places"].clone()).unwrap_or_default(),
            missed: Missed {
                purges: value["disk"]["purges"].as_bool().unwrap_or(false),
                replaced: serde_json::from_value(value["disk"]["replaced"].clone())
                    .unwrap_or_default(),
            },
        }
    }
}

/// The libraries of notes. None: one is broken, and none is taken.
fn libraries_of(value: &Value) -> Option<Vec<(String, Vec<u8>, redis::Functions)>> {
    let text = |value: &Value| BASE64_STANDARD.decode(value.as_str()?).ok();
    let function = |value: &Value| {
        let name = value[0].as_str()?.to_owned();
        let description = if value[1].is_null() { None } else { Some(text(&value[1])?) };
        Some((name, description, u8::try_from(value[2].as_u64()?).ok()?))
    };
    let library = |value: &Value| {
        let functions = value["functions"].as_array()?.iter().map(function);
        Some((
            value["name"].as_str()?.to_owned(),
            text(&value["code"])?,
            functions.collect::<Option<_>>()?,
        ))
    };
    value["libraries"].as_array()?.iter().map(library).collect()
}
