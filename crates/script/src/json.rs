//! The library `cjson` (lua-cjson 2.1.0, as Redis has it): encoding, and settings.

use std::{cell::RefCell, rc::Rc};

use mlua::{Lua, LuaString, Scope, Table, Value};

use crate::{
    json_read,
    native::{Add, Call, Fail, Outcome, function},
    pause::Pause,
};

/// Items between two looks at the time.
const ITEMS: usize = 256;
/// Largest setting of a depth: each level takes a frame of the stack.
const DEEPEST: i64 = 1000;

/// The settings of a state's `cjson`. Redis keeps them for all scripts; here, too.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth: usize,
    pub(crate) decode_depth: usize,
    /// Digits of a number.
    precision: usize,
    /// `inf` and `nan` may be written; `null`: they are written as null.
    encode_invalid: Invalid,
    pub(crate) decode_invalid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Off,
    On,
    Null,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1000,
            decode_depth: 1000,
            precision: 14,
            encode_invalid: Invalid::Off,
            decode_invalid: true,
        }
    }
}

pub(crate) fn constants(lua: &Lua, libraries: &Table) -> mlua::Result<()> {
    let json: Table = libraries.raw_get("cjson")?;
    json.raw_set("null", Value::NULL)?;
    json.raw_set("_NAME", "cjson")?;
    json.raw_set("_VERSION", "2.1.0")?;
    let _ = lua;
    Ok(())
}

pub(crate) fn add<'a: 'scope, 'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    pause: &Pause<'a>,
    add: &mut Add<'_>,
) -> mlua::Result<()> {
    let options = Rc::new(RefCell::new(Options::default()));
    let (own, of) = (pause.clone(), options.clone());
    let run = move |lua: &Lua, call: &Call| encode(lua, call, &own, &of.borrow().clone());
    add("cjson", "encode", function(scope, "encode", run)?)?;
    let (own, of) = (pause.clone(), options.clone());
    let run = move |lua: &Lua, call: &Call| {
        let text = match call.len() {
            1 => call.text(0)?,
            _ => return Err(call.bad(0, "expected 1 argument")),
        };
        json_read::decode(lua, &own, &text.as_bytes(), &of.borrow().clone())
    };
    add("cjson", "decode", function(scope, "decode", run)?)?;
    settings(scope, &options, add)
}

fn settings<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    options: &Rc<RefCell<Options>>,
    add: &mut Add<'_>,
) -> mlua::Result<()> {
    let of = options.clone();
    let run = move |_: &Lua, call: &Call| {
        let o = &mut *of.borrow_mut();
        o.sparse_convert = flag(call, 0)?.unwrap_or(o.sparse_convert);
        o.sparse_ratio = within(call, 1, o.sparse_ratio, 0, i64::from(i32::MAX))?;
        o.sparse_safe = within(call, 2, o.sparse_safe, 0, i64::from(i32::MAX))?;
        Ok((o.sparse_convert, o.sparse_ratio, o.sparse_safe))
    };
    add("cjson", "encode_sparse_array", function(scope, "encode_sparse_array", run)?)?;
    let of = options.clone();
    let run = move |_: &Lua, call: &Call| {
        let o = &mut *of.borrow_mut();
        o.encode_depth = within(call, 0, o.encode_depth as i64, 1, DEEPEST)? as usize;
        Ok(o.encode_depth)
    };
    add("cjson", "encode_max_depth", function(scope, "encode_max_depth", run)?)?;
    let of = options.clone();
    let run = move |_: &Lua, call: &Call| {
        let o = &mut *of.borrow_mut();
        o.decode_depth = within(call, 0, o.decode_depth as i64, 1, DEEPEST)? as usize;
        Ok(o.decode_depth)
    };
    add("cjson", "decode_max_depth", function(scope, "decode_max_depth", run)?)?;
    let of = options.clone();
    let run = move |_: &Lua, call: &Call| {
        let o = &mut *of.borrow_mut();
        o.precision = within(call, 0, o.precision as i64, 1, 14)? as usize;
        Ok(o.precision)
    };
    add("cjson", "encode_number_precision", function(scope, "encode_number_precision", run)?)?;
    let of = options.clone();
    let run = move |lua: &Lua, call: &Call| {
        let o = &mut *of.borrow_mut();
        match call.get(0) {
            Value::String(text) if text.as_bytes() == *b"null" => o.encode_invalid = Invalid::Null,
            _ => match flag(call, 0)? {
                Some(true) => o.encode_invalid = Invalid::On,
                Some(false) => o.encode_invalid = Invalid::Off,
                None => {}
            },
        }
        Ok(match o.encode_invalid {
            Invalid::Null => Value::String(lua.create_string("null")?),
            other => Value::Boolean(other == Invalid::On),
        })
    };
    add("cjson", "encode_invalid_numbers", function(scope, "encode_invalid_numbers", run)?)?;
    let of = options.clone();
    let run = move |_: &Lua, call: &Call| {
        let o = &mut *of.borrow_mut();
        o.decode_invalid = flag(call, 0)?.unwrap_or(o.decode_invalid);
        Ok(o.decode_invalid)
    };
    add("cjson", "decode_invalid_numbers", function(scope, "decode_invalid_numbers", run)?)?;
    // Buffers are not kept.
    let run = |_: &Lua, call: &Call| Ok(flag(call, 0)?.unwrap_or(true));
    add("cjson", "encode_keep_buffer", function(scope, "encode_keep_buffer", run)?)
}

