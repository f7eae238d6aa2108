//! Circuit breakers.

use std::time::Duration;

use relent_core::{
    Backoff, BreakerMode, BreakerPolicy, BreakerWindow, Jitter, Multiplier, Policy, Ratio, Schedule,
};

use super::Reader;
use super::backoff::BackoffSpec;
use super::part::Part;
use crate::diagnostic::{Code, Problem};
use crate::names::{Section, WINDOW_KINDS};
use crate::shared::Scope;
use crate::text::toml_string;
use crate::tree::{self, Layer, Node, Table, Value};

const A_WINDOW: &str = "window = { kind = \"time\", size = \"30s\" }";

impl Reader<'_> {
    pub(super) fn breaker(
        &mut self,
        node: &Node,
        table: &Table,
        path: &str,
    ) -> Option<(BreakerPolicy, Scope)> {
        let before = self.problems.len();
        let mut part = Part::new(self, Section::Breaker, path, node, table);
        let window = part.window();
        let policy = match window {
            Some(BreakerWindow::Count(calls)) => Some(part.by_ratio(BreakerPolicy::count(calls))),
            Some(BreakerWindow::Time(size)) => Some(part.by_ratio(BreakerPolicy::time(size))),
            Some(_) => part.in_a_row(),
            None => None,
        };
        let open_for = part.open_for();
        let max_probes = part.whole("max_probes", (1, "one call finds out whether the target is back"));
        let success_ratio = part.ratio("success_ratio", false, (Ratio::ONE, "of the probes"));
        if max_probes == 1 && success_ratio < Ratio::ONE {
            part.no_effect("success_ratio", "of one probe, all must succeed; give `max_probes` too");
        }
        let give_up = (Duration::from_secs(60), "a probe that hangs must not keep everybody out");
        let max_probe_duration = part.time("max_probe_duration", give_up);
        let ramp = part.time("ramp", (Duration::ZERO, "what the probes say, they say for all calls"));
        let modes = BreakerMode::ALL.map(BreakerMode::as_str);
        let mode = part.word("mode", &modes, (modes[0], "it is there to open"));
        let scope = part.scope();
        let policy = policy?
            .open_for(open_for)
            .max_probes(max_probes)
            .success_ratio(if max_probes == 1 { Ratio::ONE } else { success_ratio })
            .max_probe_duration(max_probe_duration)
            .ramp(ramp)
            .mode(mode.parse().unwrap_or_default());
        if part.reader.problems.len() == before
            && let Err(error) = policy.check()
        {
            part.refused(error);
        }
        (self.problems.len() == before).then_some((policy, scope))
    }
}

impl Part<'_, '_> {
    /// Its kind may be told by its size: so many calls, or so long.
    fn window(&mut self) -> Option<BreakerWindow> {
        let Some(node) = self.get("window") else {
            let message = format!("`{}` needs a `window`: what it looks at", self.path);
            let help =
                format!("write `{A_WINDOW}`, or `window = {{ kind = \"consecutive\" }}` with `failures = 5`");
            self.reader.missing(self.node, &message, &help);
            return None;
        };
        let path = format!("{}.window", self.path);
        let Some(table) = node.table() else {
            self.reader.wrong_type(node, &path, "a table", Some(format!("write `{A_WINDOW}`")));
            return None;
        };
        let mut part = Part::new(self.reader, Section::BreakerWindow, &path, node, table);
        let kind = match (part.get("kind"), part.get("size").map(|node| &node.value)) {
            (Some(kind), _) => {
                let kinds = WINDOW_KINDS.map(|(kind, _)| kind);
                let word = part.reader.word(kind, &format!("{path}.kind"), &kinds)?;
                part.given("kind", toml_string(word), kind);
                part.reader.keys_of_kind(&WINDOW_KINDS, word, Some(kind), "window", table);
                word
            }
            (None, Some(Value::Integer(_))) => "count",
            (None, Some(_)) => "time",
            (None, None) => {
                part.required("kind", A_WINDOW);
                return None;
            }
        };
        match kind {
            "count" => part.required_whole("size", "size = 100").map(BreakerWindow::Count),
            "time" => {
                part.required("size", "size = \"30s\"")?;
                part.maybe_time("size").map(BreakerWindow::Time)
            }
            _ => Some(BreakerWindow::Consecutive),
        }
    }

    /// Opens at failures in a row: ratios have nothing to do with it.
    fn in_a_row(&mut self) -> Option<BreakerPolicy> {
        for key in ["failure_ratio", "slow_ratio", "slow_after", "min_calls"] {
            self.no_effect(key, "failures in a row have no ratio");
        }
        self.required_whole("failures", "failures = 5").map(BreakerPolicy::consecutive)
    }

