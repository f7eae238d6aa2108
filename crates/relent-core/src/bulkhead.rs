//! Bulkheads: how many attempts may run at once, and how many may wait for that.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::policy::refuse;
use crate::{PolicyError, Ratio, Timestamp};

/// What a bulkhead is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkheadPolicy {
    /// How many at once.
    pub capacity: u32,
    /// How many may wait.
    pub queue: u32,
    /// How long they may wait.
    pub max_wait: Duration,
    /// Which share of the places retries may hold.
    pub retry_share: Ratio,
}

impl BulkheadPolicy {
    /// At most this many at once; whoever comes then is refused.
    pub const fn new(capacity: u32) -> Self {
        Self { capacity, queue: 0, max_wait: Duration::MAX, retry_share: Ratio::ONE }
    }

    /// How many may wait for a place, first come, first served. Default: 0.
    #[must_use]
    pub const fn queue(self, length: u32) -> Self {
        Self { queue: length, ..self }
    }

    /// How long they may wait. Default: as long as it takes.
    #[must_use]
    pub const fn max_wait(self, wait: Duration) -> Self {
        Self { max_wait: wait, ..self }
    }

    /// Which share of the places retries may hold, so that in an outage they leave room for first attempts: at least
    /// one place. Default: all.
    #[must_use]
    pub const fn retry_share(self, share: Ratio) -> Self {
        Self { retry_share: share, ..self }
    }

    /// How many at once.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many may wait.
    pub const fn queue_length(&self) -> u32 {
        self.queue
    }

    /// How many places retries may hold.
    pub fn retries(&self) -> u32 {
        (self.retry_share.of(u64::from(self.capacity)) as u32).max(1)
    }

    /// Looks whether it can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.capacity == 0 {
            return Err(refuse("capacity", "lets nothing through"));
        }
        if !self.retry_share.is_share() {
            return Err(refuse("retry_share", "must be above 0 and at most 1"));
        }
        if self.queue == 0 && self.max_wait != Duration::MAX {
            return Err(refuse("max_wait", "has no effect without a queue"));
        }
        if self.queue > 0 && self.max_wait.is_zero() {
            return Err(refuse("queue", "has no effect where nobody may wait"));
        }
        Ok(())
    }
}

/// A bulkhead's state. Times that step back count as the latest time seen.
///
/// A place is never handed to somebody who waits: they [claim](Self::claim) it when it is their turn, so that a place
/// cannot get lost with one who has stopped waiting.
#[derive(Clone, Debug)]
pub struct Bulkhead {
    policy: BulkheadPolicy,
    running: u32,
    /// How many of those are retries.
    retries: u32,
    /// Who waits, in order.
    waiting: VecDeque<Waiter>,
    next_ticket: u64,
    latest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    ticket: u64,
    retry: bool,
    until: u64,
}

/// A place in a bulkhead. Give it back with [`Bulkhead::leave`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place that is not given back is lost"]
pub struct Place {
    retry: bool,
}

/// A number in a bulkhead's queue. Whoever stops waiting gives it back with [`Bulkhead::give_up`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Ticket {
    number: u64,
    until: Timestamp,
}

impl Ticket {
    /// Its number, which no other has.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Until when its owner may wait.
    pub const fn until(&self) -> Timestamp {
        self.until
    }
}

/// What a bulkhead answers.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Entry {
    /// There is a place.
    In(Place),
    /// There is none yet. Claim one when somebody has left.
    Queued(Ticket),
    /// There is none, and no room to wait, or no more time.
    Full,
}

impl Bulkhead {
    /// An empty bulkhead.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy, by the key of a policy file.
    pub fn new(policy: BulkheadPolicy) -> Result<Self, PolicyError> {
        policy.check()?;
        Ok(Self { policy, running: 0, retries: 0, waiting: VecDeque::new(), next_ticket: 0, latest: 0 })
    }

