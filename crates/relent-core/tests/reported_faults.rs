//! Faults that users of other systems reported, each as a test of its whole kind. The names in brackets are the
//! reports.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{
    Alone, Backoff, Bound, Call, Class, Decision, Dice, Hint, HintMode, HintPolicy, Jitter, Memory, Moment,
    Multiplier, OnDeadline, Outcome, OverMax, Policy, PolicyBuilder, Reason, Rule, Schedule, Shared, Source,
    Start, Timestamp,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(after: Duration) -> Moment {
    Moment::at(Timestamp::from_duration(after), 0)
}

fn retry(after: Duration) -> Decision {
    Decision::Retry { after, source: Source::Schedule }
}

fn stop(reason: Reason) -> Decision {
    Decision::Stop { reason, after: None }
}

/// The attempts at which some number type ends: nanoseconds and seconds in 64 bits, 32-bit shifts, floats.
const OVERFLOWS: [u32; 16] =
    [30, 31, 32, 33, 34, 60, 63, 64, 65, 70, 127, 128, 1_023, 1_024, 1_025, u32::MAX];

/// Every kind of schedule that grows, from `initial`.
fn growing(initial: Duration) -> Vec<Schedule> {
    let mut schedules: Vec<_> = [1.0001, 1.1, 1.5, 2.0, 3.0, 10.0, 1e300]
        .into_iter()
        .map(|factor| Schedule::Exponential { initial, multiplier: Multiplier::new(factor).unwrap() })
        .collect();
    schedules.push(Schedule::Linear { initial, step: initial });
    schedules.push(Schedule::Fibonacci { initial });
    schedules
}

fn plain(schedule: Schedule) -> Backoff {
    Backoff::new(schedule).uncapped().jitter(Jitter::None)
}

/// Wait number `n` of a fresh series.
fn wait(backoff: &Backoff, n: u32, entropy: u64) -> Duration {
    backoff.wait(n, Duration::ZERO, &mut Memory::default(), entropy)
}

/// F01 [App-vNext/Polly#1866]: an overflow forgot the maximum.
#[test]
fn a_cap_bounds_the_overflow_too() {
    let cap = secs(90);
    for schedule in growing(secs(3)) {
        let slow = matches!(schedule, Schedule::Linear { .. })
            || matches!(schedule, Schedule::Exponential { multiplier, .. } if multiplier.as_f64() < 1.2);
        let backoff = plain(schedule).cap(cap);
        for n in OVERFLOWS.into_iter().chain([200]) {
            let wait = wait(&backoff, n, u64::MAX);
            assert!(wait == cap || (slow && wait < cap), "{backoff:?} {n}: {wait:?}");
        }
    }
    // Without a cap: the longest wait there is, and no wrap.
    for n in [35, 64, 200, 1_025, u32::MAX] {
        assert_eq!(wait(&plain(Schedule::exponential(secs(3))), n, 0), Duration::from_nanos(u64::MAX), "{n}");
    }
    // The last that fits: 3 · 2³² s.
    assert_eq!(wait(&plain(Schedule::exponential(secs(3))), 33, 0), secs(3 << 32));
}

/// F02 [jd/tenacity#710]: nothing times infinity became the maximum.
#[test]
fn nothing_stays_nothing() {
    for schedule in growing(Duration::ZERO) {
        for n in OVERFLOWS.into_iter().chain([1, 2, 1_100]) {
            for jitter in [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Proportional { factor: 1.0 }] {
                for bound in [Bound::Range, Bound::Sample, Bound::Loose] {
                    let backoff = plain(schedule.clone()).cap(secs(45)).jitter(jitter).bound(bound);
                    assert_eq!(wait(&backoff, n, u64::MAX), Duration::ZERO, "{backoff:?} {n}");
                    assert_eq!(wait(&backoff.floor(secs(3)), n, u64::MAX), secs(3), "{n}");
                }
            }
        }
    }
}

