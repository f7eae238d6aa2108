//! A decision costs no memory: nothing between the start of a call and its end is allocated.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::hint::black_box;
use std::time::Duration;

use allocation_counter::measure;
use relent_core::{
    AdaptiveRate, Alone, Backoff, BackoffMemory, Breaker, BreakerPolicy, Budget, Bulkhead, BulkheadPolicy,
    Call, Class, Common, Dice, Held, Hint, Jitter, Latencies, Limiter, LimiterPolicy, Memory, MemoryPolicy,
    Moment, Multiplier, Outcome, Policy, Rate, Rule, Schedule, Share, Stage, Throttle, ThrottlePolicy,
    Timestamp, TokenBucket,
};

fn schedules() -> [Schedule; 7] {
    let initial = Duration::from_millis(100);
    let multiplier = Multiplier::new(1.5).unwrap();
    [
        Schedule::Constant { initial },
        Schedule::Linear { initial, step: initial },
        Schedule::Exponential { initial, multiplier },
        Schedule::Fibonacci { initial },
        Schedule::List([initial, initial].into()),
        Schedule::Stages([Stage { until: None, initial, multiplier }].into()),
        Schedule::Csma { slot: initial, max_exponent: 10 },
    ]
}

fn allocations(run: impl FnOnce()) -> u64 {
    measure(run).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(vec![1]))), 1);
}

#[test]
fn a_call_allocates_nothing() {
    for schedule in schedules() {
        let policy = Policy::with_schedule(schedule.clone())
            .unlimited_attempts()
            .deadline(Duration::from_secs(3600))
            .rule(Rule::on(Class::Throttled).backoff(Backoff::new(schedule)))
            .build()
            .unwrap();
        let counted = allocations(|| {
            let mut dice = Dice::new(1);
            let moment = Moment::at(Timestamp::ZERO, dice.roll());
            let mut call = Call::new(moment.now);
            let _ = black_box(call.start(&policy, &mut Alone, moment));
            for class in [Class::Transient, Class::Throttled, Class::Timeout, Class::Success] {
                let outcome = Outcome::of(class).hint(Hint::After(Duration::from_secs(1)));
                let _ = black_box(call.decide(
                    &policy,
                    &mut Alone,
                    outcome,
                    Moment::at(Timestamp::ZERO, dice.roll()),
                ));
                call = Call::from_bytes(black_box(call.to_bytes()));
            }
        });
        assert_eq!(counted, 0, "{policy:?}");
    }
}

#[test]
fn what_calls_share_allocates_nothing() {
    let per_second = Rate::new(1_000, Duration::from_secs(1)).unwrap();
    let mut common = Common {
        breaker: Some(Breaker::new(BreakerPolicy::count(100), 1).unwrap()),
        budgets: vec![Budget::new(TokenBucket::new(100).refill(per_second)).unwrap()],
        throttle: Some(Throttle::new(ThrottlePolicy::sre(2.0)).unwrap()),
        limiter: Some(Limiter::new(LimiterPolicy::new(per_second)).unwrap()),
        adaptive: Some(AdaptiveRate::new(Timestamp::ZERO)),
        bulkhead: Some(Bulkhead::new(BulkheadPolicy::new(10)).unwrap()),
        latencies: Some(Latencies::new(Duration::from_secs(10))),
        memory: Some(BackoffMemory::new(MemoryPolicy::new(Duration::from_secs(30))).unwrap()),
    };
    let policy = Policy::default();
    let counted = allocations(|| {
        for second in 0..100 {
            let moment = Moment::at(Timestamp::from_duration(Duration::from_secs(second)), 1 << 63);
            let (mut held, mut call) = (Held::default(), Call::new(moment.now));
            let mut share = Share { parts: &mut common, held: &mut held };
            for class in [Class::Success, Class::Transient, Class::Throttled] {
                let _ = black_box(call.admit(&policy, &mut share, moment));
                let _ = black_box(call.decide(&policy, &mut share, Outcome::of(class), moment));
            }
            share.end(Timestamp::from_duration(Duration::from_secs(second)));
        }
    });
    assert_eq!(counted, 0);
    assert!(common.breaker.unwrap().statistics().successes > 0);
}

#[test]
fn a_wait_allocates_nothing_at_any_attempt() {
    for schedule in schedules() {
        for jitter in [Jitter::None, Jitter::Full, Jitter::Decorrelated, Jitter::DecorrelatedV2] {
            let backoff = Backoff::new(schedule.clone()).jitter(jitter);
            let counted = allocations(|| {
                for n in [1, 2, 1_000_000, u32::MAX] {
                    black_box(backoff.wait(n, Duration::ZERO, &mut Memory::default(), 7));
                    black_box(backoff.range(n, Duration::ZERO, Memory::default()));
                }
                black_box(backoff.waits(7).nth(100));
            });
            assert_eq!(counted, 0, "{backoff:?}");
        }
    }
}
