//! Budgets: the figures of other systems, reported faults, and properties over any history. The names in brackets
//! are the reports.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod strategies;

use std::time::Duration;

use proptest::prelude::*;
use relent_core::{
    Budget, BudgetPolicy, Class, ConcurrentBudget, Hint, Outcome, Priority, Quota, Rate, Ratio, Stake,
    Timestamp, TokenBucket, WindowBudget,
};

const START: Timestamp = Timestamp::ZERO;

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_duration(Duration::from_millis(ms))
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ratio(value: f64) -> Ratio {
    Ratio::new(value).unwrap()
}

fn budget(policy: impl Into<BudgetPolicy>) -> Budget {
    Budget::new(policy).unwrap()
}

/// A call begins, and its first attempt ends.
fn call(budget: &mut Budget, class: Class, now: Timestamp) -> Stake {
    let mut stake = Stake::default();
    budget.begin(&mut stake, now);
    budget.settle(&Outcome::of(class), &mut stake, now);
    stake
}

/// A call of one attempt.
fn once(budget: &mut Budget, class: Class) {
    let stake = call(budget, class, START);
    budget.end(stake);
}

/// A retry is granted and starts.
fn retries(budget: &mut Budget, stake: &mut Stake, now: Timestamp) -> bool {
    let granted = budget.withdraw(Class::Transient, Priority::Normal, stake, now);
    stake.start();
    granted
}

/// Calls that fail at their only attempt, and how many of them get a retry.
fn granted(budget: &mut Budget, calls: u32, now: Timestamp) -> u32 {
    let granted = (0..calls).filter(|_| {
        let mut stake = call(budget, Class::Transient, now);
        let granted = retries(budget, &mut stake, now);
        budget.end(stake);
        granted
    });
    granted.count() as u32
}

/// systems.md 1 and F31 [grpc/proposal#27]: a bucket that grows without bound never throttles.
#[test]
fn grpc_throttles_at_half() {
    let mut budget = budget(TokenBucket::grpc(10, 100));
    for _ in 0..1_000 {
        once(&mut budget, Class::Success);
    }
    assert_eq!(budget.balance(START), 10_000);
    for (after, allowed) in [(9_000, true), (8_000, true), (7_000, true), (6_000, true), (5_000, false)] {
        let mut stake = call(&mut budget, Class::Transient, START);
        assert_eq!(budget.balance(START), after);
        assert_eq!(retries(&mut budget, &mut stake, START), allowed, "{after}");
        budget.end(stake);
        // The retry itself takes nothing.
        assert_eq!(budget.balance(START), after);
    }
    let mut stake = call(&mut budget, Class::Success, START);
    assert_eq!(budget.balance(START), 5_100);
    assert!(retries(&mut budget, &mut stake, START));
    for _ in 0..30 {
        once(&mut budget, Class::Timeout);
    }
    assert_eq!(budget.balance(START), 0);
    for success in 1..=51 {
        let mut stake = call(&mut budget, Class::Success, START);
        assert_eq!(retries(&mut budget, &mut stake, START), success == 51, "{success}");
        budget.end(stake);
    }
}

/// gRFC A6: a pushback that says "do not retry" counts as a failure, any other final answer not at all.
#[test]
fn grpc_counts_a_pushback_that_stops() {
    let mut budget = budget(TokenBucket::grpc(10, 100));
    let stopped = Outcome::of(Class::Permanent).hint(Hint::Stop);
    budget.settle(&stopped, &mut Stake::default(), START);
    assert_eq!(budget.balance(START), 9_000);
    for class in [Class::Permanent, Class::Ignored, Class::Cancelled] {
        once(&mut budget, class);
        assert_eq!(budget.balance(START), 9_000, "{class}");
    }
}

