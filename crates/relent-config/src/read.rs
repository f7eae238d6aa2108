//! From a merged table to a policy: every value checked, every default with its reason.

use std::collections::BTreeMap;
use std::time::Duration;

use relent_core::{
    Backoff, Bound, Class, Classes, Count, Deadline, First, HintMode, HintPolicy, Jitter, Multiplier,
    OnDeadline, OverMax, Policy, PolicyBuilder, PolicyError, Rule, Schedule, Stage,
};

use crate::diagnostic::{Code, Problem};
use crate::duration::{format_duration, parse_duration};
use crate::names::{self, BACKOFF_KINDS, JITTER_KINDS, Section};
use crate::resolved::{BuiltIn, Origin, Setting};
use crate::source::{Place, SourceKind, Sources};
use crate::tree::{self, Layer, Node, Table, Value};

/// The longest list of waits, stages or rules.
const MAX_LIST: usize = 1000;

/// What is needed to read one policy.
pub(crate) struct Context<'a> {
    pub(crate) sources: &'a Sources,
    /// The names of the layers: those of the file's policies.
    pub(crate) layers: &'a [String],
    /// The layer that is told what has no effect; what is inherited may lose its effect silently.
    pub(crate) own: Layer,
    pub(crate) built_in: BuiltIn,
    pub(crate) extensions: &'a [String],
    /// A base is missing: what it would have given is not asked for.
    pub(crate) incomplete: bool,
}

