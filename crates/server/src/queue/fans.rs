//! Items for queues with children. Each child gets a copy, which takes its time: the owner makes
//! them in steps, between which it carries out other commands.
//!
//! ```text
//! line of `orders`   [set, half of its copies made]  [set]  [set]
//! line of `mails`    [set]
//! ```
//! The lines take turns; within a line an item follows when the one before has all its copies. So
//! all children have the items of their parent in its order.

use std::{collections::VecDeque, io, sync::Arc, vec::IntoIter};

use larder_queue::{NewItem, Put};

use super::{
    owner::Owner,
    seat::{Answer, Name, Seat},
    session::TOO_LARGE,
};
use crate::clock::Ms;

/// Bytes that are copied in a step: one or two milliseconds, or one item.
const STEP: usize = 512 << 10;
/// A copy counts for so many bytes more: its file may have to be opened for it.
const COPY: usize = 8 << 10;
/// Clients that were disconnected may have so many commands in line that were not begun. Those of
/// further ones are dropped: nobody has the memory of their items in an account.
const GONE: usize = 64;

/// The items that a client adds by one command or pipeline.
pub(super) struct Fan {
    seat: Arc<Seat>,
    items: IntoIter<(Name, NewItem)>,
    /// The item that has its place in the queue, and the children that have no copy of it yet.
    copying: Option<(NewItem, IntoIter<Name>)>,
    /// Of the items before, and of that one.
    answers: Vec<Answer>,
}

struct Line {
    name: Name,
    fans: VecDeque<Fan>,
}

/// All of them. A line has one at least.
#[derive(Default)]
pub(super) struct Fans(VecDeque<Line>);

impl Fans {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn line(&mut self, name: &Name) -> Option<&mut VecDeque<Fan>> {
        self.0.iter_mut().find(|line| line.name == *name).map(|line| &mut line.fans)
    }

    /// At the end of the line of its next item.
    fn push(&mut self, name: Name, fan: Fan) {
        match self.line(&name) {
            Some(fans) => fans.push_back(fan),
            None => self.0.push_back(Line { name, fans: VecDeque::from([fan]) }),
        }
    }

    /// Back to the head of its line: its item has not all its copies.
    fn unpop(&mut self, name: Name, fan: Fan) {
        match self.line(&name) {
            Some(fans) => fans.push_front(fan),
            None => self.push(name, fan),
        }
    }

    /// The first of the next line.
    fn pop(&mut self) -> Option<(Name, Fan)> {
        let mut line = self.0.pop_front()?;
        let fan = line.fans.pop_front()?;
        let name = line.name.clone();
        if !line.fans.is_empty() {
            self.0.push_back(line);
        }
        Some((name, fan))
    }

    /// Journals were not written: items may lack copies that were made since the last time.
    pub(super) fn failed(&mut self, failed: &[(Name, io::Error)]) {
        for fan in self.0.iter_mut().flat_map(|line| &mut line.fans) {
            let answers = std::mem::take(&mut fan.answers).into_iter();
            fan.answers = answers.map(|answer| answer.unless_failed(failed)).collect();
        }
    }

    /// A client is gone.
    pub(super) fn leave(&mut self, client: u64) {
        // Items of its command that have their places stay.
        let is_left = |fan: &Fan| fan.copying.is_none() && fan.seat.is_gone();
        let fans = || self.0.iter().flat_map(|line| &line.fans);
        if fans().filter(|fan| is_left(fan)).count() > GONE {
            for line in &mut self.0 {
                line.fans.retain(|fan| !is_left(fan) || fan.seat.id() != client);
            }
            self.0.retain(|line| !line.fans.is_empty());
        }
    }
}

impl Owner {
    /// Adds the items of a command.
    pub(super) fn put(&mut self, seat: Arc<Seat>, items: Vec<(Name, NewItem)>, now: Ms) {
        let Some(queues) = &self.queues else { return };
        let first = items.first().map(|(name, _)| name.clone());
        if items.iter().any(|(name, _)| queues.has_children(name))
            && let Some(name) = first
        {
            let (items, answers) = (items.into_iter(), Vec::new());
            return self.fans.push(name, Fan { seat, items, copying: None, answers });
        }
        let answers = items.iter().map(|(name, item)| self.put_one(name, item, now)).collect();
        self.added(seat, answers);
    }

    fn added(&mut self, seat: Arc<Seat>, answers: Vec<Answer>) {
        let any = answers.iter().any(|answer| matches!(answer, Answer::Stored(_)));
        self.answer(seat, Answer::Puts(answers), any);
    }

    /// Makes copies, as many as fit in a step.
    pub(super) fn fan_out(&mut self, now: Ms) {
        let mut left = STEP;
        while left > 0
            && let Some((name, fan)) = self.fans.pop()
        {
            self.copy(name, fan, &mut left, now);
        }
    }

    /// Makes copies of one item.
    fn copy(&mut self, name: Name, mut fan: Fan, left: &mut usize, now: Ms) {
        let begun = fan.copying.take().or_else(|| {
            let (_, item) = fan.items.next()?;
            let answer = self.put_one(&name, &item, now);
            let is_stored = matches!(answer, Answer::Stored(_));
            let queues = self.queues.as_ref().filter(|_| is_stored);
            let children = queues.map_or_else(Vec::new, |queues| queues.children(&name));
            fan.answers.push(answer);
            *left = left.saturating_sub(item.data.len() + COPY);
            Some((item, children.into_iter()))
        });
        if let Some((item, mut children)) = begun {
            while *left > 0
                && let Some(child) = children.next()
            {
                let put = self.queues.as_mut().map(|queues| queues.put_copy(&child, &item, now));
                if let (Some(Put::Failed(error)), Some(answer)) = (put, fan.answers.last_mut()) {
                    *answer = Answer::failed(&error);
                }
                self.serve(&child, now);
                *left = left.saturating_sub(item.data.len() + COPY);
            }
            if !children.as_slice().is_empty() {
                fan.copying = Some((item, children));
                return self.fans.unpop(name, fan);
            }
        }
        match fan.items.as_slice().first().map(|(next, _)| next.clone()) {
            Some(next) => self.fans.push(next, fan),
            None => self.added(fan.seat, fan.answers),
        }
    }

    fn put_one(&mut self, name: &Name, item: &NewItem, now: Ms) -> Answer {
        self.commands.sets += 1;
        let Some(queues) = &mut self.queues else { return Answer::Close(b"") };
        let answer = match queues.put_own(name, item, now) {
            Put::Stored => Answer::Stored(name.clone()),
            Put::Full => return Answer::text(b"NOT_STORED\r\n"),
            Put::TooLarge => return Answer::text(TOO_LARGE),
            Put::TooManyQueues => return Answer::text(b"SERVER_ERROR too many queues\r\n"),
            Put::Failed(error) => return Answer::failed(&error),
        };
        self.serve(name, now);
        answer
    }
}