    fn by_ratio(&mut self, plain: BreakerPolicy) -> BreakerPolicy {
        let mut policy = plain;
        if let Some(failures) = self.maybe_whole("failures") {
            policy = policy.failures(failures);
        }
        policy = match self.get("failure_ratio") {
            Some(node) if node.string() == Some("none") => {
                self.given("failure_ratio", "\"none\"".into(), node);
                policy.no_failure_ratio()
            }
            _ => {
                policy.failure_ratio(self.ratio("failure_ratio", false, (Ratio::percent(50), "half of them")))
            }
        };
        policy = self.slow_calls(policy);
        if policy.failure_ratio.is_none() && policy.slow_ratio.is_none() {
            self.no_effect("min_calls", "it is for ratios, and there is none");
            return policy;
        }
        let fewest = policy.min_calls;
        policy.min_calls(self.whole("min_calls", (fewest, "two failures of three calls say little")))
    }

    fn slow_calls(&mut self, policy: BreakerPolicy) -> BreakerPolicy {
        match (self.get("slow_ratio"), self.get("slow_after")) {
            (None, None) => policy,
            (Some(node), _) if node.string() == Some("none") => {
                self.given("slow_ratio", "\"none\"".into(), node);
                self.no_effect("slow_after", "there is no `slow_ratio`");
                policy
            }
            (Some(node), None) => {
                let help = "only you know what is slow: write `slow_after = \"2s\"`";
                self.reader.missing(node, "`slow_ratio` needs `slow_after`", help);
                policy
            }
            (None, Some(_)) => {
                self.no_effect("slow_after", "there is no `slow_ratio`");
                policy
            }
            (Some(_), Some(_)) => {
                match (self.maybe_ratio("slow_ratio", false), self.maybe_time("slow_after")) {
                    (Some(ratio), Some(after)) => policy.slow_calls(ratio, after),
                    _ => policy,
                }
            }
        }
    }

    /// A backoff of its own over the built-in one, as a rule's lies over its policy's.
    fn open_for(&mut self) -> Backoff {
        let path = format!("{}.open_for", self.path);
        let built_in = built_in_open_for(self.node);
        let told = match self.get("open_for") {
            Some(Node { value: Value::Table(table), .. }) => table.clone(),
            Some(node) => {
                let time = node.string().filter(|text| crate::parse_duration(text).is_ok());
                let help = format!("write `open_for = {{ initial = \"{}\" }}`", time.unwrap_or("5s"));
                let always = time.map(|time| {
                    format!(", or `{{ kind = \"constant\", initial = \"{time}\", jitter = \"none\" }}` for exactly that each time")
                });
                self.reader.wrong_type(
                    node,
                    &path,
                    "a table, as of a backoff",
                    Some(help + &always.unwrap_or_default()),
                );
                Table::new()
            }
            None => Table::new(),
        };
        let over = |key: &str, table| {
            Table::from([(key.to_owned(), Node { value: Value::Table(table), ..self.node.clone() })])
        };
        let merged = tree::merge(&over("open_for", built_in.clone()), &over("open_for", told.clone()));
        let mut merged = merged.get("open_for").and_then(Node::table).cloned().unwrap_or_default();
        // Where another schedule takes the built-in one's place, its jitter stays.
        let jitter = merged.remove("jitter").or_else(|| built_in.get("jitter").cloned());
        let whole = merged.clone();
        let mut own = told;
        let jitter_told = own.remove("jitter").is_some();
        let jitter_path = format!("{path}.jitter");
        if let Some(node) = jitter.as_ref().filter(|node| tree::expanded("jitter", node).is_none()) {
            self.reader.bad_jitter(node, &jitter_path);
        }
        let before = self.reader.problems.len();
        let open_for = self.reader.backoff(BackoffSpec {
            section: Section::RuleBackoff,
            path: path.clone(),
            jitter_path,
            table: &merged,
            told: &own,
            jitter: jitter.as_ref().and_then(|node| Some((node, tree::expanded("jitter", node)?))),
            jitter_told,
            in_rule: true,
        });
        if let Schedule::Stages(_) = open_for.schedule() {
            let message =
                format!("`{path}.kind` cannot be \"stages\": they go by the time since a call began");
            let place = own.get("kind").map_or(&self.node.place, |node| &node.place);
            self.reader.problems.push(Problem::new(Code::BadValue, place, message));
        }
        if self.reader.problems.len() == before
            && let Err(error) = Policy::default().to_builder().backoff(open_for.clone()).build()
        {
            let key = error.key().strip_prefix("backoff.").unwrap_or(error.key());
            let node = self.get("open_for").unwrap_or(self.node);
            self.reader.part_refused(key, error.why(), &path, &whole, node);
        }
        if own.is_empty() && !jitter_told {
            let why = "longer while it reopens; a fleet's breakers must not probe in step";
            self.reader.built_in(&path, open_for_text(&open_for), why);
        }
        open_for
    }
}

