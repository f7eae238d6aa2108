//! Budgets: what limits retries over all calls.

mod concurrent;
mod quota;
mod token_bucket;
mod window;

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

pub use concurrent::ConcurrentBudget;
use concurrent::UnderWay;
use quota::Left;
pub use quota::Quota;
pub use token_bucket::TokenBucket;
use token_bucket::Tokens;
use window::Recent;
pub use window::WindowBudget;

use crate::policy::refuse;
use crate::{Class, Outcome, PolicyError, Ratio, Timestamp, UnknownWord};

/// What a budget is to be, and what each of its kinds takes and gives.
///
/// A limit on the attempts of one call does not keep a fleet from multiplying its load in an outage: every call fails,
/// so every call makes all of its attempts. A budget is shared by all calls, and is empty after a few.
///
/// | kind | a call begins | success | failure | retry | a retry is allowed while |
/// |---|---|---|---|---|---|
/// | [`TokenBucket`] | – | + `per_success` | − `per_failure` | − `per_retry` | that much is there (and it is more than half full) |
/// | [`WindowBudget`] | + `ratio`, for `ttl` | – | – | − 1, for `ttl` | at least 1 is there |
/// | [`ConcurrentBudget`] | + `ratio`, until it ends | – | – | − 1, until the retry's end | at least 1 is there |
/// | [`Quota`] | – | + 1 at the first try, else what the last retry cost | – | − the class's cost | that much is there |
///
/// Success is [`Class::Success`]; failure is [`Class::is_failure`]; all else gives and takes nothing. No kind ever holds
/// more than its maximum or less than nothing. What a retry takes comes back whole if the retry never starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetPolicy {
    /// Tokens that come back with time or with success.
    TokenBucket(TokenBucket),
    /// A share of the calls of the last seconds.
    Window(WindowBudget),
    /// A share of the calls under way.
    Concurrent(ConcurrentBudget),
    /// Costs by class, brought back by success.
    Quota(Quota),
}

impl BudgetPolicy {
    /// The kind's word in a policy file.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
            Self::Window(_) => "window",
            Self::Concurrent(_) => "concurrent",
            Self::Quota(_) => "quota",
        }
    }

    /// Looks whether it can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        match self {
            Self::TokenBucket(policy) => policy.check(),
            Self::Window(policy) => policy.check(),
            Self::Concurrent(policy) => policy.check(),
            Self::Quota(policy) => policy.check(),
        }
    }

    /// Whether the budget needs to know the time.
    pub const fn needs_clock(&self) -> bool {
        match self {
            Self::TokenBucket(bucket) => bucket.needs_clock(),
            Self::Window(_) => true,
            Self::Concurrent(_) | Self::Quota(_) => false,
        }
    }
}

impl From<TokenBucket> for BudgetPolicy {
    fn from(policy: TokenBucket) -> Self {
        Self::TokenBucket(policy)
    }
}

impl From<WindowBudget> for BudgetPolicy {
    fn from(policy: WindowBudget) -> Self {
        Self::Window(policy)
    }
}

impl From<ConcurrentBudget> for BudgetPolicy {
    fn from(policy: ConcurrentBudget) -> Self {
        Self::Concurrent(policy)
    }
}

impl From<Quota> for BudgetPolicy {
    fn from(policy: Quota) -> Self {
        Self::Quota(policy)
    }
}

/// How much a call matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// As any other.
    #[default]
    Normal,
    /// More than others: it may take what is reserved.
    High,
}

impl Priority {
    /// All priorities, in order.
    pub const ALL: [Self; 2] = [Self::Normal, Self::High];

    /// The priority's stable word: `"normal"`, `"high"`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|known| known.as_str() == word).ok_or(UnknownWord)
    }
}

/// A budget's state. Times that step back count as the latest time seen.
///
/// A call goes through it with a [`Stake`] of its own: [`begin`](Self::begin), then for each attempt
/// [`settle`](Self::settle) and, where another follows, [`withdraw`](Self::withdraw) and [`start`](Stake::start); at
/// last [`end`](Self::end). A hedge is a retry with a stake that did not begin.
///
/// ```
/// use relent_core::{Budget, Class, Outcome, Priority, Ratio, Stake, Timestamp, WindowBudget};
///
/// let mut budget = Budget::new(WindowBudget::new(Ratio::percent(20)).floor(0))?;
/// let now = Timestamp::ZERO;
/// let mut granted = 0;
/// for _ in 0..100 {
///     let mut stake = Stake::default();
///     budget.begin(&mut stake, now);
///     budget.settle(&Outcome::of(Class::Transient), &mut stake, now);
///     if budget.withdraw(Class::Transient, Priority::Normal, &mut stake, now) {
///         granted += 1;
///         stake.start();
///     }
///     budget.end(stake);
/// }
/// assert_eq!(granted, 20);
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    state: State,
    reserved: Ratio,
}

