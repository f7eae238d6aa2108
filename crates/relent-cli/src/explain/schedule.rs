//! What a policy does when every attempt fails: each wait's range and mean, how far calls come, the worst case.
//!
//! Nothing here computes a wait: ranges come from [`Backoff::range`], and whatever depends on the waits before it, on
//! a hint or on the deadline is found by letting the core decide thousands of calls.

use std::time::Duration;

use relent_core::{
    Alone, Backoff, Bound, Call, Class, Decision, Hint, HintMode, Jitter, Memory, Moment, OnDeadline,
    Outcome, Policy, Reason, Schedule, Start, Timestamp, entropy,
};

/// What is assumed about the calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumptions {
    /// How the attempts fail.
    pub(crate) class: Class,
    /// What the server asks for each time.
    pub(crate) retry_after: Option<Duration>,
    /// How long a failing attempt takes.
    pub(crate) latency: Duration,
    /// The share of attempts that fail, each independently of the others.
    pub(crate) failure_rate: Option<f64>,
    /// How many attempts are listed.
    pub(crate) rows: usize,
}

/// What a policy does under these assumptions.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The attempts, up to the number of rows asked for.
    pub(crate) attempts: Vec<Planned>,
    /// How many attempts there are at most; none: no limit, or more than were looked at.
    pub(crate) calls: Option<u32>,
    /// How many attempts a call makes on average when all fail; infinite: no limit, or more than were looked at.
    pub(crate) mean_calls: f64,
    /// All waits of a call together, before any deadline; none: no end.
    pub(crate) waits: Option<Span>,
    /// The same at most, if the server each time asks for the longest wait that is obeyed; none: hints change nothing.
    pub(crate) waits_if_asked: Option<Duration>,
    /// The longest that a call can take, unless the server asks for waits; none: nothing limits it.
    pub(crate) worst: Option<Duration>,
    /// The longest single wait of the attempts that were looked at.
    pub(crate) longest_wait: Duration,
    /// The share of calls that come to the last attempt when all fail.
    pub(crate) last_reached: f64,
    /// Why most of the calls end whose attempts all fail; none: they do not, as far as was looked.
    pub(crate) ends: Option<Reason>,
    /// How often an attempt is made per call, at the failure rate assumed; infinite as above.
    pub(crate) load: Option<f64>,
    /// Whether means are exact, or drawn.
    pub(crate) exact: bool,
}

/// One attempt of a [`Plan`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// From 1.
    pub(crate) number: u32,
    /// The wait before it.
    pub(crate) wait: Span,
    /// From the start of the call to the start of the attempt.
    pub(crate) since_start: Span,
    /// The share of calls that come to it when all attempts fail: below 1 where a deadline ends some before.
    pub(crate) reached: f64,
    /// The share of calls that have succeeded with it or before, and what it alone adds.
    pub(crate) success: Option<Success>,
}

/// See [`Planned::success`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Success {
    pub(crate) by_now: f64,
    pub(crate) gain: f64,
}

/// The bounds of a time and its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) lowest: Duration,
    pub(crate) mean: Duration,
    pub(crate) highest: Duration,
}

impl Span {
    fn plus(self, other: Self) -> Self {
        Self {
            lowest: self.lowest.saturating_add(other.lowest),
            mean: self.mean.saturating_add(other.mean),
            highest: self.highest.saturating_add(other.highest),
        }
    }

    fn exactly(time: Duration) -> Self {
        Self { lowest: time, mean: time, highest: time }
    }
}

/// How many calls are drawn, and how many of their attempts at most, so that the answer comes at once.
pub(crate) const DRAWS: u32 = 10_000;
const MOST_ATTEMPTS_DRAWN: u64 = 200_000;
/// How many attempts of one call are looked at, wait by wait.
pub(crate) const LONGEST_CALL: u32 = 10_000;
/// How many attempts of one call are looked at where a deadline is to end it.
pub(crate) const LONGEST_DRAWN: u32 = 1_000_000;
/// The draws are the same each time, so that the same question has the same answer.
pub(crate) const SEED: u64 = 1;

impl Plan {
    pub(crate) fn of(policy: &Policy, assumed: &Assumptions) -> Self {
        let series = Series::of(policy, assumed);
        let drawn = Drawn::of(policy, assumed, &series);
        let attempts = planned(&series, &drawn, assumed);
        let load = assumed.failure_rate.map(|rate| load(&drawn, rate));
        Self {
            calls: series.limit,
            mean_calls: drawn.mean_calls(),
            waits: series.limit.map(|_| series.total()),
            waits_if_asked: if_asked(policy, &series, assumed),
            worst: worst(policy, &series),
            longest_wait: series.waits.iter().map(|wait| wait.highest).max().unwrap_or_default(),
            last_reached: drawn.reached(series.waits.len()),
            ends: drawn.usual_end(),
            load,
            exact: series.exact,
            attempts,
        }
    }

