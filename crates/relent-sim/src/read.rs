//! Scenarios from TOML.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use crate::builtin::{BUILT_INS, built_in};
use crate::luck::Law;
use crate::model::{
    Arrivals, Clients, Edge, Fleet, Order, Overload, Profile, RateLimit, Service, Trouble, TroubleKind,
};
use crate::nearest::unknown;
use crate::scenario::{Cost, Scenario, ScenarioError};
use crate::strategy::{PREFIX, STRATEGIES, Scope, Strategies, Strategy};
use crate::text;

/// All that is wrong with a scenario's text, in order of place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadErrors {
    file: String,
    errors: Vec<ReadError>,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl ReadErrors {
    /// What is wrong, one by one.
    pub fn errors(&self) -> &[ReadError] {
        &self.errors
    }
}

impl fmt::Display for ReadErrors {
    /// A line each: `relent.toml:3:1: unknown key "hoizon"; did you mean "horizon"?`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let newline = if index > 0 { "\n" } else { "" };
            write!(f, "{newline}{}:{}:{}: {}", self.file, error.line, error.column, error.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ReadErrors {}

/// Reads a scenario from the text of a file. `name`: the one of `[scenarios.NAME]`; `None`: the whole text is one.
/// `resolve` gives the policies that the scenario names, besides `strategy:…`.
///
/// The text is either a built-in scenario with options (`scenario = "herd"`, then its options as keys) or a fleet:
///
/// ```
/// let text = r#"
/// [scenarios.black-friday]
/// description = "A shop whose database stands still for ten seconds"
/// horizon = "5m"                   # no call begins after this time
/// grace = "1m"                     # how much longer open calls may take
/// warm_up = "5s"                   # what the goodput before the incident leaves out
/// bin = "1s"                       # the width of the bins of all series
/// seed = 1
/// replications = 5
/// cost = { attempt = 1, work_second = 10 }
/// strategies = { initial = "100ms", cap = "20s", attempts = 4 }   # the numbers of `strategy:…` here
/// policies = ["strategy:none", "strategy:full"]                   # who meets when nobody says otherwise
///
/// [scenarios.black-friday.clients.shoppers]
/// count = 1000
/// to = "shop"
/// arrivals = { kind = "poisson", rate = 80 }
/// timeout = "3s"                   # the end of each attempt, where the policy has no earlier one
/// delay = { kind = "uniform", from = "5ms", to = "15ms" }
///
/// [scenarios.black-friday.services.shop]
/// workers = 50                     # or "unlimited"
/// queue = { order = "fifo", capacity = 100, drop_expired = true }
/// time = { kind = "exponential", mean = "20ms" }
/// calls = [{ to = "database", timeout = "1s", policy = "strategy:no-retry" }]
///
/// [scenarios.black-friday.services.database]
/// workers = 4
/// time = "20ms"
///
/// [[scenarios.black-friday.trouble]]
/// service = "database"
/// kind = "capacity"                # refuse, hang, capacity, errors, slow
/// factor = 0
/// at = "60s"
/// for = "10s"
/// "#;
/// let scenario = relent_sim::read_scenario(text, "relent.toml", Some("black-friday"), &|_| None)?;
/// let comparison = relent_sim::Simulation::new(scenario).line_up().run()?;
/// assert_eq!(comparison.reports.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Arrivals: `{ kind = "closed", think = LAW }`, `{ kind = "paced", rate }` (per client), `{ kind = "poisson", rate }`
/// and `{ kind = "constant", rate }` (all together; `rate` may be `[["0s", 40], ["25s", 80]]`, straight lines between
/// points), `{ kind = "spike", rate, to, at, for }`, `{ kind = "burst", at, within }`, `{ kind = "cron", every,
/// within }`, `{ kind = "listen", lifetime, notice }`. A law is a duration or `{ kind = "uniform", from, to }`,
/// `{ kind = "exponential", mean }`, `{ kind = "normal", mean, deviation }`, `{ kind = "lognormal", median, sigma }`.
/// A service may also have `slowdown` (a duration per attempt in service), `error_rate`, `rate_limit = { per_second,
/// burst, retry_after }`, `overload = { above, out_for }`, `shards` (a trouble then may have a `shard`, from 1) and
/// `stops_unwanted`. Beside a policy may stand who shares its state: `{ policy, name, scope, per_shard }`.
///
/// # Errors
///
/// All that is wrong, each with its place and the nearest known name.
pub fn read_scenario(
    text: &str,
    file: &str,
    name: Option<&str>,
    resolve: &dyn Fn(&str) -> Option<Strategy>,
) -> Result<Scenario, ReadErrors> {
    let reader = Reader { text, errors: RefCell::default(), places: RefCell::default(), resolve };
    let scenario = reader.document(name);
    let mut errors = reader.errors.take();
    match scenario {
        Some(scenario) if errors.is_empty() => return Ok(scenario),
        _ => {}
    }
    errors.sort_by_key(|(offset, _)| *offset);
    errors.dedup();
    let errors = errors.into_iter().map(|(offset, message)| {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        ReadError { line, column, message }
    });
    Err(ReadErrors { file: file.to_owned(), errors: errors.collect() })
}

/// The names of the scenarios in a text: the keys of its `[scenarios]`; none where it cannot be read.
pub fn scenario_names(text: &str) -> Vec<String> {
    let Ok(document) = DeTable::parse(text) else { return Vec::new() };
    let scenarios = document.get_ref().get("scenarios").and_then(|value| value.get_ref().as_table());
    scenarios.map_or_else(Vec::new, |table| table.iter().map(|(key, _)| key.get_ref().to_string()).collect())
}

struct Reader<'a> {
    text: &'a str,
    errors: RefCell<Vec<(usize, String)>>,
    /// Where each key stands, for what is found out later.
    places: RefCell<BTreeMap<String, usize>>,
    resolve: &'a dyn Fn(&str) -> Option<Strategy>,
}

/// A value and where it stands.
#[derive(Clone, Copy)]
struct Found<'t> {
    value: &'t DeValue<'t>,
    at: usize,
}

