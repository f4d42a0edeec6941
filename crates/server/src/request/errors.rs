//! The latest answers of Larder's own that said no, by the reference that their pages show.

use std::collections::{BTreeMap, VecDeque};

use larder_metrics::AnsweredError;
use parking_lot::Mutex;

use crate::clock::Ms;

/// Failures (5xx) that are remembered; the oldest goes first.
const FAILURES: usize = 512;
/// Refusals (4xx) that are remembered: any client can cause them, so they have a place of their
/// own.
const REFUSALS: usize = 256;
/// Bytes of a URL that are remembered.
const URL: usize = 1024;

/// Sites whose failures are told on the terminal.
const SITES: usize = 64;
/// Failures of a site within [`WINDOW`] of which the reason is told.
const TELL_AFTER: u32 = 3;
const WINDOW: Ms = 60 * 1000;
/// The same reason is not told again before.
const TELL_AGAIN: Ms = 10 * 60 * 1000;

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
    failing: Mutex<BTreeMap<Box<str>, Failing>>,
}

/// Failures of a site.
#[derive(Default)]
struct Failing {
    /// The beginning of its window.
    begun: Ms,
    failures: u32,
    /// The reason that was told last, and the time of that.
    told: Option<(String, Ms)>,
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

    /// Counts a failure of a site. Returns the line with its reason for the terminal, if it is due.
    pub(crate) fn tell(&self, error: &AnsweredError) -> Option<String> {
        let reason = error.detail.as_ref().filter(|_| error.status >= 500)?;
        let mut failing = self.failing.lock();
        if !failing.contains_key(error.site.as_str()) && failing.len() >= SITES {
            return None;
        }
        let site = failing.entry(error.site.as_str().into()).or_default();
        if error.time_ms.saturating_sub(site.begun) >= WINDOW {
            (site.begun, site.failures) = (error.time_ms, 0);
        }
        site.failures = site.failures.saturating_add(1);
        let again = |(told, at): &(String, Ms)| {
            told != reason || error.time_ms.saturating_sub(*at) >= TELL_AGAIN
        };
        if site.failures != TELL_AFTER || !site.told.as_ref().is_none_or(again) {
            return None;
        }
        site.told = Some((reason.clone(), error.time_ms));
        let line = format!(
            "larder: site {}: {} requests got status {}, the last one because: {reason} (larder \
             why {})",
            error.site, site.failures, error.status, error.reference
        );
        // A server may have a part in the reason: it does not steer the terminal.
        Some(line.chars().map(|c| if c.is_control() { '?' } else { c }).collect())
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
    fn the_reason_of_failures_is_told_once() {
        let errors = Errors::default();
        let at = |time_ms, detail: &str| {
            let detail = Some(detail.to_owned());
            let error = AnsweredError { time_ms, detail, ..error(1, 502) };
            errors.tell(&error)
        };
        assert_eq!((at(1, "refused"), at(2, "refused")), (None, None));
        let line = at(3, "ref\x1bused").expect("the third one");
        assert!(line.contains("ref?used (larder why "), "{line}");
        assert_eq!(at(4, "refused"), None);
        // Another reason in another window, and the same one much later.
        let three = |from: Ms, why: &str| [from, from + 1, from + 2].map(|time| at(time, why));
        assert!(three(WINDOW + 4, "late")[2].is_some());
        assert_eq!(three(2 * WINDOW + 9, "late"), [None, None, None]);
        assert!(three(2 * TELL_AGAIN, "late")[2].is_some());
        // Now and then is no failure to tell of.
        for n in 3..9 {
            assert_eq!(at(n * TELL_AGAIN, "late"), None);
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
