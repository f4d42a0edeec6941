//! Pages that are kept in compressed forms too, and the facts of a form.

use super::{Policy, ResponseFacts, strip};
use crate::http::cache_control::CacheControl;
use crate::http::dictionary;
use crate::http::etag::{EntityTags, TagKind};
use crate::http::framing::content_length;
use crate::page::Encoding;

/// Bytes from which a body is worth compressing: below, the head is most of the answer.
pub const LEAST_BODY: u64 = 1024;

/// Whether pages with this status are kept in compressed forms. Pages that say that nothing is
/// there are as long as others in most themes, and robots ask for them again and again.
pub fn is_kept_coded(status: u16) -> bool {
    matches!(status, 200 | 404 | 410)
}

/// Whether a stored response is kept in compressed forms too: a complete one with such a status, of
/// a type that compresses, not coded, and without `no-transform` (RFC 9110 7.7).
pub fn compressible(resp: &ResponseFacts<'_>, policy: &Policy) -> bool {
    !policy.compress.is_empty()
        && is_kept_coded(resp.status)
        // An unknown word may be a coding: its label would be lost.
        && resp.fields.elements("content-encoding").all(|w| w.eq_ignore_ascii_case(b"identity"))
        && resp.fields.get("content-type").is_some_and(is_text)
        && resp
            .fields
            .get("content-length")
            .is_none_or(|length| content_length(length).is_some_and(|len| len >= LEAST_BODY))
        && !CacheControl::parse(resp.fields.all("cache-control")).no_transform
}

/// Whether content of this type and length is worth compressing.
pub fn worth_compressing(content_type: &[u8], length: u64) -> bool {
    is_text(content_type) && length >= LEAST_BODY
}

/// Whether content of this type compresses well. Event streams are sent piece by piece and are
/// left alone.
fn is_text(content_type: &[u8]) -> bool {
    const TYPES: [&str; 12] = [
        "application/javascript",
        "application/json",
        "application/manifest",
        "application/rtf",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-javascript",
        "application/xml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/x-icon",
    ];
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let essence = essence.to_ascii_lowercase();
    let is = |name: &str| essence == name.as_bytes();
    (essence.starts_with(b"text/") && !is("text/event-stream"))
        || essence.ends_with(b"+json")
        || essence.ends_with(b"+xml")
        || TYPES.iter().any(|name| is(name))
}

/// Appends to the head of a compressible response the fields by which its form is chosen that it
/// does not name in Vary; and to that of a document the place of its site's dictionary (RFC 9842
/// 3).
pub(super) fn say_vary(resp: &ResponseFacts<'_>, policy: &Policy, head: &mut Vec<u8>) {
    if !compressible(resp, policy) {
        return;
    }
    let said = |name: &str| {
        let mut names = resp.fields.elements("vary");
        names.any(|said| said.eq_ignore_ascii_case(name.as_bytes()))
    };
    let missing: &[u8] = match (said("accept-encoding"), said("available-dictionary")) {
        (false, false) if policy.dictionary => b"Accept-Encoding, Available-Dictionary",
        (true, false) if policy.dictionary => b"Available-Dictionary",
        (false, _) => b"Accept-Encoding",
        (true, _) => b"",
    };
    if !missing.is_empty() {
        strip::write_line("Vary", missing, head);
    }
    let is_document = || resp.fields.get("content-type").is_some_and(is_html);
    if policy.dictionary && is_document() && !resp.fields.all("link").any(dictionary::is_linked) {
        strip::write_line("Link", dictionary::LINK.as_bytes(), head);
    }
}

/// Whether content of this type is a document: dictionaries are made of documents, for documents.
pub fn is_html(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    ["text/html", "application/xhtml+xml"]
        .iter()
        .any(|name| essence.eq_ignore_ascii_case(name.as_bytes()))
}

/// Names of codings in Content-Encoding, and in the entity tags of forms.
pub fn name(encoding: Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Gzip => Some("gzip"),
        Encoding::Br => Some("br"),
        Encoding::Zstd => Some("zstd"),
        Encoding::Dcb => Some("dcb"),
        Encoding::Dcz => Some("dcz"),
        _ => None,
    }
}

/// Fields of a page that are not true of its forms: they are about the bytes of the content (RFC
/// 9110 8.6, 8.8.3, RFC 9530, RFC 3230, RFC 1864).
pub const OF_THE_BYTES: [&str; 7] = [
    "content-length",
    "etag",
    "content-encoding",
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
];

/// The entity tag of a page's form. Strong tags differ for different bytes (RFC 9110 8.8.3.3): the
/// coding goes before the closing quote. A weak tag is that of the page: it names the content and
/// not its bytes.
pub fn form_tag(etag: &[u8], coding: &str) -> Vec<u8> {
    match etag.strip_suffix(b"\"") {
        Some(tag) if !etag.starts_with(b"W/") => [tag, b"-", coding.as_bytes(), b"\""].concat(),
        _ => etag.to_vec(),
    }
}