/// A table that knows which of its keys were asked for.
struct Table<'r, 't> {
    reader: &'r Reader<'r>,
    table: &'t DeTable<'t>,
    at: usize,
    path: String,
    asked: RefCell<Vec<&'static str>>,
}

impl<'r> Reader<'r> {
    fn wrong(&self, at: usize, message: impl Into<String>) {
        self.errors.borrow_mut().push((at, message.into()));
    }

    fn document(&self, name: Option<&str>) -> Option<Scenario> {
        let document = match DeTable::parse(self.text) {
            Ok(document) => document,
            Err(error) => {
                self.wrong(error.span().map_or(0, |span| span.start), error.message());
                return None;
            }
        };
        let root = document.get_ref();
        let Some(name) = name else {
            return self.scenario("scenario", Table::new(self, root, 0, String::new()));
        };
        let scenarios = root.get("scenarios").and_then(|value| value.get_ref().as_table());
        let Some(scenarios) = scenarios else {
            self.wrong(0, format!("there is no [scenarios.{name}]"));
            return None;
        };
        let Some((key, value)) = scenarios.iter().find(|(key, _)| key.get_ref() == name) else {
            let known: Vec<&str> = scenarios.iter().map(|(key, _)| key.get_ref().as_ref()).collect();
            self.wrong(0, unknown("scenario", name, &known));
            return None;
        };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(key.span().start, "a scenario is a table");
            return None;
        };
        self.scenario(name, Table::new(self, table, key.span().start, String::new()))
    }

    fn scenario(&self, name: &str, table: Table<'_, '_>) -> Option<Scenario> {
        let strategies = table.table("strategies").map(|table| {
            let strategies = Strategies {
                initial: table.duration("initial").unwrap_or(Strategies::default().initial),
                cap: table.duration("cap").unwrap_or(Strategies::default().cap),
                attempts: table.unlimited("attempts").flatten(),
                attempt_timeout: table.duration("attempt_timeout"),
            };
            table.finish();
            strategies
        });
        let mut scenario = match table.get("scenario") {
            Some(built_in) => self.built_in(built_in, &table)?,
            None => self.fleet(name, &table, strategies.unwrap_or_default()),
        };
        scenario.name = name.to_owned();
        if let Some(strategies) = strategies {
            scenario.strategies = strategies;
        }
        if let Some(description) = table.string("description") {
            scenario.description = description.to_owned();
        }
        if let Some(policies) = table.array("policies") {
            let contender = |found| self.contender(found, scenario.strategies);
            scenario.line_up = policies.into_iter().filter_map(contender).collect();
        }
        table.finish();
        if self.errors.borrow().is_empty()
            && let Err(error) = scenario.check()
        {
            self.wrong_by_key(&error, table.at);
        }
        Some(scenario)
    }

    /// What the scenario itself found out, at the place of the key or of the nearest table around it.
    fn wrong_by_key(&self, error: &ScenarioError, otherwise: usize) {
        let places = self.places.borrow();
        let mut key = error.key();
        let at = loop {
            if let Some(at) = places.get(key) {
                break *at;
            }
            match key.rfind(['.', '[']) {
                Some(end) => key = key.get(..end).unwrap_or(""),
                None => break otherwise,
            }
        };
        drop(places);
        self.wrong(at, error.to_string());
    }

    fn built_in(&self, name: Found<'_>, table: &Table<'_, '_>) -> Option<Scenario> {
        let Some(text) = name.value.as_str() else {
            self.wrong(name.at, "the name of a built-in scenario is a string");
            return None;
        };
        let mut options = Vec::new();
        for (key, value) in table.table {
            let key_text = key.get_ref().as_ref();
            if ["scenario", "description", "policies", "strategies"].contains(&key_text) {
                continue;
            }
            self.places.borrow_mut().insert(key_text.to_owned(), key.span().start);
            match value.get_ref() {
                DeValue::String(text) => options.push((key_text, text.to_string())),
                DeValue::Integer(number) => options.push((key_text, number.as_str().to_owned())),
                DeValue::Float(number) => options.push((key_text, number.as_str().to_owned())),
                _ => self.wrong(value.span().start, format!("`{key_text}` is a string or a number")),
            }
        }
        table.accept_all();
        let options: Vec<(&str, &str)> = options.iter().map(|(key, value)| (*key, value.as_str())).collect();
        match built_in(text, &options) {
            Ok(scenario) => Some(scenario),
            Err(error) => {
                let at = if error.key() == "scenario" { name.at } else { table.at };
                self.wrong_by_key(&error, at);
                None
            }
        }
    }

    fn fleet(&self, name: &str, table: &Table<'_, '_>, strategies: Strategies) -> Scenario {
        let mut fleet = Fleet {
            horizon: table.required("horizon", Table::duration).unwrap_or_default(),
            grace: table.duration("grace").unwrap_or_default(),
            warm_up: table.duration("warm_up").unwrap_or_default(),
            watch: table.string("watch").map(str::to_owned),
            ..Fleet::default()
        };
        for (name, table) in table.named("services") {
            fleet.services.push(self.service(name, &table, strategies));
        }
        for (name, table) in table.named("clients") {
            fleet.clients.extend(self.clients(name, &table, strategies));
        }
        for (index, found) in table.array("trouble").unwrap_or_default().into_iter().enumerate() {
            let path = format!("trouble[{index}]");
            self.places.borrow_mut().insert(path.clone(), found.at);
            if let Some(table) = self.as_table(found, path) {
                fleet.troubles.extend(self.trouble(&table));
            }
        }
        let mut scenario = Scenario::fleet(name, "", fleet);
        scenario.line_up = ["none", "exponential", "full"]
            .iter()
            .filter_map(|name| Some((format!("{PREFIX}{name}"), strategies.strategy(name)?.ok()?)))
            .collect();
        scenario.bin = table.duration("bin").unwrap_or(scenario.bin);
        scenario.seed = table.whole("seed").unwrap_or(scenario.seed);
        scenario.replications = table.whole("replications").unwrap_or(scenario.replications);
        if let Some(cost) = table.table("cost") {
            scenario.cost = Cost {
                attempt: cost.number("attempt").unwrap_or(0.0),
                work_second: cost.number("work_second").unwrap_or(0.0),
            };
            cost.finish();
        }
        if let Some(incident) = table.table("incident") {
            let from = incident.required("from", Table::duration);
            let to = incident.required("to", Table::duration);
            scenario.incident = from.zip(to).filter(|(from, to)| {
                if from >= to {
                    self.wrong(incident.at, "the incident ends before it begins");
                }
                from < to
            });
            incident.finish();
        }
        scenario
    }

    fn service(&self, name: &str, table: &Table<'_, '_>, strategies: Strategies) -> Service {
        let mut service = Service::new(name);
        service.workers = table.unlimited("workers").flatten();
        if let Some(queue) = table.table("queue") {
            service.order =
                queue.word("order", &[("fifo", Order::Fifo), ("lifo", Order::Lifo)]).unwrap_or_default();
            service.queue = queue.unlimited("capacity").flatten();
            service.drop_expired = queue.boolean("drop_expired").unwrap_or_default();
            queue.finish();
        }
        service.time = table.law("time").unwrap_or(service.time);
        service.slowdown = table.duration("slowdown").unwrap_or_default();
        service.error_rate = table.number("error_rate").unwrap_or_default();
        service.rate_limit = table.table("rate_limit").map(|limit| {
            let read = RateLimit {
                per_second: limit.required("per_second", Table::number).unwrap_or(1.0),
                burst: limit.whole("burst").unwrap_or(1),
                retry_after: limit.duration("retry_after"),
            };
            limit.finish();
            read
        });
        service.overload = table.table("overload").map(|overload| {
            let read = Overload {
                above: overload.required("above", Table::whole).unwrap_or(1),
                out_for: overload.required("out_for", Table::duration).unwrap_or_default(),
            };
            overload.finish();
            read
        });
        for (index, found) in table.array("calls").unwrap_or_default().into_iter().enumerate() {
            let path = format!("services.{name}.calls[{index}]");
            self.places.borrow_mut().insert(path.clone(), found.at);
            if let Some(edge) = self.as_table(found, path) {
                service.calls.extend(self.edge(&edge, strategies));
                edge.finish();
            }
        }
        service.shards = table.whole("shards").unwrap_or(service.shards);
        service.stops_unwanted = table.boolean("stops_unwanted").unwrap_or_default();
        table.finish();
        service
    }

    fn edge(&self, table: &Table<'_, '_>, strategies: Strategies) -> Option<Edge> {
        let to = table.required("to", Table::string)?.to_owned();
        let policy = table.get("policy").and_then(|found| match found.value.as_str() {
            Some(name) => self.policy(name, found.at, strategies),
            None => {
                self.wrong(found.at, "a policy's name is a string");
                None
            }
        });
        let (scope, per_shard) = self.scope(table);
        if table.get("policy").is_none() {
            for key in ["scope", "per_shard"] {
                if let Some(found) = table.get(key) {
                    let help = "the scenario's `policies` say it for those that are compared";
                    self.wrong(found.at, format!("`{key}` has no effect without `policy`; {help}"));
                }
            }
        }
        let policy = policy.map(|strategy| Strategy { scope, per_shard, ..strategy });
        let delay = table.law("delay").unwrap_or(Law::ZERO);
        Some(Edge { to, delay, timeout: table.duration("timeout"), policy })
    }

    fn clients(&self, name: &str, table: &Table<'_, '_>, strategies: Strategies) -> Option<Clients> {
        let call = self.edge(table, strategies);
        let count = table.required("count", Table::whole);
        let arrivals = table.required("arrivals", Table::table).and_then(|table| self.arrivals(&table));
        table.finish();
        Some(Clients { name: name.to_owned(), count: count?, arrivals: arrivals?, call: call? })
    }

    fn arrivals(&self, table: &Table<'_, '_>) -> Option<Arrivals> {
        let kinds = ["closed", "paced", "poisson", "constant", "spike", "burst", "cron", "listen"];
        let kind = table.required("kind", |table, key| table.word(key, &kinds.map(|kind| (kind, kind))))?;
        let arrivals = match kind {
            "closed" => table.law("think").map(|think| Arrivals::Closed { think }),
            "paced" => table.required("rate", Table::number).map(|rate| Arrivals::Paced { rate }),
            "spike" => {
                let (rate, to) = (table.required("rate", Table::number), table.required("to", Table::number));
                let (at, lasts) =
                    (table.required("at", Table::duration), table.required("for", Table::duration));
                let profile = Profile::spike(rate?, to?, at?, lasts?);
                Some(Arrivals::Open { rate: profile, random: true })
            }
            "burst" => Some(Arrivals::Burst {
                at: table.duration("at").unwrap_or_default(),
                within: table.duration("within").unwrap_or_default(),
            }),
            "cron" => table
                .required("every", Table::duration)
                .map(|every| Arrivals::Cron { every, within: table.duration("within").unwrap_or_default() }),
            "listen" => Some(Arrivals::Listen {
                lifetime: table.law("lifetime"),
                notice: table.law("notice").unwrap_or(Law::ZERO),
            }),
            _ => table
                .required("rate", Table::profile)
                .map(|rate| Arrivals::Open { rate, random: kind == "poisson" }),
        };
        table.finish();
        arrivals
    }

    fn trouble(&self, table: &Table<'_, '_>) -> Option<Trouble> {
        let service = table.required("service", Table::string);
        let (at, lasts) = (table.required("at", Table::duration), table.required("for", Table::duration));
        let kinds = ["refuse", "hang", "capacity", "errors", "slow"];
        let kind = table.required("kind", |table, key| table.word(key, &kinds.map(|kind| (kind, kind))));
        let kind = match kind {
            Some("refuse") => Some(TroubleKind::Refuse),
            Some("hang") => Some(TroubleKind::Hang),
            Some("capacity") => table.required("factor", Table::number).map(TroubleKind::Capacity),
            Some("errors") => table.required("rate", Table::number).map(TroubleKind::Errors),
            Some(_) => table.required("factor", Table::number).map(TroubleKind::Slow),
            None => None,
        };
        let shard = table.whole("shard");
        table.finish();
        Some(Trouble { service: service?.to_owned(), at: at?, lasts: lasts?, shard, kind: kind? })
    }

    /// A policy's name, or a table that says too who shares its state.
    fn contender(&self, found: Found<'_>, strategies: Strategies) -> Option<(String, Strategy)> {
        if let Some(name) = found.value.as_str() {
            return Some((name.to_owned(), self.policy(name, found.at, strategies)?));
        }
        if !found.value.is_table() {
            self.wrong(
                found.at,
                "a policy's name is a string; with more, { policy = \"NAME\", scope = \"service\" }",
            );
            return None;
        }
        let table = self.as_table(found, String::new())?;
        let policy = table.required("policy", Table::string)?;
        let at = table.get("policy").map_or(found.at, |found| found.at);
        let strategy = self.policy(policy, at, strategies);
        let name = table.string("name").unwrap_or(policy);
        let (scope, per_shard) = self.scope(&table);
        table.finish();
        Some((name.to_owned(), Strategy { scope, per_shard, ..strategy? }))
    }

    fn scope(&self, table: &Table<'_, '_>) -> (Scope, bool) {
        let scope = table.word("scope", &Scope::ALL.map(|scope| (scope.as_str(), scope)));
        (scope.unwrap_or_default(), table.boolean("per_shard").unwrap_or_default())
    }

    fn policy(&self, name: &str, at: usize, strategies: Strategies) -> Option<Strategy> {
        if let Some(strategy) = name.strip_prefix(PREFIX) {
            let known = STRATEGIES.map(|(name, _)| name);
            return match strategies.strategy(strategy) {
                Some(Ok(strategy)) => Some(strategy),
                Some(Err(error)) => {
                    self.wrong(at, format!("`{name}` with the scenario's `strategies`: {error}"));
                    None
                }
                None => {
                    self.wrong(at, unknown("strategy", strategy, &known));
                    None
                }
            };
        }
        let policy = (self.resolve)(name);
        if policy.is_none() {
            self.wrong(
                at,
                format!("unknown policy \"{name}\"; a built-in strategy is written \"strategy:full\""),
            );
        }
        policy
    }

    fn as_table<'s, 't>(&'s self, found: Found<'t>, path: String) -> Option<Table<'s, 't>>
    where
        'r: 's,
    {
        let table = found.value.as_table();
        if table.is_none() {
            self.wrong(found.at, format!("a table is expected here, not a {}", found.value.type_str()));
        }
        // A shorter life of the reader will do for the table.
        table.map(|table| Table::new(self, table, found.at, path))
    }
}

