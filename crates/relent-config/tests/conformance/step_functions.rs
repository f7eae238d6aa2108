//! `Retry` arrays.

use relent_config::foreign::{State, StateMachine};
use relent_core::{Alone, Class, Decision, Moment, Outcome, StateExecution};
use serde_json::{Value, json};

use super::given::{Map, array, of, text};

/// The text of a state with this array.
fn definition(given: &Map) -> String {
    let kind = given.get("state").and_then(Value::as_str).unwrap_or("Task");
    let mut state = json!({ "Type": kind, "Retry": given["retry"] });
    if let Some(catch) = given.get("catch") {
        state["Catch"] = catch.clone();
    }
    serde_json::to_string_pretty(&state).unwrap()
}

fn read(given: &Map) -> State {
    let machine =
        StateMachine::parse(&definition(given), "state.json").unwrap_or_else(|errors| panic!("{errors}"));
    machine.only_state().unwrap().clone()
}

/// What an execution does with some errors, one after another, until it ends.
pub(crate) fn state(given: &Map) -> Map {
    let state = read(given);
    let play = |entropy: u64| {
        let mut execution = StateExecution::new(None);
        let mut waits = vec![];
        for error in array(given, "errors") {
            let error = error.as_str().unwrap();
            let outcome = Outcome::of(Class::Transient);
            match execution.decide(state.retry(), &mut Alone, error, outcome, Moment::timeless(entropy)) {
                Decision::Retry { after, .. } => waits.push(after),
                Decision::Stop { .. } => {
                    let end = match state.caught_by(error) {
                        Some(catcher) => format!("next:{}", catcher.next()),
                        None => format!("fail:{error}"),
                    };
                    return (waits, execution.failures(), Some(end));
                }
            }
        }
        (waits, execution.failures(), None)
    };
    let (least, attempts, end) = play(0);
    let (most, ..) = play(u64::MAX);
    let mut computed = Map::new();
    computed.insert("attempts".into(), json!(attempts));
    computed.insert("end".into(), json!(end));
    // Above is open: the largest draw lies a nanosecond below the bound.
    let total = |waits: &[std::time::Duration]| of(waits.iter().sum());
    if least == most {
        computed.insert("waits".into(), least.iter().copied().map(of).collect());
        computed.insert("total_wait".into(), total(&least));
    } else if least.iter().all(|wait| wait.is_zero()) {
        let bounds: Vec<_> = most.iter().map(|wait| *wait + std::time::Duration::from_nanos(1)).collect();
        computed.insert("wait_upper_bounds".into(), bounds.iter().copied().map(of).collect());
        computed.insert("total_upper".into(), total(&bounds));
    }
    computed
}

/// What becomes of one error after each retrier has made so many retries.
pub(crate) fn one_error(given: &Map) -> Map {
    let state = read(given);
    let retries = array(given, "prior_retries").iter().map(|made| made.as_u64().unwrap() as u32);
    let mut execution = StateExecution::resumed(None, retries);
    let error = text(given, "error");
    let outcome = Outcome::of(Class::Transient);
    let decision = execution.decide(state.retry(), &mut Alone, error, outcome, Moment::timeless(0));
    let mut computed = Map::new();
    computed.insert("retry_index".into(), json!(state.retry().retrier_for(error)));
    match decision {
        Decision::Retry { after, .. } => {
            computed.insert("decision".into(), json!("retry"));
            computed.insert("next_wait".into(), of(after));
        }
        Decision::Stop { .. } => {
            computed.insert("decision".into(), json!("fail"));
        }
    }
    computed
}

/// What is said about a text, by the word of each thing that is wrong or doubtful, and where.
pub(crate) fn validation(given: &Map) -> Map {
    let text = given.get("text").map_or_else(|| definition(given), |text| text.as_str().unwrap().to_owned());
    let (verdict, told): (&str, Vec<_>) = match StateMachine::parse(&text, "state.json") {
        Ok(machine) if machine.warnings().is_empty() => ("ok", vec![]),
        Ok(machine) => ("warning", machine.warnings().to_vec()),
        Err(errors) => ("error", errors.iter().cloned().collect()),
    };
    let codes = told.iter().map(|told| Value::from(told.code().as_str()));
    let places = told.iter().map(|told| json!([told.line(), told.column()]));
    let mut computed = Map::new();
    computed.insert("codes".into(), codes.collect());
    computed.insert("places".into(), places.collect());
    computed.insert("verdict".into(), json!(verdict));
    computed
}
