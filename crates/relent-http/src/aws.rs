//! Responses of AWS services: the error's code comes before the status.
//!
//! ```
//! use http::{HeaderMap, HeaderValue, StatusCode};
//! use relent_core::{Class, Hint};
//! use relent_http::aws::Errors;
//! use std::time::Duration;
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("x-amz-retry-after", HeaderValue::from_static("1500"));
//! let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"Slow down"}"#;
//!
//! let reading = Errors::new().read(StatusCode::BAD_REQUEST, &headers, body, None);
//! assert_eq!(reading.class, Class::Throttled);
//! assert_eq!(reading.code.as_deref(), Some("ThrottlingException"));
//! assert_eq!(reading.hint, Some(Hint::After(Duration::from_millis(1500))));
//! ```

mod code;
mod skew;

use std::collections::BTreeMap;

use http::{HeaderMap, StatusCode};
use relent_core::{Class, Hint, Outcome};

use crate::hint::amz_retry_after;

pub use code::code;
pub use skew::{Skew, Times};

/// Codes of calls that were too many. The same in botocore 1.44.8 (`retries/standard.py`), aws-sdk-go-v2
/// (`aws/retry/retryable_error.go`), aws-runtime 1.10.2 (`retries/classifiers.rs`), @smithy/core 3.41.1 and the AWS SDKs
/// and Tools reference guide, "Retry behavior".
pub const THROTTLING_CODES: [&str; 14] = [
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "TransactionInProgressException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "RequestThrottled",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
];

/// Codes of failures that pass: the two of all SDKs (same sources), and two that the reference guide adds, of which
/// `IDPCommunicationError` comes from STS alone.
pub const TRANSIENT_CODES: [&str; 4] =
    ["RequestTimeout", "RequestTimeoutException", "InternalError", "IDPCommunicationError"];

/// Codes that may be due to a clock that is wrong: the seven of @smithy/core 3.41.1, which are all that aws-runtime 1.10.2
/// and aws-sdk-go-v2 know between them. Only with a measured [`Skew`] are they more than a refusal.
pub const SKEW_CODES: [&str; 7] = [
    "AccessDeniedException",
    "AuthFailure",
    "InvalidSignatureException",
    "RequestExpired",
    "RequestInTheFuture",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// The operations that poll, by service and operation: whoever calls them comes back at once, whatever is answered. The
/// first four in all SDKs, those of Kinesis since botocore 1.44.
pub const POLLING: [(&str, &str); 6] = [
    ("sqs", "ReceiveMessage"),
    ("sfn", "GetActivityTask"),
    ("swf", "PollForActivityTask"),
    ("swf", "PollForDecisionTask"),
    ("kinesis", "ReceiveQueueRecords"),
    ("kinesis", "ReceiveDeadLetterQueueRecords"),
];

/// Whether an operation polls, so that the presets `aws-standard-long-polling` and `aws-adaptive-long-polling` are for it.
pub fn polls(service: &str, operation: &str) -> bool {
    POLLING.contains(&(service, operation))
}

/// Statuses of failures that pass. All other 5xx, 501 and 505 among them, will fail again.
pub const TRANSIENT_STATUSES: [u16; 4] = [500, 502, 503, 504];

/// How the error responses of AWS services are read.
///
/// | first of these that holds | class |
/// |---|---|
/// | the status is a success | [`Class::Success`] |
/// | the code is one of [`THROTTLING_CODES`] | [`Class::Throttled`] |
/// | the code is one of [`TRANSIENT_CODES`] | [`Class::Transient`] |
/// | the service's model says something of the code ([`Errors::modelled`]) | what it says |
/// | the code is one of [`SKEW_CODES`], and a skew was measured | [`Class::Transient`] |
/// | the status is one of [`TRANSIENT_STATUSES`] | [`Class::Transient`] |
/// | the status is 429, and the model does not know the code | [`Class::Throttled`] |
/// | nothing | [`Class::Permanent`] |
///
/// 429 without a code that is known is where the SDKs differ: JavaScript's retries it always, Python's since 1.44 unless
/// the code is one of the service's own, Rust's (1.16) never. This is Python's way.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    modelled: BTreeMap<String, Modelled>,
}

/// What a service's model says of one of its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modelled {
    /// Nothing about retries.
    Plain,
    /// The trait `retryable`.
    Retryable,
    /// The trait `retryable` with `throttling: true`.
    Throttling,
}

/// What a response says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Reading {
    /// Whether another try would help.
    pub class: Class,
    /// The error's code, without namespace.
    pub code: Option<String>,
    /// `x-amz-retry-after`.
    pub hint: Option<Hint>,
    /// How far the server's clock is from ours, where that is the trouble: sign the next attempt by the server's.
    pub skew: Option<Skew>,
}

impl Reading {
    /// What the decision is told. Whether the call may be repeated is for others to say.
    pub const fn outcome(&self) -> Outcome {
        Outcome { hint: self.hint, ..Outcome::of(self.class) }
    }
}

impl Errors {
    /// By codes and statuses that all services have in common.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error of the service's model, by its code.
    #[must_use]
    pub fn modelled(mut self, code: impl Into<String>, says: Modelled) -> Self {
        self.modelled.insert(code.into(), says);
        self
    }

    /// Reads a response. `body` may be empty or cut off, where the code is in the headers or does not matter; `times` are
    /// needed to measure a skew.
    pub fn read(&self, status: StatusCode, headers: &HeaderMap, body: &str, times: Option<Times>) -> Reading {
        if status.is_success() {
            return Reading { class: Class::Success, code: None, hint: None, skew: None };
        }
        let code = code(headers, body);
        let of_clock = code.as_deref().is_some_and(|code| SKEW_CODES.contains(&code));
        let skew = times.filter(|_| of_clock).and_then(|times| Skew::measured(headers, times));
        let class = self.class(status, code.as_deref(), skew);
        Reading { class, code, hint: amz_retry_after(headers).map(Hint::After), skew }
    }

    /// The class of an error whose code and skew are known.
    pub fn class(&self, status: StatusCode, code: Option<&str>, skew: Option<Skew>) -> Class {
        let among = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
        let modelled = code.and_then(|code| self.modelled.get(code));
        match modelled {
            _ if status.is_success() => Class::Success,
            _ if among(&THROTTLING_CODES) => Class::Throttled,
            _ if among(&TRANSIENT_CODES) => Class::Transient,
            Some(Modelled::Throttling) => Class::Throttled,
            Some(Modelled::Retryable) => Class::Transient,
            _ if among(&SKEW_CODES) && skew.is_some() => Class::Transient,
            _ if TRANSIENT_STATUSES.contains(&status.as_u16()) => Class::Transient,
            None if status == StatusCode::TOO_MANY_REQUESTS => Class::Throttled,
            _ => Class::Permanent,
        }
    }
}
