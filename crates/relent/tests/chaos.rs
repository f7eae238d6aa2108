//! Chaos: off by default, repeatable, at the rates that were asked for, and outages by the clock.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(not(loom))]

use std::cell::Cell;
use std::time::Duration;

use relent::testing::Clock;
use relent::{Chaos, ChaosPolicy, Fault, Ratio};

const SECOND: Duration = Duration::from_secs(1);

fn chaos(policy: ChaosPolicy, seed: u64, clock: &Clock) -> Chaos<Clock> {
    Chaos::blocking(policy, seed).unwrap().timer(clock.clone())
}

/// A twentieth each fails before and after it was done, a tenth is between 100 ms and 300 ms late.
fn policy() -> ChaosPolicy {
    let (shortest, longest) = (SECOND / 10, SECOND * 3 / 10);
    ChaosPolicy::new().faults(Ratio::percent(5)).lost_answers(Ratio::percent(5)).latency_between(
        Ratio::percent(10),
        shortest,
        longest,
    )
}

/// How each of so many operations went, and how late it was.
fn run(chaos: &Chaos<Clock>, clock: &Clock, operations: u32) -> Vec<(Result<(), Fault>, Duration)> {
    let one = |_| {
        let before = clock.elapsed();
        let went = chaos.call_blocking(|| Ok(()), |fault| fault);
        (went, clock.elapsed() - before)
    };
    (0..operations).map(one).collect()
}

#[test]
fn nothing_happens_until_it_is_switched_on_and_after_it_is_switched_off() {
    let clock = Clock::new();
    let all = ChaosPolicy::new().faults(Ratio::ONE).latency(Ratio::ONE, SECOND);
    let chaos = chaos(all, 7, &clock);
    let clone = chaos.clone();
    assert_eq!(run(&chaos, &clock, 3), [(Ok(()), Duration::ZERO); 3]);
    clone.switch_on();
    assert!(chaos.is_on());
    assert_eq!(run(&chaos, &clock, 3), [(Err(Fault::NotSent), SECOND); 3]);
    clone.switch_off();
    assert_eq!(run(&chaos, &clock, 3), [(Ok(()), Duration::ZERO); 3]);
}

#[test]
fn the_rates_are_those_that_were_asked_for() {
    let clock = Clock::new();
    let chaos = chaos(policy(), 7, &clock);
    chaos.switch_on();
    let all = run(&chaos, &clock, 20_000);
    let count = |fault| all.iter().filter(|(went, _)| *went == Err(fault)).count();
    let late: Vec<_> = all.iter().map(|(_, late)| *late).filter(|late| !late.is_zero()).collect();
    // Within four standard deviations.
    for (seen, expected) in
        [(count(Fault::NotSent), 1_000), (count(Fault::AnswerLost), 1_000), (late.len(), 2_000)]
    {
        assert!(seen.abs_diff(expected) < 170, "{seen} of {expected}");
    }
    assert!(late.iter().all(|late| (SECOND / 10..SECOND * 3 / 10).contains(late)));
    let mean = late.iter().sum::<Duration>() / u32::try_from(late.len()).unwrap();
    assert!(mean.abs_diff(SECOND / 5) < SECOND / 100, "{mean:?}");
    // Late and failing are drawn apart.
    let both = all.iter().filter(|(went, late)| went.is_err() && !late.is_zero()).count();
    assert!(both.abs_diff(200) < 60, "{both}");
}

#[test]
fn the_same_seed_does_the_same_harm_blocking_and_async_and_after_each_start() {
    let clock = Clock::new();
    let first = chaos(policy(), 7, &clock);
    first.switch_on();
    let expected = run(&first, &clock, 1_000);
    first.switch_on();
    assert_eq!(run(&first, &clock, 1_000), expected);
    let other = chaos(policy(), 8, &clock);
    other.switch_on();
    assert_ne!(run(&other, &clock, 1_000), expected);

    let again = chaos(policy(), 7, &clock);
    again.switch_on();
    let all = clock.run(async {
        let mut all = Vec::new();
        for _ in 0..1_000 {
            let before = clock.elapsed();
            let went = again.call(async { Ok(()) }, |fault| fault).await;
            all.push((went, clock.elapsed() - before));
        }
        all
    });
    assert_eq!(all.unwrap(), expected);
}

#[test]
fn what_is_not_sent_is_not_done_and_what_is_lost_is() {
    let clock = Clock::new();
    let done = Cell::new(0);
    let attempt = |policy, own: Result<u32, &'static str>| {
        let chaos = chaos(policy, 7, &clock);
        chaos.switch_on();
        let operation = || {
            done.set(done.get() + 1);
            own
        };
        let blocking = chaos.call_blocking(operation, |_| "chaos");
        let polled = clock.run(chaos.call(async { operation() }, |_| "chaos")).unwrap();
        assert_eq!(blocking, polled);
        (blocking, done.replace(0))
    };
    let (faults, lost) = (ChaosPolicy::new().faults(Ratio::ONE), ChaosPolicy::new().lost_answers(Ratio::ONE));
    assert_eq!(attempt(faults, Ok(1)), (Err("chaos"), 0));
    assert_eq!(attempt(lost, Ok(1)), (Err("chaos"), 2));
    assert_eq!(attempt(lost, Err("its own")), (Err("its own"), 2));
    assert_eq!(attempt(ChaosPolicy::new(), Ok(1)), (Ok(1), 2));
}

#[test]
fn outages_come_by_the_clock() {
    let clock = Clock::new();
    clock.advance(SECOND * 1_000);
    let chaos = chaos(ChaosPolicy::new().outages(SECOND * 60, SECOND * 10), 7, &clock);
    chaos.switch_on();
    let down: Vec<_> = (0..200)
        .filter(|_| {
            let down = run(&chaos, &clock, 1)[0].0 == Err(Fault::Outage);
            clock.advance(SECOND);
            down
        })
        .collect();
    let expected: Vec<_> = (60..70).chain(120..130).chain(180..190).collect();
    assert_eq!(down, expected);
}

#[test]
fn what_cannot_work_is_refused() {
    let half = Ratio::percent(60);
    for (policy, key) in [
        (ChaosPolicy::new().faults(Ratio::percent(101)), "chaos"),
        (ChaosPolicy::new().faults(half).lost_answers(half), "lost_answers"),
        (ChaosPolicy::new().latency_between(half, SECOND, SECOND / 2), "latency"),
        (ChaosPolicy::new().latency(half, Duration::ZERO), "latency"),
        (ChaosPolicy::new().outages(SECOND, SECOND), "outages"),
        (ChaosPolicy::new().outages(SECOND, Duration::ZERO), "outages"),
    ] {
        assert_eq!(Chaos::blocking(policy, 7).unwrap_err().key(), key, "{policy:?}");
    }
}
