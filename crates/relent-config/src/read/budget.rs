//! Budgets.

use std::time::Duration;

use relent_core::{BudgetPolicy, ConcurrentBudget, Quota, Ratio, TokenBucket, WindowBudget};

use super::Reader;
use super::part::{Part, tokens_text};
use crate::diagnostic::{Code, Problem};
use crate::names::{BUDGET_KINDS, Section};
use crate::shared::Scope;
use crate::text::{one_of, toml_string};
use crate::tree::{Node, Table, Value};

/// A budget as it was read. No reserve: none was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBudget {
    pub(crate) policy: BudgetPolicy,
    pub(crate) reserve: Option<Ratio>,
}

impl Reader<'_> {
    pub(super) fn budget(&mut self, node: &Node, table: &Table, path: &str) -> Option<(ReadBudget, Scope)> {
        let before = self.problems.len();
        let Some(kind_node) = table.get("kind") else {
            let kinds = one_of(BUDGET_KINDS.iter().map(|(kind, _)| format!("\"{kind}\"")));
            self.missing(node, &format!("`{path}` needs a `kind`"), &format!("it is one of {kinds}"));
            return None;
        };
        let kinds: Vec<&str> = BUDGET_KINDS.iter().map(|(kind, _)| *kind).collect();
        let kind = self.word(kind_node, &format!("{path}.kind"), &kinds)?;
        self.given(&format!("{path}.kind"), toml_string(kind), kind_node);
        let mut part = Part::new(self, Section::Budget, path, node, table);
        part.reader.keys_of_kind(BUDGET_KINDS, kind, Some(kind_node), "budget", table);
        let policy = match kind {
            "token_bucket" => part.token_bucket().map(BudgetPolicy::from),
            "window" => Some(part.window_budget().into()),
            "concurrent" => Some(part.concurrent().into()),
            _ => part.quota().map(BudgetPolicy::from),
        };
        let reserve = part.get("reserve").and_then(|_| part.maybe_ratio("reserve", true));
        if let (Some(node), Some(Ratio::ONE)) = (part.get("reserve"), reserve) {
            part.bad(node, &format!("`{path}.reserve` leaves nothing for calls of normal priority"));
        }
        let scope = part.scope();
        let policy = policy?;
        if part.reader.problems.len() == before
            && let Err(error) = policy.check()
        {
            part.refused(error);
        }
        (self.problems.len() == before).then_some((ReadBudget { policy, reserve }, scope))
    }
}

/// The share of calls that may be retries which other systems have: Finagle, Envoy, Linkerd.
const RATIO: (Ratio, &str) = (Ratio::percent(20), "one retry for five calls: what Finagle and Envoy allow");

impl Part<'_, '_> {
    fn token_bucket(&mut self) -> Option<TokenBucket> {
        let capacity = self.required_whole("capacity", "capacity = 100")?;
        let mut bucket = TokenBucket::new(capacity);
        if let Some(rate) = self.maybe_rate("refill") {
            bucket = bucket.refill(rate);
        }
        if self.get("per_success").is_some() {
            bucket = bucket.per_success(self.tokens("per_success", (0, "")));
        }
        bucket = bucket
            .per_failure(self.tokens("per_failure", (0, "what failed and is not retried costs nobody")));
        bucket = bucket.per_retry(self.tokens("per_retry", (1000, "a retry is a call")));
        let half_full = self.flag("half_full", (false, "all of the bucket is there to be used"));
        Some(bucket.half_full(half_full))
    }

    fn window_budget(&mut self) -> WindowBudget {
        let budget = WindowBudget::new(self.ratio("ratio", true, RATIO));
        let budget =
            budget.ttl(self.time("ttl", (Duration::from_secs(10), "what happened longer ago says little")));
        budget
            .floor(self.whole("floor", (10, "per second: with few calls a share of them is no retry at all")))
    }

    fn concurrent(&mut self) -> ConcurrentBudget {
        let budget = ConcurrentBudget::new(self.ratio("ratio", true, RATIO));
        budget.floor(self.whole("floor", (3, "with few calls under way a share of them is no retry at all")))
    }

