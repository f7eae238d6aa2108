//! The arithmetic of waits over all that the types can say.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod strategies;

use std::time::Duration;

use proptest::prelude::*;
use relent_core::{Backoff, Bound, First, Jitter, Memory, Multiplier, Range, Schedule, Stage, Timestamp};
use strategies::{backoff, duration, entropy, number, schedule, valid_backoff};

/// Two waits of a series and the range of the second.
fn second_wait(
    backoff: &Backoff,
    numbers: (u32, u32),
    elapsed: Duration,
    entropies: (u64, u64),
) -> (Duration, Range) {
    let mut memory = Memory::default();
    backoff.wait(numbers.0, elapsed, &mut memory, entropies.0);
    let range = backoff.range(numbers.1, elapsed, memory);
    (backoff.wait(numbers.1, elapsed, &mut memory, entropies.1), range)
}

fn immediate(backoff: &Backoff, n: u32) -> bool {
    backoff.first_used() == First::Immediate && n <= 1
}

/// The schedules that say of themselves that they grow, or stay.
fn growing() -> impl Strategy<Value = Schedule> {
    schedule().prop_filter("it grows", |schedule| {
        !matches!(schedule, Schedule::List(_) | Schedule::Stages(_) | Schedule::Csma { .. })
    })
}

proptest! {
    #![proptest_config(strategies::config(1_000))]

    /// Nothing panics, not even for what no policy takes, and each draw lies where its range says.
    #[test]
    fn a_wait_lies_in_its_range(
        backoff in backoff(),
        numbers in (number(), number()),
        elapsed in duration(),
        entropies in (entropy(), entropy()),
    ) {
        let (wait, range) = second_wait(&backoff, numbers, elapsed, entropies);
        prop_assert!(range.lowest <= wait && wait <= range.highest, "{wait:?} not in {range:?}");
        let whole = matches!(backoff.schedule(), Schedule::Csma { .. })
            || backoff.jitter_used() == Jitter::DecorrelatedV2
            || backoff.bound_used() == Bound::Sample;
        prop_assert!(whole || range.lowest == range.highest || wait < range.highest, "{wait:?} ends {range:?}");
    }

    #[test]
    fn a_wait_lies_between_floor_and_cap(
        backoff in valid_backoff(),
        numbers in (number(), number()),
        elapsed in duration(),
        entropies in (entropy(), entropy()),
    ) {
        let (wait, _) = second_wait(&backoff, numbers, elapsed, entropies);
        let capped = backoff.bound_used() != Bound::Loose;
        prop_assert!(!capped || backoff.longest().is_none_or(|cap| wait <= cap), "{wait:?}");
        prop_assert!(wait >= backoff.shortest() || immediate(&backoff, numbers.1), "{wait:?}");
    }

    /// A loose wait passes the cap by no more than its jitter.
    #[test]
    fn a_loose_wait_passes_the_cap_by_its_jitter(
        schedule in schedule(),
        factor in 0.0..=1.0f64,
        cap in 1..1_000_000_000_000u64,
        n in number(),
        entropy in entropy(),
    ) {
        let backoff = Backoff::new(schedule)
            .jitter(Jitter::Proportional { factor })
            .cap(Duration::from_nanos(cap))
            .bound(Bound::Loose);
        let wait = backoff.wait(n, Duration::ZERO, &mut Memory::default(), entropy);
        prop_assert!(wait.as_nanos() as f64 <= cap as f64 * (1.0 + factor) + 1.0, "{wait:?}");
    }

    /// However long an outage lasts, the clients at the cap keep apart by what their jitter says.
    #[test]
    fn the_spread_does_not_collapse_at_the_cap(
        initial in 1..1_000_000_000u64,
        n in number(),
        memory_of in (number(), entropy()),
        cap in 1_000..1_000_000_000_000u64,
        floor in 0..=25u64,
        jitter in prop_oneof![
            Just(Jitter::Full),
            Just(Jitter::Equal),
            (0.01..=1.0f64).prop_map(|factor| Jitter::Proportional { factor }),
            (1..2_000_000_000_000u64).prop_map(|max| Jitter::Additive { max: Duration::from_nanos(max) }),
            Just(Jitter::Decorrelated),
            Just(Jitter::DecorrelatedV2),
        ],
    ) {
        let (floor, wait) = (cap * floor / 100, Duration::from_nanos(initial));
        let backoff = Backoff::new(Schedule::exponential(wait)).jitter(jitter).cap(Duration::from_nanos(cap));
        let backoff = backoff.floor(Duration::from_nanos(floor));
        let n = n.max(64); // by then any schedule that grows has met the cap
        let mut memory = Memory::default();
        backoff.wait(memory_of.0, Duration::ZERO, &mut memory, memory_of.1);
        let Range { lowest, highest } = backoff.range(n, Duration::ZERO, memory);
        let spread = (highest - lowest).as_nanos() as u64;
        let wanted = match jitter {
            Jitter::Full => cap - floor,
            Jitter::Equal => cap / 2,
            Jitter::Proportional { factor } => ((cap as f64 * factor) as u64).min(cap - floor) - 1,
            Jitter::Additive { max } => (max.as_nanos() as u64).min(cap - floor),
            // Decorrelated jitter starts anew from `initial` in each series, with a range as wide as two of it.
            Jitter::Decorrelated if initial < cap => (2 * initial).min(cap - initial).min(cap - floor),
            // Less what a floor takes from below.
            Jitter::DecorrelatedV2 => cap / 4,
            _ => 0,
        };
        prop_assert!(spread >= wanted, "{spread} < {wanted} in {lowest:?} to {highest:?}");
    }

    /// Without jitter no wait is shorter than the one before it.
    #[test]
    fn what_grows_does_not_shrink(schedule in growing(), n in number(), cap in duration()) {
        let backoff = Backoff::new(schedule).jitter(Jitter::None).cap(cap);
        let wait = |n| backoff.wait(n, Duration::ZERO, &mut Memory::default(), 0);
        prop_assert!(wait(n) <= wait(n.saturating_add(1)));
        prop_assert!(wait(n) <= cap);
    }

    /// initial × (a / b)^steps, to the nanosecond, against whole numbers.
    #[test]
    fn fractions_multiply_to_the_nanosecond(
        initial in 0..1u64 << 40,
        (a, b, most) in prop::sample::select(vec![(3u128, 2u128, 50u32), (5, 4, 36), (11, 10, 24), (9, 5, 24), (7, 1, 30)]),
        steps in 0..50u32,
    ) {
        let steps = steps.min(most);
        let (a_n, b_n) = (a.pow(steps), b.pow(steps));
        let doubled = a_n.checked_mul(2 * u128::from(initial));
        prop_assume!(doubled.is_some());
        let nearest = (doubled.unwrap() + b_n) / (2 * b_n);
        let multiplier = Multiplier::new(a as f64 / b as f64).unwrap();
        let schedule = Schedule::Exponential { initial: Duration::from_nanos(initial), multiplier };
        let backoff = Backoff::new(schedule).uncapped().jitter(Jitter::None);
        let wait = backoff.wait(steps + 1, Duration::ZERO, &mut Memory::default(), 0).as_nanos();
        if nearest < 1 << 50 {
            // Halves may go either way, since the factor itself is rounded at 64 bits.
            prop_assert!(wait.abs_diff(nearest) <= 1, "{wait} for {nearest}");
        } else {
            let most = nearest.min(u128::from(u64::MAX));
            prop_assert!(wait.abs_diff(most) <= (most >> 55) + 1, "{wait} for {most}");
        }
    }

    /// The same seed gives the same waits.
    #[test]
    fn a_seed_repeats(backoff in valid_backoff(), seed in any::<u64>()) {
        let once: Vec<_> = backoff.waits(seed).take(20).collect();
        let twice: Vec<_> = backoff.waits(seed).take(20).collect();
        prop_assert_eq!(once, twice);
    }

    /// Time saturates at both ends.
    #[test]
    fn time_neither_wraps_nor_turns_back(from in any::<u64>(), after in duration()) {
        let start = Timestamp::from_nanos(from);
        let end = start.plus(after);
        prop_assert!(end >= start);
        prop_assert_eq!(start.since(end), Duration::ZERO);
        prop_assert!(end == Timestamp::MAX || end.since(start) == after);
    }
}