#[derive(Clone, Debug)]
enum State {
    TokenBucket(Tokens),
    Window(Recent),
    Concurrent(UnderWay),
    Quota(Left),
}

/// What one call holds of one budget.
#[derive(Debug, Default)]
#[must_use]
pub struct Stake {
    /// What the last retry took, until its outcome is settled.
    taken: Option<Withdrawal>,
    /// Whether the call has begun and not ended.
    begun: bool,
    /// Whether the retry that was granted has not started yet.
    waiting: bool,
}

/// What a retry took, and when.
#[derive(Clone, Copy, Debug)]
struct Withdrawal {
    at: u64,
    amount: u32,
}

// A call carries one for each of its budgets.
const _: () = assert!(size_of::<Stake>() <= 32);

impl Stake {
    /// That a call has begun, where its attempts have stakes of their own.
    pub(crate) const fn of_call() -> Self {
        Self { taken: None, begun: true, waiting: false }
    }

    /// Whether anything is to be given back at the call's end.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.begun || self.taken.is_some()
    }

    /// The retry that was granted starts: what it took does not come back any more.
    #[inline]
    pub fn start(&mut self) {
        self.waiting = false;
    }
}

impl Budget {
    /// A budget, full.
    ///
    /// # Errors
    ///
    /// What cannot work about it, by the key of a policy file.
    pub fn new(policy: impl Into<BudgetPolicy>) -> Result<Self, PolicyError> {
        let policy = policy.into();
        policy.check()?;
        let state = match policy {
            BudgetPolicy::TokenBucket(policy) => State::TokenBucket(Tokens::new(policy)),
            BudgetPolicy::Window(policy) => State::Window(Recent::new(policy)),
            BudgetPolicy::Concurrent(policy) => State::Concurrent(UnderWay::new(policy)),
            BudgetPolicy::Quota(policy) => State::Quota(Left::new(policy)),
        };
        Ok(Self { state, reserved: Ratio::ZERO })
    }

    /// Keeps a share of the maximum for calls of [`Priority::High`]. Default: none.
    ///
    /// # Errors
    ///
    /// If it is all or more.
    pub fn reserve(self, share: Ratio) -> Result<Self, PolicyError> {
        check_reserve(share)?;
        Ok(Self { reserved: share, ..self })
    }

    /// Whether it has to be told when a call [begins](Self::begin).
    pub fn counts_calls(&self) -> bool {
        match &self.state {
            State::Window(_) | State::Concurrent(_) => true,
            State::TokenBucket(_) | State::Quota(_) => false,
        }
    }

    /// Whether it has to be told when a call ends, however it does, and not only of what its attempts came to.
    pub fn counts_ends(&self) -> bool {
        matches!(self.state, State::Concurrent(_))
    }

