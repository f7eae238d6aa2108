//! The testing kit itself, and the clocks that calls run on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use relent::testing::{Clock, Recorder, Script, Stuck};
use relent::{Class, Jitter, Policy, Timer as _, Token, blocking};

const SECOND: Duration = Duration::from_secs(1);

/// Runs all to their ends.
async fn join<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let (mut running, mut done): (Vec<_>, Vec<Option<T>>) =
        futures.into_iter().map(|future| (future, None)).unzip();
    std::future::poll_fn(|context| {
        for (future, done) in running.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[test]
fn calls_side_by_side_share_the_time() {
    let (clock, timeline) = (Clock::new(), RefCell::new(vec![]));
    let call = |name: &'static str, wait: u64| {
        let (clock, timeline) = (clock.clone(), &timeline);
        async move {
            let policy =
                Policy::constant(SECOND * wait as u32).jitter(Jitter::None).max_attempts(3).build().unwrap();
            let with = relent::with(&policy).timer(clock.clone()).when(|_: &&str| true);
            let result = with.retry(|attempt| {
                timeline.borrow_mut().push(format!(
                    "{}s {name}{}",
                    clock.elapsed().as_secs(),
                    attempt.number()
                ));
                std::future::ready(Err::<(), _>("busy"))
            });
            result.await.unwrap_err().attempts()
        }
    };
    let calls: Vec<Pin<Box<dyn Future<Output = u32>>>> = vec![Box::pin(call("a", 2)), Box::pin(call("b", 3))];
    assert_eq!(clock.run(join(calls)), Ok(vec![3, 3]));
    assert_eq!(clock.elapsed(), 6 * SECOND, "not the sum");
    assert_eq!(timeline.into_inner(), ["0s a1", "0s b1", "2s a2", "3s b2", "4s a3", "6s b3"]);
}

#[test]
fn a_future_that_waits_for_nothing_is_stuck() {
    let clock = Clock::new();
    assert_eq!(clock.run(std::future::pending::<()>()), Err(Stuck));
    let token = Token::new();
    let waits = async {
        clock.sleep(SECOND).await;
        token.cancelled().await;
    };
    assert_eq!(clock.run(waits), Err(Stuck));
    assert_eq!(clock.elapsed(), SECOND);
    assert_eq!(clock.asleep(), 0);
    assert!(Stuck.to_string().contains("waits for something else"));
}

#[test]
fn sleepers_wake_in_order_and_not_before() {
    let (clock, woken) = (Clock::new(), RefCell::new(vec![]));
    let sleeper = |name: &'static str, millis: u64| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let (clock, woken) = (&clock, &woken);
        Box::pin(async move {
            clock.sleep(Duration::from_millis(millis)).await;
            woken.borrow_mut().push((name, clock.elapsed().as_millis()));
        })
    };
    let sleepers =
        vec![sleeper("late", 30), sleeper("now", 0), sleeper("early", 10), sleeper("early, too", 10)];
    clock.run(join(sleepers)).unwrap();
    assert_eq!(woken.into_inner(), [("now", 0), ("early", 10), ("early, too", 10), ("late", 30)]);

    // To the end of time, and no further.
    clock.run(clock.sleep(Duration::MAX)).unwrap();
    clock.run(clock.sleep(Duration::MAX)).unwrap();
    assert_eq!(clock.elapsed(), Duration::MAX);
}

#[test]
fn time_moves_by_hand_as_well() {
    let clock = Clock::new();
    let mut sleep = pin!(clock.sleep(2 * SECOND));
    let mut poll = || sleep.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(poll().is_pending());
    clock.advance(SECOND);
    assert!(poll().is_pending());
    assert_eq!(clock.asleep(), 1);
    clock.advance(SECOND);
    assert!(poll().is_ready());
    assert_eq!(clock.asleep(), 0);
}

#[test]
fn threads_share_a_clock_and_a_recorder() {
    let policy = Policy::constant(SECOND).jitter(Jitter::None).max_attempts(4).build().unwrap();
    let (clock, recorder) = (Clock::new(), Recorder::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let with = blocking::with(&policy).timer(clock.clone()).notify(recorder.hook());
                with.when(|_: &&str| Class::Transient).retry(|_attempt| Err::<(), _>("busy")).unwrap_err()
            });
        }
    });
    assert_eq!(clock.elapsed(), 12 * SECOND, "each wait of each thread moves it");
    assert_eq!(recorder.waits().len(), 12);
    assert_eq!(recorder.events().len(), 4 * 9);
}

#[test]
fn a_script_counts_and_is_shared() {
    let script = Script::new([Err("busy"), Ok(1)]);
    let clock = Clock::new();
    let policy = Policy::constant(SECOND).build().unwrap();
    let with = relent::with(&policy).timer(clock.clone()).when(|_: &&str| true);
    assert_eq!(clock.run(with.retry(|_attempt| script.clone().attempt())).unwrap().unwrap(), 1);
    assert_eq!(script.attempts(), 2);
}

/// A report tells the same story as the events.
#[test]
fn a_report_has_the_history() {
    let policy = Policy::constant(SECOND).jitter(Jitter::None).deadline(60 * SECOND).build().unwrap();
    let (clock, script) = (Clock::new(), Script::new([Err("busy"), Ok(503), Ok(200)]));
    let with =
        blocking::with(&policy).timer(clock.clone()).classify(|result: &Result<u32, &str>| match result {
            Ok(200) => Class::Success,
            Ok(_) => Class::Throttled,
            Err(_) => Class::Transient,
        });
    let report = with.retry_report(|_attempt| script.next());
    assert_eq!((report.result.unwrap(), report.attempts, report.elapsed), (200, 3, Some(2 * SECOND)));
    let history: Vec<_> =
        report.history.iter().map(|tried| (tried.attempt, tried.class, tried.ended)).collect();
    let at = |seconds: u32| Some(SECOND * seconds);
    assert_eq!(
        history,
        [(1, Class::Transient, at(0)), (2, Class::Throttled, at(1)), (3, Class::Success, at(2))]
    );
    assert!(report.history.iter().take(2).all(|tried| tried.wait.unwrap().0 == SECOND));
}

/// Tokio's paused clocks run apart from each other and from the system's: none may stand still for relent.
#[cfg(feature = "tokio")]
#[test]
fn paused_runtimes_far_apart_keep_their_deadlines() {
    let policy = Policy::constant(SECOND).jitter(Jitter::None).unlimited_attempts().deadline(10 * SECOND);
    let policy = policy.build().unwrap();
    let call = |ahead: Duration| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            tokio::time::advance(ahead).await;
            let began = tokio::time::Instant::now();
            let with = relent::with(&policy).when(|_: &&str| true);
            let error = with.retry(|_attempt| std::future::ready(Err::<(), _>("busy"))).await.unwrap_err();
            (error.attempts(), began.elapsed())
        })
    };
    // The first one is the first to look at the clock in this process, a thousand hours ahead of the others.
    for ahead in [1000 * 3600 * SECOND, Duration::ZERO, SECOND] {
        assert_eq!(call(ahead), (10, 9 * SECOND), "{ahead:?} ahead");
    }
}
