//! One client's conversation.

use std::{rc::Rc, sync::Arc};

use crate::{
    clock::Ms,
    net::out::Out,
    object::{self, Client, Sent, Turn},
};

use super::shared::Face;

/// One client's conversation in RESP.
pub(crate) struct Session {
    face: Rc<Face>,
    client: Arc<Client>,
}

impl Session {
    pub(crate) fn new(face: Rc<Face>, client: Arc<Client>) -> Session {
        Session { face, client }
    }
}

impl object::Session for Session {
    fn turn(&mut self, _input: &[u8], _now: Ms, _out: &mut Out) -> Turn {
        Turn::Close
    }

    fn sent(&mut self, _batch: Sent) {}
}
