//! The deadline: nothing is started at or after it, and nothing is waited for that could not be started.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{
    Alone, Call, Class, Deadline, Decision, Hint, HintMode, HintPolicy, Jitter, Moment, OnDeadline, Outcome,
    Policy, PolicyBuilder, Reason, Shared, Source, Start, Timestamp,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A moment `after` the epoch, at which the calls here begin.
fn at(after: Duration) -> Moment {
    Moment::at(Timestamp::from_duration(after), 0)
}

fn stop(reason: Reason) -> Decision {
    Decision::Stop { reason, after: None }
}

fn fitting(wait: Duration) -> PolicyBuilder {
    Policy::constant(wait)
        .jitter(Jitter::None)
        .uncapped()
        .unlimited_attempts()
        .deadline(secs(10))
        .on_deadline(OnDeadline::Fit)
}

#[test]
fn a_fitted_wait_is_not_cut_below_what_the_server_asked() {
    // 20 s are scheduled, 10 s are left: half of that is 5 s.
    for (mode, asked, decision) in [
        (HintMode::Minimum, 8_000, Decision::Retry { after: secs(8), source: Source::Schedule }),
        (HintMode::Minimum, 3_000, Decision::Retry { after: secs(5), source: Source::Schedule }),
        (HintMode::Minimum, 10_000, stop(Reason::DeadlineWouldPass)),
        (HintMode::Clamp(secs(5)), 8_000, Decision::Retry { after: secs(8), source: Source::Schedule }),
        (HintMode::Clamp(secs(5)), 22_000, stop(Reason::DeadlineWouldPass)),
        (HintMode::Exact, 8_000, Decision::Retry { after: secs(8), source: Source::Hint }),
        (HintMode::Exact, 10_000, stop(Reason::DeadlineWouldPass)),
        (HintMode::Ignore, 8_000, Decision::Retry { after: secs(5), source: Source::Schedule }),
    ] {
        let policy = fitting(secs(20)).hint(HintPolicy::DEFAULT.mode(mode).spread(0.0)).build().unwrap();
        let outcome = Outcome::of(Class::Throttled).hint(Hint::After(Duration::from_millis(asked)));
        let decided = Call::new(Some(Timestamp::ZERO)).decide(&policy, &mut Alone, outcome, at(secs(0)));
        assert_eq!(decided, decision, "{mode:?} {asked} ms");
    }
}

#[test]
fn a_fitted_wait_is_not_cut_below_the_floor() {
    let policy = fitting(secs(20)).floor(secs(3)).build().unwrap();
    for (now, decision) in [
        (0, Decision::Retry { after: secs(5), source: Source::Schedule }),
        (6, Decision::Retry { after: secs(3), source: Source::Schedule }),
        (7, stop(Reason::DeadlineWouldPass)),
    ] {
        let outcome = Outcome::of(Class::Transient);
        let decided = Call::new(Some(Timestamp::ZERO)).decide(&policy, &mut Alone, outcome, at(secs(now)));
        assert_eq!(decided, decision, "at {now} s");
    }
}

/// Halves of halves do not end in a storm: whatever the deadline, a handful of attempts is added.
#[test]
fn a_fitted_wait_is_not_cut_below_a_tenth_of_the_first() {
    let policy = fitting(secs(20)).build().unwrap();
    for (now, decision) in [
        (0, Decision::Retry { after: secs(5), source: Source::Schedule }),
        (7, Decision::Retry { after: secs(2), source: Source::Schedule }),
        (8, stop(Reason::DeadlineWouldPass)),
    ] {
        let outcome = Outcome::of(Class::Transient);
        let decided = Call::new(Some(Timestamp::ZERO)).decide(&policy, &mut Alone, outcome, at(secs(now)));
        assert_eq!(decided, decision, "at {now} s");
    }
}

#[test]
fn failures_that_take_no_time_come_to_an_end_before_the_deadline() {
    let policy = fitting(secs(20)).build().unwrap();
    let mut call = Call::new(Some(Timestamp::ZERO));
    let mut now = secs(0);
    let last = loop {
        match call.decide(&policy, &mut Alone, Outcome::of(Class::Transient), at(now)) {
            Decision::Retry { after, .. } => now += after,
            end => break end,
        }
        assert!(call.attempts() < 100 && now < secs(10), "attempt {} at {now:?}", call.attempts());
    };
    assert_eq!(last, stop(Reason::DeadlineWouldPass));
}

#[test]
fn the_initial_spread_ends_before_the_deadline() {
    for entropy in [0, 1, u64::MAX / 2, u64::MAX] {
        for (spread, usable) in [(30, 10), (10, 10), (5, 10)] {
            let policy = Policy::constant(secs(1))
                .initial_spread(secs(spread))
                .deadline(Deadline { total: secs(usable + 2), reserve: secs(2) })
                .build()
                .unwrap();
            let call = Call::new(Some(Timestamp::ZERO));
            let moment = Moment::at(Timestamp::ZERO, entropy);
            let Start::Wait { after, source: Source::Spread } = call.start(&policy, &mut Alone, moment)
            else {
                panic!("no spread")
            };
            assert!(after < secs(usable.min(spread)), "{after:?}");
            assert_eq!(call.admit(&policy, &mut Alone, at(after)), Start::Go);
            let late = Start::Stop { reason: Reason::DeadlinePassed };
            assert_eq!(call.start(&policy, &mut Alone, at(secs(usable))), late);
        }
    }
}

