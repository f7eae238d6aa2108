//! The Amazon States Language: the `Retry` and `Catch` arrays of a state, of a state machine, or alone.
//!
//! Fields, bounds and names: AWS Step Functions developer guide, "Handling errors in Step Functions workflows", and the
//! Amazon States Language specification, both as of 2025.

use std::collections::BTreeMap;
use std::time::Duration;

use relent_core::{ErrorNames, Multiplier, Retrier, StateRetry};

use super::json::{self, Reader};
use crate::diagnostic::{Code, Diagnostic, Errors, Problem, Severity};
use crate::duration::format_duration;
use crate::names;
use crate::source::Sources;
use crate::text::shorten;
use crate::tree::{Node, Table, Value};

/// The most of what is counted in retriers, and the longest interval in seconds.
const MOST: u32 = 99_999_999;

/// The longest `MaxDelaySeconds`: a leap year.
const LONGEST_DELAY: u32 = 31_622_400;

/// From which wait on a retrier without jitter and cap is told of.
const LONG: Duration = Duration::from_secs(60);

const RETRIER: &[&str] = &[
    "ErrorEquals",
    "IntervalSeconds",
    "MaxAttempts",
    "BackoffRate",
    "MaxDelaySeconds",
    "JitterStrategy",
    "Comment",
];

const CATCHER: &[&str] = &["ErrorEquals", "Next", "ResultPath", "Output", "Assign", "Comment"];

/// The names that Step Functions itself reports; no others may begin with `States.`.
const RESERVED: &[&str] = &[
    "States.ALL",
    "States.BranchFailed",
    "States.DataLimitExceeded",
    "States.ExceedToleratedFailureThreshold",
    "States.HeartbeatTimeout",
    "States.Http.Socket",
    "States.IntrinsicFailure",
    "States.ItemReaderFailed",
    "States.NoChoiceMatched",
    "States.ParameterPathFailure",
    "States.Permissions",
    "States.QueryEvaluationError",
    "States.ResultPathMatchFailure",
    "States.ResultWriterFailed",
    "States.Runtime",
    "States.TaskFailed",
    "States.Timeout",
];

/// What a text of the Amazon States Language says about retries.
///
/// The text is a state machine, one state, or a `Retry` array alone.
///
/// ```
/// use relent_config::foreign::StateMachine;
///
/// let machine = StateMachine::parse(
///     r#"{"Type": "Task", "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 2}], "End": true}"#,
///     "fetch.asl.json",
/// )?;
/// let state = machine.only_state().unwrap();
/// assert_eq!(state.retry().retrier_for("Fetch.Failed"), Some(0));
///
/// let errors = StateMachine::parse(r#"[{"ErrorEquals": ["X"], "IntervalSeconds": 1.5}]"#, "retry.json").unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "error[wrong-type]: `Retry[0].IntervalSeconds` is 1.5
///  --> retry.json:1:44
///   |
/// 1 | [{\"ErrorEquals\": [\"X\"], \"IntervalSeconds\": 1.5}]
///   |                                            ^^^ expected a whole number from 1 to 99999999
/// "
/// );
/// # Ok::<(), relent_config::Errors>(())
/// ```
#[derive(Clone, Debug)]
pub struct StateMachine {
    states: Vec<State>,
    warnings: Vec<Diagnostic>,
}

/// What one state says about errors.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    name: Option<String>,
    kind: Option<String>,
    retry: StateRetry,
    catchers: Vec<Catcher>,
}

/// One entry of a `Catch` array: where an execution goes on once no retrier tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catcher {
    errors: ErrorNames,
    next: String,
}

impl StateMachine {
    /// Reads a text. `name` is the file's name, for messages.
    ///
    /// # Errors
    ///
    /// All that Step Functions would refuse about `Retry` and `Catch`, in order of place. The rest of the text is the
    /// matter of others.
    pub fn parse(text: &str, name: &str) -> Result<Self, Errors> {
        let (machine, warnings) = json::alone(text, name, Self::read)?;
        Ok(Self { warnings, ..machine })
    }

