//! Hedging: another attempt while the first one still runs, so that one slow answer does not make a slow call.

use core::time::Duration;

use crate::policy::refuse;
use crate::{
    Call, Class, Decision, Hint, HintMode, Latencies, Moment, Outcome, Policy, PolicyError, Ratio, Reason,
    Repeat, Shared, Timestamp,
};

/// What hedges are to be.
///
/// | part | default | why |
/// |---|---|---|
/// | when | after the observed p95, at least 1 ms, 200 ms until there are 20 samples | hedges then are about 5 % of the calls |
/// | `max_attempts` | 2, the first included | a third one rarely helps |
///
/// A call that is not safe to repeat is never hedged. Hedges cost: give them a [budget](crate::Budget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HedgePolicy {
    /// When a hedge starts.
    pub when: HedgeAfter,
    /// How many attempts a call makes at most, the first included.
    pub max_attempts: u32,
}

/// When a hedge starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HedgeAfter {
    /// After a fixed time without an answer. Zero is [`HedgeAfter::AtOnce`].
    Fixed(Duration),
    /// After the time within which this share of the attempts has its answer.
    Quantile {
        /// The share, below 1.
        share: Ratio,
        /// The shortest time.
        floor: Duration,
        /// The longest time.
        ceiling: Duration,
        /// The time while there are too few samples.
        initial: Duration,
        /// How many samples are enough.
        samples: u32,
    },
    /// All attempts start at once.
    AtOnce,
    /// Only where an attempt failed.
    Failure,
}

impl HedgeAfter {
    /// The mode's word in a policy file.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fixed(_) => "fixed",
            Self::Quantile { .. } => "quantile",
            Self::AtOnce => "at_once",
            Self::Failure => "on_failure",
        }
    }
}

/// The most attempts of one call that may run at once.
const MOST_ATTEMPTS: u32 = 64;

impl HedgePolicy {
    /// Hedges after a fixed time.
    pub const fn after(delay: Duration) -> Self {
        let when = if delay.is_zero() { HedgeAfter::AtOnce } else { HedgeAfter::Fixed(delay) };
        Self { when, max_attempts: 2 }
    }

    /// Hedges after the time within which this share of the attempts has its answer.
    pub const fn quantile(share: Ratio) -> Self {
        let when = HedgeAfter::Quantile {
            share,
            floor: Duration::from_millis(1),
            ceiling: Duration::MAX,
            initial: Duration::from_millis(200),
            samples: 20,
        };
        Self { when, max_attempts: 2 }
    }

    /// Starts all attempts at once.
    pub const fn at_once() -> Self {
        Self { when: HedgeAfter::AtOnce, max_attempts: 2 }
    }

    /// Starts another attempt only where one failed, without a wait.
    pub const fn on_failure() -> Self {
        Self { when: HedgeAfter::Failure, max_attempts: 2 }
    }

