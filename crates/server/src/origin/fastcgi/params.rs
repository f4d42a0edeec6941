//! The parameters of a request: what a CGI program finds in its environment (RFC 3875 section 4.1).

use http::{HeaderMap, HeaderName, Method, header};
use larder_proto::{fcgi::Params, http::forwarded};

use crate::{
    origin::{Asker, tree::Script},
    settings::FastCgiSettings,
};

/// The facts of a request that its parameters are made of.
pub(super) struct Facts<'a> {
    pub(super) method: &'a Method,
    /// Path and query as written.
    pub(super) target: &'a str,
    /// The fields to send, Host included.
    pub(super) headers: &'a HeaderMap,
    pub(super) asker: &'a Asker,
    /// None: the application knows its paths itself.
    pub(super) script: Option<&'a Script>,
    /// The path with its escapes undone.
    pub(super) path: &'a [u8],
    /// Bytes of the body; None: there is none.
    pub(super) length: Option<u64>,
}

/// Parameters on their way into a request. Those that the site sets or removes are its own to say.
struct Table<'s> {
    params: Params,
    of_site: &'s [(String, Option<String>)],
}

impl Table<'_> {
    fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let name = name.as_ref();
        if self.of_site.iter().all(|(own, _)| own.as_bytes() != name) {
            self.params.push(name, value.as_ref());
        }
    }

    /// The same with those of the site; what it says last of a name counts.
    fn finish(mut self) -> Params {
        for (at, (name, value)) in self.of_site.iter().enumerate() {
            let last = self.of_site[at + 1..].iter().all(|(later, _)| later != name);
            if let Some(value) = value.as_ref().filter(|_| last) {
                self.params.push(name.as_bytes(), value.as_bytes());
            }
        }
        self.params
    }
}

/// The parameters of a request.
pub(super) fn params(settings: &FastCgiSettings, facts: &Facts<'_>) -> Params {
    let mut table = Table { params: Params::new(), of_site: &settings.params };
    paths(settings, facts, &mut table);
    server(facts, &mut table);
    fields(facts.headers, &mut table);
    table.finish()
}

fn paths(settings: &FastCgiSettings, facts: &Facts<'_>, table: &mut Table<'_>) {
    let query = facts.target.split_once('?').map_or("", |(_, query)| query);
    table.set("REQUEST_METHOD", facts.method.as_str());
    table.set("REQUEST_URI", facts.target);
    let Some(script) = facts.script else {
        table.set("SCRIPT_NAME", "");
        table.set("PATH_INFO", facts.path);
        return table.set("QUERY_STRING", query);
    };
    table.set("QUERY_STRING", script.query.as_deref().unwrap_or(query));
    table.set("SCRIPT_NAME", &script.name);
    table.set("DOCUMENT_URI", [script.name.as_slice(), &script.path_info].concat());
    table.set("PATH_INFO", &script.path_info);
    let root = settings.app_root.as_ref().or(settings.tree.as_ref().map(|tree| &tree.root));
    if let Some(root) = root {
        let root = root.as_os_str().as_encoded_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        table.set("DOCUMENT_ROOT", root);
        table.set("SCRIPT_FILENAME", [root, &script.name].concat());
    }
}

fn server(facts: &Facts<'_>, table: &mut Table<'_>) {
    let host = facts.headers.get(header::HOST).map_or(&b""[..], |host| host.as_bytes());
    let (name, port) = split_port(host);
    table.set("SERVER_NAME", name);
    let default = if facts.asker.secure { "443" } else { "80" };
    table.set("SERVER_PORT", port.unwrap_or(default.as_bytes()));
    table.set("SERVER_PROTOCOL", "HTTP/1.1");
    table.set("SERVER_SOFTWARE", "larder");
    table.set("GATEWAY_INTERFACE", "CGI/1.1");
    table.set("REQUEST_SCHEME", if facts.asker.secure { "https" } else { "http" });
    if facts.asker.secure {
        table.set("HTTPS", "on");
    }
    // PHP built with force-cgi-redirect runs no script without it.
    table.set("REDIRECT_STATUS", "200");
    let mut client = String::new();
    if let Some(address) = facts.asker.client.filter(|_| !facts.asker.hidden) {
        forwarded::write_address(address, &mut client);
    }
    table.set("REMOTE_ADDR", client);
    if let Some(length) = facts.length {
        table.set("CONTENT_LENGTH", length.to_string());
    }
}

/// `HTTP_*`. Only names of letters, digits and dashes become parameters: `X_A` and `X-A` would be
/// one. A `Proxy` field never does: programs would take HTTP_PROXY for their own proxy.
fn fields(headers: &HeaderMap, table: &mut Table<'_>) {
    let (mut variable, mut lines) = (Vec::with_capacity(64), Vec::new());
    for name in headers.keys() {
        let value = joined(headers, name, &mut lines);
        if *name == header::CONTENT_TYPE {
            table.set("CONTENT_TYPE", value);
            continue;
        }
        let plain = name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let own = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
        if plain && name != "proxy" && !own.contains(name) {
            variable.clear();
            variable.extend_from_slice(b"HTTP_");
            variable.extend(name.as_str().bytes().map(spelled));
            table.set(&variable, value);
        }
    }
}