/// What was read.
pub(crate) struct Read {
    pub(crate) policy: Policy,
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

/// The keys of `table` that `section` does not know.
pub(crate) fn unknown_keys(section: Section, extra: &[String], path: &str, table: &Table) -> Vec<Problem> {
    let known = |key: &str| section.keys().contains(&key) || extra.iter().any(|name| name == key);
    table
        .iter()
        .filter(|(key, _)| !known(key))
        .map(|(key, node)| unknown_key(section, extra, path, key, node))
        .collect()
}

fn unknown_key(section: Section, extra: &[String], path: &str, key: &str, node: &Node) -> Problem {
    let shown = shorten(key);
    let inside = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
    if let Some(found) = names::translate(section, key, node) {
        let name = found.key.rsplit('.').next().unwrap_or(found.key);
        let ours = found.names;
        let (code, message) = match found.ours {
            true if name == key => (Code::MisplacedKey, format!("`{shown}` does not belong here")),
            true => (Code::UnknownKey, format!("unknown key `{shown}`{inside}")),
            false => (Code::ForeignKey, format!("unknown key `{shown}`{inside}: relent calls it {ours}")),
        };
        return Problem::new(code, &node.key, message).help(found.help);
    }
    let known: Vec<&str> = section.keys().iter().copied().chain(extra.iter().map(String::as_str)).collect();
    let problem = Problem::new(Code::UnknownKey, &node.key, format!("unknown key `{shown}`{inside}"));
    match names::nearest(key, known.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.label(format!("expected {}", one_of(known))),
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
        let idempotent = self.idempotency(table);
        let seed = self.seed(table);
        let mut builder =
            builder.backoff(backoff).hint(hint).retry_on(retry_on).require_idempotency(idempotent);
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        for rule in rules {
            builder = builder.rule(rule);
        }
        let extensions = self.extensions(table);
        if !self.problems.is_empty() {
            return None;
        }
        match builder.build() {
            Ok(policy) => {
                Some(Read { policy, description, rules: rule_names, settings: Vec::new(), extensions })
            }
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

    fn attempts(&mut self, node: &Node, path: &str, expected: &str) -> Option<u32> {
        let message = match &node.value {
            Value::Integer(Some(number)) => match u32::try_from(*number) {
                Ok(attempts) if attempts > 0 => return Some(attempts),
                Ok(_) => format!("`{path}` counts the first attempt: 0 would be no call at all"),
                Err(_) if *number < 0 => format!("`{path}` cannot be negative"),
                Err(_) => format!("`{path}` is at most {}", u32::MAX),
            },
            Value::Integer(None) => format!("`{path}` is at most {}", u32::MAX),
            _ => {
                let numeric = node
                    .string()
                    .and_then(|text| text.trim().parse::<u32>().ok())
                    .filter(|number| *number > 0);
                let word = node
                    .string()
                    .and_then(|text| names::nearest(text, ["unlimited", "infinite", "inf", "forever"]));
                let help = match (numeric, word) {
                    (Some(number), _) => Some(format!("write `{path} = {number}`")),
                    (None, Some(_)) if expected.contains("unlimited") => {
                        Some(format!("write `{path} = \"unlimited\"`"))
                    }
                    _ => None,
                };
                self.wrong_type(node, path, expected, help);
                return None;
            }
        };
        let mut problem = Problem::new(Code::BadValue, &node.place, message)
            .label(format!("expected {expected}"))
            .help("1 switches retries off");
        if expected.contains("unlimited") {
            problem = problem.help("\"unlimited\" sets no limit");
        }
        self.problems.push(problem);
        None
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

    fn main_backoff(&mut self, table: &Table) -> Backoff {
        let before = self.problems.len();
        let own = self.table(table, "backoff", "backoff = { kind = \"exponential\", initial = \"100ms\" }");
        let backoff = own.cloned().unwrap_or_default();
        let jitter = table.get("jitter").and_then(|node| Some((node, tree::expanded("jitter", node)?)));
        let jitter = match (jitter, table.get("jitter")) {
            (Some((node, table)), _) => Some((node, table)),
            (None, Some(node)) => {
                self.bad_jitter(node, "jitter");
                None
            }
            (None, None) => None,
        };
        let spec = BackoffSpec {
            section: Section::Backoff,
            path: "",
            table: &backoff,
            told: &backoff,
            jitter,
            jitter_told: true,
            in_rule: false,
        };
        let backoff = self.backoff(spec);
        self.check(Policy::default().to_builder().backoff(backoff.clone()), before, &[table], "");
        backoff
    }

    /// A backoff with its jitter, wherever it stands. What was bad is told and stands in as its default.
    fn backoff(&mut self, spec: BackoffSpec<'_>) -> Backoff {
        let path = format!("{}backoff", spec.path);
        let (kind, kind_node) = match spec.table.get("kind") {
            Some(node) => {
                let kinds: Vec<&str> = BACKOFF_KINDS.iter().map(|(kind, _)| *kind).collect();
                // Of an unknown kind, the other keys can still be looked at one by one.
                let kind = self.word(node, &format!("{path}.kind"), &kinds).unwrap_or("");
                if spec.told.contains_key("kind") {
                    self.given(&format!("{path}.kind"), toml_string(kind), node);
                }
                (kind, Some(node))
            }
            None => {
                if !spec.in_rule {
                    self.built_in(
                        &format!("{path}.kind"),
                        "\"exponential\"".into(),
                        "each failure makes a longer trouble likelier",
                    );
                }
                ("exponential", None)
            }
        };
        self.problems.extend(unknown_keys(spec.section, &[], &path, spec.told));
        if !kind.is_empty() {
            self.keys_of_kind(BACKOFF_KINDS, kind, kind_node, "backoff", spec.told);
        }
        let mut fields = Fields { path: &path, spec: &spec, reader: self };
        let schedule = fields.schedule(kind, kind_node);
        let cap = fields.optional("cap");
        let floor = fields.time("floor");
        let first = fields.choice("first", &["initial", "immediate"]);
        let bound = fields.choice("bound", &["range", "sample", "loose"]);
        let initial_spread = fields.time("initial_spread");
        let reset_after = fields.optional("reset_after");

        let csma = matches!(schedule, Schedule::Csma { .. });
        let jitter = self.jitter(&spec, csma);
        let remembers = matches!(jitter, Jitter::Decorrelated | Jitter::DecorrelatedV2);
        if remembers
            && let Some(node) = spec.told.get("multiplier")
            && kind == "exponential"
        {
            let message = format!("`multiplier` has no effect: {} jitter grows by itself", jitter.as_str());
            self.no_effect(node, &message, None);
        }
        let initial = schedule.initial();
        let mut backoff = Backoff::new(schedule).jitter(jitter);
        backoff = match cap {
            Some(Some(cap)) => backoff.cap(cap),
            Some(None) => backoff.uncapped(),
            None => self.default_cap(backoff, &spec, &path, kind, remembers, initial),
        };
        if let Some(floor) = floor {
            backoff = backoff.floor(floor);
        }
        if first == Some("immediate") {
            backoff = backoff.first(First::Immediate);
        }
        backoff = backoff.bound(match bound {
            Some("sample") => Bound::Sample,
            Some("loose") => Bound::Loose,
            _ => Bound::Range,
        });
        if let Some(spread) = initial_spread {
            backoff = backoff.initial_spread(spread);
        }
        if let Some(Some(healthy)) = reset_after {
            backoff = backoff.reset_after(healthy);
        }
        backoff
    }

    /// What grows is bounded unless told otherwise; waits that are written out are not cut behind their author's back.
    fn default_cap(
        &mut self,
        backoff: Backoff,
        spec: &BackoffSpec<'_>,
        path: &str,
        kind: &str,
        remembers: bool,
        initial: Duration,
    ) -> Backoff {
        let grows = remembers || matches!(kind, "linear" | "exponential" | "fibonacci");
        let cap_path = format!("{path}.cap");
        if !grows {
            if !spec.in_rule {
                self.built_in(&cap_path, "\"none\"".into(), "the waits do not grow");
            }
            return backoff.uncapped();
        }
        let (cap, why) = self.context.built_in.cap();
        if !spec.in_rule {
            self.built_in(&cap_path, quoted(cap), why);
        }
        if let Some(node) = spec.table.get("initial")
            && initial > cap
        {
            let message = format!(
                "`initial` is {}, above the built-in cap of {}",
                format_duration(initial),
                format_duration(cap)
            );
            let help = format!(
                "give `cap` too, such as `cap = {}`, or `cap = \"none\"`",
                quoted(initial.saturating_mul(10))
            );
            self.problems.push(Problem::new(Code::Conflict, &node.place, message).help(help));
        }
        backoff.cap(cap)
    }

    fn jitter(&mut self, spec: &BackoffSpec<'_>, csma: bool) -> Jitter {
        let path = format!("{}jitter", spec.path);
        let default = if csma { Jitter::None } else { Jitter::Full };
        let Some((node, table)) = &spec.jitter else {
            if !spec.in_rule {
                let why = if csma { "csma draws by itself" } else { "the least load on what is recovering" };
                self.built_in(&path, toml_string(default.as_str()), why);
            }
            return default;
        };
        let (kind, kind_node) = match table.get("kind") {
            Some(kind_node) => {
                let kinds: Vec<&str> = JITTER_KINDS.iter().map(|(kind, _)| *kind).collect();
                let Some(kind) = self.word(kind_node, &path, &kinds) else { return default };
                (kind, Some(kind_node))
            }
            None => ("full", None),
        };
        // Inherited jitter means nothing to csma; one's own is told about it by the core.
        if csma && !self.owns(node) {
            return Jitter::None;
        }
        self.problems.extend(unknown_keys(Section::Jitter, &[], &path, table));
        self.keys_of_kind(JITTER_KINDS, kind, kind_node, "jitter", table);
        let place = kind_node.unwrap_or(node);
        let jitter = match kind {
            "none" => Jitter::None,
            "equal" => Jitter::Equal,
            "proportional" => match table.get("factor") {
                Some(node) => {
                    let Some(factor) = self.ratio(node, &format!("{path}.factor"), false) else {
                        return default;
                    };
                    Jitter::Proportional { factor }
                }
                None => {
                    let help = "write `jitter = { kind = \"proportional\", factor = 0.2 }`";
                    self.missing(place, "proportional jitter needs a `factor`", help);
                    return default;
                }
            },
            "additive" => match table.get("max") {
                Some(node) => {
                    let Some(max) = self.duration(node, &format!("{path}.max")) else { return default };
                    Jitter::Additive { max }
                }
                None => {
                    let help = "write `jitter = { kind = \"additive\", max = \"100ms\" }`";
                    self.missing(place, "additive jitter needs a `max`", help);
                    return default;
                }
            },
            "decorrelated" => Jitter::Decorrelated,
            "decorrelated_v2" => Jitter::DecorrelatedV2,
            _ => Jitter::Full,
        };
        if spec.jitter_told {
            self.given(&path, jitter_text(jitter), place);
        }
        jitter
    }

    fn bad_jitter(&mut self, node: &Node, path: &str) {
        let help = match node.value {
            Value::Boolean(true) => Some(format!("write `{path} = \"full\"`")),
            Value::Boolean(false) => Some(format!("write `{path} = \"none\"`")),
            Value::Float(factor) => {
                Some(format!("write `{path} = {{ kind = \"proportional\", factor = {factor} }}`"))
            }
            _ => None,
        };
        self.wrong_type(node, path, "a kind of jitter, such as \"full\", or a table", help);
    }

    fn hint(&mut self, table: &Table) -> HintPolicy {
        let before = self.problems.len();
        let mut hint = HintPolicy::DEFAULT;
        let empty = Table::new();
        let parts =
            self.table(table, "hint", "hint = { mode = \"minimum\", max = \"60s\" }").unwrap_or(&empty);
        self.problems.extend(unknown_keys(Section::Hint, &[], "hint", parts));
        match parts.get("mode") {
            Some(node) => {
                if let Some(mode) = self.hint_mode(node) {
                    hint = hint.mode(mode);
                }
            }
            None => self.built_in("hint.mode", "\"minimum\"".into(), "never earlier than the server asked"),
        }
        let ignored = hint.mode_used() == HintMode::Ignore;
        match parts.get("max") {
            Some(node) if ignored => self.no_effect(node, "`max` has no effect: hints are ignored", None),
            Some(node) => {
                if let Some(max) = self.duration_or_none(node, "hint.max") {
                    self.given("hint.max", text_of(max), node);
                    hint = hint.max(max.unwrap_or(Duration::MAX));
                }
            }
            None if ignored => {}
            None => self.built_in("hint.max", "\"1m\"".into(), "few callers can wait longer"),
        }
        match parts.get("over_max") {
            Some(node) if ignored => {
                self.no_effect(node, "`over_max` has no effect: hints are ignored", None)
            }
            Some(node) => {
                if let Some(word) = self.word(node, "hint.over_max", &["abort", "clamp", "ignore"]) {
                    self.given("hint.over_max", toml_string(word), node);
                    hint = hint.over_max(match word {
                        "clamp" => OverMax::Clamp,
                        "ignore" => OverMax::Ignore,
                        _ => OverMax::Abort,
                    });
                }
            }
            None if ignored => {}
            None => self.built_in(
                "hint.over_max",
                "\"abort\"".into(),
                "coming back earlier than asked is of no use",
            ),
        }
        let clamps = matches!(hint.mode_used(), HintMode::Clamp(_));
        match parts.get("spread") {
            Some(node) if ignored => self.no_effect(node, "`spread` has no effect: hints are ignored", None),
            Some(node) if clamps => {
                self.no_effect(node, "`spread` has no effect: a clamped hint is not spread", None)
            }
            Some(node) => {
                if let Some(spread) = self.ratio(node, "hint.spread", true) {
                    self.given("hint.spread", float_text(spread), node);
                    hint = hint.spread(spread);
                }
            }
            None if ignored || clamps => {}
            None => self.built_in(
                "hint.spread",
                "0.1".into(),
                "clients told the same time must not return together",
            ),
        }
        self.check(Policy::default().to_builder().hint(hint), before, &[table], "");
        hint
    }

    fn hint_mode(&mut self, node: &Node) -> Option<HintMode> {
        let Some(table) = node.table() else {
            let word = self.word(node, "hint.mode", &["minimum", "exact", "ignore"])?;
            self.given("hint.mode", toml_string(word), node);
            return Some(match word {
                "exact" => HintMode::Exact,
                "ignore" => HintMode::Ignore,
                _ => HintMode::Minimum,
            });
        };
        self.problems.extend(unknown_keys(Section::HintMode, &[], "hint.mode", table));
        let Some(over) = table.get("clamp") else {
            self.missing(node, "a table for `mode` needs `clamp`", "write `mode = { clamp = \"5s\" }`");
            return None;
        };
        let longest = self.duration(over, "hint.mode.clamp")?;
        self.given("hint.mode", format!("{{ clamp = {} }}", quoted(longest)), over);
        Some(HintMode::Clamp(longest))
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

    fn classes(&mut self, node: &Node, path: &str) -> Option<Classes> {
        let Some(elements) =
            self.array(node, path, "an array of classes, such as [\"transient\", \"timeout\"]")
        else {
            return None;
        };
        let before = self.problems.len();
        let mut classes = Classes::NONE;
        for element in elements {
            let known: Vec<&str> = Class::ALL.iter().map(|class| class.as_str()).collect();
            let Some(class) = self.word(element, path, &known).and_then(names::class) else { continue };
            if matches!(class, Class::Success | Class::Cancelled) {
                let message = format!("\"{class}\" is never retried");
                self.problems.push(Problem::new(Code::BadValue, &element.place, message));
            }
            classes = classes.with(class);
        }
        (self.problems.len() == before).then_some(classes)
    }

    /// The rules in order, and the names of those that have one: those of `rules` come first.
    fn rules(&mut self, table: &Table, retry_on: Classes) -> (Vec<Rule>, Vec<String>) {
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
                self.rule_classes(node, classes, taken, retry_on);
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
        if rules.len() > relent_core::MAX_RULES
            && let Some(node) = table.get("rules").or(table.get("on"))
        {
            let message = format!(
                "{} rules; a policy has at most {}, those of `on` included",
                rules.len(),
                relent_core::MAX_RULES
            );
            self.problems.push(Problem::new(Code::Limit, &node.key, message));
            rules.clear();
        }
        (rules, rule_names)
    }

    fn on_keys(&mut self, on: &Table) {
        for (key, node) in on {
            if matches!(key.as_str(), "success" | "cancelled") {
                let message = format!("`on.{key}` has no effect: \"{key}\" is never retried");
                self.problems.push(Problem::new(Code::NoEffect, &node.key, message));
            } else if !Section::On.keys().contains(&key.as_str()) {
                self.problems.push(unknown_key(Section::On, &[], "on", key, node));
            }
        }
    }

    fn rule_classes(&mut self, node: &Node, classes: Classes, taken: Classes, retry_on: Classes) {
        for class in classes.iter() {
            self.no_use(node, class, taken, retry_on);
        }
    }

    /// Whether a rule for `class` can never be met.
    fn no_use(&mut self, node: &Node, class: Class, taken: Classes, retry_on: Classes) -> bool {
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

    fn rule(&mut self, rule: Rule, own: &Table, policy: &Table, path: &str) -> Option<Rule> {
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
    fn rule_backoff(&mut self, own: &Table, policy: &Table, path: &str) -> Backoff {
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
            path,
            table: &backoff,
            told: &told,
            jitter,
            jitter_told: own.contains_key("jitter"),
            in_rule: true,
        })
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
                let text = self.context.sources.text(&node.place).to_owned();
                self.given(path, text, node);
            }
        }
    }

    // What follows reads one value.

    fn string<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n str> {
        let text = node.string();
        if text.is_none() {
            self.wrong_type(node, path, "a string", None);
        }
        text
    }

    fn table<'n>(&mut self, table: &'n Table, key: &str, shape: &str) -> Option<&'n Table> {
        let node = table.get(key)?;
        let found = node.table();
        if found.is_none() {
            let kinds = |words: &[(&str, &[&str])], word| words.iter().any(|(kind, _)| *kind == word);
            let help = match (key, node.string(), &node.value) {
                ("backoff", Some(word), _) if kinds(BACKOFF_KINDS, word) => {
                    format!("write `backoff = {{ kind = \"{word}\" }}`")
                }
                ("hint", Some(word @ ("minimum" | "exact" | "ignore")), _) => {
                    format!("write `hint = {{ mode = \"{word}\" }}`")
                }
                ("idempotency", _, Value::Boolean(require)) => {
                    format!("write `idempotency = {{ require = {require} }}`")
                }
                _ => format!("write `{shape}`"),
            };
            self.wrong_type(node, key, "a table", Some(help));
        }
        found
    }

    fn array<'n>(&mut self, node: &'n Node, path: &str, expected: &str) -> Option<&'n [Node]> {
        match &node.value {
            Value::Array(elements) if elements.len() > MAX_LIST => {
                let message = format!("`{path}` has {} entries; at most {MAX_LIST} are read", elements.len());
                self.problems.push(Problem::new(Code::Limit, &node.key, message));
                None
            }
            Value::Array(elements) => Some(elements),
            _ => {
                let name = path.rsplit('.').next().unwrap_or(path);
                let help = node.string().map(|word| format!("write `{name} = [\"{}\"]`", shorten(word)));
                self.wrong_type(node, path, expected, help.filter(|_| name != "rules" && name != "stages"));
                None
            }
        }
    }

    fn word<'w>(&mut self, node: &Node, path: &str, known: &[&'w str]) -> Option<&'w str> {
        let expected = one_of(known.iter().map(|word| format!("\"{word}\"")));
        let Some(text) = node.string() else {
            let help = match node.value {
                Value::Boolean(on) if path.ends_with("jitter") => {
                    Some(format!("write `{path} = \"{}\"`", if on { "full" } else { "none" }))
                }
                _ => None,
            };
            self.wrong_type(node, path, &expected, help);
            return None;
        };
        if let Some(word) = known.iter().find(|word| **word == text) {
            return Some(word);
        }
        let near = foreign_word(text).filter(|word| known.contains(word));
        let near = near.or_else(|| names::nearest(text, known.iter().copied()));
        let message = format!("\"{}\" is not a word for `{path}`", shorten(text));
        let problem =
            Problem::new(Code::UnknownWord, &node.place, message).label(format!("expected {expected}"));
        self.problems.push(problem.maybe_help(near.map(|word| format!("did you mean \"{word}\"?"))));
        None
    }

    fn duration(&mut self, node: &Node, path: &str) -> Option<Duration> {
        let Some(text) = node.string() else {
            self.no_duration(node, path);
            return None;
        };
        let error = match parse_duration(text) {
            Ok(duration) => return Some(duration),
            Err(error) => error,
        };
        // The string's own place, if it is written as it reads.
        let quoted = self.context.sources.text(&node.place);
        let start = quoted.find(text).filter(|start| *start <= 1).unwrap_or(usize::MAX);
        let place = match start.checked_add(error.span().end) {
            Some(_) if start <= 1 && !text.is_empty() => {
                let begin = node.place.start + start;
                Place::new(node.place.source, begin + error.span().start..begin + error.span().end)
            }
            _ => node.place.clone(),
        };
        let help = match error.suggestion() {
            Some(good) if error.is_bare_number() => {
                let millis = good.strip_suffix('s').map(|number| format!(" or `\"{number}ms\"`"));
                Some(format!("write `\"{good}\"`{}", millis.unwrap_or_default()))
            }
            Some(good) => Some(format!("write `\"{good}\"`")),
            None => None,
        };
        let message = format!("`{path}` is not a duration: {error}");
        let problem =
            Problem::new(Code::BadDuration, &place, message).label("expected a duration such as \"1m30s\"");
        self.problems.push(problem.maybe_help(help));
        None
    }

    fn no_duration(&mut self, node: &Node, path: &str) {
        let number = match &node.value {
            Value::Integer(Some(number)) if *number >= 0 => Some(number.to_string()),
            Value::Float(number) if number.is_finite() && *number >= 0.0 => Some(number.to_string()),
            _ => None,
        };
        match number {
            Some(number) => {
                let name = path.rsplit('.').next().unwrap_or(path);
                let message = format!("`{path}` is not a duration: a number without a unit");
                let problem = Problem::new(Code::BadDuration, &node.place, message)
                    .label("expected a duration such as \"1m30s\"")
                    .help(format!("write `{name} = \"{number}s\"` or `{name} = \"{number}ms\"`"));
                self.problems.push(problem);
            }
            None => self.wrong_type(node, path, "a duration such as \"1m30s\"", None),
        }
    }

    /// The outer none: it was bad, and that was told.
    #[allow(clippy::option_option, reason = "bad, none and some are three things")]
    fn duration_or_none(&mut self, node: &Node, path: &str) -> Option<Option<Duration>> {
        match node.string() {
            Some("none") => Some(None),
            _ => self.duration(node, path).map(Some),
        }
    }

    fn optional_duration(
        &mut self,
        table: &Table,
        prefix: &str,
        key: &str,
        why: &'static str,
    ) -> Option<Duration> {
        let path = format!("{prefix}{key}");
        let Some(node) = table.get(key) else {
            self.built_in(&path, "\"none\"".into(), why);
            return None;
        };
        let duration = self.duration_or_none(node, &path)?;
        self.given(&path, text_of(duration), node);
        duration
    }

    fn number(&mut self, node: &Node, path: &str, expected: &str) -> Option<f64> {
        match node.value {
            Value::Integer(Some(number)) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => {
                let numeric = node
                    .string()
                    .and_then(|text| text.trim().parse::<f64>().ok())
                    .filter(|number| number.is_finite());
                let name = path.rsplit('.').next().unwrap_or(path);
                let help = numeric.map(|number| format!("write `{name} = {}`", float_text(number)));
                self.wrong_type(node, path, expected, help);
                None
            }
        }
    }

    fn multiplier(&mut self, node: &Node, path: &str) -> Option<Multiplier> {
        const EXPECTED: &str = "a finite number of at least 1";
        let number = self.number(node, path, EXPECTED)?;
        let multiplier = Multiplier::new(number);
        if multiplier.is_none() {
            let message = format!("`{path}` must be a finite number of at least 1");
            self.problems.push(
                Problem::new(Code::BadValue, &node.place, message).help("1 means no growth, 2 doubling"),
            );
        }
        multiplier
    }

    fn ratio(&mut self, node: &Node, path: &str, zero: bool) -> Option<f64> {
        let expected = if zero { "a number from 0 to 1" } else { "a number above 0 and at most 1" };
        let number = self.number(node, path, expected)?;
        if number <= 1.0 && (number > 0.0 || (zero && number == 0.0)) {
            return Some(number);
        }
        let message = format!("`{path}` must be {expected}");
        let percent = (number > 1.0 && number <= 100.0)
            .then(|| format!("if it is a percentage, write {}", number / 100.0));
        self.problems.push(Problem::new(Code::BadValue, &node.place, message).maybe_help(percent));
        None
    }

    // What follows records or tells.

    fn owns(&self, node: &Node) -> bool {
        node.layer == self.context.own
    }

    /// Tells of keys that belong to another kind than `kind`.
    fn keys_of_kind(
        &mut self,
        kinds: &[(&str, &[&str])],
        kind: &str,
        kind_node: Option<&Node>,
        what: &str,
        table: &Table,
    ) {
        for (key, node) in table {
            let homes: Vec<&str> = kinds
                .iter()
                .filter(|(_, keys)| keys.contains(&key.as_str()))
                .map(|(kind, _)| *kind)
                .collect();
            if homes.is_empty() || homes.contains(&kind) || self.context.incomplete && kind_node.is_none() {
                continue;
            }
            let message =
                format!("`{key}` has no effect on a backoff of kind \"{kind}\"").replace("backoff", what);
            let given = match kind_node {
                Some(node) if !self.owns(node) => format!("\"{kind}\" comes from {}; ", self.origin(node)),
                Some(_) => String::new(),
                None => format!("\"{kind}\" is the built-in kind; "),
            };
            let kinds = one_of(homes.iter().map(|home| format!("\"{home}\"")));
            self.no_effect(node, &message, Some(format!("{given}`{key}` is for {kinds}")));
        }
    }

    fn no_effect(&mut self, node: &Node, message: &str, help: Option<String>) {
        if self.owns(node) && !self.context.incomplete {
            self.problems.push(Problem::new(Code::NoEffect, &node.key, message).maybe_help(help));
        }
    }

    fn missing(&mut self, node: &Node, message: &str, help: &str) {
        if !self.context.incomplete {
            self.problems.push(Problem::new(Code::Missing, &node.place, message).help(help));
        }
    }

    fn wrong_type(&mut self, node: &Node, path: &str, expected: &str, help: Option<String>) {
        let message = format!("`{path}` is {}", node.value.kind());
        let problem =
            Problem::new(Code::WrongType, &node.place, message).label(format!("expected {expected}"));
        self.problems.push(problem.maybe_help(help));
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
        let line = source
            .filter(|source| source.kind == SourceKind::File)
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
        Origin::Policy(self.context.layers.get(node.layer.0).cloned().unwrap_or_default())
    }
}

