//! Timeouts of blocking commands.

use larder_proto::resp::collection::parse_bound;

use super::errors::Outcome;
use crate::clock::Ms;

/// The time at which a command stops to wait; None: it waits without a limit. (Redis:
/// `getTimeoutFromObjectOrReply`.)
pub(super) fn deadline(seconds: &[u8], now: Ms) -> Outcome<Option<Ms>> {
    const OUT_OF_RANGE: &str = "ERR timeout is out of range";
    const NOT_FLOAT: &str = "ERR timeout is not a float or out of range";
    let number = seconds.first().filter(|byte| !byte.is_ascii_whitespace());
    let seconds = number.and_then(|_| parse_bound(seconds)).ok_or(NOT_FLOAT)?;
    let millis = (seconds * 1000.0).ceil();
    // Redis 7.0 turns numbers beyond its range into negative ones.
    if millis < 0.0 || millis >= i64::MAX as f64 {
        return Err("ERR timeout is negative".into());
    }
    if millis == 0.0 {
        return Ok(None);
    }
    let deadline = now.checked_add(millis as Ms).filter(|at| *at <= i64::MAX as u64);
    deadline.map(Some).ok_or_else(|| OUT_OF_RANGE.into())
}
