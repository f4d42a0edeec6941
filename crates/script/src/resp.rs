//! Replies of commands as Lua values, and the value that a script returns as its reply. Conversions
//! are those of Redis 7.0 (script_lua.c).

use larder_proto::resp::{Reply, Version, number};
use mlua::{Lua, Result, Table, Value};

use crate::{api, pause::Pause};

/// Levels of tables in a reply (Redis: the slots of Lua's stack).
const DEPTH: usize = 7990;
/// In place of a table below that, or one for which the stack has no room.
const TOO_DEEP: &str = "ERR reached lua stack limit";
/// Field of the error of a command, which was counted when the command failed.
const COUNTED: &str = "ignore_error_stats_update";
/// Items between two looks at the time.
const ITEMS: usize = 256;

/// A number as the argument of a command: `%.17g`.
pub(crate) fn number_text(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number::double(*number).to_string(),
        _ => String::new(),
    }
}

/// A whole reply as a Lua value.
pub(crate) fn value(lua: &Lua, pause: &Pause<'_>, bytes: &[u8]) -> Result<Value> {
    Reader { lua, pause, rest: bytes, items: 0 }.value()
}

struct Reader<'a> {
    lua: &'a Lua,
    pause: &'a Pause<'a>,
    rest: &'a [u8],
    items: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> &'a [u8] {
        let end = self.rest.windows(2).position(|two| two == b"\r\n").unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        line
    }

    fn bytes(&mut self, len: i64) -> &'a [u8] {
        let len = usize::try_from(len).unwrap_or_default().min(self.rest.len());
        let (bytes, rest) = self.rest.split_at(len);
        self.rest = rest.get(2..).unwrap_or_default();
        bytes
    }

    fn tagged(&self, name: &str, value: Value) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn string(&self, bytes: &[u8]) -> Result<Value> {
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn value(&mut self) -> Result<Value> {
        self.items += 1;
        if self.items.is_multiple_of(ITEMS) {
            self.pause.look()?;
        }
        let line = self.line();
        let Some((kind, line)) = line.split_first() else { return Ok(Value::Nil) };
        let len = || number::parse_i64(line).unwrap_or_default();
        match kind {
            b':' => Ok(Value::Number(len() as f64)),
            b'$' | b'*' if len() < 0 => Ok(Value::Boolean(false)),
            b'$' => {
                let bytes = self.bytes(len());
                self.string(bytes)
            }
            b'+' => self.tagged("ok", self.string(line)?),
            b'-' => {
                let table = api::error_table(self.lua, line)?;
                table.raw_set(COUNTED, true)?;
                Ok(Value::Table(table))
            }
            b'*' | b'>' => self.array(len()),
            b'%' => self.map(len()),
            b'~' => self.set(len()),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => {
                let text = std::str::from_utf8(line).unwrap_or_default();
                self.tagged("double", Value::Number(text.parse().unwrap_or(f64::NAN)))
            }
            b'(' => self.tagged("big_number", self.string(line)?),
            b'=' => {
                let bytes = self.bytes(len());
                let table = self.lua.create_table()?;
                table.raw_set("format", self.string(bytes.get(..3).unwrap_or_default())?)?;
                table.raw_set("string", self.string(bytes.get(4..).unwrap_or_default())?)?;
                self.tagged("verbatim_string", Value::Table(table))
            }
            _ => Ok(Value::Nil),
        }
    }

    fn array(&mut self, len: i64) -> Result<Value> {
        let len = usize::try_from(len).unwrap_or_default();
        let table = self.lua.create_table_with_capacity(len.min(self.rest.len()), 0)?;
        for at in 1..=len {
            table.raw_set(at as f64, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: i64) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value()?, self.value()?);
            if !key.is_nil() {
                table.raw_set(key, value)?;
            }
        }
        self.tagged("map", Value::Table(table))
    }

    fn set(&mut self, len: i64) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value()?;
            if !key.is_nil() {
                table.raw_set(key, true)?;
            }
        }
        self.tagged("set", Value::Table(table))
    }
}

/// The reply for the value that a script returns. `script`: the version that it has set.
pub(crate) fn reply(
    pause: &Pause<'_>,
    out: &mut Vec<u8>,
    version: Version,
    script: Version,
    value: &Value,
) -> Result<()> {
    Writer { pause, out, version, script, items: 0 }.value(value, 0)
}

struct Writer<'a> {
    pause: &'a Pause<'a>,
    out: &'a mut Vec<u8>,
    version: Version,
    script: Version,
    items: usize,
}

