//! What calls of a policy share, in plain words, and what is wrong with it.

use std::time::Duration;

use relent_config::{Home, Scope};
use relent_core::{
    Backoff, BreakerMode, BreakerPolicy, BreakerWindow, BudgetPolicy, CommonPolicy, HedgeAfter, HedgePolicy,
    Ratio, Schedule, ThrottleCurve,
};

use super::text::percent;
use super::warnings::{Caller, Level, Warning};
use crate::durations::short;
use crate::policy_args::Resolved;

/// A sentence for each part, with what it does in an outage.
pub(super) fn lines(resolved: &Resolved) -> Vec<String> {
    let CommonPolicy { breaker, budgets, throttle, limiter, adaptive, bulkhead, memory, hedge } =
        resolved.common();
    let homes = resolved.budget_homes();
    let mut lines: Vec<String> = budgets
        .iter()
        .enumerate()
        .map(|(index, (policy, reserve))| budget(policy, *reserve, homes.get(index)))
        .collect();
    lines.extend(breaker.as_ref().map(|policy| breaker_line(policy, resolved.breaker_home())));
    if let Some(limit) = limiter {
        let wait = if limit.max_wait == Duration::MAX {
            "as long as it takes".to_owned()
        } else {
            format!("up to {}, and is refused beyond", short(limit.max_wait))
        };
        lines.push(format!(
            "Rate limit: {} in {}, {} at once after a quiet time; an attempt waits for its turn {wait}.",
            limit.rate.count(),
            short(limit.rate.per()),
            limit.burst
        ));
    }
    if *adaptive {
        lines.push("Adaptive rate: none until something is throttled, then what the target took, less 30 %, growing back.".to_owned());
    }
    if let Some(policy) = throttle {
        let what = match policy.curve {
            ThrottleCurve::Excess { k, .. } => {
                format!("more than {k} times as many attempts as are accepted")
            }
            ThrottleCurve::Shortfall { threshold } => format!("less than {} accepted", percent(threshold)),
            _ => "too little accepted".to_owned(),
        };
        lines.push(format!(
            "Throttle: {what} within {} and attempts are refused here, by chance, up to {} of them.",
            short(policy.window),
            percent(policy.max_rejection)
        ));
    }
    if let Some(policy) = bulkhead {
        let queue = if policy.queue > 0 { format!(", and {} wait", policy.queue) } else { String::new() };
        let retries = policy.retries();
        let share =
            if retries < policy.capacity { format!("; {retries} of them retries") } else { String::new() };
        lines.push(format!(
            "Bulkhead: {} attempts at once{share}{queue}; beyond that they are refused.",
            policy.capacity
        ));
    }
    if let Some(policy) = memory {
        lines.push(format!(
            "Memory: where everything fails a call begins with wait number {}; half of that is forgotten in {}.",
            policy.steps,
            short(policy.half_life)
        ));
    }
    lines.extend(hedge.as_ref().map(hedge_line));
    lines
}

fn budget(policy: &BudgetPolicy, reserve: Ratio, home: Option<&Home>) -> String {
    let what = match policy {
        BudgetPolicy::TokenBucket(bucket) => {
            let tokens = |thousandths: u32| f64::from(thousandths) / 1000.0;
            let at_once = match tokens(bucket.per_retry) {
                cost if cost > 0.0 => format!("{} retries", (bucket.capacity() as f64 / cost) as u64),
                _ => "retries until failures have emptied it".to_owned(),
            };
            let half = if bucket.half_full { ", while more than half of them are there" } else { "" };
            let then = match bucket.refill {
                Some(rate) => {
                    format!("then as many as {} tokens in {} allow", rate.count(), short(rate.per()))
                }
                None => {
                    format!("then none until calls succeed ({} of a token each)", tokens(bucket.per_success))
                }
            };
            format!(
                "{} tokens{half}: in a full outage {at_once}, {then}, however many calls there are.",
                bucket.capacity()
            )
        }
        BudgetPolicy::Window(window) => format!(
            "retries for {} of the calls of the last {}, and {} a second in any case: in a full outage the load is {:.2} times the calls, and those {}.",
            percent(window.ratio.as_f64()),
            short(window.ttl),
            window.floor,
            1.0 + window.ratio.as_f64(),
            window.floor
        ),
        BudgetPolicy::Concurrent(concurrent) => format!(
            "{} of the calls under way may be retries or wait for one, and {} in any case.",
            percent(concurrent.ratio.as_f64()),
            concurrent.floor
        ),
        BudgetPolicy::Quota(quota) => format!(
            "{}, of which a retry costs {} ({} after throttling): a full outage has spent it after {} retries, then none until calls succeed.",
            quota.capacity,
            quota.transient,
            quota.throttled,
            quota.capacity.checked_div(quota.transient).unwrap_or(quota.capacity)
        ),
        other => format!("{}.", other.as_str()),
    };
    let kept = if reserve > Ratio::ZERO {
        format!(" {} of it are kept for calls of high priority.", percent(reserve.as_f64()))
    } else {
        String::new()
    };
    format!("Budget{}: {what}{kept}", whose(home))
}