/// F30 [aws/aws-sdk-go-v2#3550, aws/aws-sdk-java-v2#5345]: what was spent never came back.
#[test]
fn a_success_after_a_retry_brings_its_cost_back() {
    let mut budget = budget(Quota::new(10, 5));
    let balance = |budget: &mut Budget| budget.balance(START) / 1_000;
    // The first call fails three times.
    let mut stake = call(&mut budget, Class::Transient, START);
    assert!(retries(&mut budget, &mut stake, START));
    budget.settle(&Outcome::of(Class::Transient), &mut stake, START);
    assert!(retries(&mut budget, &mut stake, START));
    budget.settle(&Outcome::of(Class::Transient), &mut stake, START);
    budget.end(stake);
    assert_eq!(balance(&mut budget), 0);
    let mut stake = call(&mut budget, Class::Transient, START);
    assert!(!retries(&mut budget, &mut stake, START));
    budget.end(stake);
    assert_eq!(balance(&mut budget), 0);
    for _ in 0..5 {
        once(&mut budget, Class::Success);
    }
    assert_eq!(balance(&mut budget), 5);
    let mut stake = call(&mut budget, Class::Transient, START);
    assert!(retries(&mut budget, &mut stake, START));
    assert_eq!(balance(&mut budget), 0);
    budget.settle(&Outcome::of(Class::Success), &mut stake, START);
    budget.end(stake);
    assert_eq!(balance(&mut budget), 5);
}

/// The refund is the cost of the last retry, not of all; nothing rises above the capacity.
#[test]
fn the_aws_quotas_cost_by_class() {
    // botocore 1.44.8: 500; 14 after a transient failure, 5 after throttling.
    let mut quota = budget(Quota::aws_2026());
    let mut stake = call(&mut quota, Class::Transient, START);
    assert!(quota.withdraw(Class::Transient, Priority::Normal, &mut stake, START));
    assert_eq!(quota.balance(START), 486_000);
    quota.settle(&Outcome::of(Class::Throttled), &mut stake, START);
    assert!(quota.withdraw(Class::Throttled, Priority::Normal, &mut stake, START));
    assert_eq!(quota.balance(START), 481_000);
    quota.settle(&Outcome::of(Class::Success), &mut stake, START);
    quota.end(stake);
    assert_eq!(quota.balance(START), 486_000);
    for _ in 0..20 {
        once(&mut quota, Class::Success);
    }
    assert_eq!(quota.balance(START), 500_000);
    // A full one absorbs 35 transient retries (10 are left) or 100 after throttling.
    assert_eq!(granted(&mut quota, 200, START), 35);
    assert_eq!(quota.balance(START), 10_000);

    let mut classic = budget(Quota::aws_classic());
    for (class, balance) in [(Class::Transient, 495), (Class::Throttled, 490), (Class::Timeout, 480)] {
        let mut stake = call(&mut classic, class, START);
        assert!(classic.withdraw(class, Priority::Normal, &mut stake, START));
        stake.start();
        classic.end(stake);
        assert_eq!(classic.balance(START), balance * 1_000);
    }
}

/// systems.md 7, Finagle's own figures.
#[test]
fn a_window_gives_finagles_figures() {
    for (ttl, floor, share, expected) in [(1, 10, 0.1, 1_010), (2, 5, 0.5, 5_010)] {
        let mut budget = budget(WindowBudget::new(ratio(share)).ttl(secs(ttl)).floor(floor));
        let count = granted(&mut budget, 10_000, START);
        let more = (0..10_000).filter(|_| {
            let mut stake = Stake::default();
            retries(&mut budget, &mut stake, START)
        });
        assert_eq!(count + more.count() as u32, expected);
    }
    let mut double = budget(WindowBudget::new(ratio(2.0)).floor(0));
    for _ in 0..10_000 {
        once(&mut double, Class::Success);
    }
    assert_eq!(double.balance(START), 20_000_000);
    assert_eq!(budget(WindowBudget::new(Ratio::ZERO).floor(0)).balance(START), 0);
    assert_eq!(budget(WindowBudget::new(ratio(0.2))).balance(START), 100_000);
}

/// systems.md 8 [tower-rs/tower#857]: 0.6 became 100 %.
#[test]
fn a_ratio_is_exact() {
    for (share, expected) in [(0.1, 1_000), (0.3, 3_000), (0.6, 6_000), (0.7, 7_000), (1.0, 10_000)] {
        let mut budget = budget(WindowBudget::new(ratio(share)).floor(0));
        assert_eq!(granted(&mut budget, 10_000, START), expected, "{share}");
    }
    // And over a long time, in which all slides: a call per millisecond for a minute.
    let mut budget = budget(WindowBudget::new(ratio(0.3)).floor(0));
    let granted: u32 = (0..60_000).map(|at| granted(&mut budget, 1, ms(at))).sum();
    assert!((17_999..=18_001).contains(&granted), "{granted}");
}

