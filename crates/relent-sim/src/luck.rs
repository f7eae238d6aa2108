//! Chance: named generators, and laws for times that are drawn.

use std::sync::OnceLock;
use std::time::Duration;

use relent_core::{Dice, entropy};

/// The luck of one replication: every number is a hash of (seed, replication, client, attempt, purpose).
///
/// No generator is shared and none has a state, so that two policies meet the same luck whatever they did before
/// (their difference then has a small error), and so that nothing depends on the order in which threads run.
#[derive(Clone, Copy, Debug)]
pub struct Luck {
    seed: u64,
}

/// What a number is drawn for: draws for different purposes are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// How long messages travel.
    Network = 1,
    /// How long the server works, and whether it fails.
    Service = 2,
    /// When calls begin.
    Arrival = 3,
}

impl Luck {
    /// The luck of replication number `replication` under `seed`.
    pub const fn new(seed: u64, replication: u32) -> Self {
        Self { seed: entropy(seed, replication as u64, u32::MAX) }
    }

    /// What [`Call::decide`](relent_core::Call::decide) is given after attempt `attempt` of `client`.
    #[inline]
    pub const fn decision(self, client: u64, attempt: u32) -> u64 {
        entropy(self.seed, client, attempt)
    }

    /// A generator for one purpose in one attempt.
    #[inline]
    pub const fn dice(self, purpose: Purpose, client: u64, attempt: u32) -> Dice {
        let salt = (purpose as u64).wrapping_mul(0xd605_1d53_0e5b_0f11);
        Dice::new(entropy(self.seed ^ salt, client, attempt))
    }
}

