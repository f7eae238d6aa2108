//! The result cache: one attempt for all who ask at once, wherever they are dropped.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(not(loom))]

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use relent::testing::Clock;
use relent::{Cache, Timer};

const SECOND: Duration = Duration::from_secs(1);

type Answers = Cache<&'static str, u32, String, Clock>;

fn cache(clock: &Clock) -> Answers {
    Cache::new(SECOND * 10).clock(clock.clone())
}

/// An operation that takes a second and counts.
async fn counted(clock: &Clock, attempts: &Cell<u32>, result: Result<u32, &str>) -> Result<u32, String> {
    attempts.set(attempts.get() + 1);
    clock.sleep(SECOND).await;
    result.map_err(Into::into)
}

/// Polls all of them until each is done.
async fn all<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut done: Vec<_> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[test]
fn a_value_is_kept_for_its_time_and_no_longer() {
    let clock = Clock::new();
    let cache = cache(&clock);
    let attempts = Cell::new(0);
    let ask = || {
        cache.get_blocking("key", || {
            attempts.set(attempts.get() + 1);
            Ok(attempts.get())
        })
    };
    assert_eq!((ask().unwrap(), ask().unwrap()), (1, 1));
    clock.advance(SECOND * 10 - Duration::from_nanos(1));
    assert_eq!(ask().unwrap(), 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!((ask().unwrap(), ask().unwrap()), (2, 2));
    cache.forget(&"key");
    assert_eq!(ask().unwrap(), 3);
    // Others are others.
    assert_eq!(cache.get_blocking("other", || Ok(7)).unwrap(), 7);
    assert_eq!((cache.len(), cache.is_empty()), (2, false));
}

#[test]
fn an_error_is_everybodys_and_is_not_kept() {
    let clock = Clock::new();
    let cache = cache(&clock);
    let attempts = Cell::new(0);
    let ask = || -> Pin<Box<dyn Future<Output = _>>> {
        Box::pin(cache.get("key", || counted(&clock, &attempts, Err("down"))))
    };
    let errors = clock.run(all((0..10).map(|_| ask()).collect())).unwrap();
    assert_eq!(attempts.get(), 1);
    assert!(errors.iter().all(|error| error.as_ref().unwrap_err().as_str() == "down"));
    assert!(clock.run(ask()).unwrap().is_err());
    assert_eq!((attempts.get(), cache.len()), (2, 0));
}

#[test]
fn at_expiry_comes_one_attempt_and_not_a_herd() {
    let clock = Clock::new();
    let cache = cache(&clock);
    let attempts = Cell::new(0);
    for round in 1..=5 {
        let asks = (0..100).map(|_| -> Pin<Box<dyn Future<Output = _>>> {
            Box::pin(cache.get("key", || counted(&clock, &attempts, Ok(round))))
        });
        let answers = clock.run(all(asks.collect())).unwrap();
        assert!(answers.iter().all(|answer| *answer.as_ref().unwrap() == round));
        assert_eq!(attempts.get(), round);
        clock.advance(SECOND * 10);
    }
    // The clock was there for one attempt a round and not for a hundred.
    assert_eq!(clock.elapsed(), SECOND * 55);
}

#[test]
fn nothing_is_kept_for_no_time_and_yet_those_at_once_share() {
    let clock = Clock::new();
    let cache: Answers = Cache::new(Duration::ZERO).clock(clock.clone());
    let attempts = Cell::new(0);
    let asks = || {
        let ask = |_| -> Pin<Box<dyn Future<Output = _>>> {
            Box::pin(cache.get("key", || counted(&clock, &attempts, Ok(1))))
        };
        all((0..10).map(ask).collect())
    };
    clock.run(asks()).unwrap();
    clock.run(asks()).unwrap();
    assert_eq!((attempts.get(), cache.len()), (2, 0));
}

#[test]
fn what_was_forgotten_under_way_reaches_who_waits_and_is_not_kept() {
    let clock = Clock::new();
    let cache = cache(&clock);
    let attempts = Cell::new(0);
    let mut old = pin!(cache.get("key", || counted(&clock, &attempts, Ok(1))));
    let mut follows = pin!(cache.get("key", || counted(&clock, &attempts, Ok(9))));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(old.as_mut().poll(context).is_pending() && follows.as_mut().poll(context).is_pending());
    cache.forget(&"key");
    let mut new = pin!(cache.get("key", || counted(&clock, &attempts, Ok(2))));
    assert!(new.as_mut().poll(context).is_pending());
    clock.advance(SECOND);
    // The new one lands first, then the old one, which must not take its place.
    assert_eq!(new.as_mut().poll(context), Poll::Ready(Ok(2)));
    assert_eq!(old.as_mut().poll(context), Poll::Ready(Ok(1)));
    assert_eq!(follows.as_mut().poll(context), Poll::Ready(Ok(1)));
    assert_eq!(cache.get_blocking("key", || Ok(7)).unwrap(), 2);
    assert_eq!(attempts.get(), 2);
}

#[test]
fn one_that_was_forgotten_does_not_end_the_one_that_followed_it() {
    let clock = Clock::new();
    let cache = cache(&clock);
    let attempts = Cell::new(0);
    let context = &mut Context::from_waker(Waker::noop());
    let mut old = pin!(cache.get("key", || counted(&clock, &attempts, Ok(1))));
    assert!(old.as_mut().poll(context).is_pending());
    cache.forget(&"key");
    clock.advance(SECOND / 2);
    let mut new = pin!(cache.get("key", || counted(&clock, &attempts, Ok(2))));
    assert!(new.as_mut().poll(context).is_pending());
    clock.advance(SECOND / 2);
    assert_eq!(old.as_mut().poll(context), Poll::Ready(Ok(1)));
    let mut third = pin!(cache.get("key", || counted(&clock, &attempts, Ok(3))));
    assert!(third.as_mut().poll(context).is_pending());
    clock.advance(SECOND / 2);
    assert_eq!(new.as_mut().poll(context), Poll::Ready(Ok(2)));
    assert_eq!(third.as_mut().poll(context), Poll::Ready(Ok(2)));
    assert_eq!(attempts.get(), 2);
}

/// Five ask; one after another is dropped before its poll number so-and-so. The others all get an answer.
#[test]
fn wherever_one_is_dropped_the_others_get_their_answer_and_nothing_is_left() {
    for victim in 0..5usize {
        for drop_at in 0..4 {
            let clock = Clock::new();
            let cache = cache(&clock);
            let attempts = Cell::new(0);
            let (clock, cache, attempts) = (&clock, &cache, &attempts);
            let ask = |number| -> Pin<Box<dyn Future<Output = _>>> {
                Box::pin(cache.get("key", move || counted(clock, attempts, Ok(number))))
            };
            let mut asks: Vec<_> = (0..5).map(|number| Some(ask(number))).collect();
            let mut polls = 0;
            let answers = clock.run(poll_fn(|context| {
                if polls == drop_at {
                    asks[victim] = None;
                }
                polls += 1;
                let mut waiting = false;
                for ask in &mut asks {
                    if let Some(future) = ask {
                        match future.as_mut().poll(context) {
                            Poll::Ready(answer) => {
                                answer.unwrap();
                                *ask = None;
                            }
                            Poll::Pending => waiting = true,
                        }
                    }
                }
                if waiting || polls <= drop_at {
                    context.waker().wake_by_ref();
                    // Time passes only where nobody goes on.
                    clock.advance(SECOND / 3);
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            }));
            answers.unwrap();
            assert!(attempts.get() <= 2, "{victim} {drop_at}");
            assert_eq!(clock.asleep(), 0);
            assert_eq!(cache.len(), 1);
            // No attempt is thought to be under way: the next who asks makes one.
            cache.forget(&"key");
            assert_eq!(cache.get_blocking("key", || Ok(77)).unwrap(), 77);
        }
    }
}

#[test]
fn a_chain_of_dropped_attempts_ends_with_the_last_one() {
    let clock = Clock::new();
    let cache = cache(&clock);
    let attempts = Cell::new(0);
    let (lent, counts) = (&clock, &attempts);
    let ask = |number| Box::pin(cache.get("key", move || counted(lent, counts, Ok(number))));
    let mut asks: Vec<_> = (0..5).map(ask).collect();
    let context = &mut Context::from_waker(Waker::noop());
    while asks.len() > 1 {
        assert!(asks.iter_mut().all(|ask| ask.as_mut().poll(context).is_pending()));
        drop(asks.remove(0));
    }
    assert_eq!(clock.run(asks.remove(0)).unwrap(), Ok(4));
    assert_eq!(attempts.get(), 5);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_waits_is_woken_by_the_end_however_it_comes_and_leaves_no_waker_behind() {
    for lands in [true, false] {
        let clock = Clock::new();
        let cache = cache(&clock);
        let attempts = Cell::new(0);
        let asleep = &mut Context::from_waker(Waker::noop());
        let ask = || Box::pin(cache.get("key", || counted(&clock, &attempts, Ok(1))));
        let (mut leads, mut follows, mut goes) = (ask(), ask(), ask());
        assert!(leads.as_mut().poll(asleep).is_pending());

        let (woken, gone) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let (ours, others) = (Waker::from(Arc::clone(&woken)), Waker::from(Arc::clone(&gone)));
        for _ in 0..3 {
            assert!(follows.as_mut().poll(&mut Context::from_waker(&ours)).is_pending());
            assert!(goes.as_mut().poll(&mut Context::from_waker(&others)).is_pending());
        }
        drop(others);
        assert_eq!(Arc::strong_count(&gone), 2, "one waker, however often it was polled");
        drop(goes);
        assert_eq!(Arc::strong_count(&gone), 1, "who goes leaves");

        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        clock.advance(SECOND);
        if lands {
            assert!(leads.as_mut().poll(asleep).is_ready());
        } else {
            drop(leads);
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(gone.0.load(Ordering::Relaxed), 0);
        assert_eq!(clock.run(follows).unwrap(), Ok(1));
        assert_eq!(attempts.get(), if lands { 1 } else { 2 });
    }
}

#[test]
fn a_panic_passes_on_to_those_who_wait() {
    let cache = Arc::new(cache(&Clock::new()));
    let attempts = AtomicU32::new(0);
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let attempt = || {
                cache.get_blocking("key", || {
                    begun.wait();
                    // Time for the other to wait for this one; it gets its answer whether or not it does.
                    std::thread::yield_now();
                    panic!("the operation does")
                })
            };
            catch_unwind(AssertUnwindSafe(attempt)).is_err()
        });
        let waits = scope.spawn(|| {
            begun.wait();
            cache.get_blocking("key", || {
                attempts.fetch_add(1, Ordering::Relaxed);
                Ok(2)
            })
        });
        assert!(panics.join().unwrap());
        assert_eq!(waits.join().unwrap(), Ok(2));
    });
    assert_eq!(attempts.into_inner(), 1);
}