fn flag(call: &Call, at: usize) -> Outcome<Option<bool>> {
    match call.get(at) {
        Value::Nil => Ok(None),
        Value::Boolean(on) => Ok(Some(*on)),
        Value::String(text) if text.as_bytes() == *b"on" => Ok(Some(true)),
        Value::String(text) if text.as_bytes() == *b"off" => Ok(Some(false)),
        Value::String(text) => {
            Err(call.bad(at, &format!("invalid option '{}'", text.to_string_lossy())))
        }
        _ => Err(call.bad(at, "string expected")),
    }
}

fn within(call: &Call, at: usize, default: i64, least: i64, most: i64) -> Outcome<i64> {
    let value = call.integer_or(at, default)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(call.bad(at, &format!("expected integer between {least} and {most}")))
}

fn encode(lua: &Lua, call: &Call, pause: &Pause<'_>, options: &Options) -> Outcome<LuaString> {
    if call.len() != 1 {
        return Err(call.bad(0, "expected 1 argument"));
    }
    let mut writer = Writer { pause, options, out: Vec::new(), items: 0 };
    writer.value(call.get(0), 0)?;
    Ok(lua.create_string(&writer.out)?)
}

struct Writer<'a> {
    pause: &'a Pause<'a>,
    options: &'a Options,
    out: Vec<u8>,
    items: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Outcome<()> {
        self.items += 1;
        if self.items.is_multiple_of(ITEMS) {
            self.pause.look()?;
        }
        self.pause.has_room(self.out.len())?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Boolean(value) => self.out.extend_from_slice(value.to_string().as_bytes()),
            Value::LightUserData(pointer) if pointer.0.is_null() => {
                self.out.extend_from_slice(b"null");
            }
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Table(table) => return self.table(table, depth + 1),
            other => {
                let text = format!("Cannot serialise {}: type not supported", other.type_name());
                return Err(text.replace("lightuserdata", "userdata").into());
            }
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Outcome<()> {
        if number.is_finite() {
            self.out.extend_from_slice(shown(number, self.options.precision).as_bytes());
            return Ok(());
        }
        match self.options.encode_invalid {
            Invalid::Off => Err("Cannot serialise number: must not be NaN or Inf".into()),
            Invalid::Null => {
                self.out.extend_from_slice(b"null");
                Ok(())
            }
            Invalid::On => {
                let text: &[u8] = match number {
                    _ if number.is_nan() => b"nan",
                    _ if number > 0.0 => b"inf",
                    _ => b"-inf",
                };
                self.out.extend_from_slice(text);
                Ok(())
            }
        }
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for byte in text {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                0x0C => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..=0x1F | 0x7F => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                }
                _ => self.out.push(*byte),
            }
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table, depth: usize) -> Outcome<()> {
        if depth > self.options.encode_depth {
            return Err(format!("Cannot serialise, excessive nesting ({depth})").into());
        }
        match self.array_length(table)? {
            Some(len) if len > 0 => self.array(table, len, depth),
            _ => self.object(table, depth),
        }
    }

    /// The length of a table that is an array. None: it is an object.
    fn array_length(&mut self, table: &Table) -> Outcome<Option<usize>> {
        let (mut most, mut items) = (0_i64, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            let number = match pair?.0 {
                Value::Integer(number) => number as f64,
                Value::Number(number) => number,
                _ => return Ok(None),
            };
            if number < 1.0 || number.fract() != 0.0 {
                return Ok(None);
            }
            most = most.max(number as i64);
            items += 1;
            if (items as usize).is_multiple_of(ITEMS) {
                self.pause.look()?;
            }
        }
        let Options { sparse_ratio, sparse_safe, sparse_convert, .. } = *self.options;
        if sparse_ratio > 0 && most > items.saturating_mul(sparse_ratio) && most > sparse_safe {
            if !sparse_convert {
                return Err("Cannot serialise table: excessively sparse array".into());
            }
            return Ok(None);
        }
        Ok(Some(most as usize))
    }

    fn array(&mut self, table: &Table, len: usize, depth: usize) -> Outcome<()> {
        self.out.push(b'[');
        for at in 1..=len {
            if at > 1 {
                self.out.push(b',');
            }
            let value: Value = table.raw_get(at as f64)?;
            self.value(&value, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> Outcome<()> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(b',');
            }
            match key {
                Value::String(text) => self.string(&text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                other => {
                    let kind = other.type_name();
                    let text = "table key must be a number or string";
                    return Err(Fail::Text(format!("Cannot serialise {kind}: {text}")));
                }
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// A number as C's `%.14g` prints it, with another precision than 14 if wanted.
pub(crate) fn shown(number: f64, precision: usize) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{:.*e}", precision - 1, number);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs());
    }
    let places = (precision as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.places$}"))
}
