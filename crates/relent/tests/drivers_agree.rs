//! One table of scripts runs through every driver: the raw core, blocking and async, each way in.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

mod chance;
mod scripts;

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use proptest::prelude::*;
use relent::testing::{Clock, Recorder};
use relent::{Class, Classify, Error, Outcome, Policy, Report, Timestamp, Token, With, blocking};
use scripts::{Back, Script, Step, Trail, scripts};

/// What an attempt returns, `Ok` or not: the number under which it was made, and what it says of itself.
#[derive(Clone, Copy, Debug)]
struct Said {
    made: u32,
    outcome: Outcome,
}

impl Classify for Said {
    fn outcome(&self) -> Outcome {
        self.outcome
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} failed", self.made)
    }
}

impl std::error::Error for Said {}

/// What all drivers need for a row.
struct Bench<'a> {
    script: &'a Script,
    policy: Policy,
    clock: Clock,
    token: Token,
    recorder: Recorder,
    made: Cell<u32>,
}

impl<'a> Bench<'a> {
    fn new(script: &'a Script) -> Self {
        let (clock, token) = (Clock::new(), Token::new());
        if script.cancelled_at == Some(0) {
            token.cancel();
        }
        let policy = script.policy.clone().build().unwrap();
        Self { script, policy, clock, token, recorder: Recorder::new(), made: Cell::new(0) }
    }

    /// The next attempt's step and what it returns.
    fn next(&self) -> (Step, Result<Said, Said>) {
        self.made.set(self.made.get() + 1);
        let step = self.script.step(self.made.get());
        let said = Said { made: self.made.get(), outcome: step.outcome };
        (step, if step.ok { Ok(said) } else { Err(said) })
    }

    fn options<'b, C, N, T, S>(&'b self, mut with: With<'b, C, N, T, S>) -> With<'b, C, N, T, S> {
        if self.script.cancelled_at.is_some() {
            with = with.cancel_on(&self.token);
        }
        match self.script.idempotent {
            Some(idempotent) => with.idempotent(idempotent),
            None => with,
        }
    }

    fn attempt(&self) -> Result<Said, Said> {
        let (step, result) = self.next();
        self.clock
            .advance(Duration::from_millis(step.takes.expect("a blocking driver cannot cut an attempt off")));
        result
    }

    /// Cancels the call when the row says so.
    async fn canceller<S: Future<Output = ()>>(&self, sleep: impl Fn(Duration) -> S) {
        if let Some(at) = self.script.cancelled_at.filter(|at| *at > 0) {
            sleep(Duration::from_millis(at)).await;
            self.token.cancel();
        }
    }

    fn trail<K>(&self, result: Result<Said, Error<Said, K>>, ends: Duration) -> Trail {
        let (attempts, reason, comes_back) = match result {
            Ok(said) => {
                let last =
                    self.recorder.events().into_iter().rev().find(|event| event.reason.is_some()).unwrap();
                (last.attempt, last.reason.unwrap().parse().unwrap(), Back::Ok(said.made))
            }
            Err(error) => {
                let last = error.last().map_or(Back::NoError, |said| Back::Err(said.made));
                (error.attempts(), error.reason(), last)
            }
        };
        let waits =
            self.recorder.events().into_iter().filter_map(|event| Some((event.wait_ms?, event.source?)));
        let sources = waits.map(|(_, source)| source.parse().unwrap());
        let waits = self.recorder.waits().into_iter().zip(sources).collect();
        Trail { attempts, waits, reason, comes_back, ends }
    }

    fn trail_of_report<K>(&self, report: Report<Said, Said, K>) -> Trail {
        let comes_back = match &report.result {
            Ok(said) => Back::Ok(said.made),
            Err(error) => error.last().map_or(Back::NoError, |said| Back::Err(said.made)),
        };
        assert_eq!(report.history.len() as u32, self.made.get(), "\"{}\"", self.script.name);
        let waits = report.history.iter().filter_map(|tried| tried.wait).collect();
        let (attempts, reason) = (report.attempts, report.reason);
        Trail { attempts, waits, reason, comes_back, ends: self.clock.elapsed() }
    }

    /// Runs an async call in virtual time, cancelled when the row says so.
    fn run<T>(&self, call: impl Future<Output = T>) -> T {
        let sleep = |wait| relent::Timer::sleep(&self.clock, wait);
        let returned = self.clock.run(beside(call, self.canceller(sleep))).unwrap();
        assert_eq!(self.clock.asleep(), 0, "\"{}\" leaves nobody asleep", self.script.name);
        returned
    }
}

