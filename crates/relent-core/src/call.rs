//! One call: how far it is, and what to do next.

use core::time::Duration;

use crate::time::nanos;
use crate::{
    Backoff, Class, Count, Hint, HintMode, MAX_RULES, Memory, OnBudget, OnDeadline, Outcome, OverMax, Policy,
    Reason, RuleId, Shared, Source, Timestamp,
};

/// One call, as far as it has come: plain data, no heap, can be stored and resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When the call began, or [`UNTIMED`].
    began: u64,
    /// What the backoff in use has to remember.
    memory: Memory,
    /// Attempts that have ended.
    attempts: u32,
    /// Failures in the current series: what the policy's schedule counts.
    streak: u32,
    /// Failures that each rule has seen.
    own: [u8; MAX_RULES],
    /// Whose backoff the memory belongs to: 0 the policy's, else a rule's number + 1.
    owner: u8,
}

const UNTIMED: u64 = u64::MAX;

// Ten million clients of a simulation, or a queue's rows: each pays for what a call holds.
const _: () = assert!(size_of::<Call>() <= 32);

/// What the outside world contributes to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time; none where the policy does not need it ([`Policy::needs_clock`]).
    pub now: Option<Timestamp>,
    /// A number drawn uniformly from all of `u64`.
    pub entropy: u64,
}

impl Moment {
    /// A moment of which the time is not known.
    pub const fn timeless(entropy: u64) -> Self {
        Self { now: None, entropy }
    }

    /// A moment in time.
    pub const fn at(now: Timestamp, entropy: u64) -> Self {
        Self { now: Some(now), entropy }
    }
}

/// Whether an attempt may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Start {
    /// Now.
    Go,
    /// After a wait.
    Wait {
        /// How long.
        after: Duration,
        /// Why.
        source: Source,
    },
    /// Not at all.
    Stop {
        /// Why.
        reason: Reason,
    },
}

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Try again.
    Retry {
        /// After this wait.
        after: Duration,
        /// Where the wait comes from.
        source: Source,
    },
    /// Give the outcome back.
    Stop {
        /// Why.
        reason: Reason,
        /// After this wait; only where the policy waits when a budget refuses ([`OnBudget::Wait`]).
        after: Option<Duration>,
    },
}

impl Decision {
    const fn stop(reason: Reason) -> Self {
        Self::Stop { reason, after: None }
    }
}

impl Call {
    /// A call that begins now; `now` may be none where the policy does not need a clock.
    #[inline]
    pub const fn new(now: Option<Timestamp>) -> Self {
        let began = match now {
            // The end of time stands for no time: a call that begins there begins a nanosecond earlier.
            Some(Timestamp::MAX) => UNTIMED - 1,
            Some(now) => now.as_nanos(),
            None => UNTIMED,
        };
        Self { began, memory: Memory(0), attempts: 0, streak: 0, own: [0; MAX_RULES], owner: 0 }
    }

    /// A call that began then and has had so many failures.
    pub(crate) const fn after(began: Option<Timestamp>, failures: u32) -> Self {
        Self { attempts: failures, streak: failures, ..Self::new(began) }
    }

    /// Whether the first attempt may begin: at once, after the initial spread, or not at all.
    #[inline]
    pub fn start<S: Shared + ?Sized>(&self, policy: &Policy, shared: &mut S, moment: Moment) -> Start {
        if policy.backoff.initial_spread > 0 {
            return self.spread(policy, moment);
        }
        self.admit(policy, shared, moment)
    }

    /// Whether an attempt whose wait is over may begin. A refusal is not an attempt.
    #[inline]
    pub fn admit<S: Shared + ?Sized>(&self, policy: &Policy, shared: &mut S, moment: Moment) -> Start {
        match (moment.now, self.ends(policy)) {
            (Some(now), Some(end)) if now >= end => Start::Stop { reason: Reason::DeadlinePassed },
            (Some(now), Some(end)) => match shared.admit(moment) {
                // How long a queue takes nobody knows: perhaps a place is free in time.
                Start::Wait { after, source: Source::Bulkhead } => {
                    Start::Wait { after: after.min(end.since(now)), source: Source::Bulkhead }
                }
                Start::Wait { after, .. } if now.plus(after) >= end => {
                    Start::Stop { reason: Reason::DeadlineWouldPass }
                }
                start => start,
            },
            _ => shared.admit(moment),
        }
    }

    /// Takes in how an attempt ended and says what to do next. The order of the steps is the design.
    pub fn decide<S: Shared + ?Sized>(
        &mut self,
        policy: &Policy,
        shared: &mut S,
        outcome: Outcome,
        moment: Moment,
    ) -> Decision {
        self.take_in(policy, shared, &outcome, moment.now);
        self.conclude(policy, shared, outcome, moment)
    }

