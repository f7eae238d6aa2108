//! Chaos: operations that fail and lag on purpose.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relent_core::{ChaosPolicy, Fault, Harm, PolicyError, Timestamp, entropy};

use crate::blocking::SystemTimer;
use crate::{Clock, DefaultTimer, Timer, blocking};

/// Operations that fail and lag on purpose, so that one sees what the program makes of it. Cheap to clone; clones share
/// everything. **Off until [switched on](Self::switch_on)**: made and forgotten, it does nothing.
///
/// ```
/// use relent::{Chaos, ChaosPolicy, Policy, Ratio};
/// use std::io;
///
/// # fn get() -> io::Result<u32> { Ok(1) }
/// let chaos = Chaos::blocking(ChaosPolicy::new().faults(Ratio::percent(20)), 7)?;
/// // By whatever the program asks for its settings: relent looks into no environment by itself.
/// if std::env::var_os("SHOP_CHAOS").is_some() {
///     chaos.switch_on();
/// }
/// let lost = |_fault| io::Error::from(io::ErrorKind::ConnectionReset);
/// let answer = relent::blocking::retry(&Policy::default(), || chaos.call_blocking(get, lost))?;
/// # assert_eq!(answer, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Repeatable: the operation that begins as number `n` after the chaos was switched on meets the same harm under the same
/// seed each time; which one that is, where several begin at once, is up to them. Outages go by the timer's clock.
#[derive(Clone)]
pub struct Chaos<T = DefaultTimer> {
    inner: Arc<Inner>,
    timer: T,
}

#[derive(Debug)]
struct Inner {
    policy: ChaosPolicy,
    seed: u64,
    /// When it was switched on, in nanoseconds, or [`OFF`].
    began: AtomicU64,
    /// How many operations have begun since.
    begun: AtomicU64,
}

const OFF: u64 = u64::MAX;

impl Chaos {
    /// Chaos for async operations, off, on the default timer.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy.
    pub fn new(policy: ChaosPolicy, seed: u64) -> Result<Self, PolicyError> {
        Self::on(policy, seed, Default::default())
    }
}

impl Chaos<SystemTimer> {
    /// Chaos for blocking operations, off.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy.
    pub fn blocking(policy: ChaosPolicy, seed: u64) -> Result<Self, PolicyError> {
        Self::on(policy, seed, SystemTimer)
    }
}

impl<T> Chaos<T> {
    fn on(policy: ChaosPolicy, seed: u64, timer: T) -> Result<Self, PolicyError> {
        policy.check()?;
        let (began, begun) = (AtomicU64::new(OFF), AtomicU64::new(0));
        Ok(Self { inner: Arc::new(Inner { policy, seed, began, begun }), timer })
    }

    /// The same chaos on another timer: for another runtime, or for tests.
    pub fn timer<U>(self, timer: U) -> Chaos<U> {
        Chaos { inner: self.inner, timer }
    }

    /// Ends all harm, in every clone.
    pub fn switch_off(&self) {
        self.inner.began.store(OFF, Ordering::Relaxed);
    }

    /// Whether it does harm.
    pub fn is_on(&self) -> bool {
        self.inner.began.load(Ordering::Relaxed) != OFF
    }

    /// What it does, when it is on.
    pub fn policy(&self) -> &ChaosPolicy {
        &self.inner.policy
    }
}

impl<T: Clock> Chaos<T> {
    /// Begins, in every clone: operations count from here, and so does the time to the first outage. Begins anew where it
    /// was on.
    pub fn switch_on(&self) {
        self.inner.begun.store(0, Ordering::Relaxed);
        self.inner.began.store(self.timer.now().as_nanos().min(OFF - 1), Ordering::Relaxed);
    }

    /// Does the operation, unless harm comes over it: then it is late, or fails with what `fault` makes of how.
    ///
    /// One that is not to be done is dropped before it was polled. Of one whose answer is lost the `Ok` is dropped; its
    /// own error, if it fails by itself, comes back.
    ///
    /// # Errors
    ///
    /// The operation's own, or that of `fault`.
    pub async fn call<R, E, F>(&self, operation: F, fault: impl FnOnce(Fault) -> E) -> Result<R, E>
    where
        T: Timer,
        F: Future<Output = Result<R, E>>,
    {
        let harm = self.harm();
        if !harm.delay.is_zero() {
            self.timer.sleep(harm.delay).await;
        }
        match harm.fault {
            None => operation.await,
            Some(Fault::AnswerLost) => {
                operation.await?;
                Err(fault(Fault::AnswerLost))
            }
            Some(other) => Err(fault(other)),
        }
    }

    /// The same on a thread that waits.
    ///
    /// # Errors
    ///
    /// The operation's own, or that of `fault`.
    pub fn call_blocking<R, E>(
        &self,
        operation: impl FnOnce() -> Result<R, E>,
        fault: impl FnOnce(Fault) -> E,
    ) -> Result<R, E>
    where
        T: blocking::Timer,
    {
        let harm = self.harm();
        if !harm.delay.is_zero() {
            self.timer.sleep(harm.delay, None);
        }
        match harm.fault {
            None => operation(),
            Some(Fault::AnswerLost) => {
                operation()?;
                Err(fault(Fault::AnswerLost))
            }
            Some(other) => Err(fault(other)),
        }
    }

    /// What happens to the operation that begins now.
    fn harm(&self) -> Harm {
        let began = self.inner.began.load(Ordering::Relaxed);
        if began == OFF {
            return Harm::default();
        }
        let number = self.inner.begun.fetch_add(1, Ordering::Relaxed);
        let elapsed = self.timer.now().since(Timestamp::from_nanos(began));
        self.inner.policy.harm(elapsed, entropy(self.inner.seed, number, 0))
    }
}

impl<T> fmt::Debug for Chaos<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chaos")
            .field("policy", &self.inner.policy)
            .field("seed", &self.inner.seed)
            .field("is_on", &self.is_on())
            .finish_non_exhaustive()
    }
}
