//! gRPC's service config: retries, hedging and throttling as gRFC A6 has them (grpc/proposal,
//! A6-client-retries.md, as of August 2024).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use relent_core::{
    Backoff, Bound, Class, HedgePolicy, HintMode, HintPolicy, Jitter, Multiplier, Policy, PolicyBuilder,
    Schedule, TokenBucket,
};

use super::json::{self, Reader};
use crate::diagnostic::{Code, Diagnostic, Errors, Problem, Severity};
use crate::source::Sources;
use crate::text::shorten;
use crate::tree::{Node, Table, Value};

/// The most attempts of a call: gRPC clients take a larger number as this one.
const MOST_ATTEMPTS: u32 = 5;

/// By how much a wait may differ from the scheduled one, either way.
const JITTER: f64 = 0.2;

/// Thousandths in a token.
const TOKEN: f64 = 1_000.0;

const RETRY_POLICY: &[&str] = &[
    "maxAttempts",
    "initialBackoff",
    "maxBackoff",
    "backoffMultiplier",
    "retryableStatusCodes",
    "perAttemptRecvTimeout",
];

const HEDGING_POLICY: &[&str] = &["maxAttempts", "hedgingDelay", "nonFatalStatusCodes"];

const THROTTLING: &[&str] = &["maxTokens", "tokenRatio"];

/// A status that a gRPC call ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "gRPC's documents say what each is for")]
pub enum GrpcCode {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl GrpcCode {
    /// All codes; each is at its own number.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Its name in a service config: `"UNAVAILABLE"`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// What a code that is to be retried says about the failure.
    const fn failure(self) -> Class {
        match self {
            Self::ResourceExhausted => Class::Throttled,
            Self::DeadlineExceeded => Class::Timeout,
            _ => Class::Transient,
        }
    }
}

impl fmt::Display for GrpcCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for GrpcCode {
    type Err = relent_core::UnknownWord;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|code| code.as_str() == name).ok_or(relent_core::UnknownWord)
    }
}

/// A service config.
///
/// ```
/// use relent_config::foreign::{GrpcCode, ServiceConfig};
/// use relent_core::Class;
///
/// let config = ServiceConfig::parse(
///     r#"{
///         "methodConfig": [{
///             "name": [{"service": "shop.Orders"}],
///             "timeout": "5s",
///             "retryPolicy": {
///                 "maxAttempts": 4,
///                 "initialBackoff": "0.1s",
///                 "maxBackoff": "1s",
///                 "backoffMultiplier": 2,
///                 "retryableStatusCodes": ["UNAVAILABLE"]
///             }
///         }],
///         "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
///     }"#,
///     "service-config.json",
/// )?;
/// let method = config.method("shop.Orders/List").unwrap();
/// assert_eq!(method.policy().max_attempts(), Some(4));
/// assert_eq!(method.class(GrpcCode::Unavailable), Class::Transient);
/// assert_eq!(method.class(GrpcCode::Internal), Class::Permanent);
/// # Ok::<(), relent_config::Errors>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    methods: Vec<MethodConfig>,
    /// By service and method; an empty method is all of a service's, an empty service all there are.
    names: BTreeMap<(String, String), usize>,
    throttling: Option<TokenBucket>,
    warnings: Vec<Diagnostic>,
}

/// What a service config says about some methods.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodConfig {
    policy: Policy,
    hedge: Option<HedgePolicy>,
    codes: Vec<GrpcCode>,
}

impl ServiceConfig {
    /// Reads a text. `name` is the file's name, for messages.
    ///
    /// # Errors
    ///
    /// All that gRPC refuses about `methodConfig` and `retryThrottling`, in order of place. What else is in the text is
    /// not looked at.
    pub fn parse(text: &str, name: &str) -> Result<Self, Errors> {
        let (config, warnings) = json::alone(text, name, Self::read)?;
        Ok(Self { warnings, ..config })
    }

