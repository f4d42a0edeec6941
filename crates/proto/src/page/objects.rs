//! Keys of objects on the disk.

/// Before the key of an object on the disk: no page has such a key.
const ON_DISK: &[u8] = b"\xffobject ";
/// Bytes of the numbers behind it.
const NUMBERS: usize = 16;

/// The key on the disk of an object of this write (`number`) of a process (`run`).
pub fn object_on_disk(run: u64, number: u64, key: &[u8]) -> Vec<u8> {
    [ON_DISK, &run.to_le_bytes(), &number.to_le_bytes(), key].concat()
}

/// The key in memory of an object by its key on the disk; `None`: it is no object's.
pub fn object_of_disk(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(ON_DISK)?.get(NUMBERS..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_of_a_key_has_its_own_on_the_disk() {
        let key = object_on_disk(7, 8, b"key");
        assert_eq!(object_of_disk(&key), Some(&b"key"[..]));
        for other in [object_on_disk(8, 8, b"key"), object_on_disk(7, 9, b"key")] {
            assert_ne!(key, other);
        }
        assert_eq!(object_of_disk(b"http://a.test/"), None);
        assert_eq!(object_of_disk(&key[..20]), None, "cut");
    }
}