fn breaker_line(policy: &BreakerPolicy, home: Option<&Home>) -> String {
    let (calls, slowest) = match policy.window {
        BreakerWindow::Count(calls) => (format!("the last {calls} calls"), None),
        BreakerWindow::Time(size) => {
            let rate = f64::from(policy.min_calls) / size.as_secs_f64();
            (format!("the calls of the last {}", short(size)), Some(rate))
        }
        _ => ("the last calls".to_owned(), None),
    };
    let mut opens = Vec::new();
    match (policy.failures, policy.window) {
        (Some(failures), BreakerWindow::Consecutive) => {
            opens.push(format!("{failures} calls in a row have failed"))
        }
        (Some(failures), _) => opens.push(format!("{failures} of {calls} have failed")),
        (None, _) => {}
    }
    if let Some(ratio) = policy.failure_ratio {
        opens.push(format!(
            "{} of {calls} have failed, of at least {}",
            percent(ratio.as_f64()),
            policy.min_calls
        ));
    }
    if let Some(ratio) = policy.slow_ratio {
        opens.push(format!(
            "{} of {calls} took {} or longer",
            percent(ratio.as_f64()),
            short(policy.slow_after)
        ));
    }
    let by_ratio = policy.failure_ratio.or(policy.slow_ratio).is_some();
    let seldom = match slowest {
        Some(rate) if by_ratio => format!(" Below {rate:.2} calls a second no ratio ever opens it."),
        _ => String::new(),
    };
    let probes = if policy.max_probes == 1 {
        "one probe closes it".to_owned()
    } else {
        format!("{} of {} probes close it", percent(policy.success_ratio.as_f64()), policy.max_probes)
    };
    format!(
        "Breaker{}: opens where {}; {}; then {probes}.{seldom}",
        whose(home),
        opens.join(", or "),
        open_for(&policy.open_for)
    )
}

fn open_for(backoff: &Backoff) -> String {
    let first = short(backoff.schedule().initial());
    let grows = match (backoff.schedule(), backoff.longest()) {
        (Schedule::Constant { .. }, _) => String::new(),
        (_, Some(cap)) => format!(", longer each time it opens again, up to {}", short(cap)),
        (_, None) => ", longer each time it opens again, without end".to_owned(),
    };
    format!("for {first}{grows}")
}

fn hedge_line(policy: &HedgePolicy) -> String {
    let when = match policy.when {
        HedgeAfter::Fixed(delay) => format!("after {} without an answer", short(delay)),
        HedgeAfter::Quantile { share, initial, samples, .. } => format!(
            "where the answer is later than {} of them are ({} until there are {samples}), which is for {} of the calls",
            percent(share.as_f64()),
            short(initial),
            percent(1.0 - share.as_f64())
        ),
        HedgeAfter::AtOnce => "at once".to_owned(),
        HedgeAfter::Failure => "as soon as one has failed".to_owned(),
        _ => "by its own rule".to_owned(),
    };
    format!("Hedge: another attempt {when}; {} at most run at once.", policy.max_attempts)
}

