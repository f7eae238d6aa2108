//! The names that a policy file knows, and what other systems call the same things.

use std::time::Duration;

use crate::duration::format_duration;
use crate::tree::{Node, Value};

/// A table of the file, by its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Root,
    Policy,
    Deadline,
    Backoff,
    RuleBackoff,
    Stage,
    Jitter,
    Hint,
    HintMode,
    On,
    OnClass,
    Rule,
    Idempotency,
    Priority,
    PriorityHigh,
    Budget,
    BudgetCost,
    Breaker,
    BreakerWindow,
    RateLimit,
    Bulkhead,
    Throttle,
    Memory,
    Hedge,
}

const BACKOFF: &[&str] = &[
    "kind",
    "initial",
    "multiplier",
    "step",
    "waits",
    "stages",
    "slot",
    "max_exponent",
    "cap",
    "floor",
    "first",
    "bound",
    "initial_spread",
    "reset_after",
];

impl Section {
    /// The keys, in the order in which they are told and written.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Root => &["version", "policies", "budgets", "breakers"],
            Self::Policy => &[
                "description",
                "preset",
                "base",
                "max_attempts",
                "deadline",
                "on_deadline",
                "attempt_timeout",
                "backoff",
                "jitter",
                "hint",
                "retry_on",
                "rules",
                "on",
                "budget",
                "on_budget",
                "breaker",
                "rate_limit",
                "adaptive_rate",
                "throttle",
                "bulkhead",
                "memory",
                "hedge",
                "idempotency",
                "seed",
            ],
            Self::Deadline => &["total", "reserve"],
            Self::Backoff => BACKOFF,
            // A spread before the first attempt and a reset belong to the call, not to some of its failures.
            Self::RuleBackoff => BACKOFF.split_at(12).0,
            Self::Stage => &["until", "initial", "multiplier"],
            Self::Jitter => &["kind", "factor", "max"],
            Self::Hint => &["mode", "max", "over_max", "spread"],
            Self::HintMode => &["clamp"],
            Self::On => &["transient", "throttled", "timeout", "not_sent", "permanent", "ignored"],
            Self::OnClass => &["max_attempts", "backoff", "jitter", "count"],
            Self::Rule => &["name", "classes", "max_attempts", "backoff", "jitter", "count"],
            Self::Idempotency => &["require"],
            Self::Priority => &["high"],
            Self::PriorityHigh => &["backoff", "jitter", "budget_share"],
            Self::Budget => &[
                "kind",
                "capacity",
                "refill",
                "per_success",
                "per_failure",
                "per_retry",
                "half_full",
                "ratio",
                "ttl",
                "floor",
                "cost",
                "first_success",
                "reserve",
                "scope",
            ],
            Self::BudgetCost => &["transient", "throttled", "timeout", "not_sent"],
            Self::Breaker => &[
                "window",
                "failures",
                "failure_ratio",
                "slow_ratio",
                "slow_after",
                "min_calls",
                "open_for",
                "max_probes",
                "success_ratio",
                "max_probe_duration",
                "ramp",
                "mode",
                "scope",
            ],
            Self::BreakerWindow => &["kind", "size"],
            Self::RateLimit => &["rate", "burst", "max_wait"],
            Self::Bulkhead => &["capacity", "queue", "max_wait", "retry_share"],
            Self::Throttle => &[
                "kind",
                "k",
                "threshold",
                "aggression",
                "window",
                "max_rejection",
                "min_requests",
                "rejected",
            ],
            Self::Memory => &["half_life", "steps"],
            Self::Hedge => {
                &["kind", "delay", "quantile", "floor", "ceiling", "initial", "samples", "max_attempts"]
            }
        }
    }

    /// The path of its keys from the policy.
    fn path(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Backoff | Self::RuleBackoff => "backoff",
            Self::Jitter => "jitter",
            Self::Hint => "hint",
            Self::HintMode => "hint.mode",
            Self::Idempotency => "idempotency",
            Self::Budget => "budget",
            Self::BudgetCost => "budget.cost",
            Self::Breaker => "breaker",
            Self::BreakerWindow => "breaker.window",
            Self::RateLimit => "rate_limit",
            Self::Bulkhead => "bulkhead",
            Self::Throttle => "throttle",
            Self::Memory => "memory",
            Self::Hedge => "hedge",
            Self::Root
            | Self::Policy
            | Self::Stage
            | Self::On
            | Self::OnClass
            | Self::Rule
            | Self::Priority
            | Self::PriorityHigh => "",
        }
    }
}

