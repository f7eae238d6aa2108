//! Whole calls that share budgets, breakers and limits: what each is told, in which order they are asked, and that
//! nothing is lost wherever a call ends.

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
    AdaptiveRate, Backoff, BackoffMemory, Breaker, BreakerPolicy, BreakerState, Budget, Bulkhead,
    BulkheadPolicy, Call, Class, Common, ConcurrentBudget, Decision, Held, Hint, Jitter, Latencies, Limiter,
    LimiterPolicy, MemoryPolicy, Moment, OnBudget, Outcome, Policy, Priority, Quota, Rate, Ratio, Reason,
    Rule, Schedule, Share, Shared, Source, Start, Throttle, ThrottlePolicy, Timestamp, TokenBucket,
    WindowBudget,
};

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_duration(millis(ms))
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn stop(reason: Reason) -> Decision {
    Decision::Stop { reason, after: None }
}

fn refused(reason: Reason) -> Start {
    Start::Stop { reason }
}

fn limited(ms: u64) -> Start {
    Start::Wait { after: millis(ms), source: Source::Limiter }
}

/// A retry every 100 ms.
fn policy() -> Policy {
    Policy::constant(millis(100)).jitter(Jitter::None).max_attempts(3).build().unwrap()
}

fn breaker(policy: BreakerPolicy, open: u64) -> Option<Breaker> {
    let open = Backoff::new(Schedule::Constant { initial: millis(open) }).jitter(Jitter::None);
    Some(Breaker::new(policy.open_for(open), 1).unwrap())
}

fn limiter(per_second: u32) -> LimiterPolicy {
    LimiterPolicy::new(Rate::new(per_second, Duration::from_secs(1)).unwrap()).burst(1)
}

/// One call and what it holds.
struct Caller {
    policy: Policy,
    call: Call,
    held: Held,
}

impl Caller {
    fn new(policy: Policy, now: Timestamp) -> Self {
        Self { policy, call: Call::new(Some(now)), held: Held::default() }
    }

    fn admit(&mut self, common: &mut Common, now: Timestamp) -> Start {
        let mut share = Share { parts: common, held: &mut self.held };
        self.call.admit(&self.policy, &mut share, Moment::at(now, 0))
    }

    fn decide(&mut self, common: &mut Common, class: Class, now: Timestamp) -> Decision {
        let mut share = Share { parts: common, held: &mut self.held };
        self.call.decide(&self.policy, &mut share, Outcome::of(class), Moment::at(now, 0))
    }

    fn end(&mut self, common: &mut Common, now: Timestamp) {
        Share { parts: common, held: &mut self.held }.end(now);
    }

    /// Plays a call whose attempts take no time; returns when each began, and why it ended.
    fn play(mut self, common: &mut Common, script: &[Class], mut now: Timestamp) -> (Vec<u64>, Reason) {
        let mut attempts = vec![];
        let mut script = script.iter();
        let reason = loop {
            match self.admit(common, now) {
                Start::Go => attempts.push(now.as_nanos() / 1_000_000),
                Start::Wait { after, .. } => {
                    now = now.plus(after);
                    continue;
                }
                Start::Stop { reason } => break reason,
            }
            match self.decide(common, *script.next().unwrap(), now) {
                Decision::Retry { after, .. } => now = now.plus(after),
                Decision::Stop { reason, .. } => break reason,
            }
        };
        self.end(common, now);
        (attempts, reason)
    }
}

use Class::{Success as S, Transient as F};