fn spelled(letter: u8) -> u8 {
    if letter == b'-' { b'_' } else { letter.to_ascii_uppercase() }
}

/// The lines of a field as one value; `lines` is room for several.
fn joined<'h>(headers: &'h HeaderMap, name: &HeaderName, lines: &'h mut Vec<u8>) -> &'h [u8] {
    let separator: &[u8] = if *name == header::COOKIE { b"; " } else { b", " };
    let mut values = headers.get_all(name).iter();
    let first = values.next().map_or(&b""[..], |value| value.as_bytes());
    let Some(second) = values.next() else { return first };
    lines.clear();
    lines.extend_from_slice(first);
    for value in std::iter::once(second).chain(values) {
        lines.extend_from_slice(separator);
        lines.extend_from_slice(value.as_bytes());
    }
    lines
}

/// Name and port of a `Host`; brackets of an IPv6 address stay.
fn split_port(host: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(colon) = host.iter().rposition(|byte| *byte == b':') else { return (host, None) };
    let port = &host[colon + 1..];
    let is_port = !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    if is_port { (&host[..colon], Some(port)) } else { (host, None) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::settings::TreeSettings;

    fn table(headers: &[(&'static str, &'static str)], secure: bool) -> Vec<(String, String)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let tree = TreeSettings {
            root: "/srv/site/".into(),
            index: Vec::new(),
            try_files: Vec::new(),
            follow_links: false,
            types: Vec::new(),
            check: 1,
            expires: Vec::new(),
            listing: false,
            error_pages: Default::default(),
        };
        let settings = FastCgiSettings {
            tree: Some(tree.into()),
            app_root: None,
            split_path: Vec::new(),
            params: vec![
                ("APP_ENV".to_owned(), Some("test".to_owned())),
                ("SERVER_SOFTWARE".to_owned(), None),
            ],
            release: crate::settings::Release::default(),
        };
        let script = Script {
            name: b"/index.php".to_vec(),
            path_info: b"/a b".to_vec(),
            query: Some("q=1".to_owned()),
        };
        let facts = Facts {
            method: &Method::POST,
            target: "/index.php/a%20b?c=d",
            headers: &map,
            asker: &Asker { client: Some([192, 0, 2, 1].into()), secure, ..Asker::default() },
            script: Some(&script),
            path: b"/index.php/a b",
            length: Some(5),
        };
        let mut record = Vec::new();
        params(&settings, &facts).write(1, &mut record);
        let length = u16::from_be_bytes([record[4], record[5]]);
        pairs(&record[8..8 + usize::from(length)])
    }

    /// Names and values below 128 bytes.
    fn pairs(mut bytes: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let mut pairs = Vec::new();
        while let [name, value, rest @ ..] = bytes {
            let (name, rest) = rest.split_at(usize::from(*name));
            let (value, rest) = rest.split_at(usize::from(*value));
            pairs.push((text(name), text(value)));
            bytes = rest;
        }
        pairs
    }

    #[track_caller]
    fn assert_is(table: &[(String, String)], name: &str, value: Option<&str>) {
        let values: Vec<_> = table.iter().filter(|(set, _)| set == name).collect();
        assert!(values.len() <= 1, "{name} twice");
        assert_eq!(values.first().map(|(_, value)| value.as_str()), value, "{name}");
    }

    #[test]
    fn what_a_script_is_told() {
        let table = table(&[("host", "a.test:8080"), ("content-type", "text/plain")], true);
        for (name, value) in [
            ("SCRIPT_FILENAME", "/srv/site/index.php"),
            ("DOCUMENT_ROOT", "/srv/site"),
            ("SCRIPT_NAME", "/index.php"),
            ("PATH_INFO", "/a b"),
            ("REQUEST_URI", "/index.php/a%20b?c=d"),
            ("QUERY_STRING", "q=1"),
            ("SERVER_NAME", "a.test"),
            ("SERVER_PORT", "8080"),
            ("HTTPS", "on"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("CONTENT_LENGTH", "5"),
            ("CONTENT_TYPE", "text/plain"),
            ("HTTP_HOST", "a.test:8080"),
            ("APP_ENV", "test"),
        ] {
            assert_is(&table, name, Some(value));
        }
        for name in ["HTTP_CONTENT_TYPE", "SERVER_SOFTWARE"] {
            assert_is(&table, name, None);
        }
    }

    #[test]
    fn no_field_becomes_the_variable_of_another() {
        let table = table(
            &[
                ("host", "[::1]"),
                ("x-a", "dash"),
                ("x_a", "underscore"),
                ("x.a", "dot"),
                ("proxy", "http://evil.test"),
                ("cookie", "a=b"),
                ("cookie", "c=d"),
                ("accept", "text/html"),
                ("accept", "*/*"),
            ],
            false,
        );
        assert_is(&table, "HTTP_X_A", Some("dash"));
        assert_is(&table, "HTTP_PROXY", None);
        assert_is(&table, "HTTP_COOKIE", Some("a=b; c=d"));
        assert_is(&table, "HTTP_ACCEPT", Some("text/html, */*"));
        assert_is(&table, "HTTPS", None);
        assert_is(&table, "SERVER_NAME", Some("[::1]"));
        assert_is(&table, "SERVER_PORT", Some("80"));
    }
}
