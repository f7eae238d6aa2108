//! Waits that the server asks for.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{
    Alone, Call, Class, Decision, Dice, Hint, HintMode, HintPolicy, Jitter, Moment, Outcome, OverMax, Policy,
    Reason, Source,
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

#[test]
fn each_mode_makes_its_wait_of_schedule_and_hint() {
    // 2 s are scheduled; the spread is 10 %, and the entropy all of it or nothing.
    let clamp = HintMode::Clamp(secs(5));
    let (schedule, hint) = (Source::Schedule, Source::Hint);
    for (mode, asked, earliest, latest, source) in [
        (HintMode::Minimum, 0, 2_000, 2_000, schedule),
        (HintMode::Minimum, 1_000, 2_000, 2_000, schedule),
        (HintMode::Minimum, 3_000, 3_000, 3_300, hint),
        (HintMode::Minimum, 60_000, 60_000, 66_000, hint),
        (HintMode::Exact, 0, 0, 0, hint),
        (HintMode::Exact, 1_000, 1_000, 1_100, hint),
        (HintMode::Exact, 60_000, 60_000, 66_000, hint),
        (clamp, 0, 2_000, 2_000, schedule),
        (clamp, 2_000, 2_000, 2_000, schedule),
        (clamp, 3_000, 3_000, 3_000, hint),
        (clamp, 7_000, 7_000, 7_000, hint),
        (clamp, 60_000, 7_000, 7_000, hint),
        (HintMode::Ignore, 60_000, 2_000, 2_000, schedule),
    ] {
        let decided = |entropy| {
            let asked = Hint::After(Duration::from_millis(asked));
            decided(HintPolicy::DEFAULT.mode(mode), asked, entropy)
        };
        assert_eq!(decided(0), retry(Duration::from_millis(earliest), source), "{mode:?} {asked}");
        let Decision::Retry { after, source: from } = decided(u64::MAX) else { panic!("{mode:?} {asked}") };
        let latest = Duration::from_millis(latest);
        assert!(after <= latest && after + Duration::from_nanos(1) >= latest, "{mode:?} {asked}: {after:?}");
        assert_eq!(from, source);
    }
}

/// A minimum that lies between the scheduled wait and the spread hint counts as a hint when the spread made it longer.
#[test]
fn a_spread_hint_is_compared_as_it_is_waited() {
    let hint = Hint::After(Duration::from_millis(1_900));
    assert_eq!(decided(HintPolicy::DEFAULT, hint, 0), retry(secs(2), Source::Schedule));
    let Decision::Retry { after, source } = decided(HintPolicy::DEFAULT, hint, u64::MAX) else { panic!() };
    assert!(after > secs(2) && source == Source::Hint);
}

/// A thousand clients told "60 s" come back over six seconds, evenly, and none of them early.
#[test]
fn hints_are_spread_to_one_side() {
    let mut dice = Dice::new(60);
    let mut tenths = [0; 10];
    for _ in 0..10_000 {
        let Decision::Retry { after, .. } = decided(HintPolicy::DEFAULT, Hint::After(secs(60)), dice.roll())
        else {
            panic!()
        };
        assert!(after >= secs(60) && after < secs(66));
        tenths[((after - secs(60)).as_millis() / 600) as usize] += 1;
    }
    // 1000 in each; the standard deviation is 30.
    assert!(tenths.iter().all(|clients| (850..1150).contains(clients)), "{tenths:?}");
    let together = HintPolicy::DEFAULT.spread(0.0);
    assert_eq!(decided(together, Hint::After(secs(60)), dice.roll()), retry(secs(60), Source::Hint));
}

#[test]
fn a_hint_over_the_maximum_does_what_was_said() {
    let nanosecond = Duration::from_nanos(1);
    for mode in [HintMode::Minimum, HintMode::Exact] {
        let hints = HintPolicy::DEFAULT.mode(mode).max(secs(30)).spread(0.0);
        for hint in [Hint::After, Hint::Pushback] {
            let source =
                if hint(secs(1)) == Hint::Pushback(secs(1)) { Source::Pushback } else { Source::Hint };
            let at_most = |over_max, asked| decided(hints.over_max(over_max), hint(asked), 7);
            for over_max in [OverMax::Abort, OverMax::Clamp, OverMax::Ignore] {
                assert_eq!(
                    at_most(over_max, secs(30)),
                    retry(secs(30), source),
                    "the maximum itself is obeyed"
                );
            }
            let over = secs(30) + nanosecond;
            assert_eq!(at_most(OverMax::Abort, over), stop(Reason::HintOverMax));
            assert_eq!(at_most(OverMax::Clamp, over), retry(secs(30), source));
            assert_eq!(at_most(OverMax::Ignore, over), retry(secs(2), Source::Schedule));
        }
    }
}

/// A pushback is neither jittered nor spread nor raised to the schedule, whatever the mode.
#[test]
fn a_pushback_is_exact() {
    for mode in [HintMode::Minimum, HintMode::Exact, HintMode::Clamp(secs(5))] {
        for asked in [0, 1, 2, 3, 60] {
            for entropy in [0, 1 << 63, u64::MAX] {
                let decided = decided(HintPolicy::DEFAULT.mode(mode), Hint::Pushback(secs(asked)), entropy);
                assert_eq!(decided, retry(secs(asked), Source::Pushback), "{mode:?}");
            }
        }
    }
}

#[test]
fn the_server_may_stop_a_call_in_every_mode() {
    for mode in [HintMode::Minimum, HintMode::Exact, HintMode::Clamp(secs(5)), HintMode::Ignore] {
        for over_max in [OverMax::Abort, OverMax::Clamp, OverMax::Ignore] {
            let hints = HintPolicy::DEFAULT.mode(mode).over_max(over_max);
            assert_eq!(decided(hints, Hint::Stop, 0), stop(Reason::PushbackStop));
        }
    }
}

/// Hints have their own limit: the cap bounds what is scheduled.
#[test]
fn the_cap_does_not_cut_a_hint() {
    let policy = Policy::exponential(secs(1)).cap(secs(2)).build().unwrap();
    let outcome = Outcome::of(Class::Throttled).hint(Hint::After(secs(50)));
    let decided = Call::new(None).decide(&policy, &mut Alone, outcome, Moment::timeless(0));
    assert_eq!(decided, retry(secs(50), Source::Hint));
}

/// What the jitter remembered goes with the schedule: the wait after a pushback is again one of the first.
#[test]
fn a_pushback_restarts_decorrelated_jitter() {
    let policy =
        Policy::exponential(secs(1)).jitter(Jitter::Decorrelated).unlimited_attempts().build().unwrap();
    let mut call = Call::new(None);
    let mut decide = |hint| {
        let outcome = Outcome { hint, ..Outcome::of(Class::Throttled) };
        match call.decide(&policy, &mut Alone, outcome, Moment::timeless(u64::MAX)) {
            Decision::Retry { after, .. } => after.as_secs_f64().round() as u64,
            Decision::Stop { reason, .. } => panic!("{reason}"),
        }
    };
    let waits = [None, None, None, Some(Hint::Pushback(secs(5))), None, None].map(&mut decide);
    assert_eq!(waits, [3, 9, 20, 5, 3, 9]);
}
