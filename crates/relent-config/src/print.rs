//! A policy as TOML.

use relent_core::{
    Backoff, Bound, Class, Classes, CommonPolicy, Count, First, HintMode, HintPolicy, Jitter, OnBudget,
    OnDeadline, OverMax, Policy, Rule, Schedule,
};

use crate::read;
use crate::shared::{Home, Scope};
use crate::text::{classes_text, float_text, jitter_text, quoted, stage_text, text_of, toml_string};

/// The keys of a policy as TOML, without the header `[policies.NAME]`: what the defaults say too is left out.
///
/// Read again, it gives an equal policy, apart from what has no effect and so cannot be written (a multiplier beside
/// decorrelated jitter, rules for classes that are not retried, `on_budget` without a budget). Rules get the names `rule-1`, `rule-2` ….
///
/// ```
/// use std::time::Duration;
/// use relent_core::Policy;
///
/// let policy = Policy::constant(Duration::from_secs(1)).max_attempts(3).build()?;
/// assert_eq!(
///     relent_config::to_toml(&policy),
///     "max_attempts = 3\nbackoff = { kind = \"constant\", initial = \"1s\" }\n",
/// );
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
pub fn to_toml(policy: &Policy) -> String {
    self::policy(policy, &[])
}

/// The same; the first rules have these names.
pub(crate) fn policy(policy: &Policy, names: &[String]) -> String {
    let mut lines = Lines(String::new());
    let plain = Policy::default();
    match policy.max_attempts() {
        None => lines.entry("max_attempts", "\"unlimited\""),
        some if some == plain.max_attempts() => {}
        Some(attempts) => lines.entry("max_attempts", &attempts.to_string()),
    }
    if let Some(deadline) = policy.deadline() {
        let total = quoted(deadline.total);
        if deadline.reserve.is_zero() {
            lines.entry("deadline", &total);
        } else {
            let reserve = quoted(deadline.reserve);
            lines.entry("deadline", &format!("{{ total = {total}, reserve = {reserve} }}"));
        }
        if policy.on_deadline() == OnDeadline::Fit {
            lines.entry("on_deadline", "\"fit\"");
        }
    }
    if let Some(timeout) = policy.attempt_timeout() {
        lines.entry("attempt_timeout", &quoted(timeout));
    }
    let backoff = backoff_entries(policy.backoff(), None);
    if policy.backoff().schedule() != plain.backoff().schedule() || backoff.len() > 2 {
        lines.entry("backoff", &inline(&backoff));
    }
    if policy.backoff().jitter_used() != default_jitter(policy.backoff()) {
        lines.entry("jitter", &jitter_text(policy.backoff().jitter_used()));
    }
    let hint = hint_entries(policy.hint());
    if !hint.is_empty() {
        lines.entry("hint", &inline(&hint));
    }
    if policy.retry_on() != plain.retry_on() {
        lines.entry("retry_on", &classes_text(policy.retry_on()));
    }
    lines.rules(policy, names);
    if let Some(backoff) = policy.high_backoff() {
        let own = [
            ("backoff", inline(&backoff_entries(backoff, Some(policy.backoff())))),
            ("jitter", jitter_text(backoff.jitter_used())),
        ];
        lines.entry("on.priority.high", &inline(&own));
    }
    if policy.requires_idempotency() {
        lines.entry("idempotency", "{ require = true }");
    }
    if let Some(seed) = policy.seed() {
        lines.entry("seed", &seed.to_string());
    }
    lines.0
}

/// What a policy does when a budget refuses, where there is one.
pub(crate) fn on_budget(policy: &Policy, shared: &CommonPolicy) -> &'static str {
    match policy.on_budget() {
        OnBudget::Wait if !shared.budgets.is_empty() => "on_budget = \"wait\"\n",
        OnBudget::Wait | OnBudget::Stop => "",
    }
}

/// The keys of what calls of a policy share, as TOML, to stand beside those of [`to_toml`].
///
/// Read again, it gives an equal value, apart from what has no effect and so cannot be written (a success ratio of one
/// probe), and from ratios above 1.
///
/// ```
/// use relent_core::{BreakerPolicy, CommonPolicy, Quota, Ratio};
///
/// let shared = CommonPolicy {
///     breaker: Some(BreakerPolicy::consecutive(5)),
///     budgets: vec![(Quota::aws_2026().into(), Ratio::ZERO)],
///     ..CommonPolicy::default()
/// };
/// assert_eq!(
///     relent_config::common_to_toml(&shared),
///     "budget = { kind = \"quota\", capacity = 500, cost = { transient = 14, throttled = 5 } }
/// breaker = { window = { kind = \"consecutive\" }, failures = 5 }
/// ",
/// );
/// ```
pub fn common_to_toml(shared: &CommonPolicy) -> String {
    common(shared, None, &[])
}