/// F30, in whole calls (AWS classic: cost 5, capacity 10).
#[test]
fn a_quota_over_whole_calls() {
    let mut common = Common { budgets: vec![Budget::new(Quota::new(10, 5)).unwrap()], ..Common::default() };
    let balance = |common: &mut Common| common.budgets[0].balance(ms(0)) / 1_000;
    let play =
        |common: &mut Common, script: &[Class]| Caller::new(policy(), ms(0)).play(common, script, ms(0)).1;
    assert_eq!(play(&mut common, &[F, F, F]), Reason::AttemptsExhausted);
    assert_eq!(balance(&mut common), 0);
    assert_eq!(play(&mut common, &[F]), Reason::BudgetExhausted);
    assert_eq!(balance(&mut common), 0);
    for _ in 0..5 {
        assert_eq!(play(&mut common, &[S]), Reason::Succeeded);
    }
    assert_eq!(balance(&mut common), 5);
    assert_eq!(play(&mut common, &[F, S]), Reason::Succeeded);
    assert_eq!(balance(&mut common), 5);
}

/// The AWS SDKs' operations that poll: only where the budget refuses does the error come back late.
#[test]
fn a_policy_may_wait_where_a_budget_refuses() {
    let builder = Policy::constant(millis(100)).jitter(Jitter::None).deadline(millis(60_000));
    let end = |on_budget, outcome: Outcome, now| {
        let policy = builder.clone().on_budget(on_budget).build().unwrap();
        let budgets = vec![Budget::new(Quota::new(1, 1)).unwrap()];
        let mut common = Common { budgets, ..Common::default() };
        let _ = Caller::new(policy.clone(), ms(0)).decide(&mut common, F, ms(0));
        let Caller { mut call, mut held, .. } = Caller::new(policy.clone(), ms(0));
        let mut share = Share { parts: &mut common, held: &mut held };
        call.decide(&policy, &mut share, outcome, Moment::at(ms(now), 0))
    };
    let failed = Outcome::of(F);
    let late = |ms| Decision::Stop { reason: Reason::BudgetExhausted, after: Some(millis(ms)) };
    assert_eq!(end(OnBudget::Wait, failed, 0), late(100));
    assert_eq!(end(OnBudget::Wait, failed.hint(Hint::Pushback(millis(5_000))), 0), late(5_000));
    // No other end is late, and this one never past the deadline.
    assert_eq!(end(OnBudget::Stop, failed, 0), stop(Reason::BudgetExhausted));
    assert_eq!(end(OnBudget::Wait, Outcome::of(Class::Permanent), 0), stop(Reason::NotRetryable));
    assert_eq!(end(OnBudget::Wait, failed, 59_900), stop(Reason::DeadlineWouldPass));
}

#[test]
fn several_budgets_give_together_or_not_at_all() {
    let hour = Rate::new(1, Duration::from_secs(3_600)).unwrap();
    let budgets = vec![
        Budget::new(TokenBucket::new(10).refill(hour)).unwrap(),
        Budget::new(WindowBudget::new(Ratio::ZERO).floor(1)).unwrap(),
        Budget::new(Quota::new(3, 1)).unwrap(),
        Budget::new(ConcurrentBudget::new(Ratio::ONE)).unwrap(),
    ];
    let mut common = Common { budgets, ..Common::default() };
    for call in 0..10u64 {
        let mut caller = Caller::new(policy(), ms(0));
        assert_eq!(caller.admit(&mut common, ms(0)), Start::Go);
        let decision = caller.decide(&mut common, F, ms(0));
        let expected = if call < 3 {
            Decision::Retry { after: millis(100), source: Source::Schedule }
        } else {
            assert_eq!(caller.held.refused_by(), Some(2));
            // They have it back at once, and not only when the call has ended.
            assert_eq!(common.budgets[0].balance(ms(0)), 7_000);
            stop(Reason::BudgetExhausted)
        };
        assert_eq!(decision, expected, "{call}");
        if call < 3 {
            assert_eq!(caller.admit(&mut common, ms(0)), Start::Go);
        }
        caller.end(&mut common, ms(0));
        let taken = (call + 1).min(3) * 1_000;
        for (budget, full) in [(0, 10_000), (1, 10_000), (2, 3_000)] {
            assert_eq!(common.budgets[budget].balance(ms(0)), full - taken);
        }
        assert_eq!(common.budgets[3].balance(ms(0)), 3_000);
    }
}