fn whose(home: Option<&Home>) -> String {
    let scope = |home: &Home| match home.scope {
        Scope::Target => "each target its own",
        Scope::Process => "one for the whole process",
    };
    match home {
        Some(home @ Home { name: Some(name), .. }) => format!(" {name} ({})", scope(home)),
        Some(home) => format!(" ({})", scope(home)),
        None => String::new(),
    }
}

/// What is wrong with the parts, or will surprise somebody.
pub(super) fn warnings(resolved: &Resolved, caller: Caller) -> Vec<Warning> {
    let (policy, common) = (resolved.policy(), resolved.common());
    let mut found = Vec::new();
    let mut tell = |code, level, text: String, help| found.push(Warning { code, level, text, help });
    let bounded = policy.deadline().is_some() || caller.timeout.is_some();
    if let Some(hedge) = &common.hedge {
        let delay = match hedge.when {
            HedgeAfter::Fixed(delay) => Some(delay),
            HedgeAfter::Quantile { initial, floor, .. } => Some(initial.max(floor)),
            _ => None,
        };
        let ends = [policy.attempt_timeout(), policy.deadline().map(|deadline| deadline.usable())];
        if let (Some(delay), Some(end)) = (delay, ends.into_iter().flatten().min())
            && delay >= end
        {
            let text = format!(
                "A hedge starts after {}, and by then the attempt is over ({}).",
                short(delay),
                short(end)
            );
            tell(
                "hedge_too_late",
                Level::Warning,
                text,
                "Give it a shorter delay, or the attempt more time.",
            );
        }
        if common.budgets.is_empty() {
            let text = "Hedges are load, and nothing limits them in an outage.".to_owned();
            tell(
                "hedge_without_budget",
                Level::Warning,
                text,
                "Give the policy a `budget`, which hedges take from too.",
            );
        }
        if caller.not_idempotent {
            let text = "Calls that are not safe to repeat are never hedged.".to_owned();
            tell("hedge_not_idempotent", Level::Note, text, "Leave `hedge` out for them.");
        }
    }
    if let Some(limit) = &common.limiter
        && limit.max_wait == Duration::MAX
        && !bounded
    {
        let text = "An attempt may wait for its turn without end: a queue that nobody bounds.".to_owned();
        tell("endless_queue", Level::Warning, text, "Set `rate_limit.max_wait`, or a deadline.");
    }
    if let Some(bulkhead) = &common.bulkhead
        && bulkhead.queue > 0
        && bulkhead.max_wait == Duration::MAX
        && !bounded
    {
        let text = "An attempt may wait for a place without end.".to_owned();
        tell("endless_queue", Level::Warning, text, "Set `bulkhead.max_wait`, or a deadline.");
    }
    match common.breaker.as_ref().map(|breaker| breaker.mode) {
        Some(BreakerMode::ForcedOpen) => {
            let text = "The breaker is forced open: no attempt is made at all.".to_owned();
            tell(
                "breaker_forced_open",
                Level::Warning,
                text,
                "Set `mode = \"automatic\"` when that is over.",
            );
        }
        Some(mode @ (BreakerMode::Disabled | BreakerMode::MetricsOnly)) => {
            let text = format!("The breaker's mode is {mode}: it never opens.");
            tell("breaker_never_opens", Level::Note, text, "Set `mode = \"automatic\"` to have it act.");
        }
        _ => {}
    }
    if let Some(breaker) = &common.breaker
        && let BreakerWindow::Time(size) = breaker.window
        && breaker.failure_ratio.or(breaker.slow_ratio).is_some()
        && f64::from(breaker.min_calls) / size.as_secs_f64() > 1.0
    {
        let rate = f64::from(breaker.min_calls) / size.as_secs_f64();
        let text = format!(
            "Below {rate:.1} calls a second the breaker's window of {} never holds the {} calls that it asks for.",
            short(size),
            breaker.min_calls
        );
        tell("breaker_min_calls", Level::Note, text, "Take a longer window, or fewer `min_calls`.");
    }
    found
}
