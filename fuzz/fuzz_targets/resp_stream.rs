//! Runs of entries, facts and records of groups: any bytes are read to an end, and what is read is
//! written again as it was.
#![no_main]

use larder_proto::resp::stream::{Consumer, Group, Pending, Run, State, StreamId, key, push_entry};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(run) = Run::read(input) {
        let mut again = Vec::new();
        let mut last = None;
        for entry in run.entries() {
            let Ok(entry) = entry else { break };
            assert_eq!(entry.pairs.count() as u64, entry.count);
            let rises = last.is_none_or(|last| entry.id > last);
            if !rises || entry.count == 0 {
                break;
            }
            last = Some(entry.id);
            push_entry(&mut again, entry.id, entry.pairs).unwrap();
            let written = Run::read(&again).unwrap().entries().last().unwrap().unwrap();
            assert_eq!(written.id, entry.id);
            assert!(written.pairs.eq(entry.pairs));
        }
    }
    if let Ok(state) = State::read(input) {
        assert_eq!(State::read(&state.write()), Ok(state));
    }
    if let Ok(group) = Group::read(input) {
        assert_eq!(Group::read(&group.write()), Ok(group));
    }
    if let Ok(consumer) = Consumer::read(input) {
        assert_eq!(Consumer::read(&consumer.write()), Ok(consumer));
    }
    if let Ok(pending) = Pending::read(input) {
        assert_eq!(Pending::read(&pending.write()), Ok(pending));
    }
    let _ = key::id(input);
    if let Some(id) = StreamId::parse(input, 0) {
        assert_eq!(StreamId::parse(&id.text(), 0), Some(id));
        assert_eq!(StreamId::of_key(&id.to_key()), Some(id));
    }
});
