//! Cancellation: a token or a dropped future ends a call at once, wherever it is, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use relent::testing::{Clock, Recorder};
use relent::{Attempt, Cause, Class, Jitter, Policy, Reason, Timer as _, Timestamp, Token, blocking};

const TICK: Duration = Duration::from_millis(10);

/// Waits of one tick.
fn policy() -> Policy {
    Policy::constant(TICK).jitter(Jitter::None).max_attempts(3).build().unwrap()
}

/// An error that is another try's business, whatever else is true.
fn always(_: &&str) -> bool {
    true
}

/// Counts its calls, and its owners show who still holds a waker.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future that is polled by hand.
struct ByHand<F> {
    future: Pin<Box<F>>,
    woken: Arc<Woken>,
}

impl<F: Future> ByHand<F> {
    fn new(future: F) -> Self {
        Self { future: Box::pin(future), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn times_woken(&self) -> u32 {
        self.woken.0.load(Ordering::Relaxed)
    }

    /// Drops the future and says how many wakers it left behind.
    fn dropped(self) -> usize {
        let Self { future, woken } = self;
        drop(future);
        Arc::strong_count(&woken) - 1
    }
}

/// An attempt that takes a tick and fails.
async fn failing(clock: &Clock) -> Result<(), &'static str> {
    clock.sleep(TICK).await;
    Err("busy")
}

#[test]
fn a_future_dropped_at_any_point_leaves_nothing_behind() {
    let timed = policy().to_builder().deadline(TICK * 100).attempt_timeout(TICK * 5).build().unwrap();
    for policy in [policy(), timed] {
        let mut ended = false;
        for polls in 0.. {
            let (clock, token) = (Clock::new(), Token::new());
            let with = relent::with(&policy).timer(clock.clone()).cancel_on(&token).when(always);
            let mut call = ByHand::new(with.retry(|_attempt| failing(&clock)));
            for _ in 0..polls {
                ended = call.poll().is_ready();
                clock.advance(TICK / 2);
            }
            assert_eq!(call.dropped(), 0, "wakers after {polls} polls");
            assert_eq!(clock.asleep(), 0, "sleepers after {polls} polls");
            if ended {
                assert!(polls >= 10, "three attempts and two waits of a tick each, polled each half tick");
                break;
            }
        }
    }
}

#[test]
fn a_token_that_fires_at_any_point_ends_the_call_at_once_and_for_good() {
    for at in 0..=10 {
        let (clock, token, attempts) = (Clock::new(), Token::new(), Cell::new(0));
        let policy = policy();
        let with = relent::with(&policy).timer(clock.clone()).cancel_on(&token).when(always);
        let mut call = ByHand::new(with.retry(|_attempt| {
            attempts.set(attempts.get() + 1);
            failing(&clock)
        }));
        for _ in 0..at {
            if call.poll().is_ready() {
                break;
            }
            clock.advance(TICK / 2);
        }
        let (woken, made) = (call.times_woken(), attempts.get());
        token.cancel();
        assert!(at == 0 || call.times_woken() > woken, "woken when cancelled after {at} polls");
        let Poll::Ready(Err(error)) = call.poll() else {
            panic!("cancelled after {at} polls, it goes on");
        };
        assert_eq!(error.reason(), Reason::Cancelled, "after {at} polls");
        // The first attempt takes two polls; what it returns at the very moment is its error all the same.
        assert_eq!(error.last().is_some(), at >= 2, "after {at} polls");
        assert_eq!(attempts.get(), made, "no other attempt after {at} polls");
        assert_eq!(call.dropped(), 0);
        assert_eq!(clock.asleep(), 0);
    }
}

/// F16: an attempt that notices the cancellation by itself, and fails because of it, has not failed.
#[test]
fn what_an_attempt_returns_because_it_was_cancelled_is_no_failure() {
    let policy = policy();
    let (token, recorder) = (Token::new(), Recorder::new());
    let cancelled = |attempt: Attempt<Clock>| {
        if attempt.number() == 2 {
            token.cancel();
            assert_eq!(attempt.token().fired(), Some(Cause::Cancelled));
        }
        Err::<(), _>(if attempt.is_cancelled() { "interrupted" } else { "busy" })
    };
    let by_thread = blocking::with(&policy).timer(Clock::new()).cancel_on(&token).notify(recorder.hook());
    let error = by_thread.when(always).retry(cancelled).unwrap_err();
    assert_eq!(
        (error.reason(), error.attempts(), error.last()),
        (Reason::Cancelled, 2, Some(&"interrupted"))
    );
    assert_eq!(error.class(), Some(Class::Cancelled));

    let token = Token::new();
    let (clock, by_task) = (Clock::new(), recorder.clone());
    let with = relent::with(&policy).timer(clock.clone()).cancel_on(&token).notify(by_task.hook());
    let error = clock.run(with.when(always).retry(|attempt: Attempt<Clock>| {
        let token = &token;
        async move {
            if attempt.number() == 2 {
                token.cancel();
            }
            Err::<(), _>(if attempt.is_cancelled() { "interrupted" } else { "busy" })
        }
    }));
    let error = error.unwrap().unwrap_err();
    assert_eq!(
        (error.reason(), error.attempts(), error.last()),
        (Reason::Cancelled, 2, Some(&"interrupted"))
    );

    let classes: Vec<_> = recorder.events().into_iter().filter_map(|event| event.class).collect();
    assert_eq!(classes, ["transient", "cancelled", "transient", "cancelled"]);
}

/// F14: the error says that the call was cancelled, and what was wrong before.
#[test]
fn a_cancelled_call_carries_the_last_error_as_its_source() {
    let policy = Policy::constant(TICK).build().unwrap();
    let token = Token::new();
    let error = blocking::with(&policy)
        .timer(Clock::new())
        .cancel_on(&token)
        .notify(|event: &relent::Event<'_, std::io::Error>| {
            if event.wait().is_some() {
                token.cancel();
            }
        })
        .retry(|_attempt| Err::<(), _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
        .unwrap_err();
    assert!(error.is_cancelled());
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "connection reset");
    assert_eq!(error.to_string(), "gave up after 1 attempt: cancelled");
}