#[test]
fn a_retry_that_is_refused_at_the_door_gets_its_token_back() {
    let mut common = Common {
        budgets: vec![Budget::new(Quota::new(10, 1)).unwrap()],
        breaker: breaker(BreakerPolicy::consecutive(2), 1_000),
        ..Common::default()
    };
    let mut caller = Caller::new(policy(), ms(0));
    assert_eq!(caller.admit(&mut common, ms(0)), Start::Go);
    assert!(matches!(caller.decide(&mut common, F, ms(0)), Decision::Retry { .. }));
    assert_eq!(common.budgets[0].balance(ms(0)), 9_000);
    // During the wait somebody else opens the breaker.
    common.breaker.as_mut().unwrap().trip(ms(50));
    assert_eq!(caller.admit(&mut common, ms(100)), refused(Reason::CircuitOpen));
    caller.end(&mut common, ms(100));
    assert_eq!(common.budgets[0].balance(ms(100)), 10_000);
    assert_eq!(caller.call.attempts(), 1);
}

#[test]
fn who_would_come_back_to_an_open_breaker_stops_at_once() {
    for (open, expected) in [
        (101, stop(Reason::CircuitOpen)),
        (100, Decision::Retry { after: millis(100), source: Source::Schedule }),
    ] {
        let budgets = vec![Budget::new(Quota::new(10, 1)).unwrap()];
        let mut common =
            Common { budgets, breaker: breaker(BreakerPolicy::consecutive(1), open), ..Common::default() };
        let mut caller = Caller::new(policy(), ms(0));
        assert_eq!(caller.admit(&mut common, ms(0)), Start::Go);
        // The outcome is settled first: it is this very failure that opens it.
        assert_eq!(caller.decide(&mut common, F, ms(0)), expected);
        // And a retry that does not happen costs the others none.
        let left = if open > 100 { 10_000 } else { 9_000 };
        assert_eq!(common.budgets[0].balance(ms(0)), left);
    }
}

#[test]
fn an_open_breaker_ends_a_call_before_its_first_attempt() {
    let mut common = Common { breaker: breaker(BreakerPolicy::consecutive(1), 1_000), ..Common::default() };
    common.breaker.as_mut().unwrap().trip(ms(0));
    assert_eq!(Caller::new(policy(), ms(1)).play(&mut common, &[], ms(1)), (vec![], Reason::CircuitOpen));
    let (attempts, reason) = Caller::new(policy(), ms(1_000)).play(&mut common, &[S], ms(1_000));
    assert_eq!((attempts, reason), (vec![1_000], Reason::Succeeded));
}

#[test]
fn a_rate_limit_says_when_for_every_attempt() {
    let mut common = Common { limiter: Some(Limiter::new(limiter(4)).unwrap()), ..Common::default() };
    let (attempts, _) = Caller::new(policy(), ms(0)).play(&mut common, &[F, F, S], ms(0));
    assert_eq!(attempts, [0, 250, 500]);
    let (attempts, _) = Caller::new(policy(), ms(500)).play(&mut common, &[S], ms(500));
    assert_eq!(attempts, [750]);
    let policy = limiter(4).max_wait(millis(100));
    let mut common = Common { limiter: Some(Limiter::new(policy).unwrap()), ..Common::default() };
    let caller = Caller::new(self::policy(), ms(0));
    assert_eq!(caller.play(&mut common, &[F], ms(0)), (vec![0], Reason::RateLimited));
}

#[test]
fn a_turn_that_comes_after_the_deadline_is_given_back() {
    let mut common = Common { limiter: Some(Limiter::new(limiter(1)).unwrap()), ..Common::default() };
    let policy = policy().to_builder().deadline(millis(500)).build().unwrap();
    assert_eq!(Caller::new(policy.clone(), ms(0)).play(&mut common, &[S], ms(0)).0, [0]);
    for _ in 0..10 {
        let caller = Caller::new(policy.clone(), ms(0));
        assert_eq!(caller.play(&mut common, &[], ms(0)), (vec![], Reason::DeadlineWouldPass));
    }
    let (attempts, _) = Caller::new(self::policy(), ms(0)).play(&mut common, &[S], ms(0));
    assert_eq!(attempts, [1_000]);
}