    /// Step 0: the outcome counts, whatever comes of it.
    pub(crate) fn take_in<S: Shared + ?Sized>(
        &mut self,
        policy: &Policy,
        shared: &mut S,
        outcome: &Outcome,
        now: Option<Timestamp>,
    ) {
        shared.settle(outcome, now);
        self.attempts = self.attempts.saturating_add(1);
        self.count_for_its_rule(policy, outcome);
    }

    /// All steps after that.
    pub(crate) fn conclude<S: Shared + ?Sized>(
        &mut self,
        policy: &Policy,
        shared: &mut S,
        outcome: Outcome,
        moment: Moment,
    ) -> Decision {
        match outcome.class {
            Class::Success => return Decision::stop(Reason::Succeeded),
            Class::Cancelled => return Decision::stop(Reason::Cancelled),
            _ => {}
        }
        self.renew_if_healthy(policy, &outcome, moment.now);
        self.streak = self.streak.saturating_add(1);
        let rule = policy.rule_for(&outcome);
        // An attempt that ran into the deadline was ended by that and not by a timeout of its own: what class, safety
        // and limits would say to another try is no answer to why the call ended.
        if outcome.class == Class::Timeout && self.is_over(policy, moment.now) {
            return Decision::stop(Reason::DeadlinePassed);
        }
        if let Some(reason) = policy.refuses(&outcome) {
            return Decision::stop(reason);
        }
        if self.spent(policy, rule) {
            return Decision::stop(Reason::AttemptsExhausted);
        }
        let backoff = policy.backoff_for(shared.priority());
        let least = shared.step(moment.now);
        let wait = match self.wait(policy, (rule, backoff, least), &outcome, moment) {
            Ok(wait) => wait,
            Err(reason) => return Decision::stop(reason),
        };
        // A wait that ends at the deadline ends too late: nothing could be attempted then.
        let (after, starts) = match self.fit(policy, &wait, moment.now) {
            Ok(fitted) => fitted,
            Err(reason) => return Decision::stop(reason),
        };
        if let (Some(starts), Some(ready)) = (starts, shared.ready_at(moment.now))
            && starts < ready
        {
            return Decision::stop(Reason::CircuitOpen);
        }
        // The budget comes last: only a retry that will really happen may cost the others one.
        if let Err(reason) = shared.withdraw(&outcome, moment.now) {
            let wait = Duration::from_nanos(after);
            let waits = reason == Reason::BudgetExhausted && policy.on_budget == OnBudget::Wait;
            return Decision::Stop { reason, after: waits.then_some(wait) };
        }
        Decision::Retry { after: Duration::from_nanos(after), source: wait.source }
    }

    /// The end of a call whose attempt succeeded: what [`Call::decide`] does with a success, for drivers that need
    /// nothing else, and where the clock is read only if something that is shared hangs on when the attempt ended.
    #[inline]
    pub fn succeed<S: Shared + ?Sized>(&mut self, shared: &mut S, clock: &dyn Fn() -> Option<Timestamp>) {
        shared.succeed(clock);
        self.attempts = self.attempts.saturating_add(1);
    }

    /// How many attempts have ended; since the last time of health, where the backoff has a `reset_after`.
    #[inline]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// When the call began, if the time was known.
    pub const fn began(&self) -> Option<Timestamp> {
        if self.began == UNTIMED { None } else { Some(Timestamp::from_nanos(self.began)) }
    }

    /// When the call must have ended: its deadline less the reserve.
    #[inline]
    pub fn ends(&self, policy: &Policy) -> Option<Timestamp> {
        let deadline = policy.deadline?;
        Some(self.began()?.plus(deadline.usable()))
    }

    /// What is left of the deadline; zero past it, none without one.
    pub fn remaining(&self, policy: &Policy, now: Timestamp) -> Option<Duration> {
        Some(self.ends(policy)?.since(now))
    }

    /// How long an attempt that begins now may take: the attempt timeout, or what is left of the deadline if that is
    /// less.
    #[inline]
    pub fn attempt_limit(&self, policy: &Policy, now: Timestamp) -> Option<Duration> {
        match (policy.attempt_timeout, self.remaining(policy, now)) {
            (Some(timeout), Some(remaining)) => Some(timeout.min(remaining)),
            (timeout, remaining) => timeout.or(remaining),
        }
    }

