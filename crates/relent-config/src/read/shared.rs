//! What calls share: the keys of a policy, and the tables of those parts that have a name.

use std::collections::BTreeMap;

use relent_core::{Backoff, BreakerPolicy, CommonPolicy, MAX_BUDGETS, Policy, Ratio};

use super::budget::{ReadBudget, unknown};
use super::value::unknown_keys;
use super::{Context, Reader};
use crate::diagnostic::{Code, Problem};
use crate::names::Section;
use crate::resolved::Setting;
use crate::shared::{Home, Scope};
use crate::text::{ratio_text, toml_string};
use crate::tree::{Node, Table, Value};

/// The parts of a file that have names. None: what was there is wrong, which was told.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) budgets: BTreeMap<String, Option<NamedPart<ReadBudget>>>,
    pub(crate) breakers: BTreeMap<String, Option<NamedPart<BreakerPolicy>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct NamedPart<T> {
    pub(crate) what: T,
    pub(crate) scope: Scope,
    settings: Vec<Setting>,
}

/// What calls of a policy share, and whose it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadShared {
    pub(crate) common: CommonPolicy,
    pub(crate) breaker: Option<Home>,
    pub(crate) budgets: Vec<Home>,
}

/// Reads the table of a part that has a name.
pub(crate) fn named_budget(
    name: &str,
    node: &Node,
    context: Context<'_>,
) -> Result<NamedPart<ReadBudget>, Vec<Problem>> {
    named("budgets", name, node, context, |reader, table, path| reader.budget(node, table, path))
}

/// Reads the table of a part that has a name.
pub(crate) fn named_breaker(
    name: &str,
    node: &Node,
    context: Context<'_>,
) -> Result<NamedPart<BreakerPolicy>, Vec<Problem>> {
    named("breakers", name, node, context, |reader, table, path| reader.breaker(node, table, path))
}