#[test]
fn a_limiter_is_not_waited_for_past_the_deadline() {
    struct Delays(Duration);
    impl Shared for Delays {
        fn admit(&mut self, _moment: Moment) -> Start {
            Start::Wait { after: self.0, source: Source::Limiter }
        }
    }
    let policy = Policy::constant(secs(1)).deadline(secs(10)).build().unwrap();
    let call = Call::new(Some(Timestamp::ZERO));
    for (now, delay, start) in [
        (0, 9, Start::Wait { after: secs(9), source: Source::Limiter }),
        (0, 10, Start::Stop { reason: Reason::DeadlineWouldPass }),
        (9, 1, Start::Stop { reason: Reason::DeadlineWouldPass }),
        (10, 0, Start::Stop { reason: Reason::DeadlinePassed }),
    ] {
        let mut shared = Delays(secs(delay));
        assert_eq!(call.start(&policy, &mut shared, at(secs(now))), start, "{delay} s at {now} s");
        assert_eq!(call.admit(&policy, &mut shared, at(secs(now))), start, "{delay} s at {now} s");
    }
}

#[test]
fn the_end_of_time_is_past_every_deadline() {
    let policy = Policy::constant(secs(1)).deadline(secs(10)).build().unwrap();
    for began in [Timestamp::MAX, Timestamp::from_nanos(u64::MAX - 1), Timestamp::from_nanos(u64::MAX - 5)] {
        let mut call = Call::new(Some(began));
        let last = Moment::at(Timestamp::MAX, 0);
        let late = Start::Stop { reason: Reason::DeadlinePassed };
        assert_eq!(call.admit(&policy, &mut Alone, last), late);
        let decided = call.decide(&policy, &mut Alone, Outcome::of(Class::Transient), last);
        assert_eq!(decided, stop(Reason::DeadlinePassed));
    }
}

/// Where deadline, breaker and budget would all refuse, the earliest step speaks, and the later ones are not asked.
#[test]
fn the_deadline_comes_before_the_breaker_and_the_breaker_before_the_budget() {
    struct Closed {
        until: Timestamp,
        withdrawn: u32,
    }
    impl Shared for Closed {
        fn ready_at(&mut self, _now: Option<Timestamp>) -> Option<Timestamp> {
            Some(self.until)
        }
        fn withdraw(&mut self, _outcome: &Outcome, _now: Option<Timestamp>) -> Result<(), Reason> {
            self.withdrawn += 1;
            Err(Reason::BudgetExhausted)
        }
    }
    let policy = Policy::constant(secs(4)).jitter(Jitter::None).deadline(secs(10)).build().unwrap();
    for (now, opens, reason, withdrawn) in [
        (6, 11, Reason::DeadlineWouldPass, 0),
        (5, 10, Reason::CircuitOpen, 0),
        (5, 9, Reason::BudgetExhausted, 1), // open again exactly when the wait ends
        (5, 0, Reason::BudgetExhausted, 1),
    ] {
        let mut shared = Closed { until: Timestamp::from_duration(secs(opens)), withdrawn: 0 };
        let mut call = Call::new(Some(Timestamp::ZERO));
        let decided = call.decide(&policy, &mut shared, Outcome::of(Class::Transient), at(secs(now)));
        assert_eq!((decided, shared.withdrawn), (stop(reason), withdrawn), "{now} s, opens {opens} s");
    }
}

/// The reserve is the caller's: the call ends before it.
#[test]
fn the_reserve_is_kept_back() {
    let deadline = Deadline { total: secs(10), reserve: secs(3) };
    let policy = Policy::constant(secs(4)).jitter(Jitter::None).deadline(deadline).build().unwrap();
    for (now, decision) in [
        (2, Decision::Retry { after: secs(4), source: Source::Schedule }),
        (3, stop(Reason::DeadlineWouldPass)),
        (7, stop(Reason::DeadlinePassed)),
    ] {
        let mut call = Call::new(Some(Timestamp::ZERO));
        assert_eq!(call.decide(&policy, &mut Alone, Outcome::of(Class::Transient), at(secs(now))), decision);
        let left = call.remaining(&policy, Timestamp::from_duration(secs(now)));
        assert_eq!(left, Some(secs(7 - now)));
    }
}

/// What the deadline cut off names the deadline, even where the attempt timeout's class would not be retried, would not
/// be safe to, or was the last attempt. (F25)
#[test]
fn an_attempt_that_runs_into_the_deadline_ends_by_the_deadline() {
    use relent_core::{Classes, Repeat};

    let policy = |attempts| Policy::constant(secs(1)).max_attempts(attempts).deadline(secs(10));
    let choosy = policy(4).retry_on(Classes::from([Class::Transient])).build().unwrap();
    for (policy, repeat) in [
        (policy(4).build().unwrap(), Repeat::Safe),
        (policy(4).build().unwrap(), Repeat::NotIdempotent),
        (policy(1).build().unwrap(), Repeat::Safe),
        (choosy, Repeat::Safe),
    ] {
        let decide = |outcome: Outcome, now| {
            let mut call = Call::new(Some(Timestamp::ZERO));
            call.decide(&policy, &mut Alone, outcome.repeat(repeat), at(secs(now)))
        };
        assert_eq!(decide(Outcome::of(Class::Timeout), 10), stop(Reason::DeadlinePassed));
        // Other failures answer for themselves.
        assert_eq!(decide(Outcome::of(Class::Permanent), 10), stop(Reason::NotRetryable));
        // A timeout of the attempt's own is no deadline.
        assert_ne!(decide(Outcome::of(Class::Timeout), 9), stop(Reason::DeadlinePassed));
    }
}
