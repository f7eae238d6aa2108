//! What happens to a request: decided here, from values alone.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

use fnv::FnvHasher;
use relent_core::{Dice, entropy};
use serde::Serialize;

use crate::bounded::Bounded;
use crate::counters::{Counters, count};
use crate::law::{Capacity, Keys, Latency, Outage, Scope, unit};
use crate::script::Script;
use crate::step::{Ending, Step};

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) script: Script,
    pub(crate) routes: BTreeMap<String, Route>,
    pub(crate) scope: Scope,
    pub(crate) fail: f64,
    pub(crate) fail_with: Step,
    pub(crate) latency: Latency,
    pub(crate) outages: Vec<Outage>,
    pub(crate) capacity: Option<Capacity>,
    pub(crate) overload: Step,
    pub(crate) keys: Keys,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            script: Script::new(Step::status(200)),
            routes: BTreeMap::new(),
            scope: Scope::Path,
            fail: 0.0,
            fail_with: Step::status(503),
            latency: Latency::NONE,
            outages: Vec::new(),
            capacity: None,
            overload: Step::status(503).header("retry-after", "1"),
            keys: Keys::Honour,
        }
    }
}

impl Plan {
    /// The script that a request follows, and the name of those that follow it together.
    fn script_of(&self, arrival: &Arrival) -> (String, &Script) {
        let fits = |(pattern, route): (&'_ String, &Route)| {
            route.fits(&arrival.method, &arrival.path).map(|rank| (rank, pattern.clone()))
        };
        let best = self.routes.iter().filter_map(fits).max().map(|(_, pattern)| pattern);
        let route = best.as_ref().and_then(|pattern| self.routes.get(pattern));
        let script = route.map_or(&self.script, |route| &route.script);
        let best = best.unwrap_or_default();
        let together = match &self.scope {
            Scope::All => return (best, script),
            Scope::Path => String::new(),
            Scope::Client => arrival.peer.to_string(),
            Scope::Key => arrival.key.clone().unwrap_or_default(),
            Scope::Header(_) => arrival.scope.clone().unwrap_or_default(),
        };
        (format!("{best}\n{}\n{together}", arrival.path), script)
    }
}

/// A script for some paths.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    method: Option<String>,
    path: String,
    /// Whether all paths that begin like this are meant.
    prefix: bool,
    pub(crate) script: Script,
}

impl Route {
    /// `pattern` is `/path`, `/prefix*` or `METHOD /path`; `None` if it is neither.
    pub(crate) fn new(pattern: &str, script: Script) -> Option<Self> {
        let (method, path) = match pattern.trim().split_once(' ') {
            Some((method, path)) => (Some(method.to_ascii_uppercase()), path.trim()),
            None => (None, pattern.trim()),
        };
        if !(path.starts_with('/') || path == "*") || path.contains(char::is_whitespace) {
            return None;
        }
        let prefix = path.ends_with('*');
        Some(Self { method, path: path.trim_end_matches('*').to_owned(), prefix, script })
    }

    /// How well it fits, the better the greater: a whole path before a prefix, a long prefix before a short one.
    fn fits(&self, method: &str, path: &str) -> Option<(bool, usize, bool)> {
        let fits_path = if self.prefix { path.starts_with(&self.path) } else { path == self.path };
        let fits = fits_path && self.method.as_ref().is_none_or(|wanted| wanted == method);
        fits.then_some((!self.prefix, self.path.len(), self.method.is_some()))
    }
}

/// What is known of a request before its body has come.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) peer: IpAddr,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) attempt: Option<String>,
    /// The value of the header that [`Scope::Header`] names.
    pub(crate) scope: Option<String>,
}

/// What was seen of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) length: u64,
    pub(crate) hash: u64,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fate {
    /// Which request it is of those that are counted together, from 1.
    pub(crate) number: u64,
    pub(crate) step: Step,
    /// How long it takes until that happens.
    pub(crate) wait: Duration,
    pub(crate) cause: Cause,
    pub(crate) done: Done,
    /// Whether it occupies the server meanwhile.
    pub(crate) admitted: bool,
}

/// What decided what happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The script.
    Script,
    /// The rate of failures.
    Rate,
    /// An outage.
    Outage,
    /// More than the capacity.
    Overload,
    /// A known `Idempotency-Key`.
    Key,
}

impl Cause {
    /// `"script"`, `"rate"`, `"outage"`, `"overload"` or `"key"`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Rate => "rate",
            Self::Outage => "outage",
            Self::Overload => "overload",
            Self::Key => "key",
        }
    }
}