    pub(crate) fn read(sources: &Sources, index: usize) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (mut reader, root) = Reader::parse(sources, index)?;
        let config = reader.config(&root);
        reader.finish(config)
    }

    /// What holds for a method, by its full name (`pkg.Service/Method`, with or without a slash before it): what is
    /// said for itself, else for its service, else for all.
    pub fn method(&self, name: &str) -> Option<&MethodConfig> {
        let name = name.strip_prefix('/').unwrap_or(name);
        let (service, method) = name.rsplit_once('/').unwrap_or((name, ""));
        let of = |service: &str, method: &str| self.names.get(&(service.to_owned(), method.to_owned()));
        let index = of(service, method).or_else(|| of(service, "")).or_else(|| of("", ""))?;
        self.methods.get(*index)
    }

    /// The budget that all calls to one server name share.
    pub fn throttling(&self) -> Option<TokenBucket> {
        self.throttling
    }

    /// What gRPC accepts and hardly anybody means: keys that it does not know, attempts beyond the five that it makes.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
}

impl MethodConfig {
    /// The deadline and the retries of a call. A pushback replaces a wait however long it is.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The hedging, where there is some; then there are no retries.
    pub fn hedge(&self) -> Option<HedgePolicy> {
        self.hedge
    }

    /// The codes that are retried; where calls are hedged, those that do not end a call.
    pub fn codes(&self) -> &[GrpcCode] {
        &self.codes
    }

    /// What a code means to a call: a code that is not listed is permanent, but for a cancelled call.
    pub fn class(&self, code: GrpcCode) -> Class {
        match code {
            GrpcCode::Ok => Class::Success,
            code if self.codes.contains(&code) => code.failure(),
            GrpcCode::Cancelled => Class::Cancelled,
            _ => Class::Permanent,
        }
    }
}

/// A policy that obeys pushbacks and has no retries yet.
fn plain() -> PolicyBuilder {
    let hint = HintPolicy::DEFAULT.mode(HintMode::Exact).max(Duration::MAX).spread(0.0);
    Policy::default().to_builder().max_attempts(1).hint(hint)
}

impl Reader {
    fn config(&mut self, root: &Node) -> ServiceConfig {
        let mut config = ServiceConfig {
            methods: Vec::new(),
            names: BTreeMap::new(),
            throttling: None,
            warnings: Vec::new(),
        };
        let Some(table) = self.object(root, "the service config") else { return config };
        if let Some(node) = set(table, "methodConfig") {
            for (index, node) in self.array(node, "methodConfig").into_iter().flatten().enumerate() {
                let path = format!("methodConfig[{index}]");
                let Some(table) = self.object(node, &path) else { continue };
                self.names(table, &path, &mut config.names, index);
                let method = self.method(table, &path);
                config.methods.push(method);
            }
        }
        config.throttling = set(table, "retryThrottling").and_then(|node| self.throttling(node));
        config
    }

    fn names(
        &mut self,
        table: &Table,
        path: &str,
        names: &mut BTreeMap<(String, String), usize>,
        index: usize,
    ) {
        let path = format!("{path}.name");
        let Some(node) = set(table, "name") else { return };
        for node in self.array(node, &path).into_iter().flatten() {
            let Some(name) = self.object(node, &path) else { continue };
            let mut part = |key: &str| match set(name, key) {
                Some(node) => self.string(node, &format!("{path}.{key}")).map(str::to_owned),
                None => Some(String::new()),
            };
            let (Some(service), Some(method)) = (part("service"), part("method")) else { continue };
            if service.is_empty() && !method.is_empty() {
                self.missing(node, &path, "service", "name the service of the method");
                continue;
            }
            let shown = match (service.as_str(), method.as_str()) {
                ("", _) => "all methods".to_owned(),
                (service, "") => format!("`{}`", shorten(service)),
                (service, method) => format!("`{}/{}`", shorten(service), shorten(method)),
            };
            if names.insert((service, method), index).is_some() {
                let message = format!("{shown} has a `methodConfig` twice");
                self.push(Problem::new(Code::DuplicateKey, &node.place, message));
            }
        }
    }

    fn method(&mut self, table: &Table, path: &str) -> MethodConfig {
        let mut builder = plain();
        let timeout =
            set(table, "timeout").and_then(|node| self.seconds(node, &format!("{path}.timeout"), false));
        if let Some(timeout) = timeout {
            builder = builder.deadline(timeout);
        }
        let (retry, hedging) = (set(table, "retryPolicy"), set(table, "hedgingPolicy"));
        if let (Some(_), Some(node)) = (retry, hedging) {
            let message = format!("`{path}` has both a `retryPolicy` and a `hedgingPolicy`");
            self.push(Problem::new(Code::Conflict, &node.key, message).help("leave one of them out"));
        }
        let (mut codes, mut hedge) = (Vec::new(), None);
        if let Some(node) = retry {
            (builder, codes) = self.retry_policy(builder, node, &format!("{path}.retryPolicy"));
        } else if let Some(node) = hedging {
            (hedge, codes) = self.hedging_policy(node, &format!("{path}.hedgingPolicy"));
        }
        // All that the core refuses was refused above.
        MethodConfig { policy: builder.build().unwrap_or_else(|_| Policy::never()), hedge, codes }
    }

