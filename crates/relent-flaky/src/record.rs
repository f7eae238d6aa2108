//! One request, for logs and hooks.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use serde::{Serialize, Serializer};

use crate::fate::{Arrival, Cause, Done, Fate, Seen};

/// One request and what was decided about it, told before the wait and the answer.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// When it came, since the start; in JSON milliseconds.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Duration,
    /// Who sent it.
    pub peer: SocketAddr,
    /// `"1.1"` or `"2"`.
    pub http: &'static str,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// Which request it is of those that are counted together, from 1.
    pub number: u64,
    /// What becomes of it: `"503"`, `"reset"`, `"200+cut"` …
    pub answer: String,
    /// The status that is sent, if any.
    pub status: Option<u16>,
    /// What decided that.
    pub cause: Cause,
    /// Whether it changed anything.
    pub done: Done,
    /// The wait before the answer; in JSON milliseconds.
    #[serde(rename = "wait_ms", serialize_with = "millis")]
    pub wait: Duration,
    /// The attempt number that the client sent.
    pub attempt: Option<String>,
    /// Its `Idempotency-Key`.
    pub key: Option<String>,
    /// The length of its body, in bytes.
    pub body_length: u64,
    /// The body's FNV-1a hash of 64 bits, as 16 hexadecimal digits.
    pub body_hash: String,
}

impl Record {
    pub(crate) fn new(
        at: Duration,
        peer: SocketAddr,
        is_http2: bool,
        arrival: Arrival,
        fate: &Fate,
        body: Seen,
    ) -> Self {
        Self {
            at,
            peer,
            http: if is_http2 { "2" } else { "1.1" },
            method: arrival.method,
            path: arrival.path,
            number: fate.number,
            answer: fate.step.label(),
            status: fate.step.status_sent().as_ref().map(StatusCode::as_u16),
            cause: fate.cause,
            done: fate.done,
            wait: fate.wait,
            attempt: arrival.attempt,
            key: arrival.key,
            body_length: body.length,
            body_hash: format!("{:016x}", body.hash),
        }
    }
}

/// Down to the microsecond.
fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e3)
}
