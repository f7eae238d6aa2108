//! Rate limits: not whether a call may be made, but when.

use core::time::Duration;

use crate::policy::refuse;
use crate::time::nanos;
use crate::{PolicyError, Rate, Timestamp};

/// What a rate limit is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterPolicy {
    /// The rate.
    pub rate: Rate,
    /// How many may come at once after a quiet time.
    pub burst: u32,
    /// How long a call may be made to wait.
    pub max_wait: Duration,
}

impl LimiterPolicy {
    /// So many in a time, evenly spaced but for a burst of as many at once, without a limit to the waiting.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, burst: rate.count(), max_wait: Duration::MAX }
    }

    /// How many may come at once after a quiet time. 1 spaces all of them evenly. Default: the rate's count.
    #[must_use]
    pub const fn burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// How long a call may be made to wait before it is refused. Default: as long as it takes.
    #[must_use]
    pub const fn max_wait(self, wait: Duration) -> Self {
        Self { max_wait: wait, ..self }
    }

    /// The rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Looks whether it can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.burst == 0 {
            return Err(refuse("burst", "lets nothing through; 1 spaces all calls evenly"));
        }
        Ok(())
    }
}

/// A rate limit's state. Times that step back count as the latest time seen.
///
/// Over any window of time it grants no more than rate × window + burst, and a wait that it grants ends exactly when
/// the call's turn comes: in the first nanosecond that is not too early, and without drift, since it counts in parts of
/// a nanosecond where the rate does not divide one (GCRA, ITU-T I.371, in integers).
///
/// ```
/// use core::num::NonZeroU32;
/// use core::time::Duration;
/// use relent_core::{Limiter, LimiterPolicy, Rate, Timestamp, Turn};
///
/// let rate = Rate::new(10, Duration::from_secs(1)).unwrap();
/// let mut limiter = Limiter::new(LimiterPolicy::new(rate).burst(1).max_wait(Duration::from_millis(150)))?;
/// let now = Timestamp::ZERO;
/// assert_eq!(limiter.reserve(1, now).turn(), Turn::Now);
/// assert_eq!(limiter.reserve(1, now).turn(), Turn::After(Duration::from_millis(100)));
/// // The next turn would come after 200 ms.
/// assert_eq!(limiter.reserve(1, now).turn(), Turn::Refused);
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    policy: LimiterPolicy,
    /// The rate in lowest terms: so many turns in so many nanoseconds.
    count: u64,
    per: u64,
    /// What a burst costs.
    burst: u128,
    /// When all that was granted would have been paid for, in nanoseconds × the count.
    paid_at: u128,
    /// The latest time seen, in nanoseconds.
    latest: u64,
}

/// When a call's turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Now.
    Now,
    /// After this wait.
    After(Duration),
    /// Not within the limit's longest wait, or never since more is asked for than the burst. Nothing was taken.
    Refused,
}

/// A turn that was taken. One that will not be used is [cancelled](Limiter::cancel).
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Reservation {
    turn: Turn,
    /// When that is.
    at: Timestamp,
    /// What it added, and what the limiter stood at afterwards.
    cost: u128,
    paid_at: u128,
}

impl Reservation {
    /// When the turn comes, from when it was reserved.
    pub const fn turn(&self) -> Turn {
        self.turn
    }

    /// When the turn comes; the end of time if it was refused.
    pub const fn at(&self) -> Timestamp {
        self.at
    }
}

impl Limiter {
    /// A limiter after a quiet time: a burst may come at once.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy, by the key of a policy file.
    pub fn new(policy: LimiterPolicy) -> Result<Self, PolicyError> {
        policy.check()?;
        let (count, per) = lowest_terms(policy.rate);
        let burst = u128::from(policy.burst) * u128::from(per);
        Ok(Self { policy, count, per, burst, paid_at: 0, latest: 0 })
    }

    /// Takes `permits` turns, for now or for later.
    #[inline]
    pub fn reserve(&mut self, permits: u32, now: Timestamp) -> Reservation {
        let due = self.due(permits, now);
        let wait = due.and_then(|due| self.wait_for(due));
        let (Some(due), Some(wait)) = (due, wait.filter(|wait| *wait <= nanos(self.policy.max_wait))) else {
            return Reservation { turn: Turn::Refused, at: Timestamp::MAX, cost: 0, paid_at: 0 };
        };
        let turn = if wait == 0 { Turn::Now } else { Turn::After(Duration::from_nanos(wait)) };
        let at = Timestamp::from_nanos(self.latest.saturating_add(wait));
        self.paid_at = due;
        Reservation { turn, at, cost: self.cost(permits), paid_at: due }
    }

    /// Takes `permits` turns if they can be had now.
    #[inline]
    pub fn try_acquire(&mut self, permits: u32, now: Timestamp) -> bool {
        match self.due(permits, now) {
            Some(due) if due <= self.scaled(self.latest) + self.burst => {
                self.paid_at = due;
                true
            }
            _ => false,
        }
    }

