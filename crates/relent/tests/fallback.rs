//! Fallbacks: who is answered for, by what, and that it is never done in silence.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(not(loom))]

use std::cell::{Cell, RefCell};
use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use relent::testing::{Clock, Recorder};
use relent::{Class, LastGood, Policy, Reason, Retrier, Token, blocking, with};

const SECOND: Duration = Duration::from_secs(1);

/// Two attempts, a second apart.
fn policy() -> Policy {
    Policy::constant(SECOND).jitter(relent::Jitter::None).max_attempts(2).build().unwrap()
}

fn class(error: &&str) -> Class {
    match *error {
        "bad" => Class::Permanent,
        "ignored" => Class::Ignored,
        _ => Class::Transient,
    }
}

#[test]
fn it_answers_where_the_target_does_not() {
    let policy = policy();
    for (script, answer, attempts) in [
        (vec![Ok(7)], Ok(7), 1),
        (vec![Err("down"), Ok(7)], Ok(7), 2),
        (vec![Err("down"); 2], Ok(0), 2),
        // These are answers too.
        (vec![Err("bad")], Err(Reason::NotRetryable), 1),
        (vec![Err("ignored")], Err(Reason::NotRetryable), 1),
    ] {
        let (clock, made) = (Clock::new(), Cell::new(0));
        let next = || {
            made.set(made.get() + 1);
            script[made.get() - 1]
        };
        let call = blocking::with(&policy).when(class).timer(clock.clone()).or(0);
        let blocked = call.retry(|_attempt| next()).map_err(|error| error.reason());
        assert_eq!((blocked, made.replace(0)), (answer, attempts), "{script:?}");
        let call = with(&policy).when(class).timer(clock.clone()).or(0);
        let polled = clock.run(call.retry(|_attempt| ready(next()))).unwrap();
        assert_eq!((polled.map_err(|error| error.reason()), made.get()), (answer, attempts), "{script:?}");
    }
}

#[test]
fn the_function_gets_what_came_of_the_call_and_why() {
    let policy = policy();
    let clock = Clock::new();
    let call = blocking::with(&policy).when(class).timer(clock.clone()).or_else(|failed| {
        assert_eq!((failed.reason, failed.class), (Reason::AttemptsExhausted, Some(Class::Transient)));
        assert_eq!(failed.attempts, 2);
        assert_eq!(failed.result.unwrap_err().last(), Some(&"down"));
        Ok(3)
    });
    assert_eq!(call.retry(|_attempt| Err("down")).unwrap(), 3);
    // Async, it may take its time.
    let call = with(&policy).when(class).timer(clock.clone()).or_else(|failed| {
        let clock = clock.clone();
        async move {
            relent::Timer::sleep(&clock, SECOND * 60).await;
            assert_eq!(failed.result.unwrap_err().attempts(), 2);
            Ok(4)
        }
    });
    assert_eq!(clock.run(call.retry(|_attempt| ready(Err("down")))).unwrap().unwrap(), 4);
    assert_eq!(clock.elapsed(), SECOND * 62);
}

#[test]
fn a_fallback_that_cannot_answer_leaves_the_calls_own_error() {
    let policy = policy();
    let clock = Clock::new();
    let call = blocking::with(&policy).when(class).timer(clock.clone()).or_else(Err);
    let error = call.retry(|_attempt| Err::<u32, _>("down")).unwrap_err();
    assert_eq!((error.reason(), error.last()), (Reason::AttemptsExhausted, Some(&"down")));
    let call = with(&policy).when(class).timer(clock.clone()).or_else(|failed| ready(Err(failed)));
    let error = clock.run(call.retry(|_attempt| ready(Err::<u32, _>("down")))).unwrap().unwrap_err();
    assert_eq!((error.reason(), error.last()), (Reason::AttemptsExhausted, Some(&"down")));
    // The next is asked then, and only then.
    let call = blocking::with(&policy).when(class).timer(clock.clone()).or_else(Err).or(5);
    assert_eq!(call.retry(|_attempt| Err("down")).unwrap(), 5);
    let call = with(&policy).when(class).timer(clock.clone()).or_else(|failed| ready(Err(failed))).or(5);
    assert_eq!(clock.run(call.retry(|_attempt| ready(Err("down")))).unwrap().unwrap(), 5);
    let call =
        blocking::with(&policy).when(class).timer(clock.clone()).or(4).or_else(|_| panic!("not asked"));
    assert_eq!(call.retry(|_attempt| Err("down")).unwrap(), 4);
}

