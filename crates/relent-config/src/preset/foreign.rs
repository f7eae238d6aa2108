//! Presets that take what they say from another system's own text.

use std::collections::BTreeSet;

use relent_core::{Class, Classes, CommonPolicy, MAX_RULES, Policy, Ratio};

use super::{Keys, Making, Preset};
use crate::diagnostic::{Code, Problem};
use crate::foreign::{GrpcCode, MethodConfig, ServiceConfig, State, StateMachine};
use crate::names;
use crate::resolved::Origin;
use crate::source::{Source, Sources};
use crate::text::{classes_text, float_text, quoted, shorten, text_of, toml_string};
use crate::tree::{Node, Table};

const CHECKED: &str = "2026-12-01";

/// The most retries that a retrier may ask for: a rule counts its failures in a byte.
const MOST_RETRIES: u32 = 253;

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "grpc",
        description: "gRPC's retries with the numbers of the design's example, or those of a service config",
        system: "gRPC, retry policy",
        version: "gRFC A6 as of August 2024",
        sources: &["https://github.com/grpc/proposal/blob/master/A6-client-retries.md"],
        checked: CHECKED,
        differs: &[
            "gRPC retries nothing until a service config says so",
            "codes are classes here: UNAVAILABLE is transient, RESOURCE_EXHAUSTED throttled, DEADLINE_EXCEEDED a timeout",
            "a pushback does not make retryable what is not, as in Go and in C; in Java it does",
            "a wait that would reach past the deadline ends the call at once",
        ],
        over: None,
        keys: Keys::Made {
            parameters: &["config", "method"],
            example: r#"preset = { name = "grpc", config = "service-config.json", method = "package.Service/Method" }"#,
            make: grpc,
        },
    },
    Preset {
        name: "step-functions",
        description: "The Retry array of a state of AWS Step Functions, from its own text",
        system: "AWS Step Functions, Retry",
        version: "Amazon States Language, as of 2025",
        sources: &[
            "https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html",
            "https://states-language.net/spec.html#errors",
        ],
        checked: CHECKED,
        differs: &[
            "errors are classes here: States.ALL is all of them, States.Timeout a timeout, States.TaskFailed all others; \
             what other names stand for is the classifier's to say, by the name of the rule",
            "a policy has six rules: the evaluator of the library takes arrays of any length",
        ],
        over: None,
        keys: Keys::Made {
            parameters: &["definition", "state"],
            example: r#"preset = { name = "step-functions", definition = "machine.asl.json", state = "Fetch" }"#,
            make: step_functions,
        },
    },
];

/// The examples of the design for a retry policy and for throttling.
const GRPC_EXAMPLE: &str = r#"
max_attempts = 4
backoff = { kind = "exponential", initial = "100ms", multiplier = 2, cap = "1s", bound = "loose" }
jitter = { kind = "proportional", factor = 0.2 }
hint = { mode = "exact", max = "none", spread = 0 }
retry_on = ["transient", "not_sent"]
budget = { kind = "token_bucket", capacity = 10, per_success = 0.1, per_failure = 1, per_retry = 0, half_full = true }
"#;

fn grpc(making: &mut Making<'_>) -> Option<Table> {
    let Some(config) = making.parameters.get("config") else {
        if let Some(node) = making.parameters.get("method") {
            let problem =
                Problem::new(Code::NoEffect, &node.key, "`method` has no effect without a `config`");
            making.problems.push(problem.help("write `config = \"service-config.json\"`"));
            return None;
        }
        return making.embedded("grpc", GRPC_EXAMPLE);
    };
    let path = making.string(config, "config")?;
    let name = match making.parameters.get("method") {
        Some(node) => making.string(node, "method")?,
        None => {
            let problem = Problem::new(Code::Missing, &making.named.place, "`preset` has no `method`");
            making.problems.push(problem.help("write `method = \"package.Service/Method\"`"));
            return None;
        }
    };
    let config = making.read(config, path, ServiceConfig::read)?;
    let Some(method) = config.method(name) else {
        let node = making.parameters.get("method").unwrap_or(making.named);
        let message = format!("{path} says nothing about the method {}", shorten(name));
        making.problems.push(Problem::new(Code::BadValue, &node.place, message));
        return None;
    };
    let mut text = method_text(method);
    let budgets = config.throttling().map(|bucket| (bucket.into(), Ratio::ZERO));
    let shared = CommonPolicy {
        budgets: budgets.into_iter().collect(),
        hedge: method.hedge(),
        ..CommonPolicy::default()
    };
    text.push_str(&crate::print::common_to_toml(&shared));
    making.made(format!("{path}, {name}"), &text)
}

