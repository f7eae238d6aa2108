//! Built-in scenarios, by name, with options.

mod shared;

use std::time::Duration;

use relent_core::{CommonPolicy, HintPolicy, Jitter, Policy, PolicyBuilder, Ratio, WindowBudget};

use crate::luck::Law;
use crate::model::{
    Arrivals, Batch, Clients, Edge, Ethernet, Fleet, Herd, Occ, Profile, RateLimit, Repeats, Service,
    Trouble, TroubleKind,
};
use crate::nearest::unknown;
use crate::scenario::{Scenario, ScenarioError};
use crate::strategy::{Scope, Strategies, Strategy};
use crate::text;

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Its options: name, default, meaning. `horizon`, `bin`, `replications` and `seed` are options of each.
    pub options: &'static [(&'static str, &'static str, &'static str)],
    make: fn(&mut Options<'_>) -> Result<Scenario, ScenarioError>,
}

/// All built-in scenarios.
pub const BUILT_INS: [BuiltIn; 17] = [
    BuiltIn {
        name: "herd",
        about: "All clients call at once; the server takes so many at a time and refuses the rest.",
        options: &[
            ("clients", "100000", "how many"),
            ("within", "2ms", "within what time the first attempts arrive"),
            ("capacity", "2000", "attempts that the server takes per second"),
            ("outage", "0s", "how long the server is out from the start"),
        ],
        make: herd,
    },
    BuiltIn {
        name: "occ",
        about: "Clients contend for one row with optimistic locking (AWS Architecture Blog, 2015).",
        options: &[
            ("clients", "100", "how many"),
            ("delay", "10ms", "the mean time that a message travels"),
            ("deviation", "2ms", "its standard deviation"),
        ],
        make: occ,
    },
    BuiltIn {
        name: "outage",
        about: "A service with some reserve is out for a while; calls come in whether or not it answers.",
        options: &[
            ("clients", "1000", "how many"),
            ("rate", "200", "calls per second, all clients together"),
            ("capacity", "300", "what the service can do per second"),
            (
                "queue",
                "150",
                "how many may wait for it; a queue longer than the callers wait can make it stay down",
            ),
            ("at", "30s", "when the outage begins"),
            ("outage", "30s", "how long it lasts"),
            ("attempts", "10", "attempts of the built-in strategies"),
        ],
        make: outage,
    },
    BuiltIn {
        name: "metastable",
        about: "A service stands still for ten seconds; whether it ever recovers is up to the retries (Bronson et al., \
                HotOS 2021).",
        options: &[
            ("rate", "280", "calls per second"),
            ("capacity", "300", "what the service can do per second"),
            ("timeout", "1s", "how long a caller waits for an attempt"),
            ("at", "60s", "when the service stops"),
            ("outage", "10s", "how long it stands still"),
            ("attempts", "2", "attempts of the built-in strategies"),
        ],
        make: metastable,
    },
    BuiltIn {
        name: "collapse",
        about: "A service that gets slower with each request in it, and a short spike or a ramp of load (Brooker, 2023).",
        options: &[
            ("shape", "spike", "spike or ramp"),
            ("rate", "40", "calls per second before"),
            ("peak", "80", "calls per second at the peak"),
            ("timeout", "3s", "how long a caller waits for an attempt"),
            ("attempts", "3", "attempts of the built-in strategies"),
        ],
        make: collapse,
    },
    BuiltIn {
        name: "layers",
        about: "Services that call services, each of which retries: what the leaf gets is a product.",
        options: &[
            ("layers", "3", "how many layers retry"),
            ("failure", "0.9", "the part of the leaf's attempts that fail, 0 to 1"),
            ("attempts", "3", "attempts of each layer"),
            ("rate", "100", "calls per second"),
        ],
        make: layers,
    },
    BuiltIn {
        name: "throttle",
        about: "A batch job meets a rate limit that answers with Retry-After.",
        options: &[
            ("clients", "1000", "calls that all begin at once"),
            ("rate", "50", "what the limit allows per second"),
            ("burst", "50", "what it allows at once"),
            ("retry-after", "1s", "what a refusal asks for; 0s: nothing"),
        ],
        make: throttle,
    },
    BuiltIn {
        name: "ethernet",
        about: "Stations that always have a frame to send share one cable (Metcalfe, Boggs, CACM 1976).",
        options: &[
            ("stations", "10", "how many"),
            ("slot", "16us", "the length of a slot"),
            ("frame", "85.333", "how many slots a frame takes"),
            ("slots", "1000000", "how many slots are simulated"),
        ],
        make: ethernet,
    },
    BuiltIn {
        name: "cron",
        about: "All clients call on the full period: with a spread, or in one instant.",
        options: &[
            ("clients", "10000", "how many"),
            ("every", "10m", "the period"),
            ("within", "0s", "within what time of the full period the clients call by themselves"),
            ("spread", "1m", "the initial spread of the policy that has one"),
            ("capacity", "200", "what the service can do per second"),
            ("queue", "200", "how many may wait for it"),
        ],
        make: cron,
    },
    BuiltIn {
        name: "reconnect",
        about: "A server with many listeners restarts: a fixed wait against a growing one.",
        options: &[
            ("clients", "20000", "listeners"),
            ("capacity", "500", "connections that the server takes per second"),
            ("at", "30s", "when it restarts"),
            ("outage", "10s", "how long that takes"),
        ],
        make: reconnect,
    },
    BuiltIn {
        name: "batch",
        about: "Nine healthy items and a poisoned one: what is tried again, all or what failed.",
        options: &[
            ("batches", "100", "how many, begun within a second"),
            ("items", "10", "items of each"),
            ("poisoned", "1", "how many of them always fail"),
            ("error-rate", "0.01", "the part of the attempts at a healthy item that fail, 0 to 1"),
            ("time", "10ms", "how long an attempt takes per item"),
            ("repeats", "batch", "batch, halves or failed"),
        ],
        make: batch,
    },
    BuiltIn {
        name: "statemachine",
        about: "A thousand executions of a Step Functions `Retry` against a throttled service: JitterStrategy NONE \
                against FULL.",
        options: &[
            ("executions", "1000", "how many, all begun within a second"),
            ("rate", "20", "what the service allows per second"),
            ("interval", "1s", "IntervalSeconds"),
            ("backoff-rate", "2", "BackoffRate"),
            ("max-delay", "60s", "MaxDelaySeconds"),
            ("max-attempts", "12", "MaxAttempts, which counts retries"),
        ],
        make: statemachine,
    },
    BuiltIn {
        name: "budget",
        about: "A service that fails a share of its attempts, whatever the load: retries with a budget and without \
                (Brooker, 2022).",
        options: &[
            ("failure", "0.5", "the part of the attempts that fail, 0 to 1"),
            ("clients", "100", "how many, each with a budget of its own"),
            ("rate", "1000", "calls per second, all clients together"),
        ],
        make: shared::budget,
    },
    BuiltIn {
        name: "breaker",
        about: "One of a service's shards fails: a breaker for the whole service makes a full outage of it (Brooker, \
                2022).",
        options: &[
            ("clients", "50", "how many, each with breakers of its own"),
            ("rate", "500", "calls per second, all clients together"),
            ("shards", "10", "shards of the service"),
            ("threshold", "0.2", "the share of failed attempts that opens a breaker"),
            ("attempts", "3", "attempts of the policy"),
            ("at", "30s", "when the shard begins to fail"),
            ("outage", "60s", "for how long"),
        ],
        make: shared::breaker,
    },
    BuiltIn {
        name: "hedging",
        about: "A service with a long tail becomes slower for a while: hedges after a fixed time and after the \
                observed p95.",
        options: &[
            ("clients", "10", "how many, each with latencies of its own"),
            ("rate", "500", "calls per second, all clients together"),
            ("median", "40ms", "the median of the service's lognormal times"),
            ("sigma", "0.8", "the standard deviation of their logarithm"),
            ("at", "60s", "when it becomes slower"),
            ("slow", "60s", "for how long; 0s: never"),
            ("factor", "3", "how many times as slow"),
        ],
        make: shared::hedging,
    },
    BuiltIn {
        name: "overload",
        about: "More calls than a service takes: clients that throttle themselves (SRE book, chapter 21).",
        options: &[
            ("clients", "10", "how many, each with a throttle of its own"),
            ("rate", "400", "calls per second, all clients together"),
            ("capacity", "100", "what the service accepts per second"),
        ],
        make: shared::overload,
    },
    BuiltIn {
        name: "adaptive",
        about: "Threads of one process hammer a throttled table, alone or beside others that call an idle one: the AWS \
                SDKs' adaptive mode.",
        options: &[
            ("threads", "40", "threads that call the throttled table"),
            ("others", "0", "threads of the same process that call another table, which has room"),
            ("rate", "50", "what the throttled table allows per second"),
        ],
        make: shared::adaptive,
    },
];

