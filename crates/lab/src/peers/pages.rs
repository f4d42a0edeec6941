//! Canned pages by size and number: `/1000/0` is the same thousand bytes in every process. So an
//! origin, a directory of files and a comparison of answers agree without communication.

use std::time::{SystemTime, UNIX_EPOCH};

use larder_proto::http::date;

use crate::random::Random;

/// Largest page.
const LARGEST: usize = 64 << 20;

/// The target of a page.
pub(crate) fn target(size: usize, number: u32) -> String {
    format!("/{size}/{number}")
}

/// Size and number of the page at a target. `None`: there is no such page.
pub(crate) fn parse(target: &[u8]) -> Option<(usize, u32)> {
    let (size, number) = std::str::from_utf8(target).ok()?.strip_prefix('/')?.split_once('/')?;
    let size = size.parse().ok().filter(|size| *size <= LARGEST)?;
    Some((size, number.parse().ok()?))
}

/// A page's bytes: letters that are not compressible and differ from every other page.
pub(crate) fn body(size: usize, number: u32) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut random = Random::new((size as u64) << 32 | u64::from(number));
    let mut body = Vec::with_capacity(size + 8);
    while body.len() < size {
        body.extend(random.number().to_le_bytes().map(|byte| LETTERS[usize::from(byte & 63)]));
    }
    body.truncate(size);
    body
}

/// The head of a page's answer. Fresh for a day: caches do not revalidate while they are measured.
pub(crate) fn head(size: usize, number: u32) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let date = date::format(now);
    format!(
        "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: text/html\r\nContent-Length: \
         {size}\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nETag: \
         \"{size}-{number}\"\r\nCache-Control: public, max-age=86400\r\n\r\n",
        String::from_utf8_lossy(&date)
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_each_time_and_unlike_any_other() {
        assert_eq!(body(1000, 3), body(1000, 3));
        assert_eq!(body(1000, 3).len(), 1000);
        assert_ne!(body(1000, 3), body(1000, 4));
        assert_ne!(body(1001, 3)[..1000], body(1000, 3));
        assert!(body(0, 0).is_empty());
        // Fixed, since servers of other builds are compared with it.
        assert_eq!(body(20, 0), b"n53tmjxsRkSbhdhSfQQW");
    }

    #[test]
    fn targets_name_pages() {
        assert_eq!(parse(target(1000, 7).as_bytes()), Some((1000, 7)));
        for other in
            ["", "/", "/1000", "/1000/", "1000/7", "/x/1", "/1000/7/", "/999999999999/1", "/-1/0"]
        {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }
}