#[test]
fn threads_share_one_attempt() {
    let cache = cache(&Clock::new());
    let attempts = AtomicU32::new(0);
    let begin = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                begin.wait();
                let answer = cache.get_blocking("key", || {
                    std::thread::yield_now();
                    Ok(attempts.fetch_add(1, Ordering::Relaxed))
                });
                assert_eq!(answer, Ok(0));
            });
        }
    });
    assert_eq!(attempts.into_inner(), 1);
}

#[test]
fn there_are_never_more_than_fit() {
    let clock = Clock::new();
    let cache: Cache<u32, u32, String, Clock> = Cache::new(SECOND).clock(clock.clone()).capacity(16);
    for key in 0..1_000 {
        assert_eq!(cache.get_blocking(key, || Ok(key)), Ok(key));
        assert!(cache.len() <= 16);
    }
    // The latest is there.
    assert_eq!(cache.get_blocking(999, || Err("again".into())), Ok(999));
}

/// What is kept may itself look into the cache when it is cloned or dropped.
#[test]
fn values_run_their_own_code_where_nothing_is_locked() {
    type Nested = Cache<u32, Looks, String, Clock>;
    struct Looks(Nested);
    impl Clone for Looks {
        fn clone(&self) -> Self {
            let _ = self.0.len();
            Self(self.0.clone())
        }
    }
    impl Drop for Looks {
        fn drop(&mut self) {
            let _ = self.0.len();
        }
    }
    let cache: Nested = Cache::new(SECOND).clock(Clock::new()).capacity(2);
    for key in [1, 1, 2, 3, 4] {
        cache.get_blocking(key, || Ok(Looks(cache.clone()))).unwrap();
    }
    (1..=4).for_each(|key| cache.forget(&key));
    assert!(cache.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_through_the_cache_can_be_spawned() {
    let cache: Cache<u32, u32, relent::Error<std::io::Error>> = Cache::new(SECOND);
    let policy: &'static relent::Policy = Box::leak(Box::default());
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let cache = cache.clone();
            tokio::spawn(async move {
                cache.get(task % 3, || relent::retry(policy, || async move { Ok(task % 3) })).await
            })
        })
        .collect();
    for (task, answer) in (0..).zip(tasks) {
        assert_eq!(answer.await.unwrap().unwrap(), task % 3);
    }
}
