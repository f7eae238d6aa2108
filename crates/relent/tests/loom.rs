//! Every interleaving of a few threads on the real types. Run it with
//! `RUSTFLAGS="--cfg loom" cargo test -p relent --no-default-features --test loom --release`.

#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loom::thread;
use relent::blocking::SystemTimer;
use relent::{
    Backoff, Breaker, BreakerPolicy, BreakerState, Budget, BulkheadPolicy, Cache, Class, Jitter, Limiter,
    LimiterPolicy, Locked, Policy, Quota, Rate, Ratio, Reason, Retrier, RetrierBuilder, Schedule, Target,
    Timestamp, TokenBucket, WindowBudget,
};
use relent_core::{Moment, Outcome, Shared, Start};

/// A clock that stands still.
#[derive(Clone)]
struct At(Timestamp);

impl relent::Clock for At {
    fn now(&self) -> Timestamp {
        self.0
    }
}

fn secs(secs: u64) -> Timestamp {
    Timestamp::from_duration(Duration::from_secs(secs))
}

fn retrier() -> RetrierBuilder {
    // Seeded: nothing here is drawn from a thread's own dice.
    Retrier::new(Policy::constant(Duration::ZERO).seed(1).build().unwrap())
}

fn breaker(probes: u32) -> BreakerPolicy {
    let open = Backoff::new(Schedule::Constant { initial: Duration::from_secs(1) }).jitter(Jitter::None);
    BreakerPolicy::consecutive(1).open_for(open).max_probes(probes)
}