#[test]
fn a_final_ok_that_is_a_failure_is_answered_for_and_comes_back_untouched_otherwise() {
    let policy = policy();
    let clock = Clock::new();
    let status = |result: &Result<u32, &str>| match result {
        Ok(503) => Class::Transient,
        Ok(404) => Class::Permanent,
        _ => Class::Success,
    };
    let call = || blocking::with(&policy).classify(status).timer(clock.clone());
    let polled = || with(&policy).classify(status).timer(clock.clone());
    for (given, answer) in [(200, 200), (503, 0), (404, 404)] {
        assert_eq!(call().or(0).retry(|_attempt| Ok(given)).unwrap(), answer);
        let polled = polled().or(0).retry(|_attempt| ready(Ok(given)));
        assert_eq!(clock.run(polled).unwrap().unwrap(), answer);
        assert_eq!(call().or_else(Err).retry(|_attempt| Ok(given)).unwrap(), given);
    }
    // It is not a good value either.
    let good = LastGood::new(SECOND * 1_000);
    for (given, answer) in [(503, 503), (200, 200), (503, 200)] {
        assert_eq!(call().or_last_good(&good, ()).retry(|_attempt| Ok(given)).unwrap(), answer);
    }
}

#[test]
fn a_caller_that_went_away_is_not_answered_unless_that_was_asked_for() {
    let policy = policy();
    let token = Token::new();
    token.cancel();
    let call = || blocking::with(&policy).when(class).timer(Clock::new()).cancel_on(&token);
    let error = call().or(0).retry(|_attempt| Err("down")).unwrap_err();
    assert_eq!(error.reason(), Reason::Cancelled);
    assert_eq!(call().or(0).only_if(|_, _| true).retry(|_attempt| Err("down")).unwrap(), 0);
    // In an attempt too, whatever it made of that.
    let token = Token::new();
    let call = blocking::with(&policy).when(class).timer(Clock::new()).cancel_on(&token).or(0);
    let error = call.retry(|_attempt| {
        token.cancel();
        Err("bad")
    });
    assert_eq!(error.unwrap_err().reason(), Reason::Cancelled);
}

#[test]
fn only_if_decides_by_reason_and_class() {
    let policy = policy();
    let answer = |only: fn(Reason, Option<Class>) -> bool, error: &'static str| {
        let call = blocking::with(&policy).when(class).timer(Clock::new()).or(0).only_if(only);
        let (blocked, report) =
            (call.clone().retry(|_attempt| Err(error)).is_ok(), call.retry_report(|_attempt| Err(error)));
        assert_eq!(blocked, report.fallback);
        blocked
    };
    let refused = |reason, _| reason == Reason::AttemptsExhausted;
    assert!(answer(refused, "down") && !answer(refused, "bad"));
    let permanent = |_, class| class == Some(Class::Permanent);
    assert!(!answer(permanent, "down") && answer(permanent, "bad"));
}

#[test]
fn it_answers_for_a_target_whose_breaker_is_open() {
    let target =
        Retrier::new(policy()).breaker(relent::BreakerPolicy::consecutive(1)).build().unwrap().at("host");
    target.breaker().unwrap().with(|breaker| breaker.trip(relent::Timestamp::ZERO));
    let call = target.blocking().when(class).timer(Clock::new()).or_else(|failed| {
        assert_eq!((failed.reason, failed.class), (Reason::CircuitOpen, None));
        assert_eq!(failed.attempts, 0);
        Ok(0)
    });
    assert_eq!(call.retry(|_attempt| Ok(1)).unwrap(), 0);
}

