//! What layers that retry tell each other, so that their attempts do not multiply.
//!
//! A client that tries three times calls a service that tries three times calls a service that tries three times: 27 calls,
//! all in the minute in which the last service can bear them least. With these headers the innermost one tries three times,
//! says that it gave up, and the others do not begin anew; and each knows how much time is left.
//!
//! ```
//! use http::HeaderMap;
//! use relent_core::{Hint, Reason};
//! use relent_http::layers::Peer;
//! use std::time::Duration;
//!
//! // The outer layer, before its second attempt.
//! let mut request = HeaderMap::new();
//! Peer::Ours.send(&mut request, 2, Some(Duration::from_millis(1500)));
//!
//! // The inner one: it takes no longer, and in the end says that it gave up.
//! let told = Peer::Ours.received(&request);
//! assert_eq!((told.attempt, told.remaining), (2, Some(Duration::from_millis(1500))));
//! let mut response = HeaderMap::new();
//! Peer::Ours.give_up(&mut response, Reason::AttemptsExhausted);
//!
//! // The outer one stops.
//! assert_eq!(Peer::Ours.hint(&response), Some(Hint::Stop));
//! assert_eq!(Peer::Stranger.hint(&response), None);
//! ```
//!
//! # The headers
//!
//! | header | on | says |
//! |---|---|---|
//! | `relent-attempt` | requests | the attempt's number, from 1 |
//! | `relent-remaining-ms` | requests | how much of the deadline is left, in milliseconds |
//! | `relent-gave-up` | responses | that a layer below tried, and why it stopped: a [`Reason`] |
//!
//! Understood besides: `x-envoy-attempt-count` (from 1) and `x-envoy-expected-rq-timeout-ms` of Envoy, gRPC's
//! `grpc-previous-rpc-attempts` (gRFC A6) and `grpc-timeout`.
//!
//! Times are spans and not points, since two machines' clocks differ.

use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use relent_core::{Hint, Reason};

use crate::texts::texts;

/// The header with the number of the attempt, from 1.
pub const ATTEMPT: HeaderName = HeaderName::from_static("relent-attempt");

/// The header with what is left of the deadline, in whole milliseconds.
pub const REMAINING: HeaderName = HeaderName::from_static("relent-remaining-ms");

/// The header that says why a layer below gave up.
pub const GAVE_UP: HeaderName = HeaderName::from_static("relent-gave-up");

const ENVOY_ATTEMPT: HeaderName = HeaderName::from_static("x-envoy-attempt-count");
const ENVOY_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// Whoever is on the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Somebody else: nothing is told, nothing is believed, and what others of ours said goes no further.
    #[default]
    Stranger,
    /// A service of our own: layers tell each other what they do.
    Ours,
}

/// What a request says about the layers above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Above {
    /// The attempt of the layer above, from 1; the highest number that is said.
    pub attempt: u32,
    /// How long it will wait for this one; the shortest time that is said.
    pub remaining: Option<Duration>,
}

impl Peer {
    /// Puts the number of an attempt, from 1, and what is left of the call's deadline into a request. To a stranger, what
    /// of it stands there is taken out.
    pub fn send(self, headers: &mut HeaderMap, attempt: u32, remaining: Option<Duration>) {
        headers.remove(ATTEMPT);
        headers.remove(REMAINING);
        if self == Self::Ours {
            headers.insert(ATTEMPT, HeaderValue::from(attempt));
            // Rounded down: no later than the deadline.
            let remaining = remaining.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            headers.extend(remaining.map(|milliseconds| (REMAINING, HeaderValue::from(milliseconds))));
        }
    }

    /// What a request says. What is malformed says nothing. From a stranger: the first attempt, and no deadline.
    pub fn received(self, headers: &HeaderMap) -> Above {
        if self == Self::Stranger {
            return Above { attempt: 1, remaining: None };
        }
        let numbers = |name: HeaderName| texts(headers, name).filter_map(number);
        let previous = numbers(PREVIOUS_ATTEMPTS).map(|previous| previous.saturating_add(1));
        let attempts = numbers(ATTEMPT).chain(numbers(ENVOY_ATTEMPT)).chain(previous);
        let attempt = attempts.max().map_or(1, |attempt| u32::try_from(attempt).unwrap_or(u32::MAX).max(1));
        let times = numbers(REMAINING).chain(numbers(ENVOY_TIMEOUT)).map(Duration::from_millis);
        let remaining = times.chain(texts(headers, "grpc-timeout").filter_map(grpc_timeout)).min();
        Above { attempt, remaining }
    }

    /// Says in a response that its call was tried here, and why no more. Only a reason for which another layer's attempts
    /// would be of no use: not one that a call without a retry could have ended with, and not that a repeat is not safe, of
    /// which another layer may know more. To a stranger, what a layer below said is taken out.
    pub fn give_up(self, headers: &mut HeaderMap, reason: Reason) {
        match self {
            Self::Ours if tells(reason) => {
                headers.insert(GAVE_UP, HeaderValue::from_static(reason.as_str()));
            }
            Self::Ours => {}
            Self::Stranger => {
                headers.remove(GAVE_UP);
            }
        }
    }

    /// Why a layer below gave up.
    pub fn gave_up(self, headers: &HeaderMap) -> Option<Reason> {
        let believed = texts(headers, GAVE_UP).filter(|_| self == Self::Ours);
        believed.filter_map(|word| word.parse().ok()).find(|reason| tells(*reason))
    }

    /// What that asks for: [`Hint::Stop`], before all that a response asks for otherwise.
    pub fn hint(self, headers: &HeaderMap) -> Option<Hint> {
        self.gave_up(headers).map(|_| Hint::Stop)
    }
}

const fn tells(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::AttemptsExhausted
            | Reason::DeadlineWouldPass
            | Reason::DeadlinePassed
            | Reason::BudgetExhausted
            | Reason::CircuitOpen
            | Reason::RateLimited
            | Reason::BulkheadFull
            | Reason::HintOverMax
            | Reason::PushbackStop
    )
}

/// Digits; too many of them are the largest number.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Up to eight digits and a unit (gRPC over HTTP/2, "Timeout").
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count = number(digits).filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}
