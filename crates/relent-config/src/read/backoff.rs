//! Backoff and jitter.

use std::time::Duration;

use relent_core::{Backoff, Bound, First, Jitter, Multiplier, Policy, Schedule, Stage};

use super::Reader;
use super::value::unknown_keys;
use crate::diagnostic::{Code, Problem};
use crate::duration::format_duration;
use crate::names::{BACKOFF_KINDS, JITTER_KINDS, Section};
use crate::text::{float_text, jitter_text, quoted, stage_text, text_of, toml_string};
use crate::tree::{self, Node, Table, Value};

impl Reader<'_> {
    pub(super) fn main_backoff(&mut self, table: &Table) -> Backoff {
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
            path: "backoff".to_owned(),
            jitter_path: "jitter".to_owned(),
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
    pub(super) fn backoff(&mut self, spec: BackoffSpec<'_>) -> Backoff {
        let path = spec.path.clone();
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
        // The jitter is read first, for what it takes from the schedule, and listed last.
        let listed = self.settings.len();
        let jitter = self.jitter(&spec, kind == "csma");
        let jitter_settings = self.settings.split_off(listed);
        let mut fields = Fields { path: &path, spec: &spec, jitter, reader: self };
        let schedule = fields.schedule(kind, kind_node);
        let cap = fields.optional("cap");
        let floor = fields.time("floor");
        let first = fields.choice("first", &["initial", "immediate"]);
        let bound = fields.choice("bound", &["range", "sample", "loose"]);
        let initial_spread = fields.time("initial_spread");
        let reset_after = fields.optional("reset_after");

        let initial = schedule.initial();
        let mut backoff = Backoff::new(schedule).jitter(jitter);
        backoff = match cap {
            Some(Some(cap)) => backoff.cap(cap),
            Some(None) => backoff.uncapped(),
            None => self.default_cap(backoff, &spec, &path, kind, initial),
        };
        self.settings.extend(jitter_settings);
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
    pub(super) fn default_cap(
        &mut self,
        backoff: Backoff,
        spec: &BackoffSpec<'_>,
        path: &str,
        kind: &str,
        initial: Duration,
    ) -> Backoff {
        let grows = matches!(kind, "linear" | "exponential" | "fibonacci");
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

    pub(super) fn jitter(&mut self, spec: &BackoffSpec<'_>, csma: bool) -> Jitter {
        let path = spec.jitter_path.clone();
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

    pub(super) fn bad_jitter(&mut self, node: &Node, path: &str) {
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
}

/// A backoff and jitter to be read.
pub(super) struct BackoffSpec<'a> {
    pub(super) section: Section,
    /// Its path: `backoff`, `on.throttled.backoff`, `breaker.open_for`.
    pub(super) path: String,
    /// That of its jitter.
    pub(super) jitter_path: String,
    /// All that is given.
    pub(super) table: &'a Table,
    /// What is given here, and so is told about; a rule has more from its policy.
    pub(super) told: &'a Table,
    pub(super) jitter: Option<(&'a Node, Table)>,
    /// Whether the jitter is given here.
    pub(super) jitter_told: bool,
    pub(super) in_rule: bool,
}

/// Reads the fields of one backoff.
struct Fields<'a, 'b, 'c> {
    path: &'a str,
    spec: &'a BackoffSpec<'a>,
    jitter: Jitter,
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
        if matches!(self.jitter, Jitter::Decorrelated | Jitter::DecorrelatedV2) {
            if let Some(node) = self.spec.told.get("multiplier") {
                let word = self.jitter.as_str();
                self.reader.no_effect(
                    node,
                    &format!("`multiplier` has no effect: {word} jitter grows by itself"),
                    None,
                );
            }
            return Multiplier::TWO;
        }
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