/// Judges results and errors alike.
fn judge(result: &Result<Said, Said>) -> Outcome {
    match result {
        Ok(said) | Err(said) => said.outcome,
    }
}

/// Polls `other` along, until `call` is done.
async fn beside<T>(call: impl Future<Output = T>, other: impl Future<Output = ()>) -> T {
    let (mut call, mut other) = (pin!(call), pin!(other));
    let mut over = false;
    std::future::poll_fn(|context| {
        over = over || other.as_mut().poll(context).is_ready();
        call.as_mut().poll(context)
    })
    .await
}

/// Runs the rows that `pick` picks, and says that there are some.
fn each(pick: impl Fn(&Script) -> bool, run: impl Fn(&Bench<'_>, &Script)) {
    let picked: Vec<Script> = scripts().into_iter().filter(pick).collect();
    assert!(picked.len() >= 5, "a driver has {} rows", picked.len());
    for script in &picked {
        run(&Bench::new(script), script);
    }
}

/// A virtual clock on which the caller cancels the call in the middle of a wait.
#[derive(Clone)]
struct Interrupted {
    clock: Clock,
    at: Option<Duration>,
}

impl relent::Clock for Interrupted {
    fn now(&self) -> Timestamp {
        relent::Clock::now(&self.clock)
    }
}

impl blocking::Timer for Interrupted {
    fn sleep(&self, wait: Duration, cancel: Option<&Token>) {
        let left = self.at.map(|at| at.saturating_sub(self.clock.elapsed()));
        match (left, cancel) {
            (Some(left), Some(token)) if left <= wait => {
                self.clock.advance(left);
                token.cancel();
            }
            _ => self.clock.advance(wait),
        }
    }
}

impl Bench<'_> {
    fn interrupted(&self) -> Interrupted {
        Interrupted { clock: self.clock.clone(), at: self.script.cancelled_at.map(Duration::from_millis) }
    }
}

#[test]
fn the_raw_core() {
    for script in scripts() {
        script.check("raw", &script.run_raw(), false);
    }
}

#[test]
fn blocking_with_options() {
    each(
        |script| !script.needs_preemption() && !script.judges_results(),
        |bench, script| {
            let with = blocking::with(&bench.policy).timer(bench.interrupted()).notify(bench.recorder.hook());
            let result = bench.options(with).retry(|_attempt| bench.attempt());
            script.check("blocking", &bench.trail(result, bench.clock.elapsed()), false);
        },
    );
}

#[test]
fn blocking_that_looks_at_results() {
    each(
        |script| !script.needs_preemption(),
        |bench, script| {
            let with = blocking::with(&bench.policy).timer(bench.interrupted()).notify(bench.recorder.hook());
            let result = bench.options(with).classify(judge).retry(|_attempt| bench.attempt());
            script.check("blocking, classify", &bench.trail(result, bench.clock.elapsed()), false);
        },
    );
}

#[test]
fn blocking_with_a_report() {
    each(
        |script| !script.needs_preemption(),
        |bench, script| {
            let with = blocking::with(&bench.policy).timer(bench.interrupted()).classify(judge);
            let report = bench.options(with).retry_report(|_attempt| bench.attempt());
            script.check("blocking, report", &bench.trail_of_report(report), false);
        },
    );
}

/// The one-liner waits on the real clock: it takes the rows in which nothing waits.
#[test]
fn blocking_in_one_line() {
    let at_once = |script: &Script| {
        let waits = script.expected.waits.is_some_and(|waits| waits.iter().all(|(wait, _)| *wait == 0));
        waits && !script.needs_preemption() && !script.judges_results() && !script.has_options()
    };
    each(at_once, |bench, script| {
        let result = blocking::retry(&bench.policy, || bench.next().1);
        check_end(script, "blocking, one line", result);
    });
}

#[test]
fn asynchronous_with_options() {
    each(
        |script| !script.judges_results(),
        |bench, script| {
            let with = relent::with(&bench.policy).timer(bench.clock.clone()).notify(bench.recorder.hook());
            let result = bench.run(bench.options(with).retry(|_attempt| on_clock(bench)));
            script.check("async", &bench.trail(result, bench.clock.elapsed()), false);
        },
    );
}

