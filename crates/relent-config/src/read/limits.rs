//! Rate limits, bulkheads, throttles and hedges.

use std::time::Duration;

use relent_core::{
    BulkheadPolicy, Classes, HedgeAfter, HedgePolicy, LimiterPolicy, MemoryPolicy, Ratio, ThrottleCurve,
    ThrottlePolicy,
};

use super::Reader;
use super::part::Part;
use crate::names::{HEDGE_KINDS, Section, THROTTLE_KINDS};
use crate::text::{classes_text, float_text, quoted, rate_text, ratio_text, toml_string};
use crate::tree::{self, Node, Table};

impl Reader<'_> {
    pub(super) fn rate_limit(&mut self, node: &Node) -> Option<LimiterPolicy> {
        let before = self.problems.len();
        let path = "rate_limit";
        let Some(table) = node.table() else {
            let rate = self.rate(node, path)?;
            self.given(path, toml_string(&rate_text(rate)), node);
            return Some(LimiterPolicy::new(rate));
        };
        let mut part = Part::new(self, Section::RateLimit, path, node, table);
        part.required("rate", "rate = \"100/s\"");
        let policy = LimiterPolicy::new(part.maybe_rate("rate")?);
        let policy = policy.burst(part.whole("burst", (policy.burst, "what the rate allows in its time")));
        let policy = policy.max_wait(part.time_or_none("max_wait", "the deadline bounds the waiting"));
        let checked = policy.check();
        part.checked(policy, checked, before)
    }

    pub(super) fn bulkhead(&mut self, node: &Node) -> Option<BulkheadPolicy> {
        let before = self.problems.len();
        let table = self.part_table(node, "bulkhead", "bulkhead = { capacity = 10 }")?;
        let mut part = Part::new(self, Section::Bulkhead, "bulkhead", node, table);
        let policy = BulkheadPolicy::new(part.required_whole("capacity", "capacity = 10")?);
        let policy = policy.queue(part.whole("queue", (0, "who waits holds what others need")));
        let policy = match part.get("max_wait") {
            Some(_) => policy.max_wait(part.time_or_none("max_wait", "")),
            None if policy.queue > 0 => {
                policy.max_wait(part.time_or_none("max_wait", "the deadline bounds the waiting"))
            }
            None => policy,
        };
        let all = (Ratio::ONE, "retries are calls");
        let policy = policy.retry_share(part.ratio("retry_share", false, all));
        let checked = policy.check();
        part.checked(policy, checked, before)
    }

    pub(super) fn throttle(&mut self, node: &Node) -> Option<ThrottlePolicy> {
        let before = self.problems.len();
        let short = tree::expanded("throttle", node);
        let table = match &short {
            Some(table) => table,
            None => self.part_table(node, "throttle", "throttle = { kind = \"sre\", k = 2 }")?,
        };
        let mut part = Part::new(self, Section::Throttle, "throttle", node, table);
        let kinds = THROTTLE_KINDS.map(|(kind, _)| kind);
        let kind_node = part.get("kind");
        let kind = part.word("kind", &kinds, (kinds[0], "the SRE book's, chapter 21"));
        part.reader.keys_of_kind(&THROTTLE_KINDS, kind, kind_node, "throttle", table);
        let mut policy = match kind {
            "finagle" => ThrottlePolicy::finagle(part.number("threshold", (0.5, "Finagle's"))),
            "envoy" => ThrottlePolicy::envoy(part.number("threshold", (0.95, "Envoy's"))),
            _ => ThrottlePolicy::sre(part.number("k", (2.0, "twice as many as are accepted may pass"))),
        };
        if kind != "finagle" {
            policy = policy.aggression(part.number("aggression", (1.0, "straight")));
        }
        policy = policy.window(part.time("window", (policy.window, "that of the system it follows")));
        policy = policy.max_rejection(
            part.number("max_rejection", (policy.max_rejection, "that of the system it follows")),
        );
        policy = policy
            .min_requests(part.whole("min_requests", (policy.min_requests, "that of the system it follows")));
        if let Some(node) = part.get("rejected") {
            let classes = part.reader.classes(node, "throttle.rejected")?;
            part.given("rejected", classes_text(classes), node);
            policy = policy.rejected(classes);
        } else {
            part.built_in("rejected", classes_text(policy.rejected), ((), "what another try can help"));
        }
        let checked = policy.check();
        part.checked(policy, checked, before)
    }

    pub(super) fn memory(&mut self, node: &Node) -> Option<MemoryPolicy> {
        let before = self.problems.len();
        let table = self.part_table(node, "memory", "memory = { half_life = \"30s\" }")?;
        let mut part = Part::new(self, Section::Memory, "memory", node, table);
        let half_life =
            part.time("half_life", (Duration::from_secs(30), "as long as a blip, less than an outage"));
        let policy = MemoryPolicy::new(half_life);
        let policy = policy.steps(part.whole("steps", (policy.steps, "as far as a long call comes")));
        let checked = policy.check();
        part.checked(policy, checked, before)
    }

    pub(super) fn hedge(&mut self, node: &Node) -> Option<HedgePolicy> {
        let before = self.problems.len();
        if let Some(text) = node.string().filter(|text| crate::parse_duration(text).is_ok()) {
            let help = format!("write `hedge = {{ delay = \"{text}\" }}`");
            self.wrong_type(
                node,
                "hedge",
                "a table, or one of \"quantile\", \"at_once\", \"on_failure\"",
                Some(help),
            );
            return None;
        }
        let short = tree::expanded("hedge", node);
        let table = match &short {
            Some(table) => table,
            None => self.part_table(node, "hedge", "hedge = { quantile = 0.95 }")?,
        };
        let mut part = Part::new(self, Section::Hedge, "hedge", node, table);
        let kinds = HEDGE_KINDS.map(|(kind, _)| kind);
        let kind_node = part.get("kind");
        let kind = match kind_node {
            None if part.get("delay").is_some() => "fixed",
            _ => part.word("kind", &kinds, ("quantile", "hedges then are as few as the quantile says")),
        };
        part.reader.keys_of_kind(&HEDGE_KINDS, kind, kind_node, "hedge", table);
        let policy = match kind {
            "fixed" => {
                part.required("delay", "delay = \"200ms\"");
                HedgePolicy::after(part.maybe_time("delay")?)
            }
            "at_once" => HedgePolicy::at_once(),
            "on_failure" => HedgePolicy::on_failure(),
            _ => {
                let share =
                    part.ratio("quantile", false, (Ratio::percent(95), "one call in twenty is hedged"));
                let floor =
                    part.time("floor", (Duration::from_millis(1), "no call is hedged at once by chance"));
                let ceiling = part.time_or_none("ceiling", "whoever is that slow is hedged that late");
                let initial = part.time("initial", (Duration::from_millis(200), "until there are samples"));
                let samples = part.whole("samples", (20, "a quantile of fewer says little"));
                HedgePolicy::quantile(share).between(floor, ceiling).until_known(initial, samples)
            }
        };
        let policy = policy.max_attempts(part.whole("max_attempts", (2, "a third one rarely helps")));
        let checked = policy.check();
        part.checked(policy, checked, before)
    }

    pub(super) fn part_table<'n>(&mut self, node: &'n Node, path: &str, shape: &str) -> Option<&'n Table> {
        let found = node.table();
        if found.is_none() {
            self.wrong_type(node, path, "a table, or \"none\"", Some(format!("write `{shape}`")));
        }
        found
    }
}

