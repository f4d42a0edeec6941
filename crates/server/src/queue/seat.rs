//! Questions of sessions to the owner, and its answers.

use std::{
    borrow::Cow,
    io,
    sync::{Arc, mpsc::Sender},
};

use larder_queue::{Item, NewItem, Read, Rules, Undone, parent};
use parking_lot::Mutex;

use crate::{clock::Ms, object::Client};

/// The name of a queue.
pub(super) type Name = Arc<[u8]>;

/// A message to the owner.
#[derive(Debug)]
pub(super) enum Message {
    /// A client's command.
    Ask(Arc<Seat>, Ask),
    /// An item did not reach the client that it was taken for.
    Restore(Name, Item),
    /// A client is gone. True: that counts as an abort of its open reads.
    Left(Arc<Seat>, bool),
    /// Other rules are valid from now on.
    Rules(Rules),
    /// The device has what was written before the last order, and files are removed.
    Synced(Result<(), Undone>),
    /// Write everything: an upgrade is about to begin.
    Write(Sender<io::Result<()>>),
    /// Close the queues, for another process.
    Release(Sender<io::Result<()>>),
    /// That has ended: go on with them.
    TakeBack,
    /// Write everything, and end.
    End,
}

/// A client's command.
#[derive(Debug)]
pub(super) enum Ask {
    /// Items in the order in which they came: one, or those of a pipeline.
    Put(Vec<(Name, NewItem)>),
    Get(Get),
    Abort(Name),
    Confirm(Name, usize),
    Delete(Name),
    Flush(Name),
    FlushExpired(Name),
    FlushAll,
    FlushAllExpired,
    Stats,
    DumpStats,
    DumpConfig,
}

/// A read of a queue.
#[derive(Clone, Debug)]
pub(super) struct Get {
    pub(super) name: Name,
    pub(super) read: Read,
    /// An open read is closed first.
    pub(super) close: bool,
    /// The most items that the client may have open then, this one too.
    pub(super) open: usize,
    /// Longest wait for an item, milliseconds.
    pub(super) wait: Ms,
}

/// An answer of the owner.
#[derive(Debug)]
pub(super) enum Answer {
    /// The item was added to this queue.
    Stored(Name),
    /// One for each item of an [`Ask::Put`].
    Puts(Vec<Answer>),
    /// Text to be sent as it is.
    Text(Cow<'static, [u8]>),
    /// An item of this queue, by this kind of read.
    Item(Name, Item, Read),
    /// No item.
    Empty,
    /// Text to be sent before the connection is closed.
    Close(&'static [u8]),
}

impl Answer {
    pub(super) const fn text(text: &'static [u8]) -> Answer {
        Answer::Text(Cow::Borrowed(text))
    }

    /// The answer in case that the journals of these queues cannot be written: items may not be in
    /// them.
    pub(super) fn unless_failed(self, failed: &[(Name, io::Error)]) -> Answer {
        match self {
            Answer::Stored(name) => {
                let is_failed = |other: &Name| *other == name || parent(other) == Some(&*name);
                let found = failed.iter().find(|(other, _)| is_failed(other));
                found.map_or(Answer::Stored(name), |(_, error)| Answer::failed(error))
            }
            Answer::Puts(all) => {
                Answer::Puts(all.into_iter().map(|one| one.unless_failed(failed)).collect())
            }
            other => other,
        }
    }

    /// The answer in case that the device has failed.
    pub(super) fn unless_broken(self, broken: Option<&str>) -> Answer {
        match (self, broken) {
            (Answer::Stored(_), Some(broken)) => Answer::failed(&io::Error::other(broken)),
            (Answer::Puts(all), _) => {
                Answer::Puts(all.into_iter().map(|one| one.unless_broken(broken)).collect())
            }
            (other, _) => other,
        }
    }

    /// The number of discarded items.
    pub(super) fn number(number: io::Result<u64>) -> Answer {
        match number {
            Ok(number) => Answer::Text(format!("{number}\r\n").into_bytes().into()),
            Err(error) => Answer::failed(&error),
        }
    }

    /// The words of the system about the files of a queue.
    pub(super) fn failed(error: &io::Error) -> Answer {
        Answer::Text(Cow::Owned(format!("SERVER_ERROR {error}\r\n").into_bytes()))
    }
}

/// A session as the owner knows it.
#[derive(Debug)]
pub(super) struct Seat {
    client: Arc<Client>,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    answer: Option<Answer>,
    gone: bool,
}

impl Seat {
    pub(super) fn new(client: Arc<Client>) -> Arc<Seat> {
        Arc::new(Seat { client, slot: Mutex::default() })
    }

    /// Unique in the process.
    pub(super) fn id(&self) -> u64 {
        self.client.id
    }

    /// Gives an answer to the session. Err: it is gone.
    pub(super) fn answer(&self, answer: Answer) -> Result<(), Answer> {
        let mut slot = self.slot.lock();
        if slot.gone {
            return Err(answer);
        }
        slot.answer = Some(answer);
        drop(slot);
        self.client.call();
        Ok(())
    }

    pub(super) fn is_gone(&self) -> bool {
        self.slot.lock().gone
    }

    /// The answer, if it is there.
    pub(super) fn take(&self) -> Option<Answer> {
        self.slot.lock().answer.take()
    }

    /// The session ends. Returns an answer that nobody has taken.
    pub(super) fn leave(&self) -> Option<Answer> {
        let mut slot = self.slot.lock();
        slot.gone = true;
        slot.answer.take()
    }
}