/// Without a hook, the first attempt is polled in place.
#[test]
fn asynchronous_and_quiet() {
    each(
        |script| !script.judges_results(),
        |bench, script| {
            let with = relent::with(&bench.policy).timer(bench.clock.clone());
            let result = bench.run(bench.options(with).retry(|_attempt| on_clock(bench)));
            let ends = script.expected.ends.map_or_else(|| script.run_raw().ends, Duration::from_millis);
            assert_eq!(bench.clock.elapsed(), ends, "end of \"{}\"", script.name);
            check_end(script, "async, quiet", result);
        },
    );
}

#[test]
fn asynchronous_that_looks_at_results() {
    each(
        |_| true,
        |bench, script| {
            let with = relent::with(&bench.policy).timer(bench.clock.clone()).notify(bench.recorder.hook());
            let result = bench.run(bench.options(with).classify(judge).retry(|_attempt| on_clock(bench)));
            script.check("async, classify", &bench.trail(result, bench.clock.elapsed()), false);
        },
    );
}

#[test]
fn asynchronous_with_a_report() {
    each(
        |_| true,
        |bench, script| {
            let with = relent::with(&bench.policy).timer(bench.clock.clone()).classify(judge);
            let report = bench.run(bench.options(with).retry_report(|_attempt| on_clock(bench)));
            script.check("async, report", &bench.trail_of_report(report), false);
        },
    );
}

/// An attempt that takes its time on the virtual clock.
fn on_clock<'a>(bench: &'a Bench<'_>) -> impl Future<Output = Result<Said, Said>> + use<'a> {
    let (step, result) = bench.next();
    async move {
        match step.takes {
            Some(takes) => relent::Timer::sleep(&bench.clock, Duration::from_millis(takes)).await,
            None => std::future::pending().await,
        }
        result
    }
}

/// What a one-liner shows: attempts (of an error), reason and what comes back.
fn check_end<K>(script: &Script, driver: &str, result: Result<Said, Error<Said, K>>) {
    let expected = &script.expected;
    let comes_back = match &result {
        Ok(said) => Back::Ok(said.made),
        Err(error) => error.last().map_or(Back::NoError, |said| Back::Err(said.made)),
    };
    assert_eq!(comes_back, expected.comes_back, "{driver}: what \"{}\" returns", script.name);
    if let Err(error) = result {
        let end = (error.attempts(), error.reason());
        assert_eq!(end, (expected.attempts, expected.reason), "{driver}: end of \"{}\"", script.name);
    }
}

#[cfg(feature = "tokio")]
mod on_tokio {
    use super::*;

    /// Runs a call on tokio's own timer, paused. Tokio's timer knows milliseconds and rounds up.
    fn paused<T>(bench: &Bench<'_>, call: impl Future<Output = T>) -> (T, Duration) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let began = tokio::time::Instant::now();
            let returned = beside(call, bench.canceller(tokio::time::sleep)).await;
            (returned, began.elapsed())
        })
    }

    async fn attempt(bench: &Bench<'_>) -> Result<Said, Said> {
        let (step, result) = bench.next();
        match step.takes {
            Some(takes) => tokio::time::sleep(Duration::from_millis(takes)).await,
            None => std::future::pending().await,
        }
        result
    }

    #[test]
    fn in_one_line() {
        each(
            |script| !script.judges_results() && !script.has_options(),
            |bench, script| {
                let (result, ends) = paused(bench, relent::retry(&bench.policy, || attempt(bench)));
                if let Some(expected) = script.expected.ends {
                    assert_eq!(ends, Duration::from_millis(expected), "end of \"{}\"", script.name);
                }
                check_end(script, "tokio, one line", result);
            },
        );
    }

    #[test]
    fn with_options() {
        each(
            |script| !script.judges_results(),
            |bench, script| {
                let with = relent::with(&bench.policy).notify(bench.recorder.hook());
                let (result, ends) = paused(bench, bench.options(with).retry(|_attempt| attempt(bench)));
                script.check("tokio", &bench.trail(result, ends), true);
            },
        );
    }

    #[test]
    fn that_looks_at_results() {
        each(
            |_| true,
            |bench, script| {
                let with = relent::with(&bench.policy).notify(bench.recorder.hook()).classify(judge);
                let (result, ends) = paused(bench, bench.options(with).retry(|_attempt| attempt(bench)));
                script.check("tokio, classify", &bench.trail(result, ends), true);
            },
        );
    }

    /// Attempts that are ready at once never leave the first poll.
    #[test]
    fn with_attempts_that_are_ready_at_once() {
        let instant = |script: &Script| script.attempts.iter().all(|step| step.takes == Some(0));
        each(
            |script| instant(script) && !script.judges_results() && !script.has_options(),
            |bench, script| {
                let (result, _) =
                    paused(bench, relent::retry(&bench.policy, || std::future::ready(bench.next().1)));
                check_end(script, "tokio, ready at once", result);
            },
        );
    }
}

