//! Answers to ICP (RFC 2186).

use std::{net::SocketAddr, rc::Rc};

use larder_proto::icp::{Message, Opcode};

use super::{Here, Question, find, may_ask};
use crate::request::pages::Pages;

/// Appends the answer to a datagram, if it gets one.
pub(super) fn answer(pages: &Rc<Pages>, datagram: &[u8], from: SocketAddr, out: &mut Vec<u8>) {
    let counts = &pages.shared.family.icp;
    let config = pages.config();
    let allowed = config.settings.family.icp.as_ref().is_some_and(|icp| may_ask(&icp.from, from));
    if !allowed {
        return counts.denied.one();
    }
    let message = match Message::parse(datagram) {
        Ok(message) if message.opcode == Opcode::Query => message,
        _ => return counts.invalid.one(),
    };
    counts.queries.one();
    let url = std::str::from_utf8(message.url).ok();
    let question = |url| Question { method: "GET", url, fields: b"" };
    let opcode = match url.map(|url| find(pages, from, &question(url))) {
        Some(Here::Fresh(_)) => {
            counts.hits.one();
            Opcode::Hit
        }
        Some(Here::No) => Opcode::Miss,
        Some(Here::Foreign) => Opcode::Denied,
        None => Opcode::Err,
    };
    Message { opcode, ..message }.write(out);
}