/// F03 [aws/aws-sdk-java-v2#1453]: a shift by 64 began again at the base; a result was cut to 32 bits.
#[test]
fn no_shift_wraps_and_no_width_truncates() {
    let backoff = plain(Schedule::exponential(ms(100))).cap(secs(20));
    for n in 9..2_000 {
        assert_eq!(wait(&backoff, n, 0), secs(20), "{n}");
    }
    // 30 days are more than 2³¹ ms and more than 2³² µs; with jitter the range is as long.
    let month = secs(30 * 86_400);
    let backoff = plain(Schedule::Constant { initial: month }).cap(month);
    for n in OVERFLOWS {
        assert_eq!(wait(&backoff, n, 0), month);
        let range = backoff.clone().jitter(Jitter::Full).range(n, Duration::ZERO, Memory::default());
        assert_eq!((range.lowest, range.highest), (Duration::ZERO, month));
    }
}

/// F04 [elennick/retry4j#36]: the wrong exponent.
#[test]
fn the_first_wait_is_the_initial_one() {
    for (schedule, expected) in [
        (Schedule::exponential(ms(250)), [250, 500, 1_000, 2_000, 4_000]),
        (Schedule::Linear { initial: ms(250), step: ms(100) }, [250, 350, 450, 550, 650]),
        (Schedule::Fibonacci { initial: ms(250) }, [250, 250, 500, 750, 1_250]),
        (Schedule::Constant { initial: ms(250) }, [250; 5]),
    ] {
        let waits: Vec<_> = plain(schedule).waits(0).take(5).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, expected);
    }
    // Resilience4j#1605: 4 s × 5, at most 300 s.
    let five = Schedule::Exponential { initial: secs(4), multiplier: Multiplier::new(5.0).unwrap() };
    let waits: Vec<_> = plain(five).cap(secs(300)).waits(0).take(5).map(|wait| wait.as_secs()).collect();
    assert_eq!(waits, [4, 20, 100, 300, 300]);
}

/// How many attempts a call makes that fails without end.
fn attempts(policy: &Policy) -> u32 {
    let mut call = Call::new(None);
    let failed = Outcome::of(Class::Transient);
    while let Decision::Retry { .. } = call.decide(policy, &mut Alone, failed, Moment::timeless(0)) {
        assert!(call.attempts() < 10_000, "without end");
    }
    call.attempts()
}

/// F05 [takezoe/scala-retry#1, graphile/worker#266, restatedev/restate#3774, rholder/retrying#74]: attempts or
/// retries?
#[test]
fn the_first_attempt_counts() {
    for most in [1, 2, 3, 7, 1_000] {
        assert_eq!(attempts(&Policy::constant(ms(1)).max_attempts(most).build().unwrap()), most);
    }
    assert_eq!(attempts(&Policy::constant(ms(1)).build().unwrap()), 4, "unset is finite");
    assert_eq!(attempts(&Policy::default()), 4);
    assert_eq!(attempts(&Policy::never()), 1);
    let zero = Policy::constant(ms(1)).max_attempts(0).build().unwrap_err();
    assert_eq!(zero.to_string(), "max_attempts: counts the first attempt; 1 switches retries off");
    let zero = Policy::constant(ms(1)).rule(Rule::on(Class::Throttled).max_attempts(0)).build().unwrap_err();
    assert_eq!(zero.key(), "rules.max_attempts");
    // A zero that was taken back is none, and unlimited is a word of its own.
    assert_eq!(attempts(&Policy::constant(ms(1)).max_attempts(0).max_attempts(2).build().unwrap()), 2);
    let unlimited = Policy::constant(ms(1)).max_attempts(0).unlimited_attempts().build().unwrap();
    assert_eq!(unlimited.max_attempts(), None);
}