#[test]
fn events_and_reports_say_that_it_answered() {
    let policy = policy();
    let said = |call: &dyn Fn(&Recorder) -> (bool, bool)| {
        let recorder = Recorder::new();
        let (ok, fallback) = call(&recorder);
        let words: Vec<_> = recorder
            .events()
            .into_iter()
            .filter(|event| event.event == "fallback" || event.event == "gave_up")
            .map(|event| (event.event, event.attempt, event.reason, event.answered))
            .collect();
        (ok, fallback, words)
    };
    let gave_up = ("gave_up", 2, Some("attempts_exhausted"), None);
    let fallback = |answered| ("fallback", 2, Some("attempts_exhausted"), Some(answered));
    let call =
        |recorder: &Recorder| blocking::with(&policy).when(class).timer(Clock::new()).notify(recorder.hook());
    let seen = said(&|recorder| {
        let report = call(recorder).or(0).retry_report(|_attempt| Err("down"));
        assert_eq!((report.reason, report.attempts), (Reason::AttemptsExhausted, 2));
        assert_eq!((report.history.len(), report.elapsed), (2, Some(SECOND)));
        (report.result.is_ok(), report.fallback)
    });
    assert_eq!(seen, (true, true, vec![gave_up, fallback(true)]));
    let seen = said(&|recorder| {
        let report = call(recorder).or_else(Err::<u32, _>).retry_report(|_attempt| Err("down"));
        (report.result.is_ok(), report.fallback)
    });
    assert_eq!(seen, (false, false, vec![gave_up, fallback(false)]));
    let seen = said(&|recorder| (call(recorder).or(0).retry(|_attempt| Err("down")).is_ok(), true));
    assert_eq!(seen, (true, true, vec![gave_up, fallback(true)]));
    // Where it was not asked nothing is said of it.
    let seen = said(&|recorder| {
        let report = call(recorder).or(0).retry_report(|_attempt| Ok(1));
        (report.result.is_ok(), report.fallback)
    });
    assert_eq!(seen, (true, false, vec![]));
    let seen = said(&|recorder| {
        let report = call(recorder).or(0).retry_report(|_attempt| Err("bad"));
        (report.result.is_ok(), report.fallback)
    });
    assert_eq!(seen, (false, false, vec![("gave_up", 1, Some("not_retryable"), None)]));
    let polled = said(&|recorder| {
        let clock = Clock::new();
        let call = with(&policy).when(class).timer(clock.clone()).notify(recorder.hook()).or(0);
        let report = clock.run(call.retry_report(|_attempt| ready(Err("down")))).unwrap();
        (report.result.is_ok(), report.fallback)
    });
    assert_eq!(polled, (true, true, vec![gave_up, fallback(true)]));
}