    /// Asks for a place, for a first attempt or for a retry.
    #[inline]
    pub fn enter(&mut self, retry: bool, now: Timestamp) -> Entry {
        let now = self.advance(now);
        // Nobody overtakes those who wait and could go in.
        if self.reaches(self.waiting.len(), retry) {
            return Entry::In(self.occupy(retry));
        }
        if self.waiting.len() >= self.policy.queue as usize {
            return Entry::Full;
        }
        let until = Timestamp::from_nanos(now).plus(self.policy.max_wait);
        let ticket = Ticket { number: self.next_ticket, until };
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.waiting.push_back(Waiter { ticket: ticket.number, retry, until: until.as_nanos() });
        Entry::Queued(ticket)
    }

    /// Asks whether it is the ticket's turn.
    pub fn claim(&mut self, ticket: Ticket, now: Timestamp) -> Entry {
        self.advance(now);
        let Some(at) = self.waiting.iter().position(|waiter| waiter.ticket == ticket.number) else {
            // It waited too long.
            return Entry::Full;
        };
        if !self.waiting.get(at).is_some_and(|waiter| self.reaches(at, waiter.retry)) {
            return Entry::Queued(ticket);
        }
        let retry = self.waiting.remove(at).is_some_and(|waiter| waiter.retry);
        Entry::In(self.occupy(retry))
    }

    /// Gives a place back.
    #[inline]
    pub fn leave(&mut self, place: Place) {
        self.running = self.running.saturating_sub(1);
        self.retries = self.retries.saturating_sub(u32::from(place.retry));
    }

    /// Stops waiting.
    pub fn give_up(&mut self, ticket: Ticket) {
        self.waiting.retain(|waiter| waiter.ticket != ticket.number);
    }

    /// Whether anybody waits, or has waited too long and does not know it yet.
    pub fn has_queue(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The numbers of those who wait, in order, and whether each would be let in now: who has to be told.
    pub fn queue(&self) -> impl Iterator<Item = (u64, bool)> {
        let mut free = self.free();
        self.waiting.iter().map(move |waiter| (waiter.ticket, free.take(waiter.retry)))
    }

    /// How many run.
    pub const fn running(&self) -> u32 {
        self.running
    }

    /// How many wait.
    pub fn waiting(&mut self, now: Timestamp) -> u32 {
        self.advance(now);
        self.waiting.len() as u32
    }

    /// What it is to be.
    pub const fn policy(&self) -> &BulkheadPolicy {
        &self.policy
    }

    /// Lets go who has waited too long.
    #[inline]
    fn advance(&mut self, now: Timestamp) -> u64 {
        self.latest = self.latest.max(now.as_nanos());
        let latest = self.latest;
        // All may wait equally long, so those who came first run out of time first.
        while self.waiting.front().is_some_and(|waiter| waiter.until <= latest) {
            self.waiting.pop_front();
        }
        latest
    }

    /// Whether there is a place for whoever stands at `at` in the queue when all before have taken theirs.
    #[inline]
    fn reaches(&self, at: usize, retry: bool) -> bool {
        let mut free = self.free();
        for waiter in self.waiting.iter().take(at) {
            free.take(waiter.retry);
        }
        free.take(retry)
    }

    fn free(&self) -> Free {
        Free {
            places: self.policy.capacity.saturating_sub(self.running),
            for_retries: self.policy.retries().saturating_sub(self.retries),
        }
    }

    fn occupy(&mut self, retry: bool) -> Place {
        self.running += 1;
        self.retries += u32::from(retry);
        Place { retry }
    }
}

/// The places that nobody has.
struct Free {
    places: u32,
    /// Of those, how many a retry may have.
    for_retries: u32,
}

impl Free {
    /// Gives one away, if there is one.
    #[inline]
    fn take(&mut self, retry: bool) -> bool {
        let given = self.places > 0 && (!retry || self.for_retries > 0);
        self.places -= u32::from(given);
        self.for_retries -= u32::from(given && retry);
        given
    }
}
