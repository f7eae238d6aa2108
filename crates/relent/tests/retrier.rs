//! Retriers: targets apart, state together, bounded.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use relent::testing::Clock;
use relent::{
    BreakerPolicy, BreakerState, Budget, BulkheadPolicy, Class, Locked, Policy, Quota, Rate, Ratio, Reason,
    Retrier, Target, Timestamp, TokenBucket, WindowBudget,
};
use relent_core::{Moment, Outcome, Shared, Start};

const START: Timestamp = Timestamp::ZERO;

fn moment() -> Moment {
    Moment::at(START, 0)
}

/// A member whose first attempt has failed and who asks for a retry.
fn retries(target: &Target) -> bool {
    let mut member = target.join(Clock::new());
    let failed = Outcome::of(Class::Transient);
    assert_eq!(member.admit(moment()), Start::Go);
    member.settle(&failed, Some(START));
    let granted = member.withdraw(&failed, Some(START)).is_ok();
    assert!(!granted || member.admit(moment()) == Start::Go);
    granted
}

#[test]
fn targets_have_state_of_their_own_and_a_name_has_one() {
    let retrier = Retrier::new(Policy::default()).breaker(BreakerPolicy::consecutive(1)).build().unwrap();
    let (here, there, again) = (retrier.at("a"), retrier.at("b"), retrier.clone().at("a"));
    here.breaker().unwrap().with(|breaker| breaker.trip(START));
    let state = |target: &Target| target.breaker().unwrap().with(|breaker| breaker.state(START));
    assert_eq!(
        (state(&here), state(&there), state(&again)),
        (BreakerState::Open, BreakerState::Closed, BreakerState::Open)
    );
    assert_eq!(here.join(Clock::new()).admit(moment()), Start::Stop { reason: Reason::CircuitOpen });
    assert_eq!(there.join(Clock::new()).admit(moment()), Start::Go);
}

#[test]
fn breakers_of_two_targets_do_not_probe_in_step() {
    let ready = |retrier: &Retrier, name| {
        retrier.at(name).breaker().unwrap().with(|breaker| {
            breaker.trip(START);
            breaker.ready_at(START).unwrap()
        })
    };
    let seeded = |seed| {
        let policy = Policy::default().to_builder().seed(seed).build().unwrap();
        Retrier::new(policy).breaker(BreakerPolicy::consecutive(1)).build().unwrap()
    };
    assert_ne!(ready(&seeded(1), "a"), ready(&seeded(1), "b"));
    assert_ne!(ready(&seeded(1), "a"), ready(&seeded(2), "a"));
    assert_eq!(ready(&seeded(1), "a"), ready(&seeded(1), "a"));
    let unseeded = || Retrier::new(Policy::default()).breaker(BreakerPolicy::consecutive(1)).build().unwrap();
    assert_ne!(ready(&unseeded(), "a"), ready(&unseeded(), "a"));
}

#[test]
fn a_budget_can_be_everybodys() {
    let outbound = Locked::new(Budget::new(Quota::new(4, 1)).unwrap());
    let retriers: Vec<_> =
        (0..2).map(|_| Retrier::new(Policy::default()).budget_of(&outbound).build().unwrap()).collect();
    let targets: Vec<_> = retriers.iter().flat_map(|retrier| [retrier.at("a"), retrier.at("b")]).collect();
    assert_eq!(targets.iter().cycle().take(20).filter(|target| retries(target)).count(), 4);
    assert_eq!(outbound.with(|budget| budget.balance(START)), 0);
    // Of their own, each has its own.
    let own = Retrier::new(Policy::default()).budget(Quota::new(4, 1)).build().unwrap();
    assert_eq!((0..10).filter(|_| retries(&own.at("a"))).count(), 4);
    assert!(retries(&own.at("b")));
}