/// The kinds of backoff, each with the keys that only some kinds have.
pub(crate) const BACKOFF_KINDS: &[(&str, &[&str])] = &[
    ("constant", &["initial"]),
    ("linear", &["initial", "step"]),
    ("exponential", &["initial", "multiplier"]),
    ("fibonacci", &["initial"]),
    ("list", &["waits"]),
    ("stages", &["stages"]),
    ("csma", &["slot", "max_exponent"]),
];

/// The kinds of jitter, each with its keys.
pub(crate) const JITTER_KINDS: &[(&str, &[&str])] = &[
    ("none", &[]),
    ("full", &[]),
    ("equal", &[]),
    ("proportional", &["factor"]),
    ("additive", &["max"]),
    ("decorrelated", &[]),
    ("decorrelated_v2", &[]),
];

/// The kinds of budget, each with its keys.
pub(crate) const BUDGET_KINDS: &[(&str, &[&str])] = &[
    ("token_bucket", &["capacity", "refill", "per_success", "per_failure", "per_retry", "half_full"]),
    ("window", &["ratio", "ttl", "floor"]),
    ("concurrent", &["ratio", "floor"]),
    ("quota", &["capacity", "cost", "first_success"]),
];

/// The kinds of a breaker's window, each with its keys.
pub(crate) const WINDOW_KINDS: [(&str, &[&str]); 3] =
    [("count", &["size"]), ("time", &["size"]), ("consecutive", &[])];

/// The kinds of throttle, each with its keys.
pub(crate) const THROTTLE_KINDS: [(&str, &[&str]); 3] =
    [("sre", &["k", "aggression"]), ("envoy", &["threshold", "aggression"]), ("finagle", &["threshold"])];

/// The kinds of hedge, each with its keys.
pub(crate) const HEDGE_KINDS: [(&str, &[&str]); 4] = [
    ("quantile", &["quantile", "floor", "ceiling", "initial", "samples"]),
    ("fixed", &["delay"]),
    ("at_once", &[]),
    ("on_failure", &[]),
];

/// The known name that is nearest to `word`, if one is near enough to be a slip.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace(['-', ' '], "_");
    let reach = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= reach && *distance < name.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How another system's value becomes ours.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// The same value.
    Same,
    /// Retries, where we count attempts.
    Retries,
    /// A number of these.
    Millis,
    Seconds,
    /// A duration whose unit only that system knows.
    Time,
    /// A time limit, of the call or of an attempt.
    Timeout,
    /// Random or not.
    Random,
    /// A fraction around the wait.
    Around,
    /// A word, in small letters here.
    Word,
    /// The first wait in seconds in one system, the growth in another.
    Factor,
    /// A number of a hundred, where we write a ratio.
    Percent,
    /// The time for which a breaker stays open.
    OpenFor,
    /// So many in a time that stands beside it.
    PerTime,
    /// Only the name is the same.
    Name,
}