/// Any policy of everyday parts, in whole milliseconds so that ends coincide.
fn any_policy() -> impl Strategy<Value = relent::PolicyBuilder> {
    let jitter =
        prop_oneof![Just(relent::Jitter::None), Just(relent::Jitter::Full), Just(relent::Jitter::Equal)];
    let limits = (prop::option::of(1u64..40), prop::option::of(1u64..20), any::<bool>(), 1u32..7);
    (0u64..6, jitter, limits, 0u64..8, any::<u64>(), any::<bool>()).prop_map(
        |(initial, jitter, (deadline, timeout, fit, attempts), spread, seed, strict)| {
            let ms = Duration::from_millis;
            let mut policy =
                Policy::exponential(ms(initial)).jitter(jitter).max_attempts(attempts).seed(seed);
            policy = policy.initial_spread(ms(spread)).require_idempotency(strict).reset_after(ms(3));
            if let Some(deadline) = deadline {
                policy = policy.deadline(ms(deadline));
                policy =
                    policy.on_deadline(if fit { relent::OnDeadline::Fit } else { relent::OnDeadline::Stop });
            }
            match timeout {
                Some(timeout) => policy.attempt_timeout(ms(timeout)),
                None => policy,
            }
        },
    )
}

fn any_step(takes: impl Strategy<Value = u64>) -> impl Strategy<Value = Step> {
    let class = prop::sample::select(&[
        Class::Transient,
        Class::Transient,
        Class::Throttled,
        Class::Timeout,
        Class::NotSent,
        Class::Success,
        Class::Permanent,
    ]);
    let hint = prop::option::of((0u64..9).prop_map(|wait| relent::Hint::After(Duration::from_millis(wait))));
    let healthy = prop::option::of((0u64..6).prop_map(Duration::from_millis));
    (takes, any::<bool>(), class, hint, healthy).prop_map(|(takes, ok, class, hint, healthy_for)| {
        let outcome = Outcome { hint, healthy_for, ..Outcome::of(class) };
        // An error that calls itself a success is nobody's.
        Step { takes: Some(takes), ok: ok || class == Class::Success, outcome }
    })
}

proptest! {
    #![proptest_config(chance::config(500))]

    #[test]
    fn an_async_call_does_what_the_raw_core_does(
        policy in any_policy(),
        steps in prop::collection::vec(any_step(0u64..25), 60),
        cancelled_at in prop::option::of(0u64..40),
    ) {
        let script = Script::unexpected(policy, steps, cancelled_at);
        let bench = Bench::new(&script);
        let with = relent::with(&bench.policy).timer(bench.clock.clone()).notify(bench.recorder.hook());
        let result = bench.run(bench.options(with).classify(judge).retry(|_attempt| on_clock(&bench)));
        prop_assert_eq!(bench.trail(result, bench.clock.elapsed()), script.run_raw());
    }

    #[test]
    fn a_blocking_call_does_what_the_raw_core_does(
        policy in any_policy(),
        steps in prop::collection::vec(any_step(Just(0)), 60),
        cancelled_at in prop::option::of(0u64..40),
    ) {
        let script = Script::unexpected(policy, steps, cancelled_at);
        let bench = Bench::new(&script);
        let with = blocking::with(&bench.policy).timer(bench.interrupted()).notify(bench.recorder.hook());
        let result = bench.options(with).classify(judge).retry(|_attempt| bench.attempt());
        prop_assert_eq!(bench.trail(result, bench.clock.elapsed()), script.run_raw());
    }
}

/// The waits of a seed are the same in each driver, and differ without one.
#[test]
fn unseeded_calls_differ() {
    let policy = Policy::exponential(Duration::from_secs(100)).build().unwrap();
    let waits = || {
        let recorder = Recorder::new();
        let with = blocking::with(&policy).timer(Clock::new()).notify(recorder.hook());
        let _ = with.when(|_: &&str| Class::Transient).retry(|_attempt| Err::<(), _>("busy"));
        recorder.waits()
    };
    assert_ne!(waits(), waits());
}