    /// The call as bytes, to be stored. The layout belongs to this version of the crate.
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let parts = self
            .began
            .to_le_bytes()
            .into_iter()
            .chain(self.memory.0.to_le_bytes())
            .chain(self.attempts.to_le_bytes())
            .chain(self.streak.to_le_bytes())
            .chain(self.own)
            .chain([self.owner]);
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        bytes
    }

    /// A call from what [`Call::to_bytes`] gave. Any bytes make a call that can be decided upon.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut rest = bytes.into_iter();
        let mut word = |length: u32| {
            rest.by_ref()
                .take(length as usize)
                .enumerate()
                .fold(0u64, |word, (i, byte)| word | u64::from(byte) << (8 * i))
        };
        let (began, memory) = (word(8), Memory(word(8)));
        let (attempts, streak) = (word(4) as u32, word(4) as u32);
        let own = core::array::from_fn(|_| word(1) as u8);
        Self { began, memory, attempts, streak, own, owner: word(1) as u8 }
    }

    /// Whether the deadline has passed.
    fn is_over(&self, policy: &Policy, now: Option<Timestamp>) -> bool {
        now.zip(self.ends(policy)).is_some_and(|(now, end)| now >= end)
    }

    /// The initial spread, cut where the deadline would leave no attempt.
    fn spread(&self, policy: &Policy, moment: Moment) -> Start {
        let left = moment.now.and_then(|now| self.remaining(policy, now)).map_or(u64::MAX, nanos);
        if left == 0 {
            return Start::Stop { reason: Reason::DeadlinePassed };
        }
        let spread = crate::jitter::scale(policy.backoff.initial_spread.min(left), moment.entropy);
        Start::Wait { after: Duration::from_nanos(spread), source: Source::Spread }
    }

    /// A failure after a long time in health is the first of a new series.
    fn renew_if_healthy(&mut self, policy: &Policy, outcome: &Outcome, now: Option<Timestamp>) {
        let (Some(healthy_for), Some(enough)) = (outcome.healthy_for, policy.backoff.resets_after()) else {
            return;
        };
        if healthy_for >= enough {
            let began = now.or(self.began());
            *self = Self { attempts: 1, ..Self::new(began) };
            self.count_for_its_rule(policy, outcome);
        }
    }

    fn count_for_its_rule(&mut self, policy: &Policy, outcome: &Outcome) {
        let rule = policy.rule_for(outcome);
        if let Some(own) = rule.and_then(|rule| self.own.get_mut(usize::from(rule.0))) {
            *own = own.saturating_add(1);
        }
    }

    /// Attempts that have lost a race were made all the same.
    pub(crate) fn count_losers(&mut self, losers: u32) {
        self.attempts = self.attempts.saturating_add(losers);
    }

    /// Whether class, safety and the limit of its rule allow another attempt after a failure that is not counted yet.
    pub(crate) fn may_follow(&self, policy: &Policy, outcome: &Outcome) -> bool {
        let mut counted = *self;
        counted.count_for_its_rule(policy, outcome);
        policy.refuses(outcome).is_none() && !counted.spent(policy, policy.rule_for(outcome))
    }

    /// Step 4: the matching rule decides, even when it is exhausted; then the policy's own limit.
    fn spent(&self, policy: &Policy, rule: Option<RuleId>) -> bool {
        let rule_spent = rule.is_some_and(|id| {
            let limit = policy.rules.get(usize::from(id.0)).and_then(crate::Rule::limit);
            limit.is_some_and(|limit| self.seen_by(id) >= limit)
        });
        rule_spent || policy.max_attempts().is_some_and(|limit| self.attempts >= limit)
    }

    fn seen_by(&self, rule: RuleId) -> u32 {
        self.own.get(usize::from(rule.0)).copied().map_or(0, u32::from)
    }

    /// Step 5: schedule, jitter, hint.
    fn wait(
        &mut self,
        policy: &Policy,
        by: (Option<RuleId>, &Backoff, u32),
        outcome: &Outcome,
        moment: Moment,
    ) -> Result<Wait, Reason> {
        let hinted = match outcome.hint {
            None => return Ok(self.scheduled(policy, by, moment)),
            Some(Hint::Stop) => return Err(Reason::PushbackStop),
            Some(Hint::After(_) | Hint::Pushback(_)) if policy.hint.mode == HintMode::Ignore => None,
            Some(hint) => obeyed(policy, hint)?,
        };
        let scheduled = self.scheduled(policy, by, moment);
        let hints = &policy.hint;
        Ok(match hinted {
            None => scheduled,
            Some(Hint::Pushback(asked)) => {
                // The server took over: the next failure without a pushback starts the schedule afresh. The rules'
                // counters stay, for their limits.
                self.streak = 0;
                self.memory = Memory(0);
                Wait::asked(nanos(asked), Source::Pushback)
            }
            Some(Hint::After(asked)) => match hints.mode {
                HintMode::Exact => Wait::asked(hints.spread_out(nanos(asked), moment.entropy), Source::Hint),
                HintMode::Clamp(over) => {
                    let latest = scheduled.after.saturating_add(nanos(over));
                    scheduled.at_least(nanos(asked).min(latest))
                }
                HintMode::Minimum | HintMode::Ignore => {
                    scheduled.at_least(hints.spread_out(nanos(asked), moment.entropy))
                }
            },
            Some(Hint::Stop) => return Err(Reason::PushbackStop),
        })
    }

    /// The rule's backoff, or the one that stands for all outcomes without one; its wait number `least` at least.
    fn scheduled(
        &mut self,
        policy: &Policy,
        (rule, of_policy, least): (Option<RuleId>, &Backoff, u32),
        moment: Moment,
    ) -> Wait {
        // Where the target is known to struggle, the series goes on from there.
        self.streak = self.streak.max(least);
        let own = rule.and_then(|id| {
            let rule = policy.rules.get(usize::from(id.0))?;
            Some((id, rule.own_backoff()?, rule.count))
        });
        let (owner, backoff, n): (u8, &Backoff, u32) = match own {
            None => (0, of_policy, self.streak),
            // A rule's own failures are among those of the series, which a pushback begins anew.
            Some((id, backoff, Count::Own)) => {
                (id.0 + 1, backoff, self.seen_by(id).max(least).min(self.streak))
            }
            Some((id, backoff, Count::All)) => (id.0 + 1, backoff, self.streak),
        };
        if self.owner != owner {
            // What another backoff remembered means nothing to this one.
            (self.owner, self.memory) = (owner, Memory(0));
        }
        let elapsed = match (moment.now, self.began()) {
            (Some(now), Some(began)) => nanos(now.since(began)),
            _ => 0,
        };
        let after = backoff.wait_nanos(n, elapsed, &mut self.memory, moment.entropy);
        Wait { after, source: Source::Schedule, least: backoff.least_cut() }
    }

    /// Step 6: the wait that fits before the deadline, and when the attempt after it would start.
    fn fit(
        &self,
        policy: &Policy,
        wait: &Wait,
        now: Option<Timestamp>,
    ) -> Result<(u64, Option<Timestamp>), Reason> {
        let Some(now) = now else { return Ok((wait.after, None)) };
        let starts = |after: u64| now.plus(Duration::from_nanos(after));
        let Some(end) = self.ends(policy).filter(|end| starts(wait.after) >= *end) else {
            return Ok((wait.after, Some(starts(wait.after))));
        };
        if now >= end {
            return Err(Reason::DeadlinePassed);
        }
        if policy.on_deadline == OnDeadline::Stop || wait.source != Source::Schedule {
            return Err(Reason::DeadlineWouldPass);
        }
        // Half of what remains, but no earlier than the server asked, and not so short that halves of halves become a
        // storm in the last instant.
        let half = (nanos(end.since(now)) / 2).max(wait.least);
        if half == 0 || starts(half) >= end {
            return Err(Reason::DeadlineWouldPass);
        }
        Ok((half, Some(starts(half))))
    }
}