/// A backoff and jitter to be read.
struct BackoffSpec<'a> {
    section: Section,
    /// What stands before `backoff` in the path: empty, or `on.throttled.`
    path: &'a str,
    /// All that is given.
    table: &'a Table,
    /// What is given here, and so is told about; a rule has more from its policy.
    told: &'a Table,
    jitter: Option<(&'a Node, Table)>,
    /// Whether the jitter is given here.
    jitter_told: bool,
    in_rule: bool,
}

/// Reads the fields of one backoff.
struct Fields<'a, 'b, 'c> {
    path: &'a str,
    spec: &'a BackoffSpec<'a>,
    reader: &'b mut Reader<'c>,
}

impl<'a> Fields<'a, '_, '_> {
    fn schedule(&mut self, kind: &str, kind_node: Option<&Node>) -> Schedule {
        match kind {
            "constant" => Schedule::Constant { initial: self.initial() },
            "linear" => {
                let initial = self.initial();
                let step =
                    self.required("step", kind_node, "step = \"100ms\"").and_then(|_| self.time("step"));
                Schedule::Linear { initial, step: step.unwrap_or_default() }
            }
            "fibonacci" => Schedule::Fibonacci { initial: self.initial() },
            "list" => {
                let waits = self.required("waits", kind_node, "waits = [\"1s\", \"5s\", \"30s\"]");
                Schedule::List(
                    waits.map(|node| self.waits(node)).unwrap_or_else(|| Box::new([Duration::ZERO])),
                )
            }
            "stages" => {
                let shape = "stages = [{ until = \"2h\", initial = \"15m\" }, { initial = \"6h\" }]";
                let stages = self.required("stages", kind_node, shape);
                let never = Stage { until: None, initial: Duration::ZERO, multiplier: Multiplier::ONE };
                Schedule::Stages(stages.map(|node| self.stages(node)).unwrap_or_else(|| Box::new([never])))
            }
            "csma" => {
                let slot =
                    self.required("slot", kind_node, "slot = \"51.2us\"").and_then(|_| self.time("slot"));
                Schedule::Csma {
                    slot: slot.unwrap_or(Duration::from_nanos(1)),
                    max_exponent: self.max_exponent(),
                }
            }
            "exponential" => Schedule::Exponential { initial: self.initial(), multiplier: self.multiplier() },
            _ => self.unknown_schedule(),
        }
    }

