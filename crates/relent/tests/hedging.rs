//! Hedged calls through both drivers, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(not(loom))]

mod scripts;

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use relent::testing::{Clock, Recorder};
use relent::{
    Attempt, Backoff, BreakerPolicy, BulkheadPolicy, Cause, Class, Error, HedgePolicy, Jitter, Outcome,
    Policy, Quota, Ratio, Reason, Retrier, RetrierBuilder, Schedule, Target, Timestamp, Token, blocking,
};
use scripts::Back;
use scripts::hedges::{Hedged, Ran, hedges};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What an attempt returns: its number and what it says of itself.
type Said = Result<(u32, Outcome), (u32, Outcome)>;

fn judge(said: &Said) -> Outcome {
    match said {
        Ok((_, outcome)) | Err((_, outcome)) => *outcome,
    }
}

/// When attempts started.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<u64>>>);

impl Starts {
    fn mark(&self, clock: &Clock) {
        self.0.lock().unwrap().push(clock.elapsed().as_millis() as u64);
    }

    fn ran<K>(&self, result: Result<(u32, Outcome), Error<(u32, Outcome), K>>, ends: Duration) -> Ran {
        let (reason, comes_back) = match &result {
            Ok((number, _)) => (Reason::Succeeded, Back::Ok(*number)),
            Err(error) => {
                assert_eq!(error.attempts() as usize, self.0.lock().unwrap().len());
                (error.reason(), error.last().map_or(Back::NoError, |(number, _)| Back::Err(*number)))
            }
        };
        Ran { started: self.0.lock().unwrap().clone(), reason, comes_back, ends: ends.as_millis() as u64 }
    }
}

/// An attempt that takes its time on the virtual clock.
fn attempt(row: &Hedged, clock: &Clock, number: u32) -> impl Future<Output = Said> + use<> {
    let (step, clock) = (row.step(number), clock.clone());
    async move {
        match step.takes {
            Some(takes) => relent::Timer::sleep(&clock, ms(takes)).await,
            None => std::future::pending().await,
        }
        if step.ok { Ok((number, step.outcome)) } else { Err((number, step.outcome)) }
    }
}

/// The same on a thread: in steps, between which it looks whether it should end.
fn on_a_thread(step: scripts::Step, clock: &Clock, attempt: &Attempt<Clock>) -> Said {
    let began = clock.elapsed();
    while !attempt.is_cancelled() && step.takes.is_none_or(|takes| clock.elapsed() - began < ms(takes)) {
        blocking::Timer::sleep(clock, ms(1), None);
    }
    if attempt.is_cancelled() {
        // Late, so that it is cut off: what returns at the very end would count.
        blocking::Timer::sleep(clock, ms(1), None);
    }
    if step.ok { Ok((attempt.number(), step.outcome)) } else { Err((attempt.number(), step.outcome)) }
}

#[test]
fn the_raw_core_agrees() {
    for row in hedges() {
        assert_eq!(row.run_raw(), row.expected, "\"{}\"", row.name);
    }
}

#[test]
fn the_async_driver_agrees() {
    for row in hedges() {
        let (clock, token, starts) = (Clock::new(), Token::new(), Starts::default());
        let policy = row.policy.clone().build().unwrap();
        let with = relent::with(&policy).hedge(&row.hedge).idempotent(row.idempotent).cancel_on(&token);
        let call = with.timer(clock.clone()).classify(judge).retry(|made| {
            starts.mark(&clock);
            attempt(&row, &clock, made.number())
        });
        let canceller = async {
            match row.cancelled_at {
                Some(at) => relent::Timer::sleep(&clock, ms(at)).await,
                None => std::future::pending().await,
            }
            token.cancel();
        };
        let (mut call, mut canceller) = (pin!(call), pin!(canceller));
        let mut over = false;
        let both = std::future::poll_fn(|context| {
            over = over || canceller.as_mut().poll(context).is_ready();
            call.as_mut().poll(context)
        });
        let result = clock.run(both).unwrap();
        assert_eq!(starts.ran(result, clock.elapsed()), row.expected, "\"{}\"", row.name);
    }
}