fn named<T>(
    kind: &str,
    name: &str,
    node: &Node,
    context: Context<'_>,
    read: impl FnOnce(&mut Reader<'_>, &Table, &str) -> Option<(T, Scope)>,
) -> Result<NamedPart<T>, Vec<Problem>> {
    let path = format!("{kind}.{name}");
    let mut reader = Reader { context, problems: Vec::new(), settings: Vec::new() };
    let found = match node.table() {
        Some(table) => read(&mut reader, table, &path),
        None => {
            reader.wrong_type(node, &path, "a table", None);
            None
        }
    };
    let Reader { problems, settings, .. } = reader;
    match found {
        Some((what, scope)) if problems.is_empty() => Ok(NamedPart { what, scope, settings }),
        _ => Err(problems),
    }
}

impl Reader<'_> {
    pub(super) fn shared(&mut self, table: &Table) -> ReadShared {
        let budgets = self.budgets(table);
        let breaker = self.part(table, "breaker").and_then(|node| self.breaker_of(node));
        let share = self.budget_share(table, &budgets);
        let (mut read, mut common) = (ReadShared::default(), CommonPolicy::default());
        for (budget, home) in budgets {
            let share = share.filter(|_| home.scope == Scope::Target);
            common.budgets.push((budget.policy, budget.reserve.or(share).unwrap_or(Ratio::ZERO)));
            read.budgets.push(home);
        }
        if let Some((policy, home)) = breaker {
            common.breaker = Some(policy);
            read.breaker = Some(home);
        }
        common.limiter = self.part(table, "rate_limit").and_then(|node| self.rate_limit(node));
        common.adaptive = table.get("adaptive_rate").is_some_and(|node| self.adaptive_rate(node));
        common.throttle = self.part(table, "throttle").and_then(|node| self.throttle(node));
        common.bulkhead = self.part(table, "bulkhead").and_then(|node| self.bulkhead(node));
        common.memory = self.part(table, "memory").and_then(|node| self.memory(node));
        common.hedge = self.part(table, "hedge").and_then(|node| self.hedge(node));
        ReadShared { common, ..read }
    }

    /// The backoff of calls of high priority, which lies over the policy's as a rule's does.
    pub(super) fn high_backoff(&mut self, table: &Table) -> Option<Backoff> {
        let (node, high) = self.high(table)?;
        self.problems.extend(unknown_keys(Section::PriorityHigh, &[], "on.priority.high", high));
        if high.is_empty() {
            self.no_effect(node, "`on.priority.high` is empty", None);
        }
        if !high.contains_key("backoff") && !high.contains_key("jitter") {
            return None;
        }
        let before = self.problems.len();
        let path = "on.priority.high.";
        let backoff = self.rule_backoff(high, table, path);
        self.check(Policy::default().to_builder().backoff(backoff.clone()), before, &[high, table], path);
        Some(backoff)
    }

    fn high<'t>(&mut self, table: &'t Table) -> Option<(&'t Node, &'t Table)> {
        let priority = table.get("on")?.table()?.get("priority")?;
        let node = priority.table()?.get("high")?;
        Some((node, node.table()?))
    }

    /// Tells of what is no table of priorities. Asked once, however many look there.
    pub(super) fn priorities(&mut self, on: &Table) {
        const SHAPE: &str = "write `on.priority.high = { budget_share = 0.2 }`";
        let Some(node) = on.get("priority") else { return };
        let Some(priorities) = node.table() else {
            self.wrong_type(node, "on.priority", "a table", Some(SHAPE.to_owned()));
            return;
        };
        self.problems.extend(unknown_keys(Section::Priority, &[], "on.priority", priorities));
        match priorities.get("high") {
            Some(node) if node.string() == Some("none") => {
                self.given("on.priority.high", "\"none\"".into(), node);
            }
            Some(node) if node.table().is_none() => {
                self.wrong_type(node, "on.priority.high", "a table, or \"none\"", Some(SHAPE.to_owned()));
            }
            _ => {}
        }
    }

    /// What is kept of this policy's budgets for calls of high priority.
    fn budget_share(&mut self, table: &Table, budgets: &[(ReadBudget, Home)]) -> Option<Ratio> {
        let (_, high) = self.high(table)?;
        let node = high.get("budget_share")?;
        let share = self.ratio(node, "on.priority.high.budget_share", true).and_then(Ratio::new)?;
        if share == Ratio::ONE {
            let message = "`on.priority.high.budget_share` leaves nothing for other calls";
            self.problems.push(Problem::new(Code::BadValue, &node.place, message));
            return None;
        }
        let mut open =
            budgets.iter().filter(|(budget, home)| home.scope == Scope::Target && budget.reserve.is_none());
        if open.next().is_none() {
            let help = match budgets {
                [] => "give the policy a `budget`".to_owned(),
                _ => "a budget of the whole process, or with a `reserve` of its own, says by itself what it keeps".to_owned(),
            };
            self.no_effect(
                node,
                "`budget_share` has no effect: there is no budget that it is a share of",
                Some(help),
            );
        }
        self.given("on.priority.high.budget_share", ratio_text(share), node);
        Some(share)
    }

    /// The node of a part that is there, and not `"none"`.
    fn part<'t>(&mut self, table: &'t Table, key: &str) -> Option<&'t Node> {
        let node = table.get(key)?;
        if node.string() == Some("none") {
            self.given(key, "\"none\"".into(), node);
            return None;
        }
        Some(node)
    }

    fn adaptive_rate(&mut self, node: &Node) -> bool {
        let Value::Boolean(on) = node.value else {
            self.wrong_type(node, "adaptive_rate", "true or false", None);
            return false;
        };
        self.given("adaptive_rate", on.to_string(), node);
        on
    }

    /// A name, a table, or a list of either.
    fn budgets(&mut self, table: &Table) -> Vec<(ReadBudget, Home)> {
        let Some(node) = self.part(table, "budget") else { return Vec::new() };
        let Value::Array(elements) = &node.value else {
            return self.one_budget(node, "budget").into_iter().collect();
        };
        if elements.len() > MAX_BUDGETS {
            let message = format!("{} budgets; a call draws on at most {MAX_BUDGETS}", elements.len());
            self.problems.push(Problem::new(Code::Limit, &node.key, message));
            return Vec::new();
        }
        if elements.is_empty() {
            self.given("budget", "[]".into(), node);
        }
        let mut seen: Vec<&str> = Vec::new();
        for element in elements {
            match element.string() {
                Some(name) if seen.contains(&name) => {
                    let message = format!("the budget \"{}\" is there twice", crate::text::shorten(name));
                    self.problems.push(Problem::new(Code::BadValue, &element.place, message));
                }
                name => seen.extend(name),
            }
        }
        let each = elements.iter().enumerate();
        each.filter_map(|(index, element)| self.one_budget(element, &format!("budget[{index}]"))).collect()
    }

    fn one_budget(&mut self, node: &Node, path: &str) -> Option<(ReadBudget, Home)> {
        if let Some(table) = node.table() {
            let (budget, scope) = self.budget(node, table, path)?;
            return Some((budget, Home { name: None, scope }));
        }
        let named = self.context.named;
        let (name, part) = self.by_name(node, path, "budget", &named.budgets)?;
        Some((part.what, Home { name: Some(name.to_owned()), scope: part.scope }))
    }

    fn breaker_of(&mut self, node: &Node) -> Option<(BreakerPolicy, Home)> {
        if let Some(table) = node.table() {
            let (breaker, scope) = self.breaker(node, table, "breaker")?;
            return Some((breaker, Home { name: None, scope }));
        }
        let named = self.context.named;
        let (name, part) = self.by_name(node, "breaker", "breaker", &named.breakers)?;
        Some((part.what.clone(), Home { name: Some(name.to_owned()), scope: part.scope }))
    }

    /// The part of this name, whose own values are told with it.
    fn by_name<'n, T: Clone>(
        &mut self,
        node: &Node,
        path: &str,
        what: &str,
        known: &'n BTreeMap<String, Option<NamedPart<T>>>,
    ) -> Option<(&'n str, &'n NamedPart<T>)> {
        let Some(name) = node.string() else {
            let expected = format!("the name of one of [{what}s.NAME], or a table");
            self.wrong_type(node, path, &expected, None);
            return None;
        };
        let Some((name, part)) = known.get_key_value(name) else {
            self.problems.push(unknown(what, name, node, known.keys().map(String::as_str)));
            return None;
        };
        self.given(path, toml_string(name), node);
        // Where it is wrong, that was told.
        let part = part.as_ref()?;
        self.settings.extend(part.settings.iter().cloned());
        Some((name, part))
    }
}