    /// How many attempts there are that are not listed; none: nobody knows.
    pub(crate) fn unlisted(&self) -> Option<u32> {
        let listed = u32::try_from(self.attempts.len()).unwrap_or(u32::MAX);
        Some(self.calls?.saturating_sub(listed))
    }
}

/// The waits of a call that nothing but the number of attempts ends.
struct Series {
    /// The wait before the first attempt.
    spread: Span,
    /// The wait after each failed attempt.
    waits: Vec<Span>,
    /// How many attempts there are; none: more than were looked at.
    limit: Option<u32>,
    exact: bool,
}

impl Series {
    fn of(policy: &Policy, assumed: &Assumptions) -> Self {
        let endless = without_deadline(policy);
        let backoff = backoff_in_use(policy, assumed);
        let exact = midpoint_is_mean(backoff) && assumed.retry_after.is_none();
        let most = match policy.max_attempts() {
            Some(limit) => limit.min(LONGEST_CALL),
            None => assumed.rows.try_into().unwrap_or(u32::MAX).min(LONGEST_CALL),
        };
        let (mut waits, limit) = extremes(&endless, assumed, most);
        if exact {
            for (n, wait) in (1..).zip(&mut waits) {
                *wait = exact_span(backoff, n);
            }
        } else {
            draw_means(&endless, assumed, &mut waits);
        }
        Self { spread: spread(policy), waits, limit, exact }
    }

    fn total(&self) -> Span {
        self.waits.iter().copied().fold(self.spread, Span::plus)
    }
}

/// The waits' bounds. Every wait grows with its random number; those that remember also depend on the one before,
/// some rising with it and some falling, so the bounds lie at one of its two ends.
fn extremes(policy: &Policy, assumed: &Assumptions, most: u32) -> (Vec<Span>, Option<u32>) {
    let (mut early, mut late) = (Path::begin(assumed), Path::begin(assumed));
    let mut waits = Vec::new();
    while early.attempts() < most {
        let mut candidates = [early, early, late, late];
        let rolls = [0, u64::MAX, 0, u64::MAX];
        let mut found =
            candidates.iter_mut().zip(rolls).filter_map(|(path, roll)| path.fail(policy, roll).ok());
        let Some(first) = found.next() else { return (waits, Some(early.attempts() + 1)) };
        let bounds = found.fold((first, first), |(low, high), wait| (low.min(wait), high.max(wait)));
        waits.push(Span { lowest: bounds.0, mean: bounds.0, highest: bounds.1 });
        [early, _, _, late] = candidates;
    }
    let ended = early.fail(policy, 0).is_err();
    (waits, ended.then_some(most))
}

fn spread(policy: &Policy) -> Span {
    let at = |roll| match Call::new(Some(Timestamp::ZERO)).start(
        policy,
        &mut Alone,
        Moment::at(Timestamp::ZERO, roll),
    ) {
        Start::Wait { after, .. } => after,
        Start::Go | Start::Stop { .. } => Duration::ZERO,
    };
    Span { lowest: at(0), mean: at(u64::MAX / 2), highest: at(u64::MAX) }
}

fn exact_span(backoff: &Backoff, n: u32) -> Span {
    let range = backoff.range(n, Duration::ZERO, Memory::default());
    let mean = range.lowest + (range.highest - range.lowest) / 2;
    Span { lowest: range.lowest, mean, highest: range.highest }
}

fn draw_means(policy: &Policy, assumed: &Assumptions, waits: &mut [Span]) {
    let draws = draws_for(waits.len());
    let mut sums = vec![0u128; waits.len()];
    for client in 0..draws {
        let mut path = Path::begin(assumed);
        for (sum, bounds) in sums.iter_mut().zip(waits.iter_mut()) {
            let Ok(wait) = path.fail(policy, path.roll(client)) else { break };
            *sum += wait.as_nanos();
            // What stages wait depends on the time, so that the ends need not be the extremes.
            bounds.lowest = bounds.lowest.min(wait);
            bounds.highest = bounds.highest.max(wait);
        }
    }
    for (wait, sum) in waits.iter_mut().zip(sums) {
        let mean = u64::try_from(sum / u128::from(draws.max(1))).unwrap_or(u64::MAX);
        wait.mean = Duration::from_nanos(mean);
    }
}

/// How far calls come under the whole policy, deadline included.
struct Drawn {
    /// The share of calls that reach each attempt, from the first.
    reached: Vec<f64>,
    /// How many more attempts follow on those, for a call that has come so far; infinite: no limit, or not looked at.
    beyond: f64,
    ends: Vec<(Option<Reason>, u32)>,
}