#[test]
fn a_window_forgets_calls_and_retries() {
    let mut budget = budget(WindowBudget::new(ratio(0.1)).floor(0));
    for _ in 0..100 {
        once(&mut budget, Class::Success);
    }
    assert_eq!(budget.balance(START), 10_000);
    assert_eq!(budget.balance(ms(10_999)), 10_000);
    assert_eq!(budget.balance(ms(11_000)), 0);
    // The floor comes back as its retries leave.
    let mut floor = self::budget(WindowBudget::new(Ratio::ZERO).floor(1).ttl(secs(10)));
    assert_eq!(granted(&mut floor, 20, ms(500)), 10);
    assert_eq!(granted(&mut floor, 20, ms(10_500)), 0);
    assert_eq!(granted(&mut floor, 20, ms(11_000)), 10);
}

#[test]
fn a_share_of_what_is_under_way() {
    // Envoy's figures: 20 %, at least 3.
    let mut budget = budget(ConcurrentBudget::new(ratio(0.2)));
    let mut stakes: Vec<_> = (0..10).map(|_| call(&mut budget, Class::Transient, START)).collect();
    // Those that wait for their retry count.
    let mut withdrawn =
        stakes.iter_mut().map(|stake| budget.withdraw(Class::Transient, Priority::Normal, stake, START));
    assert_eq!(withdrawn.by_ref().take(10).filter(|granted| *granted).count(), 3);
    stakes.extend((0..15).map(|_| call(&mut budget, Class::Transient, START)));
    assert_eq!(budget.balance(START), 2_000);
    // A retry that ends, however it does, makes room; a call that ends takes room away.
    budget.settle(&Outcome::of(Class::Cancelled), &mut stakes[0], START);
    assert_eq!(budget.balance(START), 3_000);
    for stake in stakes.drain(3..) {
        budget.end(stake);
    }
    assert_eq!(budget.balance(START), 1_000);
    for stake in stakes {
        budget.end(stake);
    }
    assert_eq!(budget.balance(START), 3_000);
}

/// F32 (b, c) [tower-resilience#370]: a refill that was not used, and rates that are no numbers.
#[test]
fn a_bucket_refills_by_time_and_not_beyond() {
    let rate = Rate::new(10, secs(1)).unwrap();
    let mut budget = budget(TokenBucket::new(5).refill(rate));
    assert_eq!(granted(&mut budget, 10, START), 5);
    assert_eq!(granted(&mut budget, 10, ms(99)), 0);
    assert_eq!(granted(&mut budget, 10, ms(100)), 1);
    assert_eq!(granted(&mut budget, 10, ms(399)), 2);
    assert_eq!(granted(&mut budget, 10, ms(400)), 1);
    assert_eq!(granted(&mut budget, 10, ms(3_600_000)), 5);
}

/// F33 [svix/diom#115]: a check that forgets the fraction accrues nothing.
#[test]
fn looking_does_not_stop_the_refill() {
    let mut budget = budget(TokenBucket::new(1).refill(Rate::new(1, secs(1)).unwrap()));
    assert_eq!(granted(&mut budget, 1, START), 1);
    for at in 1..1_000_000u64 {
        if budget.balance(Timestamp::from_nanos(at * 1_000)) == 1_000 {
            panic!("full after {at} µs");
        }
    }
    assert_eq!(granted(&mut budget, 1, ms(1_000)), 1);
    // A rate that does not divide a second: three tokens in each, to the nanosecond, for a day.
    let mut thirds = self::budget(TokenBucket::new(1_000_000).refill(Rate::new(3, secs(1)).unwrap()));
    assert_eq!(granted(&mut thirds, 1_000_000, START), 1_000_000);
    for at in 1..86_400 {
        thirds.balance(Timestamp::from_nanos(at * 999_999_937));
    }
    assert_eq!(thirds.balance(ms(86_400_000)), 86_400 * 3 * 1_000);
}

/// F34 [golang/go#56287, #56263]: time that steps back minted tokens.
#[test]
fn time_that_steps_back_brings_nothing() {
    let mut budget = budget(TokenBucket::new(2).refill(Rate::new(1, secs(1)).unwrap()));
    let total: u32 = (0..20).map(|i| granted(&mut budget, 1, ms(10_000 - i % 2 * 1_000))).sum();
    assert_eq!(total, 2);
}

