//! Conversion of expiries to the servers' form: seconds from now, or a Unix time.

use std::time::SystemTime;

use crate::Expiry;

/// memcached reads expiries above 30 days as Unix times.
const RELATIVE: u64 = 30 * 86400;
/// An expiry in the past: the first value that is not relative.
const PAST: u32 = 30 * 86400 + 1;

/// The value to send; 0 means never.
pub(crate) fn seconds(expiry: Expiry) -> u32 {
    let absolute = |at: u64| u32::try_from(at).unwrap_or(u32::MAX).clamp(PAST, i32::MAX as u32);
    match expiry {
        Expiry::Never => 0,
        Expiry::Now => PAST,
        Expiry::At(at) => absolute(at),
        Expiry::After(time) if time.is_zero() => PAST,
        Expiry::After(time) => {
            let whole = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
            if whole <= RELATIVE {
                return u32::try_from(whole).unwrap_or(PAST);
            }
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            absolute(now.as_secs().saturating_add(whole))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn expiries_are_what_servers_take() {
        assert_eq!(seconds(Expiry::Never), 0);
        assert_eq!(seconds(Expiry::After(Duration::from_millis(1))), 1);
        assert_eq!(seconds(Expiry::After(Duration::from_secs(RELATIVE))), 2_592_000);
        let year = seconds(Expiry::After(Duration::from_secs(365 * 86400)));
        assert!(year > 1_700_000_000, "beyond 30 days it is a time: {year}");
        assert_eq!(seconds(Expiry::After(Duration::MAX)), i32::MAX as u32);
        assert_eq!(seconds(Expiry::At(2_000_000_000)), 2_000_000_000);
        assert_eq!(seconds(Expiry::At(5)), PAST, "it must not be read as five seconds from now");
        assert_eq!(seconds(Expiry::Now), PAST);
        assert_eq!(seconds(Expiry::After(Duration::ZERO)), PAST, "0 would be for ever");
    }
}
