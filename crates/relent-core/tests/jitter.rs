//! Jitter: where the draws lie, how they spread, and that the cap holds without making a herd.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{Backoff, Bound, Dice, HintPolicy, Jitter, Memory, Policy, Schedule};

/// The range of wait `n` of a fresh call, in nanoseconds.
fn range(backoff: &Backoff, n: u32) -> (u128, u128) {
    let range = backoff.range(n, Duration::ZERO, Memory::default());
    (range.lowest.as_nanos(), range.highest.as_nanos())
}

#[test]
fn fractions_are_right_to_the_nanosecond() {
    for (factor, seconds, reach) in [
        (0.2, 1, 200_000_000),
        (0.3, 7, 2_100_000_000),
        (0.1, 86_400, 8_640_000_000_000),
        (1.0, 3, 3_000_000_000),
    ] {
        let wait = Duration::from_secs(seconds);
        let backoff = Backoff::new(Schedule::Constant { initial: wait })
            .uncapped()
            .jitter(Jitter::Proportional { factor });
        let centre = wait.as_nanos();
        assert_eq!(range(&backoff, 1), (centre - reach, centre + reach), "{factor} of {seconds} s");
    }
    for fraction in [0.0, 0.001, 0.1, 0.25, 1.0 / 3.0, 0.7, 1.0] {
        assert_eq!(HintPolicy::DEFAULT.spread(fraction).spread_fraction(), fraction);
    }
    assert_eq!(HintPolicy::DEFAULT.spread(f64::NAN).spread_fraction(), 0.0);
    assert_eq!(HintPolicy::DEFAULT.spread(-1.0).spread_fraction(), 0.0);
    assert_eq!(HintPolicy::DEFAULT.spread(f64::INFINITY).spread_fraction(), 1.0);
}

#[test]
fn the_range_of_a_clamped_draw_ends_at_the_cap() {
    for jitter in [
        Jitter::Proportional { factor: 0.5 },
        Jitter::Additive { max: Duration::from_secs(5) },
        Jitter::Decorrelated,
        Jitter::DecorrelatedV2,
    ] {
        let cap = Duration::from_secs(2);
        let backoff = Backoff::new(Schedule::exponential(Duration::from_secs(1)))
            .cap(cap)
            .jitter(jitter)
            .bound(Bound::Sample);
        assert_eq!(range(&backoff, 2).1, cap.as_nanos(), "{jitter:?}");
    }
}

#[test]
fn slots_are_drawn_from_those_between_floor_and_cap() {
    let csma = Schedule::Csma { slot: Duration::from_secs(1), max_exponent: 10 };
    let backoff = Backoff::new(csma).cap(Duration::from_millis(20_500)).floor(Duration::from_millis(3_500));
    let mut seen = [0u32; 32];
    let mut dice = Dice::new(5);
    for _ in 0..17_000 {
        let wait = backoff.wait(16, Duration::ZERO, &mut Memory::default(), dice.roll());
        assert_eq!(wait.subsec_nanos(), 0);
        seen[wait.as_secs() as usize] += 1;
    }
    // 4 to 20 slots, 1000 draws each; the standard deviation is 31.
    for (slots, times) in seen.into_iter().enumerate() {
        let expected = if (4..=20).contains(&slots) { 840..1160 } else { 0..1 };
        assert!(expected.contains(&times), "{slots} slots: {times} times");
    }
    assert_eq!(range(&backoff, 16), (4_000_000_000, 20_000_000_000));
    // The first collision draws from 0 and 1: both lie below the floor, which is then the wait.
    assert_eq!(range(&backoff, 1), (3_500_000_000, 3_500_000_000));

    let no_slot_fits = Policy::csma(Duration::from_secs(1)).cap(Duration::from_millis(999)).build();
    assert_eq!(no_slot_fits.unwrap_err().key(), "backoff.cap");
}

