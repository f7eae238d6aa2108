//! The waits of systems that people know, to the nanosecond where they are fixed, as ranges where they are drawn.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{
    Alone, Backoff, Bound, Call, Class, Decision, Dice, First, Hint, HintMode, HintPolicy, Jitter, Memory,
    Moment, Multiplier, Outcome, OverMax, Policy, PolicyBuilder, Reason, Schedule, Source, Stage, Timestamp,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Lowest and highest wait `n`, in microseconds.
fn range(backoff: &Backoff, n: u32) -> (u128, u128) {
    let range = backoff.range(n, Duration::ZERO, Memory::default());
    assert_eq!(range.lowest.subsec_nanos() % 1000 + range.highest.subsec_nanos() % 1000, 0, "{range:?}");
    (range.lowest.as_micros(), range.highest.as_micros())
}

/// The lowest and the highest draw of wait `n` among many.
fn drawn(backoff: &Backoff, n: u32) -> (Duration, Duration) {
    let mut dice = Dice::new(u64::from(n));
    let draws = std::iter::from_fn(|| Some(dice.roll())).take(5_000).chain([0, u64::MAX]);
    let wait = |entropy| backoff.wait(n, Duration::ZERO, &mut Memory::default(), entropy);
    draws.map(wait).fold((Duration::MAX, Duration::ZERO), |(low, high), wait| (low.min(wait), high.max(wait)))
}

/// When the attempts of a call are made that fail at once and for ever, and why it ends.
fn timeline(policy: &Policy) -> (Vec<Duration>, Reason) {
    let mut call = Call::new(Some(Timestamp::ZERO));
    let (mut now, mut attempts) = (Duration::ZERO, vec![Duration::ZERO]);
    loop {
        let moment = Moment::at(Timestamp::from_duration(now), 0);
        match call.decide(policy, &mut Alone, Outcome::of(Class::Transient), moment) {
            Decision::Retry { after, .. } => now += after,
            Decision::Stop { reason, .. } => return (attempts, reason),
        }
        attempts.push(now);
    }
}

/// gRFC A6 as of August 2024 (grpc/proposal, A6-client-retries.md): min(initial · multiplier^(n − 1), max), then
/// × U(0.8, 1.2), the first retry included; so it may pass the maximum by a fifth.
#[test]
fn grpc() {
    let backoff = Backoff::new(Schedule::exponential(ms(100)))
        .cap(secs(1))
        .jitter(Jitter::Proportional { factor: 0.2 })
        .bound(Bound::Loose);
    let ranges = [(80, 120), (160, 240), (320, 480), (640, 960), (800, 1200), (800, 1200), (800, 1200)];
    for ((lowest, highest), n) in ranges.into_iter().zip(1..) {
        assert_eq!(range(&backoff, n), (lowest * 1000, highest * 1000), "wait {n}");
        let (low, high) = drawn(&backoff, n);
        assert!(low == ms(lowest as u64) && high < ms(highest as u64));
        assert!(high > ms(highest as u64).mul_f64(0.999), "wait {n}: {high:?}");
    }
}

/// Polly v8, `RetryHelper.DecorrelatedJitterBackoffV2` and its tests: base 1 s, every draw 0.5 or every draw 0.
#[test]
fn polly() {
    for (entropy, expected) in [
        (1 << 63, &[0.897405, 1.093004, 2.035748, 4.045979, 8.083632, 16.163663][..]),
        (0, &[0.0, 1.377182, 1.460067, 2.865850, 5.717807][..]),
    ] {
        for bound in [Bound::Range, Bound::Sample] {
            let backoff = Backoff::new(Schedule::exponential(secs(1)))
                .uncapped()
                .jitter(Jitter::DecorrelatedV2)
                .bound(bound);
            let mut memory = Memory::default();
            for (expected, n) in expected.iter().zip(1..) {
                let wait = backoff.wait(n, Duration::ZERO, &mut memory, entropy).as_secs_f64();
                assert!((wait - expected).abs() < 5e-7, "{bound:?} {n}: {wait} for {expected}");
            }
        }
    }
}