/// Other systems' names, without capitals, hyphens and underscores, from the documents of: axios-retry, p-retry, got,
/// ky, Polly, Resilience4j, Spring Retry, tenacity, stamina, backoff, urllib3, gRPC, Envoy, Istio, Temporal, Step
/// Functions, Failsafe, cenkalti/backoff, retry-go, go-retryablehttp, backon, tokio-retry, AWS SDKs.
const FOREIGN: &[(&str, &str, Meaning)] = &[
    ("maxretries", "max_attempts", Meaning::Retries),
    ("maxretry", "max_attempts", Meaning::Retries),
    ("maxretryattempts", "max_attempts", Meaning::Retries),
    ("numretries", "max_attempts", Meaning::Retries),
    ("retries", "max_attempts", Meaning::Retries),
    ("retry", "max_attempts", Meaning::Retries),
    ("retrycount", "max_attempts", Meaning::Retries),
    ("retrymax", "max_attempts", Meaning::Retries),
    ("retrylimit", "max_attempts", Meaning::Retries),
    ("limit", "max_attempts", Meaning::Retries),
    ("attempts", "max_attempts", Meaning::Same),
    ("tries", "max_attempts", Meaning::Same),
    ("maxtries", "max_attempts", Meaning::Same),
    ("maximumattempts", "max_attempts", Meaning::Same),
    ("stopafterattempt", "max_attempts", Meaning::Same),
    ("totalmaxattempts", "max_attempts", Meaning::Same),
    ("maxdelay", "backoff.cap", Meaning::Time),
    ("maxdelayms", "backoff.cap", Meaning::Millis),
    ("maxdelaymillis", "backoff.cap", Meaning::Millis),
    ("maxdelayseconds", "backoff.cap", Meaning::Seconds),
    ("maximumdelay", "backoff.cap", Meaning::Time),
    ("maxinterval", "backoff.cap", Meaning::Time),
    ("maximuminterval", "backoff.cap", Meaning::Time),
    ("maxbackoff", "backoff.cap", Meaning::Time),
    ("maxbackoffms", "backoff.cap", Meaning::Millis),
    ("maxwait", "backoff.cap", Meaning::Time),
    ("maxwaittime", "backoff.cap", Meaning::Time),
    ("maxms", "backoff.cap", Meaning::Millis),
    ("capms", "backoff.cap", Meaning::Millis),
    ("maxtimeout", "backoff.cap", Meaning::Millis),
    ("backofflimit", "backoff.cap", Meaning::Millis),
    ("backoffmax", "backoff.cap", Meaning::Seconds),
    ("exponentialmaxwaitduration", "backoff.cap", Meaning::Time),
    ("retrywaitmax", "backoff.cap", Meaning::Time),
    ("ceiling", "backoff.cap", Meaning::Time),
    ("base", "backoff.initial", Meaning::Time),
    ("basems", "backoff.initial", Meaning::Millis),
    ("basedelay", "backoff.initial", Meaning::Time),
    ("basedelayms", "backoff.initial", Meaning::Millis),
    ("baseinterval", "backoff.initial", Meaning::Time),
    ("mindelay", "backoff.initial", Meaning::Time),
    ("minbackoff", "backoff.initial", Meaning::Time),
    ("mintimeout", "backoff.initial", Meaning::Millis),
    ("initialinterval", "backoff.initial", Meaning::Time),
    ("initialdelay", "backoff.initial", Meaning::Time),
    ("initialdelayms", "backoff.initial", Meaning::Millis),
    ("initialms", "backoff.initial", Meaning::Millis),
    ("initialbackoff", "backoff.initial", Meaning::Time),
    ("initialbackoffms", "backoff.initial", Meaning::Millis),
    ("initialwait", "backoff.initial", Meaning::Time),
    ("startinginterval", "backoff.initial", Meaning::Time),
    ("waitduration", "backoff.initial", Meaning::Time),
    ("delay", "backoff.initial", Meaning::Time),
    ("delayms", "backoff.initial", Meaning::Millis),
    ("retrydelay", "backoff.initial", Meaning::Time),
    ("interval", "backoff.initial", Meaning::Time),
    ("intervalms", "backoff.initial", Meaning::Millis),
    ("intervalseconds", "backoff.initial", Meaning::Seconds),
    ("wait", "backoff.initial", Meaning::Time),
    ("retrywaitmin", "backoff.initial", Meaning::Time),
    ("minwait", "backoff.floor", Meaning::Time),
    ("factor", "backoff.multiplier", Meaning::Same),
    ("expbase", "backoff.multiplier", Meaning::Same),
    ("exponentialbase", "backoff.multiplier", Meaning::Same),
    ("exponent", "backoff.multiplier", Meaning::Same),
    ("backofffactor", "backoff.multiplier", Meaning::Factor),
    ("backoffcoefficient", "backoff.multiplier", Meaning::Same),
    ("backoffrate", "backoff.multiplier", Meaning::Same),
    ("backoffmultiplier", "backoff.multiplier", Meaning::Same),
    ("exponentialbackoffmultiplier", "backoff.multiplier", Meaning::Same),
    ("growth", "backoff.multiplier", Meaning::Same),
    ("increment", "backoff.step", Meaning::Time),
    ("delays", "backoff.waits", Meaning::Same),
    ("intervals", "backoff.waits", Meaning::Same),
    ("type", "backoff.kind", Meaning::Word),
    ("strategy", "backoff.kind", Meaning::Word),
    ("backofftype", "backoff.kind", Meaning::Word),
    ("backoffstrategy", "backoff.kind", Meaning::Word),
    ("timeout", "deadline", Meaning::Timeout),
    ("timeoutms", "deadline", Meaning::Timeout),
    ("timeoutseconds", "deadline", Meaning::Timeout),
    ("totaltimeout", "deadline", Meaning::Time),
    ("overalltimeout", "deadline", Meaning::Time),
    ("calltimeout", "deadline", Meaning::Time),
    ("maxelapsed", "deadline", Meaning::Time),
    ("maxelapsedtime", "deadline", Meaning::Time),
    ("maxduration", "deadline", Meaning::Time),
    ("maxretrytime", "deadline", Meaning::Millis),
    ("maxtime", "deadline", Meaning::Time),
    ("scheduletoclosetimeout", "deadline", Meaning::Time),
    ("stopafterdelay", "deadline", Meaning::Time),
    ("stopbeforedelay", "deadline", Meaning::Time),
    ("pertrytimeout", "attempt_timeout", Meaning::Time),
    ("perattempttimeout", "attempt_timeout", Meaning::Time),
    ("attempttimeoutms", "attempt_timeout", Meaning::Millis),
    ("starttoclosetimeout", "attempt_timeout", Meaning::Time),
    ("requesttimeout", "attempt_timeout", Meaning::Time),
    ("usejitter", "jitter", Meaning::Random),
    ("withjitter", "jitter", Meaning::Random),
    ("randomize", "jitter", Meaning::Random),
    ("random", "jitter", Meaning::Random),
    ("fulljitter", "jitter", Meaning::Random),
    ("enablerandomizedwait", "jitter", Meaning::Random),
    ("jitterstrategy", "jitter", Meaning::Word),
    ("jittertype", "jitter", Meaning::Word),
    ("jitterfactor", "jitter", Meaning::Around),
    ("randomizedwaitfactor", "jitter", Meaning::Around),
    ("randomizationfactor", "jitter", Meaning::Around),
    ("respectretryafter", "hint.mode", Meaning::Random),
    ("respectretryafterheader", "hint.mode", Meaning::Random),
    ("retryafter", "hint", Meaning::Random),
    ("maxretryafter", "hint.max", Meaning::Time),
    ("extends", "base", Meaning::Same),
    ("inherits", "base", Meaning::Same),
    ("inherit", "base", Meaning::Same),
    ("parent", "base", Meaning::Same),
    ("baseconfig", "base", Meaning::Same),
];

