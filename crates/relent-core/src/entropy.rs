//! Randomness as a value: named generators whose numbers are the same on every platform and in every version.

/// The random number for an attempt: a stateless hash of (seed, client, attempt).
///
/// Two policies that meet the same (seed, client, attempt) meet the same luck, whatever happened in between, and
/// drivers with the same seed wait the same. Three rounds of SplitMix64's finalizer (Steele, Lea, Flood, OOPSLA 2014).
#[inline]
pub const fn entropy(seed: u64, client: u64, attempt: u32) -> u64 {
    let client = mix(seed ^ mix(client.wrapping_add(GOLDEN)));
    mix(client.wrapping_add(GOLDEN.wrapping_mul(attempt as u64 + 1)))
}

/// A small generator for the numbers of one call: SplitMix64 (same source).
///
/// Not for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dice(u64);

impl Dice {
    /// A generator that starts at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
}

/// 2⁶⁴ divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The reference sequence for seed 1234567, as published with the C implementation.
        let mut dice = Dice::new(1_234_567);
        let rolls = [dice.roll(), dice.roll(), dice.roll(), dice.roll(), dice.roll()];
        assert_eq!(
            rolls,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn neighbours_do_not_resemble_each_other() {
        // Over seeds, clients and attempts that differ by one, about half of the bits flip.
        let mut flipped = 0;
        let mut pairs = 0;
        for i in 0..100 {
            let here = entropy(i, i, i as u32);
            for other in
                [entropy(i + 1, i, i as u32), entropy(i, i + 1, i as u32), entropy(i, i, i as u32 + 1)]
            {
                flipped += (here ^ other).count_ones();
                pairs += 1;
            }
        }
        let mean = f64::from(flipped) / f64::from(pairs);
        assert!((31.0..33.0).contains(&mean), "{mean}");
    }
}