    /// At most this many attempts in a call, the first included; up to 64. Default: 2.
    #[must_use]
    pub const fn max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: attempts, ..self }
    }

    /// The shortest and the longest time that a quantile may come to. Default: 1 ms, and none.
    #[must_use]
    pub const fn between(self, floor: Duration, ceiling: Duration) -> Self {
        let when = match self.when {
            HedgeAfter::Quantile { share, initial, samples, .. } => {
                HedgeAfter::Quantile { share, floor, ceiling, initial, samples }
            }
            when => when,
        };
        Self { when, ..self }
    }

    /// The time while there are fewer than so many samples. Default: 200 ms, 20.
    #[must_use]
    pub const fn until_known(self, initial: Duration, samples: u32) -> Self {
        let when = match self.when {
            HedgeAfter::Quantile { share, floor, ceiling, .. } => {
                HedgeAfter::Quantile { share, floor, ceiling, initial, samples }
            }
            when => when,
        };
        Self { when, ..self }
    }

    /// When a hedge starts.
    pub const fn when(&self) -> HedgeAfter {
        self.when
    }

    /// Whether latencies have to be observed.
    pub const fn needs_latencies(&self) -> bool {
        matches!(self.when, HedgeAfter::Quantile { .. })
    }

    /// How long a call waits for an answer before it hedges, by what was observed; none: only for a failure.
    pub fn delay(&self, observed: Option<&mut Latencies>, now: Timestamp) -> Option<Duration> {
        match self.when {
            HedgeAfter::Fixed(delay) => Some(delay),
            HedgeAfter::AtOnce => Some(Duration::ZERO),
            HedgeAfter::Failure => None,
            HedgeAfter::Quantile { share, floor, ceiling, initial, samples } => {
                let known = observed.and_then(|observed| {
                    let enough = observed.samples(now) >= u64::from(samples);
                    enough.then(|| observed.quantile(share, now)).flatten()
                });
                let delay = known.unwrap_or(initial);
                // Not `clamp`, which panics where the ceiling lies below the floor.
                Some(delay.max(floor).min(ceiling))
            }
        }
    }

    /// Looks whether the policy can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        if !(2..=MOST_ATTEMPTS).contains(&self.max_attempts) {
            return Err(refuse("hedge.max_attempts", "counts the first attempt: it is from 2 to 64"));
        }
        match self.when {
            HedgeAfter::Quantile { share, .. } if !share.is_share() || share == Ratio::ONE => {
                Err(refuse("hedge.quantile", "must be above 0 and below 1"))
            }
            HedgeAfter::Quantile { floor, ceiling, .. } if floor > ceiling => {
                Err(refuse("hedge.floor", "lies above the ceiling"))
            }
            HedgeAfter::Quantile { samples: 0, .. } => {
                Err(refuse("hedge.samples", "a quantile of no samples is no number"))
            }
            _ => Ok(()),
        }
    }
}

/// The attempts of one call that run beside each other.
///
/// A driver asks [`next`](Self::next) what to do, does it, and tells what happened: [`started`](Self::started),
/// [`suppressed`](Self::suppressed), [`ended`](Self::ended), [`cancel`](Self::cancel). What is over stays over: then
/// nothing starts any more and nothing that is told changes anything.
///
/// A success, or a failure that a repeat would not help, ends the race. Any other failure does not: an attempt that still
/// runs may succeed, and the next one starts at once. Only when the last one has failed does the call have a failure
/// (the last one's), about which the retry policy decides.
///
/// ```
/// use core::time::Duration;
/// use relent_core::{Class, HedgePolicy, HedgeStep, Race, RaceEnd, Repeat, Timestamp};
///
/// let policy = HedgePolicy::after(Duration::from_millis(500)).max_attempts(4);
/// let start = Timestamp::ZERO;
/// let mut race = Race::new(&policy, policy.delay(None, start), Repeat::Safe, start);
/// let first = race.started(start);
/// let due = start.plus(Duration::from_millis(500));
/// assert_eq!(race.next(start), HedgeStep::WaitUntil(due));
/// assert_eq!(race.next(due), HedgeStep::Start);
/// let second = race.started(due);
/// // The first one fails: the third starts at once, and the second still runs.
/// assert_eq!(race.ended(first, Class::Transient, due), RaceEnd::GoesOn);
/// assert_eq!(race.next(due), HedgeStep::Start);
/// assert_eq!(race.ended(second, Class::Success, due), RaceEnd::Decided);
/// assert_eq!(race.next(due), HedgeStep::Over);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    delay: Option<Duration>,
    max_attempts: u32,
    started: u32,
    /// Which attempts run, a bit each.
    running: u64,
    /// When the next one is due.
    next: Option<Timestamp>,
    over: bool,
    latest: Timestamp,
}

/// What to do in a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum HedgeStep {
    /// Start another attempt now (the first one too).
    Start,
    /// Wait for an answer until then.
    WaitUntil(Timestamp),
    /// Wait for an answer.
    Wait,
    /// Nothing: the race is over. Attempts that still run are to be cancelled.
    Over,
}

