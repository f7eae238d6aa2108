//! From a merged table to a policy: every value checked, every default with its reason.

use std::collections::BTreeMap;
use std::time::Duration;

use relent_core::{Classes, Deadline, OnBudget, OnDeadline, Policy, PolicyBuilder, PolicyError};

use crate::diagnostic::{Code, Problem};
use crate::names::Section;
use crate::resolved::{BuiltIn, Origin, Setting};
use crate::source::{SourceKind, Sources};
use crate::text::{classes_text, quoted, text_of, toml_string};
use crate::tree::{Layer, Node, Table, Value};

pub(crate) mod backoff;
pub(crate) mod breaker;
pub(crate) mod budget;
mod hint;
pub(crate) mod limits;
mod part;
mod rules;
pub(crate) mod shared;
mod value;

pub(crate) use shared::{Named, ReadShared};
pub(crate) use value::{bad_duration, mistyped, no_duration, unknown_keys};

/// What is needed to read one policy.
pub(crate) struct Context<'a> {
    pub(crate) sources: &'a Sources,
    /// What the layers are.
    pub(crate) layers: &'a [Origin],
    /// The layer that is told what has no effect; what is inherited may lose its effect silently.
    pub(crate) own: Layer,
    pub(crate) built_in: BuiltIn,
    pub(crate) extensions: &'a [String],
    /// The budgets and breakers that have names.
    pub(crate) named: &'a Named,
    /// A base is missing: what it would have given is not asked for.
    pub(crate) incomplete: bool,
}

/// What was read.
pub(crate) struct Read {
    pub(crate) policy: Policy,
    pub(crate) shared: ReadShared,
    pub(crate) description: Option<String>,
    pub(crate) rules: Vec<String>,
    pub(crate) settings: Vec<Setting>,
    pub(crate) extensions: BTreeMap<String, Node>,
}

/// Reads a policy's merged table.
pub(crate) fn policy(table: &Table, context: Context<'_>) -> Result<Read, Vec<Problem>> {
    let mut reader = Reader { context, problems: Vec::new(), settings: Vec::new() };
    let read = reader.policy(table);
    let Reader { problems, settings, .. } = reader;
    match read {
        Some(read) if problems.is_empty() => Ok(Read { settings, ..read }),
        _ => Err(problems),
    }
}

struct Reader<'a> {
    context: Context<'a>,
    problems: Vec<Problem>,
    settings: Vec<Setting>,
}

