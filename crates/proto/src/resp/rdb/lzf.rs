//! LibLZF's compression, to read.

use super::Bad;

/// A compressed string that is being unpacked.
#[derive(Clone, Debug)]
pub struct Lzf {
    at: usize,
    len: usize,
    out: Vec<u8>,
}

/// A reference of three bytes stands for so many at most.
const MOST: usize = 264;

impl Lzf {
    /// Begins to unpack a string of `len` bytes from so many.
    ///
    /// # Errors
    /// So few bytes do not hold so many.
    pub fn new(packed: usize, len: usize) -> Result<Lzf, Bad> {
        if len > packed.saturating_mul(MOST) {
            return Err(Bad);
        }
        Ok(Lzf { at: 0, len, out: Vec::new() })
    }

    /// Unpacks until `most` bytes more are there. True: it is whole.
    ///
    /// # Errors
    /// The bytes are no such string.
    pub fn step(&mut self, packed: &[u8], most: usize) -> Result<bool, Bad> {
        let until = self.out.len().saturating_add(most);
        while self.at < packed.len() && self.out.len() < until {
            self.token(packed)?;
            if self.out.len() > self.len {
                return Err(Bad);
            }
        }
        if self.at < packed.len() {
            return Ok(false);
        }
        if self.out.len() == self.len { Ok(true) } else { Err(Bad) }
    }

    fn token(&mut self, packed: &[u8]) -> Result<(), Bad> {
        let mut next = || {
            let byte = packed.get(self.at).copied().ok_or(Bad);
            self.at += 1;
            byte.map(usize::from)
        };
        let control = next()?;
        if control < 32 {
            let end = self.at + control + 1;
            self.out.extend_from_slice(packed.get(self.at..end).ok_or(Bad)?);
            self.at = end;
            return Ok(());
        }
        let mut len = control >> 5;
        if len == 7 {
            len += next()?;
        }
        let back = ((control & 0x1f) << 8) + next()? + 1;
        let from = self.out.len().checked_sub(back).ok_or(Bad)?;
        // The copy may overlap what it writes.
        for at in from..from + len + 2 {
            self.out.push(self.out[at]);
        }
        Ok(())
    }

    /// The bytes that are unpacked so far.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// The unpacked string.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}
