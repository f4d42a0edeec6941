//! One client's conversation: which protocol it speaks, what state it is in, one command at a time.

use std::{rc::Rc, sync::Arc};

use super::Face;
use crate::{
    clock::Ms,
    net::out::Out,
    object::{Client, Sent, Turn},
};

/// One client's conversation.
pub(crate) struct Session {
    pub(crate) face: Rc<Face>,
    pub(crate) client: Arc<Client>,
}

impl Session {
    pub(crate) fn new(face: Rc<Face>, client: Arc<Client>) -> Self {
        Self { face, client }
    }
}

impl crate::object::Session for Session {
    fn turn(&mut self, _input: &[u8], now: Ms, _out: &mut Out) -> Turn {
        self.face.refresh(now);
        Turn::More(0)
    }

    fn sent(&mut self, batch: Sent) {
        let counters = &self.face.counters;
        counters.bytes_read.add(batch.received);
        counters.bytes_written.add(batch.written);
    }
}
