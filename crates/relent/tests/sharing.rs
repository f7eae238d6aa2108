//! Calls that share a target, through both drivers, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(not(loom))]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use relent::testing::{Clock, Recorder, Script};
use relent::{
    Backoff, BreakerPolicy, BreakerState, Budget, BulkheadPolicy, Class, Jitter, LimiterPolicy, OnBudget,
    Policy, Priority, Quota, Rate, Ratio, Reason, Report, Retrier, RetrierBuilder, Schedule, Target,
    ThrottlePolicy, Timestamp,
};

type Outcome = Result<u32, &'static str>;

const OK: Outcome = Ok(1);
const BUSY: Outcome = Err("busy");

/// A retry every 100 ms.
fn policy() -> Policy {
    Policy::constant(Duration::from_millis(100)).jitter(Jitter::None).max_attempts(3).seed(1).build().unwrap()
}

fn target(with: impl FnOnce(RetrierBuilder) -> RetrierBuilder) -> Target {
    with(Retrier::new(policy())).build().unwrap().at("host")
}

fn breaker(failures: u32, open: Duration) -> BreakerPolicy {
    let open = Backoff::new(Schedule::Constant { initial: open }).jitter(Jitter::None);
    BreakerPolicy::consecutive(failures).open_for(open)
}

fn blocking(target: &Target, clock: &Clock, script: &[Outcome]) -> Report<u32, &'static str> {
    let script = Script::new(script.iter().copied());
    let call = target.blocking().when(|_: &&str| Class::Transient).timer(clock.clone());
    call.retry_report(|_attempt| script.next())
}

fn asynchronous(target: &Target, clock: &Clock, script: &[Outcome]) -> Report<u32, &'static str> {
    let script = Script::new(script.iter().copied());
    let call = target.with().when(|_: &&str| Class::Transient).timer(clock.clone());
    clock.run(call.retry_report(|_attempt| script.attempt())).unwrap()
}

/// One call: to which target, on which clock, with which results.
type Driver = fn(&Target, &Clock, &[Outcome]) -> Report<u32, &'static str>;

const DRIVERS: [Driver; 2] = [blocking, asynchronous];

#[test]
fn calls_draw_on_one_budget() {
    for call in DRIVERS {
        let (target, clock) = (target(|retrier| retrier.budget(Quota::new(10, 5))), Clock::new());
        let balance = || target.budgets()[0].with(|budget| budget.balance(Timestamp::ZERO)) / 1_000;
        assert_eq!(call(&target, &clock, &[BUSY, BUSY, BUSY]).reason, Reason::AttemptsExhausted);
        assert_eq!(balance(), 0);
        let refused = call(&target, &clock, &[BUSY]);
        assert_eq!((refused.reason, refused.attempts), (Reason::BudgetExhausted, 1));
        for _ in 0..5 {
            assert_eq!(call(&target, &clock, &[OK]).result.unwrap(), 1);
        }
        assert_eq!(call(&target, &clock, &[BUSY, OK]).reason, Reason::Succeeded);
        assert_eq!(balance(), 5);
    }
}

/// As the AWS SDKs do for operations that poll: who calls in a loop must not hammer once the budget is empty.
#[test]
fn a_call_may_wait_where_the_budget_refuses_and_then_gives_the_error_back() {
    for call in DRIVERS {
        for (on_budget, late) in [(OnBudget::Wait, 100), (OnBudget::Stop, 0)] {
            let policy =
                Policy::constant(Duration::from_millis(100)).jitter(Jitter::None).on_budget(on_budget);
            let retrier = Retrier::new(policy.build().unwrap()).budget(Quota::new(5, 5));
            let (target, clock) = (retrier.build().unwrap().at("host"), Clock::new());
            let spent = call(&target, &clock, &[BUSY, BUSY]);
            assert_eq!((spent.reason, spent.attempts), (Reason::BudgetExhausted, 2));
            assert_eq!(clock.elapsed(), Duration::from_millis(100 + late), "{on_budget:?}");
            for polls in 1..=3 {
                let polled = call(&target, &clock, &[BUSY]);
                assert_eq!((polled.reason, polled.attempts), (Reason::BudgetExhausted, 1));
                assert!(polled.result.is_err());
                let elapsed = Duration::from_millis(100 + late + polls * late);
                assert_eq!(clock.elapsed(), elapsed, "{on_budget:?}");
            }
            // What succeeds comes back at once.
            let before = clock.elapsed();
            assert_eq!(call(&target, &clock, &[OK]).reason, Reason::Succeeded);
            assert_eq!(clock.elapsed(), before);
        }
    }
}

