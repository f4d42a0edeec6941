//! The filter of a watcher of requests.

use axum::http::Uri;
use larder_metrics::{LogLine, Outcome};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{answer::Refused, measured::params};
use crate::access_log::ResultCode;

/// Largest compiled regular expression, in bytes. Its cost grows with that and with the URL, for
/// each watcher and request, on the one admin thread. This is a few hundred states, several times
/// what a person writes.
const REGEX: usize = 8 << 10;
/// Words in a list.
const WORDS: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    url: Option<String>,
    regex: Option<String>,
    status: Option<String>,
    result: Option<String>,
    site: Option<String>,
    slower_than_ms: Option<u64>,
    method: Option<String>,
    limit: Option<u64>,
}

/// The filter: all given parts must match.
#[derive(Debug)]
pub(super) struct Filter {
    /// Text that the URL contains.
    url: Option<String>,
    regex: Option<Regex>,
    /// Ranges, both ends included; empty: any.
    status: Vec<(u16, u16)>,
    /// Words of the log (`TCP_MEM_HIT`) or of the figures (`hit`), upper case; empty: any.
    result: Vec<String>,
    site: Option<String>,
    slower_than_us: u64,
    method: Option<String>,
    /// Requests after which the stream ends.
    pub(super) limit: Option<u64>,
}

impl Filter {
    /// From the parameters of a query.
    pub(super) fn of(uri: &Uri) -> Result<Filter, Refused> {
        let query: Params = params(uri)?;
        let regex = query.regex.map(|text| compiled(&text)).transpose()?;
        let words = |list: Option<String>| -> Vec<String> {
            let list = list.unwrap_or_default();
            list.split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let (status, result) = (words(query.status), words(query.result));
        if status.len().max(result.len()) > WORDS {
            return Err(Refused::bad("bad_parameter", format!("a list has at most {WORDS} words")));
        }
        Ok(Filter {
            url: query.url,
            regex,
            status: status.iter().map(|word| self::status(word)).collect::<Result<_, _>>()?,
            result: result.iter().map(|word| self::result(word)).collect::<Result<_, _>>()?,
            site: query.site,
            slower_than_us: query.slower_than_ms.unwrap_or(0).saturating_mul(1000),
            method: query.method,
            limit: query.limit.map(|limit| limit.max(1)),
        })
    }

    /// Whether this request matches.
    pub(super) fn wants(&self, line: &LogLine) -> bool {
        let result =
            |word: &String| *word == line.result || word.eq_ignore_ascii_case(&line.outcome);
        line.elapsed_us >= self.slower_than_us
            && self.method.as_ref().is_none_or(|method| line.method.eq_ignore_ascii_case(method))
            && (self.status.is_empty()
                || self.status.iter().any(|(a, b)| (*a..=*b).contains(&line.status)))
            && (self.result.is_empty() || self.result.iter().any(result))
            && self.site.as_ref().is_none_or(|site| *site == line.site)
            && self.url.as_ref().is_none_or(|part| line.url.contains(part.as_str()))
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(line.url.as_bytes()))
    }
}

/// Compiles an expression over bytes: URLs are ASCII, and Unicode classes would use most of the
/// size.
fn compiled(text: &str) -> Result<Regex, Refused> {
    let regex =
        RegexBuilder::new(text).unicode(false).size_limit(REGEX).dfa_size_limit(REGEX).build();
    // The error's text marks the place on lines of its own; the last line is the reason.
    let why = |error: regex::Error| error.to_string().lines().last().unwrap_or_default().to_owned();
    regex.map_err(|error| Refused::bad("bad_parameter", format!("regex: {}", why(error))))
}