const COMMON: [&str; 4] = ["horizon", "bin", "replications", "seed"];

/// The built-in scenario `name` with options as text.
///
/// # Errors
///
/// An unknown name or option, with the nearest known one, or a value that cannot be.
///
/// ```
/// let scenario = relent_sim::built_in("herd", &[("clients", "1000"), ("outage", "10s")])?;
/// assert_eq!(scenario.name, "herd");
/// let error = relent_sim::built_in("herd", &[("client", "1000")]).unwrap_err();
/// assert!(error.to_string().contains("did you mean \"clients\"?"));
/// # Ok::<(), relent_sim::ScenarioError>(())
/// ```
pub fn built_in(name: &str, options: &[(&str, &str)]) -> Result<Scenario, ScenarioError> {
    let Some(scenario) = BUILT_INS.iter().find(|built_in| built_in.name == name) else {
        let names = BUILT_INS.map(|built_in| built_in.name);
        return Err(ScenarioError::new("scenario", unknown("scenario", name, &names)));
    };
    let known: Vec<&str> = scenario.options.iter().map(|(name, ..)| *name).chain(COMMON).collect();
    for (index, (key, _)) in options.iter().enumerate() {
        if !known.contains(key) {
            return Err(ScenarioError::new(*key, unknown("option", key, &known)));
        }
        if options.iter().take(index).any(|(earlier, _)| earlier == key) {
            return Err(ScenarioError::new(*key, "is given twice"));
        }
    }
    let mut options = Options { given: options, defaults: scenario.options };
    let mut made = (scenario.make)(&mut options)?;
    if let Some(bin) = options.given("bin") {
        made.bin = parse("bin", bin, text::duration)?;
    }
    if let Some(replications) = options.given("replications") {
        made.replications = parse("replications", replications, whole)?;
    }
    if let Some(seed) = options.given("seed") {
        made.seed = parse("seed", seed, whole)?;
    }
    if let Some(horizon) = options.given("horizon") {
        made.set_horizon(parse("horizon", horizon, text::duration)?);
    }
    made.check()?;
    Ok(made)
}

