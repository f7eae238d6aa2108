//! Cancellation: the caller's token, and the one that an attempt sees.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use relent_core::Timestamp;

use crate::drive::Guard;
use crate::{Clock, Timer};

/// The caller's way to end a call: cancels an attempt or a wait at once, in every driver. Cheap to clone; all clones
/// are the same token. Once cancelled it stays so.
#[derive(Clone, Debug, Default)]
pub struct Token(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cancelled: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Wakes the threads that wait.
    threads: Condvar,
}

/// The tasks that wait, each under a number of its own.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    tasks: BTreeMap<u64, Waker>,
}

impl Token {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels every call that was given this token.
    pub fn cancel(&self) {
        let tasks = {
            let mut waiting = self.lock();
            // Under the lock, so that nobody checks, finds nothing, and begins to wait in between.
            self.0.cancelled.store(true, Ordering::Release);
            std::mem::take(&mut waiting.tasks)
        };
        self.0.threads.notify_all();
        tasks.into_values().for_each(Waker::wake);
    }

    /// Whether it was cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Completes once it is cancelled.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), number: None }
    }

    /// Blocks for `wait`, or until it is cancelled. Says whether it was.
    pub fn wait_for(&self, wait: Duration) -> bool {
        let end = Instant::now().checked_add(wait);
        let mut waiting = self.lock();
        while !self.is_cancelled() {
            // Too far for the clock to say is as good as for ever.
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            let woken = self.0.threads.wait_timeout(waiting, left.min(LONGEST));
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here panics half-way, so a poisoned lock still holds whole data.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What some platforms' condition variables can be asked to wait at most.
const LONGEST: Duration = Duration::from_secs(60 * 60 * 24);

/// Completes once its [`Token`] is cancelled.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Cancelled {
    token: Token,
    /// Our number among those that wait, once we do.
    number: Option<u64>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let token = self.token.clone();
        let waker = context.waker().clone();
        let mut waiting = token.lock();
        if token.is_cancelled() {
            return Poll::Ready(());
        }
        let ours = match self.number {
            Some(ours) => ours,
            None => {
                waiting.last += 1;
                waiting.last
            }
        };
        self.number = Some(ours);
        let old = waiting.tasks.insert(ours, waker);
        // A waker may be all that holds a task, and the task another wait for this token: it is dropped unlocked.
        drop(waiting);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        let Some(ours) = self.number else { return };
        let gone = self.token.lock().tasks.remove(&ours);
        // Unlocked, as above.
        drop(gone);
    }
}

/// What ended an attempt early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The caller cancelled the call.
    Cancelled,
    /// The call's deadline came.
    Deadline,
    /// The attempt's own timeout came.
    AttemptTimeout,
    /// Another attempt that ran beside it has decided the call.
    Lost,
}

/// What an attempt sees of its end: fires on the caller's cancellation, the call's deadline, the attempt's timeout, or
/// when a hedge beside it has won, and says which. An attempt that has won hears of no end of the others.
///
/// The async driver drops an attempt when it fires; what the attempt spawned, and a blocking attempt, look at it.
#[derive(Clone, Debug)]
pub struct AttemptToken<T> {
    pub(crate) caller: Option<Token>,
    /// Where attempts run beside each other: that this one has lost.
    pub(crate) lost: Option<Token>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) timeout: Option<Timestamp>,
    pub(crate) timer: T,
}

impl<T: Clock> AttemptToken<T> {
    /// What ended the attempt, if something did.
    pub fn fired(&self) -> Option<Cause> {
        if self.caller.as_ref().is_some_and(Token::is_cancelled) {
            return Some(Cause::Cancelled);
        }
        if self.lost.as_ref().is_some_and(Token::is_cancelled) {
            return Some(Cause::Lost);
        }
        let (end, cause) = self.end()?;
        (self.timer.now() >= end).then_some(cause)
    }

    /// The end that comes first. At a tie the deadline: nothing can follow it.
    pub(crate) fn end(&self) -> Option<(Timestamp, Cause)> {
        let deadline = self.deadline.map(|end| (end, Cause::Deadline));
        let timeout = self.timeout.map(|end| (end, Cause::AttemptTimeout));
        match (deadline, timeout) {
            (Some(deadline), Some(timeout)) => Some(if timeout.0 < deadline.0 { timeout } else { deadline }),
            (deadline, timeout) => deadline.or(timeout),
        }
    }
}

impl<T: Timer> AttemptToken<T> {
    /// Completes when the attempt should end.
    pub async fn wait(&self) -> Cause {
        Guard::new(self.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::thread;

    #[test]
    fn a_thread_that_waits_is_woken() {
        let token = Token::new();
        thread::scope(|scope| {
            let waits = scope.spawn(|| token.wait_for(Duration::MAX));
            token.cancel();
            assert!(waits.join().unwrap());
        });
        assert!(token.wait_for(Duration::ZERO), "once cancelled, always cancelled");
    }

    #[tokio::test]
    async fn tasks_are_woken_and_leave_nothing_behind() {
        let token = Token::new();
        let waits: Vec<_> = (0..3).map(|_| tokio::spawn(token.cancelled())).collect();
        tokio::task::yield_now().await;
        {
            let mut dropped = pin!(token.cancelled());
            std::future::poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context).is_pending())).await;
        }
        assert_eq!(token.lock().tasks.len(), 3, "a dropped wait leaves");
        token.cancel();
        for wait in waits {
            wait.await.unwrap();
        }
        assert!(token.lock().tasks.is_empty());
    }
}
