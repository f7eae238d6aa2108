//! What was asked for: the policy, its builder and what a builder refuses.

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::rule::MAX_RULE_ATTEMPTS;
use crate::time::nanos;
use crate::{
    Backoff, Bound, Class, Classes, First, HintMode, HintPolicy, Jitter, MAX_RULES, Multiplier, Outcome,
    Priority, Reason, Repeat, Rule, RuleId, Schedule, Stage,
};

/// What was asked for: limits, schedule, what to retry. Immutable, valid, and meant to be shared.
///
/// Built by [`Policy::exponential`] and its sisters, or read from a policy file by `relent-config`.
///
/// | part | default | why |
/// |---|---|---|
/// | `max_attempts` | 4 | three retries ride out a blip; each further one mostly adds load |
/// | backoff | exponential, 100 ms × 2, cap 20 s | short enough for a blip, long enough not to be one |
/// | jitter | full | the least load on what is recovering |
/// | `deadline`, `attempt_timeout` | none | only the caller knows them |
/// | hint | `minimum`, up to 60 s, then abort; spread 0.1 | never earlier than asked, never in step |
/// | `retry_on` | `transient`, `throttled`, `timeout`, `not_sent` | what another try can help |
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) on_deadline: OnDeadline,
    pub(crate) on_budget: OnBudget,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) backoff: Backoff,
    /// Of calls of high priority, if they have another one.
    pub(crate) high_backoff: Option<Backoff>,
    pub(crate) hint: HintPolicy,
    pub(crate) retry_on: Classes,
    pub(crate) rules: Vec<Rule>,
    pub(crate) require_idempotency: bool,
    pub(crate) seed: Option<u64>,
    pub(crate) needs_clock: bool,
    pub(crate) begins_plainly: bool,
}

/// The end of a whole call, waits included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deadline {
    /// Time from the start of the call.
    pub total: Duration,
    /// What is kept back at the end for the caller's own work: attempts end and waits must fit before `total − reserve`.
    pub reserve: Duration,
}

impl Deadline {
    /// What the call itself may use.
    pub const fn usable(&self) -> Duration {
        self.total.saturating_sub(self.reserve)
    }
}

impl From<Duration> for Deadline {
    fn from(total: Duration) -> Self {
        Self { total, reserve: Duration::ZERO }
    }
}

/// What happens with a wait that would reach past the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDeadline {
    /// The call ends at once: a wait for an attempt that cannot happen helps nobody.
    #[default]
    Stop,
    /// A scheduled wait is cut to half of what remains, so that one more attempt fits; not below the backoff's floor or
    /// a tenth of its first wait, so that the attempts before the deadline do not become a storm, nor below what a hint
    /// asked for. A hint never is cut.
    Fit,
}

/// What happens when a budget refuses a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnBudget {
    /// The call ends at once.
    #[default]
    Stop,
    /// The call waits as long as it would have before the retry, then ends: for callers that ask again at once whatever
    /// they are told, as those do who poll a queue (AWS SDKs since 2026, operations that poll).
    Wait,
}

const DEFAULT_ATTEMPTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);

impl Policy {
    /// A policy that waits `initial`, doubling. See the table above for the rest.
    pub fn exponential(initial: Duration) -> PolicyBuilder {
        PolicyBuilder::new(Schedule::exponential(initial))
    }

    /// A policy that waits the same time before each retry, before jitter (full by default).
    pub fn constant(wait: Duration) -> PolicyBuilder {
        PolicyBuilder::new(Schedule::Constant { initial: wait })
    }

    /// A policy whose waits grow by `step`.
    pub fn linear(initial: Duration, step: Duration) -> PolicyBuilder {
        PolicyBuilder::new(Schedule::Linear { initial, step })
    }

    /// A policy whose waits are `initial` × 1, 1, 2, 3, 5 …
    pub fn fibonacci(initial: Duration) -> PolicyBuilder {
        PolicyBuilder::new(Schedule::Fibonacci { initial })
    }

    /// A policy with these waits, before jitter (full by default); the last one repeats.
    pub fn list(waits: impl IntoIterator<Item = Duration>) -> PolicyBuilder {
        PolicyBuilder::new(Schedule::List(waits.into_iter().collect()))
    }

    /// A policy of stages by elapsed time.
    pub fn stages(stages: impl IntoIterator<Item = Stage>) -> PolicyBuilder {
        PolicyBuilder::new(Schedule::Stages(stages.into_iter().collect()))
    }