#[test]
fn a_probe_that_waits_for_its_turn_keeps_nobody_out() {
    let mut common = Common {
        breaker: breaker(BreakerPolicy::consecutive(1), 10),
        limiter: Some(Limiter::new(limiter(10)).unwrap()),
        ..Common::default()
    };
    let once = policy().to_builder().max_attempts(1).build().unwrap();
    assert_eq!(Caller::new(once, ms(0)).play(&mut common, &[F], ms(0)).0, [0]);
    let mut first = Caller::new(policy(), ms(20));
    assert_eq!(first.admit(&mut common, ms(20)), limited(80));
    assert_eq!(common.breaker.as_mut().unwrap().state(ms(20)), BreakerState::HalfOpen);
    // The place is free: were it kept, nobody else would be told to wait but all would be refused.
    let mut second = Caller::new(policy(), ms(20));
    assert_eq!(second.admit(&mut common, ms(20)), limited(180));
    assert_eq!(first.admit(&mut common, ms(100)), Start::Go);
    assert_eq!(second.admit(&mut common, ms(200)), refused(Reason::CircuitOpen));
    assert_eq!(first.decide(&mut common, S, ms(210)), stop(Reason::Succeeded));
    assert_eq!(second.admit(&mut common, ms(220)), Start::Go);
}

#[test]
fn a_bulkhead_refuses_or_lets_wait() {
    let policy = BulkheadPolicy::new(1).queue(1).max_wait(millis(50));
    let mut common = Common { bulkhead: Some(Bulkhead::new(policy).unwrap()), ..Common::default() };
    let mut callers: Vec<_> = (0..3).map(|_| Caller::new(self::policy(), ms(0))).collect();
    let started: Vec<_> = callers.iter_mut().map(|caller| caller.admit(&mut common, ms(0))).collect();
    let queued = Start::Wait { after: millis(50), source: Source::Bulkhead };
    assert_eq!(started, [Start::Go, queued, refused(Reason::BulkheadFull)]);
    let mut callers = callers.into_iter();
    let (mut first, mut second) = (callers.next().unwrap(), callers.next().unwrap());
    // Between two attempts the place is free, and the retry queues again.
    assert!(matches!(first.decide(&mut common, F, ms(10)), Decision::Retry { .. }));
    assert_eq!(second.admit(&mut common, ms(10)), Start::Go);
    assert_eq!(first.admit(&mut common, ms(110)), queued);
    assert_eq!(first.admit(&mut common, ms(160)), refused(Reason::BulkheadFull));
    second.end(&mut common, ms(170));
    assert_eq!(common.bulkhead.as_mut().unwrap().running(), 0);
}

#[test]
fn a_throttle_and_an_adaptive_rate_hold_calls_back() {
    let mut common =
        Common { throttle: Some(Throttle::new(ThrottlePolicy::sre(2.0)).unwrap()), ..Common::default() };
    let once = policy().to_builder().max_attempts(1).build().unwrap();
    let first = Caller::new(once.clone(), ms(0)).play(&mut common, &[F], ms(0));
    assert_eq!(first.1, Reason::AttemptsExhausted);
    // The random number is the lowest there is, so that it rejects as soon as it may.
    assert_eq!(Caller::new(once.clone(), ms(0)).play(&mut common, &[], ms(0)).1, Reason::RateLimited);

    let mut common = Common { adaptive: Some(AdaptiveRate::new(ms(0))), ..Common::default() };
    let play = |common: &mut Common, script: &[Class], at| {
        Caller::new(once.clone(), ms(at)).play(common, script, ms(at)).0
    };
    assert_eq!(play(&mut common, &[Class::Throttled], 0), [0]);
    // Half a token per second from now on (`aws_adaptive`, vectors a1 and a3).
    assert_eq!(play(&mut common, &[F], 100), [2_000]);
}

