//! From texts by key to a policy: defaults, then the policy file, then the options.

use std::time::Duration;

use relent_core::{
    Class, Classes, First, HintMode, Jitter, Multiplier, OnDeadline, OverMax, Policy, PolicyBuilder, Schedule,
};

use super::{Origin, PolicyArgs, Resolved, Value};
use crate::durations::{self, parse as parse_duration};
use crate::exit::Error;

pub(super) fn resolve(args: &PolicyArgs, defaults: Policy) -> Result<Resolved, Error> {
    if args.policy.is_some() || args.config.is_some() {
        return Err(
            Error::usage("policy files cannot be read yet").help("use the options, such as --initial 100ms")
        );
    }
    let mut builder = defaults.to_builder();
    let mut schedule = Fields::of(defaults.backoff().schedule());
    let mut hint = *defaults.hint();
    let mut reserve = Duration::ZERO;
    let mut total = None;
    for (option, key, text) in args.given() {
        let refuse = |why: &str| Error::usage(format!("{option} {text}: {why}"));
        let time = || parse_duration(text).map_err(|why| refuse(&why));
        match key {
            "max_attempts" if text == "unlimited" => builder = builder.unlimited_attempts(),
            "max_attempts" => {
                let attempts =
                    text.parse().map_err(|_| refuse("not a whole number; or say \"unlimited\""))?;
                builder = builder.max_attempts(attempts);
            }
            "deadline" => total = Some(time()?),
            "deadline.reserve" => reserve = time()?,
            "on_deadline" => {
                builder = builder.on_deadline(match text {
                    "stop" => OnDeadline::Stop,
                    "fit" => OnDeadline::Fit,
                    _ => return Err(refuse("expected stop or fit")),
                });
            }
            "attempt_timeout" => builder = builder.attempt_timeout(time()?),
            "backoff.kind" => schedule.kind = text.to_owned(),
            "backoff.initial" | "backoff.slot" => schedule.initial = time()?,
            "backoff.step" => schedule.step = time()?,
            "backoff.multiplier" => {
                let number = text.parse().ok().and_then(Multiplier::new);
                schedule.multiplier =
                    number.ok_or_else(|| refuse("must be a finite number of at least 1"))?;
            }
            "backoff.waits" => {
                let waits = text.split(',').map(|wait| parse_duration(wait.trim()));
                schedule.waits = waits.collect::<Result<_, _>>().map_err(|why| refuse(&why))?;
                "list".clone_into(&mut schedule.kind);
            }
            "backoff.cap" if text == "none" => builder = builder.uncapped(),
            "backoff.cap" => builder = builder.cap(time()?),
            "backoff.floor" => builder = builder.floor(time()?),
            "backoff.first" => {
                builder = builder.first(match text {
                    "initial" => First::Initial,
                    "immediate" => First::Immediate,
                    _ => return Err(refuse("expected initial or immediate")),
                });
            }
            "backoff.initial_spread" => builder = builder.initial_spread(time()?),
            "jitter" => builder = builder.jitter(parse_jitter(text).map_err(|why| refuse(&why))?),
            "hint.mode" => {
                hint = hint.mode(match text {
                    "minimum" => HintMode::Minimum,
                    "exact" => HintMode::Exact,
                    "ignore" => HintMode::Ignore,
                    _ => return Err(refuse("expected minimum, exact or ignore")),
                });
            }
            "hint.max" => hint = hint.max(time()?),
            "hint.over_max" => {
                hint = hint.over_max(match text {
                    "abort" => OverMax::Abort,
                    "clamp" => OverMax::Clamp,
                    "ignore" => OverMax::Ignore,
                    _ => return Err(refuse("expected abort, clamp or ignore")),
                });
            }
            "retry_on" => {
                let classes = text.split(',').map(|word| word.trim().parse::<Class>());
                let classes =
                    classes.collect::<Result<Classes, _>>().map_err(|error| refuse(&error.to_string()))?;
                builder = builder.retry_on(classes);
            }
            "idempotency.require" => builder = builder.require_idempotency(true),
            "seed" => builder = builder.seed(text.parse().map_err(|_| refuse("not a whole number"))?),
            _ => {}
        }
    }
    if let Some(total) = total {
        builder = builder.deadline(relent_core::Deadline { total, reserve });
    }
    let policy = with_schedule(builder.hint(hint), &defaults, schedule)?;
    let values = values(&policy, args);
    Ok(Resolved { policy, name: None, file: None, values })
}