/// The same for what calls share: Hystrix, Resilience4j, Polly, Envoy, Istio, opossum, gobreaker, Failsafe, gRPC, Finagle,
/// Linkerd.
const FOREIGN_SHARED: &[(&str, &str, Meaning)] = &[
    ("circuitbreaker", "breaker", Meaning::Name),
    ("failureratethreshold", "breaker.failure_ratio", Meaning::Percent),
    ("errorthresholdpercentage", "breaker.failure_ratio", Meaning::Percent),
    ("failurepercentagethreshold", "breaker.failure_ratio", Meaning::Percent),
    ("slowcallratethreshold", "breaker.slow_ratio", Meaning::Percent),
    ("slowcalldurationthreshold", "breaker.slow_after", Meaning::Time),
    ("minimumnumberofcalls", "breaker.min_calls", Meaning::Same),
    ("minimumthroughput", "breaker.min_calls", Meaning::Same),
    ("requestvolumethreshold", "breaker.min_calls", Meaning::Same),
    ("volumethreshold", "breaker.min_calls", Meaning::Same),
    ("failurepercentagerequestvolume", "breaker.min_calls", Meaning::Same),
    ("consecutive5xx", "breaker.failures", Meaning::Same),
    ("consecutive5xxerrors", "breaker.failures", Meaning::Same),
    ("consecutivegatewayfailure", "breaker.failures", Meaning::Same),
    ("consecutivegatewayerrors", "breaker.failures", Meaning::Same),
    ("consecutiveerrors", "breaker.failures", Meaning::Same),
    ("consecutivefailures", "breaker.failures", Meaning::Same),
    ("failurethreshold", "breaker.failures", Meaning::Same),
    ("maxfailures", "breaker.failures", Meaning::Same),
    ("slidingwindow", "breaker.window", Meaning::Name),
    ("slidingwindowsize", "breaker.window.size", Meaning::Same),
    ("slidingwindowtype", "breaker.window.kind", Meaning::Word),
    ("samplingduration", "breaker.window.size", Meaning::Time),
    ("rollingcounttimeout", "breaker.window.size", Meaning::Millis),
    ("metricsrollingstatisticaltimeinmilliseconds", "breaker.window.size", Meaning::Millis),
    ("waitdurationinopenstate", "breaker.open_for", Meaning::OpenFor),
    ("sleepwindowinmilliseconds", "breaker.open_for", Meaning::OpenFor),
    ("breakduration", "breaker.open_for", Meaning::OpenFor),
    ("durationofbreak", "breaker.open_for", Meaning::OpenFor),
    ("resettimeout", "breaker.open_for", Meaning::OpenFor),
    ("baseejectiontime", "breaker.open_for", Meaning::OpenFor),
    ("maxejectiontime", "breaker.open_for.cap", Meaning::Time),
    ("permittednumberofcallsinhalfopenstate", "breaker.max_probes", Meaning::Same),
    ("successthreshold", "breaker.max_probes", Meaning::Same),
    ("halfopenmaxcalls", "breaker.max_probes", Meaning::Same),
    ("maxwaitdurationinhalfopenstate", "breaker.max_probe_duration", Meaning::Time),
    ("retrybudget", "budget", Meaning::Name),
    ("retrythrottling", "budget", Meaning::Name),
    ("maxtokens", "budget.capacity", Meaning::Same),
    ("tokenratio", "budget.per_success", Meaning::Same),
    ("minretriespersecond", "budget.floor", Meaning::Same),
    ("minretryconcurrency", "budget.floor", Meaning::Same),
    ("percentcanretry", "budget.ratio", Meaning::Percent),
    ("budgetpercent", "budget.ratio", Meaning::Percent),
    ("retryratio", "budget.ratio", Meaning::Same),
    ("ratelimiter", "rate_limit", Meaning::Name),
    ("limitforperiod", "rate_limit.rate", Meaning::PerTime),
    ("limitrefreshperiod", "rate_limit.rate", Meaning::PerTime),
    ("requestspersecond", "rate_limit.rate", Meaning::PerTime),
    ("permitspersecond", "rate_limit.rate", Meaning::PerTime),
    ("timeoutduration", "rate_limit.max_wait", Meaning::Time),
    ("maxconcurrentcalls", "bulkhead.capacity", Meaning::Same),
    ("maxconcurrency", "bulkhead.capacity", Meaning::Same),
    ("maxconcurrentrequests", "bulkhead.capacity", Meaning::Same),
    ("maxparallelization", "bulkhead.capacity", Meaning::Same),
    ("permitlimit", "bulkhead.capacity", Meaning::Same),
    ("maxqueuingactions", "bulkhead.queue", Meaning::Same),
    ("maxpendingrequests", "bulkhead.queue", Meaning::Same),
    ("queuelimit", "bulkhead.queue", Meaning::Same),
    ("maxwaitduration", "bulkhead.max_wait", Meaning::Time),
    ("hedging", "hedge", Meaning::Name),
    ("hedgingpolicy", "hedge", Meaning::Name),
    ("hedgingdelay", "hedge.delay", Meaning::Time),
    ("maxhedgedattempts", "hedge.max_attempts", Meaning::Retries),
    ("maxhedges", "hedge.max_attempts", Meaning::Retries),
];

