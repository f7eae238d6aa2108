//! What is wrong with a policy, or will surprise somebody.

use std::time::Duration;

use relent_core::{Backoff, Bound, Class, First, Jitter, Multiplier, Policy, Schedule};

use super::schedule::{Assumptions, Plan, backoff_in_use};
use crate::durations::short;
use crate::policy_args::Resolved;

/// One finding, with a stable code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) code: &'static str,
    pub(crate) level: Level,
    /// What is wrong, and what follows from it.
    pub(crate) text: String,
    /// The way out.
    pub(crate) help: &'static str,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// It will hurt somebody.
    Warning,
    /// It is worth knowing.
    Note,
}

impl Level {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// What is known about the caller.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller {
    /// When the caller gives up.
    pub(crate) timeout: Option<Duration>,
    /// Its calls have effects that a repeat would double.
    pub(crate) not_idempotent: bool,
}

/// Waits below this hit a service that has had no time to change: a retry storm of one.
const SHORTEST_SENSIBLE: Duration = Duration::from_millis(10);
/// After this long whoever waits for the answer has left, unless they said otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// A last attempt that fewer calls than this reach is there in name only.
const RARELY: f64 = 0.05;

/// All findings, the worst first.
pub(crate) fn of(resolved: &Resolved, plan: &Plan, assumed: &Assumptions, caller: Caller) -> Vec<Warning> {
    let policy = resolved.policy();
    let mut found = Vec::new();
    if policy.max_attempts() == Some(1) {
        found.push(note(
            "no_retry",
            "One attempt and no retry.".into(),
            "Allow a second one: --max-attempts 2.",
        ));
        found.extend(about_time(policy, plan, caller));
        return found;
    }
    let backoff = backoff_in_use(policy, assumed);
    found.extend(about_the_herd(policy, backoff));
    found.extend(about_the_waits(resolved, plan, backoff));
    found.extend(about_the_end(policy, plan));
    found.extend(about_time(policy, plan, caller));
    found.extend(about_safety(policy, caller));
    found.sort_by_key(|warning| warning.level != Level::Warning);
    found
}

/// Clients that failed together and come back together.
fn about_the_herd(policy: &Policy, backoff: &Backoff) -> Vec<Warning> {
    let mut found = Vec::new();
    let draws_itself = matches!(backoff.schedule(), Schedule::Csma { .. });
    if backoff.jitter_used() == Jitter::None && !draws_itself {
        found.push(warning(
            "no_jitter",
            "No jitter: clients that failed together try again together, each time.".into(),
            "Spread them: --jitter full.",
        ));
    }
    if policy.seed().is_some() {
        found.push(warning(
            "seeded",
            "A fixed seed: every client with this policy draws the same waits, as if there were no jitter."
                .into(),
            "Leave the seed to the tests.",
        ));
    }
    if backoff.first_used() == First::Immediate {
        found.push(note(
            "immediate_first_retry",
            "The first retry comes at once: in an outage it doubles the load in the worst moment.".into(),
            "Let it wait: --first initial.",
        ));
    }
    if backoff.bound_used() == Bound::Sample {
        found.push(note(
            "piles_up_at_cap",
            "Waits are clamped to the cap after jitter: in a long outage much of a fleet waits exactly the cap.".into(),
            "Leave out bound = \"sample\"; then the range is cut and the spread stays.",
        ));
    }
    found
}

fn about_the_waits(resolved: &Resolved, plan: &Plan, backoff: &Backoff) -> Vec<Warning> {
    let mut found = Vec::new();
    let first = longest_first_wait(backoff);
    let ethernet = matches!(backoff.schedule(), Schedule::Csma { .. });
    if first < SHORTEST_SENSIBLE && backoff.shortest() < SHORTEST_SENSIBLE && !ethernet {
        found.push(warning(
            "initial_too_short",
            format!("The first wait is {}: the retry meets the service in the same state.", short(first)),
            "Wait at least 10ms: --initial 100ms.",
        ));
    }
    let longest = plan.longest_wait;
    match backoff.longest() {
        None if grows(backoff.schedule()) => found.push(warning(
            "no_cap",
            format!("No cap: waits grow without end, to {} so far.", short(longest)),
            "Bound them: --cap 20s.",
        )),
        // The default cap is meant for any number of attempts; one that was set is a mistake or a misunderstanding.
        Some(cap) if resolved.was_set("backoff.cap") && longest < cap && plan.calls.is_some() => {
            found.push(note(
                "cap_never_reached",
                format!(
                    "The cap of {} is never reached: the longest wait is {}.",
                    short(cap),
                    short(longest)
                ),
                "Lower the cap, or leave it out.",
            ));
        }
        _ => {}
    }
    found
}

/// What the schedule begins with, as far as the cap lets it.
fn longest_first_wait(backoff: &Backoff) -> Duration {
    let initial = backoff.schedule().initial();
    backoff.longest().map_or(initial, |cap| initial.min(cap))
}