/// The same; these are their homes.
pub(crate) fn common(shared: &CommonPolicy, breaker: Option<&Home>, budgets: &[Home]) -> String {
    let mut lines = Lines(String::new());
    let scope = |home: Option<&Home>| home.map_or(Scope::Target, |home| home.scope);
    let entries = shared.budgets.iter().enumerate().map(|(index, (policy, reserve))| {
        inline(&read::budget::entries(policy, *reserve, scope(budgets.get(index))))
    });
    match entries.collect::<Vec<_>>().as_slice() {
        [] => {}
        [one] => lines.entry("budget", one),
        several => lines.entry("budget", &format!("[{}]", several.join(", "))),
    }
    if let Some(policy) = &shared.breaker {
        lines.entry("breaker", &inline(&read::breaker::entries(policy, scope(breaker))));
    }
    if let Some(policy) = &shared.limiter {
        lines.entry("rate_limit", &inline(&read::limits::limiter_entries(policy)));
    }
    if shared.adaptive {
        lines.entry("adaptive_rate", "true");
    }
    if let Some(policy) = &shared.throttle {
        lines.entry("throttle", &inline(&read::limits::throttle_entries(policy)));
    }
    if let Some(policy) = &shared.bulkhead {
        lines.entry("bulkhead", &inline(&read::limits::bulkhead_entries(policy)));
    }
    if let Some(policy) = &shared.memory {
        lines.entry("memory", &inline(&read::limits::memory_entries(policy)));
    }
    if let Some(policy) = &shared.hedge {
        lines.entry("hedge", &inline(&read::limits::hedge_entries(policy)));
    }
    lines.0
}

struct Lines(String);

impl Lines {
    fn entry(&mut self, key: &str, value: &str) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    fn rules(&mut self, policy: &Policy, names: &[String]) {
        let rules = policy.rules();
        let short = rules_for_one_class(rules, names.len());
        let (long, short) = rules.split_at_checked(rules.len() - short).unwrap_or((rules, &[]));
        let mut taken = Classes::NONE;
        let mut useful = |classes: Classes| -> Classes {
            let left = classes
                .iter()
                .filter(|class| policy.retry_on().contains(*class) && !taken.contains(*class))
                .collect();
            taken = classes.iter().fold(taken, Classes::with);
            left
        };
        if !long.is_empty() {
            self.0.push_str("rules = [\n");
            for (index, rule) in long.iter().enumerate() {
                let name = names.get(index).map_or_else(|| format!("rule-{}", index + 1), String::clone);
                let mut entries = vec![("name", toml_string(&name))];
                let classes = useful(rule.classes());
                if !classes.is_empty() {
                    entries.push(("classes", classes_text(classes)));
                }
                entries.extend(rule_entries(rule, policy.backoff()));
                self.0.push_str(&format!("    {},\n", inline(&entries)));
            }
            self.0.push_str("]\n");
        }
        for rule in short {
            if let Some(class) = useful(rule.classes()).iter().next() {
                self.entry(&format!("on.{class}"), &inline(&rule_entries(rule, policy.backoff())));
            }
        }
    }
}

/// How many rules at the end can be written as `on.CLASS`: each for one class, in the order of the classes.
fn rules_for_one_class(rules: &[Rule], named: usize) -> usize {
    let mut count = 0;
    let mut next: Option<Class> = None;
    for (index, rule) in rules.iter().enumerate().rev() {
        let mut classes = rule.classes().iter();
        let (Some(class), None) = (classes.next(), classes.next()) else { break };
        let ordered = next.is_none_or(|next| class < next);
        let says_something = rule.limit().is_some() || rule.own_backoff().is_some();
        if index < named || !ordered || !says_something {
            break;
        }
        count += 1;
        next = Some(class);
    }
    count
}

fn rule_entries(rule: &Rule, policy: &Backoff) -> Vec<(&'static str, String)> {
    let mut entries = Vec::new();
    if let Some(attempts) = rule.limit() {
        entries.push(("max_attempts", attempts.to_string()));
    }
    if let Some(backoff) = rule.own_backoff() {
        entries.push(("backoff", inline(&backoff_entries(backoff, Some(policy)))));
        entries.push(("jitter", jitter_text(backoff.jitter_used())));
        if rule.counts() == Count::All {
            entries.push(("count", "\"all\"".into()));
        }
    }
    entries
}

