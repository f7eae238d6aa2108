//! What is measured, and how replications become one figure with its error.

/// One figure of the comparison table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Measure {
    /// Calls begun.
    Calls,
    /// Attempts made.
    Attempts,
    /// Attempts per call: what retries multiply the load by.
    Amplification,
    /// The most attempts in one bin, per second.
    Peak,
    /// From the end of the incident (or from the start, without one) until the last call that began before it has ended.
    Drain,
    /// Calls that succeeded, of those that ended.
    Success,
    /// The latency that half of the successful calls stay below, waits included.
    P50,
    /// The same for 99 %.
    P99,
    /// The same for 99.9 %.
    P999,
    /// Calls that succeeded per second before the incident.
    GoodputBefore,
    /// The same while it lasts.
    GoodputDuring,
    /// The same from its end on.
    GoodputAfter,
    /// The same in the last tenth of the time.
    GoodputAtEnd,
    /// From the end of the incident until goodput is back at nine tenths of what it was, and stays there.
    Recovery,
    /// The part of the servers' work whose result nobody took: late, or for a call that failed.
    Wasted,
    /// Jain's index over the clients, from 1/n (one has all) to 1 (all alike): over their successes, or where each
    /// makes one call, over the times until it was served.
    Fairness,
    /// The longest time that a call took to succeed.
    Slowest,
    /// The most calls open at one time: what the clients must hold.
    PeakOpen,
    /// How long a call that fails takes until its caller knows, in the mean.
    Knows,
    /// Attempts and seconds of work at their prices.
    Cost,
    /// From the start until the last call has ended.
    Completion,
    /// Fully used time of a shared medium (Ethernet).
    Efficiency,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A factor.
    Times,
    /// A part of a whole, 0 to 1.
    Share,
    /// Seconds.
    Seconds,
    /// A number per second.
    PerSecond,
}

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
    /// Neither.
    Neither,
}

impl Measure {
    /// How many there are.
    pub const COUNT: usize = 22;

    /// All, in the order of the table.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Calls,
        Self::Attempts,
        Self::Amplification,
        Self::Peak,
        Self::Drain,
        Self::Success,
        Self::P50,
        Self::P99,
        Self::P999,
        Self::GoodputBefore,
        Self::GoodputDuring,
        Self::GoodputAfter,
        Self::GoodputAtEnd,
        Self::Recovery,
        Self::Wasted,
        Self::Fairness,
        Self::Slowest,
        Self::PeakOpen,
        Self::Knows,
        Self::Cost,
        Self::Completion,
        Self::Efficiency,
    ];

    /// Its stable word, in JSON and CSV.
    pub const fn as_str(self) -> &'static str {
        self.facts().0
    }

    /// Its heading in a table.
    pub const fn title(self) -> &'static str {
        self.facts().1
    }

    /// What it is counted in.
    pub const fn unit(self) -> Unit {
        self.facts().2
    }

    /// Which of two is better.
    pub const fn better(self) -> Better {
        self.facts().3
    }

    const fn facts(self) -> (&'static str, &'static str, Unit, Better) {
        use Better::{Less, More, Neither};
        use Unit::{Count, PerSecond, Seconds, Share, Times};
        match self {
            Self::Calls => ("calls", "calls", Count, Neither),
            Self::Attempts => ("attempts", "attempts", Count, Less),
            Self::Amplification => ("amplification", "amplification", Times, Less),
            Self::Peak => ("peak_per_s", "peak load", PerSecond, Less),
            Self::Drain => ("drain_s", "time to drain", Seconds, Less),
            Self::Success => ("success", "success", Share, More),
            Self::P50 => ("p50_s", "p50", Seconds, Less),
            Self::P99 => ("p99_s", "p99", Seconds, Less),
            Self::P999 => ("p999_s", "p99.9", Seconds, Less),
            Self::GoodputBefore => ("goodput_before_per_s", "goodput before", PerSecond, Neither),
            Self::GoodputDuring => ("goodput_during_per_s", "goodput during", PerSecond, More),
            Self::GoodputAfter => ("goodput_after_per_s", "goodput after", PerSecond, More),
            Self::GoodputAtEnd => ("goodput_at_end_per_s", "goodput at end", PerSecond, More),
            Self::Recovery => ("recovery_s", "time to recover", Seconds, Less),
            Self::Wasted => ("wasted", "wasted work", Share, Less),
            Self::Fairness => ("fairness", "fairness (Jain)", Share, More),
            Self::Slowest => ("slowest_s", "slowest", Seconds, Less),
            Self::PeakOpen => ("peak_open", "peak open calls", Count, Less),
            Self::Knows => ("knows_s", "failure known after", Seconds, Less),
            Self::Cost => ("cost", "cost", Count, Less),
            Self::Completion => ("completion_s", "all done after", Seconds, Less),
            Self::Efficiency => ("efficiency", "efficiency", Share, More),
        }
    }
}

