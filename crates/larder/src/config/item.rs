//! One value of an option: its text, type, and expected form.

use std::{path::PathBuf, time::Duration};

use larder_server::settings::{
    Balance, Candidate, CookiePattern, FieldEdit, Glob, HostPattern, KeyField, Listen, Net,
    Pattern, Rate, Redirect, StatusTtl,
};
use regex::Regex;

use super::{
    app::{self, Place},
    options::{Kind, Opt},
    problem::nearest,
    value::{self, MemberUrl, OriginUrl},
};

/// One value of an option, in its own type.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Bool(bool),
    Number(u64),
    Text(String),
    Address(std::net::SocketAddr),
    Listen(Listen),
    AppListen(Place),
    Net(Net),
    Host(HostPattern),
    Glob(Glob),
    Cookie(CookiePattern),
    KeyField(KeyField),
    Regex(Regex),
    HeaderMatch(String, Glob),
    Origin(OriginUrl),
    Member(MemberUrl),
    Balance(Balance),
    FieldEdit(FieldEdit),
    Redirect(Redirect),
    Rate(Rate),
    Candidate(Candidate),
    Param(String, Option<String>),
    MediaType(String, String),
    Expires(Glob, u32),
    SendFiles(String, PathBuf),
    ErrorPage((u16, u16), PathBuf),
    StatusTtl(StatusTtl),
    Statuses(u16, u16),
    Parameter(Pattern),
    RemoteServer(larder_client::Server),
}

/// Types to which the value of an option can be converted.
pub(crate) trait FromItem: Sized {
    fn from_item(item: &Item) -> Option<Self>;
}

macro_rules! from_item {
    ($($type:ty: $pattern:pat => $value:expr),* $(,)?) => {
        $(impl FromItem for $type {
            fn from_item(item: &Item) -> Option<Self> {
                match item { $pattern => Some($value), _ => None }
            }
        })*
    };
}

from_item! {
    bool: Item::Bool(on) => *on,
    u64: Item::Number(number) => *number,
    u16: Item::Number(number) => u16::try_from(*number).unwrap_or(u16::MAX),
    u32: Item::Number(number) => u32::try_from(*number).unwrap_or(u32::MAX),
    u8: Item::Number(number) => u8::try_from(*number).unwrap_or(u8::MAX),
    i32: Item::Number(number) => i32::try_from(*number).unwrap_or(i32::MAX),
    usize: Item::Number(number) => usize::try_from(*number).unwrap_or(usize::MAX),
    Duration: Item::Number(ms) => Duration::from_millis(*ms),
    String: Item::Text(text) => text.clone(),
    PathBuf: Item::Text(text) => PathBuf::from(text),
    std::net::SocketAddr: Item::Address(address) => *address,
    Listen: Item::Listen(listen) => listen.clone(),
    Place: Item::AppListen(place) => place.clone(),
    Net: Item::Net(net) => *net,
    HostPattern: Item::Host(host) => host.clone(),
    Glob: Item::Glob(glob) => glob.clone(),
    CookiePattern: Item::Cookie(cookie) => cookie.clone(),
    KeyField: Item::KeyField(field) => field.clone(),
    Regex: Item::Regex(regex) => regex.clone(),
    (String, Glob): Item::HeaderMatch(name, glob) => (name.clone(), glob.clone()),
    OriginUrl: Item::Origin(url) => url.clone(),
    MemberUrl: Item::Member(member) => member.clone(),
    Balance: Item::Balance(balance) => balance.clone(),
    FieldEdit: Item::FieldEdit(edit) => edit.clone(),
    Redirect: Item::Redirect(redirect) => redirect.clone(),
    Rate: Item::Rate(rate) => *rate,
    Candidate: Item::Candidate(candidate) => candidate.clone(),
    (String, String): Item::MediaType(extension, name) => (extension.clone(), name.clone()),
    (Glob, u32): Item::Expires(types, seconds) => (types.clone(), *seconds),
    (String, PathBuf): Item::SendFiles(prefix, path) => (prefix.clone(), path.clone()),
    ((u16, u16), PathBuf): Item::ErrorPage(statuses, path) => (*statuses, path.clone()),
    (String, Option<String>): Item::Param(name, value) => (name.clone(), value.clone()),
    StatusTtl: Item::StatusTtl(ttl) => *ttl,
    (u16, u16): Item::Statuses(first, last) => (*first, *last),
    Pattern: Item::Parameter(pattern) => pattern.clone(),
    larder_client::Server: Item::RemoteServer(server) => server.clone(),
}

/// The default of an option, typed. Empty: none.
pub(crate) fn default_items(opt: &Opt) -> Vec<Item> {
    let texts: Vec<&str> =
        if opt.list { opt.default.split_whitespace().collect() } else { vec![opt.default] };
    texts
        .into_iter()
        .filter(|text| !text.is_empty())
        .filter_map(|text| parse(opt.kind, text).ok())
        .collect()
}

/// Before the word that is nearest to a wrong one.
pub(crate) const NEAREST: &str = "; did you mean ";