    /// Gives a turn back that will not be used. Where later turns were taken meanwhile it is lost instead: those who
    /// hold them have been told when they come, and whoever came next would come at the same time as one of them.
    pub fn cancel(&mut self, reservation: Reservation) {
        if reservation.cost > 0 && reservation.paid_at == self.paid_at {
            self.paid_at -= reservation.cost;
        }
    }

    /// When `permits` turns could be had at once; none if never, since the burst is smaller.
    pub fn ready_at(&mut self, permits: u32, now: Timestamp) -> Option<Timestamp> {
        let due = self.due(permits, now)?;
        let wait = self.wait_for(due)?;
        Some(Timestamp::from_nanos(self.latest.saturating_add(wait)))
    }

    /// Takes all turns that could be had at once: the other side says that it has had enough.
    pub fn drain(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now.as_nanos());
        self.paid_at = self.paid_at.max(self.scaled(self.latest) + self.burst);
    }

    /// What it is to be.
    pub const fn policy(&self) -> &LimiterPolicy {
        &self.policy
    }

    /// When all that was granted and `permits` turns more would have been paid for; none if they are more than the burst.
    #[inline]
    fn due(&mut self, permits: u32, now: Timestamp) -> Option<u128> {
        self.latest = self.latest.max(now.as_nanos());
        (permits <= self.policy.burst)
            .then(|| self.paid_at.max(self.scaled(self.latest)) + self.cost(permits))
    }

    /// How many nanoseconds from the latest time on turns come that are due then. One beyond the end of time never comes.
    #[inline]
    fn wait_for(&self, due: u128) -> Option<u64> {
        let early = due.saturating_sub(self.scaled(self.latest) + self.burst);
        if early == 0 {
            return Some(0);
        }
        let wait = early.div_ceil(u128::from(self.count));
        u64::try_from(wait).ok().filter(|wait| self.latest.checked_add(*wait).is_some())
    }

    /// What turns cost, in nanoseconds × the count: at most 2⁹⁶.
    fn cost(&self, permits: u32) -> u128 {
        u128::from(permits) * u128::from(self.per)
    }

    fn scaled(&self, nanos: u64) -> u128 {
        u128::from(nanos) * u128::from(self.count)
    }

    /// What never changes about it, where a turn takes whole nanoseconds; else none.
    pub fn pace(&self) -> Option<Pace> {
        let burst = u64::try_from(self.burst).ok().filter(|_| self.count == 1)?;
        Some(Pace { turn: self.per, burst, most: self.policy.burst })
    }

    /// All that it has granted, in one word by which its [`Pace`] grants turns too; none where that is not possible.
    #[inline]
    pub fn paid_at(&self) -> Option<u64> {
        u64::try_from(self.paid_at).ok().filter(|_| self.count == 1)
    }

    /// Takes in what was granted by its [`Pace`] since it was asked for its word.
    #[inline]
    pub fn resume(&mut self, paid_at: u64) {
        if self.count == 1 {
            self.paid_at = paid_at.into();
        }
    }
}

/// The limit as one that is asked without its state at hand, which is a single word: the time at which all that was
/// granted will be paid for, in nanoseconds. What is granted here, [`Limiter::try_acquire`] would have granted too.
///
/// ```
/// use core::num::NonZeroU32;
/// use relent_core::{Limiter, LimiterPolicy, Rate, Timestamp};
///
/// let rate = Rate::per_second(NonZeroU32::new(10).unwrap());
/// let mut limiter = Limiter::new(LimiterPolicy::new(rate).burst(1))?;
/// let (pace, word) = (limiter.pace().unwrap(), limiter.paid_at().unwrap());
/// let granted = pace.grant(word, 1, Timestamp::ZERO).unwrap();
/// assert_eq!(pace.grant(granted, 1, Timestamp::ZERO), None);
/// limiter.resume(granted);
/// assert!(!limiter.try_acquire(1, Timestamp::ZERO));
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// What a turn costs, and a burst, in nanoseconds.
    turn: u64,
    burst: u64,
    /// How many turns that is.
    most: u32,
}

impl Pace {
    /// Takes `permits` turns if they can be had now: the word afterwards. None where the limiter has to be asked.
    #[inline]
    pub fn grant(&self, paid_at: u64, permits: u32, now: Timestamp) -> Option<u64> {
        let now = now.as_nanos();
        if permits > self.most {
            return None;
        }
        // No more than the burst's cost.
        let due = paid_at.max(now).checked_add(u64::from(permits) * self.turn)?;
        (due <= now.saturating_add(self.burst)).then_some(due)
    }

    /// The turns that were taken so, which can be [cancelled](Limiter::cancel).
    #[inline]
    pub fn reservation(&self, granted: u64, permits: u32, now: Timestamp) -> Reservation {
        let cost = u128::from(permits) * u128::from(self.turn);
        Reservation { turn: Turn::Now, at: now, cost, paid_at: granted.into() }
    }
}

fn lowest_terms(rate: Rate) -> (u64, u64) {
    let (count, per) = (u64::from(rate.count()), rate.per_nanos());
    let (mut divisor, mut rest) = (count, per);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    // Neither is nothing.
    (count / divisor.max(1), per / divisor.max(1))
}