/// Where threads lock so often that all interleavings are millions: those in which no more than three times a thread is
/// stopped where it could have gone on. That finds nearly all there is to be found (Musuvathi, Qadeer, PLDI 2007).
fn model_with_few_preemptions(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

/// Runs `work` on three threads, the test's own included, and adds up what they return.
fn on_three_threads(work: impl Fn(u64) -> u64 + Clone + Send + 'static) -> u64 {
    let others: Vec<_> = (1..3)
        .map(|number| {
            let work = work.clone();
            thread::spawn(move || work(number))
        })
        .collect();
    work(0) + others.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
}

#[test]
fn exactly_the_permitted_probes_pass() {
    for probes in [1, 2] {
        loom::model(move || {
            let target = retrier().breaker(breaker(probes)).build().unwrap().at("host");
            target.breaker().unwrap().with(|breaker| breaker.trip(secs(0)));
            let kept = target.clone();
            let passed = on_three_threads(move |_| {
                // The probe stays: the member lives until all threads are done.
                let mut member = kept.join(At(secs(1)));
                let passed = member.admit(Moment::at(secs(1), 0)) == Start::Go;
                std::mem::forget(member);
                u64::from(passed)
            });
            assert_eq!(passed, u64::from(probes));
        });
    }
}

#[test]
fn a_failed_probe_is_never_lost() {
    // Two probes, of which one fails and one succeeds, in whatever order: where both must succeed it opens again.
    loom::model(|| {
        let target = retrier().breaker(breaker(2)).build().unwrap().at("host");
        target.breaker().unwrap().with(|breaker| breaker.trip(secs(0)));
        let probing = target.clone();
        let probe = move |class| {
            let mut member = probing.join(At(secs(1)));
            let passed = member.admit(Moment::at(secs(1), 0)) == Start::Go;
            if passed {
                member.settle(&Outcome::of(class), Some(secs(1)));
            }
            passed
        };
        let other = {
            let probe = probe.clone();
            thread::spawn(move || probe(Class::Success))
        };
        let failed = probe(Class::Transient);
        other.join().unwrap();
        let state = target.breaker().unwrap().with(|breaker| breaker.state(secs(1)));
        // Whoever failed was admitted: nothing can have opened it before.
        assert!(failed);
        assert_eq!(state, BreakerState::Open);
    });
}

#[test]
fn a_dropped_probe_makes_room() {
    loom::model(|| {
        let target = retrier().breaker(breaker(1)).build().unwrap().at("host");
        target.breaker().unwrap().with(|breaker| breaker.trip(secs(0)));
        let dropping = target.clone();
        on_three_threads(move |_| {
            let mut member = dropping.join(At(secs(1)));
            u64::from(member.admit(Moment::at(secs(1), 0)) == Start::Go)
        });
        assert_eq!(target.join(At(secs(1))).admit(Moment::at(secs(1), 0)), Start::Go);
    });
}

/// A member whose first attempt has failed and who asks for a retry; whether it was granted.
fn asks_for_a_retry(target: &Target, starts: bool) -> u64 {
    let mut member = target.join(At(secs(0)));
    let failed = Outcome::of(Class::Transient);
    assert_eq!(member.admit(Moment::at(secs(0), 0)), Start::Go);
    member.settle(&failed, Some(secs(0)));
    let granted = member.withdraw(&failed, Some(secs(0))).is_ok();
    if granted && starts {
        assert_eq!(member.admit(Moment::at(secs(0), 0)), Start::Go);
    }
    u64::from(granted)
}

/// F32 [tower-resilience#370]: updates got lost, and with them the limit.
#[test]
fn a_budget_gives_no_more_than_it_holds() {
    model_with_few_preemptions(|| {
        let rate = Rate::new(1, Duration::from_secs(3_600)).unwrap();
        let target = retrier().budget(TokenBucket::new(2).refill(rate)).build().unwrap().at("host");
        let asking = target.clone();
        assert_eq!(on_three_threads(move |_| asks_for_a_retry(&asking, true)), 2);
        assert_eq!(target.budgets()[0].with(|budget| budget.balance(secs(0))), 0);
    });
}

#[test]
fn several_budgets_mint_nothing() {
    model_with_few_preemptions(|| {
        // The second one refuses all but one: whoever it refuses gets back what the first one gave.
        let shared = Locked::new(Budget::new(Quota::new(1, 1).first_success(0)).unwrap());
        let retrier = retrier().budget(WindowBudget::new(Ratio::ZERO).floor(1)).budget_of(&shared).build();
        let target = retrier.unwrap().at("host");
        let asking = target.clone();
        // The first thread's retry never starts: all of it comes back.
        let granted = on_three_threads(move |number| asks_for_a_retry(&asking, number != 0));
        assert!((1..=2).contains(&granted));
        let [window, quota] = target.budgets() else { panic!("two") };
        let (window, quota) = (window.with(|it| it.balance(secs(0))), quota.with(|it| it.balance(secs(0))));
        assert_eq!(10_000 - window, 1_000 - quota);
        assert!(quota == 0 || quota == 1_000);
    });
}

#[test]
fn a_bulkhead_loses_no_place() {
    loom::model(|| {
        let target = retrier().bulkhead(BulkheadPolicy::new(1)).build().unwrap().at("host");
        let (entering, inside) = (target.clone(), Arc::new(AtomicU64::new(0)));
        on_three_threads(move |_| {
            let mut member = entering.join(At(secs(0)));
            let admitted = member.admit(Moment::at(secs(0), 0)) == Start::Go;
            if admitted {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            }
            0
        });
        assert_eq!(target.bulkhead().unwrap().with(|bulkhead| bulkhead.running()), 0);
    });
}

/// Whoever waits is told, wherever it was when the place became free; and who goes away without asking passes it on.
#[test]
fn no_wake_up_is_lost_in_a_queue() {
    for leaves in [false, true] {
        model_with_few_preemptions(move || {
            let target = retrier().bulkhead(BulkheadPolicy::new(1).queue(2)).build().unwrap().at("host");
            let at = Moment::at(secs(0), 0);
            let mut holds = target.join(At(secs(0)));
            assert_eq!(holds.admit(at), Start::Go);
            let asking = target.clone();
            let waits = thread::spawn(move || {
                let mut member = asking.join(At(secs(0)));
                let start = member.admit(at);
                (member, start)
            });
            let other = leaves.then(|| {
                let asking = target.clone();
                thread::spawn(move || drop(asking.join(At(secs(0))).admit(at)))
            });
            drop(holds);
            let (mut member, start) = waits.join().unwrap();
            if let Some(other) = other {
                other.join().unwrap();
            }
            if start != Start::Go {
                assert!(member.turn().unwrap().is_cancelled());
                assert_eq!(member.admit(at), Start::Go);
            }
            drop(member);
            let free = target.bulkhead().unwrap().with(|it| (it.running(), it.has_queue()));
            assert_eq!(free, (0, false));
        });
    }
}

#[test]
fn turns_are_given_once() {
    loom::model(|| {
        let rate = Rate::new(1, Duration::from_secs(1)).unwrap();
        let limiter = Locked::new(Limiter::new(LimiterPolicy::new(rate).burst(1)).unwrap());
        let reserving = limiter.clone();
        let waits = on_three_threads(move |number| {
            let at = match number {
                0 => reserving.with(|limiter| limiter.reserve(1, secs(0)).at()),
                _ => reserving.reserve(1, secs(0)).at(),
            };
            1 << (8 * (at.as_nanos() / 1_000_000_000))
        });
        // One at 0, one at 1 and one at 2 s.
        assert_eq!(waits, 0x01_01_01);
    });
}

/// Turns that are taken without the lock, beside one that is given back under it.
#[test]
fn a_turn_that_is_given_back_is_there_once() {
    model_with_few_preemptions(|| {
        let rate = Rate::new(1, Duration::from_secs(1)).unwrap();
        let limiter = Locked::new(Limiter::new(LimiterPolicy::new(rate).burst(2)).unwrap());
        let taking = limiter.clone();
        let taken = on_three_threads(move |number| {
            if number > 0 {
                return u64::from(taking.try_acquire(1, secs(0)));
            }
            let turn = taking.reserve(1, secs(0));
            taking.with(|limiter| limiter.cancel(turn));
            0
        });
        // One that could not come back is lost; none is minted.
        let left = (0..3).filter(|_| limiter.try_acquire(1, secs(0))).count() as u64;
        assert!((1..=2).contains(&(taken + left)), "{taken} and {left}");
    });
}

#[test]
fn one_target_has_one_state() {
    loom::model(|| {
        let retrier = retrier().breaker(breaker(1)).build().unwrap();
        let asking = retrier.clone();
        let other = thread::spawn(move || asking.at("host"));
        let (here, there) = (retrier.at("host"), other.join().unwrap());
        here.breaker().unwrap().with(|breaker: &mut Breaker| breaker.trip(secs(0)));
        assert_eq!(there.breaker().unwrap().with(|breaker| breaker.state(secs(0))), BreakerState::Open);
        assert_eq!(retrier.targets(), 1);
    });
}

/// Two threads ask for one key; the first to come may fail. Each gets an answer, an attempt that succeeded is the only one,
/// and whoever comes later finds what is kept.
#[test]
fn those_who_ask_a_cache_at_once_share_an_attempt() {
    loom::model(|| {
        let cache: Cache<u8, u64, (), At> = Cache::new(Duration::from_secs(1)).clock(At(secs(0)));
        let attempts = Arc::new(AtomicU64::new(0));
        let ask = |cache: &Cache<u8, u64, (), At>, attempts: &AtomicU64| {
            cache.get_blocking(1, || Ok(attempts.fetch_add(1, Ordering::Relaxed))).unwrap()
        };
        let other = {
            let (cache, attempts) = (cache.clone(), Arc::clone(&attempts));
            thread::spawn(move || ask(&cache, &attempts))
        };
        assert_eq!(ask(&cache, &attempts), 0);
        assert_eq!(other.join().unwrap(), 0);
        assert_eq!(ask(&cache, &attempts), 0);
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
    });
}

/// An error is shared by those who waited for it, and the next who asks tries anew: nobody waits for what has ended.
#[test]
fn nobody_waits_for_an_attempt_that_has_failed() {
    loom::model(|| {
        let cache: Cache<u8, u64, u64, At> = Cache::new(Duration::from_secs(1)).clock(At(secs(0)));
        let attempts = Arc::new(AtomicU64::new(0));
        let ask = |cache: &Cache<u8, u64, u64, At>, attempts: &AtomicU64| {
            *cache.get_blocking(1, || Err(attempts.fetch_add(1, Ordering::Relaxed))).unwrap_err()
        };
        let other = {
            let (cache, attempts) = (cache.clone(), Arc::clone(&attempts));
            thread::spawn(move || ask(&cache, &attempts))
        };
        let errors = [ask(&cache, &attempts), other.join().unwrap()];
        let made = attempts.load(Ordering::Relaxed);
        assert!(errors == [0, 0] && made == 1 || errors[0] != errors[1] && made == 2, "{errors:?}");
    });
}

/// A call on the short way, which asks nothing of a target in health.
fn calls(target: &Target, result: Result<(), io::ErrorKind>) -> Result<(), Reason> {
    target.retry_blocking(|| result.map_err(io::Error::from)).map_err(|error| error.reason())
}

const REFUSED: Result<(), io::ErrorKind> = Err(io::ErrorKind::ConnectionRefused);

fn retrier_of_one_attempt() -> RetrierBuilder {
    let policy = Policy::constant(Duration::ZERO).seed(1).max_attempts(1);
    Retrier::new(policy.build().unwrap())
}

#[test]
fn a_failure_in_health_is_never_lost() {
    loom::model(|| {
        let target = retrier_of_one_attempt().breaker(breaker(1)).build().unwrap().at("host");
        let succeeding = target.clone();
        // Admitted before the failure was known, or refused after it.
        let other = thread::spawn(move || calls(&succeeding, Ok(())));
        assert_eq!(calls(&target, REFUSED), Err(Reason::AttemptsExhausted));
        assert!(matches!(other.join().unwrap(), Ok(()) | Err(Reason::CircuitOpen)));
        let statistics = target.breaker().unwrap().with(|breaker| breaker.statistics());
        assert_eq!((statistics.failures, statistics.opened), (1, 1));
        assert_eq!(calls(&target, Ok(())), Err(Reason::CircuitOpen));
    });
}

#[test]
fn a_success_beside_a_failure_is_counted_once() {
    // Of the last four calls two have to fail. One has; the successes are counted without the lock, or under it.
    model_with_few_preemptions(|| {
        let policy = BreakerPolicy::count(4).min_calls(1).failure_ratio(Ratio::percent(100));
        let target = retrier_of_one_attempt().breaker(policy).build().unwrap().at("host");
        let breaker = target.breaker().unwrap().clone();
        assert_eq!(calls(&target, Ok(())), Ok(()));
        assert_eq!(calls(&target, Err(io::ErrorKind::ConnectionReset)), Err(Reason::AttemptsExhausted));
        let calling = target.clone();
        on_three_threads(move |number| {
            let fails = number == 2;
            let result = if fails { Err(io::ErrorKind::ConnectionReset) } else { Ok(()) };
            u64::from(calls(&calling, result).is_ok())
        });
        let statistics = breaker.with(|breaker| breaker.statistics());
        assert_eq!((statistics.successes, statistics.failures), (3, 2));
        // The first call has left the window.
        assert_eq!(breaker.with(|breaker| breaker.failure_ratio(secs(0))), Some(0.5));
    });
}

#[test]
fn a_result_from_health_is_late_once_the_state_has_changed() {
    loom::model(|| {
        let target = retrier_of_one_attempt().breaker(breaker(1)).build().unwrap().at("host");
        let failing = target.clone();
        let other = thread::spawn(move || calls(&failing, REFUSED));
        target.breaker().unwrap().with(|breaker| breaker.trip(relent::Clock::now(&SystemTimer)));
        assert!(other.join().unwrap().is_err());
        // It opened the breaker, or came late, or was refused; and never twice.
        let statistics = target.breaker().unwrap().with(|breaker| breaker.statistics());
        assert_eq!(statistics.opened - 1 + statistics.late + statistics.refused, 1);
    });
}

#[test]
fn exactly_the_permitted_probes_pass_on_the_short_way_too() {
    for probes in [1, 2] {
        loom::model(move || {
            let target = retrier_of_one_attempt().breaker(breaker(probes)).build().unwrap().at("host");
            target.breaker().unwrap().with(|breaker| breaker.trip(secs(0)));
            let (probing, made) = (target.clone(), Arc::new(AtomicU64::new(0)));
            let counted = Arc::clone(&made);
            on_three_threads(move |_| {
                let _ = probing.retry_blocking(|| -> io::Result<()> {
                    counted.fetch_add(1, Ordering::SeqCst);
                    Err(io::ErrorKind::ConnectionRefused.into())
                });
                0
            });
            // The first failure opens it again; before that no more than the probes have passed.
            let made = made.load(Ordering::SeqCst);
            assert!((1..=u64::from(probes)).contains(&made), "{made}");
            let state = target.breaker().unwrap().with(|breaker| breaker.state(secs(0)));
            assert_eq!(state, BreakerState::Open);
        });
    }
}

#[test]
fn a_success_in_health_mints_no_token() {
    loom::model(|| {
        let bucket = TokenBucket::new(2).per_success(1_000);
        let target = retrier_of_one_attempt().budget(bucket).build().unwrap().at("host");
        let (succeeding, asking) = (target.clone(), target.clone());
        let other = thread::spawn(move || calls(&succeeding, Ok(())));
        assert_eq!(asks_for_a_retry(&asking, true), 1);
        assert_eq!(other.join().unwrap(), Ok(()));
        // Before the retry the success found it full, after it it brought its token.
        let balance = target.budgets()[0].with(|budget| budget.balance(secs(0)));
        assert!(balance == 1_000 || balance == 2_000, "{balance}");
        assert_eq!(calls(&target, Ok(())), Ok(()));
        assert_eq!(target.budgets()[0].with(|budget| budget.balance(secs(0))), 2_000);
    });
}