/// One value from its text.
pub(crate) fn parse(kind: Kind, text: &str) -> Result<Item, String> {
    match kind {
        Kind::Bool => text.parse().map(Item::Bool).map_err(|_| expected(kind)),
        Kind::Count(min, max) => {
            let number = text.trim().parse().ok().filter(|number| (min..=max).contains(number));
            number.map(Item::Number).ok_or_else(|| expected(kind))
        }
        Kind::Size(min, max) => {
            let bytes = value::size(text)?;
            if (min..=max).contains(&bytes) { Ok(Item::Number(bytes)) } else { Err(expected(kind)) }
        }
        Kind::SizeOrAuto(max) => size_or_auto(max, text),
        Kind::Time(min, max) => {
            let ms = u64::try_from(value::duration(text)?.as_millis()).unwrap_or(u64::MAX);
            if (min..=max).contains(&ms) { Ok(Item::Number(ms)) } else { Err(expected(kind)) }
        }
        Kind::Text => Ok(Item::Text(text.to_owned())),
        Kind::File if text.is_empty() => Err(expected(kind)),
        Kind::File => Ok(Item::Text(text.to_owned())),
        Kind::Choice(words) if words.contains(&text) => Ok(Item::Text(text.to_owned())),
        Kind::Choice(words) => Err(match nearest(text, words.iter().copied()) {
            Some(near) => format!("{}{NEAREST}\"{near}\"?", expected(kind)),
            None => expected(kind),
        }),
        Kind::Address => value::address(text).map(Item::Address),
        Kind::Listen => value::listen(text).map(Item::Listen),
        Kind::AppListen => app::place(text).map(Item::AppListen),
        Kind::RemoteServer => {
            larder_client::Server::parse(text).map(Item::RemoteServer).map_err(|_| expected(kind))
        }
        Kind::Mode => match u32::from_str_radix(text, 8) {
            Ok(mode) if mode <= 0o777 => Ok(Item::Number(u64::from(mode))),
            _ => Err(expected(kind)),
        },
        Kind::Char => match text.as_bytes() {
            [byte] if byte.is_ascii_graphic() => Ok(Item::Number(u64::from(*byte))),
            _ => Err(expected(kind)),
        },
        Kind::Net => Net::parse(text).map(Item::Net).ok_or_else(|| expected(kind)),
        Kind::Host => HostPattern::parse(text).map(Item::Host).ok_or_else(|| expected(kind)),
        Kind::Glob => Ok(Item::Glob(Glob::new(text))),
        Kind::Parameter => match text.trim_end_matches('*') {
            name if name.contains(['*', '&', '=', '?', '#']) => Err(expected(kind)),
            _ => Ok(Item::Parameter(Pattern::parse(text))),
        },
        Kind::Cookie => Ok(Item::Cookie(CookiePattern::new(text))),
        Kind::Token if value::is_token(text) => Ok(Item::Text(text.to_owned())),
        Kind::Token => Err(expected(kind)),
        Kind::KeyField if !value::is_token(text) => Err(expected(kind)),
        Kind::KeyField => KeyField::new(text).map(Item::KeyField).ok_or_else(|| {
            format!("{}; {text} is in the key already, or is written by Larder", expected(kind))
        }),
        Kind::Statuses => value::statuses(text).map(|(first, last)| Item::Statuses(first, last)),
        Kind::StatusTtl => value::status_ttl(text).map(Item::StatusTtl),
        Kind::Regex => Regex::new(text).map(Item::Regex).map_err(|error| regex_problem(&error)),
        Kind::HeaderMatch => {
            value::header_match(text).map(|(name, glob)| Item::HeaderMatch(name, glob))
        }
        Kind::HeaderLine => value::header_line(text).map(Item::Text),
        Kind::ViaName => {
            value::via_name(text).then(|| Item::Text(text.to_owned())).ok_or_else(|| expected(kind))
        }
        Kind::Origin => value::origin_url(text).map(Item::Origin),
        Kind::Member => value::member_url(text).map(Item::Member),
        Kind::Balance => value::balance(text).map(Item::Balance),
        Kind::FieldEdit => value::field_edit(text).map(Item::FieldEdit),
        Kind::Redirect => value::redirect(text).map(Item::Redirect),
        Kind::Rate => value::rate(text).map(Item::Rate),
        Kind::Prefix if value::is_place(text) => Ok(Item::Text(text.to_owned())),
        Kind::Candidate => found(kind, Candidate::parse(text).map(Item::Candidate)),
        Kind::MediaType => value::media_type(text).map(|(end, name)| Item::MediaType(end, name)),
        Kind::Expires => value::expires(text).map(|(types, time)| Item::Expires(types, time)),
        Kind::SendFiles => value::send_files(text).map(|(from, to)| Item::SendFiles(from, to)),
        Kind::ErrorPage => {
            value::error_page(text).map(|(statuses, path)| Item::ErrorPage(statuses, path))
        }
        Kind::Param => value::param(text).map(|(name, value)| Item::Param(name, value)),
        Kind::Prefix | Kind::Table(..) | Kind::Tables(_) => Err(expected(kind)),
    }
}

