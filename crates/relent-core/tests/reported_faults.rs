//! Faults that users of other systems reported, each as a test of its whole kind. The names in brackets are the
//! reports.

use std::time::Duration;

use relent_core::{
    Alone, Backoff, Bound, Call, Class, Decision, First, Hint, HintMode, HintPolicy, Jitter, Memory, Moment,
    Multiplier, OnDeadline, Outcome, OverMax, Policy, PolicyBuilder, Reason, Repeat, Rule, Schedule, Source,
    Stage, Timestamp,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(after: Duration) -> Moment {
    Moment::at(Timestamp::from_duration(after), 0)
}

fn retry(after: Duration) -> Decision {
    Decision::Retry { after, source: Source::Schedule }
}

fn stop(reason: Reason) -> Decision {
    Decision::Stop { reason, after: None }
}

/// A connection that is meant to stay up: 1, 2, 4 … 60 s, given up after five minutes without success.
fn reconnecting() -> PolicyBuilder {
    Policy::exponential(secs(1)).cap(secs(60)).jitter(Jitter::None).unlimited_attempts().deadline(secs(300))
}

/// F17 [moq-dev/moq#1806, Mesh-America/supply-drop-bbs#9, mhthies/smarthomeconnect#51]: a connect that succeeds and
/// drops at once must not reset the backoff.
#[test]
fn a_short_life_is_no_recovery() {
    let policy = reconnecting().reset_after(secs(30)).build().unwrap();
    let mut call = Call::new(Some(Timestamp::ZERO));
    let dropped = Outcome::of(Class::Transient).healthy_for(ms(1));
    let (mut now, mut waits) = (secs(0), vec![]);
    let end = loop {
        now += ms(1);
        match call.decide(&policy, &mut Alone, dropped, at(now)) {
            Decision::Retry { after, .. } => {
                now += after;
                waits.push(after.as_secs());
            }
            end => break end,
        }
        assert!(now < secs(300));
    };
    assert_eq!(end, stop(Reason::DeadlineWouldPass));
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

/// F17, the other half: after a long time in health the next failure is the first of a new series.
#[test]
fn a_long_life_is_a_recovery() {
    let policy = reconnecting().reset_after(secs(30)).max_attempts(9).build().unwrap();
    let mut call = Call::new(Some(Timestamp::ZERO));
    let down = Outcome::of(Class::Transient);
    let mut now = secs(0);
    for wait in [1, 2, 4, 8, 16] {
        assert_eq!(call.decide(&policy, &mut Alone, down, at(now)), retry(secs(wait)));
        now += secs(wait);
    }
    for (healthy, wait) in [(secs(30) - Duration::from_nanos(1), 32), (secs(30), 1), (secs(3 * 3600), 1)] {
        now += healthy;
        let decided = call.decide(&policy, &mut Alone, down.healthy_for(healthy), at(now));
        assert_eq!(decided, retry(secs(wait)), "after {healthy:?}");
        now += secs(wait);
    }
    // The give-up window and the attempts were begun anew as well.
    assert_eq!(call.attempts(), 1);
    assert_eq!(call.remaining(&policy, Timestamp::from_duration(now)), Some(secs(299)));
}

/// Without a threshold no life is long enough, not even the longest that can be said.
#[test]
fn never_means_never() {
    let policy = reconnecting().build().unwrap();
    let mut call = Call::new(Some(Timestamp::ZERO));
    for wait in [1, 2, 4] {
        let dropped = Outcome::of(Class::Transient).healthy_for(Duration::MAX);
        assert_eq!(call.decide(&policy, &mut Alone, dropped, at(secs(0))), retry(secs(wait)));
    }
}
