//! Large collections that change all the time are whole in the process that takes over.

use std::sync::atomic::{AtomicBool, Ordering};

use larder_tests::editor::Editor;

use super::upgrade::{Line, fresh};

/// Ends the clients, also if an upgrade fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A change of a collection is several changes in memory: the new process has all of them or none.
#[test]
fn collections_change_through_upgrades() {
    let origin = fresh();
    let mut line = Line::start("threads = 2", "", &origin);
    let addr = line.larder.face("redis");
    let mut editors: Vec<Editor> = (0..3).map(|number| Editor::new(addr, number)).collect();
    editors.iter_mut().for_each(|editor| (0..300).for_each(|_| editor.step(0)));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for editor in &mut editors {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    editor.step(0);
                }
            });
        }
        let _over = Over(&over);
        (0..3).for_each(|_| line.upgrade_whole());
    });
    Editor::check(&mut editors);
}
