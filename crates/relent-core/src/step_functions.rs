//! A `Retry` array of the Amazon States Language, evaluated as AWS Step Functions does.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::policy::refuse;
use crate::{
    Backoff, Call, Class, Classes, Decision, Jitter, Moment, Multiplier, Outcome, Policy, PolicyError,
    Schedule, Shared, Start, Timestamp,
};

/// The errors that a retrier or a catcher names (`ErrorEquals`).
///
/// Names are compared letter by letter. Three of the reserved ones stand for more than themselves (AWS Step Functions
/// developer guide, "Handling errors in Step Functions workflows", as of 2025):
///
/// | name | matches |
/// |---|---|
/// | `States.ALL` | every error but `States.DataLimitExceeded` and `States.Runtime` |
/// | `States.TaskFailed` | every error but timeouts and `States.Runtime` |
/// | `States.Timeout` | itself and `States.HeartbeatTimeout` |
///
/// `States.Runtime` is matched by nothing, not even by its own name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorNames {
    names: Vec<Box<str>>,
    all_takes_data_limit: bool,
}

impl ErrorNames {
    /// These names.
    pub fn new<N: Into<Box<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), all_takes_data_limit: false }
    }

    /// Whether `States.ALL` matches `States.DataLimitExceeded`, too. The guide says that it does not; executions of March
    /// 2024 that ran into the limit with the result of a Lambda function were caught by it. Default: false.
    #[must_use]
    pub fn all_takes_data_limit(self, takes: bool) -> Self {
        Self { all_takes_data_limit: takes, ..self }
    }

    /// The names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Whether `error` is among them.
    pub fn matches(&self, error: &str) -> bool {
        error != "States.Runtime" && self.iter().any(|name| name == error || self.stands_for(name, error))
    }

    fn stands_for(&self, name: &str, error: &str) -> bool {
        match name {
            "States.ALL" => self.all_takes_data_limit || error != "States.DataLimitExceeded",
            "States.TaskFailed" => !matches!(error, "States.Timeout" | "States.HeartbeatTimeout"),
            "States.Timeout" => error == "States.HeartbeatTimeout",
            _ => false,
        }
    }
}

/// One entry of a `Retry` array.
///
/// ```
/// use core::time::Duration;
/// use relent_core::{ErrorNames, Retrier};
///
/// let retrier = Retrier::new(ErrorNames::new(["Lambda.TooManyRequestsException"]))
///     .interval(Duration::from_secs(2))
///     .max_attempts(6)
///     .full_jitter(true);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Retrier {
    errors: ErrorNames,
    interval: Duration,
    max_attempts: u32,
    backoff_rate: Multiplier,
    max_delay: Option<Duration>,
    full_jitter: bool,
}

impl Retrier {
    /// For these errors, with the language's defaults: 3 retries after 1, 2 and 4 seconds, neither capped nor jittered.
    pub const fn new(errors: ErrorNames) -> Self {
        Self {
            errors,
            interval: Duration::from_secs(1),
            max_attempts: 3,
            backoff_rate: Multiplier::TWO,
            max_delay: None,
            full_jitter: false,
        }
    }

    /// The wait before the first retry (`IntervalSeconds`). Default: 1 s.
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// How many *retries* there are at most (`MaxAttempts`). 0: none, and no later retrier is asked either. Default: 3.
    #[must_use]
    pub fn max_attempts(self, retries: u32) -> Self {
        Self { max_attempts: retries, ..self }
    }

    /// By what each wait is longer than the one before (`BackoffRate`). Default: 2.
    #[must_use]
    pub fn backoff_rate(self, rate: Multiplier) -> Self {
        Self { backoff_rate: rate, ..self }
    }

    /// The longest wait (`MaxDelaySeconds`); it bounds the first one, too. Default: none.
    #[must_use]
    pub fn max_delay(self, delay: Duration) -> Self {
        Self { max_delay: Some(delay), ..self }
    }

    /// Whether a wait is drawn between zero and the scheduled one (`JitterStrategy` `FULL`). Default: false.
    #[must_use]
    pub fn full_jitter(self, jitter: bool) -> Self {
        Self { full_jitter: jitter, ..self }
    }

    /// The errors that it is for.
    pub fn errors(&self) -> &ErrorNames {
        &self.errors
    }

    /// How many retries there are at most.
    pub fn most_retries(&self) -> u32 {
        self.max_attempts
    }

    /// Its waits.
    pub fn backoff(&self) -> Backoff {
        let schedule = Schedule::Exponential { initial: self.interval, multiplier: self.backoff_rate };
        let backoff =
            Backoff::new(schedule).jitter(if self.full_jitter { Jitter::Full } else { Jitter::None });
        match self.max_delay {
            Some(delay) => backoff.cap(delay),
            None => backoff.uncapped(),
        }
    }

    /// What it asks for, as the policy of a call that meets no other errors.
    fn policy(&self, common: &Policy) -> Result<Policy, PolicyError> {
        let Some(attempts) = self.max_attempts.checked_add(1) else {
            return Err(refuse("MaxAttempts", "must be less than 4294967295"));
        };
        // Which errors are retried is said by name: a class keeps nothing from it that could be retried at all.
        let failures =
            Class::ALL.into_iter().filter(|class| !matches!(class, Class::Success | Class::Cancelled));
        common
            .to_builder()
            .max_attempts(attempts)
            .backoff(self.backoff())
            .retry_on(failures.collect::<Classes>())
            .build()
    }
}