#[test]
fn a_share_is_reserved_for_high_priority() {
    let policies = [
        BudgetPolicy::from(TokenBucket::new(10).refill(Rate::new(1, secs(3_600)).unwrap())),
        WindowBudget::new(Ratio::ZERO).floor(1).into(),
        ConcurrentBudget::new(Ratio::ZERO).floor(10).into(),
        Quota::new(10, 1).into(),
    ];
    for policy in policies {
        let mut budget = budget(policy).reserve(ratio(0.2)).unwrap();
        let mut withdraw = |priority| {
            let mut stake = Stake::default();
            let granted = budget.withdraw(Class::Transient, priority, &mut stake, START);
            stake.start();
            granted
        };
        let count = (0..20).filter(|_| withdraw(Priority::Normal)).count();
        assert_eq!(count, 8, "{policy:?}");
        assert_eq!((0..20).filter(|_| withdraw(Priority::High)).count(), 2, "{policy:?}");
        assert!(Budget::new(policy).unwrap().reserve(Ratio::ONE).is_err());
    }
}

#[test]
fn a_retry_that_never_starts_costs_nothing() {
    let hour = Rate::new(1, secs(3_600)).unwrap();
    for policy in [
        BudgetPolicy::from(TokenBucket::new(10).refill(hour)),
        WindowBudget::new(Ratio::ZERO).floor(1).into(),
        ConcurrentBudget::new(Ratio::ZERO).floor(10).into(),
        Quota::new(10, 1).into(),
    ] {
        let mut budget = budget(policy);
        for _ in 0..100 {
            let mut stake = call(&mut budget, Class::Transient, START);
            assert!(budget.withdraw(Class::Transient, Priority::Normal, &mut stake, START), "{policy:?}");
            // One retry at a time: a second one would be forgotten.
            assert!(!budget.withdraw(Class::Transient, Priority::Normal, &mut stake, START), "{policy:?}");
            budget.end(stake);
            assert_eq!(budget.balance(START), 10_000, "{policy:?}");
        }
        // One that started has cost: the load was there.
        let mut stake = call(&mut budget, Class::Transient, START);
        assert!(retries(&mut budget, &mut stake, START));
        budget.put_back(&mut stake);
        assert_eq!(budget.balance(START), 9_000, "{policy:?}");
    }
}

#[test]
fn what_is_put_back_after_time_stepped_back_is_the_same_retry() {
    let mut budget = budget(WindowBudget::new(Ratio::ZERO).floor(1));
    assert_eq!(granted(&mut budget, 1, ms(1_500)), 1);
    let mut stake = Stake::default();
    assert!(budget.withdraw(Class::Transient, Priority::Normal, &mut stake, ms(100)));
    budget.end(stake);
    assert_eq!(budget.balance(ms(1_500)), 9_000);
    // Each retry leaves the window with its own tenth, and takes no other with it.
    assert_eq!(granted(&mut budget, 1, ms(5_500)), 1);
    for (at, balance) in [(11_500, 8_000), (12_000, 9_000), (15_999, 9_000), (16_000, 10_000)] {
        assert_eq!(budget.balance(ms(at)), balance, "{at}");
    }
}

#[test]
fn a_snapshot_goes_on_where_it_was_taken() {
    // A process a minute, as cron starts them, with a token a day: no fraction may get lost on the way.
    let bucket = TokenBucket::new(1).refill(Rate::new(1, secs(86_400)).unwrap());
    let mut budget = budget(bucket);
    assert_eq!(granted(&mut budget, 1, START), 1);
    let minutes = (1..).find(|minute| {
        let now = ms(minute * 60_000);
        let snapshot = budget.snapshot();
        budget = self::budget(bucket).restored(&snapshot, now);
        assert_eq!(budget.snapshot(), snapshot);
        granted(&mut budget, 1, now) == 1
    });
    assert_eq!(minutes, Some(1_440));

    let window = WindowBudget::new(ratio(0.5)).floor(0);
    let mut budget = self::budget(window);
    assert_eq!(granted(&mut budget, 10, ms(500)), 5);
    assert_eq!(granted(&mut budget, 10, ms(5_500)), 5);
    let snapshot = budget.snapshot();
    let mut budget = self::budget(window).restored(&snapshot, ms(6_000));
    (0..10).for_each(|_| once(&mut budget, Class::Success));
    assert_eq!(budget.balance(ms(6_000)), 5_000);
    assert_eq!(self::budget(window).restored(&snapshot, ms(11_000)).balance(ms(11_000)), 0);

    let mut budget = self::budget(Quota::new(10, 3));
    assert_eq!(granted(&mut budget, 2, START), 2);
    let snapshot = budget.snapshot();
    assert_eq!(self::budget(Quota::new(10, 3)).restored(&snapshot, START).balance(START), 4_000);
    // Of more than there may be, only that; of another kind, nothing.
    assert_eq!(self::budget(Quota::new(2, 1)).restored(&snapshot, START).balance(START), 2_000);
    assert_eq!(self::budget(bucket).restored(&snapshot, START).balance(START), 1_000);
}