    /// Tells what is wrong with the keys of a kind that is not known.
    fn unknown_schedule(&mut self) -> Schedule {
        self.time("step");
        self.time("slot");
        self.max_exponent();
        if let Some(node) = self.spec.table.get("waits") {
            self.waits(node);
        }
        if let Some(node) = self.spec.table.get("stages") {
            self.stages(node);
        }
        Schedule::Exponential { initial: self.initial(), multiplier: self.multiplier() }
    }

    fn initial(&mut self) -> Duration {
        let (initial, why) = self.reader.context.built_in.initial();
        if !self.spec.table.contains_key("initial") {
            if !self.spec.in_rule {
                self.reader.built_in(&format!("{}.initial", self.path), quoted(initial), why);
            }
            return initial;
        }
        self.time("initial").unwrap_or(initial)
    }

    fn multiplier(&mut self) -> Multiplier {
        let path = format!("{}.multiplier", self.path);
        let Some(node) = self.spec.table.get("multiplier") else {
            if !self.spec.in_rule {
                self.reader.built_in(
                    &path,
                    "2".into(),
                    "doubling leaves room quickly and is easy to foresee",
                );
            }
            return Multiplier::TWO;
        };
        let multiplier = self.reader.multiplier(node, &path);
        self.told("multiplier", multiplier.map(|multiplier| float_text(multiplier.as_f64())), node);
        multiplier.unwrap_or_default()
    }

