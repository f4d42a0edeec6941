//! The library `struct` (lua-struct 0.2, as Redis has it): numbers and strings as C lays them out.
//!
//! | option | value |
//! |---|---|
//! | `>` `<` `=` | big, little and the machine's byte order (little) |
//! | `!n` | alignment, a power of 2 |
//! | `x` | a padding byte |
//! | `b` `B` `h` `H` `i` `I` `l` `L` `T` | numbers of 1, 2, 4, 8 bytes; `in` and `In` of n bytes |
//! | `f` `d` | floating-point numbers of 4 and 8 bytes |
//! | `s` | a string up to a zero byte |
//! | `cn` | n bytes; `c0` all of a string, or as many as the number before it says |

use mlua::{Lua, LuaString, MultiValue, Scope, Value};

use crate::{
    native::{Add, Call, Outcome, function},
    pause::Pause,
};

/// Largest number of bytes of an integer.
const INTEGER: usize = 32;
/// Default of `!`.
const ALIGN: usize = 8;

pub(crate) fn add<'a: 'scope, 'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    pause: &Pause<'a>,
    add: &mut Add<'_>,
) -> mlua::Result<()> {
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| pack(lua, call, &own);
    add("struct", "pack", function(scope, "pack", run)?)?;
    let own = pause.clone();
    let run = move |lua: &Lua, call: &Call| unpack(lua, call, &own);
    add("struct", "unpack", function(scope, "unpack", run)?)?;
    let own = pause.clone();
    let run = move |_: &Lua, call: &Call| size(call, &own);
    add("struct", "size", function(scope, "size", run)?)
}

/// A format that is read.
struct Format<'a> {
    rest: &'a [u8],
    is_little: bool,
    align: usize,
}

/// One value of a format: its letter and its size in bytes.
struct Item {
    letter: u8,
    size: usize,
}

impl<'a> Format<'a> {
    fn new(format: &'a [u8]) -> Format<'a> {
        Format { rest: format, is_little: true, align: 1 }
    }

    fn number(&mut self, default: usize) -> Outcome<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number: Option<i32> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        number.map(|number| number as usize).ok_or_else(|| "integral size overflow".into())
    }

    /// The next value; settings take effect.
    fn next(&mut self, call: &Call, pause: &Pause<'_>) -> Outcome<Option<Item>> {
        pause.look()?;
        while let Some((letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match letter {
                b' ' => continue,
                b'>' => {
                    self.is_little = false;
                    continue;
                }
                b'<' | b'=' => {
                    self.is_little = true;
                    continue;
                }
                b'!' => {
                    let align = self.number(ALIGN)?;
                    if !align.is_power_of_two() {
                        return Err(format!("alignment {align} is not a power of 2").into());
                    }
                    self.align = align;
                    continue;
                }
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b's' => 0,
                b'c' => self.number(1)?,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > INTEGER {
                        let text = "integral size";
                        return Err(format!("{text} {size} is larger than limit of 32").into());
                    }
                    size
                }
                other => {
                    let text = format!("invalid format option '{}'", char::from(*other));
                    return Err(call.bad(0, &text));
                }
            };
            return Ok(Some(Item { letter: *letter, size }));
        }
        Ok(None)
    }

    /// The bytes before a value at this place.
    fn padding(&self, at: usize, item: &Item) -> usize {
        let align = item.size.min(self.align);
        if matches!(item.letter, b'c' | b's' | b'x') || align < 2 || !align.is_power_of_two() {
            return 0;
        }
        at.wrapping_neg() & (align - 1)
    }
}