#[test]
fn an_open_breaker_ends_calls_at_once_and_a_probe_closes_it() {
    for call in DRIVERS {
        let clock = Clock::new();
        let target = target(|retrier| retrier.breaker(breaker(2, Duration::from_secs(10))));
        // The second failure opens it: waiting for the third attempt would be of no use.
        let opening = call(&target, &clock, &[BUSY, BUSY]);
        assert_eq!((opening.reason, opening.attempts), (Reason::CircuitOpen, 2));
        assert_eq!(clock.elapsed(), Duration::from_millis(100));
        let refused = call(&target, &clock, &[]);
        assert_eq!((refused.reason, refused.attempts), (Reason::CircuitOpen, 0));
        clock.advance(Duration::from_secs(10));
        assert_eq!(call(&target, &clock, &[OK]).reason, Reason::Succeeded);
        let state = target.breaker().unwrap().with(|breaker| breaker.state(relent::Clock::now(&clock)));
        assert_eq!(state, BreakerState::Closed);
    }
}

#[test]
fn a_rate_limit_delays_first_attempts_and_retries() {
    for call in DRIVERS {
        let clock = Clock::new();
        let rate = Rate::new(1, Duration::from_secs(1)).unwrap();
        let target = target(|retrier| retrier.limiter(LimiterPolicy::new(rate)));
        assert_eq!(call(&target, &clock, &[BUSY, BUSY, OK]).attempts, 3);
        assert_eq!(clock.elapsed(), Duration::from_secs(2));
        assert_eq!(call(&target, &clock, &[OK]).attempts, 1);
        assert_eq!(clock.elapsed(), Duration::from_secs(3));
    }
}

#[test]
fn a_throttle_lets_some_pass() {
    for call in DRIVERS {
        let clock = Clock::new();
        let policy = Policy::default().to_builder().max_attempts(1).build().unwrap();
        let throttle = ThrottlePolicy::sre(2.0).max_rejection(0.5);
        let target = Retrier::new(policy).throttle(throttle).build().unwrap().at("host");
        assert_eq!(call(&target, &clock, &[BUSY]).reason, Reason::AttemptsExhausted);
        let refused = (0..1_000).filter(|_| call(&target, &clock, &[BUSY]).reason == Reason::RateLimited);
        // A half, as near as chance comes to it once in very many runs.
        let refused = refused.count();
        assert!((350..650).contains(&refused), "{refused}");
    }
}

#[test]
fn a_call_within_a_call_finds_the_bulkhead_full() {
    let clock = Clock::new();
    let target = target(|retrier| retrier.bulkhead(BulkheadPolicy::new(1)));
    let inner = Cell::new(None);
    let outer = target.blocking().when(|_: &&str| Class::Transient).timer(clock.clone()).retry(|_attempt| {
        inner.set(Some(blocking(&target, &clock, &[]).reason));
        OK
    });
    assert_eq!(outer.unwrap(), 1);
    assert_eq!(inner.get(), Some(Reason::BulkheadFull));
    assert_eq!(blocking(&target, &clock, &[OK]).reason, Reason::Succeeded);
}

/// Polls all of them until they are done.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ended) = future.as_mut().poll(context) {
                *output = Some(ended);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

fn queued(queue: u32, max_wait: u64) -> Target {
    let bulkhead = BulkheadPolicy::new(1).queue(queue).max_wait(Duration::from_millis(max_wait));
    target(|retrier| retrier.bulkhead(bulkhead))
}

