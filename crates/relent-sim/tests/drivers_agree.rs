//! The table of scripts that runs through every driver runs through the simulator too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

#[path = "../../relent/tests/scripts/mod.rs"]
mod scripts;

use std::time::Duration;

use relent_core::{Alone, Call, Moment, Outcome, Repeat, Start, Timestamp, entropy};
use relent_sim::{Played, Step, play};
use scripts::{Script, scripts};

/// The rows that the simulator cannot play, each because its caller cancels the call: nobody does so in a simulation,
/// where a caller that goes away is a limit on attempts or a deadline.
const CANCELLED: [&str; 7] = [
    "cancelled before it began",
    "cancelled before it began, with a spread",
    "cancelled in a wait",
    "cancelled in the first attempt",
    "cancelled in a later attempt",
    "cancelled too late",
    "an unwell result is not kept for a cancelled wait",
];

#[test]
fn the_simulator_agrees_with_the_other_drivers() {
    let mut passed_over = Vec::new();
    let mut cut_off = 0;
    for script in scripts() {
        if script.cancelled_at.is_some() {
            passed_over.push(script.name);
            continue;
        }
        cut_off += u32::from(script.needs_preemption());
        check(&script, &played(&script));
    }
    assert_eq!(passed_over, CANCELLED);
    assert!(cut_off > 8, "the simulator cuts attempts off");
}

/// Everything but what the caller gets, which the simulator does not have: its attempts return nothing.
fn check(script: &Script, played: &Played) {
    let (name, raw) = (script.name, script.run_raw());
    let waits: Vec<Duration> =
        spread(script).into_iter().chain(raw.waits.iter().map(|(wait, _)| *wait)).collect();
    assert_eq!(played.attempts, script.expected.attempts, "attempts of \"{name}\"");
    assert_eq!(played.reason, script.expected.reason, "reason of \"{name}\"");
    assert_eq!(played.waits, waits, "waits of \"{name}\"");
    assert_eq!(played.took, raw.ends, "end of \"{name}\"");
    if let Some(expected) = script.expected.waits {
        let expected: Vec<Duration> = expected.iter().map(|(wait, _)| Duration::from_millis(*wait)).collect();
        assert_eq!(played.waits, expected, "waits of \"{name}\" in the table");
    }
    if let Some(ends) = script.expected.ends {
        assert_eq!(played.took, Duration::from_millis(ends), "end of \"{name}\" in the table");
    }
}

fn played(script: &Script) -> Played {
    let policy = script.policy.clone().build().unwrap();
    // What a driver says of an attempt where its caller has said it, or has not and the policy wants to know.
    let safe = script.idempotent.unwrap_or(!policy.requires_idempotency());
    let repeat = if safe { Repeat::Safe } else { Repeat::NotIdempotent };
    let steps: Vec<Step> = script
        .attempts
        .iter()
        .map(|step| Step {
            outcome: Outcome { repeat: step.outcome.repeat.max(repeat), ..step.outcome },
            takes: step.takes.map_or(Duration::MAX, Duration::from_millis),
        })
        .collect();
    play(&policy, &steps, luck(script))
}

fn luck(script: &Script) -> impl Fn(u32) -> u64 {
    let seed = script.policy.clone().build().unwrap().seed().unwrap_or(0);
    move |attempt| entropy(seed, 0, attempt)
}

/// The wait before the first attempt, which the table does not count among those after failures.
fn spread(script: &Script) -> Option<Duration> {
    let policy = script.policy.clone().build().unwrap();
    let now = Timestamp::ZERO;
    match Call::new(Some(now)).start(&policy, &mut Alone, Moment::at(now, luck(script)(0))) {
        Start::Wait { after, .. } => Some(after),
        Start::Go | Start::Stop { .. } => None,
    }
}
