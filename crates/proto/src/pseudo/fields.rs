//! Classes of field lines, and the bytes they may have (RFC 9113 sections 8.2 and 8.3, RFC 9114
//! sections 4.2 and 4.3).

use super::request::Malformed;
use crate::hpack::Line;
use crate::http::fields::is_token_byte;

/// Classes of field names; a class and [`CHECKED`] are the mark of a line in the dynamic table.
pub(super) mod class {
    pub(in crate::pseudo) const UNKNOWN: u8 = 0;
    pub(in crate::pseudo) const METHOD: u8 = 1;
    pub(in crate::pseudo) const SCHEME: u8 = 2;
    pub(in crate::pseudo) const AUTHORITY: u8 = 3;
    pub(in crate::pseudo) const PATH: u8 = 4;
    pub(in crate::pseudo) const PROTOCOL: u8 = 5;
    pub(in crate::pseudo) const PSEUDO: u8 = 6;
    pub(in crate::pseudo) const ORDINARY: u8 = 7;
    pub(in crate::pseudo) const HOST: u8 = 8;
    pub(in crate::pseudo) const COOKIE: u8 = 9;
    pub(in crate::pseudo) const CONTENT_LENGTH: u8 = 10;
    pub(in crate::pseudo) const TE: u8 = 11;
    pub(in crate::pseudo) const PRIORITY: u8 = 12;
    pub(in crate::pseudo) const CONNECTION: u8 = 13;
}

/// Name and value were checked and are good.
pub(super) const CHECKED: u8 = 0x80;

/// The class of each name in the static table, by its index.
static STATIC: [u8; 62] = {
    let mut classes = [class::ORDINARY; 62];
    classes[0] = class::UNKNOWN;
    classes[1] = class::AUTHORITY;
    classes[2] = class::METHOD;
    classes[3] = class::METHOD;
    classes[4] = class::PATH;
    classes[5] = class::PATH;
    classes[6] = class::SCHEME;
    classes[7] = class::SCHEME;
    let mut at = 8;
    while at <= 14 {
        classes[at] = class::PSEUDO;
        at += 1;
    }
    classes[28] = class::CONTENT_LENGTH;
    classes[32] = class::COOKIE;
    classes[38] = class::HOST;
    classes[57] = class::CONNECTION;
    classes
};

/// The class of a name in full.
fn classify(name: &[u8]) -> u8 {
    match name {
        b":method" => class::METHOD,
        b":scheme" => class::SCHEME,
        b":authority" => class::AUTHORITY,
        b":path" => class::PATH,
        b":protocol" => class::PROTOCOL,
        [b':', ..] => class::PSEUDO,
        b"host" => class::HOST,
        b"cookie" => class::COOKIE,
        b"content-length" => class::CONTENT_LENGTH,
        b"te" => class::TE,
        b"priority" => class::PRIORITY,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            class::CONNECTION
        }
        _ => class::ORDINARY,
    }
}

/// Bytes of field names: those of tokens, without upper-case letters (section 8.2.1).
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 0x7f {
        table[byte as usize] = is_token_byte(byte) && !byte.is_ascii_uppercase();
        byte += 1;
    }
    table
};

/// Whether a value can stand in a line of HTTP/1.1 (section 8.2.1). One fold without early exit,
/// which the compiler turns into vector code.
#[inline]
fn is_value(value: &[u8]) -> bool {
    let edge = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let good = value.iter().fold(true, |ok, &b| ok & (b != 0) & (b != b'\r') & (b != b'\n'));
    good && !edge(value.first()) && !edge(value.last())
}

/// The class of a line that was not checked before; the fault of a bad one.
pub(super) fn check(line: &Line<'_>) -> Result<u8, Malformed> {
    let class = match STATIC.get(usize::from(line.static_name)) {
        Some(&class) if class != class::UNKNOWN => class,
        _ => {
            let name = line.name.strip_prefix(b":").unwrap_or(line.name);
            if name.is_empty() || !name.iter().all(|&byte| NAME_BYTES[usize::from(byte)]) {
                return Err(Malformed::FieldName);
            }
            classify(line.name)
        }
    };
    if is_value(line.value) { Ok(class) } else { Err(Malformed::FieldValue) }
}

pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Visible ASCII without `#`.
pub(super) fn is_uri(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |ok, &b| ok & (b > b' ') & (b < 0x7f) & (b != b'#'))
}

/// Visible ASCII without the delimiters of other parts of a URI and without userinfo (section
/// 8.3.1). The parser of heads knows what a host is.
pub(super) fn is_authority(bytes: &[u8]) -> bool {
    let good = |b: u8| (b > b' ') & (b < 0x7f) & !matches!(b, b'#' | b'/' | b'?' | b'@');
    !bytes.is_empty() && bytes.iter().all(|&b| good(b))
}