#[test]
fn those_who_wait_in_a_queue_are_woken_in_order_and_no_longer_wait_than_they_may() {
    let (clock, target) = (Clock::new(), queued(3, 25));
    let order = RefCell::new(vec![]);
    let call = |number: u64| {
        let call = target.with().when(|_: &&str| Class::Transient).timer(clock.clone());
        let (order, clock) = (&order, &clock);
        call.retry_report(move |_attempt| {
            order.borrow_mut().push((number, clock.elapsed().as_millis() as u64));
            let sleep = relent::Timer::sleep(clock, Duration::from_millis(10));
            async move {
                sleep.await;
                OK
            }
        })
    };
    let reports = clock.run(all((0..5).map(call).collect())).unwrap();
    // The first runs, three wait, the fifth finds no room; the fourth's time is over before its turn.
    assert_eq!(*order.borrow(), [(0, 0), (1, 10), (2, 20)]);
    let reasons: Vec<_> = reports.iter().map(|report| report.reason).collect();
    let (ok, full) = (Reason::Succeeded, Reason::BulkheadFull);
    assert_eq!(reasons, [ok, ok, ok, full, full]);
    assert_eq!(clock.elapsed(), Duration::from_millis(30));
    assert_eq!(clock.asleep(), 0);
}

/// F35 [failsafe#393]: a place was handed to one who had stopped waiting, and lost.
#[test]
fn who_stops_waiting_passes_the_turn_on() {
    let (clock, target) = (Clock::new(), queued(3, 1_000));
    let call = || {
        let call = target.with().when(|_: &&str| Class::Transient).timer(clock.clone());
        let clock = &clock;
        Box::pin(call.retry(move |_attempt| {
            let sleep = relent::Timer::sleep(clock, Duration::from_millis(10));
            async move {
                sleep.await;
                OK
            }
        }))
    };
    // Dropped before its turn, and dropped when it had been told of its turn and had not asked yet.
    for told in [false, true] {
        let (mut first, mut second, mut third) = (call(), call(), call());
        let mut context = Context::from_waker(Waker::noop());
        for call in [&mut first, &mut second, &mut third] {
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        if !told {
            drop(second);
            assert_eq!(clock.run(first).unwrap().unwrap(), 1);
        } else {
            assert_eq!(clock.run(first).unwrap().unwrap(), 1);
            drop(second);
        }
        let began = clock.elapsed();
        assert_eq!(clock.run(third).unwrap().unwrap(), 1);
        assert_eq!(clock.elapsed() - began, Duration::from_millis(10));
        let free = target.bulkhead().unwrap().with(|it| (it.running(), it.has_queue()));
        assert_eq!(free, (0, false));
    }
}

#[test]
fn a_queue_does_not_outlast_a_deadline_or_a_cancellation() {
    let (clock, token) = (Clock::new(), relent::Token::new());
    let target = target(|retrier| retrier.bulkhead(BulkheadPolicy::new(1).queue(3)));
    let mut holds = target.join(clock.clone());
    use relent_core::{Moment, Shared as _, Start};
    assert_eq!(holds.admit(Moment::at(Timestamp::ZERO, 0)), Start::Go);
    let limited = policy().to_builder().deadline(Duration::from_millis(50)).build().unwrap();
    let call = || relent::with(&limited).at(&target).when(|_: &&str| Class::Transient).timer(clock.clone());
    let late = clock.run(call().retry(|_attempt| async { OK })).unwrap().unwrap_err();
    assert_eq!((late.reason(), clock.elapsed()), (Reason::DeadlinePassed, Duration::from_millis(50)));
    let waits = pin!(call().cancel_on(&token).retry(|_attempt| async { OK }));
    let mut waits = waits;
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    token.cancel();
    assert_eq!(clock.run(waits).unwrap().unwrap_err().reason(), Reason::Cancelled);
    assert!(!target.bulkhead().unwrap().with(|it| it.has_queue()));
}

#[test]
fn threads_wait_in_a_queue_too() {
    use relent::blocking::{Threads, Timer};
    let (clock, target) = (Clock::new(), queued(3, 25));
    let ended = Arc::new(Mutex::new(vec![]));
    for number in 0..5 {
        let (on, target, ended) = (clock.clone(), target.clone(), Arc::clone(&ended));
        let work = move || {
            // In order, and a millisecond apart.
            Timer::sleep(&on, Duration::from_millis(1 + number), None);
            let call = target.blocking().when(|_: &&str| Class::Transient).timer(on.clone());
            let report = call.cancel_on(&relent::Token::new()).retry_report(|_attempt| {
                Timer::sleep(&on, Duration::from_millis(10), None);
                OK
            });
            let at = on.elapsed().as_millis() as u64;
            ended.lock().unwrap().push((number, report.reason, at));
        };
        clock.spawn(Box::new(work)).unwrap();
    }
    clock.join();
    let (ok, full) = (Reason::Succeeded, Reason::BulkheadFull);
    assert_eq!(*ended.lock().unwrap(), [(4, full, 5), (0, ok, 11), (1, ok, 21), (3, full, 29), (2, ok, 31)]);
}

#[test]
fn a_future_dropped_at_any_point_leaves_nothing_behind() {
    // Attempts that are pending twice, so that there are points to drop at; waits are such points too.
    struct Yields(u32);
    impl Future for Yields {
        type Output = Outcome;
        fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
            if self.0 == 0 {
                return Poll::Ready(BUSY);
            }
            self.0 -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    let mut ended = false;
    let mut polls = 0;
    while !ended {
        let clock = Clock::new();
        let target = target(|retrier| {
            let retrier = retrier.bulkhead(BulkheadPolicy::new(1)).budget(Quota::new(10, 1));
            retrier.breaker(breaker(1, Duration::from_millis(50)).max_probes(1))
        });
        {
            let call = target.with().when(|_: &&str| Class::Transient).timer(clock.clone());
            let mut call = pin!(call.retry(|_attempt| Yields(2)));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if call.as_mut().poll(&mut context).is_ready() {
                    ended = true;
                    break;
                }
                clock.advance(Duration::from_millis(100));
            }
        }
        assert_eq!(target.bulkhead().unwrap().with(|bulkhead| bulkhead.running()), 0, "{polls}");
        // Whatever has happened: after the open time exactly one probe passes.
        clock.advance(Duration::from_secs(1));
        let report = blocking(&target, &clock, &[OK]);
        assert_eq!(report.reason, Reason::Succeeded, "{polls}");
        polls += 1;
    }
    assert!(polls > 6, "{polls}");
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let clock = Clock::new();
    let target = target(|retrier| retrier.bulkhead(BulkheadPolicy::new(1)));
    let call = || {
        let call = target.blocking().when(|_: &&str| Class::Transient).timer(clock.clone());
        let _ = call.retry(|_attempt| -> Outcome { std::panic::resume_unwind(Box::new(())) });
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    // In the classifier too.
    let call = || {
        let call = target.blocking().when(|_: &&str| -> Class { std::panic::resume_unwind(Box::new(())) });
        let _ = call.timer(clock.clone()).retry(|_attempt| BUSY);
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    assert_eq!(blocking(&target, &clock, &[OK]).reason, Reason::Succeeded);
}

#[test]
fn the_event_says_which_budget_refused() {
    let clock = Clock::new();
    let target = target(|retrier| retrier.budget(Quota::new(100, 1)).budget(Quota::new(1, 1)));
    let mut refused = vec![];
    for _ in 0..2 {
        let call = target.blocking().when(|_: &&str| Class::Transient).timer(clock.clone());
        let call = call.notify(|event| refused.push((event.kind(), event.attempt(), event.budget)));
        assert_eq!(call.retry(|_attempt| BUSY).unwrap_err().reason(), Reason::BudgetExhausted);
    }
    assert_eq!(
        refused,
        [
            ("attempt_started", 1, None),
            ("decision", 1, None),
            ("attempt_started", 2, None),
            ("budget", 2, Some(1)),
            ("decision", 2, Some(1)),
            ("gave_up", 2, Some(1)),
            ("attempt_started", 1, None),
            ("budget", 1, Some(1)),
            ("decision", 1, Some(1)),
            ("gave_up", 1, Some(1)),
        ]
    );
}

#[test]
fn events_tell_what_becomes_of_the_breaker_and_what_a_budget_held() {
    let (clock, recorder) = (Clock::new(), Recorder::new());
    let target = target(|retrier| {
        retrier.breaker(breaker(2, Duration::from_millis(300))).budget(Quota::new(7, 3).first_success(0))
    });
    let call = |script: &[Outcome]| {
        let script = Script::new(script.iter().copied());
        let call = target.blocking().when(|_: &&str| Class::Transient).timer(clock.clone());
        call.notify(recorder.hook()).retry_report(|_attempt| script.next())
    };
    // The second failure opens it; the probe closes it; then the quota is too low for another retry.
    assert_eq!(call(&[BUSY, BUSY]).reason, Reason::CircuitOpen);
    assert_eq!(call(&[]).reason, Reason::CircuitOpen);
    clock.advance(Duration::from_millis(300));
    assert_eq!(call(&[OK]).reason, Reason::Succeeded);
    target.budgets()[0].with(|budget| *budget = Budget::new(Quota::new(7, 7)).unwrap());
    assert_eq!(call(&[BUSY, OK]).reason, Reason::Succeeded);
    target.budgets()[0].with(|budget| {
        *budget = Budget::new(Quota::new(7, 3)).unwrap();
        for _ in 0..2 {
            let mut stake = relent_core::Stake::default();
            assert!(budget.withdraw(Class::Transient, Priority::Normal, &mut stake, Timestamp::ZERO));
        }
    });
    assert_eq!(call(&[BUSY]).reason, Reason::BudgetExhausted);
    let events = recorder.events();
    let told = events.iter().filter(|event| matches!(event.event, "breaker_state" | "budget"));
    let told: Vec<_> = told.map(|it| (it.event, it.attempt, it.from, it.to, it.balance)).collect();
    let state = |attempt, from, to| ("breaker_state", attempt, Some(from), Some(to), None);
    assert_eq!(
        told,
        [
            state(2, "closed", "open"),
            state(1, "open", "half_open"),
            state(1, "half_open", "closed"),
            ("budget", 1, None, None, Some(1.0)),
        ]
    );
    let generations: Vec<_> = events.iter().filter_map(|event| event.generation).collect();
    assert_eq!(generations.windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>(), [1, 1]);
    // A state is told before the decision that follows from it.
    let kinds: Vec<_> = events.iter().take(5).map(|event| event.event).collect();
    assert_eq!(kinds, ["attempt_started", "decision", "attempt_started", "breaker_state", "decision"]);
}

#[test]
fn a_call_of_priority_takes_what_is_kept_for_it() {
    let clock = Clock::new();
    let target = target(|retrier| retrier.budget_with_reserve(Quota::new(10, 1), Ratio::percent(20)));
    let attempts = |priority| {
        let call = target.blocking().when(|_: &&str| Class::Transient).timer(clock.clone());
        call.priority(priority).retry_report(|_attempt| BUSY).attempts
    };
    assert_eq!((0..10).map(|_| attempts(0) - 1).sum::<u32>(), 8);
    assert_eq!((0..10).map(|_| attempts(1) - 1).sum::<u32>(), 2);
}

#[test]
fn a_keeper_fetches_before_each_question_and_stores_after_it() {
    #[derive(Debug, Default)]
    struct Counts(Mutex<(u32, u32)>);
    impl relent::Keeper for Counts {
        fn fetch(&self) {
            let mut counts = self.0.lock().unwrap();
            assert_eq!(counts.0, counts.1, "what was fetched is stored before it is fetched again");
            counts.0 += 1;
        }

        fn store(&self) {
            self.0.lock().unwrap().1 += 1;
        }
    }
    let counts = Arc::new(Counts::default());
    let keeper = Arc::clone(&counts);
    let retrier = Retrier::new(Policy::default()).budget(Quota::new(5, 1)).keeper(keeper).build().unwrap();
    let target = retrier.at("a");
    let report = target
        .blocking()
        .when(|_: &&str| Class::Transient)
        .timer(Clock::new())
        .retry_report(|attempt| if attempt.number() < 2 { Err("down") } else { Ok(()) });
    assert!(report.result.is_ok());
    // Admitted twice, settled twice, one withdrawal, the breaker's readiness asked, the end.
    let (fetched, stored) = *counts.0.lock().unwrap();
    assert_eq!(fetched, stored);
    assert!(fetched >= 6, "{fetched}");
}
