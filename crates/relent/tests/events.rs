//! What hooks are told: the lines, the records and their schema.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::cell::RefCell;
use std::time::Duration;

use relent::testing::{Clock, Recorder, Script};
use relent::{Class, Event, Hint, Jitter, Outcome, Policy, Reason, Rule, blocking};

/// A call with one of everything: 10 s, a rule, a hint, a URL with secrets, a name, targets and a priority.
fn tell(hook: impl FnMut(&Event<'_, &'static str>)) -> Result<u32, relent::Error<&'static str>> {
    let rule = Rule::on(Class::Throttled).max_attempts(3);
    let policy = Policy::exponential(Duration::from_millis(250)).jitter(Jitter::None).rule(rule);
    let policy = policy.hint(relent::HintPolicy::DEFAULT.spread(0.0)).deadline(Duration::from_secs(10));
    let script = Script::new([
        Err("GET https://me:hunter2@db/?api_key=s3cr3t failed"),
        Err("slow\ndown"),
        Err("gone"),
    ]);
    let outcome = |error: &&str| match *error {
        "slow\ndown" => Outcome::of(Class::Throttled).hint(Hint::After(Duration::from_millis(1234))),
        "gone" => Class::Permanent.into(),
        _ => Class::Transient.into(),
    };
    let clock = Clock::new();
    blocking::with(&policy.build().unwrap())
        .timer(clock.clone())
        .name("charge")
        .target(["one:443", "https://u:p@two"])
        .priority(3)
        .when(outcome)
        .notify(hook)
        .retry(|_attempt| {
            clock.advance(Duration::from_micros(1500));
            script.next()
        })
}

#[test]
fn each_event_is_a_line() {
    let mut lines = vec![];
    tell(|event| lines.push(event.to_string())).unwrap_err();
    assert_eq!(
        lines,
        [
            "charge to one:443: attempt 1 of 4 started",
            "charge to one:443: attempt 1 of 4 failed (transient: GET https://***@db/?api_key=*** failed), next in 250ms \
             (schedule)",
            "charge to https://***@two: attempt 2 of 4 started",
            "charge to https://***@two: attempt 2 of 4 failed (throttled: slow\\ndown), next in 1.23s (hint)",
            "charge to one:443: attempt 3 of 4 started",
            "charge to one:443: attempt 3 of 4 failed (permanent: gone)",
            "charge to one:443: gave up after 3 attempts: not_retryable; gone",
        ]
    );
}

/// The schema is a promise: a change of these lines is a change of `v`.
#[cfg(feature = "serde")]
#[test]
fn each_event_is_a_json_object() {
    let mut lines = vec![];
    tell(|event| lines.push(serde_json::to_string(&event.record()).unwrap())).unwrap_err();
    assert_eq!(
        lines,
        [
            r#"{"v":1,"event":"attempt_started","name":"charge","target":"one:443","priority":3,"attempt":1,"max_attempts":4,"elapsed_ms":0.0,"remaining_ms":10000.0}"#,
            r#"{"v":1,"event":"decision","name":"charge","target":"one:443","priority":3,"attempt":1,"max_attempts":4,"class":"transient","error":"GET https://***@db/?api_key=*** failed","wait_ms":250.0,"source":"schedule","elapsed_ms":1.5,"remaining_ms":9998.5}"#,
            r#"{"v":1,"event":"attempt_started","name":"charge","target":"https://***@two","priority":3,"attempt":2,"max_attempts":4,"error":"GET https://***@db/?api_key=*** failed","elapsed_ms":251.5,"remaining_ms":9748.5}"#,
            r#"{"v":1,"event":"decision","name":"charge","target":"https://***@two","priority":3,"attempt":2,"max_attempts":4,"class":"throttled","rule":0,"error":"slow\ndown","wait_ms":1234.0,"source":"hint","elapsed_ms":253.0,"remaining_ms":9747.0}"#,
            r#"{"v":1,"event":"attempt_started","name":"charge","target":"one:443","priority":3,"attempt":3,"max_attempts":4,"error":"slow\ndown","elapsed_ms":1487.0,"remaining_ms":8513.0}"#,
            r#"{"v":1,"event":"decision","name":"charge","target":"one:443","priority":3,"attempt":3,"max_attempts":4,"class":"permanent","error":"gone","reason":"not_retryable","elapsed_ms":1488.5,"remaining_ms":8511.5}"#,
            r#"{"v":1,"event":"gave_up","name":"charge","target":"one:443","priority":3,"attempt":3,"max_attempts":4,"error":"gone","reason":"not_retryable","elapsed_ms":1488.5,"remaining_ms":8511.5}"#,
        ]
    );
}