#[test]
fn decorrelated_jitter_needs_room_below_a_cap_that_it_can_know() {
    let build = |jitter, bound, cap: u64| {
        let policy = Policy::exponential(Duration::from_secs(1)).jitter(jitter).bound(bound);
        policy.cap(Duration::from_nanos(cap)).build().map_err(|refused| refused.key())
    };
    // Between 1 s and 1 s all clients wait the same.
    for cap in [1, 1_000_000_000] {
        assert_eq!(build(Jitter::Decorrelated, Bound::Range, cap).unwrap_err(), "backoff.cap");
        // The smooth kind is scaled down instead, and the published formula is what it is.
        let scaled = build(Jitter::DecorrelatedV2, Bound::Range, cap).unwrap();
        assert_eq!(range(scaled.backoff(), 1), (0, u128::from(cap)));
        assert!(build(Jitter::Decorrelated, Bound::Sample, cap).is_ok());
    }
    assert!(build(Jitter::Decorrelated, Bound::Range, 1_000_000_001).is_ok());
    // A loose cap bounds the wait before the draw, which these have not: it would do nothing.
    for jitter in [Jitter::Decorrelated, Jitter::DecorrelatedV2] {
        assert_eq!(build(jitter, Bound::Loose, 5_000_000_000).unwrap_err(), "backoff.bound");
    }
}

/// The range of each kind: for a wait of 4 s below the cap, for one that the cap cuts to 10 s, and with a floor.
#[test]
fn each_kind_cuts_its_range_at_cap_and_floor() {
    let proportional = |factor| Jitter::Proportional { factor };
    let additive = |seconds| Jitter::Additive { max: Duration::from_secs(seconds) };
    let (cut, clamped, loose) = (Bound::Range, Bound::Sample, Bound::Loose);
    for (jitter, bound, below, at_cap, floored) in [
        (Jitter::None, cut, (4, 4), (10, 10), (4, 4)),
        (Jitter::Full, cut, (0, 4), (0, 10), (3, 4)),
        (Jitter::Equal, cut, (2, 4), (5, 10), (3, 4)),
        (proportional(0.5), cut, (2, 6), (5, 10), (3, 6)),
        (proportional(0.5), clamped, (2, 6), (5, 10), (3, 6)),
        (proportional(0.5), loose, (2, 6), (5, 15), (3, 6)),
        (proportional(1.0), cut, (0, 8), (0, 10), (3, 8)),
        (additive(3), cut, (4, 7), (7, 10), (4, 7)),
        (additive(8), cut, (2, 10), (2, 10), (3, 10)),
        (additive(30), cut, (0, 10), (0, 10), (3, 10)),
        (additive(3), clamped, (4, 7), (10, 10), (4, 7)),
        (additive(3), loose, (4, 7), (10, 13), (4, 7)),
        // Of a fresh series, whatever the number: from the initial wait, 1 s, to three times that.
        (Jitter::Decorrelated, cut, (1, 3), (1, 3), (3, 3)),
    ] {
        let backoff = Backoff::new(Schedule::exponential(Duration::from_secs(1)))
            .cap(Duration::from_secs(10))
            .jitter(jitter)
            .bound(bound);
        let seconds = |backoff: &Backoff, n| {
            let (lowest, highest) = range(backoff, n);
            assert_eq!((lowest % 1_000_000_000, highest % 1_000_000_000), (0, 0), "{jitter:?}");
            (lowest / 1_000_000_000, highest / 1_000_000_000)
        };
        assert_eq!(seconds(&backoff, 3), below, "{jitter:?} {bound:?}");
        assert_eq!(seconds(&backoff, 40), at_cap, "{jitter:?} {bound:?} at the cap");
        assert_eq!(
            seconds(&backoff.floor(Duration::from_secs(3)), 3),
            floored,
            "{jitter:?} {bound:?} floored"
        );
    }
}

/// Each decorrelated wait is drawn up to three times the one before it, as far as the cap.
#[test]
fn decorrelated_jitter_grows_from_the_wait_before() {
    let backoff = Backoff::new(Schedule::exponential(Duration::from_secs(1)))
        .cap(Duration::from_secs(10))
        .jitter(Jitter::Decorrelated);
    let mut memory = Memory::default();
    let mut dice = Dice::new(3);
    let mut previous = Duration::from_secs(1);
    for n in 1..200 {
        let range = backoff.range(n, Duration::ZERO, memory);
        assert_eq!(range.lowest, Duration::from_secs(1));
        assert_eq!(range.highest, (3 * previous).min(Duration::from_secs(10)));
        previous = backoff.wait(n, Duration::ZERO, &mut memory, dice.roll());
    }
}
