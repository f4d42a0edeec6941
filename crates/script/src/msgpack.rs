//! The library `cmsgpack` (lua-cmsgpack 0.4.0, as Redis has it).

use mlua::{Lua, LuaString, MultiValue, Scope, Table, Value};

use crate::{
    native::{Add, Call, Outcome, function},
    pause::Pause,
};

/// Levels of tables that are packed; deeper ones are nil.
const NESTED: usize = 16;
/// The same when unpacking: each level takes a frame of the stack.
const DEEPEST: usize = 1000;
/// Items between two looks at the time.
const ITEMS: usize = 256;

pub(crate) fn constants(libraries: &Table) -> mlua::Result<()> {
    let library: Table = libraries.raw_get("cmsgpack")?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")
}

pub(crate) fn add<'a: 'scope, 'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    pause: &Pause<'a>,
    add: &mut Add<'_>,
) -> mlua::Result<()> {
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| pack(lua, call, &own);
    add("cmsgpack", "pack", function(scope, "pack", run)?)?;
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| unpack(lua, call, &own, None, 0);
    add("cmsgpack", "unpack", function(scope, "unpack", run)?)?;
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| {
        let offset = call.integer_or(1, 0)?;
        unpack(lua, call, &own, Some(1), offset)
    };
    add("cmsgpack", "unpack_one", function(scope, "unpack_one", run)?)?;
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| {
        let (limit, offset) = (call.integer(1)?, call.integer_or(2, 0)?);
        unpack(lua, call, &own, Some(limit), offset)
    };
    add("cmsgpack", "unpack_limit", function(scope, "unpack_limit", run)?)
}

fn pack(lua: &Lua, call: &Call, pause: &Pause<'_>) -> Outcome<LuaString> {
    if call.len() == 0 {
        let text = "bad argument #0 to 'pack' (MessagePack pack needs input.)";
        return Err(text.into());
    }
    let mut writer = Writer { pause, out: Vec::new(), items: 0 };
    for at in 0..call.len() {
        writer.value(call.get(at), 0)?;
    }
    Ok(lua.create_string(&writer.out)?)
}