    fn max_exponent(&mut self) -> u32 {
        let path = format!("{}.max_exponent", self.path);
        let Some(node) = self.spec.table.get("max_exponent") else {
            if !self.spec.in_rule {
                self.reader.built_in(&path, "10".into(), "the standard's");
            }
            return 10;
        };
        match node.value {
            Value::Integer(Some(number @ 1..=63)) => {
                self.told("max_exponent", Some(number.to_string()), node);
                u32::try_from(number).unwrap_or(10)
            }
            Value::Integer(_) => {
                let message = format!("`{path}` must be from 1 to 63; the standard's is 10");
                self.reader.problems.push(Problem::new(Code::BadValue, &node.place, message));
                10
            }
            _ => {
                self.reader.wrong_type(node, &path, "a whole number from 1 to 63", None);
                10
            }
        }
    }

    fn waits(&mut self, node: &Node) -> Box<[Duration]> {
        let path = format!("{}.waits", self.path);
        let Some(elements) =
            self.reader.array(node, &path, "an array of durations, such as [\"1s\", \"5s\"]")
        else {
            return Box::new([Duration::ZERO]);
        };
        let waits: Box<[Duration]> =
            elements.iter().filter_map(|element| self.reader.duration(element, &path)).collect();
        let text: Vec<String> = waits.iter().map(|wait| quoted(*wait)).collect();
        self.told("waits", Some(format!("[{}]", text.join(", "))), node);
        // If all were bad, that was told; the core tells if there were none.
        if waits.is_empty() && !elements.is_empty() { Box::new([Duration::ZERO]) } else { waits }
    }

