//! Built-in strategies, to compare policies with: `strategy:full` and its sisters.

use std::time::Duration;

use relent_core::{Bound, Jitter, Policy, PolicyBuilder, PolicyError};

/// The numbers that the built-in strategies share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strategies {
    /// The first wait.
    pub initial: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// Attempts, the first included; `None`: unlimited.
    pub attempts: Option<u32>,
    /// The end of each attempt.
    pub attempt_timeout: Option<Duration>,
}

impl Default for Strategies {
    /// 100 ms up to 20 s, as the core's own defaults, and as many attempts as it takes.
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(100),
            cap: Duration::from_secs(20),
            attempts: None,
            attempt_timeout: None,
        }
    }
}

/// The strategies' names, without the prefix, and what each does.
pub const STRATEGIES: [(&str, &str); 10] = [
    ("no-retry", "one attempt"),
    ("none", "again at once, without any wait"),
    ("fixed", "the first wait, each time"),
    ("linear", "1, 2, 3 … times the first wait"),
    ("exponential", "doubling, without jitter"),
    ("proportional", "doubling, ± 20 %"),
    ("equal", "doubling, from half of the wait to all of it"),
    ("full", "doubling, from nothing to all of the wait"),
    (
        "decorrelated",
        "from half of the first wait to three times the last one, clamped to the cap (AWS 2015)",
    ),
    ("decorrelated_v2", "Polly's smooth form of it"),
];

/// What goes before a built-in strategy's name.
pub const PREFIX: &str = "strategy:";

impl Strategies {
    /// The strategy `name`, with or without its prefix; `None`: there is none of that name.
    ///
    /// # Errors
    ///
    /// What the core refuses: a cap below the first wait, zero attempts.
    pub fn policy(&self, name: &str) -> Option<Result<Policy, PolicyError>> {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        let doubling = Policy::exponential(self.initial);
        let builder = match name {
            "no-retry" => return Some(self.limits(Policy::never().to_builder()).max_attempts(1).build()),
            "none" => {
                return Some(self.limits(Policy::constant(Duration::ZERO)).jitter(Jitter::None).build());
            }
            "fixed" => Policy::constant(self.initial).jitter(Jitter::None),
            "linear" => Policy::linear(self.initial, self.initial).jitter(Jitter::None),
            "exponential" => doubling.jitter(Jitter::None),
            "proportional" => doubling.jitter(Jitter::Proportional { factor: 0.2 }),
            "equal" => doubling.jitter(Jitter::Equal),
            "full" => doubling.jitter(Jitter::Full),
            // U(b, 3b) has the mean 2b: with half of the first wait for b, the first retries wait alike in the mean.
            "decorrelated" => {
                Policy::exponential(self.initial / 2).jitter(Jitter::Decorrelated).bound(Bound::Sample)
            }
            "decorrelated_v2" => doubling.jitter(Jitter::DecorrelatedV2),
            _ => return None,
        };
        Some(self.limits(builder.cap(self.cap)).build())
    }

    fn limits(&self, builder: PolicyBuilder) -> PolicyBuilder {
        let builder = match self.attempts {
            Some(attempts) => builder.max_attempts(attempts),
            None => builder.unlimited_attempts(),
        };
        match self.attempt_timeout {
            Some(timeout) => builder.attempt_timeout(timeout),
            None => builder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_policy() {
        for (name, _) in STRATEGIES {
            let policy = Strategies::default().policy(&format!("{PREFIX}{name}")).unwrap().unwrap();
            assert_eq!(policy.max_attempts(), (name == "no-retry").then_some(1), "{name}");
        }
        assert!(Strategies::default().policy("strategy:ful").is_none());
    }
}