/// F32 (a) [tower-resilience#370]: of 500 tokens exactly 500, whoever asks.
#[test]
fn eight_threads_get_exactly_what_there_is() {
    let hour = Rate::new(1, Duration::from_secs(3_600)).unwrap();
    let retrier = Retrier::new(Policy::default()).budget(TokenBucket::new(500).refill(hour)).build().unwrap();
    let granted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let target = retrier.at("host");
                for _ in 0..1_000 {
                    granted.fetch_add(u32::from(retries(&target)), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(granted.into_inner(), 500);
}

#[test]
fn the_idlest_target_is_forgotten_and_none_in_use() {
    let retrier = Retrier::new(Policy::default())
        .breaker(BreakerPolicy::consecutive(1))
        .max_targets(16)
        .build()
        .unwrap();
    let trip = |target: &Target| target.breaker().unwrap().with(|breaker| breaker.trip(START));
    let is_open = |name: &str| {
        retrier.at(name).breaker().unwrap().with(|breaker| breaker.state(START)) == BreakerState::Open
    };
    let in_use = retrier.at("in use");
    trip(&in_use);
    trip(&retrier.at("idle"));
    trip(&retrier.at("asked for"));
    for other in 0..10_000 {
        retrier.at(&other.to_string());
        assert!(retrier.targets() <= 16);
        assert!(is_open("asked for"));
    }
    assert!(is_open("in use"));
    assert!(!is_open("idle"));
    // Where all are in use, there are more.
    let targets: Vec<_> = (0..100).map(|other| retrier.at(&other.to_string())).collect();
    assert!((100..=116).contains(&retrier.targets()));
    drop(targets);
    retrier.at("one more");
    assert!(retrier.targets() <= 110);
}

#[test]
fn a_target_that_is_idle_is_forgotten() {
    let (clock, minute) = (Clock::new(), Duration::from_secs(60));
    let retrier = Retrier::new(Policy::default()).breaker(BreakerPolicy::consecutive(1)).max_idle(minute);
    let retrier = retrier.idle_clock(clock.clone()).build().unwrap();
    let trip = |name| retrier.at(name).breaker().unwrap().with(|breaker| breaker.trip(START));
    let is_open =
        |name| retrier.at(name).breaker().unwrap().with(|breaker| breaker.state(START)) == BreakerState::Open;
    let in_use = retrier.at("in use");
    ["in use", "idle", "asked for", "never again"].into_iter().for_each(trip);
    clock.advance(minute - Duration::from_nanos(1));
    assert!(is_open("asked for"));
    clock.advance(Duration::from_nanos(1));
    // To the nanosecond, where it is asked for; and those that nobody asks for any more soon go too.
    assert!(is_open("asked for") && is_open("in use") && !is_open("idle"));
    assert_eq!(retrier.targets(), 4);
    clock.advance(minute / 8);
    assert!(is_open("asked for"));
    assert_eq!(retrier.targets(), 3);
    // From the last time on at which it was seen in use, or asked for.
    clock.advance(minute / 2);
    assert!(is_open("asked for"));
    drop(in_use);
    clock.advance(minute - Duration::from_nanos(1));
    assert!(is_open("asked for") && is_open("in use"));
    clock.advance(minute * 2);
    assert!(!is_open("asked for"));
    assert_eq!(retrier.targets(), 1);
}

#[test]
fn targets_are_not_looked_through_at_each_ask() {
    // A flood of names, each for a moment: what is remembered stays in proportion to the time that it is remembered for.
    let (clock, minute) = (Clock::new(), Duration::from_secs(60));
    let retrier = Retrier::new(Policy::default()).max_targets(usize::MAX).max_idle(minute);
    let retrier = retrier.idle_clock(clock.clone()).build().unwrap();
    for name in 0..10_000 {
        retrier.at(&name.to_string());
        clock.advance(Duration::from_secs(1));
        assert!(retrier.targets() <= 60 + 60 / 8 + 1);
    }
}

#[test]
fn whatever_happens_to_a_member_its_place_comes_back() {
    let retrier = Retrier::new(Policy::default()).bulkhead(BulkheadPolicy::new(1)).build().unwrap();
    let target = retrier.at("host");
    let running = || target.bulkhead().unwrap().with(|bulkhead| bulkhead.running());
    let mut member = target.join(Clock::new());
    assert_eq!(member.admit(moment()), Start::Go);
    assert_eq!(running(), 1);
    let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _member = member;
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicking.is_err());
    assert_eq!(running(), 0);
    // A look that panics poisons nothing.
    let bulkhead = target.bulkhead().unwrap().clone();
    let looking = std::thread::spawn(move || bulkhead.with(|_| std::panic::resume_unwind(Box::new(()))));
    assert!(looking.join().is_err());
    assert_eq!(target.join(Clock::new()).admit(moment()), Start::Go);
}

#[test]
fn what_cannot_work_is_refused_when_it_is_built() {
    let new = || Retrier::new(Policy::default());
    let fifth = (0..5).fold(new(), |retrier, _| retrier.budget(Quota::new(10, 1)));
    for (builder, key) in [
        (new().breaker(BreakerPolicy::consecutive(0)), "failures"),
        (new().budget(Quota::new(0, 1)), "capacity"),
        (new().budget_with_reserve(WindowBudget::new(Ratio::ONE), Ratio::ONE), "budget_share"),
        (new().bulkhead(BulkheadPolicy::new(0)), "capacity"),
        (new().bulkhead(BulkheadPolicy::new(1).queue(1).max_wait(Duration::ZERO)), "queue"),
        (new().max_targets(0), "max_targets"),
        (new().max_idle(Duration::ZERO), "max_idle"),
        (fifth, "budget"),
    ] {
        assert_eq!(builder.build().unwrap_err().key(), key);
    }
}

#[test]
fn handles_go_anywhere() {
    fn is<T: Send + Sync + Clone + 'static>() {}
    is::<Retrier>();
    is::<Target>();
    is::<Locked<Budget>>();
    fn moves<T: Send + 'static>(_: T) {}
    let retrier = Retrier::new(Policy::default()).build().unwrap();
    moves(retrier.at("host").join(Clock::new()));
    assert_eq!(Arc::new(retrier).policy(), &Policy::default());
}

/// What a blocking call has learnt at its time lies in the past of the next async one, and the other way round.
#[cfg(feature = "tokio")]
#[tokio::test]
async fn blocking_and_async_calls_are_on_one_clock() {
    use relent::Clock as _;
    let times = [(); 100].map(|()| [relent::blocking::SystemTimer.now(), relent::TokioTimer.now()]);
    assert!(times.as_flattened().is_sorted());
}