/// A list of entity tags with those of the pages behind the forms in it ([`form_tag`]), for an
/// origin that knows the pages alone. None: it names no form. A tag of the origin's own may look
/// the same, so those in the list stay.
pub fn with_page_tags(list: &[u8]) -> Option<Vec<u8>> {
    let mut more = Vec::new();
    for tag in EntityTags::of(list).filter(|tag| tag.kind == TagKind::Strong) {
        let page = ["gzip", "br", "zstd"]
            .iter()
            .find_map(|coding| tag.opaque.strip_suffix(coding.as_bytes())?.strip_suffix(b"-"));
        if let Some(page) = page {
            more.extend_from_slice(&[b", \"", page, b"\""].concat());
        }
    }
    (!more.is_empty()).then(|| [list, &more].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Codings;
    use crate::rules::test_support::{fields, response};
    use crate::rules::vary;

    #[test]
    fn tags_of_forms_are_completed_by_those_of_their_pages() {
        for (list, completed) in [
            ("\"a\"", None),
            ("*", None),
            ("W/\"a-br\"", None),
            ("\"a-br\"", Some("\"a-br\", \"a\"")),
            (
                "\"b\", \"a-gzip\",\"c-d-zstd\"",
                Some("\"b\", \"a-gzip\",\"c-d-zstd\", \"a\", \"c-d\""),
            ),
        ] {
            let found = with_page_tags(list.as_bytes());
            assert_eq!(found.as_deref(), completed.map(str::as_bytes), "{list}");
        }
    }

    fn judged(list: &[(&str, &str)]) -> bool {
        let policy = Policy { compress: vec![Codings::BR], ..Policy::default() };
        compressible(&response(200, &fields(list)), &policy)
    }

    #[test]
    fn text_of_some_length_is_compressible() {
        for yes in ["text/html", "Text/HTML; charset=utf-8", "application/ld+json", "image/svg+xml"]
        {
            assert!(judged(&[("Content-Type", yes)]), "{yes}");
        }
        for no in ["image/png", "text/event-stream", "application/octet-stream", ""] {
            assert!(!judged(&[("Content-Type", no)]), "{no}");
        }
        let html = ("Content-Type", "text/html");
        assert!(!judged(&[]));
        assert!(judged(&[html, ("Content-Length", "1024")]));
        assert!(!judged(&[html, ("Content-Length", "1023")]));
        assert!(!judged(&[html, ("Cache-Control", "max-age=9, no-transform")]));
        assert!(!judged(&[html, ("Content-Encoding", "gzip")]));
        assert!(!compressible(&response(200, &fields(&[html])), &Policy::default()));
        let policy = Policy { compress: vec![Codings::BR], ..Policy::default() };
        for (status, expected) in
            [(404, true), (410, true), (203, false), (301, false), (500, false)]
        {
            let kept = compressible(&response(status, &fields(&[html])), &policy);
            assert_eq!(kept, expected, "{status}");
        }
    }

    #[test]
    fn strong_tags_of_forms_differ() {
        assert_eq!(form_tag(b"\"abc\"", "br"), b"\"abc-br\"");
        assert_eq!(form_tag(b"\"\"", "gzip"), b"\"-gzip\"");
        assert_eq!(form_tag(b"W/\"abc\"", "br"), b"W/\"abc\"");
        assert_eq!(form_tag(b"abc", "br"), b"abc");
    }

    #[test]
    fn documents_of_sites_with_a_dictionary_name_it() {
        let policy = Policy { compress: vec![Codings::BR], dictionary: true, ..Policy::default() };
        let added = |list: &[(&str, &str)], policy: &Policy| {
            let mut head = Vec::new();
            say_vary(&response(200, &fields(list)), policy, &mut head);
            String::from_utf8(head).expect("ASCII")
        };
        let link = format!("Link: {}\r\n", dictionary::LINK);
        let html = ("Content-Type", "text/html; charset=utf-8");
        let both = "Vary: Accept-Encoding, Available-Dictionary\r\n";
        assert_eq!(added(&[html], &policy), format!("{both}{link}"));
        let css = ("Content-Type", "text/css");
        assert_eq!(added(&[css], &policy), both);
        let one = [html, ("Vary", "Cookie, accept-encoding"), ("Link", dictionary::LINK)];
        assert_eq!(added(&one, &policy), "Vary: Available-Dictionary\r\n");
        let all = [css, ("Vary", "Accept-Encoding"), ("Vary", "available-dictionary")];
        assert_eq!(added(&all, &policy), "");
        assert_eq!(added(&[("Content-Type", "image/png")], &policy), "");
        let without = Policy { dictionary: false, ..policy.clone() };
        assert_eq!(added(&[html], &without), "Vary: Accept-Encoding\r\n");
    }

    #[test]
    fn accept_encoding_selects_nothing_where_pages_are_compressed_here() {
        let policy = Policy { compress: vec![Codings::BR], ..Policy::default() };
        let list = fields(&[("Vary", "Accept-Encoding, Accept-Language")]);
        let names = |policy| vary::selecting(crate::http::Fields::new(&list), policy);
        assert_eq!(names(&policy), vary::Vary::Names(vec!["accept-language".into()]));
        let also = fields(&[("Vary", "Accept-Encoding, Available-Dictionary, Dictionary-ID")]);
        assert_eq!(vary::selecting(crate::http::Fields::new(&also), &policy), vary::Vary::None);
        let both = vec!["accept-encoding".into(), "accept-language".into()];
        assert_eq!(names(&Policy::default()), vary::Vary::Names(both));
    }
}
