//! All that calls share, put together: what each part is told, and in which order it is asked.

use alloc::vec::Vec;

use crate::{
    AdaptiveRate, BackoffMemory, Breaker, BreakerChange, Budget, BudgetRefusal, Bulkhead, Class, Entry,
    Latencies, Limiter, Moment, News, Outcome, Permit, Place, Priority, Reason, Reservation, Shared, Source,
    Stake, Start, Throttle, Ticket, Timestamp, Turn,
};

/// How many budgets a call may draw on: what it holds of each lives beside it.
pub const MAX_BUDGETS: usize = 4;

/// Where the parts of the shared state are, if they are there: in one place ([`Common`]), or each behind a lock of its
/// own.
pub trait Parts {
    /// Does something with the breaker.
    fn breaker<R>(&mut self, with: impl FnOnce(&mut Breaker) -> R) -> Option<R>;

    /// Does something with budget number `index`, below [`MAX_BUDGETS`]; none where there are not so many.
    fn budget<R>(&mut self, index: usize, with: impl FnOnce(&mut Budget) -> R) -> Option<R>;

    /// Whether budget number `index` has to be told when a call begins; asked without locking anything.
    fn counts_calls(&self, index: usize) -> bool;

    /// Does something with the throttle.
    fn throttle<R>(&mut self, with: impl FnOnce(&mut Throttle) -> R) -> Option<R>;

    /// Does something with the rate limit.
    fn limiter<R>(&mut self, with: impl FnOnce(&mut Limiter) -> R) -> Option<R>;

    /// Reserves a turn of the rate limit.
    #[inline]
    fn turn(&mut self, now: Timestamp) -> Option<Reservation> {
        self.limiter(|limiter| limiter.reserve(1, now))
    }

    /// Does something with the adaptive rate.
    fn adaptive<R>(&mut self, with: impl FnOnce(&mut AdaptiveRate) -> R) -> Option<R>;

    /// Does something with the bulkhead.
    fn bulkhead<R>(&mut self, with: impl FnOnce(&mut Bulkhead) -> R) -> Option<R>;

    /// Does something with the latencies that hedges start by.
    fn latencies<R>(&mut self, with: impl FnOnce(&mut Latencies) -> R) -> Option<R>;

    /// Does something with the backoff memory.
    fn memory<R>(&mut self, with: impl FnOnce(&mut BackoffMemory) -> R) -> Option<R>;
}

/// All parts in one place, without locks: for a simulator, or for one thread.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// The circuit breaker.
    pub breaker: Option<Breaker>,
    /// The budgets, in the order in which they are taken from. Those beyond [`MAX_BUDGETS`] are not looked at.
    pub budgets: Vec<Budget>,
    /// The adaptive throttle.
    pub throttle: Option<Throttle>,
    /// The rate limit.
    pub limiter: Option<Limiter>,
    /// The adaptive rate.
    pub adaptive: Option<AdaptiveRate>,
    /// The bulkhead.
    pub bulkhead: Option<Bulkhead>,
    /// The latencies that hedges start by.
    pub latencies: Option<Latencies>,
    /// The backoff memory.
    pub memory: Option<BackoffMemory>,
}

impl Parts for Common {
    #[inline]
    fn breaker<R>(&mut self, with: impl FnOnce(&mut Breaker) -> R) -> Option<R> {
        self.breaker.as_mut().map(with)
    }

    #[inline]
    fn budget<R>(&mut self, index: usize, with: impl FnOnce(&mut Budget) -> R) -> Option<R> {
        self.budgets.get_mut(index).map(with)
    }

    #[inline]
    fn counts_calls(&self, index: usize) -> bool {
        self.budgets.get(index).is_some_and(Budget::counts_calls)
    }

    #[inline]
    fn throttle<R>(&mut self, with: impl FnOnce(&mut Throttle) -> R) -> Option<R> {
        self.throttle.as_mut().map(with)
    }

    #[inline]
    fn limiter<R>(&mut self, with: impl FnOnce(&mut Limiter) -> R) -> Option<R> {
        self.limiter.as_mut().map(with)
    }

