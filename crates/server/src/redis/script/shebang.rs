//! The first line of a script, `#!lua flags=...` (Redis 7.0: eval.c,
//! `evalExtractShebangFlags`), or of a library, `#!lua name=...` (functions.c,
//! `functionExtractLibMetaData`).

use larder_proto::resp::inline;
use larder_script::FLAGS;

/// Bits of flags, in the order of [`FLAGS`].
pub(crate) const NO_WRITES: u8 = 1;
pub(crate) const ALLOW_OOM: u8 = 1 << 1;

/// Reads the line of a script, if it has one: its flags.
pub(super) fn read(text: &[u8]) -> Result<Option<u8>, String> {
    if !text.starts_with(b"#!") {
        return Ok(None);
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Err("ERR Invalid script shebang".into());
    };
    let line = String::from_utf8_lossy(&text[..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
    }
    let mut bits = 0;
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(format!("ERR Unknown lua shebang option: {word}"));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match FLAGS.iter().position(|known| *known == flag) {
                Some(at) => bits |= 1 << at,
                None => return Err(format!("ERR Unexpected flag in script shebang: {flag}")),
            }
        }
    }
    Ok(Some(bits))
}

/// Error for a name with other characters.
const NAMES: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and \
                     must be at least one character long";

/// The name of a library, from the first line of its text.
pub(super) fn library(text: &[u8]) -> Result<String, String> {
    if !text.starts_with(b"#!") {
        return Err("ERR Missing library metadata".into());
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Err("ERR Invalid library metadata".into());
    };
    let words = inline::words(&text[..end]).filter(|words| !words.is_empty());
    let words = words.ok_or("ERR Invalid library metadata")?;
    let mut words = words.iter().map(|word| String::from_utf8_lossy(word));
    let first = words.next().unwrap_or_default();
    let engine = first.strip_prefix("#!").unwrap_or_default();
    let mut name = None;
    for word in words {
        match word.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case("name=") => {
                if name.replace(value.to_owned()).is_some() {
                    return Err("ERR Invalid metadata value, name argument was given multiple \
                                times"
                        .into());
                }
            }
            _ => return Err(format!("ERR Invalid metadata value given: {word}")),
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(NAMES.into());
    }
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("ERR Engine '{engine}' not found"));
    }
    Ok(name)
}
