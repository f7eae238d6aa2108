//! Adaptive throttling: a client that is refused much refuses much by itself.

use core::time::Duration;

use crate::jitter::unit;
use crate::policy::refuse;
use crate::slots::{Slots, Tally};
use crate::{Classes, Outcome, PolicyError, Timestamp};

/// What a throttle is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThrottlePolicy {
    /// What share it rejects.
    pub curve: ThrottleCurve,
    /// How long outcomes count.
    pub window: Duration,
    /// The largest share that it rejects.
    pub max_rejection: f64,
    /// With fewer requests in the window it rejects none.
    pub min_requests: u32,
    /// What counts as rejected by the target.
    pub rejected: Classes,
}

/// What share of its requests a throttle rejects, of which so many were made and so many accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ThrottleCurve {
    /// (requests − `k` · accepted) / (requests + 1), to the power of 1 / `aggression`.
    Excess {
        /// How many times as many requests as are accepted are let through, at least 1.
        k: f64,
        /// How steep it is, above 0.
        aggression: f64,
    },
    /// 1 − (accepted / requests) / `threshold`.
    Shortfall {
        /// The ratio of accepted requests above which none is rejected.
        threshold: f64,
    },
}

impl ThrottlePolicy {
    /// Lets `k` times as many requests through as are accepted (SRE book, chapter 21: 2, over two minutes).
    pub const fn sre(k: f64) -> Self {
        Self {
            curve: ThrottleCurve::Excess { k, aggression: 1.0 },
            window: Duration::from_secs(120),
            max_rejection: 1.0,
            min_requests: 0,
            rejected: Classes::RETRYABLE,
        }
    }

    /// Envoy's admission control: rejects where less than `threshold` (theirs: 0.95) is accepted, at most 0.8, over
    /// 30 s (`admission_control.proto`).
    pub const fn envoy(threshold: f64) -> Self {
        Self { window: Duration::from_secs(30), max_rejection: 0.8, ..Self::sre(1.0 / threshold) }
    }

    /// Finagle's `NackAdmissionFilter`: rejects where less than `threshold` (theirs: 0.5) is accepted, in proportion to
    /// what is missing, at most 0.75. Over a window of two minutes, where theirs is an average that fades over as long.
    pub const fn finagle(threshold: f64) -> Self {
        Self {
            curve: ThrottleCurve::Shortfall { threshold },
            max_rejection: 0.75,
            min_requests: 600,
            ..Self::sre(1.0)
        }
    }

    /// How steep it is, above 0: 1 is straight, larger values reject more, earlier (Envoy's `aggression`). Default: 1.
    /// Has an effect on the first two forms.
    #[must_use]
    pub const fn aggression(self, aggression: f64) -> Self {
        let curve = match self.curve {
            ThrottleCurve::Excess { k, .. } => ThrottleCurve::Excess { k, aggression },
            curve @ ThrottleCurve::Shortfall { .. } => curve,
        };
        Self { curve, ..self }
    }

    /// How long outcomes count. Default: 2 min, or what the system that it follows has.
    #[must_use]
    pub const fn window(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// The largest share that it rejects, so that it notices when the target is back. Default: 1, or theirs.
    #[must_use]
    pub const fn max_rejection(self, share: f64) -> Self {
        Self { max_rejection: share, ..self }
    }

    /// With fewer requests than this in the window it rejects none. Default: 0, or theirs.
    #[must_use]
    pub const fn min_requests(self, requests: u32) -> Self {
        Self { min_requests: requests, ..self }
    }

    /// What counts as rejected by the target; all else that says something was accepted. Default:
    /// [`Classes::RETRYABLE`].
    #[must_use]
    pub fn rejected(self, classes: impl Into<Classes>) -> Self {
        Self { rejected: classes.into(), ..self }
    }

    /// The share that is rejected after `requests` of which `accepted` were accepted, from 0 to 1.
    pub fn rejection(&self, requests: u64, accepted: u64) -> f64 {
        if requests < u64::from(self.min_requests) || requests == 0 {
            return 0.0;
        }
        let (requests, accepted) = (requests as f64, accepted as f64);
        let share = match self.curve {
            ThrottleCurve::Excess { k, aggression } => {
                let excess = (requests - k * accepted) / (requests + 1.0);
                if excess <= 0.0 { 0.0 } else { libm::pow(excess, 1.0 / aggression) }
            }
            ThrottleCurve::Shortfall { threshold } => 1.0 - accepted / requests / threshold,
        };
        share.clamp(0.0, self.max_rejection)
    }

    /// Looks whether it can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        match self.curve {
            ThrottleCurve::Excess { k, .. } if !(k.is_finite() && k >= 1.0) => {
                return Err(refuse("k", "must be a finite number of at least 1"));
            }
            ThrottleCurve::Excess { aggression, .. } if !(aggression.is_finite() && aggression > 0.0) => {
                return Err(refuse("aggression", "must be a finite number above 0"));
            }
            ThrottleCurve::Shortfall { threshold } if !(threshold > 0.0 && threshold <= 1.0) => {
                return Err(refuse("threshold", "must be above 0 and at most 1"));
            }
            _ => {}
        }
        if !(self.max_rejection > 0.0 && self.max_rejection <= 1.0) {
            return Err(refuse("max_rejection", "must be above 0 and at most 1"));
        }
        if self.window.is_zero() {
            return Err(refuse("window", "holds no request"));
        }
        Ok(())
    }
}

/// A throttle's state. Requests that it rejects count as requests: that is how it knows how much is asked for.
#[derive(Clone, Debug)]
pub struct Throttle {
    policy: ThrottlePolicy,
    traffic: Slots<Traffic, 10>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    requests: u64,
    accepted: u64,
}

impl Tally for Traffic {
    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.accepted = self.accepted.saturating_add(other.accepted);
    }

    fn subtract(&mut self, other: &Self) {
        self.requests = self.requests.saturating_sub(other.requests);
        self.accepted = self.accepted.saturating_sub(other.accepted);
    }
}

impl Throttle {
    /// A throttle that has seen nothing.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy, by the key of a policy file.
    pub fn new(policy: ThrottlePolicy) -> Result<Self, PolicyError> {
        policy.check()?;
        Ok(Self { traffic: Slots::new(policy.window), policy })
    }

    /// Whether a request may be made. Counts it in any case.
    #[inline]
    #[must_use]
    pub fn admit(&mut self, now: Timestamp, entropy: u64) -> bool {
        let rejection = self.rejection(now);
        self.traffic.add(&Traffic { requests: 1, accepted: 0 });
        unit(entropy) >= rejection
    }

    /// Takes in how a request that was admitted ended. One that says nothing (`ignored`, `cancelled`) is taken for
    /// accepted: it was not the target that refused it.
    #[inline]
    pub fn settle(&mut self, outcome: &Outcome, now: Timestamp) {
        self.traffic.advance(now.as_nanos());
        if !self.policy.rejected.contains(outcome.class) {
            self.traffic.add(&Traffic { requests: 0, accepted: 1 });
        }
    }

    /// The share of requests that it rejects now.
    pub fn rejection(&mut self, now: Timestamp) -> f64 {
        self.traffic.advance(now.as_nanos());
        let Traffic { requests, accepted } = *self.traffic.total();
        self.policy.rejection(requests, accepted)
    }

    /// What it is to be.
    pub const fn policy(&self) -> &ThrottlePolicy {
        &self.policy
    }
}