/// The same: attempts from 1024 on are the longest wait there is, and so is attempt 1000 of a day, or the maximum.
#[test]
fn polly_saturates() {
    let day = secs(86_400);
    let v2 = |initial| {
        let backoff = Backoff::new(Schedule::exponential(initial)).jitter(Jitter::DecorrelatedV2);
        backoff.uncapped().bound(Bound::Sample)
    };
    let longest = Duration::from_nanos(u64::MAX);
    for entropy in [0, 1 << 63, u64::MAX] {
        let mut memory = Memory::default();
        for n in [1_024, 1_025, 1_026, 1_100, 1_000_000, u32::MAX] {
            assert_eq!(v2(secs(1)).wait(n, Duration::ZERO, &mut memory, entropy), longest, "{n}");
            assert_eq!(
                v2(Duration::ZERO).wait(n, Duration::ZERO, &mut memory, entropy),
                Duration::ZERO,
                "{n}"
            );
        }
        assert_eq!(v2(day).wait(1_000, Duration::ZERO, &mut Memory::default(), entropy), longest);
        let capped = v2(day).cap(2 * day);
        assert_eq!(capped.wait(1_000, Duration::ZERO, &mut Memory::default(), entropy), 2 * day);
    }
}

/// envoy test/common/common/backoff_strategy_test.cc, as ranges in milliseconds: full jitter whose range ends at the
/// maximum, and the kind with a lower bound, which adds up to half.
#[test]
fn envoy() {
    let full = |base, max| Backoff::new(Schedule::exponential(ms(base))).cap(ms(max));
    for (n, highest) in [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80), (6, 100), (7, 100), (70, 100)] {
        assert_eq!(range(&full(5, 100), n), (0, highest * 1000));
        let (low, high) = drawn(&full(5, 100), n);
        assert!(low.is_zero() && high < ms(highest as u64) && high > ms(highest as u64).mul_f64(0.99));
    }
    assert_eq!([range(&full(25, 30), 1), range(&full(25, 30), 2)], [(0, 25_000), (0, 30_000)]);
    let lower_bound = Backoff::new(Schedule::Constant { initial: ms(500) });
    assert_eq!(range(&lower_bound.jitter(Jitter::Additive { max: ms(250) }), 1), (500_000, 750_000));
}

/// urllib3 test/test_retry.py, factor 0.2: the first retry at once, then factor · 2ⁿ, at most 120 s.
#[test]
fn urllib3() {
    let policy = Policy::exponential(ms(400))
        .first(First::Immediate)
        .cap(secs(120))
        .jitter(Jitter::None)
        .max_attempts(100)
        .hint(
            HintPolicy::DEFAULT.mode(HintMode::Exact).max(secs(21_600)).over_max(OverMax::Clamp).spread(0.0),
        )
        .build()
        .unwrap();
    let waits: Vec<_> = policy.backoff().waits(0).take(12).map(|wait| wait.as_millis()).collect();
    let expected = [0, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 120_000, 120_000];
    assert_eq!(waits, expected);
    // Retry-After: 99 999 s are cut to six hours, a date in the past is no wait.
    for (asked, wait) in [(99_999, 21_600), (21_600, 21_600), (7, 7), (0, 0)] {
        let outcome = Outcome::of(Class::Throttled).hint(Hint::After(secs(asked)));
        let decided = Call::new(None).decide(&policy, &mut Alone, outcome, Moment::timeless(u64::MAX));
        assert_eq!(decided, Decision::Retry { after: secs(wait), source: Source::Hint });
    }
}

/// kubernetes/enhancements, KEP-4603 (tune-crashloopbackoff): the first restart at once, then 10 s doubling to 300 s.
fn crash_loop(initial: u64, cap: u64) -> PolicyBuilder {
    Policy::exponential(secs(initial))
        .first(First::Immediate)
        .cap(secs(cap))
        .jitter(Jitter::None)
        .unlimited_attempts()
}

