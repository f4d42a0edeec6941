//! Early Hints (RFC 8297): while the origin is asked again for a page, the client is told which
//! links the stored one has, and begins to load them.

use larder_proto::{
    http::Version,
    page::{Verify, view},
    rules::split_head,
};

use crate::{
    http::exchange::{Active, Exchange},
    net::socket::Ended,
    page::lookup::StoredPage,
    request::route::Route,
    wire::h1::HeadWriter,
};

/// Sends the links of a stored page that is asked for again, where the site wants it. Over HTTP/2
/// alone: clients of HTTP/1 may take an interim response for the answer (RFC 8297 section 3).
pub(super) async fn send(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    held: Option<&StoredPage>,
) -> Result<(), Ended> {
    let wanted = route.policy.early_hints && exchange.request.head.version == Version::Http2;
    let Some(held) = held.filter(|_| wanted) else { return Ok(()) };
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else { return Ok(()) };
    let Some((_, lines)) = split_head(page.head) else { return Ok(()) };
    let links: Vec<&[u8]> =
        lines.split_inclusive(|&byte| byte == b'\n').filter(|line| is_hint(line)).collect();
    if links.is_empty() {
        return Ok(());
    }
    let mut head = HeadWriter(conn.out.scratch());
    head.status(103, "Early Hints");
    links.iter().for_each(|line| head.stored(line));
    head.end();
    exchange.send(conn.wire, conn.out).await
}

/// A `Link` to something that the page needs.
fn is_hint(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
    let value = line[colon + 1..].to_ascii_lowercase();
    let has = |word: &[u8]| value.windows(word.len()).any(|part| part == word);
    line[..colon].eq_ignore_ascii_case(b"link")
        && (has(b"preload") || has(b"preconnect") || has(b"modulepreload"))
}
