//! The lines of answers from files of this machine that are the same for all of them.

use larder_proto::{
    http::Version,
    rules::{CacheStatus, Forward},
};

use crate::{
    origin::Seen,
    page::head,
    settings::HttpSettings,
    wire::{h1::HeadWriter, meta, meta::ResponseMeta},
};

/// These lines, by how the file was found.
pub(crate) struct FileLines([Vec<u8>; 3]);

impl FileLines {
    pub(crate) fn new(http: &HttpSettings) -> Self {
        Self([Seen::Kept, Seen::Opened, Seen::Changed].map(|seen| lines(http, seen)))
    }

    /// Appends them.
    pub(crate) fn write(&self, head: &mut HeadWriter<'_>, seen: Seen) {
        head.0.extend_from_slice(match seen {
            Seen::Kept => &self.0[0],
            Seen::Opened => &self.0[1],
            Seen::Changed => &self.0[2],
        });
    }
}

fn lines(http: &HttpSettings, seen: Seen) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut head = HeadWriter(&mut lines);
    if let Some(name) = &http.via {
        head.line("Via", &head::via(std::iter::empty(), Version::Http11, name));
    }
    let hit = seen == Seen::Kept;
    let found = seen != Seen::Opened;
    let meta = ResponseMeta { hit, found, age: None, cache_status: cache_status(seen) };
    meta::meta_lines(&mut head, http, &meta);
    lines
}

/// Where the answer came from: a file that was kept ready is a hit.
pub(crate) fn cache_status(seen: Seen) -> CacheStatus<'static> {
    let fwd = match seen {
        Seen::Kept => None,
        Seen::Opened => Some(Forward::UriMiss),
        Seen::Changed => Some(Forward::Stale),
    };
    CacheStatus { hit: fwd.is_none(), fwd, detail: Some("file"), ..CacheStatus::default() }
}
