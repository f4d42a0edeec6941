//! Answers to HTCP (RFC 2756): TST, CLR, NOP. A CLR is a purge of a page, as the PURGE method is.

use std::{net::SocketAddr, rc::Rc};

use larder_proto::htcp::{Head, Message, Opcode, Specifier, auth, error, write_detail};

use super::{Here, Question, find, may_ask, with_request};
use crate::{
    family::{is_signed, with_signing},
    net::passing::Parcel,
    request::{
        pages::Pages,
        purge::{Purger, Tiers},
    },
    settings::HtcpSettings,
};

/// Responses to CLR (RFC 2756 section 6.5).
mod clr {
    /// It was here, and is gone.
    pub(super) const GONE: u8 = 0;
    /// It was not here.
    pub(super) const NOTHING: u8 = 2;
}

/// A received message and the sockets it went between.
struct Received<'m> {
    message: Message<'m>,
    from: SocketAddr,
    /// Where it was sent to, as far as that is known and of use: a signature covers it.
    to: Option<SocketAddr>,
    /// Its signature is right.
    signed: bool,
}

/// Writes the answer to a datagram, if it gets one. `receivers`: the addresses that it may have
/// been sent to, for a signature.
pub(super) async fn answer(
    pages: &Rc<Pages>,
    datagram: &[u8],
    from: SocketAddr,
    receivers: impl FnOnce() -> Vec<SocketAddr>,
    out: &mut Vec<u8>,
) {
    let counts = &pages.shared.family.htcp;
    let config = pages.config();
    let settings = config.settings.family.htcp.as_ref();
    let Some(settings) = settings.filter(|htcp| may_ask(&htcp.from, from)) else {
        return counts.denied.one();
    };
    let message = match Message::parse(datagram) {
        // Answers come to other sockets.
        Ok(message) if !message.answer => message,
        _ => return counts.invalid.one(),
    };
    let to = settings.key.is_some().then(receivers).unwrap_or_default();
    let fits =
        |to: &&SocketAddr| is_signed(settings.key.as_ref(), &message, auth::Way { from, to: **to });
    let signed_to = to.iter().find(fits);
    let to = signed_to.or(to.first()).copied();
    let received = Received { message, from, to, signed: signed_to.is_some() };
    if settings.key.is_some() && !received.signed {
        counts.denied.one();
        let error = match message.auth {
            None => error::NOT_AUTHENTIC,
            Some(_) => error::WRONG_AUTHENTICATION,
        };
        return received.write(settings, Head::refusal(&message, error), b"", out);
    }
    match message.opcode {
        Opcode::Nop => received.write(settings, Head::answer(&message, 0), b"", out),
        Opcode::Tst => test(pages, settings, &received, out),
        Opcode::Clr => clear(pages, settings, &received, out).await,
        Opcode::Mon | Opcode::Set | Opcode::Other(_) => {
            counts.invalid.one();
            received.write(settings, Head::refusal(&message, error::OPCODE), b"", out);
        }
    }
}

impl Received<'_> {
    /// Writes an answer, where one is wanted.
    fn write(&self, settings: &HtcpSettings, head: Head, data: &[u8], out: &mut Vec<u8>) {
        if !self.message.flag {
            return;
        }
        let way = |from| auth::Way { from, to: self.from };
        let signing = settings.key.as_ref().zip(self.to.map(way));
        with_signing(signing, |sign| head.write(out, |out| out.extend_from_slice(data), sign));
    }
}

fn test(pages: &Rc<Pages>, settings: &HtcpSettings, received: &Received<'_>, out: &mut Vec<u8>) {
    let counts = &pages.shared.family.htcp;
    let message = &received.message;
    let Some(question) = Specifier::parse(message.data).and_then(question) else {
        return counts.invalid.one();
    };
    counts.queries.one();
    let mut detail = Vec::new();
    let head = match find(pages, received.from, &question) {
        Here::Fresh(age) => {
            counts.hits.one();
            let line = format!("Age: {age}\r\n");
            write_detail(&mut detail, [line.as_bytes(), b"", b""]);
            Head::answer(message, 0)
        }
        Here::No => {
            // CACHE-HDRS alone: there are none.
            detail.extend_from_slice(&[0, 0]);
            Head::answer(message, 1)
        }
        Here::Foreign => Head::refusal(message, error::UNDESIRED),
    };
    received.write(settings, head, &detail, out);
}

fn question(specifier: Specifier<'_>) -> Option<Question<'_>> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let Specifier { method, url, fields, .. } = specifier;
    Some(Question { method: text(method)?, url: text(url)?, fields })
}

async fn clear(
    pages: &Rc<Pages>,
    settings: &HtcpSettings,
    received: &Received<'_>,
    out: &mut Vec<u8>,
) {
    let counts = &pages.shared.family.htcp;
    let (message, from) = (&received.message, received.from);
    let Some(asked) = Specifier::parse_clr(message.data).and_then(question) else {
        return counts.invalid.one();
    };
    // The page of a URL, whatever the request was.
    let page = Question { method: "GET", fields: b"", ..asked };
    let keys = with_request(pages, from, &page, |request, route| {
        let ip = from.ip().to_canonical();
        let allowed = received.signed || route.site.purge.allows(ip, None);
        allowed.then(|| request.page_keys(&route.path))
    });
    let Some(Some(keys)) = keys else {
        counts.denied.one();
        return received.write(settings, Head::refusal(message, error::UNDESIRED), b"", out);
    };
    counts.clears.one();
    // Another process that takes over has the pages, or is about to.
    pages.shared.changes.tell(|| Parcel::Keys(keys.clone()));
    // One that a cache sent has been sent to its peers by that one, which may be us. Addresses do
    // not show it: another program of a peer's machine may have sent it.
    let told = names_a_cache(asked.fields);
    let tiers = pages.shared.tiers();
    let tiers = if told { Tiers { family: None, ..tiers } } else { tiers };
    let purger = Purger::new(pages.writer(), tiers, false);
    let found = purger.page(&keys).await;
    let (now, by) = (purger.now, format!("{} HTCP", from.ip()));
    pages.shared.purges.note(now, "url", asked.url, false, u64::from(found), by);
    let response = if found { clr::GONE } else { clr::NOTHING };
    received.write(settings, Head::answer(message, response), b"", out);
}

/// Whether the lines of a request have CDN-Loop.
fn names_a_cache(fields: &[u8]) -> bool {
    const NAME: &[u8] = b"cdn-loop:";
    let is =
        |line: &[u8]| line.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME));
    fields.split(|byte| *byte == b'\n').any(is)
}