/// Options by name, given or by default.
struct Options<'a> {
    given: &'a [(&'a str, &'a str)],
    defaults: &'static [(&'static str, &'static str, &'static str)],
}

impl<'a> Options<'a> {
    fn given(&self, key: &str) -> Option<&'a str> {
        self.given.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    fn text(&self, key: &str) -> &'a str {
        let default = || self.defaults.iter().find(|(name, ..)| *name == key).map(|(_, value, _)| *value);
        self.given(key).or_else(default).unwrap_or("")
    }

    fn duration(&self, key: &str) -> Result<Duration, ScenarioError> {
        parse(key, self.text(key), text::duration)
    }

    fn whole<T: TryFrom<u64>>(&self, key: &str) -> Result<T, ScenarioError> {
        parse(key, self.text(key), whole)
    }

    fn positive<T: TryFrom<u64>>(&self, key: &str) -> Result<T, ScenarioError> {
        parse(key, self.text(key), |text| match whole::<u64>(text)? {
            0 => Err("at least 1".to_owned()),
            _ => whole(text),
        })
    }

    fn number(&self, key: &str) -> Result<f64, ScenarioError> {
        parse(key, self.text(key), |text| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| format!("\"{text}\" is no number of 0 or more"))
        })
    }

    /// A number per second above zero.
    fn rate(&self, key: &str) -> Result<f64, ScenarioError> {
        match self.number(key)? {
            rate if rate > 0.0 => Ok(rate),
            _ => Err(ScenarioError::new(key, "must be above 0")),
        }
    }
}

fn parse<T>(
    key: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, ScenarioError> {
    parse(text).map_err(|why| ScenarioError::new(key, why))
}

fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number =
        text.replace('_', "").parse::<u64>().map_err(|_| format!("\"{text}\" is no whole number"))?;
    T::try_from(number).map_err(|_| format!("{text} is too large"))
}