/// What the end of an attempt means for its race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RaceEnd {
    /// This outcome is the call's. Attempts that still run are to be cancelled, and their places given back.
    Decided,
    /// This one failed; others run, or will.
    GoesOn,
    /// The race was over before: this outcome is nobody's.
    Late,
}

impl Race {
    /// A race in which nothing has started. `delay` is what [`HedgePolicy::delay`] said; a call that is not safe to
    /// repeat has one attempt.
    pub fn new(policy: &HedgePolicy, delay: Option<Duration>, repeat: Repeat, now: Timestamp) -> Self {
        let max_attempts = match repeat {
            Repeat::Safe => policy.max_attempts.clamp(1, MOST_ATTEMPTS),
            Repeat::NotIdempotent | Repeat::BodyNotReplayable => 1,
        };
        Self { delay, max_attempts, started: 0, running: 0, next: Some(now), over: false, latest: now }
    }

    /// What to do now.
    pub fn next(&mut self, now: Timestamp) -> HedgeStep {
        self.latest = self.latest.max(now);
        if self.over {
            return HedgeStep::Over;
        }
        match self.next.filter(|_| self.started < self.max_attempts) {
            Some(due) if due <= self.latest => HedgeStep::Start,
            Some(due) => HedgeStep::WaitUntil(due),
            None => HedgeStep::Wait,
        }
    }

    /// Another attempt has started; returns its number in the race, from 0.
    pub fn started(&mut self, now: Timestamp) -> u32 {
        let number = self.started;
        self.latest = self.latest.max(now);
        self.started = self.started.saturating_add(1);
        self.running |= bit(number);
        self.put_off();
        number
    }

    /// The attempt that was due may not start: the budget is empty, or the target does not admit it. Those that run go
    /// on, and the next one is due as if this one had started; with none running the race ends.
    ///
    /// Returns whether the race ended by it.
    #[must_use]
    pub fn suppressed(&mut self, now: Timestamp) -> bool {
        self.latest = self.latest.max(now);
        self.put_off();
        // At once, or only after a failure: there is no later time to ask at.
        if self.delay.is_none_or(|delay| delay.is_zero()) {
            self.next = None;
        }
        self.over = self.over || self.running == 0;
        self.over
    }

    /// An attempt has ended, in time or late.
    pub fn ended(&mut self, number: u32, class: Class, now: Timestamp) -> RaceEnd {
        self.latest = self.latest.max(now);
        let ran = self.running & bit(number) != 0;
        self.running &= !bit(number);
        if self.over || !ran {
            return RaceEnd::Late;
        }
        let more = self.started < self.max_attempts;
        if class.is_failure() && (self.running != 0 || more) {
            // A failure is reason enough for the next one not to wait.
            self.next = Some(self.latest);
            return RaceEnd::GoesOn;
        }
        self.over = true;
        RaceEnd::Decided
    }

    /// The caller gives the call up: nothing starts any more.
    pub fn cancel(&mut self) {
        self.over = true;
    }

    /// Nothing starts any more; those that run go on.
    pub fn close(&mut self) {
        self.max_attempts = self.max_attempts.min(self.started);
    }

    /// Nothing starts before then: the server asked for that.
    pub fn hold_until(&mut self, then: Timestamp) {
        self.next = self.next.map(|next| next.max(then));
    }

    /// At most so many attempts, the first included.
    #[must_use]
    pub fn at_most(self, attempts: u32) -> Self {
        Self { max_attempts: self.max_attempts.min(attempts).max(1), ..self }
    }

    /// How many run.
    pub const fn running(&self) -> u32 {
        self.running.count_ones()
    }

    /// Whether an attempt runs that a driver has to cancel, or wait for.
    pub const fn is_running(&self, number: u32) -> bool {
        self.running & bit(number) != 0
    }

    /// How many attempts have started.
    pub const fn attempts(&self) -> u32 {
        self.started
    }

    /// Whether it is over.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Sets when the next attempt is due, counted from now.
    fn put_off(&mut self) {
        self.next = self.delay.map(|delay| self.latest.plus(delay));
    }
}

