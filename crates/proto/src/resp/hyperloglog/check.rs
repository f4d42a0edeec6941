//! A test of HyperLogLogs on themselves (PFSELFTEST).

use super::{HyperLogLog, REGISTERS};

/// Elements of the whole test, and of a step.
const ELEMENTS: u64 = 100_000;
const STEP: u64 = 500;
/// Cardinalities that are compared are powers of this.
const FACTOR: u64 = 10;
/// Largest error: six standard errors, which are 1.04 divided by the root of the registers.
const ERROR: f64 = 6.0 * 1.04 / 128.0;

/// A test in progress: the same elements are added to a sparse and to a dense one.
#[derive(Debug, Default)]
pub struct Check {
    sparse: HyperLogLog,
    dense: HyperLogLog,
    added: u64,
}

impl Check {
    /// Goes on. False: it has ended well.
    ///
    /// # Errors
    /// The fault that it has found.
    pub fn step(&mut self) -> Result<bool, String> {
        let corrupted = |_| "a HyperLogLog is corrupted".to_owned();
        if self.added == 0 {
            self.dense.to_dense().map_err(corrupted)?;
            set_and_get()?;
        }
        for _ in 0..STEP {
            self.added += 1;
            let element = self.added.to_le_bytes();
            self.sparse.add(&element).map_err(corrupted)?;
            self.dense.add(&element).map_err(corrupted)?;
            if self.added.ilog(FACTOR) > (self.added - 1).max(1).ilog(FACTOR) {
                self.compare()?;
            }
        }
        Ok(self.added < ELEMENTS)
    }

    fn compare(&mut self) -> Result<(), String> {
        let of = |own: &mut HyperLogLog| own.count().unwrap_or_default();
        let (sparse, dense) = (of(&mut self.sparse), of(&mut self.dense));
        if sparse != dense {
            return Err(format!("sparse counts {sparse}, dense {dense}"));
        }
        let error = (dense as f64 - self.added as f64).abs() / self.added as f64;
        if error > ERROR {
            return Err(format!("{} elements are counted as {dense}", self.added));
        }
        Ok(())
    }
}

/// Registers keep what is written to them, and leave their neighbours.
fn set_and_get() -> Result<(), String> {
    let mut own = HyperLogLog::default();
    let mut expected = [0; REGISTERS];
    let wrong = || "a register has another value than was written".to_owned();
    own.to_dense().map_err(|_| wrong())?;
    for round in 0..4 {
        for (register, value) in expected.iter_mut().enumerate() {
            let next = ((register * 7 + round * 13) % 64) as u8;
            own.set(register, next).map_err(|_| wrong())?;
            *value = next.max(*value);
        }
        let mut registers = [0; REGISTERS];
        own.merge_into(&mut registers).map_err(|_| wrong())?;
        if registers != expected {
            return Err(wrong());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_ends_well() {
        let mut check = Check::default();
        while check.step().unwrap() {}
        assert_eq!(check.added, ELEMENTS);
    }
}