struct Writer<'a> {
    pause: &'a Pause<'a>,
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
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Boolean(value) => self.out.push(if *value { 0xC3 } else { 0xC2 }),
            Value::Integer(number) => self.number(*number as f64),
            Value::Number(number) => self.number(*number),
            Value::Table(table) if depth < NESTED => return self.table(table, depth),
            _ => self.out.push(0xC0),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        match text.len() {
            len @ ..32 => self.out.push(0xA0 | len as u8),
            len @ ..0x100 => self.out.extend([0xD9, len as u8]),
            len => self.long_head(0xDA, len),
        }
        self.out.extend_from_slice(text);
    }

    /// A head with a length of two bytes, or of four in the next kind.
    fn long_head(&mut self, kind: u8, len: usize) {
        match u16::try_from(len) {
            Ok(len) => {
                self.out.push(kind);
                self.out.extend(len.to_be_bytes());
            }
            Err(_) => {
                self.out.push(kind + 1);
                self.out.extend((len as u32).to_be_bytes());
            }
        }
    }

    fn number(&mut self, number: f64) {
        if number.is_finite() && number.fract() == 0.0 && number.abs() < 9.3e18 {
            return self.integer(number as i64);
        }
        if f64::from(number as f32) == number {
            self.out.push(0xCA);
            self.out.extend((number as f32).to_be_bytes());
        } else {
            self.out.push(0xCB);
            self.out.extend(number.to_be_bytes());
        }
    }

    fn integer(&mut self, number: i64) {
        match number {
            0..0x80 => self.out.push(number as u8),
            0x80..0x100 => self.out.extend([0xCC, number as u8]),
            0x100..0x1_0000 => {
                self.out.push(0xCD);
                self.out.extend((number as u16).to_be_bytes());
            }
            0x1_0000..0x1_0000_0000 => {
                self.out.push(0xCE);
                self.out.extend((number as u32).to_be_bytes());
            }
            0x1_0000_0000.. => {
                self.out.push(0xCF);
                self.out.extend(number.to_be_bytes());
            }
            -32..0 => self.out.push(number as i8 as u8),
            -128..-32 => self.out.extend([0xD0, number as i8 as u8]),
            -32768..-128 => {
                self.out.push(0xD1);
                self.out.extend((number as i16).to_be_bytes());
            }
            -2_147_483_648..-32768 => {
                self.out.push(0xD2);
                self.out.extend((number as i32).to_be_bytes());
            }
            _ => {
                self.out.push(0xD3);
                self.out.extend(number.to_be_bytes());
            }
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Outcome<()> {
        let (mut most, mut count, mut is_array) = (0.0_f64, 0_usize, true);
        for pair in table.pairs::<Value, Value>() {
            let number = match pair?.0 {
                Value::Integer(number) => number as f64,
                Value::Number(number) => number,
                _ => 0.0,
            };
            is_array &= number > 0.0 && number.fract() == 0.0;
            most = most.max(number);
            count += 1;
            if count.is_multiple_of(ITEMS) {
                self.pause.look()?;
            }
        }
        if is_array && most == count as f64 {
            match count {
                ..16 => self.out.push(0x90 | count as u8),
                _ => self.long_head(0xDC, count),
            }
            for at in 1..=count {
                let value: Value = table.raw_get(at as f64)?;
                self.value(&value, depth + 1)?;
            }
            return Ok(());
        }
        match count {
            ..16 => self.out.push(0x80 | count as u8),
            _ => self.long_head(0xDE, count),
        }
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}

/// The values of a text from `offset` on, `limit` at the most. With a limit the next offset comes
/// first, or -1 at the end.
fn unpack(
    lua: &Lua,
    call: &Call,
    pause: &Pause<'_>,
    limit: Option<i64>,
    offset: i64,
) -> Outcome<MultiValue> {
    let text = call.text(0)?;
    let text = text.as_bytes();
    let limit = limit.unwrap_or_default();
    if offset < 0 || limit < 0 {
        let text = "Invalid request to unpack with offset of";
        return Err(format!("{text} {offset} and limit of {limit}.").into());
    }
    let Some(rest) = text.get(offset as usize..) else {
        let len = text.len();
        return Err(format!("Start offset {offset} greater than input length {len}.").into());
    };
    let limited = call.len() > 1 || limit > 0;
    let limit = if limit == 0 { i64::MAX } else { limit };
    let mut reader = Reader { lua, pause, rest, items: 0, depth: 0 };
    let mut values = MultiValue::new();
    while !reader.rest.is_empty() && (values.len() as i64) < limit {
        values.push_back(reader.value()?);
    }
    if limited {
        let at = text.len() - reader.rest.len();
        let next = if reader.rest.is_empty() { -1.0 } else { at as f64 };
        values.push_front(Value::Number(next));
    }
    Ok(values)
}

struct Reader<'a> {
    lua: &'a Lua,
    pause: &'a Pause<'a>,
    rest: &'a [u8],
    items: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Outcome<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            return Err("Missing bytes in input.".into());
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// A number without a sign, of so many bytes.
    fn unsigned(&mut self, len: usize) -> Outcome<u64> {
        Ok(self.take(len)?.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, len: usize) -> Outcome<Value> {
        let shift = 64 - 8 * len;
        Ok(Value::Number(((self.unsigned(len)? << shift) as i64 >> shift) as f64))
    }

    fn string(&mut self, len: usize) -> Outcome<Value> {
        let bytes = self.take(len)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn value(&mut self) -> Outcome<Value> {
        self.items += 1;
        if self.items.is_multiple_of(ITEMS) {
            self.pause.look()?;
        }
        let kind = self.take(1)?[0];
        Ok(match kind {
            0..0x80 => Value::Number(f64::from(kind)),
            0xE0.. => Value::Number(f64::from(kind as i8)),
            0x80..0x90 => self.map(usize::from(kind & 15))?,
            0x90..0xA0 => self.array(usize::from(kind & 15))?,
            0xA0..0xC0 => self.string(usize::from(kind & 31))?,
            0xC0 => Value::Nil,
            0xC2 | 0xC3 => Value::Boolean(kind == 0xC3),
            0xD9..=0xDB => {
                let size = 1 << (kind - 0xD9);
                let len = self.unsigned(size)? as usize;
                self.string(len)?
            }
            0xCA => {
                let bits = self.unsigned(4)? as u32;
                Value::Number(f64::from(f32::from_bits(bits)))
            }
            0xCB => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xCC..=0xCF => Value::Number(self.unsigned(1 << (kind - 0xCC))? as f64),
            0xD0..=0xD3 => self.signed(1 << (kind - 0xD0))?,
            0xDC | 0xDD => {
                let len = self.unsigned(if kind == 0xDC { 2 } else { 4 })? as usize;
                self.array(len)?
            }
            0xDE | 0xDF => {
                let len = self.unsigned(if kind == 0xDE { 2 } else { 4 })? as usize;
                self.map(len)?
            }
            _ => return Err("Bad data format in input.".into()),
        })
    }

    fn descend(&mut self) -> Outcome<()> {
        self.depth += 1;
        if self.depth > DEEPEST { Err("Bad data format in input.".into()) } else { Ok(()) }
    }

    fn array(&mut self, len: usize) -> Outcome<Value> {
        self.descend()?;
        let table = self.lua.create_table_with_capacity(len.min(self.rest.len()), 0)?;
        for at in 1..=len {
            table.raw_set(at as f64, self.value()?)?;
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize) -> Outcome<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value()?, self.value()?);
            match key {
                Value::Nil => return Err("table index is nil".into()),
                Value::Number(number) if number.is_nan() => return Err("table index is NaN".into()),
                key => table.raw_set(key, value)?,
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}