/// One seed, client and attempt have one number; unseeded neighbours have others.
#[test]
fn each_attempt_has_luck_of_its_own() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..20 {
        for client in 0..20 {
            for attempt in 0..20 {
                assert!(seen.insert(relent_core::entropy(seed, client, attempt)));
                assert!(!seen.insert(relent_core::entropy(seed, client, attempt)));
            }
        }
    }
}

/// Draws have the mean of their range: for each kind, at the cap and below it.
#[test]
fn the_mean_lies_in_the_middle_of_the_range() {
    const DRAWS: u32 = 20_000;
    let second = Duration::from_secs(1);
    for jitter in [
        Jitter::Full,
        Jitter::Equal,
        Jitter::Proportional { factor: 0.3 },
        Jitter::Additive { max: second },
        Jitter::Decorrelated,
    ] {
        for n in [1, 3, 60] {
            let backoff = Backoff::new(Schedule::exponential(second)).cap(10 * second).jitter(jitter);
            let Range { lowest, highest } = backoff.range(n, Duration::ZERO, Memory::default());
            let mut dice = relent_core::Dice::new(u64::from(n));
            let mut sum = 0.0;
            for _ in 0..DRAWS {
                sum += backoff.wait(n, Duration::ZERO, &mut Memory::default(), dice.roll()).as_secs_f64();
            }
            let mean = sum / f64::from(DRAWS);
            let expected = (lowest + highest).as_secs_f64() / 2.0;
            // Five standard deviations of the mean of a uniform draw.
            let error = 5.0 * (highest - lowest).as_secs_f64() / f64::from(12 * DRAWS).sqrt();
            assert!((mean - expected).abs() < error, "{jitter:?} {n}: {mean} for {expected} ± {error}");
        }
    }
}