/// F06 [cenkalti/backoff#117, #139, openai/openai-agents-python#2676, HKUDS/RAG-Anything#323, agenda/agenda#1748,
/// langchain-ai/langchain#40260]: the jitter passed the cap. And where it was clamped, all waited the same.
#[test]
fn jitter_neither_passes_the_cap_nor_ends_at_it() {
    for schedule in [Schedule::exponential(ms(900)), Schedule::Constant { initial: secs(1) }] {
        for jitter in [
            Jitter::Full,
            Jitter::Equal,
            Jitter::Proportional { factor: 0.3 },
            Jitter::Additive { max: ms(500) },
            Jitter::DecorrelatedV2,
        ] {
            let backoff = Backoff::new(schedule.clone()).cap(secs(1)).jitter(jitter);
            let mut dice = Dice::new(117);
            for n in [1, 2, 3, 10, 1_000] {
                let draws: Vec<_> = (0..1_000).map(|_| wait(&backoff, n, dice.roll())).collect();
                assert!(draws.iter().all(|wait| *wait <= secs(1)), "{jitter:?} {n}");
                let at_cap = draws.iter().filter(|wait| **wait == secs(1)).count();
                assert!(at_cap <= 1, "{jitter:?} {n}: {at_cap} of 1000 wait exactly the cap");
                assert!(wait(&backoff, n, u64::MAX) <= secs(1));
            }
        }
    }
}

/// F07 [grpc/grpc-java#12639, grpc/grpc-node#2959, grpc/proposal#452]: gRPC jitters the capped wait by a fifth, the
/// first one too. Its ranges: `schedules_of_the_world.rs`; here: what came out instead cannot.
#[test]
fn the_first_wait_is_jittered_around_itself() {
    let backoff = Backoff::new(Schedule::exponential(ms(100)))
        .cap(secs(1))
        .jitter(Jitter::Proportional { factor: 0.2 })
        .bound(Bound::Loose);
    for (n, centre) in [(1, ms(100)), (5, secs(1)), (50, secs(1))] {
        assert_eq!(wait(&backoff, n, 0), centre.mul_f64(0.8));
        assert_eq!(wait(&backoff, n, 1 << 63), centre);
        assert_eq!(wait(&backoff, n, u64::MAX), centre.mul_f64(1.2) - Duration::from_nanos(1));
    }
}

/// F11 [hashicorp/go-retryablehttp#297, vellum-ai/vellum-assistant#3233, Azure/azure-sdk-for-js#39130,
/// elizaOS/eliza#23807, urllib3/urllib3#3743]: a huge Retry-After became a burst of retries, or a crash.
#[test]
fn a_huge_hint_is_never_an_immediate_retry() {
    let huge = [
        secs(3_000_000),      // more than 2³¹ ms
        secs(9_223_372_037),  // wraps i64 nanoseconds
        secs(18_446_744_074), // wraps u64 nanoseconds
        secs(u64::MAX),       // what a parser makes of anything longer
        Duration::MAX,
    ];
    for asked in huge {
        for hint in [Hint::After(asked), Hint::Pushback(asked)] {
            for mode in [HintMode::Minimum, HintMode::Exact, HintMode::Clamp(secs(5))] {
                let decided = |over_max, max| {
                    let hints = HintPolicy::DEFAULT.mode(mode).max(max).over_max(over_max);
                    let policy = Policy::constant(secs(2)).jitter(Jitter::None).hint(hints).build().unwrap();
                    let outcome = Outcome::of(Class::Throttled).hint(hint);
                    Call::new(None).decide(&policy, &mut Alone, outcome, Moment::timeless(u64::MAX))
                };
                assert_eq!(decided(OverMax::Abort, secs(60)), stop(Reason::HintOverMax));
                assert_eq!(decided(OverMax::Ignore, secs(60)), retry(secs(2)));
                let Decision::Retry { after, .. } = decided(OverMax::Clamp, secs(60)) else {
                    panic!("{hint:?}")
                };
                let (least, most) = match (hint, mode) {
                    (Hint::Pushback(_), _) => (secs(60), secs(60)),
                    (_, HintMode::Clamp(_)) => (secs(7), secs(7)),
                    _ => (secs(60), secs(66)),
                };
                assert!((least..=most).contains(&after), "{hint:?} {mode:?}: {after:?}");
                // With no limit at all: as long as can be said.
                let Decision::Retry { after, .. } = decided(OverMax::Abort, Duration::MAX) else {
                    panic!("{hint:?}")
                };
                let clamped = matches!((hint, mode), (Hint::After(_), HintMode::Clamp(_)));
                let end_of_time = Duration::from_nanos(u64::MAX);
                assert!(
                    if clamped { after == secs(7) } else { after >= asked.min(end_of_time) },
                    "{after:?}"
                );
            }
        }
    }
}

