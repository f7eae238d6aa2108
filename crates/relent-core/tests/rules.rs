//! Rules: outcomes with a limit or a schedule of their own.

use std::time::Duration;

use relent_core::{
    Alone, Backoff, Call, Class, Count, Decision, Hint, Jitter, Moment, Outcome, Policy, PolicyBuilder,
    Reason, Rule, Schedule, Source,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn retry(seconds: u64) -> Decision {
    Decision::Retry { after: secs(seconds), source: Source::Schedule }
}

fn exhausted() -> Decision {
    Decision::Stop { reason: Reason::AttemptsExhausted, after: None }
}

/// 1, 2, 4 … s, unlimited.
fn doubling() -> PolicyBuilder {
    Policy::exponential(secs(1)).uncapped().jitter(Jitter::None).unlimited_attempts()
}

/// 10, 20, 40 … s.
fn slower() -> Backoff {
    Backoff::new(Schedule::exponential(secs(10))).uncapped().jitter(Jitter::None)
}

/// What each of these outcomes of one call leads to.
fn decisions(policy: &Policy, outcomes: &[Outcome]) -> Vec<Decision> {
    let mut call = Call::new(None);
    outcomes.iter().map(|outcome| call.decide(policy, &mut Alone, *outcome, Moment::timeless(0))).collect()
}

const SLOW: Outcome = Outcome::of(Class::Transient);
const BUSY: Outcome = Outcome::of(Class::Throttled);

#[test]
fn a_pushback_restarts_the_schedules_but_not_the_limits() {
    let pushed = BUSY.hint(Hint::Pushback(secs(5)));
    let pushback = Decision::Retry { after: secs(5), source: Source::Pushback };
    for count in [Count::Own, Count::All] {
        let rule = Rule::on(Class::Throttled).max_attempts(5).backoff(slower()).count(count);
        let policy = doubling().rule(rule).build().unwrap();
        assert_eq!(
            decisions(&policy, &[BUSY, BUSY, pushed, BUSY, BUSY]),
            [retry(10), retry(20), pushback, retry(10), exhausted()],
            "{count:?}"
        );
        assert_eq!(
            decisions(&policy, &[pushed; 5]),
            [pushback, pushback, pushback, pushback, exhausted()],
            "{count:?}"
        );
    }
    let policy = doubling().max_attempts(5).build().unwrap();
    assert_eq!(
        decisions(&policy, &[BUSY, BUSY, pushed, SLOW, SLOW]),
        [retry(1), retry(2), pushback, retry(1), exhausted()]
    );
}
