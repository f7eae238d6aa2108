//! When clients call.

use std::time::Duration;

use crate::luck::Law;

/// When clients call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Each client thinks, calls, waits for the end of the call, thinks again.
    Closed {
        /// How long it thinks.
        think: Law,
    },
    /// Each client wants to call at random moments, so many per second on average, but makes one call at a time: the
    /// next begins when its moment has come and the last one has ended.
    Paced {
        /// Calls per second and client.
        rate: f64,
    },
    /// Calls come whether or not others have ended, from a client drawn at random.
    Open {
        /// How many per second, all clients together, over time.
        rate: Profile,
        /// Whether at random moments (Poisson) or evenly spaced.
        random: bool,
    },
    /// Each client makes one call.
    Burst {
        /// When the first one does.
        at: Duration,
        /// Within what time all do, each at a random moment.
        within: Duration,
    },
    /// Each client calls once per period.
    Cron {
        /// The period.
        every: Duration,
        /// Within what time after the full period, each at a random moment; zero: all at the same.
        within: Duration,
    },
    /// Each client has a connection from the start, and calls to connect again when it has lost it.
    Listen {
        /// How long a connection lasts; `None`: until the service is in trouble.
        lifetime: Option<Law>,
        /// How long after the loss the client knows.
        notice: Law,
    },
}

impl Arrivals {
    pub(crate) fn expected(&self, count: u32, horizon: f64) -> f64 {
        let count = f64::from(count);
        match self {
            Self::Closed { think } => count * horizon / think.mean().max(1e-3),
            Self::Paced { rate } => count * rate * horizon,
            Self::Open { rate, .. } => rate.total(horizon),
            Self::Burst { .. } => count,
            Self::Cron { every, .. } => count * (horizon / every.as_secs_f64().max(1e-9) + 1.0),
            Self::Listen { lifetime, .. } => {
                let again = lifetime.map_or(0.0, |law| horizon / law.mean().max(1e-3));
                count * (2.0 + again)
            }
        }
    }
}

/// A rate over time: straight lines between points, constant before the first and after the last. Two points of one
/// time make a jump.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile(pub Vec<(Duration, f64)>);

impl Profile {
    /// Always this rate.
    pub fn constant(rate: f64) -> Self {
        Self(vec![(Duration::ZERO, rate)])
    }

    /// A rate that jumps to another for a time.
    pub fn spike(rate: f64, to: f64, at: Duration, lasts: Duration) -> Self {
        let end = at.saturating_add(lasts);
        Self(vec![(at, rate), (at, to), (end, to), (end, rate)])
    }

    /// Pieces of the profile: from, to (seconds), rate at either end.
    fn pieces(&self) -> impl Iterator<Item = (f64, f64, f64, f64)> {
        let first = self.0.first().map(|(time, rate)| (0.0, time.as_secs_f64(), *rate, *rate));
        let last = self.0.last().map(|(time, rate)| (time.as_secs_f64(), f64::INFINITY, *rate, *rate));
        let between = self
            .0
            .iter()
            .zip(self.0.iter().skip(1))
            .map(|((from, rate), (to, then))| (from.as_secs_f64(), to.as_secs_f64(), *rate, *then));
        // A jump takes no time.
        first.into_iter().chain(between).chain(last).filter(|(from, to, ..)| to > from)
    }

    /// How many calls come up to `horizon`.
    pub(crate) fn total(&self, horizon: f64) -> f64 {
        let piece = |(from, to, rate, then): (f64, f64, f64, f64)| {
            let end = to.min(horizon);
            if end <= from {
                return 0.0;
            }
            let slope = if to.is_finite() { (then - rate) / (to - from) } else { 0.0 };
            (end - from) * (rate + slope * (end - from) / 2.0)
        };
        self.pieces().map(piece).sum()
    }

    /// The time in seconds after `now` by which `calls` more have come; `None`: they never do.
    pub(crate) fn after(&self, now: f64, mut calls: f64) -> Option<f64> {
        for (from, to, rate, then) in self.pieces() {
            if to <= now {
                continue;
            }
            let start = now.max(from);
            if to.is_infinite() {
                return (rate > 0.0).then(|| start + calls / rate);
            }
            let slope = (then - rate) / (to - from);
            let here = rate + slope * (start - from);
            let area = (to - start) * f64::midpoint(here, then);
            if area < calls {
                calls -= area;
                continue;
            }
            // calls = here·x + slope·x²/2, in the form that does not cancel.
            let root = libm::sqrt((here * here + 2.0 * slope * calls).max(0.0));
            return Some(start + 2.0 * calls / (here + root));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_of_the_integral_is_its_inverse() {
        let at = Duration::from_secs;
        let ramp = Profile(vec![(at(0), 40.0), (at(25), 80.0), (at(75), 0.0)]);
        assert_eq!(ramp.total(25.0), 1500.0);
        assert_eq!(ramp.total(100.0), 3500.0);
        let spike = Profile::spike(40.0, 80.0, at(20), at(5));
        assert_eq!(spike.total(80.0), 40.0 * 80.0 + 40.0 * 5.0);
        for profile in [ramp, spike, Profile::constant(3.0)] {
            let mut now = 0.0;
            for call in 1..3000 {
                now = profile.after(now, 1.0).unwrap();
                let total = profile.total(now);
                assert!((total - f64::from(call)).abs() < 1e-6, "{profile:?} {call} {total}");
            }
        }
        assert_eq!(Profile(vec![(at(0), 40.0), (at(1), 0.0)]).after(0.0, 21.0), None);
    }
}
