//! Timeouts of blocking commands.

use larder_proto::resp::collection::parse_score;

use super::errors::Outcome;
use crate::clock::Ms;

/// The time at which a command stops to wait; None: it waits without a limit. (Redis:
/// `getTimeoutFromObjectOrReply`.)
pub(super) fn deadline(seconds: &[u8], now: Ms) -> Outcome<Option<Ms>> {
    const OUT_OF_RANGE: &str = "ERR timeout is out of range";
    let seconds =
        parse_score(seconds).ok_or("ERR timeout is not a float or out of range")?;
    let millis = (seconds * 1000.0).ceil();
    if millis > i64::MAX as f64 {
        return Err(OUT_OF_RANGE.into());
    }
    if millis < 0.0 {
        return Err("ERR timeout is negative".into());
    }
    if millis == 0.0 {
        return Ok(None);
    }
    let deadline = now.checked_add(millis as Ms).filter(|at| *at <= i64::MAX as u64);
    deadline.map(Some).ok_or_else(|| OUT_OF_RANGE.into())
}