#[test]
fn an_attempt_that_is_dropped_was_neither_rejected_nor_a_probe() {
    let mut common = Common {
        breaker: breaker(BreakerPolicy::consecutive(1), 100),
        throttle: Some(Throttle::new(ThrottlePolicy::sre(2.0)).unwrap()),
        ..Common::default()
    };
    common.breaker.as_mut().unwrap().trip(ms(0));
    for _ in 0..100 {
        let mut caller = Caller::new(policy(), ms(100));
        assert_eq!(caller.admit(&mut common, ms(100)), Start::Go);
        assert_eq!(Caller::new(policy(), ms(100)).admit(&mut common, ms(100)), refused(Reason::CircuitOpen));
        caller.end(&mut common, ms(100));
    }
    assert_eq!(common.throttle.as_mut().unwrap().rejection(ms(100)), 0.0);
}

#[test]
fn a_hedge_costs_what_a_retry_costs_and_brings_nothing() {
    let budget = Budget::new(WindowBudget::new(Ratio::percent(10)).floor(0)).unwrap();
    let bulkhead = Some(Bulkhead::new(BulkheadPolicy::new(20)).unwrap());
    let mut common = Common { budgets: vec![budget], bulkhead, ..Common::default() };
    let mut callers: Vec<_> = (0..20).map(|_| Caller::new(policy(), ms(0))).collect();
    for caller in &mut callers[..10] {
        assert_eq!(caller.admit(&mut common, ms(0)), Start::Go);
    }
    // Ten calls under way, of which one in ten may be hedged.
    let mut hedges: Vec<_> = (0..10).map(|_| Held::of_hedge(Priority::Normal)).collect();
    let mut started = 0;
    for held in &mut hedges {
        let mut share = Share { parts: &mut common, held };
        if share.hedge(&Outcome::of(F), Moment::at(ms(0), 0)).is_ok() {
            started += 1;
        }
    }
    assert_eq!(started, 1);
    assert_eq!(common.bulkhead.as_ref().unwrap().running(), 11);
    for held in &mut hedges {
        Share { parts: &mut common, held }.end(ms(0));
    }
    assert_eq!(common.bulkhead.as_ref().unwrap().running(), 10);
    assert_eq!(common.budgets[0].balance(ms(0)), 0);
}

/// A call with a primary and a hedge that run: what the call holds, and what each of them does.
fn raced(common: &mut Common) -> (Held, Held, Held) {
    let mut call = Held::default();
    assert_eq!(Share { parts: common, held: &mut call }.admit(Moment::at(ms(0), 0)), Start::Go);
    let primary = call.take_attempt();
    let mut hedge = Held::of_hedge(Priority::Normal);
    let mut share = Share { parts: common, held: &mut hedge };
    assert_eq!(share.hedge(&Outcome::of(F), Moment::at(ms(10), 0)), Ok(()));
    (call, primary, hedge)
}

fn races() -> Common {
    let budgets = vec![
        Budget::new(ConcurrentBudget::new(Ratio::percent(20)).floor(1)).unwrap(),
        Budget::new(Quota::new(10, 4)).unwrap(),
    ];
    let latencies = Some(Latencies::new(millis(10_000)));
    Common {
        budgets,
        latencies,
        limiter: None,
        throttle: None,
        breaker: breaker(BreakerPolicy::count(10), 300),
        ..everything()
    }
}

