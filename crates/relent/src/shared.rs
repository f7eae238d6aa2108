//! What calls share, behind locks: the pure state machines of the core, made fit for threads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use relent_core::{
    AdaptiveRate, BackoffMemory, Breaker, Budget, Bulkhead, HedgePolicy, Held, Latencies, Limiter, Moment,
    News, Outcome, Pace, Parts, Priority, Reason, Reservation, Share, Shared, Standing, Start, Throttle,
    Timestamp,
};

use crate::health::Pass;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::{Clock, Token};

/// A part of the shared state that several may look at, and change: cheap to clone, and locked only for as long as a
/// look takes.
///
/// A budget or a breaker that several retriers share is made with [`Locked::new`] and given to each of them; those that a
/// target has of its own are [lent](crate::Target::breaker) by it.
///
/// ```
/// use relent::{Budget, Locked, Quota, Timestamp};
///
/// let budget = Locked::new(Budget::new(Quota::new(500, 5))?);
/// assert_eq!(budget.with(|budget| budget.balance(Timestamp::ZERO)), 500_000);
/// # Ok::<(), relent::PolicyError>(())
/// ```
pub struct Locked<T: Part>(Arc<Kept<T>>);

struct Kept<T: Part> {
    /// How the part stands, as it was when it was last unlocked: what is to be known of it without the lock.
    standing: AtomicU64,
    terms: T::Terms,
    part: Mutex<T>,
}

/// What can be shared: the core's state machines.
pub trait Part: fmt::Debug {
    /// What never changes about it, and is to be known without the lock.
    #[doc(hidden)]
    type Terms: Copy + Send + Sync;

    #[doc(hidden)]
    fn terms(&self) -> Self::Terms;

    /// How it stands, in one word, for those who need not ask.
    #[doc(hidden)]
    fn standing(&self, terms: &Self::Terms) -> u64;

    /// Takes the word over when it is locked, where those who do not lock it change that.
    #[doc(hidden)]
    #[inline]
    fn resume(&mut self, _standing: &AtomicU64) {}
}

impl Part for Breaker {
    type Terms = ();

    fn terms(&self) {}

    #[inline]
    fn standing(&self, (): &()) -> u64 {
        self.standing().to_bits()
    }

    #[inline]
    fn resume(&mut self, standing: &AtomicU64) {
        let kept = self.standing();
        if kept.room() > 0 {
            let closed = kept.without_room().to_bits();
            self.resume(Standing::from_bits(standing.swap(closed, Ordering::AcqRel)));
        }
    }
}

impl Part for Budget {
    type Terms = ();

    fn terms(&self) {}

    #[inline]
    fn standing(&self, (): &()) -> u64 {
        self.is_at_rest().into()
    }
}

/// The word is all that it has granted, and its own while it is not locked: turns are taken by it.
impl Part for Limiter {
    type Terms = Option<Pace>;

    fn terms(&self) -> Option<Pace> {
        self.pace()
    }

    #[inline]
    fn standing(&self, terms: &Option<Pace>) -> u64 {
        // Another limiter may have been put in its place.
        let paid_at = self.paid_at().filter(|_| *terms == self.pace() && terms.is_some());
        paid_at.unwrap_or(TO_BE_ASKED)
    }

    #[inline]
    fn resume(&mut self, standing: &AtomicU64) {
        // Where it is to be asked all the time nobody else writes.
        if standing.load(Ordering::Relaxed) != TO_BE_ASKED {
            let paid_at = standing.swap(TO_BE_ASKED, Ordering::AcqRel);
            self.resume(paid_at);
        }
    }
}

/// The word of a limiter that is locked, or has to be.
const TO_BE_ASKED: u64 = u64::MAX;

/// Of these, each call has to ask.
macro_rules! always_asked {
    ($($part:ty),*) => {$(
        impl Part for $part {
            type Terms = ();

            fn terms(&self) {}

            #[inline]
            fn standing(&self, (): &()) -> u64 {
                0
            }
        }
    )*};
}

always_asked!(Throttle, AdaptiveRate, Bulkhead, Latencies, BackoffMemory);

impl<T: Part> Locked<T> {
    /// A part of its own.
    pub fn new(part: T) -> Self {
        let terms = part.terms();
        let standing = AtomicU64::new(part.standing(&terms));
        Self(Arc::new(Kept { standing, terms, part: Mutex::new(part) }))
    }