/// What holds for a method, as a policy.
fn method_text(method: &MethodConfig) -> String {
    let mut text = crate::print::to_toml(method.policy());
    if method.policy().max_attempts() == Policy::default().max_attempts() {
        // What is as the defaults are is left out, but this preset says it.
        text.insert_str(0, "max_attempts = 4\n");
    }
    let listed =
        |class| GrpcCode::ALL.iter().any(|code| *code != GrpcCode::Ok && method.class(*code) == class);
    let failures = Classes::RETRYABLE.iter().filter(|class| *class == Class::NotSent || listed(*class));
    let classes: Classes = failures.collect();
    if classes != Classes::RETRYABLE {
        text.push_str(&format!("retry_on = {}\n", classes_text(classes)));
    }
    text
}

fn step_functions(making: &mut Making<'_>) -> Option<Table> {
    let Some(definition) = making.parameters.get("definition") else {
        let problem = Problem::new(Code::Missing, &making.named.place, "`preset` has no `definition`");
        making.problems.push(problem.help(
            "write `preset = { name = \"step-functions\", definition = \"machine.asl.json\", state = \"Fetch\" }`",
        ));
        return None;
    };
    let path = making.string(definition, "definition")?;
    let machine = making.read(definition, path, StateMachine::read)?;
    let (state, shown) = match making.parameters.get("state") {
        Some(node) => {
            let name = making.string(node, "state")?;
            let Some(state) = machine.state(name) else {
                let message = format!("{path} has no state {} that can be retried", shorten(name));
                let names = machine.states().iter().filter_map(State::name);
                let near = names::nearest(name, names).map(|near| format!("did you mean \"{near}\"?"));
                making.problems.push(Problem::new(Code::BadValue, &node.place, message).maybe_help(near));
                return None;
            };
            (state, format!("{path}, {name}"))
        }
        None => {
            let Some(state) = machine.only_state() else {
                let message = format!("{path} has {} states that can be retried", machine.states().len());
                let problem = Problem::new(Code::Missing, &making.named.place, message);
                making.problems.push(problem.help("name one of them: `state = \"Fetch\"`"));
                return None;
            };
            (state, path.to_owned())
        }
    };
    match rules_text(state) {
        Ok(text) => making.made(shown, &text),
        Err(why) => {
            let problem = Problem::new(Code::Limit, &definition.place, format!("{shown}: {why}"));
            making.problems.push(problem.help("`relent_core::StateRetry` evaluates arrays of any length"));
            None
        }
    }
}

