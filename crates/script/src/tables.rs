//! Functions of `table` whose time is not bounded by their arguments' number: `concat`, `insert`,
//! `remove` and `maxn`, as Lua's ltablib.c has them, but so that they can be left in the middle;
//! and `unpack`, in whose C function the number of results overflows.
//! They are Rust functions because these keep the place of an error where they are called as
//! `return table.concat(...)`.

use std::io::Write as _;

use mlua::{Function, Lua, LuaString, MultiValue, Scope, Value};

use crate::{
    native::{Add, Call, Fail, Outcome, function},
    pause::Pause,
};

/// Items that are moved here; more are moved by a function in Lua, in a tenth of the time for each,
/// which the hook interrupts.
const MOVED: i64 = 32;
/// Work of an item, as bytes of text ([`Pause::work`]).
const ITEM: usize = 512;
/// Work of a number that Lua writes.
const NUMBER: usize = 8 * ITEM;
/// Most results of `unpack`: Lua's stack has room for some more.
const RESULTS: i64 = 7900;
/// Whole numbers below this are written by their digits alone: Lua writes with `%.14g`.
const PLAIN: u64 = 100_000_000_000_000;

/// Moves items up or down by one place: raw, if the table has methods of its own.
const MOVERS: &str = "
local rawget, rawset, getmetatable = ...
return function(t, from, to)
  if getmetatable(t) then
    for i = from, to + 1, -1 do rawset(t, i, rawget(t, i - 1)) end
  else
    for i = from, to + 1, -1 do t[i] = t[i - 1] end
  end
end, function(t, from, to)
  if getmetatable(t) then
    for i = from, to - 1 do rawset(t, i, rawget(t, i + 1)) end
  else
    for i = from, to - 1 do t[i] = t[i + 1] end
  end
end";

pub(crate) fn add<'a: 'scope, 'scope, 'env: 'scope>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    pause: &Pause<'a>,
    add: &mut Add<'_>,
) -> mlua::Result<()> {
    let globals = lua.globals();
    let raw = |name| globals.raw_get::<Function>(name);
    let (up, down) = lua.load(MOVERS).set_name("=larder").call::<(Function, Function)>((
        raw("rawget")?,
        raw("rawset")?,
        raw("getmetatable")?,
    ))?;
    let own = pause.clone();
    add("table", "concat", function(scope, "concat", move |lua, call| concat(lua, call, &own))?)?;
    let insert = move |_: &Lua, call: &Call| insert(call, &up);
    add("table", "insert", function(scope, "insert", insert)?)?;
    let remove = move |_: &Lua, call: &Call| remove(call, &down);
    add("table", "remove", function(scope, "remove", remove)?)?;
    add("table", "unpack", function(scope, "unpack", |_, call| unpack(call))?)?;
    let own = pause.clone();
    add("table", "maxn", function(scope, "maxn", move |_, call| maxn(call, &own))?)
}

fn concat(lua: &Lua, call: &Call, pause: &Pause<'_>) -> Outcome<LuaString> {
    let separator = if call.get(1).is_nil() { None } else { Some(call.text(1)?) };
    let separator = separator.as_ref().map(LuaString::as_bytes);
    let separator: &[u8] = separator.as_deref().unwrap_or_default();
    let table = call.table(0)?;
    let first = call.integer_or(2, 1)?;
    let last = if call.get(3).is_nil() { table.raw_len() as i64 } else { call.integer(3)? };
    let mut out = Vec::new();
    let mut at = first;
    while at <= last {
        let len = out.len();
        match table.raw_get::<Value>(at)? {
            Value::String(text) => out.extend_from_slice(&text.as_bytes()),
            Value::Integer(number) if number.unsigned_abs() < PLAIN => {
                // A vector takes all bytes.
                let _ = write!(out, "{number}");
            }
            number @ (Value::Integer(_) | Value::Number(_)) => {
                pause.work(NUMBER)?;
                if let Some(text) = lua.coerce_string(number)? {
                    out.extend_from_slice(&text.as_bytes());
                }
            }
            other => {
                let kind = kind(&other);
                let text = format!("invalid value ({kind}) at index {at} in table for 'concat'");
                return Err(text.into());
            }
        }
        if at < last {
            out.extend_from_slice(separator);
        }
        pause.has_room(out.len())?;
        pause.work(out.len() - len + ITEM)?;
        at += 1;
    }
    Ok(lua.create_string(&out)?)
}

/// The type's name, as Lua says it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

fn insert(call: &Call, up: &Function) -> Outcome<()> {
    let table = call.table(0)?;
    let end = table.raw_len() as i64 + 1;
    let (at, value) = match call.len() {
        2 => (end, call.get(1)),
        3 => (call.integer(1)?, call.get(2)),
        _ => return Err("wrong number of arguments to 'insert'".into()),
    };
    let end = end.max(at);
    if end.saturating_sub(at) > MOVED {
        up.call::<()>((table, end, at))?;
    } else {
        for place in (at + 1..=end).rev() {
            table.raw_set(place, table.raw_get::<Value>(place - 1)?)?;
        }
    }
    Ok(table.raw_set(at, value)?)
}

fn remove(call: &Call, down: &Function) -> Outcome<MultiValue> {
    let table = call.table(0)?;
    let end = table.raw_len() as i64;
    let at = call.integer_or(1, end)?;
    let mut removed = MultiValue::new();
    if !(1..=end).contains(&at) {
        return Ok(removed);
    }
    removed.push_back(table.raw_get::<Value>(at)?);
    if end - at > MOVED {
        down.call::<()>((table, at, end))?;
    } else {
        for place in at..end {
            table.raw_set(place, table.raw_get::<Value>(place + 1)?)?;
        }
    }
    table.raw_set(end, Value::Nil)?;
    Ok(removed)
}

fn unpack(call: &Call) -> Outcome<MultiValue> {
    let table = call.table(0)?;
    // Positions are ints in Lua.
    let from = i64::from(call.integer_or(1, 1)? as i32);
    let last = if call.get(2).is_nil() { table.raw_len() as i64 } else { call.integer(2)? };
    let last = i64::from(last as i32);
    if last - from >= RESULTS {
        return Err("too many results to unpack".into());
    }
    Ok((from..=last).map(|at| table.raw_get::<Value>(at)).collect::<mlua::Result<_>>()?)
}

fn maxn(call: &Call, pause: &Pause<'_>) -> Outcome<f64> {
    let mut most = 0.0_f64;
    let mut failed: Option<Fail> = None;
    let walk = call.table(0)?.for_each(|key: Value, _: Value| {
        match key {
            Value::Integer(key) => most = most.max(key as f64),
            Value::Number(key) => most = most.max(key),
            _ => {}
        }
        pause.work(ITEM).map_err(|fail| {
            failed = Some(fail);
            mlua::Error::runtime("")
        })
    });
    match failed {
        Some(fail) => Err(fail),
        None => Ok(walk.map(|()| most)?),
    }
}
