//! Prepared answers.

use std::{io::Write, rc::Rc};

use rapidhash::RapidHashMap;
use rustix::{
    fd::OwnedFd,
    fs::{MemfdFlags, memfd_create},
};

use crate::peers::pages;

/// Up to this size one copy of head and body costs less than `sendfile`, which saves the copy of
/// the body but costs a call.
const COPIED: usize = 16 << 10;
/// Memory limit of all answers together; further pages are refused.
const ROOM: usize = 1 << 30;

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// Bytes sent by copying: head and body, or only the head.
    pub(super) bytes: Vec<u8>,
    /// The body in a memory file, and its length.
    pub(super) file: Option<(OwnedFd, u64)>,
    /// Whether it is a page and counted.
    pub(super) page: bool,
}

/// All answers prepared so far.
#[derive(Debug, Default)]
pub(super) struct AnswerCache {
    answers: RapidHashMap<Vec<u8>, Rc<Answer>>,
    held: usize,
}

impl AnswerCache {
    /// The answer for a target.
    pub(super) fn find(&mut self, target: &[u8], pages_sent: u64) -> Rc<Answer> {
        if let Some(answer) = self.answers.get(target) {
            return answer.clone();
        }
        if target == b"/asked" {
            return Rc::new(plain("200 OK", &pages_sent.to_string()));
        }
        let Some((size, number)) = pages::parse(target) else {
            return Rc::new(plain(
                "404 Not Found",
                "there are pages at /SIZE/NUMBER, and /asked\n",
            ));
        };
        let answer = page(size, number).filter(|_| self.held + size <= ROOM);
        let Some(answer) = answer.map(Rc::new) else {
            return Rc::new(plain("507 Insufficient Storage", "1 GiB of pages is held already\n"));
        };
        self.held += size;
        self.answers.insert(target.to_owned(), answer.clone());
        answer
    }
}

/// `None`: the system provides no memory file.
fn page(size: usize, number: u32) -> Option<Answer> {
    let mut bytes = pages::head(size, number);
    let body = pages::body(size, number);
    if bytes.len() + size <= COPIED {
        bytes.extend_from_slice(&body);
        return Some(Answer { bytes, file: None, page: true });
    }
    let mut file = std::fs::File::from(memfd_create("page", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(&body).ok()?;
    Some(Answer { bytes, file: Some((file.into(), size as u64)), page: true })
}

fn plain(status: &str, text: &str) -> Answer {
    let length = text.len();
    let head =
        format!("HTTP/1.1 {status}\r\nCache-Control: no-store\r\nContent-Length: {length}\r\n\r\n");
    Answer { bytes: [head.as_bytes(), text.as_bytes()].concat(), file: None, page: false }
}
