//! One call against a script, in virtual time: the simulator as a driver among the others.

use std::time::Duration;

use relent_core::{Alone, Call, Class, Decision, Moment, Outcome, Policy, Reason, Start, Timestamp};

use crate::model::herd::nanos;
use crate::queue::Queue;

/// What an attempt of a script comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// How it ends, if nothing ends it earlier.
    pub outcome: Outcome,
    /// How long it takes. One that takes longer than the policy allows ends then, as a timeout that is as safe to repeat
    /// as `outcome` is.
    pub takes: Duration,
}

impl Step {
    /// An attempt that ends at once.
    pub const fn at_once(outcome: Outcome) -> Self {
        Self { outcome, takes: Duration::ZERO }
    }
}

/// What came of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// How many attempts count: those since the last time of health.
    pub attempts: u32,
    /// The waits, in their order: one before the first attempt too, where the policy spreads those.
    pub waits: Vec<Duration>,
    /// Why the call ended.
    pub reason: Reason,
    /// When it ended, from its start.
    pub took: Duration,
}

#[derive(Clone, Copy)]
enum Event {
    Begin,
    Ended(Outcome),
}

/// Runs a call whose attempts come to the steps of `script`, one after another (the last one repeats; an empty script
/// succeeds), through the engine's queue in virtual time. `luck` gives the random number for the decision after
/// attempt number n, from 1; 0 is the start.
///
/// ```
/// use std::time::Duration;
/// use relent_core::{Class, Jitter, Outcome, Policy, Reason};
/// use relent_sim::{Step, play};
///
/// let policy = Policy::exponential(Duration::from_millis(100)).jitter(Jitter::None).build()?;
/// let played = play(&policy, &[Step::at_once(Outcome::of(Class::Transient))], |_| 0);
/// assert_eq!((played.attempts, played.reason), (4, Reason::AttemptsExhausted));
/// assert_eq!(played.waits, [100, 200, 400].map(Duration::from_millis));
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
pub fn play(policy: &Policy, script: &[Step], luck: impl Fn(u32) -> u64) -> Played {
    let mut queue = Queue::new();
    let mut call = Call::new(Some(Timestamp::ZERO));
    let mut waits = Vec::new();
    let moment = |now: u64, number: u32| Moment::at(Timestamp::from_nanos(now), luck(number));
    let played = |call: &Call, waits: &[Duration], reason, now| Played {
        attempts: call.attempts(),
        waits: waits.to_vec(),
        reason,
        took: Duration::from_nanos(now),
    };
    let mut started = Some(call.start(policy, &mut Alone, moment(0, 0)));
    queue.push(0, Event::Begin);
    let (mut last, mut made) = (0, 0);
    while let Some((now, event)) = queue.pop() {
        last = now;
        match event {
            Event::Begin => {
                let start = started.take();
                let start =
                    start.unwrap_or_else(|| call.admit(policy, &mut Alone, moment(now, call.attempts())));
                match start {
                    Start::Go => {
                        let step = script.get(made).or(script.last()).copied();
                        let step = step.unwrap_or(Step::at_once(Outcome::of(Class::Success)));
                        made += 1;
                        let (after, outcome) = attempt(policy, &call, step, now);
                        queue.push(now.saturating_add(after), Event::Ended(outcome));
                    }
                    Start::Wait { after, .. } => {
                        waits.push(after);
                        queue.push(now.saturating_add(nanos(after)), Event::Begin);
                    }
                    Start::Stop { reason } => return played(&call, &waits, reason, now),
                }
            }
            Event::Ended(outcome) => {
                match call.decide(policy, &mut Alone, outcome, moment(now, call.attempts() + 1)) {
                    Decision::Retry { after, .. } => {
                        waits.push(after);
                        queue.push(now.saturating_add(nanos(after)), Event::Begin);
                    }
                    Decision::Stop { reason, after } => {
                        let now = now.saturating_add(after.map_or(0, nanos));
                        return played(&call, &waits, reason, now);
                    }
                }
            }
        }
    }
    // Every event above schedules the next one or returns.
    played(&call, &waits, Reason::Cancelled, last)
}

/// How long an attempt takes, and what it comes to.
fn attempt(policy: &Policy, call: &Call, step: Step, now: u64) -> (u64, Outcome) {
    match call.attempt_limit(policy, Timestamp::from_nanos(now)) {
        Some(limit) if step.takes > limit => {
            (nanos(limit), Outcome { repeat: step.outcome.repeat, ..Outcome::of(Class::Timeout) })
        }
        _ => (nanos(step.takes), step.outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_core::{Hint, HintPolicy, Jitter};

    const OK: Step = Step::at_once(Outcome::of(Class::Success));
    const SLOW: Step = Step::at_once(Outcome::of(Class::Transient));
    const GONE: Step = Step::at_once(Outcome::of(Class::Permanent));

    fn busy() -> Step {
        Step::at_once(Outcome::of(Class::Throttled).hint(Hint::After(Duration::from_millis(500))))
    }

    #[test]
    fn scripts_come_to_what_the_core_says() {
        // What each attempt returns, how many are made, how long the waits add up to, and why it ended.
        let rows: [(&[Step], u32, u64, Reason); 6] = [
            (&[OK], 1, 0, Reason::Succeeded),
            (&[SLOW, OK], 2, 100, Reason::Succeeded),
            (&[SLOW, busy(), OK], 3, 600, Reason::Succeeded),
            (&[GONE, OK], 1, 0, Reason::NotRetryable),
            (&[SLOW; 9], 4, 700, Reason::AttemptsExhausted),
            (&[busy(); 9], 3, 1000, Reason::DeadlineWouldPass),
        ];
        let policy = Policy::exponential(Duration::from_millis(100))
            .jitter(Jitter::None)
            .hint(HintPolicy::DEFAULT.spread(0.0))
            .deadline(Duration::from_millis(1200))
            .build()
            .unwrap();
        for (script, attempts, waited, reason) in rows {
            let played = play(&policy, script, |_| 0);
            let sum: Duration = played.waits.iter().sum();
            assert_eq!((played.attempts, played.reason), (attempts, reason), "{script:?}");
            assert_eq!(sum, Duration::from_millis(waited), "{script:?}");
            assert_eq!(played.took, sum);
        }
    }

    #[test]
    fn an_attempt_ends_with_its_limit() {
        let policy = Policy::constant(Duration::from_secs(1))
            .jitter(Jitter::None)
            .attempt_timeout(Duration::from_millis(300))
            .deadline(Duration::from_secs(2))
            .initial_spread(Duration::from_millis(200))
            .build()
            .unwrap();
        let hangs = Step { outcome: Outcome::of(Class::Success), takes: Duration::from_secs(60) };
        let played = play(&policy, &[hangs], |_| u64::MAX / 2 + 1);
        // Spread 100 ms, 300 ms of attempt, 1 s, 300 ms: at 1.7 s the next would begin after the deadline.
        assert_eq!(played.waits, [100, 1000].map(Duration::from_millis));
        assert_eq!((played.attempts, played.reason), (2, Reason::DeadlineWouldPass));
        assert_eq!(played.took, Duration::from_millis(1700));
    }
}