/// Whether a request changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Done {
    /// Nothing was done: a failure, or a method that changes nothing.
    Nothing,
    /// It was carried out.
    Effect,
    /// It was carried out once more.
    Duplicate,
    /// The first answer was repeated, nothing was done.
    Repeated,
}

/// What was asked for, and all that has been seen.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) plan: Plan,
    pub(crate) counters: Counters,
    /// How many requests each script has seen.
    positions: Bounded<u64>,
    /// What was done under which key.
    keys: Bounded<Kept>,
    /// What was done without one.
    unkeyed: Bounded<()>,
    at_once: u32,
    /// Until when what has been admitted fills the capacity's rate, in nanoseconds since the start (the virtual
    /// scheduling form of the leaky bucket, ITU-T I.371).
    filled: u64,
}

#[derive(Clone, Debug)]
struct Kept {
    fingerprint: u64,
    answer: Step,
}

/// How many scripts' positions, keys and bodies are remembered.
const REMEMBERED: usize = 10_000;

impl State {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            counters: Counters::default(),
            positions: Bounded::new(REMEMBERED),
            keys: Bounded::new(REMEMBERED),
            unkeyed: Bounded::new(REMEMBERED),
            at_once: 0,
            filled: 0,
        }
    }

    /// Forgets all that was seen, but not the requests that are on their way.
    pub(crate) fn reset(&mut self) {
        *self = Self { at_once: self.at_once, ..Self::new(self.plan.clone()) };
    }

    /// Gives a script to some paths, or to all that have none; its requests are counted anew.
    pub(crate) fn set_script(&mut self, route: Option<(String, Route)>, script: Option<Script>) {
        if let Some((pattern, route)) = route {
            self.plan.routes.insert(pattern, route);
        }
        if let Some(script) = script {
            self.plan.script = script;
        }
        self.positions = Bounded::new(REMEMBERED);
    }

    /// A request has come. Its number counts whatever decides; what depends on the clock comes before what does not.
    pub(crate) fn arrive(&mut self, arrival: &Arrival, now: Duration) -> Fate {
        self.counters.requests += 1;
        count(&mut self.counters.methods, &arrival.method);
        let counters = self.counters.path(&arrival.path);
        counters.requests += 1;
        count(&mut counters.methods, &arrival.method);
        if let Some(attempt) = &arrival.attempt {
            count(&mut counters.attempts, attempt);
            count(&mut self.counters.attempts, attempt);
        }
        let (id, script) = self.plan.script_of(arrival);
        let position = self.positions.entry(&id, || 0);
        *position += 1;
        let number = *position;
        let outage = self.plan.outages.iter().find_map(|outage| outage.step(now));
        let mut full = || match self.plan.capacity {
            None => false,
            Some(Capacity::AtOnce(most)) => self.at_once >= most,
            Some(Capacity::Rate { requests, per }) => !admit(&mut self.filled, requests, per, now),
        };
        let (step, latency, cause) = if let Some(step) = outage {
            (step, Duration::ZERO, Cause::Outage)
        } else if full() {
            (self.plan.overload.clone(), Duration::ZERO, Cause::Overload)
        } else {
            let mut dice = Dice::new(entropy(self.plan.seed, hash(&[id.as_bytes()]), number as u32));
            let unlucky = unit(&mut dice) < self.plan.fail;
            let latency = self.plan.latency.draw(&mut dice);
            let scripted = script.step(number);
            match unlucky && scripted.is_good() {
                true => (self.plan.fail_with.clone(), latency, Cause::Rate),
                false => (scripted.clone(), latency, Cause::Script),
            }
        };
        let admitted = matches!(cause, Cause::Script | Cause::Rate);
        self.at_once += u32::from(admitted);
        let wait = step.delay.saturating_add(latency);
        Fate { number, step, wait, cause, done: Done::Nothing, admitted }
    }

    /// Its body has come: what it asks for is done, or not.
    pub(crate) fn settle(&mut self, arrival: &Arrival, mut fate: Fate, body: Seen) -> Fate {
        let changes = !matches!(arrival.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE");
        if changes && fate.step.carried_out {
            self.carry_out(arrival, &mut fate, body);
        }
        let label = fate.step.label();
        count(&mut self.counters.answers, &label);
        count(&mut self.counters.causes, fate.cause.as_str());
        let counters = self.counters.path(&arrival.path);
        count(&mut counters.answers, &label);
        count(&mut counters.bodies, &format!("{:016x}", body.hash));
        if let Some(key) = &arrival.key {
            count(&mut counters.keys, key);
        }
        let wait = u64::try_from(fate.wait.as_micros()).unwrap_or(u64::MAX);
        counters.waits_us = counters.waits_us.saturating_add(wait);
        fate
    }

    fn carry_out(&mut self, arrival: &Arrival, fate: &mut Fate, body: Seen) {
        let request = [arrival.method.as_bytes(), arrival.path.as_bytes(), &body.hash.to_le_bytes()];
        let fingerprint = hash(&request);
        if let Some(kept) = arrival.key.as_deref().and_then(|key| self.keys.get(key))
            && self.plan.keys == Keys::Honour
        {
            if kept.fingerprint != fingerprint {
                fate.step = Step::status(422).body("this key came with another request\n");
                self.counters.mismatched += 1;
                fate.cause = Cause::Key;
            } else {
                // What loses the answer, or its end, loses the repeated one, too.
                if let Some(ending) = fate.step.ending() {
                    fate.step = kept.answer.clone().answer(|answer| answer.ending = ending);
                    fate.cause = Cause::Key;
                }
                self.counters.repeated += 1;
                fate.done = Done::Repeated;
            }
            return;
        }
        let answer = match fate.step.ending() {
            Some(_) => fate.step.clone().answer(|answer| answer.ending = Ending::Whole),
            None => Step::status(200),
        };
        let (mut with_key, mut without_key) = (0, 0);
        match &arrival.key {
            Some(key) => {
                let mut first = false;
                self.keys.entry(key, || {
                    first = true;
                    Kept { fingerprint, answer }
                });
                with_key = u64::from(!first);
            }
            // PUT and DELETE may be repeated (RFC 9110 §9.2.2).
            None if matches!(arrival.method.as_str(), "POST" | "PATCH") => {
                let mut first = false;
                self.unkeyed.entry(&fingerprint.to_string(), || first = true);
                without_key = u64::from(!first);
            }
            None => {}
        }
        fate.done = if with_key + without_key > 0 { Done::Duplicate } else { Done::Effect };
        self.counters.effects += 1;
        self.counters.duplicates.with_key += with_key;
        self.counters.duplicates.without_key += without_key;
        let counters = self.counters.path(&arrival.path);
        counters.effects += 1;
        counters.duplicates.with_key += with_key;
        counters.duplicates.without_key += without_key;
    }

    /// An admitted request has its answer.
    pub(crate) fn leave(&mut self) {
        self.at_once = self.at_once.saturating_sub(1);
    }
}