/// A clock that was set back must neither mint nor stop the refill for as long.
#[test]
fn a_snapshot_from_the_future_is_taken_as_of_now() {
    let bucket = TokenBucket::new(10).refill(Rate::new(1, secs(1)).unwrap());
    let mut budget = budget(bucket);
    assert_eq!(granted(&mut budget, 10, ms(3_600_000)), 10);
    let mut budget = self::budget(bucket).restored(&budget.snapshot(), ms(1_000));
    assert_eq!(budget.balance(ms(1_000)), 0);
    assert_eq!(budget.balance(ms(3_000)), 2_000);
    let window = WindowBudget::new(Ratio::ZERO).floor(1);
    let mut budget = self::budget(window);
    assert_eq!(granted(&mut budget, 10, ms(3_600_000)), 10);
    let mut budget = self::budget(window).restored(&budget.snapshot(), ms(1_000));
    assert_eq!(budget.balance(ms(1_000)), 0);
    assert_eq!(budget.balance(ms(12_000)), 10_000);
}

#[test]
fn what_limits_nothing_or_everything_is_refused() {
    for (policy, key) in [
        (BudgetPolicy::from(TokenBucket::new(0).per_success(1)), "capacity"),
        (TokenBucket::new(10).into(), "refill"),
        (TokenBucket::new(10).per_success(100).per_retry(0).into(), "per_retry"),
        (TokenBucket::new(10).per_success(100).per_retry(10_001).into(), "per_retry"),
        (WindowBudget::new(Ratio::ONE).ttl(Duration::ZERO).into(), "ttl"),
        (ConcurrentBudget::new(Ratio::ZERO).floor(0).into(), "ratio"),
        (Quota::new(0, 1).into(), "capacity"),
        (Quota::new(10, 0).into(), "cost"),
        (Quota::new(10, 5).timeout(11).into(), "cost"),
    ] {
        assert_eq!(Budget::new(policy).unwrap_err().key(), key, "{policy:?}");
    }
}

/// What happens to one of a few calls.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Settle(Class),
    Withdraw(Class, Priority),
    Start,
    PutBack,
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop::sample::select(Priority::ALL.to_vec());
    prop_oneof![
        2 => Just(Step::Begin),
        3 => strategies::class().prop_map(Step::Settle),
        4 => (strategies::failure(), priority).prop_map(|(class, priority)| Step::Withdraw(class, priority)),
        2 => Just(Step::Start),
        1 => Just(Step::PutBack),
        1 => Just(Step::End),
    ]
}

/// Steps of eight calls, each some time after the one before; now and then the clock steps back.
fn history() -> impl Strategy<Value = Vec<(Timestamp, usize, Step)>> {
    let pause = prop_oneof![
        4 => Just(0i64),
        4 => 0..50_000_000i64,
        2 => 0..2_000_000_000i64,
        1 => -3_000_000_000..0i64,
    ];
    prop::collection::vec((pause, 0..8usize, step()), 0..300).prop_map(|steps| {
        let mut now = 5_000_000_000i64;
        let mut timed = |(pause, call, step): (i64, usize, Step)| {
            now = (now + pause).max(0);
            (Timestamp::from_nanos(now as u64), call, step)
        };
        steps.into_iter().map(&mut timed).collect()
    })
}

/// Runs a history, and calls `granted` after each retry that is granted; returns what the calls hold at the end.
fn run(
    budget: &mut Budget,
    history: &[(Timestamp, usize, Step)],
    mut after: impl FnMut(&mut Budget, Timestamp, Step, bool),
) -> [Stake; 8] {
    let mut stakes: [Stake; 8] = Default::default();
    let mut latest = START;
    for (now, index, step) in history.iter().copied() {
        latest = latest.max(now);
        let stake = &mut stakes[index];
        let mut granted = false;
        match step {
            Step::Begin => budget.begin(stake, now),
            Step::Settle(class) => budget.settle(&Outcome::of(class), stake, now),
            Step::Withdraw(class, priority) => granted = budget.withdraw(class, priority, stake, now),
            Step::Start => stake.start(),
            Step::PutBack => budget.put_back(stake),
            Step::End => budget.end(std::mem::take(stake)),
        }
        after(budget, latest, step, granted);
    }
    stakes
}