#[test]
fn kubernetes() {
    let first = |builder: PolicyBuilder, count| -> Vec<u64> {
        let policy = builder.build().unwrap();
        policy.backoff().waits(0).take(count).map(|wait| wait.as_secs()).collect()
    };
    assert_eq!(first(crash_loop(10, 300), 8), [0, 10, 20, 40, 80, 160, 300, 300]);
    // KEP-4603's new series, and KEP-5593: a node's maximum below the initial wait takes its place.
    assert_eq!(first(crash_loop(1, 60), 9), [0, 1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(first(crash_loop(10, 3), 4), [0, 3, 3, 3]);
}

/// The same: ten minutes of health, twice the maximum, begin a new series.
#[test]
fn kubernetes_starts_again_after_ten_healthy_minutes() {
    let policy = crash_loop(10, 300).reset_after(secs(600)).build().unwrap();
    let mut call = Call::new(None);
    let mut crash = |healthy: u64| {
        let outcome = Outcome::of(Class::Transient).healthy_for(secs(healthy));
        match call.decide(&policy, &mut Alone, outcome, Moment::timeless(0)) {
            Decision::Retry { after, .. } => after.as_secs(),
            Decision::Stop { reason, .. } => panic!("{reason}"),
        }
    };
    let waits = [1, 1, 1, 599, 600, 1, 9_999, 1, 1].map(&mut crash);
    assert_eq!(waits, [0, 10, 20, 40, 0, 10, 0, 10, 20]);
}

/// IEEE 802.3 (truncated binary exponential backoff): k = min(n, 10), 0 to 2ᵏ − 1 slots of 51.2 µs at 10 Mb/s; the
/// 16th failure is the last.
#[test]
fn ethernet() {
    let slot = Duration::from_nanos(51_200);
    let policy = Policy::csma(slot).max_attempts(16).build().unwrap();
    for n in 1..=16 {
        let most = (1u32 << n.min(10)) - 1;
        assert_eq!(drawn(policy.backoff(), n), (Duration::ZERO, most * slot), "collision {n}");
        let range = policy.backoff().range(n, Duration::ZERO, Memory::default());
        assert_eq!((range.lowest, range.highest), (Duration::ZERO, most * slot));
    }
    assert_eq!(drawn(policy.backoff(), 10).1, Duration::from_nanos(52_377_600));
    let mut dice = Dice::new(802);
    for _ in 0..1_000 {
        let wait = policy.backoff().wait(10, Duration::ZERO, &mut Memory::default(), dice.roll());
        assert_eq!(wait.as_nanos() % 51_200, 0, "{wait:?} is no whole number of slots");
    }
    let (attempts, end) = timeline(&policy);
    assert_eq!((attempts.len(), end), (16, Reason::AttemptsExhausted));
}

/// Debian exim4-config, retry/30_exim4-config: `F,2h,15m; G,16h,1h,1.5; F,4d,6h`.
#[test]
fn exim() {
    let hour = secs(3600);
    let stage = |until: Duration, initial: Duration, multiplier: f64| Stage {
        until: Some(until),
        initial,
        multiplier: Multiplier::new(multiplier).unwrap(),
    };
    let policy = Policy::stages([
        stage(2 * hour, hour / 4, 1.0),
        stage(16 * hour, hour, 1.5),
        stage(96 * hour, 6 * hour, 1.0),
    ])
    .jitter(Jitter::None)
    .unlimited_attempts();
    let mut expected =
        vec![0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 4.5, 6.75, 10.125, 15.1875, 22.78125];
    expected.extend((1..13).map(|n| 22.78125 + 6.0 * f64::from(n)));
    // The 27th retry would be at 100.78 h, past the four days: the message bounces at the 26th.
    let (attempts, end) = timeline(&policy.clone().deadline(96 * hour).build().unwrap());
    let hours: Vec<_> = attempts.iter().map(|at| at.as_secs_f64() / 3600.0).collect();
    assert_eq!(hours, expected);
    assert_eq!(end, Reason::DeadlineWouldPass);

    let (attempts, _) = timeline(&policy.deadline(101 * hour).build().unwrap());
    assert_eq!(attempts.last(), Some(&secs(362_812).saturating_add(ms(500))));
    assert_eq!(attempts.len(), 1 + 27);
}

/// postconf(5): minimal_backoff_time 300 s, maximal_backoff_time 4000 s, maximal_queue_lifetime 5 days.
#[test]
fn postfix() {
    let policy = Policy::exponential(secs(300))
        .cap(secs(4000))
        .jitter(Jitter::None)
        .unlimited_attempts()
        .deadline(secs(5 * 86_400))
        .build()
        .unwrap();
    let waits: Vec<_> = policy.backoff().waits(0).take(7).map(|wait| wait.as_secs()).collect();
    assert_eq!(waits, [300, 600, 1200, 2400, 4000, 4000, 4000]);
    let (attempts, end) = timeline(&policy);
    // 4500 s in four waits, then 4000 s each: 106 more fit into 432 000 s.
    assert_eq!((attempts.len(), end), (1 + 4 + 106, Reason::DeadlineWouldPass));
    assert_eq!(attempts.last(), Some(&secs(428_500)));
}