    pub(crate) fn read(sources: &Sources, index: usize) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (mut reader, root) = Reader::parse(sources, index)?;
        let states = reader.root(&root);
        reader.finish(Self { states, warnings: Vec::new() })
    }

    /// The states that have a `Retry` or a `Catch`, or may have one, in the order of the text; those within Map and
    /// Parallel states follow the state that they are in.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// The state of this name.
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.iter().find(|state| state.name.as_deref() == Some(name))
    }

    /// The state, if there is but one.
    pub fn only_state(&self) -> Option<&State> {
        match self.states.as_slice() {
            [state] => Some(state),
            _ => None,
        }
    }

    /// What Step Functions accepts and hardly anybody means: names that match nothing, retriers that no error reaches,
    /// long waits in step.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
}

impl State {
    /// Its name, if the text is a state machine.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its `Type`, if the text is more than a `Retry` array.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Its `Retry` array.
    pub fn retry(&self) -> &StateRetry {
        &self.retry
    }

    /// Its `Catch` array.
    pub fn catchers(&self) -> &[Catcher] {
        &self.catchers
    }

    /// The first catcher that names an error.
    pub fn caught_by(&self, error: &str) -> Option<&Catcher> {
        self.catchers.iter().find(|catcher| catcher.errors.matches(error))
    }
}

impl Catcher {
    /// The errors that it is for.
    pub fn errors(&self) -> &ErrorNames {
        &self.errors
    }

    /// The state that follows.
    pub fn next(&self) -> &str {
        &self.next
    }
}

impl Reader {
    fn root(&mut self, root: &Node) -> Vec<State> {
        match &root.value {
            Value::Array(_) => {
                let retry = self.retry(root, "Retry");
                vec![State { name: None, kind: None, retry, catchers: Vec::new() }]
            }
            Value::Table(table) if table.contains_key("States") => self.states_of(table, ""),
            Value::Table(table) if ["Type", "Retry", "Catch"].iter().any(|key| table.contains_key(*key)) => {
                self.state(None, table, "", None)
            }
            _ => {
                let message = "this is no state machine, no state and no `Retry` array";
                let problem = Problem::new(Code::WrongType, &root.place, message);
                self.push(
                    problem.label("expected an object with `States` or `Type`, or an array of retriers"),
                );
                Vec::new()
            }
        }
    }

    fn states_of(&mut self, machine: &Table, path: &str) -> Vec<State> {
        let Some(node) = machine.get("States") else { return Vec::new() };
        let Some(states) = self.object(node, &within(path, "States")) else { return Vec::new() };
        let mut ordered: Vec<(&String, &Node)> = states.iter().collect();
        ordered.sort_by(|(_, one), (_, other)| one.key.cmp(&other.key));
        let mut found = Vec::new();
        for (name, node) in ordered {
            let path = within(path, &format!("States.{}", shorten(name)));
            if let Some(state) = self.object(node, &path) {
                found.extend(self.state(Some(name), state, &path, Some(states)));
            }
        }
        found
    }

    /// A state and those within it. `siblings` are the states that it may go on to, if they are known.
    fn state(
        &mut self,
        name: Option<&String>,
        table: &Table,
        path: &str,
        siblings: Option<&Table>,
    ) -> Vec<State> {
        let kind =
            table.get("Type").and_then(|node| self.string(node, &within(path, "Type"))).map(str::to_owned);
        let can_fail = kind.as_deref().is_none_or(|kind| matches!(kind, "Task" | "Parallel" | "Map"));
        for (key, node) in ["Retry", "Catch"].iter().filter_map(|key| table.get_key_value(*key)) {
            if !can_fail {
                let kind = shorten(kind.as_deref().unwrap_or_default());
                let message = format!("a state of type {kind} has no `{key}`");
                self.push(
                    Problem::new(Code::MisplacedKey, &node.key, message)
                        .label("only Task, Parallel and Map states have"),
                );
            }
        }
        let mut found = Vec::new();
        if can_fail {
            let retry = match table.get("Retry") {
                Some(node) => self.retry(node, &within(path, "Retry")),
                None => StateRetry::default(),
            };
            let catchers = match table.get("Catch") {
                Some(node) => self.catchers(node, &within(path, "Catch"), siblings),
                None => Vec::new(),
            };
            found.push(State { name: name.cloned(), kind, retry, catchers });
        }
        for key in ["ItemProcessor", "Iterator"] {
            let path = within(path, key);
            if let Some(inner) = table.get(key).and_then(|node| self.object(node, &path)) {
                found.extend(self.states_of(inner, &path));
            }
        }
        if let Some(node) = table.get("Branches") {
            let path = within(path, "Branches");
            for (index, branch) in self.array(node, &path).into_iter().flatten().enumerate() {
                let path = format!("{path}[{index}]");
                if let Some(inner) = self.object(branch, &path) {
                    found.extend(self.states_of(inner, &path));
                }
            }
        }
        found
    }