impl Drawn {
    fn of(policy: &Policy, assumed: &Assumptions, series: &Series) -> Self {
        if policy.deadline().is_none() {
            return Self::alike(policy, assumed, series);
        }
        let (mut counts, mut ends) = (Vec::new(), Vec::new());
        let (mut draws, mut attempts) = (0u32, 0u64);
        while draws < DRAWS && (attempts < MOST_ATTEMPTS_DRAWN || draws == 0) {
            let (made, reason) = Path::begin(assumed).to_the_end(policy, u64::from(draws), LONGEST_DRAWN);
            let made_at_all = made as usize;
            if counts.len() < made_at_all {
                counts.resize(made_at_all, 0u32);
            }
            counts.iter_mut().take(made_at_all).for_each(|count| *count += 1);
            match ends.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => ends.push((reason, 1)),
            }
            draws += 1;
            attempts += u64::from(made);
        }
        let reached = counts.into_iter().map(|count| f64::from(count) / f64::from(draws)).collect();
        let beyond = if ends.iter().any(|(reason, _)| reason.is_none()) { f64::INFINITY } else { 0.0 };
        Self { reached, beyond, ends }
    }

    /// Without a deadline all calls take the same way.
    fn alike(policy: &Policy, assumed: &Assumptions, series: &Series) -> Self {
        let looked_at = u32::try_from(series.waits.len()).unwrap_or(u32::MAX).saturating_add(1);
        let reached = vec![1.0; looked_at as usize];
        let end = match series.limit {
            Some(limit) => Path::begin(assumed).to_the_end(policy, 0, limit).1,
            None => policy.max_attempts().map(|_| Reason::AttemptsExhausted),
        };
        let limit = series.limit.or(policy.max_attempts());
        let beyond = limit.map_or(f64::INFINITY, |limit| f64::from(limit.saturating_sub(looked_at)));
        Self { reached, beyond, ends: vec![(end, 1)] }
    }

    fn reached(&self, index: usize) -> f64 {
        self.reached.get(index).copied().unwrap_or(0.0)
    }

    fn mean_calls(&self) -> f64 {
        load(self, 1.0)
    }

    fn usual_end(&self) -> Option<Reason> {
        self.ends.iter().max_by_key(|(_, count)| count).and_then(|(reason, _)| *reason)
    }
}

fn planned(series: &Series, drawn: &Drawn, assumed: &Assumptions) -> Vec<Planned> {
    let waits = std::iter::once(&series.spread).chain(&series.waits);
    let mut since_start = Span::default();
    let mut by_now = 0.0;
    let mut failed_before = 1.0;
    let mut attempts = Vec::new();
    for (number, (index, wait)) in (1..).zip(waits.enumerate()).take(assumed.rows) {
        since_start = since_start.plus(*wait);
        if number > 1 {
            since_start = since_start.plus(Span::exactly(assumed.latency));
        }
        let reached = drawn.reached(index);
        let success = assumed.failure_rate.map(|rate| {
            let gain = reached * failed_before * (1.0 - rate);
            by_now += gain;
            failed_before *= rate;
            Success { by_now, gain }
        });
        attempts.push(Planned { number, wait: *wait, since_start, reached, success });
    }
    attempts
}

/// Σ over the attempts of the share of calls that make it.
fn load(drawn: &Drawn, rate: f64) -> f64 {
    let mut failed_before = 1.0;
    let mut load = 0.0;
    for reached in &drawn.reached {
        load += reached * failed_before;
        failed_before *= rate;
    }
    if drawn.beyond == 0.0 || failed_before == 0.0 {
        return load;
    }
    // 1 + rate + rate² + …, as often as there are attempts left.
    let more = if rate == 1.0 { drawn.beyond } else { (1.0 - rate.powf(drawn.beyond)) / (1.0 - rate) };
    load + drawn.reached.last().copied().unwrap_or(1.0) * failed_before * more
}

/// The longest waits of a call whose server asks for as much as is obeyed.
fn if_asked(policy: &Policy, series: &Series, assumed: &Assumptions) -> Option<Duration> {
    let hints = policy.hint();
    series.limit.filter(|limit| *limit > 1)?;
    if assumed.retry_after.is_some() || hints.mode_used() == HintMode::Ignore {
        return None;
    }
    let asked = Assumptions { retry_after: Some(hints.max_wait()), ..*assumed };
    let waits = Series::of(policy, &asked).total().highest;
    (waits > series.total().highest).then_some(waits)
}