impl<'r, 't> Table<'r, 't> {
    fn new<'l>(reader: &'r Reader<'l>, table: &'t DeTable<'t>, at: usize, path: String) -> Self
    where
        'l: 'r,
    {
        Table { reader, table, at, path, asked: RefCell::default() }
    }

    fn get(&self, key: &'static str) -> Option<Found<'t>> {
        self.asked.borrow_mut().push(key);
        let (found_key, value) = self.table.iter().find(|(found, _)| found.get_ref() == key)?;
        let path = self.path_of(key);
        self.reader.places.borrow_mut().insert(path, found_key.span().start);
        Some(Found { value: value.get_ref(), at: value.span().start })
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Reports the keys that nobody asked for.
    fn finish(&self) {
        let asked = self.asked.borrow();
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if !asked.contains(&name) {
                self.reader.wrong(key.span().start, unknown("key", name, &asked));
            }
        }
    }

    fn accept_all(&self) {
        let mut asked = self.asked.borrow_mut();
        // The built-in scenario itself knows its options.
        asked.extend(BUILT_INS.iter().flat_map(|built_in| built_in.options.iter().map(|(name, ..)| *name)));
        asked.extend(["horizon", "bin", "replications", "seed"]);
    }

    fn wrong<T>(&self, found: Found<'_>, message: impl Into<String>) -> Option<T> {
        self.reader.wrong(found.at, message);
        None
    }

    fn required<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Option<T>,
    ) -> Option<T> {
        if !self.table.iter().any(|(found, _)| found.get_ref() == key) {
            self.reader.wrong(self.at, format!("`{}` is missing", self.path_of(key)));
        }
        read(self, key)
    }