    /// A policy that waits as Ethernet does, in slots.
    pub fn csma(slot: Duration) -> PolicyBuilder {
        PolicyBuilder::new(Schedule::Csma { slot, max_exponent: 10 })
    }

    /// A policy with any schedule.
    pub fn with_schedule(schedule: Schedule) -> PolicyBuilder {
        PolicyBuilder::new(schedule)
    }

    /// One attempt and no retry.
    pub fn never() -> Self {
        Self { max_attempts: Some(NonZeroU32::MIN), ..Self::default() }
    }

    /// A builder that starts from this policy.
    pub fn to_builder(&self) -> PolicyBuilder {
        PolicyBuilder { policy: self.clone(), zero_attempts: false, multiplier: None }
    }

    /// How many attempts are made at most, the first included; none: unlimited.
    #[inline]
    pub fn max_attempts(&self) -> Option<u32> {
        self.max_attempts.map(NonZeroU32::get)
    }

    /// The end of the whole call.
    #[inline]
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// What happens with a wait that would reach past it.
    pub fn on_deadline(&self) -> OnDeadline {
        self.on_deadline
    }

    /// What happens when a budget refuses a retry.
    pub fn on_budget(&self) -> OnBudget {
        self.on_budget
    }

    /// The end of one attempt.
    #[inline]
    pub fn attempt_timeout(&self) -> Option<Duration> {
        self.attempt_timeout
    }

    /// The backoff.
    pub fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// The backoff of calls of this priority, where no rule gives them another one.
    #[inline]
    pub fn backoff_for(&self, priority: Priority) -> &Backoff {
        match (priority, &self.high_backoff) {
            (Priority::High, Some(backoff)) => backoff,
            _ => &self.backoff,
        }
    }

    /// The backoff that calls of [`Priority::High`] have of their own.
    pub fn high_backoff(&self) -> Option<&Backoff> {
        self.high_backoff.as_ref()
    }

    /// What is made of hints.
    pub fn hint(&self) -> &HintPolicy {
        &self.hint
    }

    /// The classes that are retried.
    pub fn retry_on(&self) -> Classes {
        self.retry_on
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a call is repeated only if it is known to be idempotent.
    pub fn requires_idempotency(&self) -> bool {
        self.require_idempotency
    }

    /// The seed, if the waits are to be the same each time.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Whether the decision needs to know the time. A driver reads no clock otherwise.
    #[inline]
    pub fn needs_clock(&self) -> bool {
        self.needs_clock
    }

    /// Whether a call may begin without more ado: there is no clock to read and no initial spread to wait for.
    #[inline]
    pub fn begins_plainly(&self) -> bool {
        self.begins_plainly
    }

    /// Whether an attempt can be ended by the clock: there is an attempt timeout or a deadline.
    #[inline]
    pub fn limits_time(&self) -> bool {
        self.attempt_timeout.is_some() || self.deadline.is_some()
    }

    /// The rule that an outcome meets.
    pub fn rule_for(&self, outcome: &Outcome) -> Option<RuleId> {
        if let Some(named) = outcome.rule
            && usize::from(named.0) < self.rules.len()
        {
            return Some(named);
        }
        let index = self.rules.iter().position(|rule| rule.matches(outcome.class))?;
        u8::try_from(index).ok().map(RuleId)
    }

    /// Step 3 of the decision: would another try help, and is it safe?
    pub(crate) fn refuses(&self, outcome: &Outcome) -> Option<Reason> {
        if !self.retry_on.contains(outcome.class) {
            return Some(Reason::NotRetryable);
        }
        match outcome.repeat {
            Repeat::BodyNotReplayable => Some(Reason::BodyNotReplayable),
            Repeat::NotIdempotent if outcome.class != Class::NotSent => Some(Reason::NotIdempotent),
            Repeat::NotIdempotent | Repeat::Safe => None,
        }
    }
}

impl Default for Policy {
    /// The defaults of the table above.
    fn default() -> Self {
        Self {
            max_attempts: Some(DEFAULT_ATTEMPTS),
            deadline: None,
            on_deadline: OnDeadline::Stop,
            on_budget: OnBudget::Stop,
            attempt_timeout: None,
            backoff: Backoff::new(Schedule::exponential(Duration::from_millis(100))),
            high_backoff: None,
            hint: HintPolicy::DEFAULT,
            retry_on: Classes::RETRYABLE,
            rules: Vec::new(),
            require_idempotency: false,
            seed: None,
            needs_clock: false,
            begins_plainly: true,
        }
    }
}

/// Builds a [`Policy`]; what cannot work is refused by [`PolicyBuilder::build`].
#[derive(Clone, Debug)]
#[must_use]
pub struct PolicyBuilder {
    policy: Policy,
    zero_attempts: bool,
    /// What was given as a multiplier, until `build` has looked at it.
    multiplier: Option<f64>,
}

impl PolicyBuilder {
    fn new(schedule: Schedule) -> Self {
        let policy = Policy { backoff: Backoff::new(schedule), ..Policy::default() };
        Self { policy, zero_attempts: false, multiplier: None }
    }

