//! Lengths and strings, to write.

/// Appends a length.
pub fn push_len(out: &mut Vec<u8>, len: u64) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        0x4000..0x1_0000_0000 => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// Appends a string.
pub fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    push_len(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
