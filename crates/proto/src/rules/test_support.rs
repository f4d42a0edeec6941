//! Helpers for the tests of the rules: requests and responses in one line.

use super::{RequestView, ResponseFacts};
use crate::http::{Fields, Header, Known, Method, date};
use crate::{Ms, Secs};

/// 20 November 2026 16:00:00 GMT
pub(crate) const NOW: Secs = 1_795_190_400;

pub(crate) fn fields<'a>(list: &[(&'a str, &'a str)]) -> Vec<Header<'a>> {
    list.iter().map(|&(name, value)| Header { name, value: value.as_bytes() }).collect()
}

/// A date `offset` seconds from [`NOW`].
pub(crate) fn http_date(offset: i64) -> String {
    String::from_utf8(date::format(NOW.saturating_add_signed(offset)).to_vec()).expect("ASCII")
}

/// Calls `f` with a request with these fields.
pub(crate) fn with_request<R>(
    method: &str,
    list: &[(&str, &str)],
    f: impl FnOnce(&RequestView<'_>) -> R,
) -> R {
    let held = fields(list);
    let fields = Fields::new(&held);
    f(&RequestView { method: Method::of(method), fields, known: &Known::of(fields) })
}

/// A response received at once, [`NOW`].
pub(crate) fn response<'a>(status: u16, list: &'a [Header<'a>]) -> ResponseFacts<'a> {
    let time: Ms = NOW * 1000;
    ResponseFacts { status, fields: Fields::new(list), request_time: time, response_time: time }
}
