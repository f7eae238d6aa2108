//! The place of what calls share: budgets, breakers, limiters.

use crate::{Class, Moment, Outcome, Priority, Reason, Source, Start, Timestamp};

/// What calls to one target share. The decision asks it at fixed places; each answer has a default that neither
/// limits nor refuses.
pub trait Shared {
    /// How much the call matters.
    #[inline]
    fn priority(&self) -> Priority {
        Priority::Normal
    }

    /// Takes in an outcome, exactly once, before any stop.
    #[inline]
    fn settle(&mut self, _outcome: &Outcome, _now: Option<Timestamp>) {}

    /// Takes in a success as [`settle`](Self::settle) does, but asks for the time only if something hangs on when the
    /// attempt ended. All else is as of when it began.
    #[inline]
    fn succeed(&mut self, clock: &dyn Fn() -> Option<Timestamp>) {
        self.settle(&Outcome::of(Class::Success), clock());
    }

    /// Admits an attempt, delays it, or ends the call. A refusal is not an attempt. A delay starts nothing yet, but may
    /// have a turn reserved: when it is over the attempt asks again, unless its deadline came first.
    #[inline]
    fn admit(&mut self, _moment: Moment) -> Start {
        Start::Go
    }

    /// The wait of a schedule, counted from 1, that a call takes at least: where the target is known to struggle, a call
    /// does not begin with the first, and goes on from there.
    #[inline]
    fn step(&mut self, _now: Option<Timestamp>) -> u32 {
        0
    }

    /// When the target will admit attempts again, if it does not now.
    #[inline]
    fn ready_at(&mut self, _now: Option<Timestamp>) -> Option<Timestamp> {
        None
    }

    /// Takes a retry's cost from the budgets, or names the reason why not.
    ///
    /// # Errors
    ///
    /// The reason that the call ends with.
    #[inline]
    fn withdraw(&mut self, _outcome: &Outcome, _now: Option<Timestamp>) -> Result<(), Reason> {
        Ok(())
    }

    /// Takes a hedge's cost from the budgets and admits it, or neither: a hedge that would have to wait is not made. The
    /// outcome is that of the failure it starts for.
    ///
    /// # Errors
    ///
    /// The reason why it is not made.
    fn hedge(&mut self, outcome: &Outcome, moment: Moment) -> Result<(), Reason> {
        self.withdraw(outcome, moment.now)?;
        match self.admit(moment) {
            Start::Go => Ok(()),
            Start::Wait { source: Source::Bulkhead, .. } => Err(Reason::BulkheadFull),
            Start::Wait { .. } => Err(Reason::RateLimited),
            Start::Stop { reason } => Err(reason),
        }
    }
}

/// No shared state: every call is alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alone;

impl Shared for Alone {
    #[inline]
    fn succeed(&mut self, _clock: &dyn Fn() -> Option<Timestamp>) {}
}

/// Who has none is alone.
impl<S: Shared> Shared for Option<S> {
    #[inline]
    fn priority(&self) -> Priority {
        self.as_ref().map_or(Priority::Normal, Shared::priority)
    }

    #[inline]
    fn settle(&mut self, outcome: &Outcome, now: Option<Timestamp>) {
        if let Some(shared) = self {
            shared.settle(outcome, now);
        }
    }

    #[inline]
    fn succeed(&mut self, clock: &dyn Fn() -> Option<Timestamp>) {
        if let Some(shared) = self {
            shared.succeed(clock);
        }
    }

    #[inline]
    fn admit(&mut self, moment: Moment) -> Start {
        self.as_mut().map_or(Start::Go, |shared| shared.admit(moment))
    }

    #[inline]
    fn step(&mut self, now: Option<Timestamp>) -> u32 {
        self.as_mut().map_or(0, |shared| shared.step(now))
    }

    #[inline]
    fn ready_at(&mut self, now: Option<Timestamp>) -> Option<Timestamp> {
        self.as_mut()?.ready_at(now)
    }

    #[inline]
    fn withdraw(&mut self, outcome: &Outcome, now: Option<Timestamp>) -> Result<(), Reason> {
        self.as_mut().map_or(Ok(()), |shared| shared.withdraw(outcome, now))
    }

    fn hedge(&mut self, outcome: &Outcome, moment: Moment) -> Result<(), Reason> {
        self.as_mut().map_or(Ok(()), |shared| shared.hedge(outcome, moment))
    }
}
