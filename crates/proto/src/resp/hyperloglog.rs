//! HyperLogLog, in the bytes of Redis's `hyperloglog.c`: a string of a head (16 bytes: `HYLL`, the
//! encoding, three zeros, the cached cardinality) and 16,384 registers. *Dense*: 6 bits each.
//! *Sparse*: runs of registers, as `ZERO`, `XZERO` (zeros) and `VAL` (equal values).
//!
//! The estimate: Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches"
//! (arXiv:1702.01284).

mod check;
mod sparse;

pub use check::Check;
use sparse::{each_run, set_sparse};

/// Number of registers.
pub const REGISTERS: usize = 1 << BITS;
/// Bits of a hash value that name a register.
const BITS: u32 = 14;
/// Bits of a hash value in which zeros are counted.
const REST: usize = 64 - BITS as usize;
/// Bytes of the head.
const HEAD: usize = 16;
/// Bytes of a dense value.
const DENSE: usize = HEAD + REGISTERS * 6 / 8;
/// Most bytes of a sparse value that is read: runs of one register each, in two bytes.
const LONGEST: usize = HEAD + 2 * REGISTERS;

const ENCODING: usize = 4;
const IS_DENSE: u8 = 0;
const IS_SPARSE: u8 = 1;

/// The runs of a sparse value do not make 16,384 registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// A HyperLogLog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog(Vec<u8>);

/// The greatest value of each register of several.
pub type Registers = [u8; REGISTERS];

impl Default for HyperLogLog {
    /// One without elements, sparse.
    fn default() -> Self {
        let mut bytes = b"HYLL\x01".to_vec();
        bytes.resize(HEAD, 0);
        sparse::push_zeros(&mut bytes, REGISTERS);
        HyperLogLog(bytes)
    }
}

impl HyperLogLog {
    /// Longest string that is one, in bytes.
    pub const LONGEST: usize = if LONGEST > DENSE { LONGEST } else { DENSE };

    /// The HyperLogLog of a string; None: it is none.
    pub fn read(bytes: &[u8]) -> Option<HyperLogLog> {
        let encoding = *bytes.get(ENCODING).filter(|_| bytes.len() >= HEAD)?;
        let is_right = bytes.starts_with(b"HYLL")
            && match encoding {
                IS_DENSE => bytes.len() == DENSE,
                IS_SPARSE => bytes.len() <= LONGEST,
                _ => false,
            };
        is_right.then(|| HyperLogLog(bytes.to_vec()))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Is it dense?
    pub fn is_dense(&self) -> bool {
        self.0[ENCODING] == IS_DENSE
    }

    /// Adds an element. True: a register changed.
    ///
    /// # Errors
    /// It is corrupted.
    pub fn add(&mut self, element: &[u8]) -> Result<bool, Corrupted> {
        let (register, value) = place(element);
        self.set(register, value)
    }

    /// Raises a register. False: it is as high.
    ///
    /// # Errors
    /// It is corrupted.
    pub fn set(&mut self, register: usize, value: u8) -> Result<bool, Corrupted> {
        if self.is_dense() {
            return Ok(set_dense(&mut self.0[HEAD..], register, value));
        }
        match set_sparse(&mut self.0, register, value)? {
            Some(changed) => {
                if changed {
                    self.forget_count();
                }
                Ok(changed)
            }
            None => {
                self.to_dense()?;
                Ok(set_dense(&mut self.0[HEAD..], register, value))
            }
        }
    }

    /// Makes it dense.
    ///
    /// # Errors
    /// It is corrupted.
    pub fn to_dense(&mut self) -> Result<(), Corrupted> {
        if self.is_dense() {
            return Ok(());
        }
        let mut dense = self.0[..HEAD].to_vec();
        dense[ENCODING] = IS_DENSE;
        dense.resize(DENSE, 0);
        each_run(&self.0[HEAD..], |at, len, value| {
            (at..at + len).for_each(|register| {
                set_dense(&mut dense[HEAD..], register, value);
            });
        })?;
        self.0 = dense;
        Ok(())
    }

    /// Raises `registers` to its own.
    ///
    /// # Errors
    /// It is corrupted.
    pub fn merge_into(&self, registers: &mut Registers) -> Result<(), Corrupted> {
        if self.is_dense() {
            for (at, register) in registers.iter_mut().enumerate() {
                *register = (*register).max(dense(&self.0[HEAD..], at));
            }
            return Ok(());
        }
        each_run(&self.0[HEAD..], |at, len, value| {
            registers[at..at + len].iter_mut().for_each(|own| *own = (*own).max(value));
        })
    }

    /// The runs of a sparse one, as PFDEBUG DECODE shows them.
    ///
    /// # Errors
    /// It is corrupted.
    pub fn runs(&self) -> Result<String, Corrupted> {
        sparse::shown(&self.0[HEAD..])
    }

    /// The cardinality that was counted last, if nothing was added since.
    pub fn known_count(&self) -> Option<u64> {
        let bytes = self.0[8..HEAD].try_into().map(u64::from_le_bytes).ok()?;
        (bytes >> 63 == 0).then_some(bytes)
    }

    /// Marks the cached cardinality as invalid.
    pub fn forget_count(&mut self) {
        self.0[HEAD - 1] |= 1 << 7;
    }

    /// Estimates the cardinality, and caches it.
    ///
    /// # Errors
    /// It is corrupted.
    pub fn count(&mut self) -> Result<u64, Corrupted> {
        let mut registers = [0; REGISTERS];
        self.merge_into(&mut registers)?;
        let count = estimate(&registers);
        self.0[8..HEAD].copy_from_slice(&count.to_le_bytes());
        Ok(count)
    }
}

/// The cardinality that registers tell.
pub fn estimate(registers: &Registers) -> u64 {
    let mut histogram = [0u32; 64];
    registers.iter().for_each(|register| histogram[usize::from(register & 63)] += 1);
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[REST + 1])) / m);
    for value in (1..=REST).rev() {
        z = (z + f64::from(histogram[value])) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    // 0.5 / ln 2
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

/// A dense register.
fn dense(registers: &[u8], at: usize) -> u8 {
    let (byte, bit) = (at * 6 / 8, at * 6 % 8);
    let high = registers.get(byte + 1).copied().unwrap_or_default();
    ((u16::from_le_bytes([registers[byte], high]) >> bit) & 63) as u8
}

fn set_dense(registers: &mut [u8], at: usize, value: u8) -> bool {
    if value <= dense(registers, at) {
        return false;
    }
    let (byte, bit) = (at * 6 / 8, at * 6 % 8);
    let mask = (63u16 << bit).to_le_bytes();
    let new = (u16::from(value & 63) << bit).to_le_bytes();
    registers[byte] = registers[byte] & !mask[0] | new[0];
    if let Some(high) = registers.get_mut(byte + 1) {
        *high = *high & !mask[1] | new[1];
    }
    true
}

/// The register of an element, and the value that it raises it to: one more than the zeros behind
/// the bits that name the register.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let rest = hash >> BITS | 1 << REST;
    (hash as usize % REGISTERS, rest.trailing_zeros() as u8 + 1)
}

/// `MurmurHash64A` with Redis's seed.
fn murmur(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xadc8_3b19;
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 47;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests;
