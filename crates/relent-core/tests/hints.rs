//! Waits that the server asks for.

use std::time::Duration;

use relent_core::{
    Alone, Call, Class, Decision, Hint, HintMode, HintPolicy, Jitter, Moment, Outcome, Policy, Reason, Source,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn retry(after: Duration, source: Source) -> Decision {
    Decision::Retry { after, source }
}

fn stop(reason: Reason) -> Decision {
    Decision::Stop { reason, after: None }
}

/// What the first failure with `hint` leads to, where 2 s are scheduled.
fn decided(hints: HintPolicy, hint: Hint, entropy: u64) -> Decision {
    let policy = Policy::constant(secs(2)).jitter(Jitter::None).hint(hints).build().unwrap();
    let outcome = Outcome::of(Class::Throttled).hint(hint);
    Call::new(None).decide(&policy, &mut Alone, outcome, Moment::timeless(entropy))
}

#[test]
fn ignored_hints_change_nothing_but_a_stop_stops() {
    let ignore = HintPolicy::DEFAULT.mode(HintMode::Ignore);
    for seconds in [0, 1, 50, 5000] {
        for hint in [Hint::After(secs(seconds)), Hint::Pushback(secs(seconds))] {
            assert_eq!(decided(ignore, hint, 7), retry(secs(2), Source::Schedule), "{hint:?}");
        }
    }
    assert_eq!(decided(ignore, Hint::Stop, 7), stop(Reason::PushbackStop));
}