impl Writer<'_> {
    fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out, self.version)
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.items += 1;
        if self.items.is_multiple_of(ITEMS) {
            self.pause.look()?;
        }
        if depth > DEPTH {
            self.reply().error(TOO_DEEP);
            return Ok(());
        }
        match value {
            Value::String(text) => self.reply().bulk(&text.as_bytes()),
            Value::Boolean(value) => match (self.script, *value) {
                (Version::V3, value) => self.reply().boolean(value),
                (Version::V2, true) => self.reply().integer(1),
                (Version::V2, false) => self.reply().null(),
            },
            Value::Integer(number) => self.reply().integer(*number),
            Value::Number(number) => self.reply().integer(integer(*number)),
            Value::Table(table) => {
                let at = self.out.len();
                let written = self.table(table, depth);
                if !matches!(written, Err(mlua::Error::StackError)) {
                    return written;
                }
                // The tables above hold all of the stack.
                self.out.truncate(at);
                self.reply().error(TOO_DEEP);
            }
            _ => self.reply().null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<()> {
        if let Value::String(text) = table.raw_get("err")? {
            self.pause.control.counted.set(is_counted(table) && depth == 0);
            self.reply().error(&text.as_bytes()[..]);
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("ok")? {
            let line = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
            let text: Vec<u8> = text.as_bytes().iter().map(line).collect();
            self.out.push(b'+');
            self.out.extend_from_slice(&text);
            self.out.extend_from_slice(b"\r\n");
            return Ok(());
        }
        match table.raw_get("double")? {
            Value::Number(number) => {
                self.reply().double(number);
                return Ok(());
            }
            Value::Integer(number) => {
                self.reply().double(number as f64);
                return Ok(());
            }
            _ => {}
        }
        if let Value::Table(map) = table.raw_get("map")? {
            return self.pairs(&map, true, depth);
        }
        if let Value::Table(set) = table.raw_get("set")? {
            return self.pairs(&set, false, depth);
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            let digits = digits.to_string_lossy().replace(['\r', '\n'], " ");
            self.reply().big_number(&digits);
            return Ok(());
        }
        if let Value::Table(text) = table.raw_get("verbatim_string")?
            && let (Value::String(format), Value::String(string)) =
                (text.raw_get("format")?, text.raw_get("string")?)
        {
            let format = format!("{:3.3}", format.to_string_lossy());
            self.reply().verbatim(&format, &string.as_bytes());
            return Ok(());
        }
        self.array(table, depth)
    }

    fn array(&mut self, table: &Table, depth: usize) -> Result<()> {
        let mut len = table.raw_len();
        // The length of a table with holes may lie behind the first one.
        for at in 1..=len {
            if at.is_multiple_of(ITEMS) {
                self.pause.look()?;
            }
            if table.raw_get::<Value>(at)?.is_nil() {
                len = at - 1;
                break;
            }
        }
        self.reply().array(len);
        for at in 1..=len {
            let value: Value = table.raw_get(at)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }

    fn pairs(&mut self, table: &Table, is_map: bool, depth: usize) -> Result<()> {
        // Twice through the table: values held at the same time are bounded in number (mlua).
        let mut len = 0_usize;
        for pair in table.pairs::<Value, Value>() {
            pair?;
            len += 1;
            if len.is_multiple_of(ITEMS) {
                self.pause.look()?;
            }
        }
        if is_map {
            self.reply().map(len);
        } else {
            self.reply().set(len);
        }
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            if is_map {
                self.value(&value, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// A number as an integer; as processors do it, one that is out of range is the least.
fn integer(number: f64) -> i64 {
    if number.abs() < 9.3e18 && number < i64::MAX as f64 { number as i64 } else { i64::MIN }
}

/// Returns whether this is the error of a command, which was counted when the command failed.
pub(crate) fn is_counted(error: &Table) -> bool {
    matches!(error.raw_get(COUNTED), Ok(Value::Boolean(true)))
}

/// Source and line of an error that has ended a script.
pub(crate) fn place(error: &Value) -> Option<(String, usize)> {
    let Value::Table(table) = error else { return None };
    Some((table.raw_get("source").ok()?, table.raw_get("line").ok()?))
}

/// The text of an error that has ended a script.
/// The text of an error without its place.
pub(crate) fn plain_error(value: &Value) -> Vec<u8> {
    let text = match value {
        Value::Table(table) => table.raw_get::<Option<mlua::LuaString>>("err").ok().flatten(),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    text.map_or_else(|| b"ERR unknown error".to_vec(), |text| text.as_bytes().to_vec())
}

pub(crate) fn error_text(value: &Value, name: &str) -> Vec<u8> {
    if let Value::String(text) = value {
        // Of memory: no handler has seen it.
        let text = text.to_string_lossy();
        return format!("ERR {text} script: {name}").into_bytes();
    }
    let Value::Table(table) = value else { return b"ERR unknown error".to_vec() };
    let text = |field: &str| match table.raw_get(field) {
        Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
        Ok(Value::Number(number)) => Some(number.to_string().into_bytes()),
        Ok(Value::Integer(number)) => Some(number.to_string().into_bytes()),
        _ => None,
    };
    let mut line = text("err").unwrap_or_else(|| b"ERR unknown error".to_vec());
    if let (Some(source), Some(at)) = (text("source"), text("line")) {
        let place = [b" script: ", name.as_bytes(), b", on ", &source, b":", &at, b"."];
        line.extend(place.concat());
    }
    line
}
