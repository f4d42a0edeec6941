//! Early Hints (RFC 8297): while the origin is asked again for a page, the client is told which
//! links the stored one has, and begins to load them.

use larder_proto::{
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
/// and 3 alone: clients of HTTP/1 may take an interim response for the answer (RFC 8297 section 3).
pub(super) async fn send(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    held: Option<&StoredPage>,
) -> Result<(), Ended> {
    let wanted = route.policy.early_hints && exchange.request.head.version.has_streams();
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

/// A `Link` whose relation (RFC 8288 section 3.3) names something that the page loads.
fn is_hint(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
    if !line[..colon].eq_ignore_ascii_case(b"link") {
        return false;
    }
    let value = line[colon + 1..].to_ascii_lowercase();
    // Targets stand in angle brackets; parameters follow them.
    value
        .split(|&byte| byte == b'<')
        .skip(1)
        .filter_map(|link| link.splitn(2, |&byte| byte == b'>').nth(1))
        .flat_map(|parameters| parameters.split(|&byte| matches!(byte, b';' | b',')))
        .filter_map(|parameter| parameter.trim_ascii().strip_prefix(b"rel="))
        .flat_map(|relations| relations.split(|&byte| matches!(byte, b'"' | b' ' | b'\t')))
        .any(|relation| matches!(relation, b"preload" | b"modulepreload" | b"preconnect"))
}

#[cfg(test)]
mod tests {
    use super::is_hint;

    #[test]
    fn a_hint_is_known_by_its_relation() {
        for line in [
            &b"Link: </a.css>; rel=preload; as=style\r\n"[..],
            b"link: </a.js>; as=script; REL=modulepreload\r\n",
            b"link: <//cdn.test>;REL=\"dns-prefetch preconnect\"\r\n",
            b"link: </next>; rel=next, </a,b;c.css>; rel=preload\r\n",
        ] {
            assert!(is_hint(line), "{}", line.escape_ascii());
        }
        for line in [
            &b"Link: </preload.html>; rel=next\r\n"[..],
            b"Link: </a;rel=preload>; rel=next\r\n",
            b"Link: </a>; rel=nopreload\r\n",
            b"Link: </a>; title=preload\r\n",
            b"X-Link: </a.css>; rel=preload\r\n",
            b"Link\r\n",
        ] {
            assert!(!is_hint(line), "{}", line.escape_ascii());
        }
    }
}
