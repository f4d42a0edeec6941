//! The memcached face: text, meta and binary over the one store.

pub(crate) mod counters;