    /// At most this many attempts, the first included. Default: 4. 1 switches retries off.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = NonZeroU32::new(attempts);
        self.zero_attempts = attempts == 0;
        self
    }

    /// As many attempts as it takes. Set a deadline with it.
    pub fn unlimited_attempts(mut self) -> Self {
        self.policy.max_attempts = None;
        self.zero_attempts = false;
        self
    }

    /// The end of the whole call, waits included: a duration, or a [`Deadline`] with a reserve. Default: none.
    pub fn deadline(mut self, deadline: impl Into<Deadline>) -> Self {
        self.policy.deadline = Some(deadline.into());
        self
    }

    /// No deadline.
    pub fn no_deadline(mut self) -> Self {
        self.policy.deadline = None;
        self
    }

    /// What happens with a wait that would reach past the deadline. Default: [`OnDeadline::Stop`].
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.policy.on_deadline = on_deadline;
        self
    }

    /// What happens when a budget refuses a retry. Default: [`OnBudget::Stop`]. Without a budget it has no effect.
    pub fn on_budget(mut self, on_budget: OnBudget) -> Self {
        self.policy.on_budget = on_budget;
        self
    }

    /// The end of each attempt; one that runs longer ends as [`Class::Timeout`]. Default: none.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.policy.attempt_timeout = Some(timeout);
        self
    }

    /// No end of an attempt.
    pub fn no_attempt_timeout(mut self) -> Self {
        self.policy.attempt_timeout = None;
        self
    }

    /// The whole backoff at once.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.policy.backoff = backoff;
        self
    }

    /// Another backoff for calls of [`Priority::High`]. Its `initial_spread` and `reset_after` are not looked at: both
    /// are the policy's. Default: the same.
    pub fn high_backoff(mut self, backoff: Backoff) -> Self {
        self.policy.high_backoff = Some(backoff);
        self
    }

    /// The growth of an exponential schedule, finite and at least 1. Default: 2.
    pub fn multiplier(mut self, multiplier: f64) -> Self {
        self.multiplier = Some(multiplier);
        self
    }

    /// The longest scheduled wait. Default: 20 s for exponential, linear and fibonacci, else none. Hints have their own
    /// limit.
    pub fn cap(self, cap: Duration) -> Self {
        self.edit_backoff(|backoff| backoff.cap(cap))
    }

    /// No longest wait.
    pub fn uncapped(self) -> Self {
        self.edit_backoff(Backoff::uncapped)
    }

    /// The shortest scheduled wait. Default: zero.
    pub fn floor(self, floor: Duration) -> Self {
        self.edit_backoff(|backoff| backoff.floor(floor))
    }

    /// The jitter. Default: [`Jitter::Full`].
    pub fn jitter(self, jitter: Jitter) -> Self {
        self.edit_backoff(|backoff| backoff.jitter(jitter))
    }

    /// How cap and jitter meet. Default: [`Bound::Range`].
    pub fn bound(self, bound: Bound) -> Self {
        self.edit_backoff(|backoff| backoff.bound(bound))
    }

    /// Where the schedule starts. Default: [`First::Initial`].
    pub fn first(self, first: First) -> Self {
        self.edit_backoff(|backoff| backoff.first(first))
    }

    /// A random wait of up to this before the first attempt. Default: zero.
    pub fn initial_spread(self, spread: Duration) -> Self {
        self.edit_backoff(|backoff| backoff.initial_spread(spread))
    }

    /// After how long in health a failure begins a new series. Default: never.
    pub fn reset_after(self, healthy: Duration) -> Self {
        self.edit_backoff(|backoff| backoff.reset_after(healthy))
    }

    /// What is made of hints. Default: [`HintPolicy::DEFAULT`].
    pub fn hint(mut self, hint: HintPolicy) -> Self {
        self.policy.hint = hint;
        self
    }

    /// The classes that are retried. Default: [`Classes::RETRYABLE`].
    pub fn retry_on(mut self, classes: impl Into<Classes>) -> Self {
        self.policy.retry_on = classes.into();
        self
    }

    /// Adds a rule after those that there are; at most [`MAX_RULES`].
    pub fn rule(mut self, rule: Rule) -> Self {
        self.policy.rules.push(rule);
        self
    }

    /// Repeats a call only if it is known to be idempotent: the caller said so, or it carries a key. Default: false.
    pub fn require_idempotency(mut self, require: bool) -> Self {
        self.policy.require_idempotency = require;
        self
    }

    /// Makes the waits the same each time, in every driver: for tests. In production all clients with one seed try
    /// again in step, which is what jitter is there to prevent. Default: none.
    pub fn seed(mut self, seed: u64) -> Self {
        self.policy.seed = Some(seed);
        self
    }

    /// The policy.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the part which cannot work, and says why.
    pub fn build(mut self) -> Result<Policy, PolicyError> {
        if self.zero_attempts {
            return Err(ZERO_ATTEMPTS);
        }
        self.apply_multiplier()?;
        check_times(&self.policy)?;
        check_backoff(&self.policy.backoff)?;
        self.policy.high_backoff.as_ref().map_or(Ok(()), check_backoff)?;
        check_rules(&self.policy.rules)?;
        if let HintMode::Clamp(over) = self.policy.hint.mode
            && over.is_zero()
        {
            return Err(refuse("hint.mode", "clamps hints to nothing; say \"ignore\" for that"));
        }
        if self.policy.retry_on.contains(Class::Success) || self.policy.retry_on.contains(Class::Cancelled) {
            return Err(refuse("retry_on", "a success or a cancelled call is never retried"));
        }
        let rules = self.policy.rules.iter().filter_map(Rule::own_backoff);
        let more = rules.chain(&self.policy.high_backoff);
        let staged = self.policy.backoff.needs_clock() || more.into_iter().any(Backoff::needs_clock);
        self.policy.needs_clock = self.policy.limits_time() || staged;
        self.policy.begins_plainly = !self.policy.needs_clock && self.policy.backoff.initial_spread == 0;
        Ok(self.policy)
    }

    fn edit_backoff(mut self, edit: impl FnOnce(Backoff) -> Backoff) -> Self {
        self.policy.backoff = edit(self.policy.backoff);
        self
    }

    fn apply_multiplier(&mut self) -> Result<(), PolicyError> {
        let Some(given) = self.multiplier else { return Ok(()) };
        let Schedule::Exponential { multiplier, .. } = &mut self.policy.backoff.schedule else {
            return Err(refuse("backoff.multiplier", "only an exponential schedule has a multiplier"));
        };
        *multiplier = Multiplier::new(given).ok_or(refuse(
            "backoff.multiplier",
            "must be a finite number of at least 1; 1 means no growth",
        ))?;
        Ok(())
    }
}

