//! All that calls share, put together: what each part is told, and in which order it is asked.

use alloc::vec::Vec;

use crate::{
    AdaptiveRate, Breaker, Budget, Bulkhead, Class, Entry, Limiter, Moment, Outcome, Permit, Place, Priority,
    Reason, Reservation, Shared, Source, Stake, Start, Throttle, Ticket, Timestamp, Turn,
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

    /// Does something with the adaptive rate.
    fn adaptive<R>(&mut self, with: impl FnOnce(&mut AdaptiveRate) -> R) -> Option<R>;

    /// Does something with the bulkhead.
    fn bulkhead<R>(&mut self, with: impl FnOnce(&mut Bulkhead) -> R) -> Option<R>;
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
}

/// What one call holds of what calls share. It goes with its [`Call`](crate::Call), and is given back by
/// [`Share::end`].
#[derive(Debug, Default)]
#[must_use = "what is not given back is lost to the others"]
pub struct Held {
    priority: Priority,
    /// Whether the budgets know of the call.
    begun: bool,
    /// Whether the next attempt is a retry.
    retry: bool,
    stakes: [Stake; MAX_BUDGETS],
    /// What the attempt that runs was admitted with.
    permit: Option<Permit>,
    place: Option<Place>,
    /// Whether an attempt runs.
    running: bool,
    /// What the attempt that waits to be admitted has already: the throttle's word, a turn, a token, a number.
    let_pass: bool,
    turn: Option<Reservation>,
    paced: bool,
    ticket: Option<Ticket>,
    refused_by: Option<u8>,
}

impl Held {
    /// Nothing yet, for a call of this priority.
    pub fn new(priority: Priority) -> Self {
        Self { priority, ..Self::default() }
    }

    /// What a hedge holds, for a call of this priority: it is no call of its own, so that no budget grows by it, but it
    /// costs what a retry costs and is admitted as one. Ask [`withdraw`](Shared::withdraw) first, then
    /// [`admit`](Shared::admit).
    pub fn of_hedge(priority: Priority) -> Self {
        Self { begun: true, retry: true, ..Self::new(priority) }
    }

    /// How much the call matters.
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether its end may depend on when it comes: an attempt runs, or has a word to be told.
    pub const fn is_pending(&self) -> bool {
        self.running || self.let_pass
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
        self.for_each_stake(|budget, stake| budget.settle(outcome, stake, now));
        if let Some(permit) = self.held.permit.take() {
            self.parts.breaker(|breaker| breaker.settle(permit, outcome, now));
        }
        self.held.running = false;
        self.parts.throttle(|throttle| throttle.settle(outcome, now));
        // Of what came to no answer it is told nothing.
        if !matches!(outcome.class, Class::Cancelled | Class::NotSent) {
            self.parts.adaptive(|rate| rate.update(outcome.class == Class::Throttled, now));
        }
        self.leave();
    }

