//! Session tickets: sealed with keys that the program makes, or with those of files, and bound to
//! the rules for clients' certificates.
//!
//! Keys of files are good for months and for several machines. So each ticket is sealed with a key
//! of its own, which is derived from the file's and 32 random bytes (HKDF, RFC 5869): random nonces
//! of 96 bits under one key would be used up by a busy site in days. The ticket says when it was
//! made, since its key does not tell.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Prk, Salt},
    rand::{SecureRandom, SystemRandom},
};
use rustls::{crypto::aws_lc_rs::Ticketer, server::ProducesTickets};

use crate::{clock, settings::Secret};

/// Keys of the program: one set for all workers, made anew every six hours; tickets of the set
/// before are still accepted. They last as long as the program, also over reloads.
static OWN: LazyLock<Option<Arc<dyn ProducesTickets>>> = LazyLock::new(|| Ticketer::new().ok());

/// Seconds for which a ticket is accepted, as long as those of own keys.
const LIFETIME: u32 = 12 * 60 * 60;
/// Bytes by which a ticket names its key.
const NAME: usize = 16;
/// Random bytes of a ticket.
const SALT: usize = 32;
/// Bytes that name the rules for clients' certificates.
const RULES: usize = 32;
/// Bytes of the time at which a ticket was made.
const TIME: usize = 8;

/// Seals and opens tickets, with the keys of files where there are some. `rules`: names the rules
/// for clients' certificates ([`crate::settings::ClientAuth`]); a ticket that was given under
/// others is not accepted, since a session that is resumed is not verified again. None: there is no
/// source of random numbers.
pub(super) fn ticketer(keys: &[Secret], rules: [u8; RULES]) -> Option<Arc<dyn ProducesTickets>> {
    let tickets = if keys.is_empty() {
        OWN.clone()?
    } else {
        let keys: Option<Vec<_>> = keys.iter().map(|key| FileKey::new(key.bytes())).collect();
        Arc::new(FileTickets { keys: keys?, random: SystemRandom::new() })
    };
    Some(Arc::new(Bound { tickets, rules }))
}

/// Tickets that are good under some rules only.
#[derive(Debug)]
struct Bound {
    tickets: Arc<dyn ProducesTickets>,
    rules: [u8; RULES],
}

impl ProducesTickets for Bound {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(&[&self.rules, message].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let opened = self.tickets.decrypt(ticket)?;
        Some(opened.strip_prefix(&self.rules)?.to_vec())
    }
}

/// Tickets by the keys of files.
struct FileTickets {
    /// The first one seals.
    keys: Vec<FileKey>,
    random: SystemRandom,
}

/// A key of a file.
struct FileKey {
    name: [u8; NAME],
    secret: Prk,
}

impl FileKey {
    fn new(bytes: &[u8]) -> Option<Self> {
        let secret = Salt::new(HKDF_SHA256, b"larder session tickets").extract(bytes);
        let mut name = [0; 32];
        secret.expand(&[b"name"], HKDF_SHA256).ok()?.fill(&mut name).ok()?;
        Some(Self { name: *name.first_chunk()?, secret })
    }

    /// The key of one ticket.
    fn derive(&self, salt: &[u8; SALT]) -> Option<LessSafeKey> {
        let info = [&b"ticket"[..], salt];
        let key = self.secret.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}

/// Each key seals one ticket.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

impl ProducesTickets for FileTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    /// Name of the key, salt, and sealed: the time and the message.
    fn encrypt(&self, message: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        let mut salt = [0; SALT];
        self.random.fill(&mut salt).ok()?;
        let mut sealed = [&clock::wall_seconds().to_be_bytes(), message].concat();
        let sealing = key.derive(&salt)?;
        sealing.seal_in_place_append_tag(nonce(), Aad::from(key.name), &mut sealed).ok()?;
        Some([&key.name[..], &salt, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let (salt, sealed) = rest.split_first_chunk::<SALT>()?;
        let key = self.keys.iter().find(|key| key.name == *name)?;
        let mut sealed = sealed.to_vec();
        let opened = key.derive(salt)?.open_in_place(nonce(), Aad::from(key.name), &mut sealed);
        let (time, message) = opened.ok()?.split_first_chunk::<TIME>()?;
        // The clock of another machine may be ahead.
        let age = clock::wall_seconds().abs_diff(u64::from_be_bytes(*time));
        (age <= u64::from(LIFETIME)).then(|| message.to_vec())
    }
}

impl fmt::Debug for FileTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTickets").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(keys: &[u8]) -> Arc<dyn ProducesTickets> {
        let key = |byte: &u8| Secret::new(&[*byte; 80]).expect("a key");
        ticketer(&keys.iter().map(key).collect::<Vec<_>>(), [0; RULES]).expect("tickets")
    }

    #[test]
    fn a_ticket_is_good_under_its_rules_alone() {
        for keys in [&[][..], &[Secret::new(&[1; 48]).expect("a key")]] {
            let [first, second] = [[1; RULES], [2; RULES]].map(|rules| ticketer(keys, rules));
            let (first, second) = (first.expect("tickets"), second.expect("tickets"));
            let ticket = first.encrypt(b"session").expect("a ticket");
            assert_eq!(first.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
            assert_eq!(second.decrypt(&ticket), None);
        }
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let (old, both, new) = (tickets(&[1]), tickets(&[2, 1]), tickets(&[2]));
        let of_old = old.encrypt(b"session").expect("a ticket");
        let of_both = both.encrypt(b"session").expect("a ticket");
        let opened = |tickets: &Arc<dyn ProducesTickets>, ticket: &[u8]| tickets.decrypt(ticket);
        assert_eq!(opened(&both, &of_old).as_deref(), Some(&b"session"[..]));
        assert_eq!(opened(&new, &of_both).as_deref(), Some(&b"session"[..]));
        assert_eq!((opened(&new, &of_old), opened(&old, &of_both)), (None, None));
        assert_ne!(of_both, both.encrypt(b"session").expect("a ticket"), "no two are alike");
    }

    #[test]
    fn a_changed_ticket_is_none() {
        let tickets = tickets(&[1]);
        let ticket = tickets.encrypt(b"session").expect("a ticket");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "byte {at}");
            assert_eq!(tickets.decrypt(&ticket[..at]), None, "{at} bytes");
        }
    }
}