    fn stages(&mut self, node: &Node) -> Box<[Stage]> {
        let path = format!("{}.stages", self.path);
        let Some(elements) = self.reader.array(node, &path, "an array of tables") else {
            return Box::new([]);
        };
        let stages: Box<[Stage]> = elements.iter().filter_map(|element| self.stage(element, &path)).collect();
        let text: Vec<String> = stages.iter().map(stage_text).collect();
        self.told("stages", Some(format!("[{}]", text.join(", "))), node);
        stages
    }

    fn stage(&mut self, node: &Node, path: &str) -> Option<Stage> {
        let Some(table) = node.table() else {
            self.reader.wrong_type(node, path, "a table such as { until = \"2h\", initial = \"15m\" }", None);
            return None;
        };
        self.reader.problems.extend(unknown_keys(Section::Stage, &[], path, table));
        let until = match table.get("until") {
            Some(node) => self.reader.duration_or_none(node, &format!("{path}.until"))?,
            None => None,
        };
        let Some(initial) = table.get("initial") else {
            let help = "write `initial = \"15m\"`";
            self.reader
                .problems
                .push(Problem::new(Code::Missing, &node.place, "a stage needs an `initial`").help(help));
            return None;
        };
        let initial = self.reader.duration(initial, &format!("{path}.initial"))?;
        let multiplier = match table.get("multiplier") {
            Some(node) => self.reader.multiplier(node, &format!("{path}.multiplier"))?,
            None => Multiplier::ONE,
        };
        Some(Stage { until, initial, multiplier })
    }