/// The `Retry` array of one state.
///
/// The first retrier that names an error decides, even when it is exhausted; each counts its own errors. An array may
/// be of any length, which the rules of a [`Policy`] may not: so each retrier is a policy of its own, and what an
/// execution counts is one [`Call`] for each of them. All else is the one decision.
///
/// ```
/// use core::time::Duration;
/// use relent_core::{
///     Alone, Class, Decision, ErrorNames, Moment, Outcome, Reason, Retrier, StateExecution, StateRetry,
/// };
///
/// // The guide's example: 1 s, 2 s for the one, 5 s for the other.
/// let retry = StateRetry::new([
///     Retrier::new(ErrorNames::new(["ErrorA", "ErrorB"])).max_attempts(2),
///     Retrier::new(ErrorNames::new(["ErrorC"])).interval(Duration::from_secs(5)),
/// ])?;
/// let mut execution = StateExecution::new(None);
/// let mut next = |error| {
///     let failed = Outcome::of(Class::Transient);
///     execution.decide(&retry, &mut Alone, error, failed, Moment::timeless(0))
/// };
/// for (error, wait) in [("ErrorA", 1), ("ErrorB", 2), ("ErrorC", 5)] {
///     assert!(matches!(next(error), Decision::Retry { after, .. } if after == Duration::from_secs(wait)));
/// }
/// assert_eq!(next("ErrorB"), Decision::Stop { reason: Reason::AttemptsExhausted, after: None });
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StateRetry {
    /// Each with what it asks for, as a policy of its own.
    retriers: Vec<(Retrier, Policy)>,
    /// For the errors that none of them names.
    unnamed: Policy,
}

impl StateRetry {
    /// These retriers, in order.
    ///
    /// # Errors
    ///
    /// What cannot work about one of them.
    pub fn new(retriers: impl IntoIterator<Item = Retrier>) -> Result<Self, PolicyError> {
        Self::within(&Policy::default(), retriers)
    }

    /// The same within what `policy` says about the whole call: its deadline, attempt timeout, hints and idempotency.
    /// Attempts, backoff, classes and rules are the retriers' matter.
    ///
    /// # Errors
    ///
    /// What cannot work about one of them.
    pub fn within(policy: &Policy, retriers: impl IntoIterator<Item = Retrier>) -> Result<Self, PolicyError> {
        let common = Policy { rules: Vec::new(), ..policy.clone() };
        let retriers = retriers.into_iter().map(|retrier| {
            let policy = retrier.policy(&common)?;
            Ok((retrier, policy))
        });
        let retriers = retriers.collect::<Result<_, PolicyError>>()?;
        Ok(Self { retriers, unnamed: common.to_builder().retry_on(Classes::NONE).build()? })
    }

    /// The retriers, in order.
    pub fn retriers(&self) -> impl ExactSizeIterator<Item = &Retrier> {
        self.retriers.iter().map(|(retrier, _)| retrier)
    }

    /// The number of the retrier that decides about `error`: the first one that names it.
    pub fn retrier_for(&self, error: &str) -> Option<usize> {
        self.retriers().position(|retrier| retrier.errors.matches(error))
    }
}

impl Default for StateRetry {
    /// No retrier: no error is tried again.
    fn default() -> Self {
        let unnamed = Policy { retry_on: Classes::NONE, ..Policy::default() };
        Self { retriers: Vec::new(), unnamed }
    }
}

/// One execution of a state, as far as it has come. Leaving the state and coming back is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateExecution {
    began: Option<Timestamp>,
    /// What each retrier has seen; those beyond the last one that has seen anything are not there yet.
    calls: Vec<Call>,
    /// What none of them names.
    unnamed: Call,
}

impl StateExecution {
    /// An execution that begins now; `now` may be none where nothing limits its time.
    pub const fn new(now: Option<Timestamp>) -> Self {
        Self { began: now, calls: Vec::new(), unnamed: Call::new(now) }
    }

    /// An execution that began at `began` and in which each retrier has made so many retries, to be resumed. Those
    /// beyond the ones given have made none.
    pub fn resumed(began: Option<Timestamp>, retries: impl IntoIterator<Item = u32>) -> Self {
        let calls = retries.into_iter().map(|made| Call::after(began, made)).collect();
        Self { calls, ..Self::new(began) }
    }

    /// Whether an attempt may begin, as [`Call::admit`] says it.
    pub fn admit<S: Shared + ?Sized>(&self, retry: &StateRetry, shared: &mut S, moment: Moment) -> Start {
        self.unnamed.admit(&retry.unnamed, shared, moment)
    }

    /// Takes in with which error an attempt ended and says what to do next. The `outcome`'s class is for what calls
    /// share; whether it is retried is up to `error` alone.
    pub fn decide<S: Shared + ?Sized>(
        &mut self,
        retry: &StateRetry,
        shared: &mut S,
        error: &str,
        outcome: Outcome,
        moment: Moment,
    ) -> Decision {
        let index = retry.retrier_for(error);
        let named = index.and_then(|index| Some((self.counted_by(index)?, &retry.retriers.get(index)?.1)));
        match named {
            Some((call, policy)) => call.decide(policy, shared, outcome, moment),
            None => self.unnamed.decide(&retry.unnamed, shared, outcome, moment),
        }
    }

    /// How many errors each retrier has seen, in order: the retries that it has made, and 1 more once it is exhausted.
    /// Those beyond the last one that has seen anything are left out.
    pub fn seen(&self) -> impl Iterator<Item = u32> {
        self.calls.iter().map(Call::attempts)
    }

    /// How many attempts have ended with an error (`$$.State.RetryCount`, once the next one runs).
    pub fn failures(&self) -> u32 {
        self.calls.iter().chain([&self.unnamed]).map(Call::attempts).fold(0, u32::saturating_add)
    }

    fn counted_by(&mut self, index: usize) -> Option<&mut Call> {
        if self.calls.len() <= index {
            self.calls.resize(index.saturating_add(1), Call::new(self.began));
        }
        self.calls.get_mut(index)
    }
}