    /// Does something with it. Nobody else can meanwhile: do nothing here that takes time.
    #[inline]
    pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.look().part)
    }

    #[inline]
    fn look(&self) -> Look<'_, T> {
        let Kept { standing, terms, part } = &*self.0;
        // The state machines do not panic, and a look that did has left whole what it looked at.
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        part.resume(standing);
        Look { part, terms, standing }
    }

    #[inline]
    fn word(&self) -> u64 {
        self.0.standing.load(Ordering::Acquire)
    }
}

impl Locked<Breaker> {
    /// How it stands, without locking it.
    #[inline]
    pub(crate) fn standing(&self) -> Standing {
        Standing::from_bits(self.word())
    }

    /// Counts the success of an attempt that began without asking, without locking it. False where it is to be told.
    #[inline]
    pub(crate) fn take_success(&self, began: Standing) -> bool {
        let word = &self.0.standing;
        let mut standing = self.standing();
        while let Some(taken) = standing.take_success(began) {
            let (from, to) = (standing.to_bits(), taken.to_bits());
            match word.compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(changed) => standing = Standing::from_bits(changed),
            }
        }
        false
    }
}

impl Locked<Budget> {
    /// Whether the success of a first attempt changes nothing, without locking it.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.word() != 0
    }
}

impl Locked<Limiter> {
    /// Takes `permits` turns if they can be had at `now`, as [`Limiter::try_acquire`] does, but without the lock where a
    /// turn takes whole nanoseconds; there it goes by this time alone, whatever later ones others have asked at.
    #[inline]
    pub fn try_acquire(&self, permits: u32, now: Timestamp) -> bool {
        match self.grant(permits, now) {
            Some(granted) => granted.is_some(),
            None => self.with(|limiter| limiter.try_acquire(permits, now)),
        }
    }

    /// Takes `permits` turns for now or for later, as [`Limiter::reserve`] does, but without the lock where they can be had
    /// now and a turn takes whole nanoseconds.
    #[inline]
    pub fn reserve(&self, permits: u32, now: Timestamp) -> Reservation {
        match (self.0.terms, self.grant(permits, now).flatten()) {
            (Some(pace), Some(granted)) => pace.reservation(granted, permits, now),
            _ => self.with(|limiter| limiter.reserve(permits, now)),
        }
    }

    /// Takes turns by the word alone, if they can be had now; none where the limiter has to be asked.
    #[inline]
    fn grant(&self, permits: u32, now: Timestamp) -> Option<Option<u64>> {
        let Kept { standing, terms, .. } = &*self.0;
        let pace = terms.as_ref()?;
        let mut word = standing.load(Ordering::Relaxed);
        while word != TO_BE_ASKED {
            let granted = pace.grant(word, permits, now).filter(|granted| *granted != TO_BE_ASKED);
            let Some(granted) = granted else { return Some(None) };
            match standing.compare_exchange_weak(word, granted, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Some(granted)),
                Err(changed) => word = changed,
            }
        }
        None
    }
}

/// A look at a part. What it has made of it is known before the next one begins.
struct Look<'a, T: Part> {
    part: MutexGuard<'a, T>,
    terms: &'a T::Terms,
    standing: &'a AtomicU64,
}

impl<T: Part> Drop for Look<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let standing = self.part.standing(self.terms);
        // In health nothing is written, so that threads which only read need not fetch it again.
        if standing != self.standing.load(Ordering::Relaxed) {
            self.standing.store(standing, Ordering::Release);
        }
    }
}

impl<T: Part> Clone for Locked<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Part> fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}

/// What the calls to one target share.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) breaker: Option<Locked<Breaker>>,
    pub(crate) budgets: Vec<Locked<Budget>>,
    /// Which of them have to be told when a call begins, a bit each.
    pub(crate) counting: u8,
    pub(crate) throttle: Option<Locked<Throttle>>,
    pub(crate) limiter: Option<Locked<Limiter>>,
    pub(crate) adaptive: Option<Locked<AdaptiveRate>>,
    pub(crate) bulkhead: Option<Locked<Bulkhead>>,
    pub(crate) bells: Bells,
    pub(crate) latencies: Option<Locked<Latencies>>,
    pub(crate) memory: Option<Locked<BackoffMemory>>,
    /// How calls are hedged, if they are.
    pub(crate) hedge: Option<HedgePolicy>,
    /// Whether all of it can be known without asking while it is in health.
    pub(crate) can_rest: bool,
    /// Whether nobody, the policy included, has to know then when an attempt begins.
    pub(crate) is_timeless: bool,
    /// Whether any of them needs to know the time.
    pub(crate) needs_clock: bool,
    /// Who has it somewhere else too.
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
}

