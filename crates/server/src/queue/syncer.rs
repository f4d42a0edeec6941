//! The thread that waits for the device, so that the owner does not.

use std::{
    io,
    sync::mpsc::{Receiver, Sender},
    thread::JoinHandle,
};

use larder_queue::Work;

use super::seat::Message;

/// Orders to the thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Syncer {
    orders: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread. It reports to the owner's inbox.
    pub(super) fn start(inbox: Sender<Message>) -> io::Result<Syncer> {
        let (orders, work) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("larder-qsync".to_owned());
        let thread = thread.spawn(move || run(&work, &inbox))?;
        Ok(Syncer { orders: Some(orders), thread: Some(thread) })
    }

    /// Has it done. The owner gives one order at a time: while the device is at work, what more
    /// commands have written gathers for the next.
    pub(super) fn order(&self, work: Work) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(work);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(work: &Receiver<Work>, inbox: &Sender<Message>) {
    for work in work {
        if inbox.send(Message::Synced(work.run())).is_err() {
            return;
        }
    }
}
