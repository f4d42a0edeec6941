//! Suppressed answers (CLIENT REPLY OFF or SKIP): composed as usual, then dropped.

use crate::net::out::Out;

/// Largest buffer kept for the next suppressed answers, in bytes.
const KEPT: u64 = 4096;

/// The buffer for a command's answers.
#[inline]
pub(super) fn target<'o>(
    muted: bool,
    dropped: &'o mut Option<Box<Out>>,
    out: &'o mut Out,
) -> &'o mut Out {
    if muted { dropped.get_or_insert_default() } else { out }
}

/// Drops suppressed answers, and their buffer if it has grown.
#[inline]
pub(super) fn drop_answers(dropped: &mut Option<Box<Out>>) {
    if let Some(answers) = dropped {
        answers.clear();
        if answers.capacity() > KEPT {
            *dropped = None;
        }
    }
}