impl Reader<'_> {
    fn policy(&mut self, table: &Table) -> Option<Read> {
        self.problems.extend(unknown_keys(Section::Policy, self.context.extensions, "", table));
        let description = self.description(table);
        if let Some(node) = table.get("preset") {
            self.leaves("preset", node);
        }
        let attempts = self.max_attempts(table);
        let builder = match attempts {
            Some(attempts) => Policy::default().to_builder().max_attempts(attempts),
            None => Policy::default().to_builder().unlimited_attempts(),
        };
        let builder = self.times(builder, table);
        let backoff = self.main_backoff(table);
        let hint = self.hint(table);
        let retry_on = self.retry_on(table);
        let (rules, rule_names) = self.rules(table, retry_on);
        let high_backoff = self.high_backoff(table);
        let shared = self.shared(table);
        let on_budget = self.on_budget(table, !shared.common.budgets.is_empty());
        let idempotent = self.idempotency(table);
        let seed = self.seed(table);
        let mut builder =
            builder.backoff(backoff).hint(hint).retry_on(retry_on).require_idempotency(idempotent);
        builder = builder.on_budget(on_budget);
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        for rule in rules {
            builder = builder.rule(rule);
        }
        if let Some(backoff) = high_backoff {
            builder = builder.high_backoff(backoff);
        }
        let extensions = self.extensions(table);
        if !self.problems.is_empty() {
            return None;
        }
        match builder.build() {
            Ok(policy) => Some(Read {
                policy,
                shared,
                description,
                rules: rule_names,
                settings: Vec::new(),
                extensions,
            }),
            Err(error) => {
                self.refused(error, &[table], "");
                None
            }
        }
    }

    fn description(&mut self, table: &Table) -> Option<String> {
        let node = table.get("description")?;
        let text = self.string(node, "description")?.to_owned();
        self.given("description", toml_string(&text), node);
        Some(text)
    }

    /// None: unlimited.
    fn max_attempts(&mut self, table: &Table) -> Option<u32> {
        let Some(node) = table.get("max_attempts") else {
            let (attempts, why) = self.context.built_in.attempts();
            self.built_in("max_attempts", attempts.to_string(), why);
            return Some(attempts);
        };
        if node.string() == Some("unlimited") {
            self.given("max_attempts", "\"unlimited\"".into(), node);
            return None;
        }
        let attempts = self.attempts(node, "max_attempts", "a number of at least 1, or \"unlimited\"")?;
        self.given("max_attempts", attempts.to_string(), node);
        Some(attempts)
    }

    fn times(&mut self, builder: PolicyBuilder, table: &Table) -> PolicyBuilder {
        let mut builder = builder;
        let before = self.problems.len();
        let mut parts = Policy::default().to_builder();
        let deadline = self.deadline(table);
        if let Some(deadline) = deadline {
            parts = parts.deadline(deadline);
            builder = builder.deadline(deadline);
        }
        self.check(parts, before, &[table], "");
        if let Some(fit) = self.on_deadline(table, deadline.is_some()) {
            builder = builder.on_deadline(fit);
        }
        let before = self.problems.len();
        let mut parts = Policy::default().to_builder();
        if let Some(timeout) =
            self.optional_duration(table, "", "attempt_timeout", "only the caller knows it")
        {
            parts = parts.attempt_timeout(timeout);
            builder = builder.attempt_timeout(timeout);
        }
        self.check(parts, before, &[table], "");
        builder
    }

    fn deadline(&mut self, table: &Table) -> Option<Deadline> {
        let Some(node) = table.get("deadline") else {
            self.built_in("deadline", "\"none\"".into(), "only the caller knows it");
            return None;
        };
        let Some(parts) = node.table() else {
            let total = self.duration_or_none(node, "deadline")?;
            self.given("deadline", text_of(total), node);
            return total.map(Deadline::from);
        };
        self.problems.extend(unknown_keys(Section::Deadline, &[], "deadline", parts));
        let total = parts.get("total").map(|node| (node, self.duration_or_none(node, "deadline.total")));
        let reserve = parts.get("reserve").map(|node| (node, self.duration(node, "deadline.reserve")));
        let Some((total_node, total)) = total else {
            self.missing(
                node,
                "`deadline` has no `total`",
                "write `deadline = { total = \"30s\", reserve = \"500ms\" }`",
            );
            return None;
        };
        let total = total?;
        self.given("deadline.total", text_of(total), total_node);
        let kept = match reserve {
            Some((node, reserve)) => {
                let reserve = reserve?;
                match total {
                    Some(_) => self.given("deadline.reserve", quoted(reserve), node),
                    None => self.no_effect(node, "`reserve` has no effect: there is no deadline", None),
                }
                reserve
            }
            None => Duration::ZERO,
        };
        total.map(|total| Deadline { total, reserve: kept })
    }

    fn on_deadline(&mut self, table: &Table, limited: bool) -> Option<OnDeadline> {
        let Some(node) = table.get("on_deadline") else {
            if limited {
                self.built_in(
                    "on_deadline",
                    "\"stop\"".into(),
                    "a wait for an attempt that cannot happen helps nobody",
                );
            }
            return None;
        };
        let word = self.word(node, "on_deadline", &["stop", "fit"])?;
        if !limited {
            let help = "give a `deadline`, or leave `on_deadline` out".to_owned();
            self.no_effect(node, "`on_deadline` has no effect without a `deadline`", Some(help));
            return None;
        }
        self.given("on_deadline", toml_string(word), node);
        Some(if word == "fit" { OnDeadline::Fit } else { OnDeadline::Stop })
    }

    fn on_budget(&mut self, table: &Table, limited: bool) -> OnBudget {
        let Some(node) = table.get("on_budget") else {
            if limited {
                self.built_in("on_budget", "\"stop\"".into(), "an error that comes late helps few callers");
            }
            return OnBudget::Stop;
        };
        let Some(word) = self.word(node, "on_budget", &["stop", "wait"]) else { return OnBudget::Stop };
        if !limited {
            let help = "give a `budget`, or leave `on_budget` out".to_owned();
            self.no_effect(node, "`on_budget` has no effect without a `budget`", Some(help));
            return OnBudget::Stop;
        }
        self.given("on_budget", toml_string(word), node);
        if word == "wait" { OnBudget::Wait } else { OnBudget::Stop }
    }

    fn retry_on(&mut self, table: &Table) -> Classes {
        let Some(node) = table.get("retry_on") else {
            self.built_in("retry_on", classes_text(Classes::RETRYABLE), "what another try can help");
            return Classes::RETRYABLE;
        };
        let classes = self.classes(node, "retry_on");
        if let Some(classes) = classes {
            self.given("retry_on", classes_text(classes), node);
        }
        classes.unwrap_or(Classes::RETRYABLE)
    }

    fn idempotency(&mut self, table: &Table) -> bool {
        let parts =
            self.table(table, "idempotency", "idempotency = { require = true }").cloned().unwrap_or_default();
        self.problems.extend(unknown_keys(Section::Idempotency, &[], "idempotency", &parts));
        let Some(node) = parts.get("require") else {
            self.built_in(
                "idempotency.require",
                "false".into(),
                "whoever knows that a repeat is unsafe says so",
            );
            return false;
        };
        let Value::Boolean(require) = node.value else {
            self.wrong_type(node, "idempotency.require", "true or false", None);
            return false;
        };
        self.given("idempotency.require", require.to_string(), node);
        require
    }

    fn seed(&mut self, table: &Table) -> Option<u64> {
        let Some(node) = table.get("seed") else {
            self.built_in("seed", "\"none\"".into(), "clients must not wait in step");
            return None;
        };
        if node.string() == Some("none") {
            self.given("seed", "\"none\"".into(), node);
            return None;
        }
        match node.value {
            Value::Integer(Some(number)) if u64::try_from(number).is_ok() => {
                self.given("seed", number.to_string(), node);
                u64::try_from(number).ok()
            }
            _ => {
                self.wrong_type(
                    node,
                    "seed",
                    "a whole number from 0 to 18446744073709551615, or \"none\"",
                    None,
                );
                None
            }
        }
    }

    fn extensions(&mut self, table: &Table) -> BTreeMap<String, Node> {
        let mut found = BTreeMap::new();
        for name in self.context.extensions {
            let Some(node) = table.get(name) else { continue };
            if node.table().is_none() {
                self.wrong_type(node, name, "a table", None);
                continue;
            }
            self.leaves(name, node);
            found.insert(name.clone(), node.clone());
        }
        found
    }

    fn leaves(&mut self, path: &str, node: &Node) {
        match node.table() {
            Some(table) => table.iter().for_each(|(key, node)| self.leaves(&format!("{path}.{key}"), node)),
            None => {
                let text = match &node.value {
                    Value::String(text) => toml_string(text),
                    _ => self.context.sources.text(&node.place).to_owned(),
                };
                self.given(path, text, node);
            }
        }
    }

    /// Asks the core whether the parts read so far can work together.
    fn check(&mut self, parts: PolicyBuilder, before: usize, tables: &[&Table], prefix: &str) {
        if self.problems.len() == before
            && let Err(error) = parts.build()
        {
            self.refused(error, tables, prefix);
        }
    }

    /// The core's refusal, at the place that can be changed: this policy's own key before an inherited one.
    fn refused(&mut self, error: PolicyError, tables: &[&Table], prefix: &str) {
        let key = error.key().strip_prefix("rules.").unwrap_or(error.key());
        let related: &[&str] = match key {
            "backoff.floor" => &["backoff.floor", "backoff.cap"],
            "backoff.cap" => &["backoff.cap", "backoff.initial", "backoff.slot"],
            "backoff.bound" => &["backoff.bound", "jitter"],
            "jitter" => &["jitter", "backoff.kind"],
            "backoff.initial" => &["backoff.initial", "jitter", "backoff"],
            "deadline.reserve" => &["deadline.reserve", "deadline.total"],
            "deadline" => &["deadline.total", "deadline"],
            _ => &[],
        };
        let paths = related.iter().copied().chain([key]);
        let places: Vec<&Node> =
            paths.flat_map(|path| tables.iter().filter_map(move |table| lookup(table, path))).collect();
        let blamed = places.iter().find(|node| self.owns(node)).or(places.first());
        // What cannot be changed here is at least named.
        let other =
            |node: &&&Node| !self.owns(node) && blamed.is_some_and(|blamed| blamed.place != node.place);
        let help = places.iter().find(other).map(|node| {
            format!("`{}` comes from {}", self.context.sources.text(&node.key), self.origin(node))
        });
        let place = blamed.map(|node| node.place.clone());
        let place = place
            .or_else(|| tables.iter().find_map(|table| table.values().next()).map(|node| node.place.clone()));
        let message = format!("`{prefix}{key}`: {}", error.why());
        let problem = Problem { place, ..Problem::anywhere(Code::Conflict, message) };
        self.problems.push(problem.maybe_help(help));
    }

    fn given(&mut self, path: &str, value: String, node: &Node) {
        let origin = self.origin(node);
        let source = self.context.sources.0.get(node.place.source);
        // Of other files it is a part of what they are called.
        let line = source
            .filter(|source| source.kind == SourceKind::File && node.place.source == 0)
            .map(|source| source.line_of(node.place.start));
        self.settings.push(Setting { path: path.to_owned(), value, origin, line });
    }

    fn built_in(&mut self, path: &str, value: String, why: &'static str) {
        self.settings.push(Setting {
            path: path.to_owned(),
            value,
            origin: Origin::BuiltIn(why),
            line: None,
        });
    }

    fn origin(&self, node: &Node) -> Origin {
        if node.layer == Layer::FLAGS {
            let flag = self.context.sources.0.get(node.place.source).map(|source| source.name.clone());
            return Origin::Flag(flag.unwrap_or_default());
        }
        self.context.layers.get(node.layer.0).cloned().unwrap_or(Origin::Policy(String::new()))
    }

    fn owns(&self, node: &Node) -> bool {
        node.layer == self.context.own
    }
}

/// The node at a dotted path; the last one on the way that is no table, if the path goes on below it.
fn lookup<'t>(table: &'t Table, path: &str) -> Option<&'t Node> {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    let node = table.get(key)?;
    match node.table() {
        Some(table) if !rest.is_empty() => lookup(table, rest),
        _ => Some(node),
    }
}