#[test]
fn a_cancelled_token_cancels_each_call_that_was_given_it() {
    let policy = policy();
    let token = Token::new();
    token.cancel();
    let with = blocking::with(&policy).timer(Clock::new()).cancel_on(&token).when(always);
    for _ in 0..2 {
        let error = with.clone().retry(|_attempt| -> Result<(), &str> { unreachable!() }).unwrap_err();
        assert_eq!((error.reason(), error.attempts(), error.last()), (Reason::Cancelled, 0, None));
        assert_eq!(error.to_string(), "not attempted: cancelled");
    }
}

/// A real thread, in a real wait: woken, not waited for.
#[test]
fn a_thread_in_a_wait_is_woken() {
    let policy = Policy::constant(Duration::from_secs(3600)).jitter(Jitter::None).build().unwrap();
    let token = Token::new();
    let (waits, waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            blocking::with(&policy)
                .cancel_on(&token)
                .when(always)
                .notify(|event: &relent::Event<'_, &str>| {
                    if event.wait().is_some() {
                        waits.send(()).unwrap();
                    }
                })
                .retry(|_attempt| Err::<(), _>("busy"))
        });
        waiting.recv().unwrap();
        token.cancel();
        let error = call.join().unwrap().unwrap_err();
        assert_eq!((error.reason(), error.last()), (Reason::Cancelled, Some(&"busy")));
    });
}

#[test]
fn the_token_fires_with_its_cause_in_both_colours() {
    let timed = |timeout: u32, deadline: u32| {
        policy().to_builder().attempt_timeout(TICK * timeout).deadline(TICK * deadline).build().unwrap()
    };
    for (policy, cause, left) in [
        (timed(2, 9), Cause::AttemptTimeout, TICK * 2),
        (timed(9, 3), Cause::Deadline, TICK * 3),
        (timed(3, 3), Cause::Deadline, TICK * 3),
    ] {
        let clock = Clock::new();
        let with = blocking::with(&policy).timer(clock.clone()).when(always);
        let _ = with.retry(|attempt: Attempt<Clock>| {
            if attempt.number() == 1 {
                assert_eq!((attempt.remaining(), attempt.token().fired()), (Some(left), None));
                clock.advance(left);
                assert_eq!(
                    (attempt.remaining(), attempt.token().fired()),
                    (Some(Duration::ZERO), Some(cause))
                );
                assert!(attempt.is_cancelled());
            }
            Err::<(), _>("slow")
        });

        // What an attempt left behind hears of its end, too.
        let (clock, heard) = (Clock::new(), Rc::new(RefCell::new(vec![])));
        let with = relent::with(&policy).timer(clock.clone()).when(always);
        let call = with.retry(|attempt: Attempt<Clock>| {
            let heard = Rc::clone(&heard);
            async move {
                let cause = attempt.token().wait().await;
                heard.borrow_mut().push(cause);
                std::future::pending::<Result<(), &str>>().await
            }
        });
        let error = clock.run(call).unwrap().unwrap_err();
        assert_eq!(error.last(), None);
        assert!(heard.borrow().iter().all(|heard| *heard == cause || error.is_deadline()), "{heard:?}");
    }
}