fn about_the_end(policy: &Policy, plan: &Plan) -> Vec<Warning> {
    let mut found = Vec::new();
    if policy.max_attempts().is_none() && policy.deadline().is_none() {
        found.push(warning(
            "unlimited_without_deadline",
            "Nothing ends the call: attempts are unlimited and there is no deadline.".into(),
            "Set an end: --deadline 30s, or --max-attempts 5.",
        ));
    }
    if let (Some(deadline), Some(limit)) = (policy.deadline(), plan.calls) {
        let reached = plan.last_reached;
        let usable = short(deadline.usable());
        let help = "Fewer attempts, shorter waits or a longer deadline.";
        if reached == 0.0 {
            let text =
                format!("Attempt {limit} cannot be reached: the deadline ends the call after {usable}.");
            found.push(warning("last_attempt_unreachable", text, help));
        } else if reached < RARELY {
            let percent = reached * 100.0;
            let text = format!(
                "Attempt {limit} is reached by {percent:.1} % of failing calls; the deadline of {usable} ends the others."
            );
            found.push(note("last_attempt_rarely_reached", text, help));
        }
    }
    let hopeless: Vec<_> = [Class::Permanent, Class::Ignored]
        .into_iter()
        .filter(|class| policy.retry_on().contains(*class))
        .collect();
    if let Some(class) = hopeless.first() {
        found.push(warning(
            "hopeless_retried",
            format!("The class {} is retried: another try of it fails again.", class.as_str()),
            "Leave it out of retry_on.",
        ));
    }
    found
}

fn about_time(policy: &Policy, plan: &Plan, caller: Caller) -> Vec<Warning> {
    let mut found = Vec::new();
    let waits = plan.waits.map(|waits| waits.highest);
    let at_least = plan.worst.or(waits);
    match (caller.timeout, plan.worst) {
        (Some(timeout), worst) if worst.is_none_or(|worst| worst > timeout) => {
            let takes = match worst {
                Some(worst) => format!("this policy can take {}", short(worst)),
                None => "nothing limits how long this policy takes".to_owned(),
            };
            found.push(warning(
                "caller_gives_up_first",
                format!(
                    "The caller gives up after {}, but {takes}: the last attempts are made for nobody.",
                    short(timeout)
                ),
                "Give the policy a deadline below the caller's timeout.",
            ));
        }
        (None, _) if at_least.is_some_and(|time| time > PATIENCE) => {
            let time = at_least.map(short).unwrap_or_default();
            found.push(note(
                "failure_known_late",
                format!("A failure is known late: the caller may wait {time} for it."),
                "If somebody waits for the answer, set --deadline; say --caller-timeout to check it against them.",
            ));
        }
        _ => {}
    }
    match (policy.attempt_timeout(), policy.deadline()) {
        (None, None) => found.push(note(
            "hang_never_ends",
            "Nothing ends an attempt that hangs: there is no attempt timeout and no deadline.".into(),
            "Set --attempt-timeout, or be sure that the operation has a timeout of its own.",
        )),
        (None, Some(_)) if policy.max_attempts() != Some(1) => found.push(note(
            "hang_known_too_late",
            "An attempt that hangs is ended by the deadline only: nothing is left for another one.".into(),
            "Set --attempt-timeout to a part of the deadline.",
        )),
        (Some(timeout), Some(deadline))
            if timeout >= deadline.usable() && policy.max_attempts() != Some(1) =>
        {
            found.push(warning(
                "hang_known_too_late",
                format!(
                    "An attempt that hangs is known too late: its timeout of {} leaves nothing of the deadline of {}.",
                    short(timeout),
                    short(deadline.usable())
                ),
                "Make the attempt timeout a part of the deadline.",
            ));
        }
        _ => {}
    }
    found
}

fn about_safety(policy: &Policy, caller: Caller) -> Vec<Warning> {
    if !caller.not_idempotent || policy.requires_idempotency() {
        return Vec::new();
    }
    vec![warning(
        "unsafe_without_key",
        "The calls have effects and nothing keeps a repeat from doing them twice: a timeout does not say that \
         nothing was done."
            .into(),
        "Send an idempotency key and set --require-idempotency.",
    )]
}

fn grows(schedule: &Schedule) -> bool {
    match schedule {
        Schedule::Exponential { multiplier, .. } => *multiplier != Multiplier::ONE,
        Schedule::Linear { step, .. } => !step.is_zero(),
        Schedule::Fibonacci { .. } => true,
        _ => false,
    }
}

fn warning(code: &'static str, text: String, help: &'static str) -> Warning {
    Warning { code, level: Level::Warning, text, help }
}

fn note(code: &'static str, text: String, help: &'static str) -> Warning {
    Warning { code, level: Level::Note, text, help }
}
