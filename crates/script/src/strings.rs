//! Functions of `string` that hold the thread for long: `find`, `match`, `gmatch`, `gsub`, `rep`,
//! `upper`, `lower` and `reverse`.

use std::cell::Cell;

use memchr::memmem;
use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Scope, Value};

use crate::{
    native::{Add, Call, Fail, Outcome, function},
    pattern::{Capture, Matcher, has_specials},
    pause::{Pause, WORK},
};

pub(crate) fn add<'a: 'scope, 'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    pause: &Pause<'a>,
    add: &mut Add<'_>,
) -> mlua::Result<()> {
    let own = pause.clone();
    add("string", "find", function(scope, "find", move |lua, call| find(lua, call, &own, true))?)?;
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| find(lua, call, &own, false);
    add("string", "match", function(scope, "match", run)?)?;
    let own = pause.clone();
    let step = scope.create_function(
        move |lua, (text, pattern, from): (LuaString, LuaString, usize)| {
            next(lua, &own, &text, &pattern, from)
        },
    )?;
    let run = move |lua: &Lua, call: &Call| gmatch(lua, call, &step);
    add("string", "gmatch", function(scope, "gmatch", run)?)?;
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| gsub(lua, call, &own);
    add("string", "gsub", function(scope, "gsub", run)?)?;
    let own = pause.clone();
    add("string", "rep", function(scope, "rep", move |lua, call| rep(lua, call, &own))?)?;
    let own = pause.clone();
    let upper = move |lua: &Lua, call: &Call| mapped(lua, call, &own, u8::to_ascii_uppercase);
    add("string", "upper", function(scope, "upper", upper)?)?;
    let own = pause.clone();
    let lower = move |lua: &Lua, call: &Call| mapped(lua, call, &own, u8::to_ascii_lowercase);
    add("string", "lower", function(scope, "lower", lower)?)?;
    let own = pause.clone();
    let reverse = move |lua: &Lua, call: &Call| reverse(lua, call, &own);
    add("string", "reverse", function(scope, "reverse", reverse)?)
}

fn captured(lua: &Lua, subject: &[u8], capture: Capture) -> mlua::Result<Value> {
    Ok(match capture {
        Capture::Part(from, to) => Value::String(lua.create_string(&subject[from..to])?),
        Capture::Position(at) => Value::Number(at as f64),
    })
}

/// `string.find` and `string.match`.
fn find(lua: &Lua, call: &Call, pause: &Pause<'_>, is_find: bool) -> Outcome<MultiValue> {
    let (text, pattern) = (call.text(0)?, call.text(1)?);
    let (subject, pattern) = (text.as_bytes(), pattern.as_bytes());
    let mut start = call.integer_or(2, 1)?;
    if start < 0 {
        start = (start + subject.len() as i64 + 1).max(0);
    }
    let start = (start.max(1) as usize - 1).min(subject.len());
    let is_plain =
        matches!(call.get(3), value if !value.is_nil() && *value != Value::Boolean(false));
    if is_find && (is_plain || !has_specials(&pattern)) {
        pause.work(subject.len() - start)?;
        let found = memmem::find(&subject[start..], &pattern);
        return Ok(match found {
            Some(at) => (start + at + 1, start + at + pattern.len()).into_lua_multi(lua)?,
            None => Value::Nil.into_lua_multi(lua)?,
        });
    }
    let is_anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(pause, &subject, &pattern[usize::from(is_anchored)..]);
    for from in start..=subject.len() {
        if let Some(to) = matcher.at(from)? {
            let mut values = MultiValue::new();
            if is_find {
                values.push_back(Value::Number((from + 1) as f64));
                values.push_back(Value::Number(to as f64));
            }
            for capture in matcher.captures(from, to, !is_find)? {
                values.push_back(captured(lua, &subject, capture)?);
            }
            return Ok(values);
        }
        if is_anchored {
            break;
        }
    }
    Ok(Value::Nil.into_lua_multi(lua)?)
}

/// The iterator of `gmatch`: `step` finds the next match.
fn gmatch(lua: &Lua, call: &Call, step: &Function) -> Outcome<Function> {
    let (text, pattern) = (call.text(0)?, call.text(1)?);
    let (from, step) = (Cell::new(0_usize), step.clone());
    Ok(lua.create_function(move |_, _: MultiValue| {
        let (next, mut values) =
            step.call::<(Option<usize>, MultiValue)>((text.clone(), pattern.clone(), from.get()))?;
        match next {
            Some(next) => from.set(next),
            None => values.push_front(Value::Nil),
        }
        Ok(values)
    })?)
}

/// Where the search goes on, and the captures; nothing: no more match.
fn next(
    lua: &Lua,
    pause: &Pause<'_>,
    text: &LuaString,
    pattern: &LuaString,
    from: usize,
) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (text.as_bytes(), pattern.as_bytes());
    let mut matcher = Matcher::new(pause, &subject, &pattern);
    let raised = |fail: Fail| fail.raised(lua);
    for from in from..=subject.len() {
        if let Some(to) = matcher.at(from).map_err(raised)? {
            let mut values = MultiValue::new();
            values.push_back(Value::Number((to + usize::from(to == from)) as f64));
            for capture in matcher.captures(from, to, true).map_err(raised)? {
                values.push_back(captured(lua, &subject, capture)?);
            }
            return Ok(values);
        }
    }
    Ok(MultiValue::new())
}

