//! Whatever panics inside a call leaves nothing poisoned: the options, the token and the clock go on working.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use relent::testing::{Clock, Recorder, Script};
use relent::{Attempt, Event, Jitter, Policy, Token, blocking};

/// Where it panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum In {
    FirstAttempt,
    LaterAttempt,
    Hook,
    Classifier,
    Nothing,
}

const PLACES: [In; 4] = [In::FirstAttempt, In::LaterAttempt, In::Hook, In::Classifier];

/// An error whose text is the caller's affair, but not what it does when printed.
#[derive(Debug)]
struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

struct Shared {
    policy: Policy,
    clock: Clock,
    token: Token,
    recorder: Recorder,
}

impl Shared {
    fn new() -> Self {
        let policy =
            Policy::constant(Duration::from_secs(1)).jitter(Jitter::None).deadline(Duration::from_secs(60));
        let (clock, token, recorder) = (Clock::new(), Token::new(), Recorder::new());
        Self { policy: policy.max_attempts(3).build().unwrap(), clock, token, recorder }
    }

    fn attempt(place: In, attempt: &Attempt<Clock>) -> Result<(), Failed> {
        match attempt.number() {
            1 if place == In::FirstAttempt => panic!("in the first attempt"),
            2 if place == In::LaterAttempt => panic!("in a later attempt"),
            _ => Err(Failed),
        }
    }

    fn classify(place: In, _: &Failed) -> bool {
        if place == In::Classifier { panic!("in the classifier") } else { true }
    }

    fn hook(&self, place: In) -> impl FnMut(&Event<'_, Failed>) {
        let mut record = self.recorder.hook();
        move |event| {
            record(event);
            if place == In::Hook && event.wait().is_some() {
                panic!("in the hook")
            }
        }
    }

    /// Runs a blocking call and says how many attempts it had.
    fn blocking(&self, place: In) -> u32 {
        let with = blocking::with(&self.policy).timer(self.clock.clone()).cancel_on(&self.token);
        let with = with.notify(self.hook(place)).when(move |error: &_| Self::classify(place, error));
        with.retry(|attempt| Self::attempt(place, &attempt)).unwrap_err().attempts()
    }

    fn asynchronous(&self, place: In) -> u32 {
        let with = relent::with(&self.policy).timer(self.clock.clone()).cancel_on(&self.token);
        let with = with.notify(self.hook(place)).when(move |error: &_| Self::classify(place, error));
        let call = with.retry(async |attempt| {
            relent::Timer::sleep(&self.clock, Duration::from_millis(1)).await;
            Self::attempt(place, &attempt)
        });
        self.clock.run(call).unwrap().unwrap_err().attempts()
    }
}

#[test]
fn a_panic_leaves_nothing_poisoned() {
    let shared = Shared::new();
    for call in [Shared::blocking, Shared::asynchronous] {
        for place in PLACES {
            let panicked = catch_unwind(AssertUnwindSafe(|| call(&shared, place)));
            let message = *panicked.expect_err("it panics").downcast::<&str>().unwrap();
            assert!(message.starts_with("in "), "the caller's own panic, not one of relent's: {message}");
            assert_eq!(shared.clock.asleep(), 0, "{place:?}");
            assert_eq!(call(&shared, In::Nothing), 3, "after {place:?}");
        }
    }
    assert!(!shared.recorder.events().is_empty());
    shared.token.cancel();
    assert_eq!(shared.asynchronous(In::Nothing), 0, "the token works");
}

#[test]
fn a_script_that_is_over_says_so_each_time() {
    let script = Script::new([Ok::<_, ()>(1)]);
    assert_eq!(script.next(), Ok(1));
    for attempt in [2, 3] {
        let panicked = catch_unwind(AssertUnwindSafe(|| script.next())).unwrap_err();
        let message = panicked.downcast::<String>().unwrap();
        assert_eq!(*message, format!("attempt {attempt} was made, which the script does not have"));
    }
    assert_eq!(script.attempts(), 3);
}