#[test]
fn a_loser_is_neither_a_success_nor_a_failure() {
    let mut common = races();
    let (mut call, mut primary, mut hedge) = raced(&mut common);
    assert_eq!(common.bulkhead.as_ref().unwrap().running(), 2);
    assert_eq!(common.budgets[0].balance(ms(10)), 0);
    assert_eq!(common.budgets[1].balance(ms(10)), 6_000);
    Share { parts: &mut common, held: &mut hedge }.settle(&Outcome::of(Class::Success), Some(ms(15)));
    // The hedge's place and its turn in the budgets are free, the primary's not yet.
    assert_eq!(common.bulkhead.as_ref().unwrap().running(), 1);
    assert_eq!(common.budgets[0].balance(ms(15)), 1_000);
    assert_eq!(common.budgets[1].balance(ms(15)), 10_000);
    Share { parts: &mut common, held: &mut primary }.end(ms(17));
    Share { parts: &mut common, held: &mut call }.end(ms(17));
    let seen = common.breaker.as_ref().unwrap().statistics();
    assert_eq!((seen.successes, seen.failures, seen.ignored), (1, 0, 1));
    assert_eq!(common.bulkhead.as_ref().unwrap().running(), 0);
    // What it showed is that an answer takes at least 17 ms: of two, one took 5.
    let latencies = common.latencies.as_mut().unwrap();
    assert_eq!(latencies.samples(ms(17)), 1);
    assert!(latencies.quantile(Ratio::percent(50), ms(17)).unwrap() < millis(6));
    assert!(latencies.quantile(Ratio::percent(60), ms(17)).unwrap() >= millis(17));
}

#[test]
fn a_retry_goes_on_from_the_attempt_that_failed_last() {
    let mut common = races();
    let (mut held, mut primary, mut hedge) = raced(&mut common);
    let failed = Outcome::of(F);
    Share { parts: &mut common, held: &mut primary }.settle(&failed, Some(ms(15)));
    let mut call = Call::new(Some(ms(0)));
    let mut share = Share { parts: &mut common, held: &mut hedge };
    let decision = call.decide(&policy(), &mut share, failed, Moment::at(ms(20), 0));
    assert!(matches!(decision, Decision::Retry { .. }), "{decision:?}");
    held.go_on(hedge);
    // The retry waits: it is under way, and has been paid for.
    assert_eq!((common.budgets[0].balance(ms(20)), common.budgets[1].balance(ms(20))), (0, 2_000));
    let mut share = Share { parts: &mut common, held: &mut held };
    assert_eq!(share.admit(Moment::at(ms(120), 0)), Start::Go);
    share.settle(&Outcome::of(Class::Success), Some(ms(130)));
    share.end(ms(130));
    assert_eq!((common.budgets[0].balance(ms(130)), common.budgets[1].balance(ms(130))), (1_000, 6_000));
    let seen = common.breaker.as_ref().unwrap().statistics();
    assert_eq!((seen.successes, seen.failures, seen.ignored), (1, 2, 0));
    assert_eq!(common.bulkhead.as_ref().unwrap().running(), 0);
}