/// Names that mean something else inside one of our tables than elsewhere.
const FOREIGN_INSIDE: &[(Section, &str, &str, Meaning)] = &[
    (Section::Breaker, "timeout", "breaker.open_for", Meaning::OpenFor),
    (Section::Breaker, "delay", "breaker.open_for", Meaning::OpenFor),
    (Section::Breaker, "interval", "breaker.window.size", Meaning::Time),
    (Section::Breaker, "size", "breaker.window.size", Meaning::Same),
    (Section::Breaker, "probes", "breaker.max_probes", Meaning::Same),
    (Section::Bulkhead, "limit", "bulkhead.capacity", Meaning::Same),
    (Section::Bulkhead, "maxconcurrent", "bulkhead.capacity", Meaning::Same),
    (Section::RateLimit, "limit", "rate_limit.rate", Meaning::PerTime),
    (Section::RateLimit, "requests", "rate_limit.rate", Meaning::PerTime),
    (Section::Budget, "reserved", "budget.reserve", Meaning::Same),
    (Section::Budget, "tokens", "budget.capacity", Meaning::Same),
    (Section::Hedge, "after", "hedge.delay", Meaning::Time),
    (Section::Hedge, "percentile", "hedge.quantile", Meaning::Percent),
];

/// What relent calls something that another system has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OurName {
    /// The path of the key from the policy: `"max_attempts"`, `"backoff.cap"`.
    pub path: &'static str,
    /// The difference in meaning, where there is one: words that may follow the name.
    pub note: Option<&'static str>,
}

