//! What is compared: a policy with what its calls share. Built-in ones: `strategy:full` and its sisters.

use std::time::Duration;

use relent_core::{
    Bound, BreakerPolicy, CommonPolicy, Jitter, Policy, PolicyBuilder, PolicyError, Ratio, TokenBucket,
};

/// A policy, what its calls share, and who shares it.
///
/// ```
/// use relent_core::{CommonPolicy, Policy, Ratio, TokenBucket};
/// use relent_sim::{Measure, Scope, Simulation, Strategy, built_in};
///
/// let retry = Policy::constant(std::time::Duration::ZERO).max_attempts(4).build()?;
/// let tenth = (TokenBucket::new(10).per_success(100).into(), Ratio::ZERO);
/// let budget = CommonPolicy { budgets: vec![tenth], ..CommonPolicy::default() };
/// let metastable = built_in("metastable", &[("rate", "200"), ("horizon", "120s"), ("replications", "1")])?;
/// let comparison = Simulation::new(metastable)
///     .contender("alone", retry.clone())
///     .contender("budget", Strategy::from(retry).sharing(budget).scope(Scope::Service))
///     .run()?;
/// let end = |report: usize| comparison.reports[report].mean(Measure::GoodputAtEnd);
/// assert!(end(0) < Some(10.0) && end(1) > Some(180.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// What each call does.
    pub policy: Policy,
    /// What calls share.
    pub shared: CommonPolicy,
    /// Who shares it.
    pub scope: Scope,
    /// Whether each shard of a service has a state of its own, or the service one for all.
    pub per_shard: bool,
}

/// Who shares one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The calls that one client, or one calling service, makes to one service: a process of its own, as `relent` has it.
    #[default]
    Caller,
    /// All calls to one service, whoever makes them: threads of one process, or a proxy that all go through.
    Service,
    /// All calls under this strategy, whatever they are to.
    All,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::Caller, Self::Service, Self::All];

    /// The scope's word in a scenario file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Service => "service",
            Self::All => "all",
        }
    }
}

impl Strategy {
    /// What its calls share. Default: nothing.
    #[must_use]
    pub fn sharing(self, shared: CommonPolicy) -> Self {
        Self { shared, ..self }
    }

    /// Who shares it. Default: [`Scope::Caller`].
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// A state for each shard of a service. Default: one for the service.
    #[must_use]
    pub fn per_shard(self) -> Self {
        Self { per_shard: true, ..self }
    }

    /// Whether its calls share anything, or have attempts beside each other.
    pub fn shares(&self) -> bool {
        self.shared != CommonPolicy::default()
    }
}

impl From<Policy> for Strategy {
    /// Calls that share nothing.
    fn from(policy: Policy) -> Self {
        Self { policy, shared: CommonPolicy::default(), scope: Scope::default(), per_shard: false }
    }
}

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
pub const STRATEGIES: [(&str, &str); 12] = [
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
    ("budget", "as full, and of a client's retries a tenth as many as its successes (a bucket of 10 tokens)"),
    ("breaker", "as full, and each client behind a circuit breaker (half of the calls of 10 s failed)"),
];

/// What goes before a built-in strategy's name.
pub const PREFIX: &str = "strategy:";

impl Strategies {
    /// The strategy `name`, with or without its prefix; `None`: there is none of that name.
    ///
    /// # Errors
    ///
    /// What the core refuses: a cap below the first wait, zero attempts.
    pub fn strategy(&self, name: &str) -> Option<Result<Strategy, PolicyError>> {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        let shared = match name {
            "budget" => {
                let tenth = TokenBucket::new(10).per_success(100);
                CommonPolicy { budgets: vec![(tenth.into(), Ratio::ZERO)], ..CommonPolicy::default() }
            }
            "breaker" => {
                let breaker = BreakerPolicy::time(Duration::from_secs(10));
                CommonPolicy { breaker: Some(breaker), ..CommonPolicy::default() }
            }
            _ => CommonPolicy::default(),
        };
        Some(self.policy(name)?.map(|policy| Strategy::from(policy).sharing(shared)))
    }

    /// What each call of the strategy `name` does; as [`strategy`](Self::strategy).
    ///
    /// # Errors
    ///
    /// What the core refuses.
    pub fn policy(&self, name: &str) -> Option<Result<Policy, PolicyError>> {
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
            "full" | "budget" | "breaker" => doubling.jitter(Jitter::Full),
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
            let strategy = Strategies::default().strategy(&format!("{PREFIX}{name}")).unwrap().unwrap();
            assert_eq!(strategy.policy.max_attempts(), (name == "no-retry").then_some(1), "{name}");
            assert_eq!(strategy.shares(), ["budget", "breaker"].contains(&name), "{name}");
        }
        assert!(Strategies::default().strategy("strategy:ful").is_none());
    }
}
