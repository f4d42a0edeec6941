//! The table `redis`.

use aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY;
use larder_proto::resp::Owned;
use mlua::{Lua, MultiValue, Result, Scope, Table, Value, Variadic};

use crate::{
    hex,
    native::Fail,
    pause::{Event, Pause},
    resp, world,
};

/// The version that scripts are told.
const VERSION: (&str, u32) = ("7.0.15", 0x0007_000F);
/// Bytes that are summed up between two looks at the time.
const PART: usize = 64 << 10;
/// Longest line for the log, in bytes.
const LINE: usize = 1024;

/// Adds the functions and constants.
pub(crate) fn add<'a: 'scope, 'scope, 'env: 'scope>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    pause: &Pause<'a>,
    libraries: &Table,
) -> Result<()> {
    let redis = lua.create_table()?;
    let own = pause.clone();
    let call = move |lua: &Lua, args: MultiValue| call(lua, &own, &args);
    redis.raw_set("call", scope.create_function(call)?)?;
    let own = pause.clone();
    let pcall = move |lua: &Lua, args: MultiValue| Ok(answer(lua, &own, &args)?.1);
    redis.raw_set("pcall", scope.create_function(pcall)?)?;
    let own = pause.clone();
    let check = move |lua: &Lua, args: MultiValue| check(lua, &own, &args);
    redis.raw_set("acl_check_cmd", scope.create_function(check)?)?;
    let own = pause.clone();
    let log = move |lua: &Lua, args: MultiValue| log(lua, &own, &args);
    redis.raw_set("log", scope.create_function(log)?)?;
    let own = pause.clone();
    let set_resp = move |lua: &Lua, args: MultiValue| set_resp(lua, &own, &args);
    redis.raw_set("setresp", scope.create_function(set_resp)?)?;
    let own = pause.clone();
    let sum = move |lua: &Lua, args: MultiValue| sum(lua, &own, &args);
    redis.raw_set("sha1hex", scope.create_function(sum)?)?;
    redis.raw_set("set_repl", lua.create_function(set_repl)?)?;
    redis.raw_set("error_reply", lua.create_function(error_reply)?)?;
    redis.raw_set("status_reply", lua.create_function(status_reply)?)?;
    redis.raw_set("replicate_commands", lua.create_function(|_, _: Variadic<Value>| Ok(true))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: Variadic<Value>| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: Variadic<Value>| Ok(()))?)?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", VERSION.1),
    ] {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("REDIS_VERSION", VERSION.0)?;
    libraries.raw_set("redis", redis)
}

/// Raises an error table.
fn failed<T>(lua: &Lua, text: &str) -> Result<T> {
    Err(Fail::Table(error_table(lua, text.as_bytes())?).raised(lua))
}

/// An error as scripts see it.
pub(crate) fn error_table(lua: &Lua, text: &[u8]) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(table)
}

/// `redis.call`
fn call(lua: &Lua, pause: &Pause<'_>, args: &MultiValue) -> Result<Value> {
    match answer(lua, pause, args)? {
        (true, Value::Table(error)) => Err(Fail::Table(error).raised(lua)),
        (_, value) => Ok(value),
    }
}

/// Whether the command has failed, and its reply or the error.
fn answer(lua: &Lua, pause: &Pause<'_>, args: &MultiValue) -> Result<(bool, Value)> {
    let command = match command(args) {
        Ok(command) => command,
        Err(text) => return Ok((true, Value::Table(error_table(lua, text.as_bytes())?))),
    };
    let bytes = pause.ask(Event::Call(command, pause.control.version.get()));
    pause.look()?;
    let value = resp::value(lua, pause, &bytes)?;
    let is_error = bytes.first() == Some(&b'-');
    Ok((is_error, value))
}

fn check(lua: &Lua, pause: &Pause<'_>, args: &MultiValue) -> Result<Value> {
    let command = match command(args) {
        Ok(command) => command,
        Err(text) if args.is_empty() => return failed(lua, text),
        Err(_) => {
            let text = "ERR redis.acl_check_cmd() require strings or integers as arguments";
            return failed(lua, text);
        }
    };
    match &pause.ask(Event::Check(command))[..] {
        b"" => failed(lua, "ERR Invalid command passed to redis.acl_check_cmd()"),
        answer => Ok(Value::Boolean(answer == b"1")),
    }
}