fn found(kind: Kind, item: Option<Item>) -> Result<Item, String> {
    item.ok_or_else(|| expected(kind))
}

fn size_or_auto(max: u64, text: &str) -> Result<Item, String> {
    if text == "auto" {
        return Ok(Item::Number(u64::MAX));
    }
    parse(Kind::Size(0, max), text).map_err(|_| expected(Kind::SizeOrAuto(max)))
}

/// The last line of an error of the regex crate: the reason, without the lines that mark the place.
fn regex_problem(error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("a regular expression ({reason})")
}

/// The expected form of a value.
pub(crate) fn expected(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Count(min, max) => format!("a number from {min} to {max}"),
        Kind::Size(min, max) => {
            format!("a size from \"{}\" to \"{}\"", value::show_size(min), value::show_size(max))
        }
        Kind::SizeOrAuto(max) => {
            format!("\"auto\", or a size up to \"{}\"", value::show_size(max))
        }
        Kind::Time(min, max) => {
            let show = |ms| value::show_duration(Duration::from_millis(ms));
            format!("a duration from \"{}\" to \"{}\"", show(min), show(max))
        }
        Kind::Text => "a text".to_owned(),
        Kind::File => "a path".to_owned(),
        Kind::Choice(words) => format!("one of \"{}\"", words.join("\", \"")),
        Kind::Address => "an address and port such as \"127.0.0.1:8080\"".to_owned(),
        Kind::Listen => {
            "an address and port such as \"127.0.0.1:11211\", or \"unix:\" and a path".to_owned()
        }
        Kind::AppListen => {
            "\"auto\", the path of a unix socket, a port, or an address and port".to_owned()
        }
        Kind::RemoteServer => {
            "a server such as \"10.0.0.1:11211\" or \"unix:/run/m.sock weight=2\"".to_owned()
        }
        Kind::Mode => "permissions in octal such as \"700\"".to_owned(),
        Kind::Char => "one visible ASCII character".to_owned(),
        Kind::Net => "an address or network such as \"127.0.0.1\" or \"10.0.0.0/8\"".to_owned(),
        Kind::Host => "a host such as \"example.org\" or \"*.example.org\"".to_owned(),
        Kind::Glob => "a pattern such as \"/api/*\"".to_owned(),
        Kind::Parameter => "a parameter name, or how names begin: \"utm_*\"".to_owned(),
        Kind::Cookie => "a cookie name or pattern such as \"*_session\"".to_owned(),
        Kind::Token => "a name such as \"GET\" or \"X-Header\"".to_owned(),
        Kind::KeyField => "a request field such as \"X-Forwarded-Prefix\"".to_owned(),
        Kind::Statuses => "a status such as \"200\", \"2xx\" or \"200-399\"".to_owned(),
        Kind::StatusTtl => "a time such as \"10s\", with a status before it or not: \"404 10s\", \
                            \"5xx 1s\""
            .to_owned(),
        Kind::Regex => "a regular expression".to_owned(),
        Kind::HeaderMatch => "a header to match such as \"X-Api-Key: *\"".to_owned(),
        Kind::ViaName => "a name such as \"larder\" or \"cache.example.org:80\"".to_owned(),
        Kind::HeaderLine => "a header line such as \"X-Cached-By: larder\"".to_owned(),
        Kind::Member => {
            "a server such as \"http://10.0.0.1:80\" or \"http://10.0.0.1:80 weight=3\"".to_owned()
        }
        Kind::Balance => {
            "one of \"least\", \"round-robin\", \"hash:url\", \"hash:cookie NAME\"".to_owned()
        }
        Kind::Origin => "an origin such as \"http://127.0.0.1:9000\"".to_owned(),
        Kind::FieldEdit => {
            "a field such as \"X-Env: prod\", \"+Link: </a>\" or \"-Server\"".to_owned()
        }
        Kind::Rate => "a rate such as \"20/s\" or \"600/m burst 50\"".to_owned(),
        Kind::Redirect => {
            "a place such as \"301 https://example.org$uri\" or \"/there\"".to_owned()
        }
        Kind::Prefix => "a path such as \"/api\"".to_owned(),
        Kind::Candidate => "a place such as \"$uri\", \"/index.php\" or \"=404\"".to_owned(),
        Kind::MediaType => "a type such as \"wasm=application/wasm\"".to_owned(),
        Kind::Expires => {
            "a time such as \"1h\", or a type and a time such as \"image/* 30d\"".to_owned()
        }
        Kind::SendFiles => "a path and a directory such as \"/files/=/srv/files\"".to_owned(),
        Kind::ErrorPage => {
            "a table of statuses and files such as { 404 = \"404.html\", 5xx = \"error.html\" }"
                .to_owned()
        }
        Kind::Param => "a parameter such as \"APP_ENV=production\" or \"-HTTP_ACCEPT\"".to_owned(),
        Kind::Table(_, Some(key)) => format!("a text (its `{key}`) or a table"),
        Kind::Table(_, None) => "a table".to_owned(),
        Kind::Tables(_) => "tables, each under its own header in double brackets".to_owned(),
    }
}