/// F12 [cenkalti/backoff#159, ihrwein/backoff#43]: a hint beyond what is left ended the call and did not say why.
#[test]
fn a_hint_that_is_too_long_says_so() {
    let asked = Outcome::of(Class::Throttled).hint(Hint::After(secs(1_800)));
    for on_deadline in [OnDeadline::Stop, OnDeadline::Fit] {
        let policy = Policy::exponential(ms(500)).deadline(secs(15 * 60)).on_deadline(on_deadline);
        let policy = |max| policy.clone().hint(HintPolicy::DEFAULT.max(max)).build().unwrap();
        for (max, reason) in [
            (secs(60), Reason::HintOverMax),
            (secs(1_799), Reason::HintOverMax),
            (secs(1_800), Reason::DeadlineWouldPass),
            (Duration::MAX, Reason::DeadlineWouldPass),
        ] {
            let mut call = Call::new(Some(Timestamp::ZERO));
            assert_eq!(call.decide(&policy(max), &mut Alone, asked, at(secs(1))), stop(reason));
        }
    }
}

/// When attempts that take `each` are begun, when the call ends and why.
fn timeline(policy: &Policy, each: Duration, class: Class) -> (Vec<Duration>, Duration, Reason) {
    let mut call = Call::new(Some(Timestamp::ZERO));
    let (mut now, mut begun) = (Duration::ZERO, vec![]);
    loop {
        match call.admit(policy, &mut Alone, at(now)) {
            Start::Go => begun.push(now),
            start => panic!("{start:?} at {now:?}"),
        }
        let limit = call.attempt_limit(policy, Timestamp::from_duration(now));
        now += limit.map_or(each, |limit| each.min(limit));
        match call.decide(policy, &mut Alone, Outcome::of(class), at(now)) {
            Decision::Retry { after, .. } => now += after,
            Decision::Stop { reason, .. } => return (begun, now, reason),
        }
    }
}

/// F13 [jd/tenacity#423, hashicorp/go-retryablehttp#272, temporalio/temporal#4403, vimeo/go-retry#7,
/// ihrwein/backoff#43]: a sleep before an attempt that could not happen.
#[test]
fn nothing_is_waited_for_that_cannot_start() {
    let policy = |total| {
        let policy = Policy::exponential(secs(2)).jitter(Jitter::None).unlimited_attempts();
        policy.deadline(total).build().unwrap()
    };
    for (total, attempts) in [
        (secs(10), &[0, 2, 6][..]),
        (secs(14), &[0, 2, 6]), // the next would start exactly at the deadline
        (secs(14) + Duration::from_nanos(1), &[0, 2, 6, 14]),
        (secs(2), &[0]),
        (secs(1), &[0]),
    ] {
        let (begun, ended, reason) = timeline(&policy(total), Duration::ZERO, Class::Transient);
        let seconds: Vec<_> = begun.iter().map(Duration::as_secs).collect();
        assert_eq!((&seconds[..], reason), (attempts, Reason::DeadlineWouldPass), "{total:?}");
        assert_eq!(Some(&ended), begun.last(), "it ends with the last attempt and waits no more");
    }
}

/// F14 [temporalio/temporal#3630, avast/retry-go#51, cenkalti/backoff#182]: the reason was all that was left, or
/// none. Each way to run out of time has its own word; the last error is the drivers' to keep.
#[test]
fn each_end_names_its_reason() {
    let policy = Policy::constant(secs(4)).jitter(Jitter::None).deadline(secs(10)).build().unwrap();
    let failed = Outcome::of(Class::Transient);
    let fresh = || Call::new(Some(Timestamp::ZERO));
    assert_eq!(fresh().decide(&policy, &mut Alone, failed, at(secs(6))), stop(Reason::DeadlineWouldPass));
    assert_eq!(fresh().decide(&policy, &mut Alone, failed, at(secs(10))), stop(Reason::DeadlinePassed));
    // The wait took longer than it should have: the attempt is not begun.
    let late = Start::Stop { reason: Reason::DeadlinePassed };
    assert_eq!(fresh().admit(&policy, &mut Alone, at(secs(10))), late);
    let cancelled = Outcome::of(Class::Cancelled);
    assert_eq!(fresh().decide(&policy, &mut Alone, cancelled, at(secs(10))), stop(Reason::Cancelled));
    assert_eq!(fresh().decide(&policy, &mut Alone, failed, at(secs(5))), retry(secs(4)));
}

