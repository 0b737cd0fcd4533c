//! Decimal numbers of any size, for the few quantities that do not fit `i64`.
//!
//! Each digit takes one byte. Such amounts are rare, and printing, rounding and aligning bytes are simple slicing.

use std::cmp::Ordering;

/// The number ± `digits` × 10^-`scale`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    /// The digits, the most significant first, without leading zeros; empty for zero.
    digits: Vec<u8>,
    scale: i32,
}

impl Decimal {
    pub(super) fn new(unscaled: i64, scale: i32) -> Self {
        let digits = unscaled.unsigned_abs().to_string();
        Self::from_digits(unscaled < 0, digits.bytes().map(|byte| byte - b'0').collect(), scale)
    }

    pub(super) fn from_digits(negative: bool, digits: Vec<u8>, scale: i32) -> Self {
        let mut decimal = Self { negative, digits, scale };
        decimal.normalise();
        decimal
    }

    fn normalise(&mut self) {
        let n_leading_zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..n_leading_zeros);
        self.negative &= !self.digits.is_empty();
    }

    pub(super) fn signum(&self) -> i32 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    pub(super) fn scale(&self) -> i32 {
        self.scale
    }

    pub(super) fn digits(&self) -> &[u8] {
        &self.digits
    }

    pub(super) fn negated(mut self) -> Self {
        self.negative = !self.negative && !self.digits.is_empty();
        self
    }

    /// The number × 2^`exponent`.
    pub(super) fn doubled(mut self, exponent: u32) -> Self {
        for _ in 0..exponent {
            let mut carry = 0;
            for digit in self.digits.iter_mut().rev() {
                let doubled = *digit * 2 + carry;
                *digit = doubled % 10;
                carry = doubled / 10;
            }
            if carry > 0 {
                self.digits.insert(0, carry);
            }
        }
        self
    }

    /// The number with exactly `scale` decimals. Finer digits are rounded away from zero.
    pub(super) fn rounded_to(mut self, scale: i32) -> Self {
        if self.scale <= scale {
            self.refine_to(scale);
            return self;
        }
        let n_dropped = usize::try_from(self.scale.abs_diff(scale)).unwrap_or(usize::MAX);
        let dropped = self.digits.split_off(self.digits.len().saturating_sub(n_dropped));
        self.scale = scale;
        if dropped.iter().any(|digit| *digit != 0) {
            self.digits = sum_of(&self.digits, &[1]);
        }
        self
    }

    /// Appends zeros until there are `scale` decimals.
    fn refine_to(&mut self, scale: i32) {
        if self.scale < scale {
            let n_zeros = usize::try_from(self.scale.abs_diff(scale)).unwrap_or(usize::MAX);
            if !self.digits.is_empty() {
                self.digits.resize(self.digits.len() + n_zeros, 0);
            }
            self.scale = scale;
        }
    }

    pub(super) fn plus(mut self, other: &Self) -> Self {
        let mut other = other.clone();
        let scale = self.scale.max(other.scale);
        self.refine_to(scale);
        other.refine_to(scale);
        if self.negative == other.negative {
            return Self::from_digits(self.negative, sum_of(&self.digits, &other.digits), scale);
        }
        match compare_magnitudes(&self.digits, &other.digits) {
            Ordering::Less => Self::from_digits(other.negative, difference_of(&other.digits, &self.digits), scale),
            Ordering::Equal | Ordering::Greater => {
                Self::from_digits(self.negative, difference_of(&self.digits, &other.digits), scale)
            }
        }
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let mut product = Vec::new();
        for digit in &other.digits {
            product.push(0);
            for _ in 0..*digit {
                product = sum_of(&product, &self.digits);
            }
        }
        Self::from_digits(self.negative != other.negative, product, self.scale.saturating_add(other.scale))
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let difference = self.clone().plus(&other.clone().negated());
        difference.signum().cmp(&0)
    }

    /// The number × 10^`decimals` as an integer. A fraction adds one, even if the number is negative. Beyond `i64`,
    /// only the low 64 bits are kept. For a negative number, the bits are cut before the division. Kubernetes computes
    /// the same results.
    pub(super) fn scaled(&self, decimals: i32) -> i64 {
        if self.scale <= decimals {
            let mut refined = self.clone();
            refined.refine_to(decimals);
            return refined.low_bits();
        }
        let n_dropped = self.scale.abs_diff(decimals);
        if self.negative {
            let low_bits = self.low_bits();
            let Some(divisor) = 10i64.checked_pow(n_dropped) else {
                return i64::from(low_bits != 0);
            };
            return low_bits / divisor + i64::from(low_bits % divisor != 0);
        }
        self.clone().rounded_to(decimals).low_bits()
    }

    fn low_bits(&self) -> i64 {
        let magnitude =
            self.digits.iter().fold(0i64, |bits, digit| bits.wrapping_mul(10).wrapping_add(i64::from(*digit)));
        if self.negative { magnitude.wrapping_neg() } else { magnitude }
    }

    /// The integer divided by 1024, if there is no remainder.
    pub(super) fn divided_by_1024(&self) -> Option<Self> {
        let mut remainder = 0u32;
        let mut quotient = Vec::with_capacity(self.digits.len());
        for digit in &self.digits {
            let dividend = remainder * 10 + u32::from(*digit);
            quotient.push(u8::try_from(dividend / 1024).ok()?);
            remainder = dividend % 1024;
        }
        (remainder == 0).then(|| Self::from_digits(self.negative, quotient, self.scale))
    }

    /// The number without trailing zeros, so that `scale` is the number of decimals that it needs.
    pub(super) fn stripped(mut self) -> Self {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.scale = self.scale.saturating_sub(1);
        }
        self
    }
}

fn compare_magnitudes(left: &[u8], right: &[u8]) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

fn sum_of(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut sum = Vec::with_capacity(left.len().max(right.len()) + 1);
    let mut carry = 0;
    let (mut left, mut right) = (left.iter().rev(), right.iter().rev());
    loop {
        let digit = match (left.next(), right.next()) {
            (Some(a), Some(b)) => a + b + carry,
            (Some(a), None) | (None, Some(a)) => a + carry,
            (None, None) => break,
        };
        sum.push(digit % 10);
        carry = digit / 10;
    }
    sum.push(carry);
    sum.reverse();
    let n_leading_zeros = sum.iter().take_while(|digit| **digit == 0).count();
    sum.split_off(n_leading_zeros)
}

/// `larger` minus `smaller`.
fn difference_of(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let smaller = smaller.iter().rev().copied().chain(std::iter::repeat(0));
    let mut difference: Vec<u8> = larger
        .iter()
        .rev()
        .zip(smaller)
        .map(|(digit, subtrahend)| {
            let digit = digit + 10 - subtrahend - borrow;
            borrow = u8::from(digit < 10);
            digit % 10
        })
        .collect();
    difference.reverse();
    difference
}