#[test]
fn linear_fibonacci_and_list_grow_as_they_say() {
    let second = Duration::from_secs(1);
    let waits = |schedule: Schedule, ns: &[u32]| -> Vec<u64> {
        let backoff = Backoff::new(schedule).uncapped().jitter(Jitter::None);
        let wait = |n: &u32| backoff.wait(*n, Duration::ZERO, &mut Memory::default(), 0).as_secs();
        ns.iter().map(wait).collect()
    };
    let linear = Schedule::Linear { initial: 5 * second, step: 2 * second };
    assert_eq!(waits(linear, &[0, 1, 2, 3, 100]), [5, 5, 7, 9, 203]);
    let fibonacci = Schedule::Fibonacci { initial: 2 * second };
    assert_eq!(waits(fibonacci, &[0, 1, 2, 3, 4, 5, 6, 7]), [2, 2, 2, 4, 6, 10, 16, 26]);
    let list = Schedule::List([3 * second, second, 9 * second].into());
    assert_eq!(waits(list, &[0, 1, 2, 3, 4, u32::MAX]), [3, 3, 1, 9, 9, 9]);
    // F(93) is the last Fibonacci number below 2^64.
    let nanos = Schedule::Fibonacci { initial: Duration::from_nanos(1) };
    let backoff = Backoff::new(nanos).uncapped().jitter(Jitter::None);
    let wait = |n| backoff.wait(n, Duration::ZERO, &mut Memory::default(), 0).as_nanos();
    assert_eq!([wait(93), wait(94)], [12_200_160_415_121_876_738, u128::from(u64::MAX)]);
}

/// A stage holds until its end, the last one for ever; a geometric stage goes on from the wait before it.
#[test]
fn stages_follow_the_time_since_the_call_began() {
    let minute = Duration::from_secs(60);
    let stage = |until: Option<u32>, initial: u32, multiplier: f64| Stage {
        until: until.map(|minutes| minutes * minute),
        initial: initial * minute,
        multiplier: Multiplier::new(multiplier).unwrap(),
    };
    let stages = [stage(Some(10), 1, 1.0), stage(Some(60), 2, 2.0), stage(Some(90), 5, 1.0)];
    let backoff = Backoff::new(Schedule::Stages(stages.into())).jitter(Jitter::None);
    let mut memory = Memory::default();
    for (elapsed, wait) in
        [(0, 1), (9, 1), (10, 2), (12, 4), (16, 8), (24, 16), (60, 5), (90, 5), (10_000, 5)]
    {
        assert_eq!(backoff.wait(9, elapsed * minute, &mut memory, 0), wait * minute, "after {elapsed} min");
    }
}

/// A geometric stage grows from the scheduled wait before it, not from what jitter made of that.
#[test]
fn jitter_does_not_compound_in_stages() {
    let stage = Stage { until: None, initial: Duration::from_secs(1), multiplier: Multiplier::TWO };
    let backoff = Backoff::new(Schedule::Stages([stage].into())).jitter(Jitter::Equal);
    let mut memory = Memory::default();
    for highest in [1, 2, 4, 8, 16, 32] {
        let range = backoff.range(9, Duration::ZERO, memory);
        assert_eq!(range.highest, Duration::from_secs(highest));
        assert_eq!(backoff.wait(9, Duration::ZERO, &mut memory, 0), range.highest / 2);
    }
}
