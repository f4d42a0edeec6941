//! Stored pages: how one is found, written and purged, and the fetches under way for those that are
//! missing.
//!
//! Nothing here knows a request's connection, an origin's protocol or where a page came from.

pub(crate) mod answer;
pub(crate) mod ban;
pub(crate) mod coding;
pub(crate) mod compressor;
pub(crate) mod dictionary;
pub(crate) mod flight;
pub(crate) mod foreign;
pub(crate) mod forms;
pub(crate) mod head;
pub(crate) mod lookup;
pub(crate) mod packed;
pub(crate) mod published;
pub(crate) mod software;
pub(crate) mod spelling;
pub(crate) mod tags;
pub(crate) mod variant;
pub(crate) mod writer;