/// Drops are seen from outside: who holds the other half of the count?
#[test]
fn a_retryable_result_is_dropped_before_the_wait_and_an_error_is_kept_through_it() {
    let policy = policy();
    let held = |keep: bool| {
        let (clock, connection) = (Clock::new(), Rc::new(()));
        let attempt = |_| {
            let connection = Rc::clone(&connection);
            std::future::ready(if keep { Err(connection) } else { Ok(connection) })
        };
        let with = relent::with(&policy).timer(clock.clone()).classify(|_: &Result<_, _>| Class::Transient);
        let mut call = ByHand::new(with.retry(attempt));
        let mut seen = vec![];
        while call.poll().is_pending() {
            seen.push(Rc::strong_count(&connection) - 1);
            clock.advance(TICK);
        }
        seen
    };
    assert_eq!(held(false), [0, 0], "no result in either wait");
    assert_eq!(held(true), [1, 1], "one error in each wait, not two");
}

#[test]
fn in_a_blocking_call_as_well() {
    #[derive(Clone)]
    struct Looks<'a>(&'a Rc<()>, &'a RefCell<Vec<usize>>);
    impl relent::Clock for Looks<'_> {
        fn now(&self) -> Timestamp {
            Timestamp::ZERO
        }
    }
    impl blocking::Timer for Looks<'_> {
        fn sleep(&self, _wait: Duration, _cancel: Option<&Token>) {
            self.1.borrow_mut().push(Rc::strong_count(self.0) - 1);
        }
    }
    let policy = policy();
    for (keep, expected) in [(false, [0, 0]), (true, [1, 1])] {
        let (connection, seen) = (Rc::new(()), RefCell::new(vec![]));
        let with = blocking::with(&policy).timer(Looks(&connection, &seen));
        let _ = with.classify(|_: &Result<_, _>| Class::Transient).retry(|_attempt| {
            let connection = Rc::clone(&connection);
            if keep { Err(connection) } else { Ok(connection) }
        });
        assert_eq!(*seen.borrow(), expected);
    }
}

/// An attempt that is cut off must be gone before anybody is told, and before the next one begins.
#[test]
fn an_attempt_that_is_cut_off_is_dropped_at_once() {
    struct Gone<'a>(&'a Cell<bool>);
    impl Drop for Gone<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let policy = policy().to_builder().attempt_timeout(TICK).build().unwrap();
    let (clock, gone) = (Clock::new(), Cell::new(true));
    let with = relent::with(&policy).timer(clock.clone()).when(always);
    let call =
        with.notify(|_: &_| assert!(gone.get(), "dropped before the hook hears of it")).retry(|_attempt| {
            assert!(gone.replace(false), "dropped before the next one begins");
            let held = Gone(&gone);
            async move {
                let _held = held;
                std::future::pending::<Result<(), &str>>().await
            }
        });
    assert_eq!(clock.run(call).unwrap().unwrap_err().attempts(), 3);
}

/// Wakers may own tasks, and tasks waits of the same token: no lock may be held while they are dropped.
#[test]
fn a_waker_that_owns_another_wait_can_be_dropped() {
    type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;
    /// Only there to be dropped.
    struct Owner(#[allow(dead_code)] std::sync::Mutex<Wait>);
    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    let (token, clock) = (Token::new(), Clock::new());
    let waits: [fn(&Token, &Clock) -> Wait; 2] =
        [|token, _| Box::pin(token.cancelled()), |_, clock| Box::pin(clock.sleep(TICK))];
    for wait in waits {
        let inner = ByHand::new(wait(&token, &clock));
        let ByHand { future: mut inner, woken } = inner;
        assert!(inner.as_mut().poll(&mut Context::from_waker(&Waker::from(woken))).is_pending());
        let owner = Waker::from(Arc::new(Owner(std::sync::Mutex::new(inner))));
        let mut outer = wait(&token, &clock);
        assert!(outer.as_mut().poll(&mut Context::from_waker(&owner)).is_pending());
        drop(owner);
        // The waker that is replaced here is the last that owns the inner wait.
        assert!(outer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(clock.asleep(), 0);
}