#[test]
fn the_threaded_driver_agrees() {
    for row in hedges() {
        let (clock, token, starts) = (Clock::new(), Token::new(), Starts::default());
        let policy = row.policy.clone().build().unwrap();
        let name = row.name;
        let with = blocking::with(&policy).hedge(&row.hedge).idempotent(row.idempotent).cancel_on(&token);
        let steps = row.attempts.clone();
        let (marks, on, cancelled_at, cancel) =
            (starts.clone(), clock.clone(), row.cancelled_at, token.clone());
        let result = with.timer(clock.clone()).classify(judge).retry_hedged(move |made| {
            marks.mark(&on);
            if let (Some(at), 1) = (cancelled_at, made.number()) {
                // The first one's thread stands in for whoever cancels.
                blocking::Timer::sleep(&on, ms(at), None);
                cancel.cancel();
            }
            on_a_thread(steps[made.number() as usize - 1], &on, &made)
        });
        assert_eq!(starts.ran(result, clock.elapsed()), row.expected, "\"{name}\"");
        clock.join();
    }
}

/// A retry every 100 ms.
fn policy() -> Policy {
    Policy::constant(ms(100)).jitter(Jitter::None).max_attempts(4).seed(1).build().unwrap()
}

fn target(with: impl FnOnce(RetrierBuilder) -> RetrierBuilder) -> Target {
    with(Retrier::new(policy()).hedge(HedgePolicy::after(ms(10)))).build().unwrap().at("host")
}

fn everything() -> Target {
    let open = Backoff::new(Schedule::Constant { initial: ms(50) }).jitter(Jitter::None);
    target(|retrier| {
        let breaker = BreakerPolicy::consecutive(1).open_for(open).max_probes(1);
        retrier.bulkhead(BulkheadPolicy::new(3)).budget(Quota::new(10, 1)).breaker(breaker)
    })
}

fn places(target: &Target) -> u32 {
    target.bulkhead().unwrap().with(|bulkhead| bulkhead.running())
}

fn balance(target: &Target) -> u64 {
    target.budgets()[0].with(|budget| budget.balance(Timestamp::ZERO)) / 1_000
}

/// A body that trickles, as long as nothing ends the scope it was made in.
struct Body {
    token: relent::AttemptToken<Clock>,
    clock: Clock,
}

impl Body {
    async fn read(self) -> usize {
        let mut read = 0;
        for _ in 0..300 {
            relent::Timer::sleep(&self.clock, ms(1)).await;
            if self.token.fired().is_some() {
                break;
            }
            read += 1024;
        }
        read
    }
}

/// F36 [failsafe-go#65, #123, go-resty#1197]: the cancellation that stops the losers cut the winner's body too.
#[test]
fn the_winners_body_goes_on() {
    for first_wins in [true, false] {
        let (clock, policy, tokens) = (Clock::new(), policy(), Arc::new(Mutex::new(vec![])));
        let hedge = HedgePolicy::after(ms(10));
        let with = relent::with(&policy).hedge(&hedge).when(|_: &()| Class::Transient).timer(clock.clone());
        let body = clock.run(with.retry(|attempt| {
            let (clock, token, number) = (clock.clone(), attempt.token().clone(), attempt.number());
            tokens.lock().unwrap().push(token.clone());
            async move {
                let takes = if first_wins == (number == 1) { 20 } else { 60 };
                relent::Timer::sleep(&clock, ms(takes)).await;
                Ok(Body { token, clock })
            }
        }));
        let body = body.unwrap().unwrap();
        let fired: Vec<_> = tokens.lock().unwrap().iter().map(|token| token.fired()).collect();
        let (won, lost) = (usize::from(!first_wins), usize::from(first_wins));
        assert_eq!((fired[won], fired[lost]), (None, Some(Cause::Lost)), "the loser is cancelled at once");
        assert_eq!(clock.run(body.read()).unwrap(), 307_200);
    }
}

