//! The longest time for which a function of Lua holds its thread, and that of a hundred calls, in
//! microseconds of processor time: `cargo bench -p larder-script`.

// A measurement that fails ends.
#![allow(clippy::unwrap_used)]

use std::{cell::Cell, rc::Rc, sync::Arc};

use larder_proto::resp::Version;
use larder_script::{Event, Machine, Settings, Task, Work};

const MADE: &str =
    "local s, t = string.rep('abcdefgh', 262144), {} for i = 1, 200000 do t[i] = i end ";
/// Microseconds after which a script is told to let others run.
const TURN: u64 = 1000;

fn main() {
    for native in [
        "s:upper()",
        "s:reverse()",
        "s:rep(2)",
        "string.format('%s', s)",
        "local x = s .. 'a'",
        "table.concat(t)",
        "table.insert(t, 1, 0)",
        "table.remove(t, 1)",
        "table.maxn(t)",
        "for j = 1, 1000 do table.insert(t, 0) table.remove(t) end",
    ] {
        measure(native);
    }
}

fn measure(native: &str) {
    let begun = Rc::new(Cell::new(cpu()));
    let own = begun.clone();
    let is_over = Box::new(move || cpu() - own.get() > TURN);
    let mut machine = Machine::new(Settings { memory: 32 << 20, is_over, seed: 1 }).unwrap();
    let text = format!("{MADE} for i = 1, 100 do {native} end return 1");
    let mut event = machine.start(Task {
        name: "natives".into(),
        text: Arc::from(text.as_bytes()),
        work: Work::Run,
        keys: Vec::new(),
        args: Vec::new(),
        version: Version::V2,
    });
    let (start, mut longest) = (cpu(), 0);
    while !matches!(event, Event::Done(_)) {
        begun.set(cpu());
        event = machine.resume();
        longest = longest.max(cpu() - begun.get());
    }
    let Event::Done(reply) = event else { return };
    assert_eq!(reply, b":1\r\n", "{native}");
    println!("{native}: {longest} us at once, {} us for 100", cpu() - start);
}

/// Processor time of this thread, in microseconds.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<u64>().unwrap() / 1000
}