    #[inline]
    fn adaptive<R>(&mut self, with: impl FnOnce(&mut AdaptiveRate) -> R) -> Option<R> {
        self.adaptive.as_mut().map(with)
    }

    #[inline]
    fn bulkhead<R>(&mut self, with: impl FnOnce(&mut Bulkhead) -> R) -> Option<R> {
        self.bulkhead.as_mut().map(with)
    }

    #[inline]
    fn latencies<R>(&mut self, with: impl FnOnce(&mut Latencies) -> R) -> Option<R> {
        self.latencies.as_mut().map(with)
    }

    #[inline]
    fn memory<R>(&mut self, with: impl FnOnce(&mut BackoffMemory) -> R) -> Option<R> {
        self.memory.as_mut().map(with)
    }
}

/// What one call holds of what calls share, and its attempt that runs. It goes with its [`Call`](crate::Call), and is
/// given back by [`Share::end`].
#[derive(Debug, Default)]
#[must_use = "what is not given back is lost to the others"]
pub struct Held {
    priority: Priority,
    known: Known,
    refused_by: Option<u8>,
    news: News,
    attempt: Attempt,
}

/// Whether the budgets know of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    NotYet,
    /// And are told here when it ends.
    Yes,
    /// By what the call itself holds; this is what an attempt beside it does.
    Elsewhere,
}

/// What one attempt holds.
#[derive(Debug, Default)]
struct Attempt {
    /// Whether it is a retry, or a hedge.
    retry: bool,
    /// What it took from the budgets.
    stakes: [Stake; MAX_BUDGETS],
    /// What it was admitted with, and when.
    permit: Option<Permit>,
    place: Option<Place>,
    since: Option<Timestamp>,
    /// What it has already while it waits to be admitted: the throttle's word, a turn, a token, a number.
    let_pass: bool,
    turn: Option<Reservation>,
    paced: bool,
    ticket: Option<Ticket>,
}

impl Attempt {
    const fn is_running(&self) -> bool {
        self.since.is_some()
    }
}

impl Held {
    /// Nothing yet, for a call of this priority.
    pub fn new(priority: Priority) -> Self {
        Self { priority, ..Self::default() }
    }

    /// What a call holds whose first attempt began `since` without asking, with the permit of how the breaker stood then
    /// ([`Standing`](crate::Standing)). The budgets that count calls have been told of it.
    pub fn passed(permit: Option<Permit>, since: Timestamp) -> Self {
        let attempt = Attempt { permit, since: Some(since), ..Attempt::default() };
        Self { known: Known::Yes, attempt, ..Self::default() }
    }

    /// What a hedge holds, for a call of this priority: it is no call of its own, so that no budget grows by it, but it
    /// costs what a retry costs and is admitted as one. Ask [`hedge`](Shared::hedge).
    pub fn of_hedge(priority: Priority) -> Self {
        let attempt = Attempt { retry: true, ..Attempt::default() };
        Self { known: Known::Elsewhere, attempt, ..Self::new(priority) }
    }

    /// Takes out what the attempt holds that was admitted last, so that others can run beside it. Each is settled, or
    /// given back by [`Share::end`], by itself.
    pub fn take_attempt(&mut self) -> Self {
        let attempt = core::mem::take(&mut self.attempt);
        Self { known: Known::Elsewhere, attempt, ..Self::new(self.priority) }
    }

    /// Goes on from an attempt that ran beside others: the retry that was granted after it is the call's next attempt.
    pub fn go_on(&mut self, from: Self) {
        (self.refused_by, self.news, self.attempt) = (from.refused_by, from.news, from.attempt);
    }

    /// How much the call matters.
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether its end may depend on when it comes: an attempt runs, or has a word to be told.
    pub const fn is_pending(&self) -> bool {
        self.attempt.is_running() || self.attempt.let_pass
    }

    /// What there is to tell of the breaker and the budgets since this was asked last: once.
    pub fn news(&mut self) -> News {
        core::mem::take(&mut self.news)
    }