fn gsub(lua: &Lua, call: &Call, pause: &Pause<'_>) -> Outcome<(LuaString, usize)> {
    let (text, pattern) = (call.text(0)?, call.text(1)?);
    let (subject, pattern) = (text.as_bytes(), pattern.as_bytes());
    let by = match call.get(2) {
        Value::Integer(_) | Value::Number(_) => Value::String(call.text(2)?),
        value @ (Value::String(_) | Value::Table(_) | Value::Function(_)) => value.clone(),
        _ => return Err(call.bad(2, "string/function/table expected")),
    };
    let most = call.integer_or(3, subject.len() as i64 + 1)?;
    let is_anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(pause, &subject, &pattern[usize::from(is_anchored)..]);
    let (mut out, mut from, mut count) = (Vec::new(), 0, 0_usize);
    while (count as i64) < most {
        let found = matcher.at(from)?;
        if let Some(to) = found {
            count += 1;
            replace(lua, &matcher, &subject, (from, to), &by, &mut out)?;
            pause.has_room(out.len())?;
        }
        match found {
            Some(to) if to > from => from = to,
            _ if from < subject.len() => {
                out.push(subject[from]);
                from += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(&subject[from.min(subject.len())..]);
    Ok((lua.create_string(&out)?, count))
}

/// Appends what takes the place of a match.
fn replace(
    lua: &Lua,
    matcher: &Matcher<'_>,
    subject: &[u8],
    (from, to): (usize, usize),
    by: &Value,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let value = match by {
        Value::String(text) => return expand(matcher, subject, (from, to), &text.as_bytes(), out),
        Value::Table(table) => {
            let key = captured(lua, subject, matcher.capture(0, from, to)?)?;
            table.get::<Value>(key)?
        }
        Value::Function(function) => {
            let mut args = MultiValue::new();
            for capture in matcher.captures(from, to, true)? {
                args.push_back(captured(lua, subject, capture)?);
            }
            function.call::<Value>(args)?
        }
        _ => Value::Nil,
    };
    match value {
        Value::Nil | Value::Boolean(false) => out.extend_from_slice(&subject[from..to]),
        Value::String(text) => out.extend_from_slice(&text.as_bytes()),
        number @ (Value::Integer(_) | Value::Number(_)) => {
            if let Some(text) = lua.coerce_string(number)? {
                out.extend_from_slice(&text.as_bytes());
            }
        }
        other => {
            return Err(format!("invalid replacement value (a {})", other.type_name()).into());
        }
    }
    Ok(())
}

/// Appends a text in which `%0` to `%9` stand for captures.
fn expand(
    matcher: &Matcher<'_>,
    subject: &[u8],
    (from, to): (usize, usize),
    by: &[u8],
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let mut bytes = by.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        match bytes.next() {
            Some(b'0') => out.extend_from_slice(&subject[from..to]),
            Some(digit) if digit.is_ascii_digit() => {
                match matcher.capture(usize::from(digit - b'1'), from, to)? {
                    Capture::Part(from, to) => out.extend_from_slice(&subject[from..to]),
                    Capture::Position(at) => out.extend_from_slice(at.to_string().as_bytes()),
                }
            }
            Some(other) => out.push(*other),
            None => out.push(0),
        }
    }
    Ok(())
}

fn rep(lua: &Lua, call: &Call, pause: &Pause<'_>) -> Outcome<LuaString> {
    let text = call.text(0)?;
    let text = text.as_bytes();
    let count = usize::try_from(call.integer(1)?.max(0)).unwrap_or_default();
    let len = text.len().saturating_mul(count);
    pause.has_room(len)?;
    let mut out = Vec::with_capacity(len);
    if len > 0 {
        let block = text.repeat((WORK / text.len()).clamp(1, count));
        while out.len() < len {
            let part = &block[..block.len().min(len - out.len())];
            out.extend_from_slice(part);
            pause.work(part.len())?;
        }
    }
    Ok(lua.create_string(&out)?)
}

/// A text with each byte mapped.
fn mapped(lua: &Lua, call: &Call, pause: &Pause<'_>, map: fn(&u8) -> u8) -> Outcome<LuaString> {
    let text = call.text(0)?;
    let text = text.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    for part in text.chunks(WORK) {
        out.extend(part.iter().map(map));
        pause.work(part.len())?;
    }
    Ok(lua.create_string(&out)?)
}

fn reverse(lua: &Lua, call: &Call, pause: &Pause<'_>) -> Outcome<LuaString> {
    let text = call.text(0)?;
    let text = text.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    for part in text.rchunks(WORK) {
        out.extend(part.iter().rev());
        pause.work(part.len())?;
    }
    Ok(lua.create_string(&out)?)
}
