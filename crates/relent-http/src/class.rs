//! What statuses and broken connections say about another try.
//!
//! ```
//! use http::StatusCode;
//! use relent_core::Class;
//! use relent_http::class::{Table, Transport};
//!
//! let table = Table::new().with(Class::Transient, [StatusCode::CONFLICT, StatusCode::TOO_EARLY]);
//! assert_eq!(table.status(StatusCode::CONFLICT), Class::Transient);
//! assert_eq!(table.status(StatusCode::TOO_MANY_REQUESTS), Class::Throttled);
//!
//! // Nothing was done, so that even a POST may be sent again.
//! assert_eq!(Transport::Refused.class(), Class::NotSent);
//! ```
//!
//! Whether another try is *safe* is another question: [`safety`](crate::safety).

#[cfg(feature = "config")]
mod config;

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use relent_core::{Class, Outcome};

use crate::hint;

#[cfg(feature = "config")]
pub use config::{CLASSES, TABLE};

/// Statuses of failures that may pass: 408 is the server that waited in vain for the request (RFC 9110 §15.5.9), 500 what
/// nobody expected, 502 to 504 a server behind another that is away or late (§15.6).
pub const TRANSIENT: [StatusCode; 5] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// The classes of statuses.
///
/// | status | class |
/// |---|---|
/// | below 400 | [`Class::Success`]: it was answered; redirects are for whoever follows them |
/// | 429 | [`Class::Throttled`] (RFC 6585 §4) |
/// | those in [`TRANSIENT`] | [`Class::Transient`] |
/// | all others, 400, 401, 403, 404, 409, 422 and 501 among them | [`Class::Permanent`] |
///
/// Any of them can be changed, in code or in a policy file: `http = { transient = [409, 425], ignored = [404] }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    changed: BTreeMap<u16, Class>,
}

impl Table {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives statuses a class.
    #[must_use]
    pub fn with(mut self, class: Class, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        self.changed.extend(statuses.into_iter().map(|status| (status.as_u16(), class)));
        self
    }

    /// The class of a status.
    pub fn status(&self, status: StatusCode) -> Class {
        match self.changed.get(&status.as_u16()) {
            Some(class) => *class,
            None if status.as_u16() < 400 => Class::Success,
            None if status == StatusCode::TOO_MANY_REQUESTS => Class::Throttled,
            None if TRANSIENT.contains(&status) => Class::Transient,
            None => Class::Permanent,
        }
    }

    /// What the decision is told of a response: its class, and what it asks for, as [`hint::read`] reads it. With
    /// `x-should-retry: true` what would be [`Class::Permanent`] is [`Class::Transient`]: the server knows better.
    /// Whether the call may be repeated is for [`safety`](crate::safety) to say.
    pub fn response(&self, status: StatusCode, headers: &HeaderMap, body: &str, now: Duration) -> Outcome {
        let class = match self.status(status) {
            Class::Permanent if hint::should_retry(headers) == Some(true) => Class::Transient,
            class => class,
        };
        let hint = if class == Class::Success { None } else { hint::read(status, headers, body, now) };
        Outcome { hint, ..Outcome::of(class) }
    }
}

/// How an attempt ended that has no response, or not all of one. Adapters find it in the errors of their client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// The name was not found, or nobody answered the question.
    Dns,
    /// Nobody listens there.
    Refused,
    /// There was no connection, for another reason.
    NotConnected,
    /// The connection was not there in time.
    ConnectTimeout,
    /// The TLS handshake was begun, and broken off or not done in time.
    Handshake,
    /// HTTP/2: the server says that it did nothing about this request (RFC 9113 §8.7).
    NotProcessed,
    /// The connection or the stream was reset after it had been there.
    Reset,
    /// The connection was closed before the response was complete.
    Closed,
    /// HTTP/2: the server has had enough (`ENHANCE_YOUR_CALM`, RFC 9113 §7).
    Calm,
    /// The attempt took too long.
    Timeout,
    /// What came was not HTTP, or not in a version that both speak.
    Protocol,
    /// The server's certificate is not to be trusted, or ours was refused.
    Certificate,
    /// The address is none, or its scheme is not supported.
    Address,
    /// The caller gave up.
    Cancelled,
}

impl Transport {
    /// All of them, in order.
    pub const ALL: [Self; 14] = [
        Self::Dns,
        Self::Refused,
        Self::NotConnected,
        Self::ConnectTimeout,
        Self::Handshake,
        Self::NotProcessed,
        Self::Reset,
        Self::Closed,
        Self::Calm,
        Self::Timeout,
        Self::Protocol,
        Self::Certificate,
        Self::Address,
        Self::Cancelled,
    ];

    /// The class. What was not sent is safe even for a POST; what broke off after connecting counts as sent.
    pub const fn class(self) -> Class {
        match self {
            Self::Dns
            | Self::Refused
            | Self::NotConnected
            | Self::ConnectTimeout
            | Self::Handshake
            | Self::NotProcessed => Class::NotSent,
            Self::Reset | Self::Closed => Class::Transient,
            Self::Calm => Class::Throttled,
            Self::Timeout => Class::Timeout,
            Self::Protocol | Self::Certificate | Self::Address => Class::Permanent,
            Self::Cancelled => Class::Cancelled,
        }
    }

    /// What a stream that was reset with this code of HTTP/2 says (RFC 9113 §7).
    pub const fn of_reset(code: u32) -> Self {
        match code {
            0x7 => Self::NotProcessed, // REFUSED_STREAM
            0xb => Self::Calm,
            0xc | 0xd => Self::Protocol, // INADEQUATE_SECURITY, HTTP_1_1_REQUIRED
            _ => Self::Reset,
        }
    }

    /// What a GOAWAY says about a stream: those above the last one were not processed (RFC 9113 §6.8); of the others it
    /// is not known, whatever the code.
    pub const fn of_goaway(stream: u32, last_stream: u32, code: u32) -> Self {
        if stream > last_stream {
            return Self::NotProcessed;
        }
        match Self::of_reset(code) {
            Self::NotProcessed => Self::Reset,
            known => known,
        }
    }
}

impl From<Transport> for Outcome {
    fn from(transport: Transport) -> Self {
        Self::of(transport.class())
    }
}