/// Has what calls share somewhere else too, such as in a file that several processes read and write.
///
/// A call asks the shared state a few times: when it begins, before and after each attempt, at its end. Each time it has
/// the keeper [`fetch`](Self::fetch) before and [`store`](Self::store) after, in pairs and on one thread. What is fetched
/// is put into the [`Locked`] parts that the retrier was built with.
pub trait Keeper: fmt::Debug + Send + Sync {
    /// Brings the parts up to date, and keeps others from changing them.
    fn fetch(&self);

    /// Keeps what has become of them, and lets others have them again.
    fn store(&self);
}

/// One bell for each who waits in the bulkhead's queue, by their numbers. It rings when it is their turn.
#[derive(Debug, Default)]
pub(crate) struct Bells(Mutex<BTreeMap<u64, Token>>);

impl Bells {
    /// Keeps a bell for each who waits, and says which have to ring. It is told under the bulkhead's lock, so that nobody
    /// is in the queue without a bell while a place becomes free.
    fn follow(&self, bulkhead: &Bulkhead) -> Vec<Token> {
        let mut bells = self.lock();
        let mut kept = std::mem::take(&mut *bells);
        let mut rung = Vec::new();
        for (number, turn) in bulkhead.queue() {
            // One that has rung for nothing is worn.
            let old = kept.remove(&number).filter(|bell| turn || !bell.is_cancelled());
            let bell = old.unwrap_or_default();
            if turn {
                rung.push(bell.clone());
            }
            bells.insert(number, bell);
        }
        rung
    }