fn with_schedule(builder: PolicyBuilder, defaults: &Policy, fields: Fields) -> Result<Policy, Error> {
    let refused = |error: relent_core::PolicyError| Error::usage(error.to_string());
    let Fields { kind, initial, multiplier, step, waits } = fields;
    let schedule = match kind.as_str() {
        "exponential" => Schedule::Exponential { initial, multiplier },
        "constant" => Schedule::Constant { initial },
        "linear" => Schedule::Linear { initial, step },
        "fibonacci" => Schedule::Fibonacci { initial },
        "list" => Schedule::List(waits.into()),
        "csma" => Schedule::Csma { slot: initial, max_exponent: 10 },
        _ => return Err(Error::usage(format!("--backoff {kind}: no such schedule"))),
    };
    let shape = builder.clone().backoff(relent_core::Backoff::new(schedule.clone()));
    // The rest of the backoff was set on the builder; only its schedule is replaced.
    let probe = builder.build().map_err(refused)?;
    let set = probe.backoff();
    let mut backoff = relent_core::Backoff::new(schedule)
        .floor(set.shortest())
        .first(set.first_used())
        .bound(set.bound_used())
        .initial_spread(set.spread_of_first());
    backoff = match set.longest() {
        Some(cap) => backoff.cap(cap),
        None => backoff.uncapped(),
    };
    if kind != "csma" || set.jitter_used() != defaults.backoff().jitter_used() {
        backoff = backoff.jitter(set.jitter_used());
    }
    shape.backoff(backoff).build().map_err(refused)
}

struct Fields {
    kind: String,
    initial: Duration,
    multiplier: Multiplier,
    step: Duration,
    waits: Vec<Duration>,
}

impl Fields {
    fn of(schedule: &Schedule) -> Self {
        Self {
            kind: schedule.as_str().to_owned(),
            initial: schedule.initial(),
            multiplier: Multiplier::TWO,
            step: schedule.initial(),
            waits: Vec::new(),
        }
    }
}

/// Every value in use.
fn values(policy: &Policy, args: &PolicyArgs) -> Vec<Value> {
    let given: Vec<_> = args.given().collect();
    let origin = |key: &str| {
        given
            .iter()
            .find(|(_, given, _)| *given == key)
            .map_or(Origin::Default, |(option, ..)| Origin::Option(option))
    };
    let mut values = Vec::new();
    let mut say = |key: &str, value: String| {
        values.push(Value { key: key.to_owned(), value, origin: origin(key) });
    };
    let quoted = |duration| format!("\"{}\"", durations::short(duration));
    let backoff = policy.backoff();
    say("max_attempts", policy.max_attempts().map_or("\"unlimited\"".to_owned(), |n| n.to_string()));
    if let Some(deadline) = policy.deadline() {
        say("deadline", quoted(deadline.total));
    }
    if let Some(timeout) = policy.attempt_timeout() {
        say("attempt_timeout", quoted(timeout));
    }
    say("backoff.kind", format!("\"{}\"", backoff.schedule().as_str()));
    say("backoff.initial", quoted(backoff.schedule().initial()));
    if let Schedule::Exponential { multiplier, .. } = backoff.schedule() {
        say("backoff.multiplier", multiplier.to_string());
    }
    if let Some(cap) = backoff.longest() {
        say("backoff.cap", quoted(cap));
    }
    say("jitter", format!("\"{}\"", backoff.jitter_used().as_str()));
    if let Some(seed) = policy.seed() {
        say("seed", seed.to_string());
    }
    values
}

fn parse_jitter(text: &str) -> Result<Jitter, String> {
    let (kind, value) = text.split_once('=').unwrap_or((text, ""));
    Ok(match kind {
        "none" => Jitter::None,
        "full" => Jitter::Full,
        "equal" => Jitter::Equal,
        "decorrelated" => Jitter::Decorrelated,
        "decorrelated_v2" => Jitter::DecorrelatedV2,
        "proportional" => {
            Jitter::Proportional { factor: value.parse().map_err(|_| "needs a factor: proportional=0.2")? }
        }
        "additive" => Jitter::Additive { max: parse_duration(value)? },
        _ => return Err("no such jitter".to_owned()),
    })
}