    fn string(&self, key: &'static str) -> Option<&'t str> {
        let found = self.get(key)?;
        found.value.as_str().or_else(|| self.wrong(found, format!("`{key}` is a string")))
    }

    fn duration(&self, key: &'static str) -> Option<Duration> {
        let found = self.get(key)?;
        self.as_duration(found)
    }

    fn as_duration(&self, found: Found<'_>) -> Option<Duration> {
        match found.value {
            DeValue::String(text) => match text::duration(text) {
                Ok(duration) => Some(duration),
                Err(why) => self.wrong(found, why),
            },
            DeValue::Integer(number) => {
                let number = number.as_str();
                self.wrong(found, format!("a duration needs a unit; write \"{number}s\" or \"{number}ms\""))
            }
            _ => self.wrong(found, "a duration is a string such as \"1.5s\""),
        }
    }

    fn number(&self, key: &'static str) -> Option<f64> {
        let found = self.get(key)?;
        self.as_number(found, key)
    }

    fn as_number(&self, found: Found<'_>, key: &str) -> Option<f64> {
        let text = match found.value {
            DeValue::Integer(number) => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => return self.wrong(found, format!("`{key}` is a number")),
        };
        match text.replace('_', "").parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Some(number),
            _ => self.wrong(found, format!("`{key}` is {text}; it must be 0 or more")),
        }
    }