/// F37 [Kevlar#14, azure-cosmos-dotnet-v3#6017]: a loser that failed after the winner had returned was heard of.
#[test]
fn late_losers_are_silent_and_give_back_what_they_hold() {
    let (clock, target, recorder) = (Clock::new(), everything(), Recorder::new());
    let on = clock.clone();
    let call = target.blocking().timer(clock.clone()).when(|_: &String| Class::Transient);
    let won = call.notify(recorder.hook()).retry_hedged(move |attempt| {
        if attempt.number() == 1 {
            // Deaf to its cancellation.
            blocking::Timer::sleep(&on, ms(500), None);
            return Err("late".to_string());
        }
        blocking::Timer::sleep(&on, ms(5), None);
        Ok(attempt.number())
    });
    assert_eq!((won.unwrap(), clock.elapsed()), (2, ms(15)));
    assert_eq!(places(&target), 1, "the loser's thread holds its place until it ends");
    clock.join();
    assert_eq!((places(&target), clock.elapsed()), (0, ms(500)));
    let words: Vec<_> = recorder.events().iter().map(|it| (it.event, it.attempt, it.hedge)).collect();
    assert_eq!(
        words,
        [
            ("attempt_started", 1, None),
            ("hedge", 2, Some("started")),
            ("attempt_started", 2, None),
            ("hedge", 2, Some("won")),
            ("decision", 2, None),
            ("hedge", 1, Some("lost")),
        ]
    );
    let seen = target.breaker().unwrap().with(|breaker| breaker.statistics());
    assert_eq!((seen.successes, seen.failures, seen.ignored), (1, 0, 1));
}

/// [failsafe-go#141]: an exhausted budget cancelled the original too.
#[test]
fn an_empty_budget_only_keeps_new_hedges_back() {
    let (clock, recorder) = (Clock::new(), Recorder::new());
    let target = target(|retrier| retrier.budget(Quota::new(1, 1)));
    target.budgets()[0].with(|budget| {
        let mut stake = relent_core::Stake::default();
        assert!(budget.withdraw(Class::Transient, relent::Priority::Normal, &mut stake, Timestamp::ZERO));
    });
    let call = target.with().timer(clock.clone()).when(|_: &String| Class::Transient).notify(recorder.hook());
    let answer = clock.run(call.retry(|_attempt| {
        let sleep = relent::Timer::sleep(&clock, ms(35));
        async move {
            sleep.await;
            Ok(7)
        }
    }));
    assert_eq!((answer.unwrap().unwrap(), clock.elapsed()), (7, ms(35)));
    let hedges = recorder.events().into_iter().filter(|event| event.event == "hedge");
    let hedges: Vec<_> = hedges.map(|it| (it.elapsed_ms, it.hedge, it.reason, it.budget)).collect();
    let suppressed = |at| (Some(at), Some("suppressed"), Some("budget_exhausted"), Some(0));
    assert_eq!(hedges, [suppressed(10.0), suppressed(20.0), suppressed(30.0)]);
}

/// Nothing else runs and the budget is empty: the failure there was is the call's, with its value untouched.
#[test]
fn what_was_the_last_comes_back_where_no_hedge_may_follow() {
    for _ in 0..2 {
        let (clock, recorder) = (Clock::new(), Recorder::new());
        let target = target(|retrier| retrier.budget(Quota::new(2, 2)));
        let mut made = 0;
        let call = target.with().timer(clock.clone()).classify(|_: &Result<u32, String>| Class::Transient);
        let report = clock.run(call.notify(recorder.hook()).retry_report(|_attempt| {
            made += 1;
            std::future::ready(Ok(made))
        }));
        let report = report.unwrap();
        // The second, a hedge, took all there was.
        assert_eq!((report.reason, report.attempts), (Reason::BudgetExhausted, 2));
        assert_eq!(report.result.unwrap(), 2);
        let classes: Vec<_> = report.history.iter().map(|tried| (tried.attempt, tried.class)).collect();
        assert_eq!(classes, [(1, Class::Transient), (2, Class::Transient)]);
    }
}

#[test]
fn a_hedge_counts_in_budget_bulkhead_and_breaker() {
    let (clock, target) = (Clock::new(), everything());
    let call = target.with().timer(clock.clone()).when(|_: &String| Class::Transient);
    let answer = clock.run(call.retry(|attempt| {
        let sleep = relent::Timer::sleep(&clock, ms(30));
        if attempt.number() == 2 {
            assert_eq!((places(&target), balance(&target)), (2, 9));
        }
        async move {
            sleep.await;
            Ok(())
        }
    }));
    assert!(answer.unwrap().is_ok());
    // The first one won: the hedge has cost what it cost, and a first success brings 1.
    assert_eq!((places(&target), balance(&target)), (0, 10));
}