/// Why a policy cannot be built: the part, by its name in a policy file, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyError {
    key: &'static str,
    why: &'static str,
}

impl PolicyError {
    /// An error about `key`: what is wrong with it, as a sentence without the key.
    pub const fn new(key: &'static str, why: &'static str) -> Self {
        Self { key, why }
    }

    /// The key as a policy file has it: `"max_attempts"`, `"backoff.cap"` …
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// What is wrong with it, as a sentence without the key.
    pub const fn why(&self) -> &'static str {
        self.why
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl core::error::Error for PolicyError {}

const ZERO_ATTEMPTS: PolicyError = refuse("max_attempts", "counts the first attempt; 1 switches retries off");

pub(crate) const fn refuse(key: &'static str, why: &'static str) -> PolicyError {
    PolicyError { key, why }
}

fn check_times(policy: &Policy) -> Result<(), PolicyError> {
    match policy.deadline {
        Some(deadline) if deadline.total.is_zero() => {
            return Err(refuse("deadline", "leaves no time at all; leave it out for no deadline"));
        }
        Some(deadline) if deadline.usable().is_zero() => {
            return Err(refuse("deadline.reserve", "takes all of the deadline"));
        }
        None if policy.on_deadline == OnDeadline::Fit => {
            return Err(refuse("on_deadline", "has no effect without a deadline"));
        }
        _ => {}
    }
    match policy.attempt_timeout {
        Some(timeout) if timeout.is_zero() => {
            Err(refuse("attempt_timeout", "leaves no time at all; leave it out for no timeout"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_backoff(backoff: &Backoff) -> Result<(), PolicyError> {
    if backoff.floor > backoff.cap {
        return Err(refuse("backoff.floor", "lies above the cap"));
    }
    if backoff.reset_after == 0 {
        return Err(refuse("backoff.reset_after", "would begin a new series at every failure"));
    }
    match &backoff.schedule {
        Schedule::List(waits) if waits.is_empty() => {
            return Err(refuse("backoff.waits", "lists no wait"));
        }
        Schedule::Stages(stages) => check_stages(stages)?,
        Schedule::Csma { slot, .. } if slot.is_zero() => {
            return Err(refuse("backoff.slot", "a slot of no length is no wait at all"));
        }
        Schedule::Csma { slot, .. } if nanos(*slot) > backoff.cap => {
            return Err(refuse("backoff.cap", "is shorter than one slot, which leaves no wait"));
        }
        Schedule::Csma { max_exponent, .. } if !(1..=63).contains(max_exponent) => {
            return Err(refuse("backoff.max_exponent", "must be from 1 to 63; the standard's is 10"));
        }
        _ => {}
    }
    check_jitter(backoff)
}

fn check_stages(stages: &[Stage]) -> Result<(), PolicyError> {
    let Some((_, before_last)) = stages.split_last() else {
        return Err(refuse("backoff.stages", "lists no stage"));
    };
    if before_last.iter().any(|stage| stage.until.is_none()) {
        return Err(refuse(
            "backoff.stages",
            "only the last stage may go on for ever; give the others an \"until\"",
        ));
    }
    let mut ends = stages.iter().map(|stage| stage.until.map_or(u64::MAX, nanos));
    if !ends.clone().zip(ends.by_ref().skip(1)).all(|(end, next)| end < next) {
        return Err(refuse("backoff.stages", "each stage must end later than the one before it"));
    }
    Ok(())
}

fn check_jitter(backoff: &Backoff) -> Result<(), PolicyError> {
    let growing = matches!(backoff.schedule, Schedule::Exponential { .. } | Schedule::Constant { .. });
    match (&backoff.schedule, backoff.jitter) {
        (Schedule::Csma { .. }, jitter) if jitter != Jitter::None => {
            Err(refuse("jitter", "csma draws its slots by itself and takes no jitter"))
        }
        (_, Jitter::Proportional { factor }) if !(factor > 0.0 && factor <= 1.0) => {
            Err(refuse("jitter.factor", "must be above 0 and at most 1"))
        }
        (_, Jitter::Additive { max }) if max.is_zero() => {
            Err(refuse("jitter.max", "adds nothing; say \"none\" for that"))
        }
        (_, jitter) if jitter.remembers() && !growing => Err(refuse(
            "jitter",
            "decorrelated jitter grows from the last wait: it takes an exponential or a constant backoff",
        )),
        (_, jitter) if jitter.remembers() && backoff.bound == Bound::Loose => Err(refuse(
            "backoff.bound",
            "decorrelated jitter knows no wait before the draw that a loose cap could bound",
        )),
        (_, jitter) if jitter.remembers() && backoff.schedule.initial().is_zero() => {
            Err(refuse("backoff.initial", "decorrelated jitter cannot grow from nothing"))
        }
        (schedule, Jitter::Decorrelated)
            if backoff.bound == Bound::Range && nanos(schedule.initial()) >= backoff.cap =>
        {
            Err(refuse(
                "backoff.cap",
                "must lie above the initial wait: decorrelated jitter draws between them",
            ))
        }
        _ => Ok(()),
    }
}

fn check_rules(rules: &[Rule]) -> Result<(), PolicyError> {
    if rules.len() > MAX_RULES {
        return Err(refuse("rules", "a policy has at most 6 rules, those of \"on\" included"));
    }
    for rule in rules {
        if rule.zero_attempts {
            return Err(refuse("rules.max_attempts", ZERO_ATTEMPTS.why));
        }
        if rule.limit().is_some_and(|attempts| attempts > MAX_RULE_ATTEMPTS) {
            return Err(refuse("rules.max_attempts", "a rule's own limit is at most 254"));
        }
        rule.own_backoff().map_or(Ok(()), check_backoff)?;
    }
    Ok(())
}