    fn of(&self, number: u64) -> Option<Token> {
        self.lock().get(&number).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each part is locked by itself and for a moment: who waits for one keeps nobody from another.
impl Parts for &State {
    #[inline]
    fn breaker<R>(&mut self, with: impl FnOnce(&mut Breaker) -> R) -> Option<R> {
        self.breaker.as_ref().map(|part| part.with(with))
    }

    #[inline]
    fn budget<R>(&mut self, index: usize, with: impl FnOnce(&mut Budget) -> R) -> Option<R> {
        self.budgets.get(index).map(|part| part.with(with))
    }

    #[inline]
    fn counts_calls(&self, index: usize) -> bool {
        self.counting & 1 << index != 0
    }

    #[inline]
    fn throttle<R>(&mut self, with: impl FnOnce(&mut Throttle) -> R) -> Option<R> {
        self.throttle.as_ref().map(|part| part.with(with))
    }

    #[inline]
    fn limiter<R>(&mut self, with: impl FnOnce(&mut Limiter) -> R) -> Option<R> {
        self.limiter.as_ref().map(|part| part.with(with))
    }

    #[inline]
    fn turn(&mut self, now: Timestamp) -> Option<Reservation> {
        self.limiter.as_ref().map(|limiter| limiter.reserve(1, now))
    }

    #[inline]
    fn adaptive<R>(&mut self, with: impl FnOnce(&mut AdaptiveRate) -> R) -> Option<R> {
        self.adaptive.as_ref().map(|part| part.with(with))
    }

    #[inline]
    fn bulkhead<R>(&mut self, with: impl FnOnce(&mut Bulkhead) -> R) -> Option<R> {
        let (result, rung) = self.bulkhead.as_ref()?.with(|bulkhead| {
            let waited = bulkhead.has_queue();
            let result = with(bulkhead);
            let changed = waited || bulkhead.has_queue();
            (result, if changed { self.bells.follow(bulkhead) } else { Vec::new() })
        });
        // Unlocked: who knows what a waker does.
        rung.iter().for_each(Token::cancel);
        Some(result)
    }

    #[inline]
    fn latencies<R>(&mut self, with: impl FnOnce(&mut Latencies) -> R) -> Option<R> {
        self.latencies.as_ref().map(|part| part.with(with))
    }

    #[inline]
    fn memory<R>(&mut self, with: impl FnOnce(&mut BackoffMemory) -> R) -> Option<R> {
        self.memory.as_ref().map(|part| part.with(with))
    }
}

/// One call's membership among those that share a target: what [`relent_core::Call`] asks, for drivers of one's own.
///
/// It holds whatever the call was admitted with: a probe's place, a bulkhead's, a turn, a budget's tokens. Dropped at any
/// moment (with its future, by a panic, after an outcome) it gives back what must come back.
///
/// ```
/// use relent::{BulkheadPolicy, Class, Policy, Reason, Retrier};
/// use relent_core::{Call, Moment, News, Outcome, Shared, Start};
///
/// let retrier = Retrier::new(Policy::default()).bulkhead(BulkheadPolicy::new(1)).build()?;
/// let target = retrier.at("host:443");
/// let clock = relent::testing::Clock::new();
/// let (mut first, mut second) = (target.join(clock.clone()), target.join(clock));
///
/// let moment = Moment::timeless(0);
/// assert_eq!(first.admit(moment), Start::Go);
/// assert_eq!(second.admit(moment), Start::Stop { reason: Reason::BulkheadFull });
/// drop(first);
/// assert_eq!(second.admit(moment), Start::Go);
/// second.settle(&Outcome::of(Class::Success), None);
/// # Ok::<(), relent::PolicyError>(())
/// ```
#[must_use = "what it holds is given back when it is dropped"]
pub struct Member<T: Clock> {
    pub(crate) state: Arc<State>,
    pub(crate) held: Held,
    /// Tells when it is dropped.
    clock: T,
}

impl<T: Clock> Member<T> {
    pub(crate) fn new(state: Arc<State>, clock: T) -> Self {
        Self { state, held: Held::default(), clock }
    }

    /// For a call whose first attempt began without asking.
    pub(crate) fn passed(state: Arc<State>, pass: Pass, clock: T) -> Self {
        let permit = state.breaker.is_some().then(|| pass.permit());
        Self { state, held: Held::passed(permit, pass.began()), clock }
    }

    /// The same for a call of this priority, before anything was asked.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.held = Held::new(priority);
        self
    }

    /// The same call's part in another attempt.
    pub(crate) fn beside(&self, held: Held) -> Self {
        Self { state: Arc::clone(&self.state), held, clock: self.clock.clone() }
    }

    /// What is cancelled when it is the call's turn in the bulkhead's queue, if it waits there: then it is to ask again. A
    /// bell that has rung for nothing is replaced when it does.
    pub fn turn(&self) -> Option<Token> {
        self.state.bells.of(self.held.queued()?)
    }

    /// What there is to tell of the breaker and the budgets since this was asked last: once.
    pub fn news(&mut self) -> News {
        self.held.news()
    }

    /// Which budget refused the last retry, by its index.
    pub fn refused_by(&self) -> Option<usize> {
        self.held.refused_by()
    }

    pub(crate) fn needs_clock(&self) -> bool {
        self.state.needs_clock
    }

    fn share<R>(&mut self, ask: impl FnOnce(&mut Share<'_, &State>) -> R) -> R {
        let keeper = self.state.keeper.as_deref();
        keeper.inspect(|keeper| keeper.fetch());
        let answer = ask(&mut Share { parts: &mut &*self.state, held: &mut self.held });
        keeper.inspect(|keeper| keeper.store());
        answer
    }
}

/// Never inlined: most calls share nothing, and should not carry this with them.
impl<T: Clock> Shared for Member<T> {
    #[inline]
    fn priority(&self) -> Priority {
        self.held.priority()
    }

    #[inline(never)]
    fn settle(&mut self, outcome: &Outcome, now: Option<Timestamp>) {
        self.share(|share| share.settle(outcome, now));
    }

    #[inline(never)]
    fn succeed(&mut self, clock: &dyn Fn() -> Option<Timestamp>) {
        self.share(|share| share.succeed(clock));
    }

    #[inline(never)]
    fn admit(&mut self, moment: Moment) -> Start {
        self.share(|share| share.admit(moment))
    }

    #[inline(never)]
    fn step(&mut self, now: Option<Timestamp>) -> u32 {
        self.share(|share| share.step(now))
    }

    #[inline(never)]
    fn ready_at(&mut self, now: Option<Timestamp>) -> Option<Timestamp> {
        self.share(|share| share.ready_at(now))
    }

    #[inline(never)]
    fn withdraw(&mut self, outcome: &Outcome, now: Option<Timestamp>) -> Result<(), Reason> {
        self.share(|share| share.withdraw(outcome, now))
    }

    #[inline(never)]
    fn hedge(&mut self, outcome: &Outcome, moment: Moment) -> Result<(), Reason> {
        self.share(|share| share.hedge(outcome, moment))
    }
}

impl<T: Clock> Drop for Member<T> {
    fn drop(&mut self) {
        let now = if self.held.is_pending() { self.clock.now() } else { Timestamp::ZERO };
        self.share(|share| share.end(now));
    }
}

impl<T: Clock> fmt::Debug for Member<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("held", &self.held).finish_non_exhaustive()
    }
}