impl Part<'_, '_> {
    /// The policy, if nothing is wrong with it.
    fn checked<P>(
        &mut self,
        policy: P,
        checked: Result<(), relent_core::PolicyError>,
        before: usize,
    ) -> Option<P> {
        if self.reader.problems.len() == before
            && let Err(error) = checked
        {
            self.refused(error);
        }
        (self.reader.problems.len() == before).then_some(policy)
    }
}

pub(crate) fn limiter_entries(policy: &LimiterPolicy) -> Vec<(&'static str, String)> {
    let mut entries = vec![("rate", toml_string(&rate_text(policy.rate)))];
    if policy.burst != policy.rate.count() {
        entries.push(("burst", policy.burst.to_string()));
    }
    if policy.max_wait != Duration::MAX {
        entries.push(("max_wait", quoted(policy.max_wait)));
    }
    entries
}

pub(crate) fn bulkhead_entries(policy: &BulkheadPolicy) -> Vec<(&'static str, String)> {
    let mut entries = vec![("capacity", policy.capacity.to_string())];
    if policy.queue > 0 {
        entries.push(("queue", policy.queue.to_string()));
        if policy.max_wait != Duration::MAX {
            entries.push(("max_wait", quoted(policy.max_wait)));
        }
    }
    if policy.retry_share != Ratio::ONE {
        entries.push(("retry_share", ratio_text(policy.retry_share)));
    }
    entries
}

pub(crate) fn throttle_entries(policy: &ThrottlePolicy) -> Vec<(&'static str, String)> {
    let (mut entries, plain) = match policy.curve {
        ThrottleCurve::Shortfall { threshold } => (
            vec![("kind", "\"finagle\"".to_owned()), ("threshold", float_text(threshold))],
            ThrottlePolicy::finagle(threshold),
        ),
        ThrottleCurve::Excess { k, aggression } => {
            let mut entries = vec![("kind", "\"sre\"".to_owned()), ("k", float_text(k))];
            if aggression != 1.0 {
                entries.push(("aggression", float_text(aggression)));
            }
            (entries, ThrottlePolicy::sre(k))
        }
        _ => (Vec::new(), *policy),
    };
    if policy.window != plain.window {
        entries.push(("window", quoted(policy.window)));
    }
    if policy.max_rejection != plain.max_rejection {
        entries.push(("max_rejection", float_text(policy.max_rejection)));
    }
    if policy.min_requests != plain.min_requests {
        entries.push(("min_requests", policy.min_requests.to_string()));
    }
    if policy.rejected != Classes::RETRYABLE {
        entries.push(("rejected", classes_text(policy.rejected)));
    }
    entries
}

pub(crate) fn memory_entries(policy: &MemoryPolicy) -> Vec<(&'static str, String)> {
    let mut entries = vec![("half_life", quoted(policy.half_life))];
    if policy.steps != MemoryPolicy::new(policy.half_life).steps {
        entries.push(("steps", policy.steps.to_string()));
    }
    entries
}

pub(crate) fn hedge_entries(policy: &HedgePolicy) -> Vec<(&'static str, String)> {
    let mut entries = vec![("kind", toml_string(policy.when.as_str()))];
    match policy.when {
        HedgeAfter::Fixed(delay) => entries = vec![("delay", quoted(delay))],
        HedgeAfter::Quantile { share, floor, ceiling, initial, samples } => {
            entries = vec![("quantile", ratio_text(share)), ("floor", quoted(floor))];
            if ceiling != Duration::MAX {
                entries.push(("ceiling", quoted(ceiling)));
            }
            entries.push(("initial", quoted(initial)));
            entries.push(("samples", samples.to_string()));
        }
        _ => {}
    }
    if policy.max_attempts != 2 {
        entries.push(("max_attempts", policy.max_attempts.to_string()));
    }
    entries
}
