//! The variables of a request.

use std::borrow::Cow;
use std::cell::Cell;

use crate::http::Fields;
use crate::http::cookie::cookies;

/// The facts of the request for which a page is put together.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'r> {
    /// Its fields.
    pub fields: Fields<'r>,
    /// Host, and port if it is not the usual one.
    pub host: &'r str,
    /// Path and query.
    pub target: &'r str,
    /// Set when a value is read that the URL does not say: what is made of it is for this client
    /// alone.
    pub personal: &'r Cell<bool>,
}

impl<'r> Facts<'r> {
    /// The value of a variable; None: the request has none, or there is no such variable.
    ///
    /// | variable | value |
    /// |---|---|
    /// | `HTTP_COOKIE{name}` | of a cookie; without a name, of the whole field |
    /// | `QUERY_STRING{name}` | of a parameter, as it was sent; without a name, of all |
    /// | `HTTP_ACCEPT_LANGUAGE{en}` | `true`, if the client takes this language |
    /// | `HTTP_USER_AGENT{browser}`, `{os}` | `MOZILLA`, `MSIE` or `OTHER`; `WIN`, `MAC`, `UNIX` or `OTHER` |
    /// | `HTTP_USER_AGENT{version}` | the number behind `MSIE`, `rv:` or `Mozilla/` |
    /// | `HTTP_HOST` | the host |
    /// | `REQUEST_PATH` | the path without query |
    /// | `HTTP_...` | of the field of this name, but for Authorization |
    pub fn get(&self, name: &[u8], key: Option<&[u8]>) -> Option<Cow<'r, [u8]>> {
        const OF_THE_URL: [&[u8]; 3] = [b"HTTP_HOST", b"REQUEST_PATH", b"QUERY_STRING"];
        if !OF_THE_URL.contains(&name) {
            self.personal.set(true);
        }
        let (path, query) = self.target.split_once('?').unwrap_or((self.target, ""));
        match (name, key) {
            (b"HTTP_HOST", None) => Some(Cow::Borrowed(self.host.as_bytes())),
            (b"REQUEST_PATH", None) => Some(Cow::Borrowed(path.as_bytes())),
            (b"QUERY_STRING", None) => Some(Cow::Borrowed(query.as_bytes())),
            (b"QUERY_STRING", Some(key)) => parameter(query, key).map(Cow::Borrowed),
            (b"HTTP_COOKIE", Some(key)) => {
                let mut all = self.fields.all("cookie").flat_map(cookies);
                all.find(|cookie| cookie.name() == key).map(|c| Cow::Borrowed(c.value))
            }
            (b"HTTP_ACCEPT_LANGUAGE", Some(key)) => self.takes_language(key),
            (b"HTTP_USER_AGENT", Some(key)) => {
                let agent = self.fields.get("user-agent").unwrap_or_default();
                browser(agent, key).map(Cow::Borrowed)
            }
            (name, None) => self.field(name.strip_prefix(b"HTTP_")?),
            _ => None,
        }
    }

    /// The value of the field whose name is written as in CGI.
    fn field(&self, name: &[u8]) -> Option<Cow<'r, [u8]>> {
        if name == b"AUTHORIZATION" {
            return None;
        }
        let name: String =
            name.iter().map(|&byte| if byte == b'_' { '-' } else { char::from(byte) }).collect();
        let mut lines = self.fields.all(&name);
        let first = lines.next()?;
        let Some(second) = lines.next() else { return Some(Cow::Borrowed(first)) };
        let all: Vec<&[u8]> = [first, second].into_iter().chain(lines).collect();
        Some(Cow::Owned(all.join(&b", "[..])))
    }

    fn takes_language(&self, key: &[u8]) -> Option<Cow<'r, [u8]>> {
        let mut ranges = self.fields.elements("accept-language");
        let takes = ranges.any(|range| {
            let range = range.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
            let primary = range.split(|&b| b == b'-').next().unwrap_or_default();
            range.eq_ignore_ascii_case(key) || primary.eq_ignore_ascii_case(key)
        });
        takes.then_some(Cow::Borrowed(&b"true"[..]))
    }
}

/// The value of the first parameter of this name, as it was sent.
fn parameter<'q>(query: &'q str, key: &[u8]) -> Option<&'q [u8]> {
    let parameters = query.split('&');
    let mut values = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (name.as_bytes() == key).then_some(value.as_bytes())
    });
    values.next()
}

fn browser<'a>(agent: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let has = |word: &str| memchr::memmem::find(agent, word.as_bytes()).is_some();
    Some(match key {
        b"version" if has("MSIE ") => number(agent, b"MSIE ")?,
        b"version" if has("Trident/") => number(agent, b"rv:")?,
        b"version" => number(agent, b"Mozilla/")?,
        b"browser" if has("MSIE") || has("Trident/") => b"MSIE",
        b"browser" if has("Mozilla/") => b"MOZILLA",
        b"os" if has("Windows") => b"WIN",
        b"os" if has("Mac") => b"MAC",
        b"os" if has("Linux") || has("X11") || has("BSD") => b"UNIX",
        b"browser" | b"os" => b"OTHER",
        _ => return None,
    })
}

/// The number that follows a word.
fn number<'a>(agent: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let rest = &agent[memchr::memmem::find(agent, word)? + word.len()..];
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    (length > 0).then_some(&rest[..length])
}