/// A number in [0, 1).
#[inline]
pub(crate) fn unit(dice: &mut Dice) -> f64 {
    // 53 bits: what a float holds exactly.
    (dice.roll() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number from the exponential law with mean 1.
#[inline]
pub(crate) fn exponential(dice: &mut Dice) -> f64 {
    -libm::log(1.0 - unit(dice))
}

/// How a time is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Always this.
    Fixed(Duration),
    /// Evenly between two times.
    Uniform {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
    /// The exponential law: no memory, many short ones, a few long ones.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// The magnitude of a normal number.
    Normal {
        /// The mean.
        mean: Duration,
        /// The standard deviation.
        deviation: Duration,
    },
    /// The lognormal law, which latencies often follow: e^(ln median + sigma·Z).
    Lognormal {
        /// The median.
        median: Duration,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
}

impl Law {
    /// No time at all.
    pub const ZERO: Self = Self::Fixed(Duration::ZERO);

    /// Draws a time, in nanoseconds.
    #[inline]
    pub fn draw(&self, dice: &mut Dice) -> u64 {
        // Through 64 bits: a conversion from 128 is a call.
        let whole = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let nanos = |time: Duration| whole(time) as f64;
        match *self {
            Self::Fixed(time) => whole(time),
            Self::Uniform { from, to } => {
                (nanos(from) + (nanos(to) - nanos(from)).max(0.0) * unit(dice)) as u64
            }
            Self::Exponential { mean } => (nanos(mean) * exponential(dice)) as u64,
            Self::Normal { mean, deviation } => {
                libm::fabs(nanos(mean) + nanos(deviation) * Ziggurat::get().normal(dice)) as u64
            }
            Self::Lognormal { median, sigma } => {
                (nanos(median) * libm::exp(sigma * Ziggurat::get().normal(dice))) as u64
            }
        }
    }

    /// The mean, in seconds.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(time) => time.as_secs_f64(),
            Self::Uniform { from, to } => f64::midpoint(from.as_secs_f64(), to.as_secs_f64()),
            Self::Exponential { mean } | Self::Normal { mean, .. } => mean.as_secs_f64(),
            Self::Lognormal { median, sigma } => median.as_secs_f64() * libm::exp(sigma * sigma / 2.0),
        }
    }
}

impl From<Duration> for Law {
    fn from(time: Duration) -> Self {
        Self::Fixed(time)
    }
}

/// Normal numbers by the ziggurat method (Marsaglia, Tsang, J. Stat. Software 2000; the form without the correlation
/// between layer and position: Doornik 2005).
#[derive(Debug)]
pub(crate) struct Ziggurat {
    /// The right edge of each layer, from the widest; the first is the base's, tail included, as if it were a box.
    edges: [f64; LAYERS + 1],
    /// An edge as a part of the one before it: what lies below needs no second look.
    ratios: [f64; LAYERS],
}

const LAYERS: usize = 256;
/// Where the tail begins, and the area of each layer, for 256 layers (Marsaglia, Tsang 2000).
const TAIL: f64 = 3.654_152_885_361_009;
const AREA: f64 = 0.004_928_673_233_99;

impl Ziggurat {
    pub(crate) fn get() -> &'static Self {
        static TABLES: OnceLock<Ziggurat> = OnceLock::new();
        TABLES.get_or_init(Self::new)
    }

    fn new() -> Self {
        let density = |x: f64| libm::exp(-0.5 * x * x);
        let mut edge = AREA / density(TAIL);
        let mut edges = [0.0; LAYERS + 1];
        for (layer, slot) in edges.iter_mut().enumerate() {
            *slot = edge;
            edge = match layer {
                0 => TAIL,
                _ if layer + 1 < LAYERS => libm::sqrt(-2.0 * libm::log(AREA / edge + density(edge))),
                _ => 0.0,
            };
        }
        let mut ratios = [0.0; LAYERS];
        for (ratio, (outer, inner)) in ratios.iter_mut().zip(edges.iter().zip(edges.iter().skip(1))) {
            *ratio = inner / outer;
        }
        Self { edges, ratios }
    }

    #[inline]
    pub(crate) fn normal(&self, dice: &mut Dice) -> f64 {
        loop {
            let bits = dice.roll();
            let layer = (bits & 0xff) as usize;
            // The upper 53 bits, as a number in [−1, 1).
            let position = (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            let (Some(ratio), Some(edge)) = (self.ratios.get(layer), self.edges.get(layer)) else { continue };
            if libm::fabs(position) < *ratio {
                return position * edge;
            }
            if let Some(number) = self.outside(layer, position, dice) {
                return number;
            }
        }
    }

    #[cold]
    fn outside(&self, layer: usize, position: f64, dice: &mut Dice) -> Option<f64> {
        if layer == 0 {
            return Some(tail(position < 0.0, dice));
        }
        let (outer, inner) = (self.edges.get(layer)?, self.edges.get(layer + 1)?);
        let x = position * outer;
        let (low, high) =
            (libm::exp(-0.5 * (outer * outer - x * x)), libm::exp(-0.5 * (inner * inner - x * x)));
        (low + unit(dice) * (high - low) < 1.0).then_some(x)
    }
}

fn tail(negative: bool, dice: &mut Dice) -> f64 {
    loop {
        let (x, y) = (exponential(dice) / TAIL, exponential(dice));
        if 2.0 * y >= x * x {
            return if negative { -(TAIL + x) } else { TAIL + x };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_law_has_its_moments_and_its_tail() {
        let (mut dice, ziggurat) = (Dice::new(1), Ziggurat::get());
        let n = 2_000_000;
        let (mut sum, mut squares, mut fourth, mut beyond_2, mut beyond_4) = (0.0, 0.0, 0.0, 0, 0);
        for _ in 0..n {
            let x = ziggurat.normal(&mut dice);
            sum += x;
            squares += x * x;
            fourth += x * x * x * x;
            beyond_2 += u32::from(x.abs() > 2.0);
            beyond_4 += u32::from(x.abs() > 4.0);
        }
        let n = f64::from(n);
        assert!((sum / n).abs() < 4.0 / n.sqrt(), "{}", sum / n);
        assert!((squares / n - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "{}", squares / n);
        assert!((fourth / n - 3.0).abs() < 4.0 * (96.0 / n).sqrt(), "{}", fourth / n);
        // P(|Z| > 2) = 0.0455003, P(|Z| > 4) = 6.3342e-5 (any table of the normal law).
        for (count, probability) in [(beyond_2, 0.045_500_3), (beyond_4, 6.334_2e-5)] {
            let expected: f64 = n * probability;
            assert!((f64::from(count) - expected).abs() < 4.0 * expected.sqrt(), "{count} {expected}");
        }
    }

    #[test]
    fn laws_have_the_mean_they_say() {
        let ms = Duration::from_millis;
        let laws = [
            Law::Fixed(ms(7)),
            Law::Uniform { from: ms(10), to: ms(30) },
            Law::Exponential { mean: ms(5) },
            Law::Normal { mean: ms(10), deviation: ms(2) },
            Law::Lognormal { median: ms(20), sigma: 0.5 },
        ];
        for law in laws {
            let mut dice = Dice::new(9);
            let n = 200_000;
            let mean = (0..n).map(|_| law.draw(&mut dice) as f64).sum::<f64>() / f64::from(n) / 1e9;
            assert!((mean / law.mean() - 1.0).abs() < 0.02, "{law:?}: {mean} {}", law.mean());
        }
    }
}