    #[inline]
    fn admit(&mut self, moment: Moment) -> Start {
        let now = known(moment.now);
        if !core::mem::replace(&mut self.held.begun, true) {
            for (index, stake) in self.held.stakes.iter_mut().enumerate() {
                if self.parts.counts_calls(index) {
                    self.parts.budget(index, |budget| budget.begin(stake, now));
                }
            }
        }
        let permit = match self.parts.breaker(|breaker| breaker.admit(now)) {
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
        self.held.permit = permit;
        self.held.running = true;
        // What it waited for is spent.
        (self.held.let_pass, self.held.turn, self.held.paced) = (false, None, false);
        self.held.stakes.iter_mut().for_each(Stake::start);
        Start::Go
    }

    #[inline]
    fn ready_at(&mut self, now: Option<Timestamp>) -> Option<Timestamp> {
        self.parts.breaker(|breaker| breaker.ready_at(known(now))).flatten()
    }

    fn withdraw(&mut self, outcome: &Outcome, now: Option<Timestamp>) -> Result<(), Reason> {
        let now = known(now);
        let Held { stakes, priority, .. } = &mut *self.held;
        let refused_by = stakes.iter_mut().enumerate().find_map(|(index, stake)| {
            let class = outcome.class;
            let granted = self.parts.budget(index, |budget| budget.withdraw(class, *priority, stake, now));
            (granted == Some(false)).then_some(index)
        });
        if let Some(index) = refused_by {
            // Those before get back what they gave: a retry that does not happen costs nobody anything.
            self.held.refused_by = u8::try_from(index).ok();
            self.for_each_stake(Budget::put_back);
            return Err(Reason::BudgetExhausted);
        }
        self.held.retry = true;
        Ok(())
    }
}

impl<P: Parts> Share<'_, P> {
    /// The call ends, however it does: all that it holds is given back. An attempt that still runs has come to nothing.
    pub fn end(&mut self, now: Timestamp) {
        for (index, stake) in self.held.stakes.iter_mut().enumerate() {
            if stake.holds() {
                let stake = core::mem::take(stake);
                self.parts.budget(index, |budget| budget.end(stake));
            }
        }
        if let Some(permit) = self.held.permit.take() {
            self.parts.breaker(|breaker| breaker.abandon(permit, now));
        }
        if self.held.is_pending() {
            self.parts.throttle(|throttle| throttle.settle(&Outcome::of(Class::Cancelled), now));
        }
        if let Some(turn) = self.held.turn.take() {
            self.parts.limiter(|limiter| limiter.cancel(turn));
        }
        if let Some(ticket) = self.held.ticket.take() {
            self.parts.bulkhead(|bulkhead| bulkhead.give_up(ticket));
        }
        self.leave();
        let held = &mut *self.held;
        (held.begun, held.retry, held.running, held.let_pass, held.paced) =
            (false, false, false, false, false);
    }

    fn admit_by_rates(&mut self, moment: Moment) -> Start {
        let now = known(moment.now);
        if !self.held.let_pass {
            if self.parts.throttle(|throttle| throttle.admit(now, moment.entropy)) == Some(false) {
                return Start::Stop { reason: Reason::RateLimited };
            }
            self.held.let_pass = true;
        }
        if self.held.turn.is_none() {
            self.held.turn = self.parts.limiter(|limiter| limiter.reserve(1, now));
        }
        match &self.held.turn {
            Some(turn) if turn.turn() == Turn::Refused => {
                return Start::Stop { reason: Reason::RateLimited };
            }
            Some(turn) if turn.at() > now => return wait_until(turn.at(), now),
            _ => {}
        }
        if !self.held.paced {
            if let Some(Err(after)) = self.parts.adaptive(|rate| rate.acquire(1, now)) {
                return Start::Wait { after, source: Source::Limiter };
            }
            self.held.paced = true;
        }
        let (ticket, retry) = (self.held.ticket.take(), self.held.retry);
        let entry = self.parts.bulkhead(|bulkhead| match ticket {
            Some(ticket) => bulkhead.claim(ticket, now),
            None => bulkhead.enter(retry, now),
        });
        match entry {
            None => Start::Go,
            Some(Entry::In(place)) => {
                self.held.place = Some(place);
                Start::Go
            }
            // A driver that hears of a place asks again earlier.
            Some(Entry::Queued(ticket)) => {
                let until = ticket.until();
                self.held.ticket = Some(ticket);
                wait_until(until, now)
            }
            Some(Entry::Full) => Start::Stop { reason: Reason::BulkheadFull },
        }
    }

    /// Gives the place in the bulkhead back.
    fn leave(&mut self) {
        if let Some(place) = self.held.place.take() {
            self.parts.bulkhead(|bulkhead| bulkhead.leave(place));
        }
    }

    #[inline]
    fn for_each_stake(&mut self, mut tell: impl FnMut(&mut Budget, &mut Stake)) {
        for (index, stake) in self.held.stakes.iter_mut().enumerate() {
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
