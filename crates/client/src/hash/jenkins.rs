//! Bob Jenkins's hashes: one-at-a-time (1997) and lookup3 (2006), both in the public domain.

/// One-at-a-time. As in libmemcached on x86, bytes above 127 are sign-extended.
pub(super) fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = 0u32;
    for byte in key {
        hash = hash.wrapping_add(i32::from(*byte as i8) as u32);
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// libmemcached's initial value of lookup3.
const INITIAL: u32 = 13;

/// `hashlittle` of lookup3.
pub(super) fn lookup3(key: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(INITIAL);
    let mut state = [start; 3];
    // The last block, even a full one, is mixed differently.
    let blocks = key.len().saturating_sub(1) / 12;
    let (head, tail) = key.split_at(blocks * 12);
    for block in head.chunks_exact(12) {
        add(&mut state, block);
        mix(&mut state);
    }
    if !tail.is_empty() {
        add(&mut state, tail);
        finish(&mut state);
    }
    state[2]
}

/// Adds up to 12 bytes in little-endian order; missing bytes are 0.
fn add(state: &mut [u32; 3], block: &[u8]) {
    let mut bytes = [0; 12];
    bytes[..block.len()].copy_from_slice(block);
    for (value, bytes) in state.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *value = value.wrapping_add(u32::from_le_bytes(*bytes));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: u32, bits| {
        *x = x.wrapping_sub(*y) ^ y.rotate_left(bits);
        *y = y.wrapping_add(z);
    };
    step(a, c, *b, 4);
    step(b, a, *c, 6);
    step(c, b, *a, 8);
    step(a, c, *b, 16);
    step(b, a, *c, 19);
    step(c, b, *a, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, bits| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}