/// F15 [sindresorhus/ky#784, linkerd/linkerd#2369]: each attempt got the whole time.
#[test]
fn the_deadline_is_for_all_attempts_together() {
    let hang = secs(3_600);
    let policy = || Policy::constant(ms(100)).jitter(Jitter::None).max_attempts(3).deadline(secs(2));
    let (begun, ended, reason) = timeline(&policy().build().unwrap(), hang, Class::Timeout);
    assert_eq!((begun.len(), ended, reason), (1, secs(2), Reason::DeadlinePassed));
    // The end of an attempt is a value of its own, and the last attempt gets what is left.
    let policy = policy().attempt_timeout(ms(900)).build().unwrap();
    let (begun, ended, reason) = timeline(&policy, hang, Class::Timeout);
    assert_eq!(begun, [ms(0), ms(1_000)]);
    assert_eq!((ended, reason), (ms(1_900), Reason::DeadlineWouldPass));
    let call = Call::new(Some(Timestamp::ZERO));
    for (now, left) in [(0, 900), (1_000, 900), (1_500, 500), (2_000, 0), (9_000, 0)] {
        let now = Timestamp::from_duration(ms(now));
        assert_eq!(call.attempt_limit(&policy, now), Some(ms(left)));
    }
}

/// Counts what is settled as a failure of the target.
#[derive(Default)]
struct Failures {
    failures: u32,
    withdrawals: u32,
}

impl Shared for Failures {
    fn settle(&mut self, outcome: &Outcome, _now: Option<Timestamp>) {
        self.failures += u32::from(outcome.class.is_failure());
    }

    fn withdraw(&mut self, _outcome: &Outcome, _now: Option<Timestamp>) -> Result<(), Reason> {
        self.withdrawals += 1;
        Ok(())
    }
}

/// F16 [jd/tenacity#529, #186, aponysus/redress#33]: a cancellation was retried as a failure.
#[test]
fn a_cancelled_call_ends_and_is_nobodys_failure() {
    let policies = [
        Policy::default(),
        Policy::constant(secs(1)).unlimited_attempts().build().unwrap(),
        Policy::constant(secs(1)).rule(Rule::on([Class::Cancelled, Class::Transient])).build().unwrap(),
        Policy::constant(secs(1)).deadline(secs(1)).build().unwrap(),
    ];
    for policy in policies {
        for hint in [None, Some(Hint::After(secs(1))), Some(Hint::Stop)] {
            let mut shared = Failures::default();
            let outcome = Outcome { hint, ..Outcome::of(Class::Cancelled) };
            let mut call = Call::new(Some(Timestamp::ZERO));
            assert_eq!(call.decide(&policy, &mut shared, outcome, at(ms(500))), stop(Reason::Cancelled));
            assert_eq!((shared.failures, shared.withdrawals), (0, 0));
        }
    }
    // "Retry all but X" cannot even be written so that it takes cancellation in.
    let all =
        Policy::default().to_builder().retry_on(Class::ALL.into_iter().collect::<relent_core::Classes>());
    assert_eq!(all.build().unwrap_err().key(), "retry_on");
}