    /// The number under which it waits in the bulkhead's queue, if it does.
    pub fn queued(&self) -> Option<u64> {
        self.attempt.ticket.as_ref().map(Ticket::number)
    }

    /// Which budget refused the last retry, by its index.
    pub fn refused_by(&self) -> Option<usize> {
        self.refused_by.map(usize::from)
    }
}

/// One call's share in what calls share: what the decision asks.
///
/// Before an attempt: breaker, throttle, rate limit, adaptive rate, bulkhead, in this order. Whoever refuses makes the
/// others have back what they gave; what delays an attempt keeps its turn for it. After an attempt: all of them, once.
///
/// ```
/// use relent_core::{
///     Breaker, BreakerPolicy, Budget, Call, Class, Common, Decision, Held, Moment, Outcome, Policy, Quota,
///     Reason, Share, Start, Timestamp,
/// };
///
/// let policy = Policy::default();
/// let mut common = Common {
///     breaker: Some(Breaker::new(BreakerPolicy::consecutive(100), 7)?),
///     budgets: vec![Budget::new(Quota::new(10, 5))?],
///     ..Common::default()
/// };
/// let mut held = Held::default();
/// let mut share = Share { parts: &mut common, held: &mut held };
///
/// let moment = Moment::at(Timestamp::ZERO, 0);
/// let mut call = Call::new(moment.now);
/// let failed = Outcome::of(Class::Transient);
/// for _ in 0..2 {
///     assert_eq!(call.admit(&policy, &mut share, moment), Start::Go);
///     assert!(matches!(call.decide(&policy, &mut share, failed, moment), Decision::Retry { .. }));
/// }
/// assert_eq!(call.admit(&policy, &mut share, moment), Start::Go);
/// let decision = call.decide(&policy, &mut share, failed, moment);
/// assert_eq!(decision, Decision::Stop { reason: Reason::BudgetExhausted, after: None });
/// share.end(Timestamp::ZERO);
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Debug)]
pub struct Share<'a, P> {
    /// Where the parts are.
    pub parts: &'a mut P,
    /// What the call holds of them.
    pub held: &'a mut Held,
}

impl<P: Parts> Shared for Share<'_, P> {
    #[inline]
    fn priority(&self) -> Priority {
        self.held.priority
    }

    #[inline]
    fn settle(&mut self, outcome: &Outcome, now: Option<Timestamp>) {
        let now = known(now);
        self.take_in(outcome, now, || now);
    }

    #[inline]
    fn succeed(&mut self, clock: &dyn Fn() -> Option<Timestamp>) {
        let began = known(self.held.attempt.since);
        let mut read = None;
        self.take_in(&Outcome::of(Class::Success), began, || *read.get_or_insert_with(|| known(clock())));
    }

    #[inline]
    fn admit(&mut self, moment: Moment) -> Start {
        let now = known(moment.now);
        if self.held.known == Known::NotYet {
            self.held.known = Known::Yes;
            for index in 0..MAX_BUDGETS {
                if self.parts.counts_calls(index) {
                    self.parts.budget(index, |budget| budget.begin(&mut Stake::default(), now));
                }
            }
        }
        let permit = match self.ask_breaker(|breaker| breaker.admit(now)) {
            Some(Err(_)) => return Start::Stop { reason: Reason::CircuitOpen },
            Some(Ok(permit)) => Some(permit),
            None => None,
        };
        match self.admit_by_rates(moment) {
            Start::Go => {}
            // A probe's place is not for those who wait: they ask again.
            other => {
                if let Some(permit) = permit {
                    self.parts.breaker(|breaker| breaker.release(permit));
                }
                return other;
            }
        }
        let attempt = &mut self.held.attempt;
        (attempt.permit, attempt.since) = (permit, Some(now));
        // What it waited for is spent.
        (attempt.let_pass, attempt.turn, attempt.paced) = (false, None, false);
        attempt.stakes.iter_mut().for_each(Stake::start);
        Start::Go
    }

    #[inline]
    fn step(&mut self, now: Option<Timestamp>) -> u32 {
        self.parts.memory(|memory| memory.step(known(now))).unwrap_or(0)
    }

    #[inline]
    fn ready_at(&mut self, now: Option<Timestamp>) -> Option<Timestamp> {
        self.ask_breaker(|breaker| breaker.ready_at(known(now))).flatten()
    }

    fn withdraw(&mut self, outcome: &Outcome, now: Option<Timestamp>) -> Result<(), Reason> {
        let now = known(now);
        let Held { attempt, priority, .. } = &mut *self.held;
        let refusal = attempt.stakes.iter_mut().enumerate().find_map(|(index, stake)| {
            let class = outcome.class;
            let refused = self.parts.budget(index, |budget| {
                let granted = budget.withdraw(class, *priority, stake, now);
                (!granted).then(|| budget.balance(now))
            });
            let budget = u8::try_from(index).ok()?;
            refused.flatten().map(|balance| BudgetRefusal { budget, balance })
        });
        if let Some(refusal) = refusal {
            // Those before get back what they gave: a retry that does not happen costs nobody anything.
            (self.held.refused_by, self.held.news.budget) = (Some(refusal.budget), Some(refusal));
            self.for_each_stake(Budget::put_back);
            return Err(Reason::BudgetExhausted);
        }
        self.held.attempt.retry = true;
        Ok(())
    }

    fn hedge(&mut self, outcome: &Outcome, moment: Moment) -> Result<(), Reason> {
        self.withdraw(outcome, moment.now)?;
        let reason = match self.admit(moment) {
            Start::Go => return Ok(()),
            Start::Stop { reason } => reason,
            // The attempts that run are waited for already.
            Start::Wait { source: Source::Bulkhead, .. } => Reason::BulkheadFull,
            Start::Wait { .. } => Reason::RateLimited,
        };
        self.abandon(known(moment.now));
        Err(reason)
    }
}

