//! The Lua state that scripts share, and running one.

use std::collections::HashMap;

use larder_proto::resp::{Reply, Version};
use mlua::{
    Error, Function, HookTriggers, Lua, Result, Scope, Table, Value, VmState, chunk::ChunkMode,
    debug::Debug,
};

use crate::{
    api, bits, json,
    libraries::{self, Libraries},
    msgpack, native,
    pause::{Control, KILLED, Pause, Task, Work},
    random::Random,
    resp, strings, structs, tables,
};

/// Arguments between two looks at the time.
const ITEMS: usize = 256;
/// Lua instructions between two looks at the time, at first. A script in which so many took longer
/// than a slice is looked at more often from then on, up to each instruction: to compare two texts
/// of megabytes, or to read one as a number, is one instruction.
const INSTRUCTIONS: u32 = 500;
/// The same at first for a script whose arguments have more than so many bytes: it may join texts
/// of megabytes in each instruction, a millisecond for each.
const FEW_INSTRUCTIONS: u32 = 20;
const LONG_TEXTS: usize = 128 << 10;
/// The interval becomes shorter by this factor.
const FINER: u32 = 10;
/// Compiled scripts kept in a state; their texts are kept elsewhere.
const COMPILED: usize = 500;
/// Garbage is collected after a script that leaves more than this, in bytes.
const TIDY: usize = 2 << 20;
/// Longest text that is compiled, in bytes: about 5 ms.
const LONGEST: usize = 256 << 10;
/// Levels of Lua's stack that are looked at for the place of an error.
const LEVELS: usize = 200;
/// Name of a script in messages.
const CHUNK: &str = "@user_script";
/// The same of the code in `boot.lua`.
const BOOT: &str = "=larder";

/// The state's Rust side.
pub(crate) struct World<'a> {
    lua: &'a Lua,
    pause: Pause<'a>,
    run: Function,
    env: Table,
    globals: Table,
    compiled: HashMap<std::sync::Arc<str>, Function>,
    libraries: Libraries,
}