/// A `Retry` array as rules.
fn rules_text(state: &State) -> Result<String, String> {
    let mut rules = String::new();
    let mut unnamed = failures(|_| true);
    let mut seen = BTreeSet::new();
    let mut count = 0;
    for retrier in state.retry().retriers() {
        if retrier.most_retries() > MOST_RETRIES {
            return Err(format!("a rule makes at most {MOST_RETRIES} retries"));
        }
        let names: Vec<&str> = retrier.errors().iter().collect();
        if !seen.insert(names.clone()) {
            // An entry with the names of an earlier one is never asked.
            continue;
        }
        let classes = failures(|class| {
            let error = if class == Class::Timeout { "States.Timeout" } else { "States.TaskFailed" };
            // Of an error that has a name of its own nothing is known but that it is no timeout.
            names.iter().any(|name| matches!(*name, "States.ALL" | "States.TaskFailed" | "States.Timeout"))
                && retrier.errors().matches(error)
        });
        unnamed = unnamed.iter().filter(|class| !classes.contains(*class)).collect();
        let backoff = retrier.backoff();
        let multiplier = match backoff.schedule() {
            relent_core::Schedule::Exponential { multiplier, .. } => multiplier.as_f64(),
            _ => 1.0,
        };
        rules.push_str(&format!(
            "    {{ name = {}, {}max_attempts = {}, backoff = {{ kind = \"exponential\", initial = {}, multiplier = {}, cap = {} }}, jitter = {} }},\n",
            toml_string(&names.join(" | ")),
            if classes.is_empty() { String::new() } else { format!("classes = {}, ", classes_text(classes)) },
            retrier.most_retries() + 1,
            quoted(backoff.schedule().initial()),
            float_text(multiplier),
            text_of(backoff.longest()),
            toml_string(backoff.jitter_used().as_str()),
        ));
        count += 1;
    }
    if !unnamed.is_empty() {
        // What no retrier names ends the call.
        rules.push_str(&format!(
            "    {{ name = \"what no retrier names\", classes = {}, max_attempts = 1 }},\n",
            classes_text(unnamed)
        ));
        count += 1;
    }
    if count > MAX_RULES {
        return Err(format!("a policy has {MAX_RULES} rules, and this array needs {count}"));
    }
    let all = classes_text(failures(|_| true));
    Ok(format!(
        "max_attempts = \"unlimited\"\nhint = {{ mode = \"ignore\" }}\nretry_on = {all}\nrules = [\n{rules}]\n"
    ))
}

/// The classes that can be retried at all and are as asked for.
fn failures(wanted: impl Fn(Class) -> bool) -> Classes {
    let can = |class: &Class| !matches!(class, Class::Success | Class::Cancelled);
    Class::ALL.into_iter().filter(can).filter(|class| wanted(*class)).collect()
}

impl Making<'_> {
    /// A parameter that must be a string.
    pub(super) fn string<'n>(&mut self, node: &'n Node, key: &str) -> Option<&'n str> {
        if node.string().is_none() {
            let problem =
                Problem::new(Code::WrongType, &node.place, format!("`{key}` is {}", node.value.kind()));
            self.problems.push(problem.label("expected a string"));
        }
        node.string()
    }

    /// What a file says; what is wrong with it is told at its place there.
    fn read<T>(
        &mut self,
        node: &Node,
        path: &str,
        read: impl FnOnce(&Sources, usize) -> Result<(T, Vec<Problem>), Vec<Problem>>,
    ) -> Option<T> {
        let refuse = |message: String| Problem::new(Code::BadValue, &node.place, message);
        let text = match self.surroundings.map(|surroundings| surroundings.file(path)) {
            Some(Ok(Some(text))) => text,
            Some(Ok(None)) => {
                self.problems.push(refuse(format!("there is no file {}", shorten(path))));
                return None;
            }
            Some(Err(why)) => {
                self.problems.push(refuse(format!("{} cannot be read: {}", shorten(path), shorten(&why))));
                return None;
            }
            None => {
                self.problems.push(refuse("no files are read here".to_owned()));
                return None;
            }
        };
        let index = self.shelf.put(Source::file(path, &text));
        read(&self.shelf.sources, index)
            .map_err(|problems| self.problems.extend(problems))
            .ok()
            .map(|(read, _)| read)
    }

    /// The keys of a text that was made from something outside.
    pub(super) fn made(&mut self, from: String, text: &str) -> Option<Table> {
        self.written(Source::embedded(&from, text), Origin::Outside(from))
    }
}
