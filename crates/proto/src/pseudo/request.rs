//! The head of one request, written line by line.

use std::ops::Range;

use super::Workspace;
use super::fields::{CHECKED, check, class, is_authority, is_token, is_uri};
use super::priority::Priority;
use crate::hpack::Line;
use crate::http::Authority;
use crate::http::framing::content_length;

/// Whether a request is a CONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connect {
    /// It is none.
    #[default]
    No,
    /// A tunnel to a host and port (RFC 9113 section 8.5). The head is a CONNECT.
    Tunnel,
    /// Another protocol on the stream (RFC 8441). The head is a GET with `connection: upgrade` and
    /// `upgrade: PROTOCOL`, and without a key for WebSockets. The answer is a 200, not a 101.
    Protocol,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident $text:literal,)*) => {
        /// The fault of a malformed request (RFC 9113 section 8.1.1), as counted and logged.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Malformed {
            $($(#[$doc])* $variant,)*
        }

        impl Malformed {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// A short name for logs and counters: lower-case, underscores.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

faults! {
    /// A field name that is empty, or has upper-case letters or bytes that are not of a token.
    FieldName "field_name",
    /// A field value with NUL, CR or LF, or with a space or tab at its start or end.
    FieldValue "field_value",
    /// A pseudo field that is unknown, or that only responses have.
    PseudoUnknown "pseudo_unknown",
    /// A pseudo field behind an ordinary one, or in trailers.
    PseudoLate "pseudo_late",
    /// A pseudo field that came twice.
    PseudoRepeated "pseudo_repeated",
    /// A pseudo field that the request needs is missing, or one that it must not have is there.
    PseudoMissing "pseudo_missing",
    /// `:method` is not a token.
    Method "method",
    /// `:scheme` is neither `http` nor `https`.
    Scheme "scheme",
    /// `:path` does not begin with `/` (and is not `*` of OPTIONS), or has bytes that no URI has.
    Path "path",
    /// `:authority` is empty or has bytes that no authority has; or `:protocol` is not a token.
    Authority "authority",
    /// `host` came twice, or contradicts `:authority`.
    Host "host",
    /// A field of the connection (RFC 9113 section 8.2.2).
    ConnectionField "connection_field",
    /// `content-length` is not one number, or not the length of the body.
    ContentLength "content_length",
    /// Trailers that are not the end of their stream, or whose body is not as long as announced.
    Trailers "trailers",
    /// A stream that depends on itself (RFC 7540 section 5.3.1).
    SelfDependency "self_dependency",
}

/// Number of pseudo fields that requests have.
const PSEUDO: usize = 5;

/// Writes the head of one request, line by line.
#[derive(Debug)]
pub struct RequestWriter<'w> {
    head: &'w mut Vec<u8>,
    pseudo_bytes: &'w mut Vec<u8>,
    cookies: &'w mut Vec<u8>,
    pseudo: [Option<Range<u32>>; PSEUDO],
    /// The request line is written: no pseudo field may follow.
    begun: bool,
    allow_protocol: bool,
    has_host: bool,
    secure: bool,
    connect: Connect,
    content_length: Option<u64>,
    priority: Option<Priority>,
    fault: Option<Malformed>,
}

/// Facts about a written head.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// `:scheme` is `https`; false in a CONNECT.
    pub secure: bool,
    /// The kind of CONNECT, if it is one.
    pub connect: Connect,
    /// The length of the body, if it was announced.
    pub content_length: Option<u64>,
    /// Of the `priority` field, if there is one.
    pub priority: Option<Priority>,
}

impl<'w> RequestWriter<'w> {
    /// Begins a head, which replaces the one in `work`. `allow_protocol`: extended CONNECT is
    /// enabled (RFC 8441).
    pub fn new(work: &'w mut Workspace, allow_protocol: bool) -> Self {
        Self::over(&mut work.head, &mut work.pseudo, &mut work.cookies, allow_protocol)
    }

    pub(crate) fn over(
        head: &'w mut Vec<u8>,
        pseudo_bytes: &'w mut Vec<u8>,
        cookies: &'w mut Vec<u8>,
        allow_protocol: bool,
    ) -> Self {
        head.clear();
        pseudo_bytes.clear();
        cookies.clear();
        Self {
            head,
            pseudo_bytes,
            cookies,
            pseudo: [const { None }; PSEUDO],
            begun: false,
            allow_protocol,
            has_host: false,
            secure: false,
            connect: Connect::No,
            content_length: None,
            priority: None,
            fault: None,
        }
    }

    /// Takes one line of the block. Lines behind a fault are ignored.
    #[inline]
    pub fn line(&mut self, line: Line<'_>) {
        if self.fault.is_none()
            && let Err(fault) = self.take(line)
        {
            self.fault = Some(fault);
        }
    }

    #[inline]
    fn take(&mut self, line: Line<'_>) -> Result<(), Malformed> {
        let class = if *line.mark & CHECKED != 0 {
            *line.mark & !CHECKED
        } else {
            let class = check(&line)?;
            *line.mark = class | CHECKED;
            class
        };
        let Line { name, value, .. } = line;
        if class <= class::PSEUDO {
            return self.pseudo(class, value);
        }
        if !self.begun {
            self.begin()?;
        }
        match class {
            class::ORDINARY => {}
            class::COOKIE => {
                self.cookie(value);
                return Ok(());
            }
            class::HOST => return self.host(value),
            class::CONTENT_LENGTH => {
                let length = content_length(value).ok_or(Malformed::ContentLength)?;
                if self.content_length.replace(length).is_some() {
                    return Err(Malformed::ContentLength);
                }
            }
            class::PRIORITY => self.priority = Some(Priority::parse(value)),
            class::TE if value.eq_ignore_ascii_case(b"trailers") => return Ok(()),
            _ => return Err(Malformed::ConnectionField),
        }
        write_line(name, value, self.head);
        Ok(())
    }

    #[inline]
    fn pseudo(&mut self, class: u8, value: &[u8]) -> Result<(), Malformed> {
        if self.begun {
            return Err(Malformed::PseudoLate);
        }
        if class == class::PSEUDO || class == class::PROTOCOL && !self.allow_protocol {
            return Err(Malformed::PseudoUnknown);
        }
        let start = self.pseudo_bytes.len() as u32;
        self.pseudo_bytes.extend_from_slice(value);
        let place = &mut self.pseudo[usize::from(class) - 1];
        match place.replace(start..start + value.len() as u32) {
            None => Ok(()),
            Some(_) => Err(Malformed::PseudoRepeated),
        }
    }

    /// Writes the request line and the host: all pseudo fields are there.
    fn begin(&mut self) -> Result<(), Malformed> {
        self.begun = true;
        let pseudo = Pseudo { bytes: self.pseudo_bytes, places: &self.pseudo };
        (self.connect, self.secure) = pseudo.check()?;
        pseudo.write(self.connect, self.head);
        Ok(())
    }

    /// A `host` field beside or instead of `:authority`: equal, or the request is refused (section
    /// 8.3.1).
    fn host(&mut self, value: &[u8]) -> Result<(), Malformed> {
        if std::mem::replace(&mut self.has_host, true) {
            return Err(Malformed::Host);
        }
        let pseudo = Pseudo { bytes: self.pseudo_bytes, places: &self.pseudo };
        let Some(authority) = pseudo.get(class::AUTHORITY) else {
            write_line(b"host", value, self.head);
            return Ok(());
        };
        let default = if self.secure { 443 } else { 80 };
        let same = match (Authority::parse(authority), Authority::parse(value)) {
            (Some(a), Some(b)) => a.same(&b, default),
            _ => authority == value,
        };
        if same { Ok(()) } else { Err(Malformed::Host) }
    }

    /// A cookie: all of them become one field (section 8.2.3).
    fn cookie(&mut self, value: &[u8]) {
        let separator: &[u8] = if self.cookies.is_empty() { b"cookie: " } else { b"; " };
        self.cookies.extend_from_slice(separator);
        self.cookies.extend_from_slice(value);
    }

    /// Ends the head. `end`: the request has no body.
    pub fn finish(mut self, end: bool) -> Result<Written, Malformed> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if !self.begun {
            self.begin()?;
        }
        if !self.cookies.is_empty() {
            self.head.extend_from_slice(self.cookies);
            self.head.extend_from_slice(b"\r\n");
        }
        match (self.content_length, end, self.connect) {
            (Some(1..), true, _) | (Some(_), _, Connect::Tunnel | Connect::Protocol) => {
                return Err(Malformed::ContentLength);
            }
            (None, false, Connect::No) => write_line(b"transfer-encoding", b"chunked", self.head),
            _ => {}
        }
        self.head.extend_from_slice(b"\r\n");
        Ok(Written {
            secure: self.secure,
            connect: self.connect,
            content_length: self.content_length,
            priority: self.priority,
        })
    }
}