fn herd(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let outage = options.duration("outage")?;
    Ok(Scenario::herd(Herd {
        clients: options.positive("clients")?,
        within: options.duration("within")?,
        capacity: options.positive("capacity")?,
        outage: (!outage.is_zero()).then_some((Duration::ZERO, outage)),
        ..Herd::default()
    }))
}

fn occ(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let (delay, deviation) = (options.duration("delay")?, options.duration("deviation")?);
    Ok(Scenario::occ(Occ { clients: options.positive("clients")?, delay, deviation, ..Occ::default() }))
}

fn batch(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let repeats = match options.text("repeats") {
        "batch" => Repeats::Batch,
        "halves" => Repeats::Halves,
        "failed" => Repeats::Failed,
        other => {
            let why = unknown("word", other, &["batch", "halves", "failed"]);
            return Err(ScenarioError::new("repeats", why));
        }
    };
    Ok(Scenario::batch(Batch {
        batches: options.positive("batches")?,
        items: options.positive("items")?,
        poisoned: options.whole("poisoned")?,
        error_rate: options.number("error-rate")?,
        time: options.duration("time")?,
        repeats,
    }))
}

fn ethernet(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    Ok(Scenario::ethernet(Ethernet {
        stations: options.positive("stations")?,
        slot: options.duration("slot")?,
        frame: options.number("frame")?,
        slots: options.positive("slots")?,
    }))
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A service of `workers` that together do `capacity` per second.
fn service(name: &str, workers: u32, capacity: f64) -> Service {
    let time = Law::Fixed(Duration::from_nanos((1e9 * f64::from(workers) / capacity) as u64));
    Service { workers: Some(workers), time, ..Service::new(name) }
}

fn poisson(rate: f64) -> Arrivals {
    Arrivals::Open { rate: Profile::constant(rate), random: true }
}

fn clients(count: u32, arrivals: Arrivals, call: Edge) -> Vec<Clients> {
    vec![Clients { name: "clients".into(), count, arrivals, call }]
}

fn network(to: &str) -> Edge {
    Edge { delay: Law::Uniform { from: ms(4), to: ms(6) }, ..Edge::to(to) }
}

fn describe(name: &str, fleet: Fleet) -> Scenario {
    let about = BUILT_INS.iter().find(|built_in| built_in.name == name).map_or("", |built_in| built_in.about);
    Scenario::fleet(name, about, fleet)
}

/// Named built-in strategies with these numbers.
fn strategies(names: &[&str], numbers: Strategies) -> Result<Vec<(String, Strategy)>, ScenarioError> {
    let strategy = |name: &&str| {
        Some(match numbers.strategy(name)? {
            Ok(strategy) => Ok((format!("strategy:{name}"), strategy)),
            Err(error) => Err(ScenarioError::new(error.key(), error.why())),
        })
    };
    names.iter().filter_map(strategy).collect()
}

fn outage(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let numbers = Strategies { attempts: Some(options.positive("attempts")?), ..Strategies::default() };
    let (at, lasts) = (options.duration("at")?, options.duration("outage")?);
    let call = Edge { timeout: Some(s(2)), ..network("service") };
    let fleet = Fleet {
        clients: clients(options.positive("clients")?, poisson(options.rate("rate")?), call),
        services: vec![Service {
            queue: Some(options.whole("queue")?),
            ..service("service", 3, options.rate("capacity")?)
        }],
        troubles: vec![Trouble {
            service: "service".into(),
            at,
            lasts,
            shard: None,
            kind: TroubleKind::Refuse,
        }],
        horizon: at.saturating_add(lasts).saturating_add(s(120)),
        grace: s(120),
        warm_up: s(2),
        watch: None,
    };
    let line_up = strategies(&["no-retry", "none", "fixed", "exponential", "full"], numbers)?;
    Ok(Scenario { replications: 5, strategies: numbers, line_up, ..describe("outage", fleet) })
}

fn metastable(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let numbers =
        Strategies { initial: s(1), attempts: Some(options.positive("attempts")?), ..Strategies::default() };
    let (at, lasts) = (options.duration("at")?, options.duration("outage")?);
    let call = Edge { timeout: Some(options.duration("timeout")?), ..Edge::to("database") };
    let fleet = Fleet {
        clients: clients(1000, poisson(options.rate("rate")?), call),
        services: vec![service("database", 1, options.rate("capacity")?)],
        troubles: vec![Trouble {
            service: "database".into(),
            at,
            lasts,
            shard: None,
            kind: TroubleKind::Capacity(0.0),
        }],
        horizon: at.saturating_add(lasts).saturating_add(s(530)),
        warm_up: s(2),
        ..Fleet::default()
    };
    let mut line_up = strategies(&["no-retry", "none", "exponential", "full"], numbers)?;
    // A tenth of the calls of the last ten seconds, and none beyond.
    let tenth = WindowBudget::new(Ratio::percent(10)).floor(0);
    let shared = CommonPolicy { budgets: vec![(tenth.into(), Ratio::ZERO)], ..CommonPolicy::default() };
    let retries = built(Policy::constant(Duration::ZERO).jitter(Jitter::None).max_attempts(4))?;
    line_up.push(("3 retries, 10 % budget".into(), retries.sharing(shared).scope(Scope::Service)));
    Ok(Scenario { replications: 5, strategies: numbers, line_up, ..describe("metastable", fleet) })
}

fn collapse(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let numbers = Strategies {
        initial: s(20),
        cap: s(3600),
        attempts: Some(options.positive("attempts")?),
        ..Strategies::default()
    };
    let (rate, peak) = (options.rate("rate")?, options.rate("peak")?);
    let (profile, incident) = match options.text("shape") {
        "spike" => (Profile::spike(rate, peak, s(20), s(5)), (s(20), s(25))),
        "ramp" => {
            let down = s(25).mul_f64(1.0 + peak / (peak - rate).max(peak / 100.0));
            (Profile(vec![(s(0), rate), (s(25), peak), (down, 0.0)]), (s(0), s(25)))
        }
        other => return Err(ScenarioError::new("shape", unknown("shape", other, &["spike", "ramp"]))),
    };
    let mean = ms(100);
    let call = Edge {
        timeout: Some(options.duration("timeout")?),
        delay: Law::Exponential { mean },
        ..Edge::to("service")
    };
    let fleet = Fleet {
        clients: clients(1, Arrivals::Open { rate: profile, random: true }, call),
        services: vec![Service { time: Law::Fixed(s(1)), slowdown: ms(10), ..Service::new("service") }],
        horizon: s(80),
        warm_up: s(5),
        ..Fleet::default()
    };
    let line_up = strategies(&["no-retry", "none", "full"], numbers)?;
    let made = describe("collapse", fleet);
    Ok(Scenario { replications: 10, incident: Some(incident), strategies: numbers, line_up, ..made })
}

fn layers(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let numbers = Strategies { attempts: Some(options.positive("attempts")?), ..Strategies::default() };
    let count: u32 = options.positive("layers")?;
    if count > 6 {
        return Err(ScenarioError::new("layers", "at most 6: a seventh multiplies again"));
    }
    let failure = options.number("failure")?;
    let name = |layer: u32| if layer == count { "leaf".to_owned() } else { format!("layer{layer}") };
    let services = (1..=count)
        .map(|layer| {
            let calls = if layer < count { vec![Edge::to(name(layer + 1))] } else { Vec::new() };
            let error_rate = if layer < count { 0.0 } else { failure };
            Service { error_rate, calls, ..Service::new(name(layer)) }
        })
        .collect();
    let fleet = Fleet {
        clients: clients(100, poisson(options.rate("rate")?), Edge::to(name(1))),
        services,
        horizon: s(60),
        grace: s(24 * 3600),
        watch: Some("leaf".into()),
        ..Fleet::default()
    };
    let line_up = strategies(&["no-retry", "none", "full"], numbers)?;
    Ok(Scenario { replications: 10, strategies: numbers, line_up, ..describe("layers", fleet) })
}

fn throttle(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let numbers = Strategies::default();
    let hint = options.duration("retry-after")?;
    let limit = RateLimit {
        per_second: options.rate("rate")?,
        burst: options.positive("burst")?,
        retry_after: (!hint.is_zero()).then_some(hint),
    };
    let count = options.positive("clients")?;
    let once = Arrivals::Burst { at: Duration::ZERO, within: ms(10) };
    let fleet = Fleet {
        clients: clients(count, once, network("service")),
        services: vec![Service { rate_limit: Some(limit), ..Service::new("service") }],
        horizon: s(3600),
        grace: s(3600),
        ..Fleet::default()
    };
    let no_spread = |builder: PolicyBuilder| builder.hint(HintPolicy::DEFAULT.spread(0.0));
    let full = Policy::exponential(ms(100)).unlimited_attempts();
    let mut line_up = strategies(&["fixed", "exponential", "full"], numbers)?;
    line_up.push(("full, hint not spread".into(), built(no_spread(full))?));
    Ok(Scenario {
        replications: 5,
        line_up,
        bin: ms(100),
        strategies: numbers,
        ..describe("throttle", fleet)
    })
}

fn cron(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let numbers = Strategies { attempts: Some(8), ..Strategies::default() };
    let (every, within) = (options.duration("every")?, options.duration("within")?);
    let job = service("service", 10, options.rate("capacity")?);
    let fleet = Fleet {
        clients: clients(options.positive("clients")?, Arrivals::Cron { every, within }, network("service")),
        services: vec![Service { queue: Some(options.positive("queue")?), ..job }],
        horizon: every.saturating_mul(2).saturating_sub(s(1)),
        grace: every,
        ..Fleet::default()
    };
    let mut line_up = strategies(&["fixed", "exponential", "full"], numbers)?;
    let spread = options.duration("spread")?;
    let full = Policy::exponential(ms(100)).max_attempts(8).initial_spread(spread);
    line_up.push(("full, spread at first".into(), built(full)?));
    Ok(Scenario { replications: 3, line_up, strategies: numbers, ..describe("cron", fleet) })
}

fn reconnect(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let numbers = Strategies { initial: s(1), cap: s(60), ..Strategies::default() };
    let (at, lasts) = (options.duration("at")?, options.duration("outage")?);
    let arrivals = Arrivals::Listen { lifetime: None, notice: Law::Uniform { from: ms(0), to: ms(200) } };
    let capacity = options.rate("capacity")?;
    let limit =
        RateLimit { per_second: capacity, burst: (capacity / 10.0).max(1.0) as u32, retry_after: None };
    let fleet = Fleet {
        clients: clients(options.positive("clients")?, arrivals, network("server")),
        services: vec![Service { rate_limit: Some(limit), ..Service::new("server") }],
        troubles: vec![Trouble {
            service: "server".into(),
            at,
            lasts,
            shard: None,
            kind: TroubleKind::Refuse,
        }],
        horizon: at.saturating_add(lasts).saturating_add(s(1200)),
        ..Fleet::default()
    };
    let line_up = vec![
        ("fixed 5 s".to_owned(), built(Policy::constant(s(5)).jitter(Jitter::None).unlimited_attempts())?),
        ("1 s to 60 s".to_owned(), built(growing(Jitter::None))?),
        ("1 s to 60 s, full jitter".to_owned(), built(growing(Jitter::Full))?),
    ];
    Ok(Scenario { bin: ms(500), line_up, strategies: numbers, ..describe("reconnect", fleet) })
}

fn growing(jitter: Jitter) -> PolicyBuilder {
    Policy::exponential(s(1)).cap(s(60)).jitter(jitter).unlimited_attempts()
}

fn statemachine(options: &mut Options<'_>) -> Result<Scenario, ScenarioError> {
    let count: u32 = options.positive("executions")?;
    let per_second = options.rate("rate")?;
    let limit = RateLimit { per_second, burst: per_second.max(1.0) as u32, retry_after: None };
    let once = Arrivals::Burst { at: Duration::ZERO, within: s(1) };
    let fleet = Fleet {
        clients: clients(count, once, network("service")),
        services: vec![Service { rate_limit: Some(limit), ..Service::new("service") }],
        horizon: s(3600),
        grace: s(7200),
        ..Fleet::default()
    };
    let retries: u32 = options.whole("max-attempts")?;
    let retry = |jitter| {
        let builder = Policy::exponential(options.duration("interval")?)
            .multiplier(options.number("backoff-rate")?)
            .cap(options.duration("max-delay")?)
            .max_attempts(retries.saturating_add(1))
            .jitter(jitter);
        built(builder)
    };
    let line_up = vec![("NONE".to_owned(), retry(Jitter::None)?), ("FULL".to_owned(), retry(Jitter::Full)?)];
    Ok(Scenario { replications: 5, line_up, ..describe("statemachine", fleet) })
}

fn built(builder: PolicyBuilder) -> Result<Strategy, ScenarioError> {
    builder.build().map(Strategy::from).map_err(|error| ScenarioError::new(error.key(), error.why()))
}
