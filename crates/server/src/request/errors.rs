//! The latest answers of Larder's own that said no, by the reference that their pages show.

use std::collections::VecDeque;

use larder_metrics::AnsweredError;
use parking_lot::Mutex;

/// Failures (5xx) that are remembered; the oldest goes first.
const FAILURES: usize = 512;
/// Refusals (4xx) that are remembered: any client can cause them, so they have a place of their
/// own.
const REFUSALS: usize = 256;
/// Bytes of a URL that are remembered.
const URL: usize = 1024;

/// The digits of a reference: no letter looks like a digit (Crockford's base 32).
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Digits before and behind the dash.
const HALF: usize = 5;

/// A reference of a random number: ten digits, as `7GK2M-9QXWB`.
pub(crate) fn reference(random: u64) -> String {
    let digit = |place: usize| char::from(DIGITS[(random >> (5 * place)) as usize % DIGITS.len()]);
    let mut out: String = (0..2 * HALF).map(digit).collect();
    out.insert(HALF, '-');
    out
}

/// A reference as people write it: in any case, with the dash or without, with the letters that
/// look like digits.
pub(crate) fn spelled(text: &str) -> String {
    let digits = text.chars().filter(char::is_ascii_alphanumeric).take(2 * HALF + 1);
    let mut out: String = digits
        .map(|digit| match digit.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            digit => digit,
        })
        .collect();
    if out.len() > HALF {
        out.insert(HALF, '-');
    }
    out
}

/// The latest errors. Locked for moments, by answers that are errors and by those who look at them.
#[derive(Default)]
pub(crate) struct Errors {
    failures: Mutex<VecDeque<AnsweredError>>,
    refusals: Mutex<VecDeque<AnsweredError>>,
}

impl Errors {
    /// Remembers an answer; a long URL is cut.
    pub(crate) fn note(&self, mut error: AnsweredError) {
        let mut cut = URL.min(error.url.len());
        while !error.url.is_char_boundary(cut) {
            cut -= 1;
        }
        error.url.truncate(cut);
        let (kept, most) = match error.status {
            500.. => (&self.failures, FAILURES),
            _ => (&self.refusals, REFUSALS),
        };
        // Refusals come in floods: one that finds another thread here is not remembered.
        let kept = if error.status < 500 { kept.try_lock() } else { Some(kept.lock()) };
        let Some(mut kept) = kept else { return };
        kept.truncate(most - 1);
        kept.push_front(error);
    }

    /// Those that are remembered, the newest first; with a reference only the one of that name.
    pub(crate) fn latest(&self, reference: Option<&str>) -> Vec<AnsweredError> {
        let reference = reference.map(spelled);
        let mut out = Vec::new();
        for kept in [&self.failures, &self.refusals] {
            let kept = kept.lock();
            let wanted = |error: &&AnsweredError| {
                reference.as_ref().is_none_or(|wanted| *wanted == error.reference)
            };
            out.extend(kept.iter().filter(wanted).cloned());
        }
        out.sort_by_key(|error| std::cmp::Reverse(error.time_ms));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(number: u64, status: u16) -> AnsweredError {
        AnsweredError {
            reference: reference(number),
            time_ms: number,
            status,
            url: "é".repeat(2000),
            ..AnsweredError::default()
        }
    }

    #[test]
    fn a_reference_is_found_however_it_is_written() {
        let made = reference(0x7fff_0123_4567_89ab);
        assert_eq!(made.len(), 11);
        assert_eq!(spelled(&made.to_lowercase()), made);
        assert_eq!(spelled(&made.replace('-', " ")), made);
        assert_eq!(spelled("o1lI0abcde"), "01110-ABCDE");
        assert_eq!(spelled("x"), "X");
        assert_ne!(reference(1), reference(2));
    }

    #[test]
    fn refusals_do_not_push_failures_out() {
        let errors = Errors::default();
        errors.note(error(1, 502));
        for number in 2..3000 {
            errors.note(error(number, 421));
        }
        assert_eq!(errors.latest(None).len(), 1 + REFUSALS);
        let found = errors.latest(Some(&reference(1).to_lowercase()));
        assert_eq!(found.iter().map(|error| error.status).collect::<Vec<_>>(), [502]);
        assert_eq!(found[0].url.len(), URL);
        assert!(errors.latest(Some("?")).is_empty());
        for number in 3000..5000 {
            errors.note(error(number, 503));
        }
        assert_eq!(errors.latest(None).len(), FAILURES + REFUSALS);
        assert!(errors.latest(Some(&reference(1))).is_empty(), "the oldest goes first");
    }
}
