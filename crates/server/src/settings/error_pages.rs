//! Pages for the answers that Larder makes itself: errors and refusals.

use std::{borrow::Cow, sync::Arc};

use http::StatusCode;

/// The style of the default page, which needs no other file.
const STYLE: &str = ":root{color-scheme:light dark}body{margin:0;min-height:100vh;display:grid;\
place-items:center;font:1.0625rem/1.5 system-ui,sans-serif;color:#1d2430;background:#f6f7f9}\
main{max-width:34rem;padding:2rem}h1{font-size:1.5rem;line-height:1.25;margin:0 0 1rem}\
p{margin:0 0 1rem}small{color:#566070}code{font:inherit;font-family:ui-monospace,monospace}\
@media(prefers-color-scheme:dark){body{color:#e6e9ef;background:#14171c}small{color:#a2abb9}}";

/// A page of the operator for some statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// The first status.
    pub first: u16,
    /// The last one.
    pub last: u16,
    /// The media type.
    pub content_type: String,
    /// The page: `{{status}}`, `{{reason}}`, `{{reference}}` stand for those of the answer.
    pub text: String,
}

impl ErrorPage {
    fn covers(&self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }

    fn filled(&self, fault: &Fault<'_>) -> String {
        if !self.text.contains("{{") {
            return self.text.clone();
        }
        self.text
            .replace("{{status}}", &fault.status.to_string())
            .replace("{{reason}}", phrase(fault.status))
            .replace("{{reference}}", fault.reference.unwrap_or_default())
    }
}

/// The operator's pages of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages {
    /// Its own.
    pub own: Vec<ErrorPage>,
    /// Those of all sites, for statuses without an own one.
    pub common: Option<Arc<ErrorPages>>,
}

/// The reason of an answer without a page of an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault<'a> {
    pub(crate) status: u16,
    /// A sentence of ours, without its full stop: plain ASCII, nothing that a client sent.
    pub(crate) why: &'a str,
    /// Names the answer in the log. None: the page may be sent more than once.
    pub(crate) reference: Option<&'a str>,
}

impl ErrorPages {
    /// The page for a status: of those that cover it the one with the fewest statuses.
    fn find(&self, status: u16) -> Option<&ErrorPage> {
        let covering = self.own.iter().filter(|page| page.covers(status));
        covering
            .min_by_key(|page| page.last - page.first)
            .or_else(|| self.common.as_ref()?.find(status))
    }

    /// The media type and the text of an answer.
    pub(crate) fn page(&self, fault: &Fault<'_>) -> (Cow<'_, str>, String) {
        match self.find(fault.status) {
            Some(page) => (Cow::Borrowed(&page.content_type), page.filled(fault)),
            None => (Cow::Borrowed("text/html; charset=utf-8"), default_page(fault)),
        }
    }
}

/// The standard phrase of a status (RFC 9110 section 15); empty: it has none.
pub(crate) fn phrase(status: u16) -> &'static str {
    if status == 413 {
        // As RFC 9110 names it; the library still has the older phrase.
        return "Content Too Large";
    }
    StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("")
}

fn default_page(fault: &Fault<'_>) -> String {
    let Fault { status, why, reference } = *fault;
    let phrase = phrase(status);
    let (first, rest) = why.split_at_checked(1).unwrap_or_default();
    let (first, rest) = (first.to_ascii_uppercase(), rest.replace('_', " "));
    let again = match status {
        429 | 500..=504 => "<p>Please try again in a moment.</p>\n",
        _ => "",
    };
    let reference = reference.map_or_else(String::new, |reference| {
        let about = "Reference for the operator of the site:";
        format!("<p><small>{about} <code>{reference}</code></small></p>\n")
    });
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{status} \
         {phrase}</title>\n<style>{STYLE}</style></head>\n<body><main>\n<h1>{status} \
         {phrase}</h1>\n<p>{first}{rest}.</p>\n{again}{reference}</main></body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first: u16, last: u16, text: &str) -> ErrorPage {
        let content_type = "text/html".to_owned();
        ErrorPage { first, last, content_type, text: text.to_owned() }
    }

    fn text(pages: &ErrorPages, status: u16) -> String {
        let fault = Fault { status, why: "it failed", reference: Some("ABCDE-12345") };
        pages.page(&fault).1
    }

    #[test]
    fn the_narrowest_page_counts_and_the_sites_before_the_common_ones() {
        let common = ErrorPages { own: vec![page(502, 502, "common")], common: None };
        let pages = ErrorPages {
            own: vec![page(500, 599, "all"), page(503, 503, "busy"), page(500, 509, "ten")],
            common: Some(Arc::new(common.clone())),
        };
        assert_eq!(text(&pages, 503), "busy");
        assert_eq!(text(&pages, 504), "ten");
        assert_eq!(text(&pages, 511), "all");
        assert_eq!(text(&pages, 502), "ten", "the site's own");
        let without = ErrorPages { own: Vec::new(), common: Some(Arc::new(common)) };
        assert_eq!(text(&without, 502), "common");
        assert!(text(&without, 503).contains("<h1>503 Service Unavailable</h1>"));
    }

    #[test]
    fn placeholders_are_filled_and_others_stay() {
        let pages = ErrorPages {
            own: vec![page(400, 599, "{{status}} {{reason}}, {{reference}} {{ x }} {status}")],
            common: None,
        };
        assert_eq!(text(&pages, 404), "404 Not Found, ABCDE-12345 {{ x }} {status}");
    }

    #[test]
    fn the_default_page_says_what_a_visitor_needs() {
        let page = text(&ErrorPages::default(), 502);
        for part in ["<p>It failed.</p>", "try again", "<code>ABCDE-12345</code>", "lang=\"en\""] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let fault = Fault { status: 404, why: "", reference: None };
        let page = ErrorPages::default().page(&fault).1;
        assert!(!page.contains("Reference") && !page.contains("again"), "{page}");
    }
}