impl<P: Parts> Share<'_, P> {
    /// Takes in an outcome as of `about`, but as of its `end` where that makes a difference.
    #[inline]
    fn take_in(&mut self, outcome: &Outcome, about: Timestamp, mut end: impl FnMut() -> Timestamp) {
        self.for_each_stake(|budget, stake| budget.settle(outcome, stake, about));
        if let Some(permit) = self.held.attempt.permit.take() {
            self.ask_breaker(|breaker| {
                let timed = outcome.class != Class::Success || breaker.times_success(&permit);
                breaker.settle(permit, outcome, if timed { end() } else { about });
            });
        }
        if let Some(since) = self.held.attempt.since.take() {
            self.parts.latencies(|latencies| {
                let now = end();
                latencies.settle(outcome.class, now.since(since), now);
            });
        }
        self.parts.throttle(|throttle| throttle.settle(outcome, about));
        self.parts.memory(|memory| memory.settle(outcome, end()));
        // Of what came to no answer it is told nothing.
        if !matches!(outcome.class, Class::Cancelled | Class::NotSent) {
            self.parts.adaptive(|rate| rate.update(outcome.class == Class::Throttled, end()));
        }
        self.leave();
    }

    /// The call ends, however it does: all that it holds is given back. An attempt that still runs has come to nothing.
    pub fn end(&mut self, now: Timestamp) {
        self.abandon(now);
        if core::mem::take(&mut self.held.known) == Known::Yes {
            for index in 0..MAX_BUDGETS {
                if self.parts.counts_calls(index) {
                    self.parts.budget(index, |budget| budget.end(Stake::of_call()));
                }
            }
        }
    }

    /// The attempt that runs has come to nothing, or the one that waits will not start: all that it holds is given back,
    /// and the call goes on. It counts neither as a success nor as a failure.
    pub fn abandon(&mut self, now: Timestamp) {
        let pending = self.held.is_pending();
        let attempt = &mut self.held.attempt;
        for (index, stake) in attempt.stakes.iter_mut().enumerate() {
            if stake.holds() {
                let stake = core::mem::take(stake);
                self.parts.budget(index, |budget| budget.end(stake));
            }
        }
        if let Some(permit) = attempt.permit.take() {
            self.parts.breaker(|breaker| breaker.abandon(permit, now));
        }
        if let Some(since) = attempt.since.take() {
            self.parts.latencies(|latencies| latencies.record_cut_short(now.since(since), now));
        }
        if let Some(turn) = attempt.turn.take() {
            self.parts.limiter(|limiter| limiter.cancel(turn));
        }
        if let Some(ticket) = attempt.ticket.take() {
            self.parts.bulkhead(|bulkhead| bulkhead.give_up(ticket));
        }
        (attempt.retry, attempt.let_pass, attempt.paced) = (false, false, false);
        if pending {
            self.parts.throttle(|throttle| throttle.settle(&Outcome::of(Class::Cancelled), now));
        }
        self.leave();
    }

    fn admit_by_rates(&mut self, moment: Moment) -> Start {
        let now = known(moment.now);
        let attempt = &mut self.held.attempt;
        if !attempt.let_pass {
            if self.parts.throttle(|throttle| throttle.admit(now, moment.entropy)) == Some(false) {
                return Start::Stop { reason: Reason::RateLimited };
            }
            attempt.let_pass = true;
        }
        if attempt.turn.is_none() {
            attempt.turn = self.parts.turn(now);
        }
        match &attempt.turn {
            Some(turn) if turn.turn() == Turn::Refused => {
                return Start::Stop { reason: Reason::RateLimited };
            }
            Some(turn) if turn.at() > now => return wait_until(turn.at(), now),
            _ => {}
        }
        if !attempt.paced {
            if let Some(Err(after)) = self.parts.adaptive(|rate| rate.acquire(1, now)) {
                return Start::Wait { after, source: Source::Limiter };
            }
            attempt.paced = true;
        }
        let (ticket, retry) = (attempt.ticket.take(), attempt.retry);
        let entry = self.parts.bulkhead(|bulkhead| match ticket {
            Some(ticket) => bulkhead.claim(ticket, now),
            None => bulkhead.enter(retry, now),
        });
        match entry {
            None => Start::Go,
            Some(Entry::In(place)) => {
                attempt.place = Some(place);
                Start::Go
            }
            // A driver that hears of a place asks again earlier.
            Some(Entry::Queued(ticket)) => {
                let after = ticket.until().since(now);
                attempt.ticket = Some(ticket);
                Start::Wait { after, source: Source::Bulkhead }
            }
            Some(Entry::Full) => Start::Stop { reason: Reason::BulkheadFull },
        }
    }

    /// Asks the breaker, and keeps in mind whether that has changed it.
    #[inline]
    fn ask_breaker<R>(&mut self, ask: impl FnOnce(&mut Breaker) -> R) -> Option<R> {
        let (answer, change) = self.parts.breaker(|breaker| {
            let from = breaker.latest_state();
            let answer = ask(breaker);
            let (to, generation) = (breaker.latest_state(), breaker.generation());
            (answer, (from != to).then_some(BreakerChange { from, to, generation }))
        })?;
        if let Some(change) = change {
            // Of several, from where it was to where it is.
            let from = self.held.news.breaker.map_or(change.from, |before| before.from);
            self.held.news.breaker = Some(BreakerChange { from, ..change });
        }
        Some(answer)
    }

    /// Gives the place in the bulkhead back.
    fn leave(&mut self) {
        if let Some(place) = self.held.attempt.place.take() {
            self.parts.bulkhead(|bulkhead| bulkhead.leave(place));
        }
    }

    #[inline]
    fn for_each_stake(&mut self, mut tell: impl FnMut(&mut Budget, &mut Stake)) {
        for (index, stake) in self.held.attempt.stakes.iter_mut().enumerate() {
            if self.parts.budget(index, |budget| tell(budget, stake)).is_none() {
                break;
            }
        }
    }
}

fn wait_until(due: Timestamp, now: Timestamp) -> Start {
    Start::Wait { after: due.since(now), source: Source::Limiter }
}

/// Where no part needs the time, none passes.
fn known(now: Option<Timestamp>) -> Timestamp {
    now.unwrap_or(Timestamp::ZERO)
}