fn pack(lua: &Lua, call: &Call, pause: &Pause<'_>) -> Outcome<LuaString> {
    let format = call.text(0)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let (mut out, mut arg) = (Vec::new(), 1);
    while let Some(item) = format.next(call, pause)? {
        out.resize(out.len() + format.padding(out.len(), &item), 0);
        pause.has_room(out.len().saturating_add(item.size))?;
        if arg >= call.len() && item.letter != b'x' {
            let wanted = if matches!(item.letter, b'c' | b's') { "string" } else { "number" };
            return Err(call.bad(arg, &format!("{wanted} expected, got nil")));
        }
        match item.letter {
            b'x' => out.push(0),
            b'f' | b'd' => {
                let number = call.number(arg)?;
                let mut bytes = match item.size {
                    4 => (number as f32).to_le_bytes().to_vec(),
                    _ => number.to_le_bytes().to_vec(),
                };
                if !format.is_little {
                    bytes.reverse();
                }
                out.extend(bytes);
                arg += 1;
            }
            b'c' | b's' => {
                let text = call.text(arg)?;
                let text = text.as_bytes();
                let size = if item.size == 0 { text.len() } else { item.size };
                if text.len() < size {
                    return Err(call.bad(arg + 1, "string too short"));
                }
                out.extend_from_slice(&text[..size]);
                if item.letter == b's' {
                    out.push(0);
                }
                arg += 1;
            }
            _ => {
                let number = call.number(arg)?;
                let value = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(item.size, 0);
                if !format.is_little {
                    bytes.reverse();
                }
                out.extend(bytes);
                arg += 1;
            }
        }
    }
    Ok(lua.create_string(&out)?)
}

fn unpack(lua: &Lua, call: &Call, pause: &Pause<'_>) -> Outcome<MultiValue> {
    let (format, data) = (call.text(0)?, call.text(1)?);
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let start = call.integer_or(2, 1)?;
    if start < 1 {
        return Err(call.bad(2, "offset must be 1 or greater"));
    }
    let mut format = Format::new(&format);
    let (mut at, mut values) = (start as usize - 1, MultiValue::new());
    while let Some(mut item) = format.next(call, pause)? {
        at = at.saturating_add(format.padding(at, &item));
        if item.letter == b'c' && item.size == 0 {
            let Some(Value::Number(size)) = values.pop_back() else {
                return Err("format 'c0' needs a previous size".into());
            };
            item.size = size as usize;
        }
        let bytes = at.checked_add(item.size).and_then(|end| data.get(at..end));
        let Some(bytes) = bytes else { return Err(call.bad(1, "data string too short")) };
        at += item.size;
        let mut ordered = bytes.to_vec();
        if !format.is_little && !matches!(item.letter, b'c' | b's') {
            ordered.reverse();
        }
        match item.letter {
            b'x' => {}
            b'c' => values.push_back(Value::String(lua.create_string(bytes)?)),
            b's' => {
                let rest = &data[at..];
                let Some(len) = memchr::memchr(0, rest) else {
                    return Err("unfinished string in data".into());
                };
                values.push_back(Value::String(lua.create_string(&rest[..len])?));
                at += len + 1;
            }
            b'f' => {
                let bits = ordered.try_into().unwrap_or_default();
                values.push_back(Value::Number(f64::from(f32::from_le_bytes(bits))));
            }
            b'd' => {
                let bits = ordered.try_into().unwrap_or_default();
                values.push_back(Value::Number(f64::from_le_bytes(bits)));
            }
            letter => values.push_back(Value::Number(integer(&ordered, letter))),
        }
    }
    values.push_back(Value::Number((at + 1) as f64));
    Ok(values)
}

/// An integer, its lowest byte first; a small letter has a sign.
fn integer(bytes: &[u8], letter: u8) -> f64 {
    let bits = bytes.iter().take(8).rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    if letter.is_ascii_uppercase() || bytes.is_empty() {
        return bits as f64;
    }
    let shift = 64 - 8 * bytes.len().min(8);
    ((bits << shift) as i64 >> shift) as f64
}

fn size(call: &Call, pause: &Pause<'_>) -> Outcome<usize> {
    let format = call.text(0)?;
    let format = format.as_bytes();
    let (mut format, mut at) = (Format::new(&format), 0_usize);
    while let Some(item) = format.next(call, pause)? {
        if item.letter == b's' {
            return Err(call.bad(0, "option 's' has no fixed size"));
        }
        if item.letter == b'c' && item.size == 0 {
            return Err(call.bad(0, "option 'c0' has no fixed size"));
        }
        at = at.saturating_add(format.padding(at, &item)).saturating_add(item.size);
    }
    Ok(at)
}