    /// A key without which this kind is nothing.
    fn required(&mut self, key: &str, kind_node: Option<&Node>, shape: &str) -> Option<&'a Node> {
        let found = self.spec.table.get(key);
        if let (None, Some(kind)) = (found, kind_node) {
            let message =
                format!("a backoff of kind \"{}\" needs `{key}`", kind.string().unwrap_or_default());
            self.reader.missing(kind, &message, &format!("write `{shape}`"));
        }
        found
    }

    fn time(&mut self, key: &str) -> Option<Duration> {
        let node = self.spec.table.get(key)?;
        let duration = self.reader.duration(node, &format!("{}.{key}", self.path))?;
        self.told(key, Some(quoted(duration)), node);
        Some(duration)
    }

    #[allow(clippy::option_option, reason = "not given, none and some are three things")]
    fn optional(&mut self, key: &str) -> Option<Option<Duration>> {
        let node = self.spec.table.get(key)?;
        let duration = self.reader.duration_or_none(node, &format!("{}.{key}", self.path))?;
        self.told(key, Some(text_of(duration)), node);
        Some(duration)
    }

    fn choice<'w>(&mut self, key: &str, words: &[&'w str]) -> Option<&'w str> {
        let node = self.spec.table.get(key)?;
        let word = self.reader.word(node, &format!("{}.{key}", self.path), words)?;
        self.told(key, Some(toml_string(word)), node);
        Some(word)
    }

    fn told(&mut self, key: &str, text: Option<String>, node: &Node) {
        if let Some(text) = text
            && self.spec.told.contains_key(key)
        {
            self.reader.given(&format!("{}.{key}", self.path), text, node);
        }
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

fn foreign_word(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "expo" | "exp" | "exponential_backoff" | "exponentialbackoff" | "geometric" => "exponential",
        "fixed" | "static" | "none" | "flat" => "constant",
        "incremental" | "incrementing" | "increment" => "linear",
        "fibo" => "fibonacci",
        "half" | "half_jitter" => "equal",
        "true" | "on" | "random" | "full_jitter" | "fulljitter" => "full",
        "false" | "off" | "no" => "none",
        "decorrelated_jitter" | "decorr" => "decorrelated",
        "truncate" | "shorten" => "fit",
        "retryable" | "unavailable" | "error" => "transient",
        "throttling" | "rate_limited" | "too_many_requests" => "throttled",
        "timed_out" | "timedout" => "timeout",
        "zero" | "none_first" | "now" => "immediate",
        _ => return None,
    })
}