/// A wait on its way through the steps.
struct Wait {
    after: u64,
    source: Source,
    /// What a deadline may not cut it below.
    least: u64,
}

impl Wait {
    const fn asked(after: u64, source: Source) -> Self {
        Self { after, source, least: after }
    }

    /// A scheduled wait, or `asked` if that is longer.
    fn at_least(self, asked: u64) -> Self {
        if asked > self.after {
            Self::asked(asked, Source::Hint)
        } else {
            Self { least: self.least.max(asked), ..self }
        }
    }
}

/// The hint after the policy's maximum; none where the schedule is to be taken instead.
fn obeyed(policy: &Policy, hint: Hint) -> Result<Option<Hint>, Reason> {
    let hints = &policy.hint;
    let within = |asked: Duration| nanos(asked) <= hints.max;
    match (hint, hints.over_max) {
        (Hint::After(asked) | Hint::Pushback(asked), _) if within(asked) => Ok(Some(hint)),
        (_, OverMax::Abort) => Err(Reason::HintOverMax),
        (_, OverMax::Ignore) => Ok(None),
        (Hint::Pushback(_), OverMax::Clamp) => Ok(Some(Hint::Pushback(hints.max_wait()))),
        (_, OverMax::Clamp) => Ok(Some(Hint::After(hints.max_wait()))),
    }
}
