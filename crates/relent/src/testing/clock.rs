//! A clock that jumps when all is asleep.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use relent_core::Timestamp;

use crate::Token;

/// A clock that jumps when all is asleep, for both drivers. Clones are the same clock.
///
/// In a blocking call each wait moves it forward at once; where a call has threads of its own
/// ([`retry_hedged`](crate::With::retry_hedged)), when all of them and the caller's wait. In async code [`Clock::run`] polls
/// a future and, when nothing can go on, jumps to the next point at which something wakes.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the threads that wait.
    threads: Condvar,
}

#[derive(Debug, Default)]
struct State {
    now: Duration,
    /// How many threads it has, beside the one that has it.
    threads: usize,
    /// The threads that wait: until when, and what ends the wait earlier.
    waiting: BTreeMap<u64, (Duration, Option<Token>)>,
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

    /// Waits until all of its threads have ended, such as those of attempts that have lost.
    pub fn join(&self) {
        let mut state = self.lock();
        let place = state.place();
        // The end of time never comes: whoever waits for it has nothing else to wait for.
        state.waiting.insert(place, (Duration::MAX, None));
        while state.threads > 0 {
            state = self.wait(state);
        }
        state.waiting.remove(&place);
    }

    /// Waits for other threads, or jumps if all of them wait.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if let Some(next) = state.next_if_all_wait() {
            drop(state);
            self.jump(next);
            return self.lock();
        }
        self.0.threads.wait(state).unwrap_or_else(PoisonError::into_inner)
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
        self.0.threads.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn place(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The next time at which something wakes, if nothing can go on before.
    fn next_if_all_wait(&self) -> Option<Duration> {
        let called = |(_, token): &(Duration, Option<Token>)| token.as_ref().is_some_and(Token::is_cancelled);
        if self.waiting.len() <= self.threads || self.waiting.values().any(called) {
            return None;
        }
        let futures = self.asleep.keys().map(|(wakes, _)| *wakes);
        let next = self.waiting.values().map(|(wakes, _)| *wakes).chain(futures).min()?;
        (next > self.now && next < Duration::MAX).then_some(next)
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
        let called = || cancel.is_some_and(Token::is_cancelled);
        let mut state = self.lock();
        if state.threads == 0 {
            drop(state);
            if !called() {
                self.advance(wait);
            }
            return;
        }
        let (place, wakes) = (state.place(), state.now.saturating_add(wait));
        state.waiting.insert(place, (wakes, cancel.cloned()));
        drop(state);
        let mut cancelled = cancel.map(Token::cancelled);
        if let Some(cancelled) = &mut cancelled {
            let waker = Waker::from(Arc::new(Nudge(self.clone())));
            let _ = Pin::new(cancelled).poll(&mut Context::from_waker(&waker));
        }
        let mut state = self.lock();
        while state.now < wakes && !called() {
            state = self.wait(state);
        }
        state.waiting.remove(&place);
    }
}

impl crate::blocking::Threads for Clock {
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
        self.lock().threads += 1;
        let ends = Ends(self.clone());
        std::thread::Builder::new().spawn(move || {
            let _ends = ends;
            work();
        })?;
        Ok(())
    }
}

/// That a thread ends, however it does.
struct Ends(Clock);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.0.threads.notify_all();
    }
}

/// Has the threads that wait look around.
struct Nudge(Clock);

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock());
        self.0.0.threads.notify_all();
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