/// The least that a record can hold.
#[cfg(feature = "serde")]
#[test]
fn absent_fields_are_left_out() {
    let policy = Policy::constant(Duration::ZERO).unlimited_attempts().build().unwrap();
    let lines = RefCell::new(vec![]);
    blocking::with(&policy)
        .timer(Clock::new())
        .notify(|event| lines.borrow_mut().push(serde_json::to_string(&event.record()).unwrap()))
        .retry(|_attempt| std::io::Result::Ok(()))
        .unwrap();
    assert_eq!(
        lines.into_inner(),
        [
            r#"{"v":1,"event":"attempt_started","attempt":1,"elapsed_ms":0.0}"#,
            r#"{"v":1,"event":"decision","attempt":1,"class":"success","reason":"succeeded","elapsed_ms":0.0}"#,
        ]
    );
}

#[test]
fn a_recorder_prints_the_timeline() {
    let recorder = Recorder::new();
    tell(recorder.hook()).unwrap_err();
    assert_eq!(
        recorder.to_string(),
        "       0 ms attempt_started 1
     1.5 ms decision 1 transient wait 250 ms (schedule)
   251.5 ms attempt_started 2
     253 ms decision 2 throttled wait 1234 ms (hint)
    1487 ms attempt_started 3
  1488.5 ms decision 3 permanent not_retryable
  1488.5 ms gave_up 3 not_retryable
"
    );
    assert_eq!(recorder.decisions().len(), 3);
    assert_eq!(recorder.waits(), [Duration::from_millis(250), Duration::from_millis(1234)]);
}

#[test]
fn the_last_error_is_there_and_no_older_one() {
    let policy = Policy::constant(Duration::ZERO).build().unwrap();
    let script = Script::new([Err("busy"), Ok(7)]);
    let mut seen = vec![];
    blocking::with(&policy)
        .timer(Clock::new())
        .when(|_: &&str| true)
        .notify(|event: &Event<'_, &str>| seen.push((event.kind(), event.attempt(), event.error.copied())))
        .retry(|_attempt| script.next())
        .unwrap();
    assert_eq!(
        seen,
        [
            ("attempt_started", 1, None),
            ("decision", 1, Some("busy")),
            ("attempt_started", 2, Some("busy")),
            ("decision", 2, None),
        ]
    );
}

/// An attempt that was cut off has no error: that of an earlier one would mislead.
#[test]
fn a_timeout_shows_no_older_error() {
    let policy = Policy::constant(Duration::ZERO).attempt_timeout(Duration::from_secs(1)).max_attempts(2);
    let (policy, clock, lines) = (policy.build().unwrap(), Clock::new(), RefCell::new(vec![]));
    let with = relent::with(&policy).timer(clock.clone()).when(|_: &&str| true);
    let call = with.notify(|event| lines.borrow_mut().push(event.to_string())).retry(async |attempt| {
        if attempt.number() == 2 {
            std::future::pending::<()>().await;
        }
        Err::<(), _>("busy")
    });
    let error = clock.run(call).unwrap().unwrap_err();
    assert_eq!(
        lines.borrow()[1..],
        [
            "attempt 1 of 2 failed (transient: busy), next in 0ns (schedule)",
            "attempt 2 of 2 started",
            "attempt 2 of 2 failed (timeout)",
            "gave up after 2 attempts: attempts_exhausted; busy",
        ]
    );
    assert_eq!(error.to_string(), "gave up after 2 attempts: no attempts left (the last attempt timed out)");
    assert_eq!(error.last(), Some(&"busy"));
}

#[test]
fn hooks_find_the_callers_context() {
    struct Request(u32);
    let policy = Policy::never();
    let request = Request(9);
    let mut seen = None;
    let with = blocking::with(&policy).timer(Clock::new()).context(&request);
    with.notify(|event: &Event<'_, std::io::Error>| {
        assert!(event.context::<String>().is_none());
        seen = event.context::<Request>().map(|request| request.0);
    })
    .retry(|_attempt| Ok(()))
    .unwrap();
    assert_eq!(seen, Some(9));
}

/// Whoever listens is told the time, even where the policy needs none.
#[test]
fn elapsed_needs_no_deadline() {
    let policy =
        Policy::constant(Duration::from_secs(2)).jitter(Jitter::None).max_attempts(2).build().unwrap();
    let recorder = Recorder::new();
    let with = blocking::with(&policy).timer(Clock::new()).notify(recorder.hook()).when(|_: &&str| true);
    let error = with.retry(|_attempt| Err::<(), _>("busy")).unwrap_err();
    assert_eq!(error.reason(), Reason::AttemptsExhausted);
    let elapsed: Vec<_> = recorder.events().iter().map(|event| event.elapsed_ms).collect();
    assert_eq!(elapsed, [Some(0.0), Some(0.0), Some(2000.0), Some(2000.0), Some(2000.0)]);
    assert!(recorder.events().iter().all(|event| event.remaining_ms.is_none()));
}
