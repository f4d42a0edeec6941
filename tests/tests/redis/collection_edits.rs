//! Several clients change and read the same large collections, while memory is short.

use larder_tests::Redis;
use larder_tests::editor::Editor;

/// Steps of a client, and bytes of other values that it stores with each: memory is full after a
/// third of them.
const STEPS: usize = 1500;
const FILLING: usize = 30_000;
const CLIENTS: usize = 4;

/// Runs and nodes change where they lie while they are moved by eviction and compaction, and read
/// without a lock.
#[test]
fn collections_hold_what_each_client_put_there_while_memory_is_short() {
    let larder = Redis::larder(&[]);
    let addr = larder.addr();
    let mut editors: Vec<Editor> = (0..CLIENTS).map(|number| Editor::new(addr, number)).collect();
    std::thread::scope(|scope| {
        for editor in &mut editors {
            scope.spawn(|| (0..STEPS).for_each(|_| editor.step(FILLING)));
        }
    });
    let info = larder.connect().say("INFO stats");
    let evicted = info.lines().find_map(|line| line.trim().strip_prefix("evicted_keys:"));
    assert!(evicted.is_some_and(|number| number != "0"), "{info}");
    Editor::check(&mut editors);
}