#[test]
fn a_hedge_that_is_refused_holds_nothing() {
    for refuse in 0..4 {
        let budgets = vec![Budget::new(Quota::new(100, 4)).unwrap()];
        let mut common = Common { budgets, limiter: None, throttle: None, ..everything() };
        let mut call = Held::default();
        assert_eq!(Share { parts: &mut common, held: &mut call }.admit(Moment::at(ms(0), 0)), Start::Go);
        let primary = call.take_attempt();
        match refuse {
            0 => common.breaker.as_mut().unwrap().trip(ms(0)),
            1 => drop(common.budgets.splice(.., [Budget::new(Quota::new(4, 4)).unwrap()])),
            2 => common.limiter = Some(Limiter::new(limiter(1)).unwrap()),
            _ => common.bulkhead = Some(Bulkhead::new(BulkheadPolicy::new(1).queue(1)).unwrap()),
        }
        let reason =
            [Reason::CircuitOpen, Reason::BudgetExhausted, Reason::RateLimited, Reason::BulkheadFull];
        let mut first = Held::of_hedge(Priority::Normal);
        if refuse > 0 {
            // Takes what there is.
            let mut share = Share { parts: &mut common, held: &mut first };
            assert_eq!(share.hedge(&Outcome::of(F), Moment::at(ms(0), 0)), Ok(()), "{refuse}");
        }
        let balance = common.budgets[0].balance(ms(0));
        let mut hedge = Held::of_hedge(Priority::Normal);
        let mut share = Share { parts: &mut common, held: &mut hedge };
        let refused = share.hedge(&Outcome::of(F), Moment::at(ms(0), 0));
        assert_eq!(refused, Err(reason[refuse]), "{refuse}");
        assert!(!hedge.is_pending());
        assert_eq!(common.budgets[0].balance(ms(0)), balance, "{refuse}");
        assert_eq!(common.bulkhead.as_mut().unwrap().waiting(ms(0)), 0);
        for mut held in [first, primary, call] {
            Share { parts: &mut common, held: &mut held }.end(ms(1_000));
        }
        if refuse == 2 {
            // Its turn went back too.
            assert_eq!(common.limiter.as_mut().unwrap().reserve(1, ms(1_000)).at(), ms(1_000));
        }
    }
}

#[test]
fn high_priority_takes_what_is_reserved() {
    let budget = Budget::new(Quota::new(10, 1)).unwrap().reserve(Ratio::percent(20)).unwrap();
    let mut common = Common { budgets: vec![budget], ..Common::default() };
    let mut retries = |priority| {
        let mut caller = Caller { held: Held::new(priority), ..Caller::new(policy(), ms(0)) };
        assert_eq!(caller.admit(&mut common, ms(0)), Start::Go);
        let retried = matches!(caller.decide(&mut common, F, ms(0)), Decision::Retry { .. });
        if retried {
            assert_eq!(caller.admit(&mut common, ms(0)), Start::Go);
        }
        caller.end(&mut common, ms(0));
        retried
    };
    assert_eq!((0..20).filter(|_| retries(Priority::Normal)).count(), 8);
    assert_eq!((0..20).filter(|_| retries(Priority::High)).count(), 2);
}