#[test]
fn dropped_at_any_point_it_leaves_nothing_behind() {
    let mut ended = false;
    let mut polls = 0;
    while !ended {
        let (clock, target) = (Clock::new(), everything());
        let (started, won) = (Cell::new(0), Cell::new(0));
        {
            let call = target.with().timer(clock.clone()).when(|_: &String| Class::Transient);
            let call = call.retry(|attempt| {
                started.set(started.get() + 1);
                let sleep = relent::Timer::sleep(&clock, ms(25));
                async move {
                    sleep.await;
                    if attempt.number() > 3 { Ok(()) } else { Err(String::new()) }
                }
            });
            let mut call = pin!(call);
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                    won.set(u64::from(answer.is_ok()));
                    ended = true;
                    break;
                }
                clock.advance(ms(5));
            }
        }
        assert_eq!((places(&target), clock.asleep()), (0, 0), "{polls}");
        // Each retry or hedge that began has cost one token, but for the one that won; who only waited has cost nothing.
        let begun = u64::saturating_sub(started.get(), 1);
        assert_eq!(balance(&target), 10 - begun + won.get(), "{polls}");
        // Whatever has happened: after the open time exactly one probe passes.
        clock.advance(ms(1_000));
        let call = target.blocking().timer(clock.clone()).when(|_: &String| Class::Transient);
        assert!(call.retry(|_attempt| Ok(())).is_ok(), "{polls}");
        polls += 1;
    }
    assert!(polls > 6, "{polls}");
}

#[test]
fn a_panic_leaves_nothing_behind() {
    fn bang() -> Result<(), String> {
        std::panic::resume_unwind(Box::new("bang"))
    }
    let (clock, target) = (Clock::new(), everything());
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let call = target.with().timer(clock.clone()).when(|_: &String| Class::Transient);
        clock.run(call.retry(|attempt| {
            let sleep = relent::Timer::sleep(&clock, ms(15));
            async move {
                sleep.await;
                if attempt.number() == 1 { bang() } else { Ok(()) }
            }
        }))
    }));
    assert_eq!(*panics.unwrap_err().downcast::<&str>().unwrap(), "bang");
    assert_eq!((places(&target), clock.asleep()), (0, 0));

    let (clock, target) = (Clock::new(), everything());
    let on = clock.clone();
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let call = target.blocking().timer(clock.clone()).when(|_: &String| Class::Transient);
        call.retry_hedged(move |attempt| {
            while !attempt.is_cancelled() {
                blocking::Timer::sleep(&on, ms(15), None);
                if attempt.number() == 1 {
                    return bang();
                }
            }
            Ok(())
        })
    }));
    assert_eq!(*panics.unwrap_err().downcast::<&str>().unwrap(), "bang");
    clock.join();
    assert_eq!(places(&target), 0);
}

/// The delay follows what was observed, in which losers count for what they showed.
#[test]
fn the_delay_is_the_quantile_of_the_targets_latencies() {
    let clock = Clock::new();
    let hedge = HedgePolicy::quantile(Ratio::percent(95)).until_known(ms(200), 20);
    let target = Retrier::new(policy()).hedge(hedge).build().unwrap().at("host");
    let call = |takes: u64| {
        let call = target.with().timer(clock.clone()).when(|_: &String| Class::Transient);
        let attempts = clock.run(call.retry_report(|attempt| {
            let sleep = relent::Timer::sleep(&clock, ms(if attempt.number() == 1 { takes } else { 1 }));
            async move {
                sleep.await;
                Ok(())
            }
        }));
        attempts.unwrap().attempts
    };
    // Until 20 are known it is 200 ms.
    assert_eq!((call(199), call(201)), (1, 2));
    for _ in 0..40 {
        assert_eq!(call(20), 1);
    }
    // Then what is slower than all but a few, to an eighth.
    let began = clock.elapsed();
    assert_eq!(call(100), 2);
    let took = clock.elapsed() - began;
    assert!((ms(21)..ms(25)).contains(&took), "{took:?}");
    let latencies = target.latencies().unwrap();
    let now = relent::Clock::now(&clock);
    // Of the losers none is a sample.
    assert_eq!(latencies.with(|latencies| latencies.samples(now)), 44 - 1);
}