impl<'a> World<'a> {
    pub(crate) fn new<'scope, 'env: 'scope>(
        lua: &'a Lua,
        scope: &'scope Scope<'scope, 'env>,
        pause: &Pause<'a>,
        seed: u64,
    ) -> Result<World<'a>>
    where
        'a: 'scope,
    {
        let native = lua.create_table()?;
        let libraries = lua.create_table()?;
        for name in ["table", "string", "math", "coroutine"] {
            libraries.raw_set(name, lua.globals().raw_get::<Table>(name)?)?;
        }
        let mut add = |library: &str, name: &str, function: Function| -> Result<()> {
            if !libraries.contains_key(library)? {
                libraries.raw_set(library, lua.create_table()?)?;
            }
            libraries.raw_get::<Table>(library)?.raw_set(name, function)
        };
        strings::add(scope, pause, &mut add)?;
        tables::add(lua, scope, pause, &mut add)?;
        json::add(scope, pause, &mut add)?;
        msgpack::add(scope, pause, &mut add)?;
        structs::add(scope, pause, &mut add)?;
        bits::add(scope, pause, &mut add)?;
        json::constants(lua, &libraries)?;
        msgpack::constants(&libraries)?;
        api::add(lua, scope, pause, &libraries)?;
        random(lua, &libraries.raw_get("math")?, seed)?;
        basics(lua, scope, pause, &native)?;
        let (run, env, globals, library, call) = lua
            .load(include_str!("boot.lua"))
            .set_name(BOOT)
            .call::<(Function, Table, Table, Function, Function)>((&native, libraries))?;
        let compile_env = env.clone();
        native.raw_set(
            "compile",
            lua.create_function(
                move |lua, (text, name): (mlua::LuaString, Option<mlua::LuaString>)| {
                    let name = name.as_ref().unwrap_or(&text).to_string_lossy();
                    let env = compile_env.clone();
                    Ok(match compile(lua, &text.as_bytes(), &name, env) {
                        Ok(function) => (Some(function), None),
                        Err(text) => (None, Some(text)),
                    })
                },
            )?,
        )?;
        lua.set_named_registry_value("look", native.raw_get::<Function>("look")?)?;
        hook(lua, &pause.control, INSTRUCTIONS)?;
        let (pause, compiled) = (pause.clone(), HashMap::new());
        let libraries = Libraries::new(library, call);
        Ok(World { lua, pause, run, env, globals, compiled, libraries })
    }

    /// Runs or compiles a script. Returns its reply.
    pub(crate) fn run(&mut self, task: &Task) -> Vec<u8> {
        let mut out = Vec::new();
        let control = &self.pause.control;
        control.has_looked.set(false);
        control.counted.set(false);
        let texts: usize = task.keys.iter().chain(&task.args).map(Vec::len).sum();
        let interval = if texts > LONG_TEXTS { FEW_INSTRUCTIONS } else { INSTRUCTIONS };
        if control.interval.get() != interval {
            // Without a hook there is no script: the interval stays short then.
            let _ = hook(self.lua, control, interval);
        }
        match self.result(task, &mut out) {
            Ok(()) => {}
            Err(_) if self.pause.control.killed.get() => {
                let mut text = KILLED.to_owned();
                let place = self.pause.control.killed_at.borrow_mut().take();
                if let Some((source, line)) = place {
                    text.push_str(&format!(" script: {}, on {source}:{line}.", task.name));
                }
                Reply::new(&mut out, task.version).error(text);
            }
            Err(error) => {
                out.clear();
                let memory = matches!(error, Error::MemoryError(_));
                let text = if memory { "not enough memory".into() } else { error.to_string() };
                let line = format!("ERR {} script: {}", text.replace('\n', " "), task.name);
                Reply::new(&mut out, task.version).error(line);
            }
        }
        let _ = self.tidy();
        out
    }

    fn result(&mut self, task: &Task, out: &mut Vec<u8>) -> Result<()> {
        let called = match task.work {
            Work::Run | Work::Compile => return self.script(task, out),
            Work::Load => self.libraries.load(self.lua, task)?.map(|registered| {
                self.pause.control.registered.replace(registered);
                None
            }),
            Work::Call(library) => {
                let lists = (self.list(&task.keys)?, self.list(&task.args)?);
                self.pause.control.version.set(Version::V2);
                self.libraries.call(self.lua, task, library, lists)?.map(Some)
            }
        };
        match called {
            Ok(Some((ok, value))) => self.answer(task, out, ok, &value),
            // A library whose load was ended by force counts as not loaded.
            Ok(None) if self.pause.control.killed.get() => Err(Error::runtime(KILLED)),
            Ok(None) => Ok(()),
            Err(_) if self.pause.control.killed.get() => Err(Error::runtime(KILLED)),
            Err(text) => {
                Reply::new(out, task.version).error(text);
                Ok(())
            }
        }
    }

    /// Runs or compiles a script.
    fn script(&mut self, task: &Task, out: &mut Vec<u8>) -> Result<()> {
        let function = match self.compiled.get(&task.name) {
            Some(function) => function.clone(),
            None => match compile(self.lua, &task.text, CHUNK, self.env.clone()) {
                Ok(function) => {
                    if self.compiled.len() >= COMPILED {
                        self.compiled.clear();
                    }
                    self.compiled.insert(task.name.clone(), function.clone());
                    function
                }
                Err(text) => {
                    let line = format!("ERR Error compiling script (new function): {text}");
                    Reply::new(out, task.version).error(line);
                    return Ok(());
                }
            },
        };
        if task.work == Work::Compile {
            Reply::new(out, task.version).bulk(task.name.as_bytes());
            return Ok(());
        }
        self.set_list("KEYS", &task.keys)?;
        self.set_list("ARGV", &task.args)?;
        self.pause.control.version.set(Version::V2);
        let (ok, value) = self.run.call::<(bool, Value)>(function)?;
        self.answer(task, out, ok, &value)
    }

    /// Writes the reply for what a script or function has returned.
    fn answer(&self, task: &Task, out: &mut Vec<u8>, ok: bool, value: &Value) -> Result<()> {
        if !ok {
            if self.pause.control.killed.get() {
                if let Some(place) = resp::place(value) {
                    self.pause.control.killed_at.borrow_mut().get_or_insert(place);
                }
                return Err(Error::runtime(KILLED));
            }
            let is_counted = matches!(value, Value::Table(error) if resp::is_counted(error));
            self.pause.control.counted.set(is_counted);
            let text = resp::error_text(value, &task.name);
            Reply::new(out, task.version).error(text);
            return Ok(());
        }
        let script_version = self.pause.control.version.get();
        resp::reply(&self.pause, out, task.version, script_version, value)
    }

    fn list(&self, list: &[Vec<u8>]) -> Result<Table> {
        let table = self.lua.create_table_with_capacity(list.len(), 0)?;
        for (at, item) in list.iter().enumerate() {
            table.raw_push(self.lua.create_string(item)?)?;
            if at % ITEMS == ITEMS - 1 {
                self.pause.look()?;
            }
        }
        Ok(table)
    }

    fn set_list(&self, name: &str, list: &[Vec<u8>]) -> Result<()> {
        self.globals.raw_set(name, self.list(list)?)
    }

    /// Frees what a script has left, if that is much.
    fn tidy(&mut self) -> Result<()> {
        if self.lua.used_memory() < TIDY {
            return Ok(());
        }
        // Lua has no memory left, perhaps; this takes little.
        self.lua.set_memory_limit(0)?;
        self.set_list("KEYS", &[])?;
        self.set_list("ARGV", &[])?;
        self.pause.collect(self.lua)?;
        self.pause.collect(self.lua)?;
        if self.lua.used_memory() >= TIDY {
            self.compiled.clear();
            self.libraries.clear();
            self.pause.collect(self.lua)?;
            self.pause.collect(self.lua)?;
        }
        self.lua.set_memory_limit(self.pause.control.memory)?;
        Ok(())
    }
}