/// The longest waits and the longest attempts, or the deadline if that comes before.
fn worst(policy: &Policy, series: &Series) -> Option<Duration> {
    let attempts = series.limit.and_then(|limit| Some(policy.attempt_timeout()?.saturating_mul(limit)));
    let undisturbed = attempts.map(|attempts| attempts.saturating_add(series.total().highest));
    let deadline = policy.deadline().map(|deadline| deadline.usable());
    match (undisturbed, deadline) {
        (Some(undisturbed), Some(deadline)) => Some(undisturbed.min(deadline)),
        (undisturbed, deadline) => undisturbed.or(deadline),
    }
}

/// One call in virtual time whose attempts all fail.
#[derive(Clone, Copy)]
struct Path<'a> {
    call: Call,
    now: Timestamp,
    assumed: &'a Assumptions,
}

impl<'a> Path<'a> {
    fn begin(assumed: &'a Assumptions) -> Self {
        Self { call: Call::new(Some(Timestamp::ZERO)), now: Timestamp::ZERO, assumed }
    }

    fn attempts(&self) -> u32 {
        self.call.attempts()
    }

    /// The random number for the next decision.
    fn roll(&self, client: u64) -> u64 {
        entropy(SEED, client, self.attempts().saturating_add(1))
    }

    /// One more attempt, which fails; then the wait, or the reason why the call ends.
    fn fail(&mut self, policy: &Policy, roll: u64) -> Result<Duration, Reason> {
        let limit = self.call.attempt_limit(policy, self.now).filter(|limit| *limit <= self.assumed.latency);
        let (took, class) = match limit {
            Some(limit) if self.assumed.latency > Duration::ZERO => (limit, Class::Timeout),
            _ => (self.assumed.latency, self.assumed.class),
        };
        self.now = self.now.plus(took);
        let mut outcome = Outcome::of(class);
        if let Some(asked) = self.assumed.retry_after {
            outcome = outcome.hint(Hint::After(asked));
        }
        match self.call.decide(policy, &mut Alone, outcome, Moment::at(self.now, roll)) {
            Decision::Retry { after, .. } => {
                self.now = self.now.plus(after);
                Ok(after)
            }
            Decision::Stop { reason, .. } => Err(reason),
        }
    }

    /// All attempts, and why there are no more; none where only the looking ended, after `longest`.
    fn to_the_end(mut self, policy: &Policy, client: u64, longest: u32) -> (u32, Option<Reason>) {
        if let Start::Wait { after, .. } =
            self.call.start(policy, &mut Alone, Moment::at(self.now, entropy(SEED, client, 0)))
        {
            self.now = self.now.plus(after);
        }
        loop {
            if let Err(reason) = self.fail(policy, self.roll(client)) {
                return (self.attempts(), Some(reason));
            }
            if let Start::Stop { reason } = self.call.admit(policy, &mut Alone, Moment::at(self.now, 0)) {
                return (self.attempts(), Some(reason));
            }
            if self.attempts() >= longest {
                return (self.attempts(), None);
            }
        }
    }
}

fn without_deadline(policy: &Policy) -> Policy {
    let built = policy.to_builder().no_deadline().on_deadline(OnDeadline::Stop).build();
    built.unwrap_or_else(|_| policy.clone())
}

/// The backoff that the assumed failures meet: the policy's, or that of the rule for their class.
pub(crate) fn backoff_in_use<'a>(policy: &'a Policy, assumed: &Assumptions) -> &'a Backoff {
    let timed_out = policy.attempt_timeout().is_some_and(|timeout| timeout <= assumed.latency);
    let class = if timed_out { Class::Timeout } else { assumed.class };
    let rule = policy.rule_for(&Outcome::of(class));
    let own = rule.and_then(|id| policy.rules().get(usize::from(id.0))?.own_backoff());
    own.unwrap_or(policy.backoff())
}

/// Whether a wait is drawn evenly from a range that depends on nothing but its number.
fn midpoint_is_mean(backoff: &Backoff) -> bool {
    let even = match backoff.jitter_used() {
        Jitter::None
        | Jitter::Full
        | Jitter::Equal
        | Jitter::Proportional { .. }
        | Jitter::Additive { .. } => true,
        Jitter::Decorrelated | Jitter::DecorrelatedV2 => false,
        _ => false,
    };
    let own_draw = matches!(backoff.schedule(), Schedule::Stages(_) | Schedule::Csma { .. });
    even && !own_draw && backoff.bound_used() != Bound::Sample
}

fn draws_for(waits: usize) -> u64 {
    let waits = u64::try_from(waits).unwrap_or(u64::MAX).max(1);
    (MOST_ATTEMPTS_DRAWN / waits).clamp(1, u64::from(DRAWS))
}