/// All there is, of a size that a few calls meet.
fn everything() -> Common {
    Common {
        breaker: breaker(BreakerPolicy::count(4).max_probes(2).max_probe_duration(millis(500)), 300),
        budgets: vec![
            Budget::new(ConcurrentBudget::new(Ratio::percent(50)).floor(1)).unwrap(),
            Budget::new(WindowBudget::new(Ratio::percent(50)).floor(2).ttl(millis(1_000))).unwrap(),
        ],
        throttle: Some(Throttle::new(ThrottlePolicy::sre(4.0).window(millis(1_000))).unwrap()),
        limiter: Some(Limiter::new(limiter(50).max_wait(millis(100))).unwrap()),
        adaptive: Some(AdaptiveRate::new(ms(0))),
        bulkhead: Some(Bulkhead::new(BulkheadPolicy::new(3).queue(2).max_wait(millis(30))).unwrap()),
        latencies: Some(Latencies::new(millis(1_000))),
        memory: Some(BackoffMemory::new(MemoryPolicy::new(millis(500))).unwrap()),
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Asks to be admitted, or ends the attempt that runs.
    GoOn(Class),
    Drop,
}

proptest! {
    #![proptest_config(strategies::config(300))]

    /// Six callers, each doing whatever a caller may do next, dropped at any point.
    #[test]
    fn wherever_calls_end_all_is_given_back(steps in prop::collection::vec(
        (0..6usize, 0..40u64, prop_oneof![
            6 => strategies::class().prop_map(Step::GoOn),
            1 => Just(Step::Drop),
        ], any::<u64>()),
        0..300,
    )) {
        let mut common = everything();
        let fresh = |now| (Caller::new(policy(), now), false);
        let mut callers: Vec<_> = (0..6).map(|_| fresh(ms(0))).collect();
        let mut now = ms(0);
        for (which, pause, step, entropy) in steps {
            now = now.plus(millis(pause));
            let (caller, running) = &mut callers[which];
            let moment = Moment::at(now, entropy);
            let mut share = Share { parts: &mut common, held: &mut caller.held };
            let ended = match step {
                Step::Drop => true,
                Step::GoOn(class) if *running => {
                    *running = false;
                    let outcome = Outcome::of(class);
                    matches!(
                        caller.call.decide(&caller.policy, &mut share, outcome, moment),
                        Decision::Stop { .. }
                    )
                }
                Step::GoOn(_) => match caller.call.admit(&caller.policy, &mut share, moment) {
                    Start::Go => { *running = true; false }
                    Start::Wait { .. } => false,
                    Start::Stop { .. } => true,
                },
            };
            if ended {
                caller.end(&mut common, now);
                callers[which] = fresh(now);
            }
            let running = callers.iter().filter(|(_, running)| *running).count();
            prop_assert_eq!(common.bulkhead.as_ref().unwrap().running() as usize, running);
        }
        for (mut caller, _) in callers {
            caller.end(&mut common, now);
        }
        prop_assert_eq!(common.bulkhead.as_ref().unwrap().running(), 0);
        prop_assert_eq!(common.bulkhead.as_mut().unwrap().waiting(now), 0);
        prop_assert_eq!(common.budgets[0].balance(now), 1_000);
        // No probe is lost: as soon as it may, the breaker lets exactly its probes pass.
        let breaker = common.breaker.as_mut().unwrap();
        breaker.trip(now);
        let ready = breaker.ready_at(now).unwrap();
        prop_assert_eq!((0..10).filter(|_| breaker.admit(ready).is_ok()).count(), 2);
    }

    /// Whatever the calls do, retries stay within the budget.
    #[test]
    fn retries_never_exceed_their_share(
        scripts in prop::collection::vec(prop::collection::vec(strategies::failure(), 3), 1..200),
        share in 1..100u32,
    ) {
        let budget = Budget::new(WindowBudget::new(Ratio::percent(share)).floor(0)).unwrap();
        let mut common = Common { budgets: vec![budget], ..Common::default() };
        let calls = scripts.len();
        let attempts: usize =
            scripts.iter().map(|script| Caller::new(policy(), ms(0)).play(&mut common, script, ms(0)).0.len()).sum();
        prop_assert!((attempts - calls) * 100 <= calls * share as usize);
        // And all of it is used, since every call would take it.
        prop_assert!((attempts - calls + 1) * 100 > (calls - 1) * share as usize);
    }
}

#[test]
fn a_call_of_high_priority_has_its_own_backoff_where_no_rule_gives_another() {
    let waits =
        |secs| Backoff::new(Schedule::Constant { initial: Duration::from_secs(secs) }).jitter(Jitter::None);
    let policy = Policy::default().to_builder().backoff(waits(8)).high_backoff(waits(1));
    let policy = policy.rule(Rule::on(Class::Throttled).backoff(waits(3))).build().unwrap();
    let wait = |priority, class| {
        let (mut common, mut held) = (Common::default(), Held::new(priority));
        let mut share = Share { parts: &mut common, held: &mut held };
        let moment = Moment::timeless(7);
        let mut call = Call::new(None);
        assert_eq!(call.admit(&policy, &mut share, moment), Start::Go);
        match call.decide(&policy, &mut share, Outcome::of(class), moment) {
            Decision::Retry { after, .. } => after.as_secs(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wait(Priority::Normal, Class::Transient), 8);
    assert_eq!(wait(Priority::High, Class::Transient), 1);
    assert_eq!(wait(Priority::High, Class::Throttled), 3);
    let late = Policy::default()
        .to_builder()
        .high_backoff(waits(1).cap(Duration::ZERO).floor(Duration::from_secs(1)));
    assert_eq!(late.build().unwrap_err().key(), "backoff.floor");
}