/// A word of the access log or of the figures, in any case; the result is upper case. Other words
/// are refused, as they would never match.
fn result(word: &str) -> Result<String, Refused> {
    let known = || {
        ResultCode::ALL
            .iter()
            .map(|code| code.as_str())
            .chain(Outcome::ALL.iter().map(|o| o.as_str()))
    };
    if known().any(|name| name.eq_ignore_ascii_case(word)) {
        return Ok(word.to_ascii_uppercase());
    }
    Err(Refused::bad(
        "bad_parameter",
        format!("expected a result such as miss or TCP_MISS, found {word:?}"),
    ))
}

/// `404`, or a class: `5xx`.
fn status(word: &str) -> Result<(u16, u16), Refused> {
    let wrong = || {
        Refused::bad(
            "bad_parameter",
            format!("expected a status such as 404 or 5xx, found {word:?}"),
        )
    };
    match word.strip_suffix("xx") {
        Some(class) => {
            let class: u16 = class.parse().ok().filter(|class| *class < 6).ok_or_else(wrong)?;
            Ok((class * 100, class * 100 + 99))
        }
        None => match word.parse::<u16>() {
            Ok(status) if status < 1000 => Ok((status, status)),
            _ => Err(wrong()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(query: &str) -> bool {
        let line = LogLine {
            time_ms: 0,
            elapsed_us: 250_000,
            client: "127.0.0.1".to_owned(),
            method: "GET".to_owned(),
            url: "http://a.org/wiki/Page?x=1".to_owned(),
            site: "a.org".to_owned(),
            status: 503,
            bytes: 0,
            result: "TCP_MISS".into(),
            outcome: Outcome::Error.as_str().into(),
            hierarchy: String::new(),
            content_type: None,
            ..LogLine::default()
        };
        Filter::of(&format!("/?{query}").parse().expect("a URI")).expect(query).wants(&line)
    }

    #[test]
    fn all_that_is_given_must_fit() {
        for yes in [
            "",
            "url=/wiki/",
            "regex=Page%5C%3Fx",
            "regex=%5Ehttps%3F://%5Cw%2B%5C.org/wiki/[%5E/]%2B%24",
            "status=503",
            "status=404,5xx",
            "result=tcp_miss",
            "result=hit,error",
            "site=a.org",
            "slower_than_ms=250",
            "method=get",
            "url=wiki&status=5xx&site=a.org",
        ] {
            assert!(wants(yes), "{yes}");
        }
        for no in [
            "url=/other/",
            "regex=%5E/wiki",
            "status=404",
            "status=4xx",
            "result=hit",
            "result=TCP_MEM_HIT",
            "site=b.org",
            "slower_than_ms=251",
            "method=POST",
            "url=wiki&status=404",
        ] {
            assert!(!wants(no), "{no}");
        }
    }

    /// A reader cannot keep the thread busy: expressions that need many steps per byte are refused.
    #[test]
    fn expensive_expressions_are_refused() {
        for bomb in [
            "(?:[a-z0-9/]{0,50}){0,50}[A-Z][a-z]x",
            "[a-z/]{0,300}[0-9/a-z]{300}[A-Z]",
            "(.{0,99}){0,99}x",
        ] {
            let escaped = bomb.replace('{', "%7B").replace('}', "%7D");
            let uri = format!("/?regex={escaped}").parse().expect("a URI");
            assert_eq!(Filter::of(&uri).expect_err(bomb).code, "bad_parameter");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for wrong in
            ["status=abc", "status=99xx", "regex=(", "colour=red", "slower_than_ms=-1", "limit=x"]
        {
            assert!(Filter::of(&format!("/?{wrong}").parse().expect("a URI")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_could_never_fit_is_refused() {
        for wrong in
            ["status=9xx", "status=abc", "status=1000", "result=nonsense", "result=hit,nonsense"]
        {
            assert!(Filter::of(&format!("/?{wrong}").parse().expect("a URI")).is_err(), "{wrong}");
        }
        for outcome in Outcome::ALL {
            assert!(result(outcome.as_str()).is_ok(), "{outcome:?}");
        }
    }
}