    fn quota(&mut self) -> Option<Quota> {
        let capacity = self.required_whole("capacity", "capacity = 500");
        let quota = match self.required("cost", "cost = 5")? {
            Node { value: Value::Table(_), .. } => self.costs(capacity.unwrap_or(u32::MAX)),
            _ => Some(Quota::new(capacity.unwrap_or(u32::MAX), self.maybe_whole("cost")?)),
        }?;
        let first = self.whole("first_success", (1, "a target that answers earns its retries back, slowly"));
        capacity.map(|_| quota.first_success(first))
    }

    /// What a retry costs by the class of the failure; of a class that is not named, what a transient one costs.
    fn costs(&mut self, capacity: u32) -> Option<Quota> {
        let node = self.get("cost")?;
        let path = format!("{}.cost", self.path);
        let mut costs = Part::new(self.reader, Section::BudgetCost, &path, node, node.table()?);
        let transient = costs.required_whole("transient", "cost = { transient = 14, throttled = 5 }")?;
        let quota = Quota::new(capacity, transient);
        let mut of = |class| costs.whole(class, (transient, "what a transient failure costs"));
        Some(quota.throttled(of("throttled")).timeout(of("timeout")).not_sent(of("not_sent")))
    }
}

/// The keys of a budget, without those that say what holds anyway.
pub(crate) fn entries(policy: &BudgetPolicy, reserve: Ratio, scope: Scope) -> Vec<(&'static str, String)> {
    use crate::text::{quoted, rate_text, ratio_text};
    let mut entries = vec![("kind", toml_string(policy.as_str()))];
    match policy {
        BudgetPolicy::TokenBucket(bucket) => {
            entries.push(("capacity", bucket.capacity().to_string()));
            if let Some(rate) = bucket.refill {
                entries.push(("refill", toml_string(&rate_text(rate))));
            }
            let tokens = [
                ("per_success", bucket.per_success, 0),
                ("per_failure", bucket.per_failure, 0),
                ("per_retry", bucket.per_retry, 1000),
            ];
            let told = tokens.iter().filter(|(_, tokens, plain)| tokens != plain);
            entries.extend(told.map(|(key, tokens, _)| (*key, tokens_text(*tokens))));
            if bucket.half_full {
                entries.push(("half_full", "true".into()));
            }
        }
        BudgetPolicy::Window(window) => {
            entries.push(("ratio", ratio_text(window.ratio)));
            entries.push(("ttl", quoted(window.ttl)));
            entries.push(("floor", window.floor.to_string()));
        }
        BudgetPolicy::Concurrent(concurrent) => {
            entries.push(("ratio", ratio_text(concurrent.ratio)));
            entries.push(("floor", concurrent.floor.to_string()));
        }
        BudgetPolicy::Quota(quota) => {
            entries.push(("capacity", quota.capacity.to_string()));
            let costs =
                [("throttled", quota.throttled), ("timeout", quota.timeout), ("not_sent", quota.not_sent)];
            let others: Vec<_> = costs.into_iter().filter(|(_, cost)| *cost != quota.transient).collect();
            entries.push((
                "cost",
                match others.is_empty() {
                    true => quota.transient.to_string(),
                    false => {
                        let all = [("transient", quota.transient)].into_iter().chain(others);
                        let all: Vec<String> = all.map(|(class, cost)| format!("{class} = {cost}")).collect();
                        format!("{{ {} }}", all.join(", "))
                    }
                },
            ));
            if quota.first_success != 1 {
                entries.push(("first_success", quota.first_success.to_string()));
            }
        }
        _ => {}
    }
    if reserve > Ratio::ZERO {
        entries.push(("reserve", ratio_text(reserve)));
    }
    if scope == Scope::Process {
        entries.push(("scope", toml_string(scope.as_str())));
    }
    entries
}

/// The names of a policy's budgets are told at the place where they are wrong.
pub(super) fn unknown<'a>(
    what: &str,
    name: &str,
    node: &Node,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Problem {
    let message = format!("there is no {what} \"{}\"", crate::text::shorten(name));
    let problem = Problem::new(Code::UnknownName, &node.place, message);
    let help = match crate::names::nearest(name, known.clone()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => match known.take(10).collect::<Vec<_>>().as_slice() {
            [] => format!("the file has none; one begins with [{what}s.NAME]"),
            known => format!("the file has: {}", known.join(", ")),
        },
    };
    problem.help(help)
}
