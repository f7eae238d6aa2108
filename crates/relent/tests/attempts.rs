//! What an attempt is told: its number, the call's key, its target.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use relent::testing::Clock;
use relent::{Attempt, Class, Hint, Outcome, Policy, PolicyBuilder, Reason, Targets, blocking};

/// Four attempts without waits.
fn policy() -> PolicyBuilder {
    Policy::constant(Duration::ZERO)
}

fn always(_: &&str) -> bool {
    true
}

/// F20: one key for all attempts of a call, another one for the next call.
#[test]
fn the_key_stays_over_attempts_and_differs_over_calls() {
    let policy = policy().build().unwrap();
    let keys_of_call = || {
        let mut keys = vec![];
        let with = blocking::with(&policy).timer(Clock::new()).when(always);
        let _ = with.retry(|attempt: Attempt<Clock>| {
            keys.push(attempt.idempotency_key().to_string());
            Err::<(), _>("busy")
        });
        assert_eq!(keys.len(), 4);
        keys.into_iter().collect::<HashSet<_>>()
    };
    let mut all = HashSet::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..50).map(|_| keys_of_call()).collect::<Vec<_>>())).collect();
        for keys in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
            assert_eq!(keys.len(), 1, "one key in each call");
            all.extend(keys);
        }
    });
    assert_eq!(all.len(), 200, "another one in each call");
}

/// The same in async code, where the first attempt is made elsewhere than the others, and one of them is cut off.
#[test]
fn an_async_call_keeps_its_key_over_timeouts() {
    let policy = policy().attempt_timeout(Duration::from_secs(1)).build().unwrap();
    let (clock, keys) = (Clock::new(), RefCell::new(vec![]));
    let with = relent::with(&policy).timer(clock.clone()).when(always);
    let call = with.retry(|attempt: Attempt<Clock>| {
        keys.borrow_mut().push(attempt.idempotency_key().clone());
        let hangs = attempt.number() % 2 == 1;
        async move { if hangs { std::future::pending().await } else { Err::<(), _>("busy") } }
    });
    clock.run(call).unwrap().unwrap_err();
    let keys = keys.into_inner();
    assert!(
        keys.len() == 4 && keys.iter().all(|key| *key == keys[0] && key.to_string() == keys[0].to_string())
    );
}

#[test]
fn a_given_key_is_the_key() {
    let policy = policy().build().unwrap();
    let with = blocking::with(&policy).timer(Clock::new()).idempotency_key("order-7").when(always);
    let _ = with.retry(|attempt: Attempt<Clock>| {
        assert_eq!(attempt.idempotency_key().to_string(), "order-7");
        assert_eq!(format!("{:>9}", attempt.idempotency_key()), "  order-7");
        Err::<(), _>("busy")
    });
}

/// A policy that requires idempotency repeats what carries a key, what the caller vouches for, and what was not sent.
#[test]
fn what_a_strict_policy_repeats() {
    let policy = policy().require_idempotency(true).build().unwrap();
    let once = (1, Reason::NotIdempotent);
    for (class, reads_key_in, vouched, given, end) in [
        (Class::Transient, None, None, false, once),
        (Class::Timeout, None, None, false, once),
        (Class::NotSent, None, None, false, (4, Reason::AttemptsExhausted)),
        (Class::Transient, Some(1), None, false, (4, Reason::AttemptsExhausted)),
        (Class::Transient, Some(2), None, false, once),
        (Class::Transient, None, Some(true), false, (4, Reason::AttemptsExhausted)),
        (Class::Transient, None, None, true, (4, Reason::AttemptsExhausted)),
        // The caller knows best.
        (Class::Transient, Some(1), Some(false), true, once),
    ] {
        let mut with = blocking::with(&policy).timer(Clock::new());
        if let Some(vouched) = vouched {
            with = with.idempotent(vouched);
        }
        if given {
            with = with.idempotency_key("order-7");
        }
        let error = with.when(|_: &&str| class).retry(|attempt: Attempt<Clock>| {
            if reads_key_in == Some(attempt.number()) {
                let _ = attempt.idempotency_key();
            }
            Err::<(), _>("busy")
        });
        let error = error.unwrap_err();
        assert_eq!((error.attempts(), error.reason()), end, "{class} {reads_key_in:?} {vouched:?} {given}");
    }
}

#[test]
fn targets_take_turns_and_the_failed_ones_are_known() {
    let policy = policy().max_attempts(5).build().unwrap();
    let mut seen = vec![];
    let with = blocking::with(&policy).timer(Clock::new()).target(["a", "b", "c"]).when(always);
    let _ = with.retry(|attempt: Attempt<Clock>| {
        let failed: Vec<_> = attempt.failed_targets().map(String::from).collect();
        seen.push((attempt.target().unwrap().to_string(), failed.concat()));
        Err::<(), _>("busy")
    });
    let expected = [("a", ""), ("b", "a"), ("c", "ab"), ("a", "abc"), ("b", "abc")];
    assert_eq!(seen, expected.map(|(target, failed)| (target.into(), failed.into())));

    let plain = |targets: Targets| {
        let with = blocking::with(&policy).timer(Clock::new()).target(targets).when(always);
        with.retry(|attempt: Attempt<Clock>| Ok::<_, &str>(attempt.target().map(String::from))).unwrap()
    };
    assert_eq!(plain(Targets::default()), None);
    assert_eq!(plain("a".into()).as_deref(), Some("a"));
    assert_eq!(plain(String::from("a").into()).as_deref(), Some("a"));
}

#[test]
fn an_attempt_knows_what_came_before_it() {
    let policy = policy().max_attempts(2).build().unwrap();
    let mut seen = vec![];
    let asked = Hint::After(Duration::ZERO);
    let with = blocking::with(&policy).timer(Clock::new());
    let with = with.when(|_: &&str| Outcome::of(Class::Throttled).hint(asked));
    let _ = with.retry(|attempt: Attempt<Clock>| {
        assert_eq!((attempt.max(), attempt.remaining(), attempt.is_cancelled()), (Some(2), None, false));
        seen.push((attempt.number(), attempt.last_class(), attempt.last_hint()));
        Err::<(), _>("busy")
    });
    assert_eq!(seen, [(1, None, None), (2, Some(Class::Throttled), Some(asked))]);
}

/// What is left is the lesser of timeout and deadline, and of the deadline only what is not kept in reserve.
#[test]
fn what_is_left_shrinks() {
    let secs = Duration::from_secs;
    let deadline = relent::Deadline { total: secs(12), reserve: secs(2) };
    let policy = policy().deadline(deadline).attempt_timeout(secs(4)).max_attempts(4).build().unwrap();
    let (clock, mut left) = (Clock::new(), vec![]);
    let with = blocking::with(&policy).timer(clock.clone()).when(always);
    let error = with.retry(|attempt: Attempt<Clock>| {
        left.push(attempt.remaining().unwrap().as_secs());
        clock.advance(secs(3));
        left.push(attempt.remaining().unwrap().as_secs());
        Err::<(), _>("busy")
    });
    assert_eq!(left, [4, 1, 4, 1, 4, 1, 1, 0]);
    assert_eq!(error.unwrap_err().reason(), Reason::AttemptsExhausted);
}