/// Our name for what other systems call `foreign`: an option, an environment variable, a field. Capitals, hyphens and
/// underscores do not matter. None for our own names and for words that nobody uses.
///
/// ```
/// let ours = relent_config::our_name("--max-retries").unwrap();
/// assert_eq!(ours.path, "max_attempts");
/// assert_eq!(ours.note, Some("one more than the retries, for the first attempt counts"));
/// ```
pub fn our_name(foreign: &str) -> Option<OurName> {
    let plain = plain(foreign);
    let (_, path, meaning) = FOREIGN.iter().chain(FOREIGN_SHARED).find(|(name, ..)| *name == plain)?;
    let note = match meaning {
        Meaning::Retries => Some("one more than the retries, for the first attempt counts"),
        Meaning::Timeout => Some("for the whole call; each attempt has its attempt timeout"),
        _ => None,
    };
    Some(OurName { path, note })
}

/// A name without what systems write differently.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-' | ' '));
    letters.flat_map(char::to_lowercase).collect()
}

/// What should have been written instead of a key of another system, or of another table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The path of our key from the policy.
    pub(crate) key: &'static str,
    /// What we call it, quoted.
    pub(crate) names: String,
    /// A whole sentence.
    pub(crate) help: String,
    /// It is our own name, in the wrong table or with other capitals.
    pub(crate) ours: bool,
}

/// Whether `key`, which `section` does not know, has a meaning elsewhere.
pub(crate) fn translate(section: Section, key: &str, node: &Node) -> Option<Translation> {
    let plain = plain(key);
    // Our own name in other letters: `maxAttempts`.
    if let Some(ours) = section.keys().iter().find(|ours| ours.replace('_', "") == plain) {
        return Some(Translation {
            key: ours,
            names: format!("`{ours}`"),
            help: write_as(ours, &value_text(node)),
            ours: true,
        });
    }
    let inside = FOREIGN_INSIDE.iter().find(|(known, name, ..)| *known == section && *name == plain);
    if let (None, Some(found)) = (inside, misplaced(section, &plain, node)) {
        return Some(found);
    }
    let anywhere = || {
        let mut known = FOREIGN.iter().chain(FOREIGN_SHARED);
        known.find(|(foreign, path, _)| {
            // `factor` of a jitter is one of ours; only a backoff's is foreign.
            *foreign == plain && !(section == Section::Jitter && path.starts_with("backoff"))
        })
    };
    let (path, meaning) = match inside {
        Some((_, _, path, meaning)) => (path, meaning),
        None => anywhere().map(|(_, path, meaning)| (path, meaning))?,
    };
    let name = relative(section, path);
    let names = match meaning {
        Meaning::Timeout => "`deadline` (the whole call) or `attempt_timeout` (one attempt)".to_owned(),
        Meaning::Factor => "`backoff.multiplier` or `backoff.initial`".to_owned(),
        _ => format!("`{path}`"),
    };
    Some(Translation { key: path, names, help: meaning.say(name, node), ours: false })
}