/// How a call's attempts may run beside each other. The steps are those of [`Call::decide`], for one attempt of several.
impl Call {
    /// The race of the attempt that begins now, and its hedges. They are attempts: the policy's limit bounds all of a
    /// call's. `delay` is what [`HedgePolicy::delay`] said.
    pub fn race(
        &self,
        policy: &Policy,
        hedge: &HedgePolicy,
        delay: Option<Duration>,
        now: Timestamp,
    ) -> Race {
        let left = policy.max_attempts().map_or(u32::MAX, |most| most.saturating_sub(self.attempts()));
        Race::new(hedge, delay, Repeat::Safe, now).at_most(left)
    }

    /// Takes the cost of the hedge that is due and admits it, or says why it is not made. `failed` is the failure it
    /// starts for, or what is known about repeating the call where nothing has failed yet.
    ///
    /// # Errors
    ///
    /// The reason, for [`suppressed`](Self::suppressed).
    pub fn hedge<S: Shared + ?Sized>(
        &self,
        policy: &Policy,
        shared: &mut S,
        failed: &Outcome,
        moment: Moment,
    ) -> Result<(), Reason> {
        match failed.repeat {
            Repeat::Safe => {}
            Repeat::NotIdempotent => return Err(Reason::NotIdempotent),
            Repeat::BodyNotReplayable => return Err(Reason::BodyNotReplayable),
        }
        if moment.now.zip(self.ends(policy)).is_some_and(|(now, end)| now >= end) {
            return Err(Reason::DeadlinePassed);
        }
        shared.hedge(failed, moment)
    }

    /// The hedge that was due is not made. If nothing else runs the race is over, and the failure it was due for, which
    /// was taken in already, is the call's: what to do after it.
    pub fn suppressed<S: Shared + ?Sized>(
        &mut self,
        policy: &Policy,
        race: &mut Race,
        shared: &mut S,
        failed: Outcome,
        moment: Moment,
    ) -> Option<Decision> {
        let over = race.suppressed(known(moment));
        over.then(|| self.conclude(policy, shared, failed, moment))
    }

    /// Takes in how attempt `number` of a race ended, and says what to do if that decides the race; then those that
    /// still run have lost.
    ///
    /// A failure is not the call's as long as another attempt runs, which may succeed, or may still start. One that no
    /// retry would follow lets no hedge follow either, and a server's hint keeps the next one back.
    pub fn decide_in<S: Shared + ?Sized>(
        &mut self,
        policy: &Policy,
        race: &mut Race,
        number: u32,
        shared: &mut S,
        outcome: Outcome,
        moment: Moment,
    ) -> Option<Decision> {
        let now = known(moment);
        let asked = match outcome.hint {
            Some(Hint::After(_)) if policy.hint().mode == HintMode::Ignore => None,
            Some(Hint::After(asked) | Hint::Pushback(asked)) => Some(asked),
            Some(Hint::Stop) | None => None,
        };
        let others_run = race.running & !bit(number) != 0;
        if outcome.class.is_failure() {
            let stops = outcome.hint == Some(Hint::Stop) || !self.may_follow(policy, &outcome);
            // With nothing else to wait for it is the retry that waits, by all of its rules.
            if stops || (asked.is_some() && !others_run) {
                race.close();
            }
        }
        match race.ended(number, outcome.class, now) {
            RaceEnd::Late => None,
            RaceEnd::GoesOn => {
                if let Some(asked) = asked {
                    race.hold_until(now.plus(asked));
                }
                self.take_in(policy, shared, &outcome, moment.now);
                None
            }
            RaceEnd::Decided => {
                self.count_losers(race.running());
                Some(self.decide(policy, shared, outcome, moment))
            }
        }
    }
}

/// A race has no meaning without a clock: where none is known, none passes.
fn known(moment: Moment) -> Timestamp {
    moment.now.unwrap_or(Timestamp::ZERO)
}

const fn bit(number: u32) -> u64 {
    match 1u64.checked_shl(number) {
        Some(bit) => bit,
        None => 0,
    }
}