#[test]
fn the_event_is_a_line() {
    let policy = policy();
    let lines = RefCell::new(Vec::new());
    let call = || {
        let lines = &lines;
        let call = blocking::with(&policy).when(class).timer(Clock::new()).name("stock").target("host:443");
        call.notify(move |event: &relent::Event<'_, &str>| lines.borrow_mut().push(event.to_string()))
    };
    call().or(0).retry(|_attempt| Err("down")).unwrap();
    assert_eq!(lines.take().last().unwrap(), "stock to host:443: a fallback answered after 2 attempts");
    call().or_else(Err::<u32, _>).retry(|_attempt| Err("down")).unwrap_err();
    let last = lines.take().pop().unwrap();
    assert_eq!(last, "stock to host:443: a fallback could not answer after 2 attempts; down");
}

#[test]
fn the_last_good_value_is_by_key_and_no_older_than_it_may_be() {
    let policy = policy();
    let clock = Clock::new();
    let good = LastGood::new(SECOND * 60).capacity(8);
    let ask = |key: u32, answer: Result<u32, &'static str>| {
        let call = blocking::with(&policy).when(class).timer(clock.clone()).or_last_good(&good, key);
        call.retry(|_attempt| answer)
    };
    assert!(ask(1, Err("down")).is_err());
    assert_eq!(ask(1, Ok(11)).unwrap(), 11);
    assert_eq!(ask(1, Err("down")).unwrap(), 11);
    assert!(ask(2, Err("down")).is_err(), "another key");
    assert!(ask(1, Err("bad")).is_err(), "an answer");
    assert_eq!(ask(1, Ok(12)).unwrap(), 12);
    assert_eq!(ask(1, Err("down")).unwrap(), 12);
    // The failed call takes a second of its own: after 59 s it is as old as it may be.
    clock.advance(SECOND * 57);
    assert_eq!(ask(1, Err("down")).unwrap(), 12);
    assert!(ask(1, Err("down")).is_err());
    // Async too, and nothing else is more than fits.
    let call = with(&policy).when(class).timer(clock.clone()).or_last_good(&good, 7);
    assert_eq!(clock.run(call.retry(|_attempt| ready(Ok(70)))).unwrap().unwrap(), 70);
    let call = with(&policy).when(class).timer(clock.clone()).or_last_good(&good, 7);
    assert_eq!(clock.run(call.retry(|_attempt| ready(Err("down")))).unwrap().unwrap(), 70);
    good.forget(&7);
    assert!(ask(7, Err("down")).is_err());
    (0..100).for_each(|key| assert_eq!(ask(key, Ok(key)).unwrap(), key));
    assert_eq!(ask(99, Err("down")).unwrap(), 99);
    assert!((0..50).all(|key| ask(key, Err("down")).is_err()));
}

#[test]
fn a_panic_in_a_fallback_is_the_callers_and_harms_nobody_else() {
    let policy = policy();
    let target = Retrier::new(policy).bulkhead(relent::BulkheadPolicy::new(1)).build().unwrap().at("host");
    let good = LastGood::new(SECOND * 60);
    let call = || target.blocking().when(class).timer(Clock::new());
    assert_eq!(call().or_last_good(&good, ()).retry(|_attempt| Ok(1)).unwrap(), 1);
    let panics = || {
        let call = call().or_else(|_| panic!("the fallback does"));
        call.retry(|_attempt| Err::<u32, _>("down"))
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(target.bulkhead().unwrap().with(|bulkhead| bulkhead.running()), 0);
    assert_eq!(call().or_last_good(&good, ()).retry(|_attempt| Err("down")).unwrap(), 1);
}

/// A call that is dropped at any of its awaits, the fallback's own included, leaves nothing.
#[test]
fn wherever_it_is_dropped_nothing_is_left() {
    let policy = policy();
    let clock = Clock::new();
    let target = Retrier::new(policy).bulkhead(relent::BulkheadPolicy::new(1)).build().unwrap().at("host");
    for polls in 0..6 {
        let call = target.with().when(class).timer(clock.clone()).or_else(|_| async {
            relent::Timer::sleep(&clock, SECOND).await;
            Ok(0)
        });
        {
            let mut call = pin!(call.retry(|_attempt| async {
                relent::Timer::sleep(&clock, SECOND).await;
                Err("down")
            }));
            for _ in 0..polls {
                if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    assert!(polls >= 5, "{polls}");
                    break;
                }
                clock.advance(SECOND);
            }
        }
        assert_eq!(clock.asleep(), 0);
        assert_eq!(target.bulkhead().unwrap().with(|bulkhead| bulkhead.running()), 0);
    }
}

#[tokio::test]
async fn a_call_with_a_fallback_can_be_spawned() {
    let policy: &'static Policy = Box::leak(Box::new(Policy::constant(Duration::ZERO).build().unwrap()));
    let good = LastGood::new(SECOND);
    let call = with(policy)
        .when(class)
        .or_last_good(&good, 1)
        .or_else(|failed| async move { if failed.attempts == 4 { Ok(0) } else { Err(failed) } });
    assert_eq!(tokio::spawn(call.retry(|_attempt| async { Err("down") })).await.unwrap().unwrap(), 0);
}
