//! Pages in slices: the body of a map, and the keys of its slices.

use super::{PageFlags, PageView};

/// Before the key of a slice on the disk: no page has such a key.
const ON_DISK: &[u8] = b"\xffslice ";

/// The slices of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Number of the map, which no other map has.
    pub number: u64,
    /// Bytes of a slice.
    pub size: u64,
    /// Bytes of the page.
    pub total: u64,
}

impl Slices {
    /// Those that a map with this body names; `None`: it is no map.
    pub fn of(page: &PageView<'_>, body: &[u8]) -> Option<Slices> {
        let (number, size) = body.split_first_chunk::<8>()?;
        let (number, size) =
            (u64::from_le_bytes(*number), u64::from_le_bytes(size.try_into().ok()?));
        let map = page.meta.flags.any(PageFlags::SLICED) && size > 0;
        map.then_some(Slices { number, size, total: page.meta.nonce })
    }

    /// The key of a slice in memory.
    pub fn key(&self, slice: u64) -> Vec<u8> {
        [self.number.to_be_bytes(), slice.to_be_bytes()].concat()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.total.div_ceil(self.size)
    }

    /// Bytes of a slice.
    pub fn length(&self, slice: u64) -> u64 {
        self.total.saturating_sub(slice.saturating_mul(self.size)).min(self.size)
    }
}

/// The key on the disk of a slice with this key in memory.
pub fn slice_on_disk(key: &[u8]) -> Vec<u8> {
    [ON_DISK, key].concat()
}

/// Whether a key on the disk is that of a slice.
pub fn is_slice_on_disk(key: &[u8]) -> bool {
    key.len() == ON_DISK.len() + 16 && key.starts_with(ON_DISK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Meta, Parts, Trailer, Verify, encode_head, view};

    #[test]
    fn a_map_names_its_slices() {
        let flags = PageFlags::SLICED;
        let meta = Meta { flags, nonce: 1_000, ..Meta::default() };
        let mut record = encode_head(&meta, &Parts::default()).expect("a head");
        let body = [7u64.to_le_bytes(), 300u64.to_le_bytes()].concat();
        let mut trailer = Trailer::new(&record);
        trailer.update(&body);
        record.extend_from_slice(&body);
        record.extend(trailer.finish());
        let page = view(&record, record.len() as u64, Verify::All).expect("a page");
        let slices = Slices::of(&page, &body).expect("a map");
        assert_eq!(slices, Slices { number: 7, size: 300, total: 1_000 });
        let lengths: Vec<u64> = (0..slices.count() + 1).map(|n| slices.length(n)).collect();
        assert_eq!(lengths, [300, 300, 300, 100, 0]);
        assert!(is_slice_on_disk(&slice_on_disk(&slices.key(3))));
        assert!(!is_slice_on_disk(&slices.key(3)));
        for other in [&body[..8], &[body.as_slice(), b"x"].concat(), &[0; 16]] {
            assert_eq!(Slices::of(&page, other), None);
        }
    }
}
