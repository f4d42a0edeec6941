//! Functions for Lua that raise errors as Lua's own libraries do.
//!
//! An error of a Rust function reaches Lua as a value of mlua's; whatever catches it in `boot.lua`
//! turns it into the text or table that it stands for ([`plain`]).

use mlua::{Error, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Scope, Table, Value};

/// Reason of a failure.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The message of an error in Lua, to which the place is added.
    Text(String),
    /// A table as the error.
    Table(Table),
    /// Memory, or the end by force.
    Lua(Error),
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Lua(error)
    }
}

impl From<String> for Fail {
    fn from(text: String) -> Fail {
        Fail::Text(text)
    }
}

impl From<&str> for Fail {
    fn from(text: &str) -> Fail {
        Fail::Text(text.to_owned())
    }
}

/// Result of a part of such a function.
pub(crate) type Outcome<T> = Result<T, Fail>;

/// Adds a function to a library: library, name, function.
pub(crate) type Add<'x> = dyn FnMut(&str, &str, Function) -> mlua::Result<()> + 'x;

/// An error as Lua sees it.
#[derive(Debug)]
enum Raised {
    Text(String),
    Table(Table),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Text(text) => f.write_str(text),
            Raised::Table(_) => f.write_str("an error table"),
        }
    }
}

impl std::error::Error for Raised {}

impl Fail {
    /// The error to return from a Rust function.
    pub(crate) fn raised(self, lua: &Lua) -> Error {
        match self {
            Fail::Text(text) => Error::external(Raised::Text(placed(lua, &text))),
            Fail::Table(table) => Error::external(Raised::Table(table)),
            Fail::Lua(error) => error,
        }
    }
}

/// A message with the place of the caller before it, if that is in Lua.
fn placed(lua: &Lua, text: &str) -> String {
    let place = |level| {
        let found = lua.inspect_stack(level, |debug| {
            let (source, line) = (debug.source().short_src, debug.current_line());
            source.zip(line).map(|(source, line)| (source.into_owned(), line))
        });
        found.flatten()
    };
    // A function of `boot.lua` may be between both.
    let place = place(1).and_then(|(source, line)| match &source[..] {
        "larder" => place(2),
        _ => Some((source, line)),
    });
    place.map(|(source, line)| format!("{source}:{line}: ")).unwrap_or_default() + text
}

/// An error that was caught, as scripts see it: the text or table it stands for.
pub(crate) fn plain(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &value else { return Ok(value) };
    Ok(match error.downcast_ref::<Raised>() {
        Some(Raised::Table(table)) => Value::Table(table.clone()),
        Some(Raised::Text(text)) => Value::String(lua.create_string(text)?),
        None => Value::String(lua.create_string(root(error))?),
    })
}

/// The message of an error without the trace that leads there.
fn root(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } => root(cause),
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Makes a function.
pub(crate) fn function<'scope, 'env: 'scope, R: IntoLuaMulti>(
    scope: &'scope Scope<'scope, 'env>,
    name: &'static str,
    run: impl Fn(&Lua, &Call) -> Outcome<R> + 'scope,
) -> mlua::Result<Function> {
    scope.create_function(move |lua, args: MultiValue| {
        run(lua, &Call { lua: lua.clone(), name, args }).map_err(|fail| fail.raised(lua))
    })
}

/// Arguments of a function, by their numbers from 0 on.
pub(crate) struct Call {
    lua: Lua,
    name: &'static str,
    args: MultiValue,
}

impl Call {
    pub(crate) fn len(&self) -> usize {
        self.args.len()
    }

    pub(crate) fn get(&self, at: usize) -> &Value {
        self.args.get(at).unwrap_or(&Value::Nil)
    }

    pub(crate) fn bad(&self, at: usize, why: &str) -> Fail {
        Fail::Text(format!("bad argument #{} to '{}' ({why})", at + 1, self.name))
    }

    fn expected(&self, at: usize, wanted: &str) -> Fail {
        let got = if at < self.args.len() { self.get(at).type_name() } else { "no value" };
        let got = match got {
            "integer" => "number",
            "lightuserdata" | "error" => "userdata",
            other => other,
        };
        self.bad(at, &format!("{wanted} expected, got {got}"))
    }

    /// A string, or a number as one.
    pub(crate) fn text(&self, at: usize) -> Outcome<LuaString> {
        match self.get(at) {
            Value::String(text) => Ok(text.clone()),
            value @ (Value::Integer(_) | Value::Number(_)) => Ok(self
                .lua
                .coerce_string(value.clone())?
                .ok_or_else(|| self.expected(at, "string"))?),
            _ => Err(self.expected(at, "string")),
        }
    }

    /// A table.
    pub(crate) fn table(&self, at: usize) -> Outcome<&Table> {
        match self.get(at) {
            Value::Table(table) => Ok(table),
            _ => Err(self.expected(at, "table")),
        }
    }

    /// A number, or a string that shows one.
    pub(crate) fn number(&self, at: usize) -> Outcome<f64> {
        match self.get(at) {
            Value::Integer(number) => Ok(*number as f64),
            Value::Number(number) => Ok(*number),
            value @ Value::String(_) => {
                let number = self.lua.coerce_number(value.clone())?;
                number.ok_or_else(|| self.expected(at, "number"))
            }
            _ => Err(self.expected(at, "number")),
        }
    }

    /// As `number`, without its fraction.
    pub(crate) fn integer(&self, at: usize) -> Outcome<i64> {
        Ok(self.number(at)? as i64)
    }

    /// As `integer`, with a value for a missing argument.
    pub(crate) fn integer_or(&self, at: usize, default: i64) -> Outcome<i64> {
        if self.get(at).is_nil() { Ok(default) } else { self.integer(at) }
    }
}