    /// Whether the success of a first attempt would change nothing, now or at any later time: it is full, or a success
    /// brings nothing.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        match &self.state {
            State::TokenBucket(state) => state.is_at_rest(),
            State::Window(_) | State::Concurrent(_) => true,
            State::Quota(state) => state.is_at_rest(),
        }
    }

    /// A call begins.
    #[inline]
    pub fn begin(&mut self, stake: &mut Stake, now: Timestamp) {
        if core::mem::replace(&mut stake.begun, true) {
            return;
        }
        match &mut self.state {
            State::Window(state) => state.begin(now.as_nanos()),
            State::Concurrent(state) => state.begin(),
            State::TokenBucket(_) | State::Quota(_) => {}
        }
    }

    /// An attempt has ended.
    #[inline]
    pub fn settle(&mut self, outcome: &Outcome, stake: &mut Stake, now: Timestamp) {
        stake.waiting = false;
        match &mut self.state {
            State::TokenBucket(state) => state.settle(outcome, stake, now.as_nanos()),
            State::Window(_) => stake.taken = None,
            State::Concurrent(state) => state.settle(stake),
            State::Quota(state) => state.settle(outcome, stake),
        }
    }

    /// Takes what a retry after a failure of `class` costs; false if there is not enough. A retry that was granted and
    /// not settled keeps the next one from being granted.
    #[must_use]
    pub fn withdraw(&mut self, class: Class, priority: Priority, stake: &mut Stake, now: Timestamp) -> bool {
        if stake.taken.is_some() {
            return false;
        }
        let kept = match priority {
            Priority::Normal => self.reserved,
            Priority::High => Ratio::ZERO,
        };
        let now = now.as_nanos();
        stake.waiting = match &mut self.state {
            State::TokenBucket(state) => state.withdraw(kept, stake, now),
            State::Window(state) => state.withdraw(kept, stake, now),
            State::Concurrent(state) => state.withdraw(kept, stake, now),
            State::Quota(state) => state.withdraw(class, kept, stake, now),
        };
        stake.waiting
    }

    /// Gives back what a retry took that has not started, and will not.
    pub fn put_back(&mut self, stake: &mut Stake) {
        if !core::mem::take(&mut stake.waiting) {
            return;
        }
        let Some(taken) = stake.taken.take() else { return };
        match &mut self.state {
            State::TokenBucket(state) => state.put_back(taken),
            State::Window(state) => state.put_back(taken),
            State::Concurrent(state) => state.put_back(),
            State::Quota(state) => state.put_back(taken),
        }
    }

    /// The call ends, however it does: what it holds is released, and what its retry took comes back if that never
    /// started.
    pub fn end(&mut self, mut stake: Stake) {
        self.put_back(&mut stake);
        if let State::Concurrent(state) = &mut self.state {
            state.settle(&mut stake);
            if stake.begun {
                state.end();
            }
        }
    }

    /// Whether it needs to know the time.
    pub fn needs_clock(&self) -> bool {
        match &self.state {
            State::TokenBucket(state) => state.needs_clock(),
            State::Window(_) => true,
            State::Concurrent(_) | State::Quota(_) => false,
        }
    }

    /// What is there, in thousandths of a token, or of a retry where the kind counts those.
    pub fn balance(&mut self, now: Timestamp) -> u64 {
        match &mut self.state {
            State::TokenBucket(state) => state.balance(now.as_nanos()),
            State::Window(state) => state.balance(now.as_nanos()),
            State::Concurrent(state) => state.balance(),
            State::Quota(state) => state.balance(),
        }
    }
}

pub(crate) fn check_reserve(share: Ratio) -> Result<(), PolicyError> {
    if share >= Ratio::ONE {
        return Err(refuse("budget_share", "leaves nothing for other calls"));
    }
    Ok(())
}

/// What a budget holds, as plain data, to be stored and shown. Calls under way are not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetSnapshot {
    /// Of a token bucket.
    TokenBucket {
        /// In thousandths of a token.
        balance: u64,
        /// What has come in beyond that: less than a thousandth, in parts of the refill's time in nanoseconds.
        fraction: u64,
        /// When it was refilled last.
        latest: Timestamp,
    },
    /// Of a window.
    Window {
        /// From the oldest tenth: since when, and how many calls and retries.
        slots: Vec<(Timestamp, [u64; 2])>,
        /// The latest time seen.
        latest: Timestamp,
    },
    /// Of a budget that is about calls under way only.
    Concurrent,
    /// Of a quota.
    Quota {
        /// What is left of it.
        balance: u32,
    },
}

impl Budget {
    /// What it holds, as plain data.
    pub fn snapshot(&self) -> BudgetSnapshot {
        match &self.state {
            State::TokenBucket(state) => state.snapshot(),
            State::Window(state) => state.snapshot(),
            State::Concurrent(_) => BudgetSnapshot::Concurrent,
            State::Quota(state) => BudgetSnapshot::Quota { balance: state.left() },
        }
    }

    /// Goes on from a snapshot, even one that was taken under another policy: never with more than the maximum, and from
    /// one of another kind not at all. Where the clock was set back since, the snapshot's times are too.
    #[must_use]
    pub fn restored(mut self, from: &BudgetSnapshot, now: Timestamp) -> Self {
        let now = now.as_nanos();
        match (&mut self.state, from) {
            (State::TokenBucket(state), BudgetSnapshot::TokenBucket { balance, fraction, latest }) => {
                state.restore(*balance, *fraction, latest.as_nanos().min(now));
            }
            (State::Window(state), BudgetSnapshot::Window { slots, latest }) => {
                state.restore(slots, latest.as_nanos(), now);
            }
            (State::Quota(state), BudgetSnapshot::Quota { balance }) => state.restore(*balance),
            _ => {}
        }
        self
    }
}
