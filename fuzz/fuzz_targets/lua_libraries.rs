//! The libraries of scripts get bytes as data, patterns and formats: they answer or fail, in bounded
//! time and memory; and what JSON and MessagePack write is read as itself.
#![no_main]

use std::cell::RefCell;

use larder_proto::resp::Version;
use larder_script::{Event, Machine, Settings, Task, Work};
use libfuzzer_sys::fuzz_target;

/// Answers 1 unless a value changes on its way through a library.
const SCRIPT: &str = include_str!("../../crates/script/src/any_bytes.lua");

/// Looks at the time after which a script is stopped.
const SLICES: usize = 1000;

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

fn machine() -> Machine {
    Machine::new(Settings { memory: 8 << 20, is_over: Box::new(|| true), seed: 1 }).unwrap()
}

fuzz_target!(|input: &[u8]| {
    let Some((&split, bytes)) = input.split_first() else { return };
    let (a, b) = bytes.split_at(usize::from(split).min(bytes.len()));
    let task = Task {
        name: "fuzz".into(),
        text: SCRIPT.as_bytes().into(),
        work: Work::Run,
        keys: Vec::new(),
        args: vec![a.to_vec(), b.to_vec()],
        version: Version::V2,
    };
    MACHINE.with_borrow_mut(|kept| {
        let machine = kept.get_or_insert_with(machine);
        let mut event = machine.start(task);
        for slice in 0.. {
            event = match event {
                Event::Done(reply) => {
                    assert!(reply == b":1\r\n" || reply.starts_with(b"-ERR"), "{reply:?}");
                    break;
                }
                _ => {
                    if slice == SLICES {
                        machine.kill();
                    }
                    assert!(slice < 100 * SLICES, "it does not end");
                    machine.resume()
                }
            };
        }
    });
});
