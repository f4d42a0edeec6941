//! The first line of a script, `#!lua flags=...` (Redis 7.0: eval.c,
//! `evalExtractShebangFlags`), or of a library, `#!lua name=...` (functions.c,
//! `functionExtractLibMetaData`).

use larder_script::FLAGS;

/// Reads the line of a script, if it has one: whether the script says that it does not write.
pub(super) fn read(text: &[u8]) -> Result<Option<bool>, String> {
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
    let mut no_writes = false;
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(format!("ERR Unknown lua shebang option: {word}"));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => no_writes = true,
                flag if FLAGS.contains(&flag) => {}
                _ => return Err(format!("ERR Unexpected flag in script shebang: {flag}")),
            }
        }
    }
    Ok(Some(no_writes))
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
    let line = String::from_utf8_lossy(&text[2..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
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
