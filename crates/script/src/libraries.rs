//! Libraries of functions in a Lua state.

use std::collections::HashMap;

use mlua::{Function, Lua, Result, Table, Value};

use crate::{
    pause::{Registered, Task},
    resp,
    world::compile,
};

/// Libraries kept in a state; their texts are kept elsewhere.
const LOADED: usize = 64;
/// Name of a library's code in messages.
pub(crate) const CHUNK: &str = "@user_function";

/// A library that was loaded.
struct Loaded {
    env: Table,
    /// Its functions by name.
    functions: HashMap<String, Function>,
}

/// A result, or the error for the client.
type Answered<T> = std::result::Result<T, Vec<u8>>;

/// The libraries of a state.
pub(crate) struct Libraries {
    /// Makes the globals of a library, and the function that loads it (`boot.lua`).
    new: Function,
    call: Function,
    loaded: HashMap<u64, Loaded>,
}

impl Libraries {
    pub(crate) fn new(new: Function, call: Function) -> Libraries {
        Libraries { new, call, loaded: HashMap::new() }
    }

    /// Forgets all; they are loaded again when they are called.
    pub(crate) fn clear(&mut self) {
        self.loaded.clear();
    }

    /// Runs a library's code. Ok(Err): the error for the client.
    pub(crate) fn load(&self, lua: &Lua, task: &Task) -> Result<Answered<Vec<Registered>>> {
        Ok(self.run(lua, task)?.map(|(_, registered)| registered))
    }

    fn run(&self, lua: &Lua, task: &Task) -> Result<Answered<(Loaded, Vec<Registered>)>> {
        let (env, load) = self.new.call::<(Table, Function)>(())?;
        let function = match compile(lua, &task.text, CHUNK, env.clone()) {
            Ok(function) => function,
            Err(text) => {
                return Ok(Err(format!("ERR Error compiling function: {text}").into_bytes()));
            }
        };
        let (ok, value) = load.call::<(bool, Value)>(function)?;
        let entries = match value {
            Value::Table(entries) if ok => entries,
            error => {
                let text = resp::plain_error(&error);
                return Ok(Err([b"ERR Error registering functions: ", &text[..]].concat()));
            }
        };
        let (mut functions, mut registered) = (HashMap::new(), Vec::new());
        for entry in entries.sequence_values::<Table>() {
            let entry = entry?;
            let name: String = entry.raw_get("name")?;
            let description: Option<mlua::LuaString> = entry.raw_get("description")?;
            let description = description.map(|text| text.as_bytes().to_vec());
            functions.insert(name.clone(), entry.raw_get("callback")?);
            registered.push(Registered { name, description, flags: entry.raw_get("flags")? });
        }
        if registered.is_empty() {
            return Ok(Err(b"ERR No functions registered".to_vec()));
        }
        Ok(Ok((Loaded { env, functions }, registered)))
    }

    /// Calls a function: whether it succeeded, and its value or error. Err: the library cannot be
    /// loaded.
    pub(crate) fn call(
        &mut self,
        lua: &Lua,
        task: &Task,
        library: u64,
        lists: (Table, Table),
    ) -> Result<Answered<(bool, Value)>> {
        if !self.loaded.contains_key(&library) {
            let (loaded, _) = match self.run(lua, task)? {
                Ok(loaded) => loaded,
                Err(text) => return Ok(Err(text)),
            };
            if self.loaded.len() >= LOADED {
                self.loaded.clear();
            }
            self.loaded.insert(library, loaded);
        }
        let found = self.loaded.get(&library);
        let found =
            found.and_then(|library| Some((&library.env, library.functions.get(&*task.name)?)));
        let Some((env, function)) = found else {
            return Ok(Err(b"ERR Function not found".to_vec()));
        };
        self.call.call((env, function, lists.0, lists.1)).map(Ok)
    }
}