/// What [`BreakerPolicy`]'s own default says, as a file would.
fn built_in_open_for(node: &Node) -> Table {
    let leaf = |value| Node { value, layer: Layer::BUILT_IN, ..node.clone() };
    let text = |text: &str| leaf(Value::String(text.to_owned()));
    let jitter = Table::from([
        ("kind".to_owned(), text("proportional")),
        ("factor".to_owned(), leaf(Value::Float(0.2))),
    ]);
    Table::from([
        ("kind".to_owned(), text("exponential")),
        ("initial".to_owned(), text("5s")),
        ("cap".to_owned(), text("2m")),
        ("jitter".to_owned(), leaf(Value::Table(jitter))),
    ])
}

fn open_for_text(backoff: &Backoff) -> String {
    let mut entries = crate::print::backoff_entries(backoff, None);
    entries.push(("jitter", crate::text::jitter_text(backoff.jitter_used())));
    crate::print::inline(&entries)
}

/// The open time that holds where nothing is said.
fn plain_open_for() -> Backoff {
    BreakerPolicy::consecutive(1).open_for
}

/// The keys of a breaker, without those that say what holds anyway.
pub(crate) fn entries(policy: &BreakerPolicy, scope: Scope) -> Vec<(&'static str, String)> {
    use crate::text::{quoted, ratio_text};
    let plain = match policy.window {
        BreakerWindow::Count(calls) => BreakerPolicy::count(calls),
        BreakerWindow::Time(size) => BreakerPolicy::time(size),
        _ => BreakerPolicy::consecutive(1),
    };
    let size = match policy.window {
        BreakerWindow::Count(calls) => format!(", size = {calls}"),
        BreakerWindow::Time(size) => format!(", size = {}", quoted(size)),
        _ => String::new(),
    };
    let mut entries = vec![("window", format!("{{ kind = \"{}\"{size} }}", policy.window.as_str()))];
    if let Some(failures) = policy.failures {
        entries.push(("failures", failures.to_string()));
    }
    if policy.window != BreakerWindow::Consecutive {
        match policy.failure_ratio {
            None => entries.push(("failure_ratio", "\"none\"".into())),
            ratio if ratio == plain.failure_ratio => {}
            Some(ratio) => entries.push(("failure_ratio", ratio_text(ratio))),
        }
        if let Some(ratio) = policy.slow_ratio {
            entries.push(("slow_ratio", ratio_text(ratio)));
            entries.push(("slow_after", quoted(policy.slow_after)));
        }
        let looked_at = policy.failure_ratio.is_some() || policy.slow_ratio.is_some();
        if looked_at && policy.min_calls != plain.min_calls {
            entries.push(("min_calls", policy.min_calls.to_string()));
        }
    }
    if policy.open_for != plain_open_for() {
        entries.push(("open_for", open_for_entries(&policy.open_for)));
    }
    if policy.max_probes != 1 {
        entries.push(("max_probes", policy.max_probes.to_string()));
        if policy.success_ratio != Ratio::ONE {
            entries.push(("success_ratio", ratio_text(policy.success_ratio)));
        }
    }
    if policy.max_probe_duration != plain.max_probe_duration {
        entries.push(("max_probe_duration", quoted(policy.max_probe_duration)));
    }
    if !policy.ramp.is_zero() {
        entries.push(("ramp", quoted(policy.ramp)));
    }
    if policy.mode != BreakerMode::Automatic {
        entries.push(("mode", toml_string(policy.mode.as_str())));
    }
    if scope == Scope::Process {
        entries.push(("scope", toml_string(scope.as_str())));
    }
    entries
}

/// All of it is written, for it lies over a built-in one.
fn open_for_entries(backoff: &Backoff) -> String {
    let doubles = matches!(backoff.schedule(), Schedule::Exponential { multiplier, .. } if *multiplier == Multiplier::TWO);
    let plain = Policy::default();
    let entries = crate::print::backoff_entries(backoff, Some(plain.backoff()));
    let mut entries: Vec<_> =
        entries.into_iter().filter(|(key, _)| !(doubles && *key == "multiplier")).collect();
    if !matches!(backoff.schedule(), Schedule::Csma { .. }) || backoff.jitter_used() != Jitter::None {
        entries.push(("jitter", crate::text::jitter_text(backoff.jitter_used())));
    }
    crate::print::inline(&entries)
}