/// A figure of one replication.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value {
    /// It has no meaning here.
    #[default]
    Nothing,
    /// It did not happen within the time that was simulated.
    Never,
    /// This much.
    Number(f64),
}

/// The figures of one replication.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Values([Value; Measure::COUNT]);

impl Values {
    /// One of them.
    pub fn get(&self, measure: Measure) -> Value {
        self.0.get(measure as usize).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, measure: Measure, value: Value) {
        if let Some(slot) = self.0.get_mut(measure as usize) {
            *slot = value;
        }
    }

    pub(crate) fn number(&mut self, measure: Measure, value: f64) {
        self.set(measure, Value::Number(value));
    }
}

/// The mean over replications and its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean over those replications in which it happened.
    pub mean: f64,
    /// The standard error of the mean; zero with fewer than two numbers.
    pub error: f64,
    /// In how many replications it happened.
    pub samples: u32,
    /// In how many it did not: those that never recovered, say.
    pub never: u32,
}

impl Estimate {
    /// From the values of the replications, in their order. `None` where it has no meaning.
    pub fn of(values: impl Iterator<Item = Value>) -> Option<Self> {
        // Welford's recurrence: the squares of large means do not swallow small variances.
        let (mut estimate, mut squares) = (Self::default(), 0.0);
        for value in values {
            match value {
                Value::Nothing => {}
                Value::Never => estimate.never += 1,
                Value::Number(number) => {
                    estimate.samples += 1;
                    let delta = number - estimate.mean;
                    estimate.mean += delta / f64::from(estimate.samples);
                    squares += delta * (number - estimate.mean);
                }
            }
        }
        if estimate.samples > 1 {
            let n = f64::from(estimate.samples);
            estimate.error = libm::sqrt(squares / (n - 1.0) / n);
        }
        (estimate.samples + estimate.never > 0).then_some(estimate)
    }

    /// Whether it never happened in most of the replications.
    pub const fn mostly_never(&self) -> bool {
        self.never > self.samples
    }

    /// How many combined standard errors this lies above `other`.
    pub fn above(&self, other: &Self) -> f64 {
        let combined = libm::sqrt(self.error * self.error + other.error * other.error);
        (self.mean - other.mean) / combined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_error_are_those_of_the_textbook() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].map(Value::Number);
        let estimate = Estimate::of(values.into_iter().chain([Value::Never, Value::Nothing])).unwrap();
        assert_eq!((estimate.mean, estimate.samples, estimate.never), (5.0, 8, 1));
        // The sample variance is 32/7.
        assert!((estimate.error - (32.0f64 / 7.0 / 8.0).sqrt()).abs() < 1e-12);
        assert_eq!(Estimate::of([Value::Nothing].into_iter()), None);
    }

    #[test]
    fn every_measure_has_its_place() {
        for (index, measure) in Measure::ALL.into_iter().enumerate() {
            assert_eq!(measure as usize, index);
        }
    }
}
