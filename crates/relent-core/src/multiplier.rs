//! Growth factors that come out to the nanosecond.

use core::fmt::{self, Write as _};

/// The factor by which an exponential schedule grows: at least 1, finite.
///
/// Held as a 64-bit mantissa and an exponent and raised to powers by squaring, so that 1.5, 1.1 and 1.25 (which no
/// binary float holds exactly) give waits that are right to the nanosecond, and attempt 1 000 000 costs no loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Multiplier {
    /// The value's leading 64 bits: the topmost bit is set.
    mantissa: u64,
    /// The value is `mantissa × 2^exponent`.
    exponent: i32,
}

impl Multiplier {
    /// 1: no growth.
    pub const ONE: Self = Self { mantissa: 1 << 63, exponent: -63 };
    /// 2: doubling, the default.
    pub const TWO: Self = Self { mantissa: 1 << 63, exponent: -62 };

    /// A multiplier from its decimal form; `None` unless it is finite and at least 1.
    ///
    /// 1.1 means eleven tenths, not the float nearest to it.
    pub fn new(value: f64) -> Option<Self> {
        if !(value.is_finite() && value >= 1.0) {
            return None;
        }
        let mut digits = Digits::default();
        // The shortest decimal that reads back as this float is what its author wrote.
        match write!(digits, "{value}") {
            Ok(()) if !digits.overflowed => {
                let decimal = Self::ratio(digits.number, digits.scale);
                // Some decimals lie so close to the middle between two floats that 64 bits round to the other one.
                Some(if decimal.as_f64() == value { decimal } else { Self::from_bits(value) })
            }
            _ => Some(Self::from_bits(value)),
        }
    }

    /// The value, rounded to a float.
    pub fn as_f64(self) -> f64 {
        // Exactly what `new` was given: the mantissa rounds to the float nearest to the decimal.
        libm::ldexp(self.mantissa as f64, self.exponent)
    }

    /// `base × self^power`, rounded to the nearest nanosecond, at most `u64::MAX`.
    #[inline]
    pub(crate) fn grow(self, base: u64, power: u32) -> u64 {
        if self.mantissa == 1 << 63 {
            // A power of two, 2^0 to 2^1023: no rounding anywhere.
            return double(base, u64::from((self.exponent + 63) as u32) * u64::from(power));
        }
        self.grow_by_squaring(base, power)
    }

    #[inline(never)]
    fn grow_by_squaring(self, base: u64, power: u32) -> u64 {
        if base == 0 {
            return 0; // 0 × anything: the power below might be too large to say so
        }
        let mut result = Self::ONE;
        let mut square = self;
        let mut left = power;
        loop {
            if left & 1 == 1 {
                result = result.times(square);
            }
            left >>= 1;
            // Past 2^64 every base meets the end of time.
            if result.exponent > 0 || (left > 0 && square.exponent > 0) {
                return u64::MAX;
            }
            if left == 0 {
                return result.of(base);
            }
            square = square.times(square);
        }
    }

    /// `base × self`, rounded to nearest.
    fn of(self, base: u64) -> u64 {
        let product = u128::from(base) * u128::from(self.mantissa);
        let Ok(shift) = u32::try_from(-self.exponent) else { return u64::MAX };
        let half = 1u128.checked_shl(shift.saturating_sub(1)).filter(|_| shift > 0).unwrap_or(0);
        let rounded = product.saturating_add(half).checked_shr(shift).unwrap_or(0);
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }

    fn times(self, other: Self) -> Self {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        // Two numbers whose topmost bit is set: the product's is its first or its second.
        let up = 1 - (product >> 127) as i32;
        rounded(product << up, self.exponent.saturating_add(other.exponent).saturating_add(64 - up))
    }

    /// `number / 10^scale`, correctly rounded to 64 bits.
    fn ratio(number: u64, scale: u32) -> Self {
        let mut divisor = 1u128;
        for _ in 0..scale {
            divisor *= 10; // scale ≤ 19: below 2^64
        }
        // Shift the number up as far as it goes: the quotient then has at least 64 significant bits.
        let up = u128::from(number).leading_zeros();
        let quotient = (u128::from(number) << up) / divisor;
        normalized(quotient, -i32::try_from(up).unwrap_or(0))
    }

    /// The float's own bits: for values with more digits than 64 bits hold.
    fn from_bits(value: f64) -> Self {
        let (fraction, exponent) = libm::frexp(value); // fraction in [0.5, 1)
        Self { mantissa: libm::ldexp(fraction, 64) as u64, exponent: exponent - 64 }
    }
}