pub(crate) fn jitter_text(jitter: Jitter) -> String {
    match jitter {
        Jitter::Proportional { factor } => {
            format!("{{ kind = \"proportional\", factor = {} }}", float_text(factor))
        }
        Jitter::Additive { max } => format!("{{ kind = \"additive\", max = {} }}", quoted(max)),
        other => toml_string(other.as_str()),
    }
}

pub(crate) fn stage_text(stage: &Stage) -> String {
    let until = stage.until.map_or(String::new(), |until| format!("until = {}, ", quoted(until)));
    let multiplier = match stage.multiplier {
        Multiplier::ONE => String::new(),
        multiplier => format!(", multiplier = {}", float_text(multiplier.as_f64())),
    };
    format!("{{ {until}initial = {}{multiplier} }}", quoted(stage.initial))
}

pub(crate) fn classes_text(classes: Classes) -> String {
    let words: Vec<String> = classes.iter().map(|class| format!("\"{class}\"")).collect();
    format!("[{}]", words.join(", "))
}

pub(crate) fn quoted(duration: Duration) -> String {
    format!("\"{}\"", format_duration(duration.min(crate::MAX_DURATION)))
}

pub(crate) fn text_of(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "\"none\"".to_owned(), quoted)
}

/// The shortest TOML number that reads back as this one.
pub(crate) fn float_text(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A TOML string that reads back as `text`.
pub(crate) fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn one_of<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<S> = words.into_iter().collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} or {}", most.join(", "), last.as_ref())
        }
    }
}

/// A name from the file, safe to show.
fn shorten(name: &str) -> String {
    let shown: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    if name.chars().count() > 60 { shown + "…" } else { shown }
}