/// The entries of a backoff; of a rule's (over the policy's) all that might be inherited otherwise.
pub(crate) fn backoff_entries(backoff: &Backoff, over: Option<&Backoff>) -> Vec<(&'static str, String)> {
    let schedule = backoff.schedule();
    let mut entries = vec![("kind", toml_string(schedule.as_str()))];
    let jitter = backoff.jitter_used();
    let remembers = matches!(jitter, Jitter::Decorrelated | Jitter::DecorrelatedV2);
    match schedule {
        Schedule::Linear { initial, step } => {
            entries.push(("initial", quoted(*initial)));
            entries.push(("step", quoted(*step)));
        }
        Schedule::Exponential { initial, multiplier } => {
            entries.push(("initial", quoted(*initial)));
            let doubles = multiplier.as_f64() == 2.0 && over.is_none();
            if !doubles && !remembers {
                entries.push(("multiplier", float_text(multiplier.as_f64())));
            }
        }
        Schedule::List(waits) => {
            let waits: Vec<String> = waits.iter().map(|wait| quoted(*wait)).collect();
            entries.push(("waits", format!("[{}]", waits.join(", "))));
        }
        Schedule::Stages(stages) => {
            let stages: Vec<String> = stages.iter().map(stage_text).collect();
            entries.push(("stages", format!("[{}]", stages.join(", "))));
        }
        Schedule::Csma { slot, max_exponent } => {
            entries.push(("slot", quoted(*slot)));
            entries.push(("max_exponent", max_exponent.to_string()));
        }
        other => entries.push(("initial", quoted(other.initial()))),
    }
    let grows = matches!(
        schedule,
        Schedule::Linear { .. } | Schedule::Exponential { .. } | Schedule::Fibonacci { .. }
    );
    let built_in = grows.then_some(std::time::Duration::from_secs(20));
    let above = built_in.is_some_and(|cap| schedule.initial() > cap);
    if over.is_some() || backoff.longest() != built_in || above {
        entries.push(("cap", text_of(backoff.longest())));
    }
    let inherited = |of: fn(&Backoff) -> bool| over.is_some_and(of);
    if !backoff.shortest().is_zero() || inherited(|policy| !policy.shortest().is_zero()) {
        entries.push(("floor", quoted(backoff.shortest())));
    }
    if backoff.first_used() == First::Immediate || inherited(|policy| policy.first_used() == First::Immediate)
    {
        let first = if backoff.first_used() == First::Immediate { "immediate" } else { "initial" };
        entries.push(("first", toml_string(first)));
    }
    if backoff.bound_used() != Bound::Range || inherited(|policy| policy.bound_used() != Bound::Range) {
        let bound = match backoff.bound_used() {
            Bound::Range => "range",
            Bound::Sample => "sample",
            Bound::Loose => "loose",
        };
        entries.push(("bound", toml_string(bound)));
    }
    if over.is_none() {
        if !backoff.spread_of_first().is_zero() {
            entries.push(("initial_spread", quoted(backoff.spread_of_first())));
        }
        if let Some(healthy) = backoff.resets_after() {
            entries.push(("reset_after", quoted(healthy)));
        }
    }
    entries
}

fn default_jitter(backoff: &Backoff) -> Jitter {
    match backoff.schedule() {
        Schedule::Csma { .. } => Jitter::None,
        _ => Jitter::Full,
    }
}

fn hint_entries(hint: &HintPolicy) -> Vec<(&'static str, String)> {
    let plain = HintPolicy::DEFAULT;
    let mut entries = Vec::new();
    match hint.mode_used() {
        HintMode::Minimum => {}
        HintMode::Exact => entries.push(("mode", "\"exact\"".into())),
        HintMode::Clamp(over) => entries.push(("mode", format!("{{ clamp = {} }}", quoted(over)))),
        HintMode::Ignore => return vec![("mode", "\"ignore\"".into())],
    }
    if hint.max_wait() != plain.max_wait() {
        // The longest time that there is stands for no limit.
        let unlimited = hint.max_wait() == std::time::Duration::from_nanos(u64::MAX);
        entries.push(("max", text_of((!unlimited).then_some(hint.max_wait()))));
    }
    match hint.over_max_used() {
        OverMax::Abort => {}
        OverMax::Clamp => entries.push(("over_max", "\"clamp\"".into())),
        OverMax::Ignore => entries.push(("over_max", "\"ignore\"".into())),
    }
    if hint.spread_fraction() != plain.spread_fraction() && !matches!(hint.mode_used(), HintMode::Clamp(_)) {
        entries.push(("spread", spread_text(hint)));
    }
    entries
}

/// The shortest fraction that means the same spread, which the core holds in units of 2⁻³².
fn spread_text(hint: &HintPolicy) -> String {
    let exact = hint.spread_fraction();
    let rounded = (1..=10).filter_map(|digits| format!("{exact:.digits$}").parse::<f64>().ok());
    let same = |fraction: &f64| HintPolicy::DEFAULT.spread(*fraction).spread_fraction() == exact;
    float_text(rounded.into_iter().find(same).unwrap_or(exact))
}

pub(crate) fn inline(entries: &[(&str, String)]) -> String {
    let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", entries.join(", "))
}