/// The pseudo fields of a request.
#[derive(Clone, Copy)]
struct Pseudo<'p> {
    bytes: &'p [u8],
    places: &'p [Option<Range<u32>>; PSEUDO],
}

impl<'p> Pseudo<'p> {
    #[inline]
    fn get(&self, class: u8) -> Option<&'p [u8]> {
        let range = self.places[usize::from(class) - 1].as_ref()?;
        self.bytes.get(range.start as usize..range.end as usize)
    }

    /// Checks all of them (section 8.3.1). Returns the kind of CONNECT and whether the scheme is
    /// `https`.
    fn check(&self) -> Result<(Connect, bool), Malformed> {
        let method = self.get(class::METHOD).ok_or(Malformed::PseudoMissing)?;
        if !is_token(method) {
            return Err(Malformed::Method);
        }
        let authority = self.get(class::AUTHORITY);
        if authority.is_some_and(|authority| !is_authority(authority)) {
            return Err(Malformed::Authority);
        }
        let (scheme, path) = (self.get(class::SCHEME), self.get(class::PATH));
        let protocol = self.get(class::PROTOCOL);
        if method == b"CONNECT" && protocol.is_none() {
            // A tunnel has neither scheme nor path (section 8.5).
            let alone = scheme.is_none() && path.is_none() && authority.is_some();
            return if alone {
                Ok((Connect::Tunnel, false))
            } else {
                Err(Malformed::PseudoMissing)
            };
        }
        let secure = match scheme.ok_or(Malformed::PseudoMissing)? {
            scheme if scheme.eq_ignore_ascii_case(b"https") => true,
            scheme if scheme.eq_ignore_ascii_case(b"http") => false,
            _ => return Err(Malformed::Scheme),
        };
        let path = path.ok_or(Malformed::PseudoMissing)?;
        let form = path.first() == Some(&b'/') || path == b"*" && method == b"OPTIONS";
        if !form || !is_uri(path) {
            return Err(Malformed::Path);
        }
        match protocol {
            None => Ok((Connect::No, secure)),
            Some(_) if method != b"CONNECT" || authority.is_none() => Err(Malformed::PseudoMissing),
            Some(protocol) if !is_token(protocol) => Err(Malformed::Authority),
            Some(_) => Ok((Connect::Protocol, secure)),
        }
    }

    /// Writes request line, host and upgrade from fields that were checked.
    fn write(&self, connect: Connect, head: &mut Vec<u8>) {
        let authority = self.get(class::AUTHORITY);
        let method =
            if connect == Connect::Protocol { Some(&b"GET"[..]) } else { self.get(class::METHOD) };
        let target = if connect == Connect::Tunnel { authority } else { self.get(class::PATH) };
        head.extend_from_slice(method.unwrap_or_default());
        head.push(b' ');
        head.extend_from_slice(target.unwrap_or_default());
        head.extend_from_slice(b" HTTP/1.1\r\n");
        if let Some(authority) = authority {
            write_line(b"host", authority, head);
        }
        if let Some(protocol) = self.get(class::PROTOCOL) {
            write_line(b"connection", b"upgrade", head);
            write_line(b"upgrade", protocol, head);
        }
    }
}

/// Takes one line of trailers: the same rules, no pseudo fields, and none that frame or route the
/// request (RFC 9110 section 6.5.1).
pub(crate) fn trailer(line: &Line<'_>, head: &mut Vec<u8>) -> Result<(), Malformed> {
    match check(line)? {
        class::ORDINARY | class::PRIORITY => write_line(line.name, line.value, head),
        class::HOST | class::COOKIE | class::CONTENT_LENGTH => {}
        ..=class::PSEUDO => return Err(Malformed::PseudoLate),
        _ => return Err(Malformed::ConnectionField),
    }
    Ok(())
}

#[inline]
fn write_line(name: &[u8], value: &[u8], head: &mut Vec<u8>) {
    head.reserve(name.len() + value.len() + 4);
    head.extend_from_slice(name);
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}