/// The leading 64 bits of `value × 2^exponent`, rounded to nearest.
fn normalized(value: u128, exponent: i32) -> Multiplier {
    let up = value.leading_zeros();
    rounded(value.checked_shl(up).unwrap_or(0), exponent.saturating_add(64 - up as i32))
}

/// The leading 64 bits of `value`, whose topmost bit is set, rounded to nearest; `exponent` is theirs.
fn rounded(value: u128, exponent: i32) -> Multiplier {
    let mantissa = (value >> 64) as u64;
    let round_up = value as u64 >= 1 << 63;
    match mantissa.checked_add(u64::from(round_up)) {
        Some(mantissa) => Multiplier { mantissa, exponent },
        None => Multiplier { mantissa: 1 << 63, exponent: exponent.saturating_add(1) },
    }
}

/// `base × 2^places`, at most `u64::MAX`.
#[inline]
fn double(base: u64, places: u64) -> u64 {
    if places < 64 {
        base.saturating_mul(1 << places)
    } else if base == 0 {
        0
    } else {
        u64::MAX
    }
}

/// Collects the digits of a printed float.
#[derive(Default)]
struct Digits {
    number: u64,
    scale: u32,
    past_point: bool,
    overflowed: bool,
}

impl fmt::Write for Digits {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match byte {
                b'.' => self.past_point = true,
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    match self.number.checked_mul(10).and_then(|number| number.checked_add(digit)) {
                        Some(number) => self.number = number,
                        None => self.overflowed = true,
                    }
                    self.scale += u32::from(self.past_point);
                }
                _ => self.overflowed = true,
            }
        }
        Ok(())
    }
}

impl Default for Multiplier {
    fn default() -> Self {
        Self::TWO
    }
}

impl fmt::Debug for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_f64(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(multiplier: f64, base: u64, powers: &[u32]) -> alloc::vec::Vec<u64> {
        let multiplier = Multiplier::new(multiplier).unwrap();
        powers.iter().map(|power| multiplier.grow(base, *power)).collect()
    }

    #[test]
    fn decimals_come_out_to_the_nanosecond() {
        assert_eq!(
            waits(1.5, 100_000_000, &[0, 1, 2, 8]),
            [100_000_000, 150_000_000, 225_000_000, 2_562_890_625]
        );
        assert_eq!(
            waits(1.1, 100_000_000, &[1, 2, 3, 8]),
            [110_000_000, 121_000_000, 133_100_000, 214_358_881]
        );
        assert_eq!(waits(1.25, 1_000_000_000, &[1, 4, 9]), [1_250_000_000, 2_441_406_250, 7_450_580_597]);
        // 10^9 × 1.1^100 = 13 780 612 339 822.27…: 100 roundings at 64 bits do not reach the nanosecond.
        assert_eq!(waits(1.1, 1_000_000_000, &[100]), [13_780_612_339_822]);
    }

    #[test]
    fn a_power_of_anything_saturates_without_a_loop() {
        for multiplier in [1.0001, 1.1, 1.5, 2.0, 3.0, 10.0, 1e300, f64::MAX] {
            assert_eq!(waits(multiplier, 1, &[u32::MAX]), [u64::MAX], "{multiplier}");
            assert_eq!(waits(multiplier, 0, &[0, 1, 1025, u32::MAX]), [0, 0, 0, 0], "{multiplier}");
        }
        assert_eq!(waits(1.0, 7, &[0, 1, u32::MAX]), [7, 7, 7]);
    }

    #[test]
    fn it_keeps_the_number_it_was_given() {
        for value in [1.0, 1.1, 1.25, 1.5, 2.0, 1.618033988749895, 3.0, 1e15, 1.0000000000000002, f64::MAX] {
            assert_eq!(Multiplier::new(value).unwrap().as_f64(), value);
        }
        // Halfway between two floats but for less than 2^-64.
        for value in [1.022395691790701, 1.91172488704554, 1.178173290616919] {
            assert_eq!(Multiplier::new(value).unwrap().as_f64(), value);
        }
        let mut dice = crate::Dice::new(9);
        for _ in 0..50_000 {
            let value = f64::from_bits(0x3ff0_0000_0000_0000 | dice.roll() >> 12); // from 1 to 2
            assert_eq!(Multiplier::new(value).unwrap().as_f64(), value);
        }
    }

    #[test]
    fn it_refuses_what_shrinks_or_is_no_number() {
        for value in [0.0, -2.0, 0.99, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Multiplier::new(value), None);
        }
    }
}