proptest! {
    #![proptest_config(strategies::config(200))]

    #[test]
    fn a_bucket_never_gives_what_it_did_not_hold(
        history in history(),
        capacity in 1..20u32,
        refill in (0..20u32, 1..3_000_000_000u64),
        amounts in (0..2_000u32, 0..2_000u32, 1..1_000u32),
        half_full: bool,
    ) {
        let (per_success, per_failure, per_retry) = amounts;
        let bucket = TokenBucket::new(capacity).per_success(per_success + 1).per_failure(per_failure);
        let bucket = bucket.per_retry(per_retry).half_full(half_full);
        let rate = Rate::new(refill.0, Duration::from_nanos(refill.1));
        let mut budget = budget(rate.map_or(bucket, |rate| bucket.refill(rate)));
        let most = u64::from(capacity) * 1_000;
        // What came in at most, in thousandths, and what went out at least.
        let (mut come, mut gone) = (most, 0);
        let _stakes = run(&mut budget, &history, |budget, latest, step, granted| {
            match step {
                Step::Settle(Class::Success) => come += u64::from(per_success) + 1,
                Step::PutBack | Step::End => come += u64::from(per_retry),
                Step::Withdraw(..) if granted => gone += u64::from(per_retry),
                _ => {}
            }
            let refilled = latest.as_nanos() as u128 * u128::from(refill.0) * 1_000 / u128::from(refill.1);
            assert!(u128::from(gone) <= u128::from(come) + refilled);
            assert!(budget.balance(latest) <= most);
        });
    }

    #[test]
    fn a_bucket_holds_what_exact_arithmetic_says(
        asks in prop::collection::vec((0..3_000_000_000u64, any::<bool>()), 1..100),
        capacity in 1..50u32,
        refill in (1..1_000u32, 1..5_000_000_000u64),
    ) {
        let rate = Rate::new(refill.0, Duration::from_nanos(refill.1)).unwrap();
        let mut budget = budget(TokenBucket::new(capacity).refill(rate));
        // In units of a thousandth ÷ `per` nanoseconds nothing is ever rounded.
        let per = u128::from(refill.1);
        let most = u128::from(capacity) * 1_000 * per;
        let (mut exact, mut now) = (most, 0u64);
        for (pause, asks) in asks {
            now += pause;
            exact = (exact + u128::from(pause) * u128::from(refill.0) * 1_000).min(most);
            prop_assert_eq!(u128::from(budget.balance(Timestamp::from_nanos(now))), exact / per);
            if asks && retries(&mut budget, &mut Stake::default(), Timestamp::from_nanos(now)) {
                exact -= 1_000 * per;
            }
        }
    }

    /// Threads that tell no success of a first attempt while the budget rests: one that is told all of it, and one that is
    /// told what must be told, hold the same.
    #[test]
    fn what_need_not_be_told_changes_nothing(
        history in history(),
        capacity in 1..20u32,
        refill in prop::option::of((1..20u32, 1..3_000_000_000u64)),
        amounts in (0..2_000u32, 0..2_000u32, 1..1_000u32),
        is_quota: bool,
    ) {
        let (per_success, per_failure, per_retry) = amounts;
        let bucket = TokenBucket::new(capacity).per_failure(per_failure).per_retry(per_retry);
        let rate = refill.and_then(|(count, per)| Rate::new(count, Duration::from_nanos(per)));
        let bucket = match rate {
            Some(rate) => bucket.refill(rate).per_success(per_success),
            None => bucket.per_success(per_success + 1),
        };
        let quota = Quota::new(capacity, 1).first_success(per_success % 2);
        let made = || if is_quota { budget(quota) } else { budget(bucket) };
        let (mut told, mut spared) = (made(), made());
        let mut latest = START;
        for (now, _, step) in history {
            // Of times that step back whoever is told less knows less.
            latest = latest.max(now);
            match step {
                Step::Settle(Class::Success) => {
                    told.settle(&Outcome::of(Class::Success), &mut Stake::default(), latest);
                    if !spared.is_at_rest() {
                        // Whoever does not know the time tells none.
                        spared.settle(&Outcome::of(Class::Success), &mut Stake::default(), START);
                    }
                }
                Step::Settle(class) => for budget in [&mut told, &mut spared] {
                    budget.settle(&Outcome::of(class), &mut Stake::default(), latest);
                },
                Step::Withdraw(class, priority) => {
                    let granted = [&mut told, &mut spared].map(|budget| {
                        let mut stake = Stake::default();
                        let granted = budget.withdraw(class, priority, &mut stake, latest);
                        stake.start();
                        budget.settle(&Outcome::of(Class::Permanent), &mut stake, latest);
                        granted
                    });
                    prop_assert_eq!(granted[0], granted[1]);
                }
                _ => {}
            }
            prop_assert_eq!(told.clone().balance(latest), spared.clone().balance(latest));
        }
    }

    #[test]
    fn a_window_grants_no_more_than_its_share(
        history in history(),
        share in 0..1_500_000u32,
        ttl in 1..5_000u64,
        floor in 0..5u32,
    ) {
        let share = Ratio::per_million(share);
        let ttl = Duration::from_millis(ttl);
        let mut budget = budget(WindowBudget::new(share).ttl(ttl).floor(floor));
        let (mut calls, mut retries) = (vec![], vec![]);
        let mut begun = 0u32;
        let stakes = run(&mut budget, &history, |budget, latest, step, granted| {
            // A call that begins twice is counted once; this counts it twice, which only loosens the bound.
            match step {
                Step::Begin => { calls.push(latest); begun += 1; }
                Step::Withdraw(..) if granted => retries.push(latest),
                // What is put back may be any of them: take the latest away, which only loosens the bound.
                Step::PutBack | Step::End => drop(retries.pop()),
                _ => {}
            }
            let within = |times: &[Timestamp], span: Duration| {
                times.iter().filter(|time| latest.since(**time) < span).count() as u64
            };
            if granted {
                let taken = within(&retries, ttl) * 1_000_000;
                let calls = within(&calls, ttl + ttl / 9 + Duration::from_nanos(20));
                let floor = u64::from(floor) * ttl.as_nanos() as u64 / 1_000;
                assert!(taken <= share_of(share, calls) + floor, "{taken} of {calls}");
            }
            let most = share_of(share, u64::from(begun)) / 1_000 + u64::from(floor) * ttl.as_millis() as u64;
            assert!(budget.balance(latest) <= most + 1);
        });
        drop(stakes);
    }

    #[test]
    fn what_is_under_way_is_counted_exactly(
        history in history(),
        share in 0..1_500_000u32,
        floor in 1..5u32,
    ) {
        let share = Ratio::per_million(share);
        let mut budget = budget(ConcurrentBudget::new(share).floor(floor));
        let empty = u64::from(floor) * 1_000;
        let stakes = run(&mut budget, &history, |budget, latest, _, _| {
            // Eight calls at most are under way.
            assert!(budget.balance(latest) <= empty.max(share_of(share, 8) / 1_000));
        });
        for stake in stakes {
            budget.end(stake);
        }
        // However the calls went, all is given back.
        prop_assert_eq!(budget.balance(START), empty);
    }

    #[test]
    fn a_quota_is_neither_overdrawn_nor_overfilled(history in history(), capacity in 14..60u32) {
        let mut budget = budget(Quota::new(capacity, 14).throttled(5).timeout(10).not_sent(0));
        let most = u64::from(capacity) * 1_000;
        let mut balance = most;
        let _stakes = run(&mut budget, &history, |budget, latest, step, granted| {
            let before = std::mem::replace(&mut balance, budget.balance(latest));
            assert!(balance <= most);
            match step {
                Step::Withdraw(Class::Transient, _) if granted => assert_eq!(balance + 14_000, before),
                Step::Withdraw(Class::Throttled, _) if granted => assert_eq!(balance + 5_000, before),
                Step::Withdraw(Class::NotSent, _) if granted => assert_eq!(balance, before),
                Step::Withdraw(Class::Timeout, _) if granted => assert_eq!(balance + 10_000, before),
                Step::Settle(Class::Success) | Step::PutBack | Step::End => {
                    assert!((before..=before + 14_000).contains(&balance));
                }
                _ => assert_eq!(balance, before),
            }
        });
    }
}

/// In millionths.
fn share_of(share: Ratio, count: u64) -> u64 {
    (share.as_f64() * 1_000_000.0).round() as u64 * count
}
