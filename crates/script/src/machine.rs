//! A Lua state in a coroutine.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use mlua::{Lua, LuaOptions, StdLib};

use crate::{
    pause::{Control, Event, Input, Pause, Registered, Task},
    world::World,
};

/// Addresses of a machine's stack, in bytes; memory is taken as it is touched. Lua allows 200
/// nested calls between C functions; each takes 10 KB at the most, but in a debug build more.
const STACK: usize = 16 << 20;

/// Settings of a machine.
pub struct Settings {
    /// Maximum of the state's memory in bytes; beyond it, scripts get an error.
    pub memory: usize,
    /// Returns whether the current time slice is over.
    pub is_over: Box<dyn Fn() -> bool>,
    /// Seed of `math.random`.
    pub seed: u64,
}

/// A Lua state that runs one script at a time.
pub struct Machine {
    coroutine: Coroutine<Input, Event, ()>,
    control: Rc<Control>,
    is_running: bool,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("is_running", &self.is_running).finish_non_exhaustive()
    }
}

impl Machine {
    /// A machine; its Lua state is made at the first script. Fails if there are no addresses for
    /// its stack.
    pub fn new(settings: Settings) -> std::io::Result<Machine> {
        let Settings { memory, is_over, seed } = settings;
        let control = Rc::new(Control {
            is_over,
            memory,
            version: Cell::default(),
            killed: Cell::new(false),
            interval: Cell::default(),
            has_looked: Cell::new(false),
            work: Cell::new(0),
            registered: RefCell::default(),
            killed_at: RefCell::default(),
            lua: RefCell::default(),
            counted: Cell::new(false),
        });
        let inner = control.clone();
        let coroutine = Coroutine::with_stack(DefaultStack::new(STACK)?, move |yielder, input| {
            run(yielder, input, &inner, memory, seed);
        });
        Ok(Machine { coroutine, control, is_running: false })
    }

    /// Starts a script. The machine must be idle.
    pub fn start(&mut self, task: Task) -> Event {
        self.control.killed.set(false);
        self.is_running = true;
        self.go(Input::Run(Box::new(task)))
    }

    /// Goes on after [`Event::Slice`] or [`Event::Log`].
    pub fn resume(&mut self) -> Event {
        self.go(Input::Go)
    }

    /// Goes on after [`Event::Call`] or [`Event::Check`].
    pub fn reply(&mut self, bytes: Vec<u8>) -> Event {
        self.go(Input::Reply(bytes))
    }

    /// Ends the script by force: it gets errors until it has ended. It must be resumed.
    pub fn kill(&self) {
        self.control.killed.set(true);
    }

    /// The functions of a library after its load ([`Work::Load`](crate::Work::Load)).
    pub fn take_registered(&mut self) -> Vec<Registered> {
        self.control.registered.take()
    }

    /// Returns whether the last reply is the error of a command that the script has called, which
    /// was an error of its own before.
    pub fn is_passed_on(&self) -> bool {
        self.control.counted.get()
    }

    /// Memory of the Lua state, in bytes.
    pub fn memory(&self) -> usize {
        let lua = self.control.lua.borrow();
        lua.as_ref().and_then(mlua::WeakLua::try_upgrade).map_or(0, |lua| lua.used_memory())
    }

    fn go(&mut self, input: Input) -> Event {
        if self.coroutine.done() {
            return Event::Done(b"-ERR the Lua state has ended\r\n".to_vec());
        }
        let event = match self.coroutine.resume(input) {
            CoroutineResult::Yield(event) => event,
            CoroutineResult::Return(()) => Event::Done(Vec::new()),
        };
        self.is_running = !matches!(event, Event::Done(_));
        event
    }
}

/// A script in progress is ended by force, so that the coroutine's stack is left in order.
impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        while self.is_running {
            self.go(Input::Reply(b"-ERR the server ends\r\n".to_vec()));
        }
        if self.coroutine.started() && !self.coroutine.done() {
            self.coroutine.resume(Input::Quit);
        }
    }
}

/// The coroutine: makes the state and runs scripts in it.
fn run(
    yielder: &Yielder<Input, Event>,
    first: Input,
    control: &Rc<Control>,
    memory: usize,
    seed: u64,
) {
    let mut input = first;
    let pause = Pause { yielder, control: control.clone() };
    let failed = |error: &mlua::Error| format!("-ERR no Lua state: {error}\r\n").into_bytes();
    let lua = match Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, options()) {
        Ok(lua) => lua,
        Err(error) => {
            yielder.suspend(Event::Done(failed(&error)));
            return;
        }
    };
    *control.lua.borrow_mut() = Some(lua.weak());
    let made = lua.set_memory_limit(memory).and_then(|_| {
        lua.scope(|scope| {
            let mut world = World::new(&lua, scope, &pause, seed)?;
            loop {
                input = match std::mem::replace(&mut input, Input::Go) {
                    Input::Run(task) => yielder.suspend(Event::Done(world.run(&task))),
                    Input::Quit => return Ok(()),
                    Input::Reply(_) | Input::Go => yielder.suspend(Event::Done(Vec::new())),
                };
            }
        })
    });
    if let Err(error) = made {
        yielder.suspend(Event::Done(failed(&error)));
    }
}

fn options() -> LuaOptions {
    LuaOptions::new()
}