    fn retry_policy(
        &mut self,
        builder: PolicyBuilder,
        node: &Node,
        path: &str,
    ) -> (PolicyBuilder, Vec<GrpcCode>) {
        let Some(table) = self.object(node, path) else { return (builder, Vec::new()) };
        self.only_keys(table, path, RETRY_POLICY, Severity::Warning);
        let attempts = self.attempts(node, table, path);
        let mut wait = |key: &str| {
            let node = self.required(node, table, path, key, "write a duration as `\"0.1s\"`")?;
            self.seconds(node, &format!("{path}.{key}"), false)
        };
        let (initial, most) = (wait("initialBackoff"), wait("maxBackoff"));
        let multiplier = self.required(node, table, path, "backoffMultiplier", "`2` doubles each wait");
        let multiplier = multiplier.and_then(|node| {
            self.number(node, &format!("{path}.backoffMultiplier"), "a number above 0", |number| number > 0.0)
        });
        let help = "name at least one, as `[\"UNAVAILABLE\"]`";
        let codes = match self.required(node, table, path, "retryableStatusCodes", help) {
            Some(node) => self.codes(node, &format!("{path}.retryableStatusCodes"), true),
            None => Vec::new(),
        };
        let (Some(attempts), Some(initial), Some(most), Some(multiplier)) =
            (attempts, initial, most, multiplier)
        else {
            return (builder, codes);
        };
        let backoff = Backoff::new(schedule(initial, most, multiplier))
            .cap(most)
            .jitter(Jitter::Proportional { factor: JITTER })
            .bound(Bound::Loose);
        (builder.max_attempts(attempts).backoff(backoff), codes)
    }

    fn hedging_policy(&mut self, node: &Node, path: &str) -> (Option<HedgePolicy>, Vec<GrpcCode>) {
        let Some(table) = self.object(node, path) else { return (None, Vec::new()) };
        self.only_keys(table, path, HEDGING_POLICY, Severity::Warning);
        let attempts = self.attempts(node, table, path);
        let delay = match set(table, "hedgingDelay") {
            Some(node) => self.seconds(node, &format!("{path}.hedgingDelay"), true),
            None => Some(Duration::ZERO),
        };
        let codes = match set(table, "nonFatalStatusCodes") {
            Some(node) => self.codes(node, &format!("{path}.nonFatalStatusCodes"), false),
            None => Vec::new(),
        };
        let hedge =
            attempts.zip(delay).map(|(attempts, delay)| HedgePolicy::after(delay).max_attempts(attempts));
        (hedge, codes)
    }

    fn throttling(&mut self, node: &Node) -> Option<TokenBucket> {
        let path = "retryThrottling";
        let table = self.object(node, path)?;
        self.only_keys(table, path, THROTTLING, Severity::Warning);
        let tokens = self.required(node, table, path, "maxTokens", "write a number from 1 to 1000");
        let tokens = tokens.and_then(|node| self.whole(node, "retryThrottling.maxTokens", 1..=1000));
        let ratio = self.required(node, table, path, "tokenRatio", "write what a success brings, as `0.1`");
        let ratio = ratio.and_then(|node| {
            // Further digits than three are not looked at, so that what is left of them must not be nothing.
            let fits = |ratio: f64| ratio >= 1.0 / TOKEN && ratio <= f64::from(u32::MAX) / TOKEN;
            self.number(node, "retryThrottling.tokenRatio", "a number of at least 0.001", fits)
        });
        Some(TokenBucket::grpc(tokens?, thousandths(ratio?)))
    }

    fn attempts(&mut self, node: &Node, table: &Table, path: &str) -> Option<u32> {
        let node =
            self.required(node, table, path, "maxAttempts", "the first attempt counts: write at least 2")?;
        let attempts = self.whole(node, &format!("{path}.maxAttempts"), 2..=u32::MAX)?;
        if attempts > MOST_ATTEMPTS {
            let message = format!("gRPC makes {MOST_ATTEMPTS} attempts at most");
            self.push(Problem::new(Code::NoEffect, &node.place, message).warning());
        }
        Some(attempts.min(MOST_ATTEMPTS))
    }