/// Compiles a text, never byte code. An error: the compiler's message.
pub(crate) fn compile(
    lua: &Lua,
    text: &[u8],
    name: &str,
    env: Table,
) -> std::result::Result<Function, String> {
    if text.len() > LONGEST {
        return Err(format!("the script is longer than {LONGEST} bytes"));
    }
    // Redis's scripts may begin with `#!lua`, and libraries do: the line is left empty.
    let text = match text.starts_with(b"#!") && [CHUNK, libraries::CHUNK].contains(&name) {
        true => text.iter().position(|byte| *byte == b'\n').map_or(&b""[..], |at| &text[at..]),
        false => text,
    };
    let chunk = lua.load(text).set_name(name).set_mode(ChunkMode::Text).set_environment(env);
    chunk.into_function().map_err(|error| match error {
        Error::SyntaxError { message, .. } => message,
        other => other.to_string(),
    })
}

/// Looks at the time every so many instructions. Ends a script by an error where it is to end by
/// force; whatever catches errors throws that one again (`boot.lua`).
fn hook(lua: &Lua, control: &std::rc::Rc<Control>, interval: u32) -> Result<()> {
    let control = control.clone();
    let triggers = HookTriggers::new().every_nth_instruction(interval);
    control.interval.set(interval);
    lua.set_global_hook(triggers, move |lua, debug| {
        if control.killed.get() {
            return Err(stop(&control, debug));
        }
        if !(control.is_over)() {
            control.has_looked.set(true);
        } else {
            let is_slow = !control.has_looked.replace(false);
            if is_slow && control.interval.get() > 1 {
                hook(lua, &control, (control.interval.get() / FINER).max(1))?;
            }
            let looked = lua.named_registry_value::<Function>("look")?.call::<()>(());
            if control.killed.get() {
                return Err(stop(&control, debug));
            }
            looked?;
        }
        Ok(VmState::Continue)
    })
}

/// Notes where the script was stopped.
fn stop(control: &Control, debug: &Debug<'_>) -> Error {
    let source = debug.source().source.map(|source| source.into_owned());
    if let (Some(source), Some(line)) = (source, debug.current_line())
        && source != BOOT
    {
        control.killed_at.borrow_mut().get_or_insert((source, line));
    }
    Error::runtime(KILLED)
}

/// `math.random` and `math.randomseed`.
fn random(lua: &Lua, math: &Table, seed: u64) -> Result<()> {
    let random = std::rc::Rc::new(std::cell::Cell::new(Random::new(seed)));
    let seeded = random.clone();
    math.raw_set(
        "__draw",
        lua.create_function(move |_, ()| {
            let mut state = random.get();
            let drawn = state.draw();
            random.set(state);
            Ok(drawn)
        })?,
    )?;
    math.raw_set(
        "randomseed",
        lua.create_function(move |_, seed: f64| {
            let mut state = seeded.get();
            state.seed(seed as i64 as i32);
            seeded.set(state);
            Ok(())
        })?,
    )?;
    // The limits and their errors are Lua's.
    lua.load(
        "local math = ...\nlocal draw, floor = math.__draw, math.floor\nmath.__draw = nil\n\
         function math.random(low, high)\n\
           local r = draw()\n\
           if low == nil then return r end\n\
           if high == nil then low, high = 1, low end\n\
           low, high = floor(low), floor(high)\n\
           if low > high then error(\"bad argument #\" .. (low == 1 and 1 or 2) .. \
           \" to 'random' (interval is empty)\", 2) end\n\
           return floor(r * (high - low + 1)) + low\n\
         end",
    )
    .set_name(BOOT)
    .call(math)
}

/// Functions that `boot.lua` needs.
fn basics<'a: 'scope, 'scope, 'env: 'scope>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    pause: &Pause<'a>,
    basics: &Table,
) -> Result<()> {
    let own = pause.clone();
    basics.raw_set("look", scope.create_function(move |_, ()| own.look())?)?;
    let control = pause.control.clone();
    let must_live = move |_: &Lua, ()| match control.killed.get() {
        true => Err(Error::runtime(KILLED)),
        false => Ok(()),
    };
    basics.raw_set("must_live", lua.create_function(must_live)?)?;
    basics
        .raw_set("memory", lua.create_function(|lua, ()| Ok(lua.used_memory() as f64 / 1024.0))?)?;
    let place = |lua: &Lua, ()| {
        for level in 1..LEVELS {
            let found = lua.inspect_stack(level, |debug| {
                let source = debug.source();
                let is_own = source.source.as_deref() == Some(BOOT);
                // A tail call leaves a level without a line.
                let is_script = debug.current_line().is_some() && !is_own;
                is_script.then(|| (source.source.map(|s| s.into_owned()), debug.current_line()))
            });
            match found {
                None => break,
                Some(Some((source, line))) => return Ok((source, line)),
                Some(None) => {}
            }
        }
        Ok((None, None))
    };
    basics.raw_set("plain", lua.create_function(native::plain)?)?;
    basics.raw_set("place", lua.create_function(place)?)
}

/// The RESP version of the replies that a script sees.
pub(crate) fn version(number: i64) -> Option<Version> {
    match number {
        2 => Some(Version::V2),
        3 => Some(Version::V3),
        _ => None,
    }
}