/// One of our own keys in a table that it does not belong to.
fn misplaced(section: Section, plain: &str, node: &Node) -> Option<Translation> {
    const HOMES: &[(&str, &str)] = &[
        ("initial", "backoff.initial"),
        ("multiplier", "backoff.multiplier"),
        ("step", "backoff.step"),
        ("cap", "backoff.cap"),
        ("floor", "backoff.floor"),
        ("waits", "backoff.waits"),
        ("stages", "backoff.stages"),
        ("slot", "backoff.slot"),
        ("first", "backoff.first"),
        ("bound", "backoff.bound"),
        ("initialspread", "backoff.initial_spread"),
        ("resetafter", "backoff.reset_after"),
        ("reserve", "deadline.reserve"),
        ("overmax", "hint.over_max"),
        ("jitter", "jitter"),
        ("maxattempts", "max_attempts"),
        ("deadline", "deadline"),
        ("attempttimeout", "attempt_timeout"),
        ("ondeadline", "on_deadline"),
        ("onbudget", "on_budget"),
        ("retryon", "retry_on"),
        ("hint", "hint"),
        ("seed", "seed"),
        ("failureratio", "breaker.failure_ratio"),
        ("slowratio", "breaker.slow_ratio"),
        ("slowafter", "breaker.slow_after"),
        ("mincalls", "breaker.min_calls"),
        ("openfor", "breaker.open_for"),
        ("maxprobes", "breaker.max_probes"),
        ("maxprobeduration", "breaker.max_probe_duration"),
        ("burst", "rate_limit.burst"),
        ("retryshare", "bulkhead.retry_share"),
        ("quantile", "hedge.quantile"),
        ("budgetshare", "on.priority.high.budget_share"),
    ];
    let (_, path) = HOMES.iter().find(|(name, _)| *name == plain)?;
    let help = match section {
        Section::Root => {
            format!("it belongs in a policy: [policies.NAME], then {}", entry(path, &value_text(node)))
        }
        _ if path.contains('.') || section.path().is_empty() => write_as(path, &value_text(node)),
        _ => format!("it belongs in the policy, beside `{}`", section.path()),
    };
    Some(Translation { key: path, names: format!("`{path}`"), help, ours: true })
}