fn admit(filled: &mut u64, requests: u32, per: Duration, now: Duration) -> bool {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (now, per) = (nanos(now), nanos(per));
    let next = (*filled).max(now).saturating_add(per / u64::from(requests.max(1)));
    let admitted = next - now <= per;
    if admitted {
        *filled = next;
    }
    admitted
}

/// FNV-1a, the same on every platform.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = FnvHasher::default();
    for part in parts {
        hasher.write(part);
        hasher.write_u8(0);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(script: &str) -> Plan {
        Plan { script: script.parse().unwrap(), ..Plan::default() }
    }

    fn request(method: &str, path: &str, key: Option<&str>) -> Arrival {
        Arrival {
            peer: IpAddr::from([127, 0, 0, 1]),
            method: method.to_owned(),
            path: path.to_owned(),
            key: key.map(str::to_owned),
            attempt: None,
            scope: None,
        }
    }

    fn get(state: &mut State, path: &str, now: u64) -> String {
        let arrival = request("GET", path, None);
        let fate = state.arrive(&arrival, Duration::from_millis(now));
        let fate = state.settle(&arrival, fate, Seen::default());
        if fate.admitted {
            state.leave();
        }
        fate.step.label()
    }

    fn gets(state: &mut State, path: &str, count: usize) -> String {
        (0..count).map(|_| get(state, path, 0)).collect::<Vec<_>>().join(" ")
    }

    fn send(state: &mut State, method: &str, path: &str, key: Option<&str>, body: u64) -> (String, Done) {
        let arrival = request(method, path, key);
        let fate = state.arrive(&arrival, Duration::ZERO);
        let fate = state.settle(&arrival, fate, Seen { length: 1, hash: body });
        (fate.step.label(), fate.done)
    }

    #[test]
    fn each_path_has_its_own_way_through_the_script() {
        let mut state = State::new(plan("503*2,200"));
        assert_eq!(gets(&mut state, "/a", 2), "503 503");
        assert_eq!(gets(&mut state, "/b", 3), "503 503 200");
        assert_eq!(gets(&mut state, "/a", 2), "200 200");
        state.plan.scope = Scope::All;
        assert_eq!(gets(&mut state, "/c", 1) + &gets(&mut state, "/d", 2), "503503 200");
    }

    #[test]
    fn the_closest_route_decides() {
        let mut state = State::new(plan("200"));
        for (pattern, script) in
            [("/a*", "501"), ("/a/b*", "502"), ("/a/b", "503"), ("POST /a/b", "504"), ("PUT *", "505")]
        {
            let route = Route::new(pattern, script.parse().unwrap()).unwrap();
            state.set_script(Some((pattern.to_owned(), route)), None);
        }
        let cases = [("/", "200"), ("/a", "501"), ("/a/bc", "502"), ("/a/b", "503")];
        for (path, label) in cases {
            assert_eq!(get(&mut state, path, 0), label, "{path}");
        }
        assert_eq!(send(&mut state, "POST", "/a/b", None, 1).0, "504");
        assert_eq!(send(&mut state, "PUT", "/x", None, 1).0, "505");
        for bad in ["", "a", "GET", "GET a", "/a b c"] {
            assert!(Route::new(bad, Script::new(Step::reset())).is_none(), "{bad}");
        }
    }

    #[test]
    fn clients_keys_and_headers_can_have_their_own() {
        let steps = |scope: Scope, change: fn(&mut Arrival, u8)| {
            let mut state = State::new(Plan { scope, ..plan("503,200") });
            let one = |who: u8| {
                let mut arrival = request("GET", "/", None);
                change(&mut arrival, who);
                state.arrive(&arrival, Duration::ZERO).step.label()
            };
            [1, 2, 1, 2].map(one).join(" ")
        };
        let by_peer = |arrival: &mut Arrival, who: u8| arrival.peer = IpAddr::from([10, 0, 0, who]);
        let by_key = |arrival: &mut Arrival, who: u8| arrival.key = Some(who.to_string());
        let by_header = |arrival: &mut Arrival, who: u8| arrival.scope = Some(who.to_string());
        assert_eq!(steps(Scope::Client, by_peer), "503 503 200 200");
        assert_eq!(steps(Scope::Key, by_key), "503 503 200 200");
        assert_eq!(steps(Scope::Header("x".to_owned()), by_header), "503 503 200 200");
        assert_eq!(steps(Scope::Path, by_peer), "503 200 200 200");
    }

    #[test]
    fn the_same_seed_gives_the_same_fates_whatever_comes_between() {
        let make = |seed| {
            let latency = Latency::Exponential { mean: Duration::from_millis(20) };
            State::new(Plan { seed, fail: 0.3, latency, ..plan("200") })
        };
        let fates = |state: &mut State, path: &str, now: u64| {
            let fate = state.arrive(&request("GET", path, None), Duration::from_secs(now));
            (fate.step.label(), fate.wait)
        };
        let alone: Vec<_> = {
            let mut state = make(7);
            (0..1000).map(|_| fates(&mut state, "/a", 0)).collect()
        };
        let mut state = make(7);
        let mixed: Vec<_> = (0..1000)
            .map(|now| {
                fates(&mut state, "/b", now);
                fates(&mut state, "/a", now)
            })
            .collect();
        assert_eq!(alone, mixed);
        let mut other = make(8);
        assert_ne!(alone, (0..1000).map(|_| fates(&mut other, "/a", 0)).collect::<Vec<_>>());
        let failed = alone.iter().filter(|(label, _)| label == "503").count();
        assert!((260..340).contains(&failed), "{failed}");
    }

    #[test]
    fn a_rate_spoils_only_what_would_be_good() {
        let mut state = State::new(Plan { fail: 1.0, fail_with: Step::reset(), ..plan("404,cut,302,200") });
        assert_eq!(gets(&mut state, "/", 4), "404 200+cut reset reset");
        let mut never = State::new(Plan { fail: 0.0, ..plan("200") });
        assert!(!gets(&mut never, "/", 1000).contains("503"));
    }

    #[test]
    fn outages_come_first_and_the_number_goes_on() {
        let outages = vec!["1s..2s".parse().unwrap()];
        let mut state = State::new(Plan { outages, ..plan("201,202,203") });
        let labels: Vec<String> = [0, 1500, 2500].map(|now| get(&mut state, "/", now)).into();
        assert_eq!(labels, ["201", "503", "203"]);
        assert_eq!(state.counters.causes["outage"], 1);
    }

    #[test]
    fn a_rate_of_requests_is_a_bucket() {
        let capacity = Some("10/s".parse().unwrap());
        let mut state = State::new(Plan { capacity, ..plan("200") });
        let good =
            |state: &mut State, now, count| (0..count).filter(|_| get(state, "/", now) == "200").count();
        assert_eq!(good(&mut state, 0, 50), 10);
        assert_eq!(good(&mut state, 100, 50), 1);
        assert_eq!(good(&mut state, 600, 50), 5);
        assert_eq!(good(&mut state, 60_000, 50), 10);
        assert_eq!(state.counters.causes["overload"], 174);
        let fate = state.arrive(&request("GET", "/", None), Duration::from_secs(60));
        assert_eq!(fate.step, "503(retry-after=1)".parse().unwrap());
    }

    #[test]
    fn so_many_at_once() {
        let capacity = Some(Capacity::AtOnce(2));
        let mut state = State::new(Plan { capacity, ..plan("200") });
        let arrive = |state: &mut State| state.arrive(&request("GET", "/", None), Duration::ZERO);
        assert!(arrive(&mut state).admitted && arrive(&mut state).admitted);
        assert!(!arrive(&mut state).admitted);
        state.leave();
        assert!(arrive(&mut state).admitted);
    }

    #[test]
    fn a_known_key_gets_the_first_answer_and_no_second_effect() {
        let mut state = State::new(plan("503,201,200"));
        let mut post = |key, body| send(&mut state, "POST", "/orders", key, body);
        assert_eq!(post(Some("a"), 1), ("503".to_owned(), Done::Nothing));
        assert_eq!(post(Some("a"), 1), ("201".to_owned(), Done::Effect));
        assert_eq!(post(Some("a"), 1), ("201".to_owned(), Done::Repeated));
        assert_eq!(post(Some("a"), 2), ("422".to_owned(), Done::Nothing));
        assert_eq!(post(Some("b"), 1), ("200".to_owned(), Done::Effect));
        let counters = &state.counters;
        assert_eq!((counters.effects, counters.repeated, counters.mismatched), (2, 1, 1));
        assert_eq!(counters.duplicates, Default::default());
        assert_eq!(counters.paths["/orders"].keys, [("a".to_owned(), 4), ("b".to_owned(), 1)].into());
    }

    #[test]
    fn what_is_done_twice_is_a_duplicate() {
        let mut state = State::new(Plan { keys: Keys::Ignore, ..plan("close(done),200") });
        let cases = [
            ("POST", Some("a"), 1, Done::Effect),
            ("POST", Some("a"), 1, Done::Duplicate),
            ("POST", None, 1, Done::Effect),
            ("POST", None, 1, Done::Duplicate),
            ("POST", None, 2, Done::Effect),
            ("PUT", None, 1, Done::Effect),
            ("PUT", None, 1, Done::Effect),
            ("GET", None, 1, Done::Nothing),
        ];
        for (method, key, body, done) in cases {
            assert_eq!(send(&mut state, method, "/", key, body).1, done, "{method} {key:?} {body}");
        }
        assert_eq!(state.counters.effects, 7);
        let duplicates = state.counters.duplicates;
        assert_eq!((duplicates.with_key, duplicates.without_key), (1, 1));
    }

    /// The answer was lost, the client tries again: with a key nothing happens twice.
    #[test]
    fn a_lost_answer_is_repeated() {
        let mut state = State::new(plan("close(done),reset(done),200"));
        let mut post = || send(&mut state, "POST", "/", Some("a"), 1);
        assert_eq!(post(), ("close".to_owned(), Done::Effect));
        assert_eq!(post(), ("reset".to_owned(), Done::Repeated));
        assert_eq!(post(), ("200".to_owned(), Done::Repeated));
        assert_eq!(state.counters.effects, 1);
    }

    #[test]
    fn an_answer_that_broke_off_is_repeated_whole() {
        let mut state = State::new(plan("201(body=hello,cut=1),cut,200"));
        let mut post = || send(&mut state, "POST", "/", Some("a"), 1);
        assert_eq!(post(), ("201+cut".to_owned(), Done::Effect));
        assert_eq!(post(), ("201+cut".to_owned(), Done::Repeated));
        assert_eq!(post(), ("201".to_owned(), Done::Repeated));
    }

    #[test]
    fn a_reset_forgets_all_but_the_plan() {
        let mut state = State::new(plan("503,200"));
        assert_eq!(gets(&mut state, "/", 2), "503 200");
        state.reset();
        assert_eq!(state.counters, Counters::default());
        assert_eq!(gets(&mut state, "/", 2), "503 200");
    }
}