/// F25 [pingcap/tidb#65345, coreweave/terraform-provider-coreweave#110, aponysus/redress#33]: an attempt's timeout and
/// the caller's deadline were the same thing.
#[test]
fn a_timeout_of_an_attempt_is_retried_and_the_deadline_is_not() {
    let policy = Policy::constant(ms(100)).jitter(Jitter::None).attempt_timeout(ms(200)).deadline(secs(5));
    let policy = policy.build().unwrap();
    let timed_out = Outcome::of(Class::Timeout);
    let fresh = || Call::new(Some(Timestamp::ZERO));
    assert_eq!(fresh().decide(&policy, &mut Alone, timed_out, at(ms(200))), retry(ms(100)));
    assert_eq!(fresh().decide(&policy, &mut Alone, timed_out, at(secs(5))), stop(Reason::DeadlinePassed));
    let not_timeouts = policy.to_builder().retry_on(Class::Transient).build().unwrap();
    assert_eq!(fresh().decide(&not_timeouts, &mut Alone, timed_out, at(ms(200))), stop(Reason::NotRetryable));
}

/// F45 [aneoconsulting/ArmoniK.Api#732]: what is no usable number was taken for one.
#[test]
fn only_numbers_that_mean_something_are_factors() {
    for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -2.0, 0.5] {
        let refused = Policy::exponential(secs(1)).multiplier(factor).build().unwrap_err();
        assert_eq!(refused.key(), "backoff.multiplier", "{factor}");
    }
    for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -2.0, 1.5] {
        let jitter = Jitter::Proportional { factor };
        let refused = Policy::exponential(secs(1)).jitter(jitter).build().unwrap_err();
        assert_eq!(refused.key(), "jitter.factor", "{factor}");
    }
}

/// A connection that is meant to stay up: 1, 2, 4 … 60 s, given up after five minutes without success.
fn reconnecting() -> PolicyBuilder {
    Policy::exponential(secs(1)).cap(secs(60)).jitter(Jitter::None).unlimited_attempts().deadline(secs(300))
}

/// F17 [moq-dev/moq#1806, Mesh-America/supply-drop-bbs#9, mhthies/smarthomeconnect#51]: a connect that succeeds and
/// drops at once must not reset the backoff.
#[test]
fn a_short_life_is_no_recovery() {
    let policy = reconnecting().reset_after(secs(30)).build().unwrap();
    let mut call = Call::new(Some(Timestamp::ZERO));
    let dropped = Outcome::of(Class::Transient).healthy_for(ms(1));
    let (mut now, mut waits) = (secs(0), vec![]);
    let end = loop {
        now += ms(1);
        match call.decide(&policy, &mut Alone, dropped, at(now)) {
            Decision::Retry { after, .. } => {
                now += after;
                waits.push(after.as_secs());
            }
            end => break end,
        }
        assert!(now < secs(300));
    };
    assert_eq!(end, stop(Reason::DeadlineWouldPass));
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

/// F17, the other half: after a long time in health the next failure is the first of a new series.
#[test]
fn a_long_life_is_a_recovery() {
    let policy = reconnecting().reset_after(secs(30)).max_attempts(9).build().unwrap();
    let mut call = Call::new(Some(Timestamp::ZERO));
    let down = Outcome::of(Class::Transient);
    let mut now = secs(0);
    for wait in [1, 2, 4, 8, 16] {
        assert_eq!(call.decide(&policy, &mut Alone, down, at(now)), retry(secs(wait)));
        now += secs(wait);
    }
    for (healthy, wait) in [(secs(30) - Duration::from_nanos(1), 32), (secs(30), 1), (secs(3 * 3600), 1)] {
        now += healthy;
        let decided = call.decide(&policy, &mut Alone, down.healthy_for(healthy), at(now));
        assert_eq!(decided, retry(secs(wait)), "after {healthy:?}");
        now += secs(wait);
    }
    // The give-up window and the attempts were begun anew as well.
    assert_eq!(call.attempts(), 1);
    assert_eq!(call.remaining(&policy, Timestamp::from_duration(now)), Some(secs(299)));
}

/// Without a threshold no life is long enough, not even the longest that can be said.
#[test]
fn never_means_never() {
    let policy = reconnecting().build().unwrap();
    let mut call = Call::new(Some(Timestamp::ZERO));
    for wait in [1, 2, 4] {
        let dropped = Outcome::of(Class::Transient).healthy_for(Duration::MAX);
        assert_eq!(call.decide(&policy, &mut Alone, dropped, at(secs(0))), retry(secs(wait)));
    }
}