/// The path as it is written in `section`.
fn relative(section: Section, path: &'static str) -> &'static str {
    let inside = path.strip_prefix(section.path()).and_then(|rest| rest.strip_prefix('.'));
    inside.filter(|_| !section.path().is_empty()).unwrap_or(path)
}

impl Meaning {
    fn say(self, name: &str, node: &Node) -> String {
        let number = match &node.value {
            Value::Integer(Some(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        match self {
            Self::Retries => match (number, &node.value) {
                (Some(retries), _) => {
                    write_as(name, &retries.saturating_add(1).to_string()) + " (the first attempt counts)"
                }
                (None, Value::Integer(Some(-1))) => write_as(name, "\"unlimited\""),
                _ => format!("the name is `{name}`; it counts attempts, so it is one more than the retries"),
            },
            Self::Same if name == "max_attempts" && number == Some(0) => write_as(name, "\"unlimited\""),
            Self::Same => write_as(name, &value_text(node)),
            Self::Millis => match number {
                Some(number) => write_as(name, &quoted(Duration::from_millis(number))),
                None => Self::Time.say(name, node),
            },
            Self::Seconds => match number {
                Some(number) => write_as(name, &quoted(Duration::from_secs(number))),
                None => Self::Time.say(name, node),
            },
            Self::Time => match (number, node.string()) {
                (Some(number), _) => format!(
                    "write {} or {}, with the unit that was meant",
                    entry(name, &format!("\"{number}ms\"")),
                    entry(name, &format!("\"{number}s\""))
                ),
                (None, Some(_)) => write_as(name, &value_text(node)),
                _ => format!("the name is `{name}`"),
            },
            Self::Timeout => match (number, node.string()) {
                (_, Some(_)) => {
                    write_as("deadline", &value_text(node))
                        + ", or "
                        + &entry("attempt_timeout", &value_text(node))
                }
                _ => "give it as a duration with its unit".to_owned(),
            },
            Self::Random => match (&node.value, name) {
                (Value::Boolean(true), "hint.mode" | "mode") => write_as(name, "\"minimum\""),
                (Value::Boolean(false), "hint.mode" | "mode") => write_as(name, "\"ignore\""),
                (Value::Boolean(true), "jitter") => write_as(name, "\"full\""),
                (Value::Boolean(false), "jitter") => write_as(name, "\"none\""),
                _ => format!("the name is `{name}`"),
            },
            Self::Around => {
                let factor = value_text(node);
                write_as(name, &format!("{{ kind = \"proportional\", factor = {factor} }}"))
            }
            Self::Factor => {
                "the growth is `backoff.multiplier`; what urllib3 calls so is the first wait: `backoff.initial`".to_owned()
            }
            Self::Percent => match &node.value {
                // Where the same name has a ratio, so has ours.
                Value::Integer(Some(percent @ 2..=100)) => write_as(name, &(*percent as f64 / 100.0).to_string()),
                Value::Float(percent) if *percent > 1.0 && *percent <= 100.0 => {
                    write_as(name, &(percent / 100.0).to_string())
                }
                Value::Float(ratio) if *ratio >= 0.0 && *ratio <= 1.0 => write_as(name, &value_text(node)),
                _ => format!("the name is `{name}`, and it is a ratio from 0 to 1"),
            },
            Self::OpenFor => match (number, node.string()) {
                (_, Some(_)) => write_as(name, &format!("{{ initial = {} }}", value_text(node))),
                (Some(number), _) => format!(
                    "write {}, or \"{number}s\", with the unit that was meant",
                    entry(name, &format!("{{ initial = \"{number}ms\" }}"))
                ),
                _ => format!("the name is `{name}`; it is a table, as of a backoff"),
            },
            Self::PerTime => {
                let number = number.unwrap_or(10);
                format!("the name is `{name}`, with the time in it: {}", entry(name, &format!("\"{number}/s\"")))
            }
            Self::Name => format!("the name is `{name}`"),
            Self::Word => match node.string() {
                Some("COUNT_BASED" | "count_based") => write_as(name, "\"count\""),
                Some("TIME_BASED" | "time_based") => write_as(name, "\"time\""),
                Some(word) => write_as(name, &format!("\"{}\"", word.to_lowercase().escape_debug())),
                None => format!("the name is `{name}`"),
            },
        }
    }
}

fn write_as(name: &str, value: &str) -> String {
    format!("write {}", entry(name, value))
}

fn entry(name: &str, value: &str) -> String {
    format!("`{name} = {value}`")
}

fn quoted(duration: Duration) -> String {
    format!("\"{}\"", format_duration(duration))
}

/// The value in short, for a message.
fn value_text(node: &Node) -> String {
    match &node.value {
        Value::String(text) if text.chars().count() <= 40 => format!("\"{}\"", text.escape_debug()),
        Value::Integer(Some(number)) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        _ => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translations_lead_to_keys_that_there_are() {
        let tables = [
            Section::Backoff,
            Section::Jitter,
            Section::Hint,
            Section::Deadline,
            Section::Budget,
            Section::Breaker,
            Section::BreakerWindow,
            Section::RateLimit,
            Section::Bulkhead,
            Section::Hedge,
        ];
        let inside = FOREIGN_INSIDE.iter().map(|(_, _, path, _)| *path);
        for path in FOREIGN.iter().chain(FOREIGN_SHARED).map(|(_, path, _)| *path).chain(inside) {
            let known = match path.replace("open_for.cap", "open_for").rsplit_once('.') {
                None => Section::Policy.keys().contains(&path),
                Some((table, key)) => {
                    tables.iter().any(|section| section.path() == table && section.keys().contains(&key))
                }
            };
            assert!(known, "{path}");
        }
        for (foreign, ..) in FOREIGN.iter().chain(FOREIGN_SHARED) {
            assert!(
                foreign.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
                "{foreign}"
            );
            assert_eq!(
                FOREIGN.iter().chain(FOREIGN_SHARED).filter(|(name, ..)| name == foreign).count(),
                1,
                "{foreign} is there twice"
            );
        }
    }

    #[test]
    fn slips_find_their_name_and_strangers_do_not() {
        let keys = Section::Policy.keys().iter().copied();
        for (slip, name) in [
            ("max_atempts", "max_attempts"),
            ("Max-Attempts", "max_attempts"),
            ("jiter", "jitter"),
            ("sede", "seed"),
            ("rule", "rules"),
        ] {
            assert_eq!(nearest(slip, keys.clone()), Some(name));
        }
        for stranger in ["", "x", "http", "circuit", "queue"] {
            assert_eq!(nearest(stranger, keys.clone()), None, "{stranger}");
        }
    }
}
