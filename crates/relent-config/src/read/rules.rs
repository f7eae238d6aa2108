//! Rules, long and short.

use relent_core::{Backoff, Class, Classes, Count, MAX_RULES, Policy, Rule};

use super::Reader;
use super::backoff::BackoffSpec;
use super::value::{unknown_key, unknown_keys};
use crate::diagnostic::{Code, Problem};
use crate::names::Section;
use crate::text::{classes_text, shorten, toml_string};
use crate::tree::{self, Node, Table, Value};

impl Reader<'_> {
    /// The rules in order, and the names of those that have one: those of `rules` come first.
    pub(super) fn rules(&mut self, table: &Table, retry_on: Classes) -> (Vec<Rule>, Vec<String>) {
        let mut rules = Vec::new();
        let mut rule_names: Vec<String> = Vec::new();
        let mut taken = Classes::NONE;
        let list = table.get("rules").and_then(|node| self.array(node, "rules", "an array of tables"));
        for (index, node) in list.unwrap_or_default().iter().enumerate() {
            let path = format!("rules[{index}].");
            let Some(own) = node.table() else {
                self.wrong_type(node, "rules", "a table such as { name = \"busy\", max_attempts = 2 }", None);
                continue;
            };
            self.problems.extend(unknown_keys(Section::Rule, &[], path.trim_end_matches('.'), own));
            let classes = own.get("classes").and_then(|node| self.classes(node, &format!("{path}classes")));
            let classes = classes.unwrap_or(Classes::NONE);
            if let Some(node) = own.get("classes") {
                self.rule_classes(node, taken, retry_on);
                self.given(&format!("{path}classes"), classes_text(classes), node);
            }
            taken = classes.iter().fold(taken, Classes::with);
            match own.get("name").map(|name| (name, self.string(name, "name").map(str::to_owned))) {
                None => self.missing(
                    node,
                    "a rule needs a `name`",
                    "classifiers name rules: write `name = \"…\"`",
                ),
                Some((place, Some(name))) => {
                    if name.trim().is_empty() || rule_names.contains(&name) {
                        let message = format!("the name \"{}\" is taken or empty", shorten(&name));
                        self.problems.push(Problem::new(Code::BadValue, &place.place, message));
                    }
                    self.given(&format!("{path}name"), toml_string(&name), place);
                    rule_names.push(name);
                }
                Some((_, None)) => {}
            }
            rules.extend(self.rule(Rule::on(classes), own, table, &path));
        }
        let on = self.table(table, "on", "on.throttled = { max_attempts = 2 }").cloned().unwrap_or_default();
        self.on_keys(&on);
        for class in Class::ALL {
            let Some(node) = on.get(class.as_str()) else { continue };
            if !Section::On.keys().contains(&class.as_str()) {
                continue;
            }
            let path = format!("on.{class}.");
            if node.string() == Some("none") {
                self.given(path.trim_end_matches('.'), "\"none\"".into(), node);
                continue;
            }
            let Some(own) = node.table() else {
                let expected = "a table such as { max_attempts = 2 }, or \"none\"";
                self.wrong_type(node, path.trim_end_matches('.'), expected, None);
                continue;
            };
            self.problems.extend(unknown_keys(Section::OnClass, &[], path.trim_end_matches('.'), own));
            if own.is_empty() {
                self.no_effect(node, &format!("`on.{class}` is empty"), None);
            }
            if self.no_use(node, class, taken, retry_on) {
                continue;
            }
            rules.extend(self.rule(Rule::on(class), own, table, &path));
        }
        if rules.len() > MAX_RULES
            && let Some(node) = table.get("rules").or(table.get("on"))
        {
            let message =
                format!("{} rules; a policy has at most {}, those of `on` included", rules.len(), MAX_RULES);
            self.problems.push(Problem::new(Code::Limit, &node.key, message));
            rules.clear();
        }
        (rules, rule_names)
    }

    pub(super) fn on_keys(&mut self, on: &Table) {
        self.priorities(on);
        for (key, node) in on.iter().filter(|(key, _)| *key != "priority") {
            if matches!(key.as_str(), "success" | "cancelled") {
                let message = format!("`on.{key}` has no effect: \"{key}\" is never retried");
                self.problems.push(Problem::new(Code::NoEffect, &node.key, message));
            } else if !Section::On.keys().contains(&key.as_str()) {
                self.problems.push(unknown_key(Section::On, &["priority".to_owned()], "on", key, node));
            }
        }
    }

    /// Tells of the classes that the rule will never see.
    pub(super) fn rule_classes(&mut self, node: &Node, taken: Classes, retry_on: Classes) {
        let Value::Array(elements) = &node.value else { return };
        for element in elements {
            if let Some(class) = element.string().and_then(|word| word.parse().ok())
                && !matches!(class, Class::Success | Class::Cancelled)
            {
                self.no_use(element, class, taken, retry_on);
            }
        }
    }

    /// Whether a rule for `class` can never be met.
    pub(super) fn no_use(&mut self, node: &Node, class: Class, taken: Classes, retry_on: Classes) -> bool {
        if taken.contains(class) {
            let message = format!("this has no effect for \"{class}\": a rule before it takes that class");
            self.no_effect(node, &message, None);
            return true;
        }
        if !retry_on.contains(class) {
            let message = format!("this has no effect: \"{class}\" is not in `retry_on`");
            self.no_effect(node, &message, Some(format!("add \"{class}\" to `retry_on`, or leave this out")));
            return true;
        }
        false
    }

    pub(super) fn rule(&mut self, rule: Rule, own: &Table, policy: &Table, path: &str) -> Option<Rule> {
        let before = self.problems.len();
        let mut rule = rule;
        if let Some(node) = own.get("max_attempts")
            && node.string() != Some("none")
            && let Some(attempts) =
                self.attempts(node, &format!("{path}max_attempts"), "a number from 1 to 254")
        {
            self.given(&format!("{path}max_attempts"), attempts.to_string(), node);
            rule = rule.max_attempts(attempts);
        }
        let has_backoff = own.contains_key("backoff") || own.contains_key("jitter");
        if has_backoff {
            rule = rule.backoff(self.rule_backoff(own, policy, path));
        }
        if let Some(node) = own.get("count") {
            let word = self.word(node, &format!("{path}count"), &["own", "all"]);
            if !has_backoff {
                let help = "it says which failures the rule's own `backoff` counts".to_owned();
                self.no_effect(
                    node,
                    "`count` has no effect without a `backoff` in the same rule",
                    Some(help),
                );
            } else if let Some(word) = word {
                self.given(&format!("{path}count"), toml_string(word), node);
                rule = rule.count(if word == "all" { Count::All } else { Count::Own });
            }
        }
        self.check(Policy::default().to_builder().rule(rule.clone()), before, &[own, policy], path);
        (self.problems.len() == before).then_some(rule)
    }

    /// A rule's backoff and jitter lie over the policy's, as a policy lies over its base.
    pub(super) fn rule_backoff(&mut self, own: &Table, policy: &Table, path: &str) -> Backoff {
        let shape = "backoff = { initial = \"1s\" }";
        let told = self.table(own, "backoff", shape).cloned().unwrap_or_default();
        let below = policy.get("backoff").and_then(Node::table).cloned().unwrap_or_default();
        let for_rules = |key: &String| Section::RuleBackoff.keys().contains(&key.as_str());
        let below: Table = below.into_iter().filter(|(key, _)| for_rules(key)).collect();
        let wrap = |table: Table, node: &Node| {
            Table::from([("backoff".to_owned(), Node { value: Value::Table(table), ..node.clone() })])
        };
        let merged = match own.get("backoff").or(policy.get("backoff")) {
            Some(node) => tree::merge(&wrap(below, node), &wrap(told.clone(), node)),
            None => Table::new(),
        };
        let backoff = merged.get("backoff").and_then(Node::table).cloned().unwrap_or_default();
        let pick = |table: &Table| {
            table.get("jitter").cloned().map(|node| Table::from([("jitter".to_owned(), node)]))
        };
        let jitters = tree::merge(&pick(policy).unwrap_or_default(), &pick(own).unwrap_or_default());
        let csma = backoff.get("kind").and_then(Node::string) == Some("csma");
        let node = jitters.get("jitter").filter(|_| !csma || own.contains_key("jitter"));
        let jitter = node.and_then(|node| Some((node, tree::expanded("jitter", node)?)));
        if let (None, Some(node)) = (&jitter, own.get("jitter")) {
            self.bad_jitter(node, &format!("{path}jitter"));
        }
        self.backoff(BackoffSpec {
            section: Section::RuleBackoff,
            path: format!("{path}backoff"),
            jitter_path: format!("{path}jitter"),
            table: &backoff,
            told: &told,
            jitter,
            jitter_told: own.contains_key("jitter"),
            in_rule: true,
        })
    }
}
