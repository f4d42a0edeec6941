//! The library `bit` (Lua BitOp 1.0): operations on 32 bits.

use mlua::{LuaString, Scope};

use crate::{
    native::{Add, Call, Outcome, function},
    pause::Pause,
};

/// The lowest 32 bits of a number, rounded to even.
fn bits(call: &Call, at: usize) -> Outcome<u32> {
    let number = call.number(at)?.round_ties_even();
    Ok(number.rem_euclid(4_294_967_296.0) as u64 as u32)
}

fn number(bits: u32) -> f64 {
    f64::from(bits as i32)
}

/// An operation on all arguments.
type Fold = fn(u32, u32) -> u32;
/// An operation with a number of places.
type Shift = fn(u32, u32) -> u32;

const FOLDS: [(&str, Fold); 3] =
    [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];

const SHIFTS: [(&str, Shift); 5] = [
    ("lshift", |bits, places| bits << places),
    ("rshift", |bits, places| bits >> places),
    ("arshift", |bits, places| ((bits as i32) >> places) as u32),
    ("rol", u32::rotate_left),
    ("ror", u32::rotate_right),
];

pub(crate) fn add<'a: 'scope, 'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    _pause: &Pause<'a>,
    add: &mut Add<'_>,
) -> mlua::Result<()> {
    for (name, fold) in FOLDS {
        let run = move |_: &mlua::Lua, call: &Call| {
            let mut all = bits(call, 0)?;
            for at in 1..call.len() {
                all = fold(all, bits(call, at)?);
            }
            Ok(number(all))
        };
        add("bit", name, function(scope, name, run)?)?;
    }
    for (name, shift) in SHIFTS {
        let run = move |_: &mlua::Lua, call: &Call| {
            Ok(number(shift(bits(call, 0)?, bits(call, 1)? & 31)))
        };
        add("bit", name, function(scope, name, run)?)?;
    }
    add("bit", "tobit", function(scope, "tobit", |_, call| Ok(number(bits(call, 0)?)))?)?;
    add("bit", "bnot", function(scope, "bnot", |_, call| Ok(number(!bits(call, 0)?)))?)?;
    let swap = |_: &mlua::Lua, call: &Call| Ok(number(bits(call, 0)?.swap_bytes()));
    add("bit", "bswap", function(scope, "bswap", swap)?)?;
    add("bit", "tohex", function(scope, "tohex", to_hex)?)
}

fn to_hex(lua: &mlua::Lua, call: &Call) -> Outcome<LuaString> {
    let value = bits(call, 0)?;
    let digits = if call.len() > 1 { bits(call, 1)? as i32 } else { 8 };
    let text = match digits {
        ..0 => format!("{value:08X}"),
        _ => format!("{value:08x}"),
    };
    let shown = digits.unsigned_abs().min(8) as usize;
    Ok(lua.create_string(&text[8 - shown..])?)
}