    fn codes(&mut self, node: &Node, path: &str, required: bool) -> Vec<GrpcCode> {
        let Some(elements) = self.array(node, path) else { return Vec::new() };
        if elements.is_empty() && required {
            let problem = Problem::new(Code::BadValue, &node.place, format!("`{path}` names no code"));
            self.push(problem.label("expected at least one"));
        }
        let mut codes = Vec::new();
        for node in elements {
            let code = match &node.value {
                Value::String(name) => name.parse().ok(),
                Value::Integer(Some(number)) => u32::try_from(*number).ok().and_then(GrpcCode::from_number),
                _ => None,
            };
            match code {
                Some(GrpcCode::Ok) => self.mistyped(node, path, "codes of failures"),
                Some(code) if codes.contains(&code) => {}
                Some(code) => codes.push(code),
                None => {
                    let known = GrpcCode::ALL.iter().map(|code| code.as_str());
                    let near = node.string().and_then(|name| crate::names::nearest(name, known));
                    let problem = Problem::new(Code::UnknownWord, &node.place, "gRPC has no such code");
                    self.push(match near {
                        Some(near) => problem.help(format!("did you mean `\"{near}\"`?")),
                        None => problem.label("expected the name of a code, in capitals, or its number"),
                    });
                }
            }
        }
        codes
    }

    /// A duration as JSON has it for protocol buffers: a decimal number of seconds with at most nine digits after the
    /// point, and `s`.
    fn seconds(&mut self, node: &Node, path: &str, zero: bool) -> Option<Duration> {
        let wait = node.string().and_then(seconds).filter(|wait| zero || !wait.is_zero());
        if wait.is_none() {
            let least = if zero { "" } else { " above 0" };
            self.mistyped(node, path, &format!("seconds{least}, as \"0.1s\""));
        }
        wait
    }

    fn required<'t>(
        &mut self,
        node: &Node,
        table: &'t Table,
        path: &str,
        key: &str,
        help: &str,
    ) -> Option<&'t Node> {
        let found = set(table, key);
        if found.is_none() {
            self.missing(node, path, key, help);
        }
        found
    }
}

/// In JSON for protocol buffers null stands for what is not there.
fn set<'t>(table: &'t Table, key: &str) -> Option<&'t Node> {
    table.get(key).filter(|node| !matches!(node.value, Value::Null))
}

/// The waits before cap and jitter.
fn schedule(initial: Duration, most: Duration, multiplier: f64) -> Schedule {
    match Multiplier::new(multiplier) {
        Some(multiplier) => Schedule::Exponential { initial, multiplier },
        // A multiplier below 1 makes waits shorter, which no growing schedule does; there are four of them at most.
        None => {
            let wait = |n: i32| {
                let wait = Duration::try_from_secs_f64(initial.as_secs_f64() * multiplier.powi(n));
                wait.unwrap_or(most)
            };
            Schedule::List((0..MOST_ATTEMPTS as i32 - 1).map(wait).collect())
        }
    }
}

/// `ratio` in thousandths; further digits are cut off.
fn thousandths(ratio: f64) -> u32 {
    // 0.001 × 1000 may come out a little below what was written.
    let nearest = (ratio * TOKEN).round();
    let whole = if nearest / TOKEN <= ratio { nearest } else { (ratio * TOKEN).floor() };
    whole as u32
}

fn seconds(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !digits(whole, 12) || !digits(fraction, 9) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_three_digits() {
        for (ratio, expected) in
            [(0.1, 100), (0.001, 1), (0.29, 290), (0.0019, 1), (0.5466, 546), (1.005, 1005), (2.0, 2000)]
        {
            assert_eq!(thousandths(ratio), expected, "{ratio}");
        }
    }

    #[test]
    fn durations_are_those_of_protocol_buffers() {
        assert_eq!(seconds("0.1s"), Some(Duration::from_millis(100)));
        assert_eq!(seconds("15s"), Some(Duration::from_secs(15)));
        assert_eq!(seconds("1.000000001s"), Some(Duration::new(1, 1)));
        for text in ["", "s", "1", "1.s", ".1s", "-1s", "+1s", "1 s", "1ms", "1.0000000001s", "0x1s", "1e3s"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