/// The arguments of a call; Err: the message.
fn command(args: &MultiValue) -> std::result::Result<Owned, &'static str> {
    if args.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    let mut numbers = Vec::new();
    for value in args {
        match value {
            Value::String(_) => {}
            Value::Integer(_) | Value::Number(_) => numbers.push(resp::number_text(value)),
            _ => {
                return Err("ERR Lua redis lib command arguments must be strings or integers");
            }
        }
    }
    let mut numbers = numbers.iter();
    let strings: Vec<_> = args
        .iter()
        .map(|value| match value {
            Value::String(string) => Some(string.as_bytes()),
            _ => None,
        })
        .collect();
    let parts: Vec<&[u8]> = strings
        .iter()
        .map(|string| match string {
            Some(bytes) => bytes.as_ref(),
            None => numbers.next().map(String::as_bytes).unwrap_or_default(),
        })
        .collect();
    Ok(Owned::new(&parts))
}

/// A number without its fraction.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Number(number) => Some(*number as i64),
        _ => None,
    }
}

fn set_resp(lua: &Lua, pause: &Pause<'_>, args: &MultiValue) -> Result<Value> {
    if args.len() != 1 {
        return failed(lua, "ERR redis.setresp() requires one argument.");
    }
    match world::version(number(&args[0]).unwrap_or_default()) {
        Some(version) => {
            pause.control.version.set(version);
            Ok(Value::Nil)
        }
        None => failed(lua, "ERR RESP version must be 2 or 3."),
    }
}

fn log(lua: &Lua, pause: &Pause<'_>, args: &MultiValue) -> Result<Value> {
    if args.len() < 2 {
        return failed(lua, "ERR redis.log() requires two arguments or more.");
    }
    let Some(level) = number(&args[0]) else {
        return failed(lua, "ERR First argument must be a number (log level).");
    };
    if !(0..=3).contains(&level) {
        return failed(lua, "ERR Invalid debug level.");
    }
    let mut line = Vec::new();
    for (at, value) in args.iter().skip(1).enumerate() {
        let text = lua.coerce_string(value.clone())?;
        if let Some(text) = text.filter(|_| line.len() < LINE) {
            if at > 0 {
                line.push(b' ');
            }
            line.extend_from_slice(&text.as_bytes());
        }
    }
    line.truncate(LINE);
    pause.ask(Event::Log(level as u8, line));
    Ok(Value::Nil)
}

fn sum(lua: &Lua, pause: &Pause<'_>, args: &MultiValue) -> Result<Value> {
    if args.len() != 1 {
        return failed(lua, "ERR wrong number of arguments");
    }
    let mut digest = aws_lc_rs::digest::Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    if let Some(text) = lua.coerce_string(args[0].clone())? {
        for part in text.as_bytes().chunks(PART) {
            digest.update(part);
            if part.len() == PART {
                pause.look()?;
            }
        }
    }
    Ok(Value::String(lua.create_string(hex(digest.finish().as_ref()))?))
}

fn set_repl(lua: &Lua, args: MultiValue) -> Result<Value> {
    if args.len() != 1 {
        return failed(lua, "ERR redis.set_repl() requires two arguments.");
    }
    match number(&args[0]) {
        Some(0..4) => Ok(Value::Nil),
        _ => failed(
            lua,
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ),
    }
}

const WRONG: &[u8] = b"ERR wrong number or type of arguments";

/// The one argument, if it is a string.
fn text(args: &MultiValue) -> Option<Vec<u8>> {
    match args.front() {
        Some(Value::String(text)) if args.len() == 1 => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

/// `redis.error_reply`: the first of several words is the code, else it is `ERR`.
fn error_reply(lua: &Lua, args: MultiValue) -> Result<Table> {
    let Some(text) = text(&args) else { return error_table(lua, WRONG) };
    let text = text.strip_prefix(b"-").unwrap_or(&text).to_vec();
    let text = match text.iter().position(|byte| *byte == b' ') {
        Some(at) => [&text[..at], b" ", text[at + 1..].trim_ascii()].concat(),
        None => [b"ERR ", text.trim_ascii()].concat(),
    };
    error_table(lua, &text)
}

fn status_reply(lua: &Lua, args: MultiValue) -> Result<Table> {
    let Some(text) = text(&args) else { return error_table(lua, WRONG) };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", lua.create_string(text)?)?;
    Ok(table)
}