    fn whole<T: TryFrom<u64>>(&self, key: &'static str) -> Option<T> {
        let found = self.get(key)?;
        let DeValue::Integer(number) = found.value else {
            return self.wrong(found, format!("`{key}` is a whole number"));
        };
        let text = number.as_str().replace('_', "");
        match u64::from_str_radix(&text, number.radix()).ok().and_then(|number| T::try_from(number).ok()) {
            Some(number) => Some(number),
            None if text.starts_with('-') => {
                self.wrong(found, format!("`{key}` is {text}; it must be 0 or more"))
            }
            None => self.wrong(found, format!("`{key}`: {text} is too large")),
        }
    }

    /// A whole number, or "unlimited".
    fn unlimited(&self, key: &'static str) -> Option<Option<u32>> {
        match self.get(key)?.value.as_str() {
            Some("unlimited") => Some(None),
            _ => self.whole(key).map(Some),
        }
    }

    fn boolean(&self, key: &'static str) -> Option<bool> {
        let found = self.get(key)?;
        found.value.as_bool().or_else(|| self.wrong(found, format!("`{key}` is true or false")))
    }

    fn word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let found = self.get(key)?;
        let text = found.value.as_str().or_else(|| self.wrong(found, format!("`{key}` is a string")))?;
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let word = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        word.or_else(|| self.wrong(found, unknown(key, text, &known)))
    }

    fn table(&self, key: &'static str) -> Option<Self> {
        let found = self.get(key)?;
        self.reader.as_table(found, self.path_of(key))
    }

    /// A table of tables, in order of their place.
    fn named(&self, key: &'static str) -> Vec<(&'t str, Self)> {
        let Some(table) = self.table(key) else { return Vec::new() };
        let mut entries: Vec<_> = table.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut named = Vec::new();
        for (name, value) in entries {
            let at = name.span().start;
            let path = table.path_of(name.get_ref());
            self.reader.places.borrow_mut().insert(path.clone(), at);
            let found = Found { value: value.get_ref(), at };
            named.extend(self.reader.as_table(found, path).map(|table| (name.get_ref().as_ref(), table)));
        }
        named
    }

    fn array(&self, key: &'static str) -> Option<Vec<Found<'t>>> {
        let found = self.get(key)?;
        let Some(array) = found.value.as_array() else {
            return self.wrong(found, format!("`{key}` is a list"));
        };
        Some(array.iter().map(|value| Found { value: value.get_ref(), at: value.span().start }).collect())
    }

    fn profile(&self, key: &'static str) -> Option<Profile> {
        let found = self.get(key)?;
        let Some(points) = found.value.as_array() else {
            return self.as_number(found, key).map(Profile::constant);
        };
        let point = |value: &'t toml::Spanned<DeValue<'t>>| {
            let found = Found { value: value.get_ref(), at: value.span().start };
            let [time, rate] = value.get_ref().as_array().map_or(&[][..], |pair| pair) else {
                return self.wrong(found, "a point is a time and a rate: [\"25s\", 80]");
            };
            let time = self.as_duration(Found { value: time.get_ref(), at: time.span().start });
            let rate = self.as_number(Found { value: rate.get_ref(), at: rate.span().start }, key);
            time.zip(rate)
        };
        points.iter().map(point).collect::<Option<Vec<_>>>().map(Profile)
    }

    fn law(&self, key: &'static str) -> Option<Law> {
        let found = self.get(key)?;
        if !found.value.is_table() {
            return self.as_duration(found).map(Law::Fixed);
        }
        let table = self.reader.as_table(found, self.path_of(key))?;
        let kinds = ["fixed", "uniform", "exponential", "normal", "lognormal"];
        let kind = table.required("kind", |table, key| table.word(key, &kinds.map(|kind| (kind, kind))))?;
        let duration = |key| table.required(key, Self::duration);
        let law = match kind {
            "fixed" => duration("time").map(Law::Fixed),
            "uniform" => {
                let (from, to) = (duration("from"), duration("to"));
                from.zip(to).map(|(from, to)| Law::Uniform { from, to })
            }
            "exponential" => duration("mean").map(|mean| Law::Exponential { mean }),
            "normal" => {
                let (mean, deviation) = (duration("mean"), duration("deviation"));
                mean.zip(deviation).map(|(mean, deviation)| Law::Normal { mean, deviation })
            }
            _ => {
                let (median, sigma) = (duration("median"), table.required("sigma", Self::number));
                median.zip(sigma).map(|(median, sigma)| Law::Lognormal { median, sigma })
            }
        };
        table.finish();
        law
    }
}
