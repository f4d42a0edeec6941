//! Natural numbers of any size: the few operations [`super::float`] needs.

use std::cmp::Ordering;

/// Little-endian; no zeros at the top.
#[derive(Clone, Debug)]
pub(super) struct Big(Vec<u32>);

impl From<u128> for Big {
    fn from(mut value: u128) -> Self {
        let mut words = Vec::with_capacity(4);
        while value > 0 {
            words.push(value as u32);
            value >>= 32;
        }
        Big(words)
    }
}

impl Big {
    pub(super) fn power_of_ten(n: usize) -> Big {
        let mut power = Big::from(1);
        (0..n / 9).for_each(|_| power.multiply_add(1_000_000_000, 0));
        power.multiply_add(10u32.pow((n % 9) as u32), 0);
        power
    }

    pub(super) fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    /// `self` × `base` + `digit`.
    pub(super) fn push_digit(&mut self, base: u32, digit: u32) {
        self.multiply_add(base, digit);
    }

    fn multiply_add(&mut self, factor: u32, add: u32) {
        let mut carry = u64::from(add);
        for word in &mut self.0 {
            carry += u64::from(*word) * u64::from(factor);
            *word = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    pub(super) fn times(&self, other: &Big) -> Big {
        let mut words = vec![0u32; self.0.len() + other.0.len()];
        for (at, &a) in self.0.iter().enumerate() {
            let mut carry = 0u64;
            for (word, &b) in words[at..].iter_mut().zip(other.0.iter().chain(std::iter::once(&0)))
            {
                carry += u64::from(*word) + u64::from(a) * u64::from(b);
                *word = carry as u32;
                carry >>= 32;
            }
        }
        Big(words).trimmed()
    }

    /// `self` × 2^`by`.
    pub(super) fn shifted(&self, by: usize) -> Big {
        let mut words = vec![0u32; by / 32];
        let mut carry = 0u64;
        for &word in &self.0 {
            carry |= u64::from(word) << (by % 32);
            words.push(carry as u32);
            carry >>= 32;
        }
        words.push(carry as u32);
        Big(words).trimmed()
    }

    pub(super) fn plus(&self, other: &Big) -> Big {
        let len = self.0.len().max(other.0.len());
        let mut carry = 0u64;
        let mut words = Vec::with_capacity(len + 1);
        for at in 0..len {
            carry += u64::from(self.word(at)) + u64::from(other.word(at));
            words.push(carry as u32);
            carry >>= 32;
        }
        words.push(carry as u32);
        Big(words).trimmed()
    }

    /// `self` − `other`, which must not be larger.
    pub(super) fn minus(&self, other: &Big) -> Big {
        let mut borrow = 0i64;
        let mut words = Vec::with_capacity(self.0.len());
        for at in 0..self.0.len() {
            borrow += i64::from(self.word(at)) - i64::from(other.word(at));
            words.push(borrow as u32);
            borrow >>= 32;
        }
        Big(words).trimmed()
    }

    pub(super) fn at_least(&self, other: &Big) -> bool {
        let order = self.0.len().cmp(&other.0.len());
        order.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())) != Ordering::Less
    }

    /// `self` / `divisor`, below 2^68, and whether there is a remainder.
    pub(super) fn divided(&self, divisor: &Big) -> (u128, bool) {
        let (mut rest, mut quotient) = (self.clone(), 0);
        for bit in (0..68).rev() {
            let part = divisor.shifted(bit);
            if rest.at_least(&part) {
                rest = rest.minus(&part);
                quotient |= 1 << bit;
            }
        }
        (quotient, !rest.0.is_empty())
    }

    /// The top 64 bits (with zeros after them, if there are fewer), and how the rest compares with
    /// half a unit.
    pub(super) fn top(&self) -> (u64, Ordering) {
        let bits = self.bits();
        if bits <= 64 {
            let value = u64::from(self.word(1)) << 32 | u64::from(self.word(0));
            return (if bits == 0 { 0 } else { value << (64 - bits) }, Ordering::Less);
        }
        let below = bits - 64;
        let (skip, shift) = (below / 32, below % 32);
        let wide =
            (0..3).map(|at| u128::from(self.word(skip + at)) << (32 * at)).sum::<u128>() >> shift;
        let half = below - 1;
        let half_set = self.word(half / 32) >> (half % 32) & 1 == 1;
        let lower = self.0[..half / 32].iter().any(|&word| word != 0)
            || self.word(half / 32) & ((1 << (half % 32)) - 1) != 0;
        let rest = match (half_set, lower) {
            (true, true) => Ordering::Greater,
            (true, false) => Ordering::Equal,
            (false, _) => Ordering::Less,
        };
        (wide as u64, rest)
    }

    pub(super) fn decimal(mut self) -> String {
        let mut parts = Vec::new();
        while !self.0.is_empty() {
            let mut rest = 0u64;
            for word in self.0.iter_mut().rev() {
                rest = rest << 32 | u64::from(*word);
                *word = (rest / 1_000_000_000) as u32;
                rest %= 1_000_000_000;
            }
            self = self.trimmed();
            parts.push(rest as u32);
        }
        let first = parts.pop().unwrap_or(0);
        parts.iter().rev().fold(first.to_string(), |text, part| text + &format!("{part:09}"))
    }

    fn word(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn trimmed(mut self) -> Big {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
}