    fn retry(&mut self, node: &Node, path: &str) -> StateRetry {
        let Some(elements) = self.array(node, path) else { return StateRetry::default() };
        let mut retriers: Vec<Retrier> = Vec::new();
        let mut earlier: BTreeMap<String, usize> = BTreeMap::new();
        for (index, element) in elements.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let last = index + 1 == elements.len();
            let Some(table) = self.object(element, &path) else { continue };
            self.only_keys(table, &path, RETRIER, Severity::Error);
            let Some(errors) = self.errors(element, table, &path, last) else { continue };
            self.tell_of_the_dead(table, &retriers, &mut earlier, index);
            let retrier = self.retrier(element, table, &path, errors);
            retriers.push(retrier);
        }
        // All that the core refuses was refused above.
        StateRetry::new(retriers).unwrap_or_default()
    }

    fn retrier(&mut self, element: &Node, table: &Table, path: &str, errors: ErrorNames) -> Retrier {
        let mut retrier = Retrier::new(errors);
        let whole = |reader: &mut Self, key: &str, bounds| {
            let node = table.get(key)?;
            reader.whole(node, &within(path, key), bounds)
        };
        if let Some(seconds) = whole(self, "IntervalSeconds", 1..=MOST) {
            retrier = retrier.interval(seconds_of(seconds));
        }
        if let Some(retries) = whole(self, "MaxAttempts", 0..=MOST) {
            retrier = retrier.max_attempts(retries);
        }
        let rate = table.get("BackoffRate").and_then(|node| {
            self.number(node, &within(path, "BackoffRate"), "a number of at least 1", |rate| rate >= 1.0)
        });
        if let Some(rate) = rate.and_then(Multiplier::new) {
            retrier = retrier.backoff_rate(rate);
        }
        if let Some(seconds) = whole(self, "MaxDelaySeconds", 1..=LONGEST_DELAY) {
            retrier = retrier.max_delay(seconds_of(seconds));
        }
        if let Some(node) = table.get("JitterStrategy") {
            match node.string() {
                Some("FULL") => retrier = retrier.full_jitter(true),
                Some("NONE") => {}
                _ => self.mistyped(node, &within(path, "JitterStrategy"), "\"FULL\" or \"NONE\""),
            }
        }
        if self.is_clean() {
            self.tell_of_waits(element, table, &retrier);
        }
        retrier
    }

    fn errors(&mut self, element: &Node, table: &Table, path: &str, last: bool) -> Option<ErrorNames> {
        let Some(node) = table.get("ErrorEquals") else {
            self.missing(
                element,
                path,
                "ErrorEquals",
                "write `\"ErrorEquals\": [\"States.ALL\"]` for all errors",
            );
            return None;
        };
        let path = within(path, "ErrorEquals");
        let elements = self.array(node, &path)?;
        if elements.is_empty() {
            let problem = Problem::new(Code::BadValue, &node.place, format!("`{path}` names no error"));
            self.push(problem.label("expected at least one name"));
            return None;
        }
        let mut errors = Vec::new();
        for element in elements {
            let Some(error) = self.string(element, &path) else { continue };
            self.check_name(element, error, elements.len() == 1, last);
            errors.push(error);
        }
        Some(ErrorNames::new(errors))
    }

    fn check_name(&mut self, node: &Node, error: &str, alone: bool, last: bool) {
        if error == "States.ALL" && !(alone && last) {
            let message =
                if alone { "`States.ALL` is only for the last entry" } else { "`States.ALL` stands alone" };
            let help = "name it alone in an entry of its own, after all others";
            self.push(Problem::new(Code::Conflict, &node.place, message).help(help));
        } else if error == "States.Runtime" {
            let message = "`States.Runtime` is neither retried nor caught";
            self.push(Problem::new(Code::NoEffect, &node.place, message).warning());
        } else if error.starts_with("States.") && !RESERVED.contains(&error) {
            let message = format!("Step Functions reports no error `{}`", shorten(error));
            let problem = Problem::new(Code::UnknownWord, &node.place, message).warning();
            let near = names::nearest(error, RESERVED.iter().copied());
            self.push(match near {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.label("names that begin with `States.` are reserved"),
            });
        }
    }

    /// Names that an earlier retrier decides about: the later one never sees such an error.
    fn tell_of_the_dead(
        &mut self,
        table: &Table,
        before: &[Retrier],
        earlier: &mut BTreeMap<String, usize>,
        index: usize,
    ) {
        let Some(Value::Array(names)) = table.get("ErrorEquals").map(|node| &node.value) else { return };
        for node in names {
            let Some(name) = node.string() else { continue };
            let wildcard = matches!(name, "States.ALL" | "States.TaskFailed");
            let by_name = earlier.insert(name.to_owned(), index);
            let taken = by_name.or_else(|| {
                let takes = |retrier: &Retrier| {
                    !wildcard && name != "States.Runtime" && retrier.errors().matches(name)
                };
                before.iter().position(takes)
            });
            if let Some(first) = taken {
                let message = format!("`{}` never gets here: entry {first} decides about it", shorten(name));
                let help = "the first entry that names an error decides, even when its attempts are used up";
                self.push(Problem::new(Code::NoEffect, &node.place, message).help(help).warning());
            }
        }
    }

    fn tell_of_waits(&mut self, element: &Node, table: &Table, retrier: &Retrier) {
        let backoff = retrier.backoff();
        if let (Some(node), Some(cap)) = (table.get("MaxDelaySeconds"), backoff.longest())
            && cap < backoff.schedule().initial()
        {
            let message = "`MaxDelaySeconds` is less than `IntervalSeconds`, so that every wait is the same";
            self.push(Problem::new(Code::NoEffect, &node.place, message).warning());
        }
        let jitter = table.get("JitterStrategy").and_then(Node::string) == Some("FULL");
        let retries = retrier.most_retries();
        let last = backoff.range(retries, Duration::ZERO, Default::default()).highest;
        if retries > 0 && !jitter && backoff.longest().is_none() && last > LONG {
            let last = format_duration(last);
            let message = format!("retry {retries} waits {last}, without jitter and without a cap");
            let help = "set `\"JitterStrategy\": \"FULL\"` and `MaxDelaySeconds`";
            self.push(Problem::new(Code::BadValue, &element.place, message).help(help).warning());
        }
    }

    fn catchers(&mut self, node: &Node, path: &str, siblings: Option<&Table>) -> Vec<Catcher> {
        let Some(elements) = self.array(node, path) else { return Vec::new() };
        let mut catchers = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(table) = self.object(element, &path) else { continue };
            self.only_keys(table, &path, CATCHER, Severity::Error);
            let errors = self.errors(element, table, &path, index + 1 == elements.len());
            let next = match table.get("Next") {
                Some(node) => self.next(node, &within(&path, "Next"), siblings),
                None => {
                    self.missing(element, &path, "Next", "name the state that follows");
                    None
                }
            };
            if let (Some(errors), Some(next)) = (errors, next) {
                catchers.push(Catcher { errors, next });
            }
        }
        catchers
    }

    fn next(&mut self, node: &Node, path: &str, siblings: Option<&Table>) -> Option<String> {
        let next = self.string(node, path)?;
        if let Some(siblings) = siblings.filter(|siblings| !siblings.contains_key(next)) {
            let problem = Problem::new(
                Code::BadValue,
                &node.place,
                format!("there is no state `{}` here", shorten(next)),
            );
            let near = names::nearest(next, siblings.keys().map(String::as_str));
            self.push(problem.maybe_help(near.map(|near| format!("did you mean `{near}`?"))));
        }
        Some(next.to_owned())
    }
}

fn seconds_of(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds))
}

fn within(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
