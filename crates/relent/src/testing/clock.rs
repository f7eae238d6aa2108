//! A clock that jumps when all is asleep.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use relent_core::Timestamp;

use crate::Token;

/// A clock that jumps when all is asleep, for both drivers. Clones are the same clock.
///
/// In a blocking call each wait moves it forward at once. In async code [`Clock::run`] polls a future and, when
/// nothing can go on, jumps to the next point at which something wakes.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now: Duration,
    /// Those that sleep, by when they wake and in the order in which they lay down.
    asleep: BTreeMap<(Duration, u64), Waker>,
    last: u64,
}

impl Clock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many sleep on it now: none once all calls have ended, however they ended.
    pub fn asleep(&self) -> usize {
        self.lock().asleep.len()
    }

    /// What has passed on it.
    pub fn elapsed(&self) -> Duration {
        self.lock().now
    }

    /// Moves it forward and wakes whoever is due.
    pub fn advance(&self, by: Duration) {
        let to = self.lock().now.saturating_add(by);
        self.jump(to);
    }

    /// Runs `future` to its end, jumping whenever all is asleep.
    ///
    /// # Errors
    ///
    /// [`Stuck`] when nothing sleeps and nothing goes on: the future waits for something that will not come.
    pub fn run<F: Future>(&self, future: F) -> Result<F::Output, Stuck> {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = pin!(future);
        loop {
            while woken.0.swap(false, Ordering::AcqRel) {
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Ok(output);
                }
            }
            let next = self.lock().asleep.keys().next().map(|(wakes, _)| *wakes);
            self.jump(next.ok_or(Stuck)?);
        }
    }

    fn jump(&self, to: Duration) {
        let due = {
            let mut state = self.lock();
            let state = &mut *state;
            state.now = state.now.max(to);
            let later = state.asleep.split_off(&(state.now, u64::MAX));
            std::mem::replace(&mut state.asleep, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crate::Clock for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::from_duration(self.elapsed())
    }
}

impl crate::Timer for Clock {
    type Sleep = Sleep;

    fn sleep(&self, wait: Duration) -> Sleep {
        Sleep { clock: self.clone(), wakes: self.elapsed().saturating_add(wait), place: None }
    }
}

impl crate::blocking::Timer for Clock {
    fn sleep(&self, wait: Duration, cancel: Option<&Token>) {
        if !cancel.is_some_and(Token::is_cancelled) {
            self.advance(wait);
        }
    }
}

/// A sleep on a [`Clock`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    clock: Clock,
    wakes: Duration,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let waker = context.waker().clone();
        let mut state = clock.lock();
        if state.now >= self.wakes {
            return Poll::Ready(());
        }
        let place = match self.place {
            Some(place) => place,
            None => {
                state.last += 1;
                state.last
            }
        };
        self.place = Some(place);
        let old = state.asleep.insert((self.wakes, place), waker);
        // A waker may be all that holds a task, and the task another sleep: it is dropped unlocked.
        drop(state);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let gone = self.clock.lock().asleep.remove(&(self.wakes, place));
            drop(gone);
        }
    }
}

/// Nothing sleeps and nothing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing sleeps on this clock and nothing goes on: the future waits for something else")
    }
}

impl std::error::Error for Stuck {}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}
